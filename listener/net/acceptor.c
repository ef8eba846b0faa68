/* acceptor.c binds an address from the settings and accepts connections. Without a free file descriptor accept() fails
 * and the connection stays in the queue, so the socket stays readable. Accepting then pauses, because the loop would
 * spin. */
#include "net/acceptor.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log_spell.h"
#include "base/memory.h"
#include "base/poll.h"
#include "base/port.h"
#include "base/url.h"

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

/* --- the socket --- */

static int close_failed(int fd)
{
	int error = errno;

	close(fd);
	errno = error;
	return -1;
}

static int bind_path(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat found;
	mode_t mask;
	int fd, failed;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	unlink(path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	mask = umask(0117);
	failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	return failed ? close_failed(fd) : fd;
}

static int bind_at(const struct addrinfo *at)
{
	int on = 1, off = 0;
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	return bind(fd, at->ai_addr, at->ai_addrlen) ? close_failed(fd) : fd;
}

static int bind_host(const char *host, int port)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *all = NULL;
	char service[12];
	int fd = -1, failed;

	snprintf(service, sizeof(service), "%d", port);
	failed = getaddrinfo(host, service, &hints, &all);
	if (failed == EAI_MEMORY)
		memory_exhausted("libc", 0);
	if (failed) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (const struct addrinfo *at = all; at && fd < 0; at = at->ai_next)
		fd = bind_at(at);
	freeaddrinfo(all);
	return fd;
}

/* * and :: include IPv4, and work on hosts without IPv6. */
static int bind_tcp(const struct url *url)
{
	const char *host = strcmp(url->host, "localhost") == 0 ? "127.0.0.1" : url->host;
	bool is_any = strcmp(host, "*") == 0 || strcmp(host, "::") == 0;
	int fd = bind_host(is_any ? "::" : host, url->port);

	return fd < 0 && is_any ? bind_host("0.0.0.0", url->port) : fd;
}

int bound_socket(const char *address)
{
	struct url url = {0};
	int fd = -1;

	if (strncmp(address, "unix:", 5) == 0)
		return bind_path(address + 5);
	errno = ENOMEM;
	if (url_parse_address(&url, address) == 0)
		fd = bind_tcp(&url);
	url_clear(&url);
	return fd;
}

const char *bound_socket_error(int error)
{
	return error == EEXIST ? "a file of this name exists and is not a socket" : strerror(error);
}

/* --- connections --- */

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
	int fd = bound_socket(address);
	struct acceptor *a;

	if (fd < 0 || listen(fd, SOMAXCONN)) {
		snprintf(error, size, "%s: cannot listen on %s: %s", flag, address, bound_socket_error(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
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
