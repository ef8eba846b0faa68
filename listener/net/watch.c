/* watch.c is the only file that uses libuv's internals. libwebsockets creates its poll handles itself, and libuv has no
 * function to find the handle of a socket or to read and replace its callback. Walking over all handles for each new
 * connection would be quadratic, and uv_poll_start would also change the events that libwebsockets waits for. */
#include "net/watch.h"

#include <stddef.h>

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

uv_poll_t *watch_find(uv_loop_t *loop, int fd)
{
	uv__io_t *watcher = (unsigned int)fd < loop->nwatchers ? loop->watchers[fd] : NULL;
	struct search search = {fd, NULL};

	if (watcher)
		return (uv_poll_t *)(void *)((char *)watcher - offsetof(uv_poll_t, io_watcher));
	uv_walk(loop, take_if_fd, &search);
	return search.found;
}

uv_poll_cb watch_replace(uv_poll_t *poll, uv_poll_cb cb)
{
	uv_poll_cb before = poll->poll_cb;

	poll->poll_cb = cb;
	return before;
}

bool watch_is(const uv_poll_t *poll, uv_poll_cb cb)
{
	return poll->poll_cb == cb;
}
