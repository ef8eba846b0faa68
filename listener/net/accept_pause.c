/* accept_pause.c pauses accepting. Without a free file descriptor accept() fails and the connection stays in the queue,
 * so the socket stays readable and libwebsockets would spin. */
#include "net/accept_pause.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"
#include "net/watch.h"

#define PAUSE_MS 200
#define TOLD_MS  60000 /* between two log lines */

#define DOORS_MOST 2 /* libwebsockets 4.3 has a socket for IPv4 and one for IPv6 */

struct door {
	uv_poll_t *poll; /* made by libwebsockets */
	uv_poll_cb original;
};

struct accept_pause {
	int port;
	struct door doors[DOORS_MOST];
	size_t count;
	uv_timer_t pause;
	bool is_paused;
	uint64_t told_ms; /* loop clock, last logged; 0: never */
};

static struct accept_pause *watched; /* the handle's data pointer belongs to libwebsockets */

static void take_if_listening(uv_handle_t *handle, void *arg)
{
	struct accept_pause *g = arg;
	int is_listening = 0;
	socklen_t len = sizeof(is_listening);
	uv_os_fd_t fd = -1;

	if (handle->type != UV_POLL || uv_is_closing(handle) || uv_fileno(handle, &fd))
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 && is_listening &&
	    port_of_socket(fd) == g->port && g->count < DOORS_MOST)
		g->doors[g->count++].poll = (uv_poll_t *)handle;
}

static bool has_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EMFILE && errno != ENFILE && errno != ENOMEM);
}

static void on_pause(uv_timer_t *timer)
{
	struct accept_pause *g = timer->data;

	g->is_paused = false;
	for (size_t i = 0; i < g->count; i++)
		uv_poll_start(g->doors[i].poll, UV_READABLE, g->doors[i].original);
	accept_pause_hook(g);
}

static void tell(struct accept_pause *g)
{
	uint64_t now = uv_now(g->pause.loop);

	if (g->told_ms && now - g->told_ms < TOLD_MS)
		return;
	g->told_ms = now;
	log_warn("out of file descriptors, new connections wait; raise the limit of open files (ulimit -n)", "port=%d",
		 g->port);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct accept_pause *g = watched;

	if (has_descriptor()) {
		g->doors[g->doors[0].poll == poll ? 0 : 1].original(poll, status, events);
		accept_pause_hook(g);
		return;
	}
	tell(g);
	g->is_paused = true;
	for (size_t i = 0; i < g->count; i++)
		uv_poll_stop(g->doors[i].poll);
	uv_timer_start(&g->pause, on_pause, PAUSE_MS, 0);
}

void accept_pause_hook(struct accept_pause *g)
{
	for (size_t i = 0; g && !g->is_paused && i < g->count; i++) {
		struct door *d = &g->doors[i];

		if (!watch_is(d->poll, on_readable))
			d->original = watch_replace(d->poll, on_readable);
	}
}

struct accept_pause *accept_pause_open(uv_loop_t *loop, int port)
{
	struct accept_pause *g = memory_calloc(1, sizeof(*g));

	g->port = port;
	uv_walk(loop, take_if_listening, g);
	if (g->count == 0) {
		free(g);
		return NULL;
	}
	uv_timer_init(loop, &g->pause);
	g->pause.data = g;
	watched = g;
	accept_pause_hook(g);
	return g;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void accept_pause_close(struct accept_pause *g)
{
	if (!g)
		return;
	for (size_t i = 0; !g->is_paused && i < g->count; i++)
		watch_replace(g->doors[i].poll, g->doors[i].original);
	g->count = 0;
	watched = NULL;
	uv_close((uv_handle_t *)&g->pause, on_closed);
}
