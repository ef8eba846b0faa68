/* watch.c is the only file that uses libuv's internals. libwebsockets creates its poll handles itself, and libuv has no
 * function to find the handle of a socket or to read and replace its callback. Walking over all handles for each new
 * connection would be quadratic, and uv_poll_start would also change the events that libwebsockets waits for. */
#include "net/watch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct watch **by_fd;
static size_t room; /* entries for which there is memory */
static uv_poll_cb original;

struct watch *watch_of(int fd)
{
	return fd >= 0 && (size_t)fd < room ? by_fd[fd] : NULL;
}

/* libwebsockets may end the connection, and another may begin on its socket. */
static void on_poll(uv_poll_t *handle, int status, int events)
{
	uv_os_fd_t fd = -1;
	struct watch *w;

	uv_fileno((uv_handle_t *)handle, &fd);
	w = watch_of(fd);
	if (!w || w->on_poll(w, &status, &events))
		original(handle, status, events);
	w = watch_of(fd);
	if (!w || w->poll != handle || uv_is_closing((uv_handle_t *)handle))
		return;
	watch_hook(w);
	if (w->on_served)
		w->on_served(w);
}

void watch_hook(struct watch *w)
{
	if (!w->poll || w->poll->poll_cb == on_poll)
		return;
	original = w->poll->poll_cb;
	w->poll->poll_cb = on_poll;
}

struct search {
	uv_os_fd_t fd;
	uv_poll_t *found;
};

static void take_if_fd(uv_handle_t *handle, void *arg)
{
	struct search *s = arg;
	uv_os_fd_t fd;

	if (handle->type == UV_POLL && !uv_is_closing(handle) && uv_fileno(handle, &fd) == 0 && fd == s->fd)
		s->found = (uv_poll_t *)handle;
}

static uv_poll_t *find_handle(uv_loop_t *loop, int fd)
{
	uv__io_t *watcher = (unsigned int)fd < loop->nwatchers ? loop->watchers[fd] : NULL;
	struct search search = {fd, NULL};

	if (watcher)
		return (uv_poll_t *)(void *)((char *)watcher - offsetof(uv_poll_t, io_watcher));
	uv_walk(loop, take_if_fd, &search);
	return search.found;
}

static void make_room(size_t fd)
{
	size_t more = 2 * (fd + 1);

	if (fd < room)
		return;
	by_fd = memory_realloc(by_fd, more * sizeof(struct watch *));
	memset(by_fd + room, 0, (more - room) * sizeof(struct watch *));
	room = more;
}

void watch_begin(struct watch *w, uv_loop_t *loop, int fd, bool (*cb)(struct watch *w, int *status, int *events))
{
	*w = (struct watch){fd, find_handle(loop, fd), cb, NULL};
	if (!w->poll)
		return;
	make_room((size_t)fd);
	by_fd[fd] = w;
	watch_hook(w);
}

void watch_end(struct watch *w)
{
	if (w->poll && watch_of(w->fd) == w)
		by_fd[w->fd] = NULL;
	w->poll = NULL;
}

void watch_end_all(void)
{
	free(by_fd);
	by_fd = NULL;
	room = 0;
}
