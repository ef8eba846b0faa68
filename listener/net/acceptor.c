/* acceptor.c accepts connections. Without a free file descriptor accept() fails and the connection stays in the queue,
 * so the socket stays readable. Accepting then pauses, because the loop would spin. */
#include "net/acceptor.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log_spell.h"
#include "base/memory.h"
#include "base/poll.h"
#include "base/port.h"
#include "net/bound_socket.h"

#define PAUSE_MS  200
#define TURN_MOST 100 /* connections per turn of the loop */

struct acceptor {
	int fd;
	acceptor_cb *cb;
	void *owner;
	struct poll *poll;
	uv_timer_t pause;
	struct log_spell spell; /* while no file descriptor is free */
};

static void on_pause(uv_timer_t *timer)
{
	struct acceptor *a = timer->data;

	poll_for(a->poll, UV_READABLE);
}

static void pause_accepting(struct acceptor *a)
{
	log_spell_on(&a->spell, (int64_t)uv_now(a->pause.loop),
		     "out of file descriptors, new connections wait; raise the limit of open files (ulimit -n)",
		     strerror(errno));
	poll_for(a->poll, 0);
	uv_timer_start(&a->pause, on_pause, PAUSE_MS, 0);
}

/* True if the error concerns one connection, or none is waiting. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == ECONNABORTED || error == EINTR || error == EPROTO;
}

static void on_ready(void *arg, int listener, int status, int events)
{
	struct acceptor *a = arg;
	bool is_more = true;
	int on = 1;

	(void)status, (void)events;
	for (int i = 0; i < TURN_MOST && is_more; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (!is_passing(errno))
				pause_accepting(a);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* fails on a Unix socket */
		log_spell_off(&a->spell, (int64_t)uv_now(a->pause.loop), "accepting connections again");
		is_more = a->cb(a->owner, fd, (struct sockaddr *)&peer, len);
	}
}

struct acceptor *acceptor_open(uv_loop_t *loop, const char *flag, const char *address, acceptor_cb *cb, void *owner,
			       char *error, size_t size)
{
	int fd = listening_socket(flag, address, error, size);
	struct acceptor *a;

	if (fd < 0)
		return NULL;
	a = memory_calloc(1, sizeof(*a));
	*a = (struct acceptor){.fd = fd, .cb = cb, .owner = owner};
	uv_timer_init(loop, &a->pause);
	a->pause.data = a;
	a->poll = poll_open(loop, fd, on_ready, a);
	assert(a->poll);
	poll_for(a->poll, UV_READABLE);
	return a;
}

int acceptor_port(const struct acceptor *a)
{
	return port_of_socket(a->fd);
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void acceptor_close(struct acceptor *a)
{
	if (!a)
		return;
	poll_close(a->poll);
	uv_close((uv_handle_t *)&a->pause, on_closed);
	close(a->fd);
}
