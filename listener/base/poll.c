/* poll.c owns libuv's poll handle, which lives until libuv has closed it. The socket's owner may be gone earlier. */
#include "base/poll.h"

#include <stdlib.h>

#include "base/memory.h"

struct poll {
	uv_poll_t handle;
	int fd;
	int events;  /* to wait for */
	poll_cb *cb; /* NULL while closing */
	void *arg;
};

/* libuv stops a handle after an error, so start it again if its owner still wants it. */
static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct poll *p = handle->data;

	if (p->cb)
		p->cb(p->arg, p->fd, status, events);
	if (p->cb && status < 0)
		uv_poll_start(handle, p->events, on_poll);
}

struct poll *poll_open(uv_loop_t *loop, int fd, poll_cb *cb, void *arg)
{
	struct poll *p = memory_calloc(1, sizeof(*p));

	if (uv_poll_init(loop, &p->handle, fd)) {
		free(p);
		return NULL;
	}
	p->handle.data = p;
	p->fd = fd;
	p->cb = cb;
	p->arg = arg;
	return p;
}

int poll_for(struct poll *p, int events)
{
	if (p->events == events)
		return 0;
	p->events = events;
	return uv_poll_start(&p->handle, events, on_poll);
}

int poll_events(const struct poll *p)
{
	return p->events;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void poll_close(struct poll *p)
{
	if (!p)
		return;
	p->cb = NULL;
	uv_close((uv_handle_t *)&p->handle, on_closed);
}
