/* wire.c owns one socket to Redis: connecting, TLS, sending and receiving. talk.c interprets the bytes.
 *
 * hiredis's own event interface is not used: it keeps a callback on the heap for each command. In 0.14 its adapter for
 * libuv also drops socket errors, so that a refused connection never calls back, and there is no TLS. */
#include "redis/wire.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/poll.h"
#include "base/fault_point.h"

#define READ_BYTES     65536 /* most bytes per read */
#define READS_PER_TURN 4
#define PLAIN_BYTES    16384 /* bytes of one TLS record, decrypted */

struct wire {
	redisContext *context; /* its output buffer holds commands or TLS records */
	struct poll *poll;
	struct tls *tls;    /* NULL without TLS */
	struct bytes plain; /* TLS: commands not yet encrypted */
	struct wire_callbacks on;
	bool is_connected;
	bool is_open; /* connected, and with TLS the handshake is done */
};

static void on_socket(void *arg, int fd, int status, int events);

struct wire *wire_open(uv_loop_t *loop, const char *address, int port, const char *path, const struct tls_trust *trust,
		       const char *host, const struct wire_callbacks *callbacks, char *why, size_t size)
{
	struct wire *w = memory_calloc(1, sizeof(*w));

	w->on = *callbacks;
	w->context = address ? redisConnectNonBlock(address, port) : redisConnectUnixNonBlock(path);
	memory_given(w->context, "hiredis");
	w->tls = trust ? tls_new(trust, host, NULL) : NULL;
	if (!w->context->err && (w->tls || !trust))
		w->poll = poll_open(loop, w->context->fd, on_socket, w);
	if (w->poll) {
		poll_for(w->poll, UV_READABLE | UV_WRITABLE);
		return w;
	}
	snprintf(why, size, "%s",
		 w->context->err    ? w->context->errstr
		 : trust && !w->tls ? "OpenSSL refused the name of the server"
				    : "the socket cannot be watched");
	wire_close(w);
	return NULL;
}

void wire_close(struct wire *w)
{
	poll_close(w->poll);
	redisFree(w->context);
	tls_free(w->tls);
	bytes_free(&w->plain);
	free(w);
}

static void fault(struct wire *w, const char *why)
{
	w->on.on_fault(w->on.arg, why);
}

/* --- sending --- */

static void append(struct wire *w, const char *bytes, size_t len)
{
	if (redisAppendFormattedCommand(w->context, bytes, len) != REDIS_OK)
		memory_exhausted("hiredis", len);
}

void wire_write(struct wire *w, const char *bytes, size_t len)
{
	if (w->tls)
		bytes_add(&w->plain, bytes, len);
	else
		append(w, bytes, len);
}

/* Returns 0, or -1 if TLS is broken. */
static int encrypt(struct wire *w)
{
	char room[PLAIN_BYTES];
	int failed = w->plain.len && w->is_open && tls_write(w->tls, w->plain.at, w->plain.len);

	if (w->is_open)
		w->plain.len = 0;
	for (size_t n; (n = tls_take(w->tls, room, sizeof(room))) > 0;)
		append(w, room, n);
	return failed ? -1 : 0;
}

/* hiredis writes once. The rest goes when the socket is writable. */
void wire_flush(struct wire *w)
{
	int is_done = 0;

	if (!w->is_connected || poll_events(w->poll) & UV_WRITABLE)
		return;
	if (w->tls && encrypt(w))
		fault(w, "TLS failed");
	else if (w->context->err || redisBufferWrite(w->context, &is_done) != REDIS_OK)
		fault(w, w->context->errstr);
	else
		poll_for(w->poll, UV_READABLE | (is_done ? 0 : UV_WRITABLE));
}

/* --- receiving --- */

static void tell_open(struct wire *w)
{
	w->is_open = true;
	w->on.on_open(w->on.arg);
}

/* The bytes may finish the handshake and already contain answers. The owner writes only from on_bytes and on_open, so
 * our output is flushed at the end. */
static bool take_encrypted(struct wire *w, const char *bytes, size_t len)
{
	char plain[PLAIN_BYTES];
	ssize_t n;

	tls_receive(w->tls, bytes, len);
	while ((n = tls_read(w->tls, plain, sizeof(plain))) > 0)
		if (!w->on.on_bytes(w->on.arg, plain, (size_t)n))
			return false;
	if (n < 0) {
		encrypt(w); /* sends the TLS alert that says why */
		redisBufferWrite(w->context, &(int){0});
		fault(w, tls_reason(w->tls));
		return false;
	}
	if (!w->is_open && tls_is_ready(w->tls))
		tell_open(w);
	return true;
}

/* Under load a turn of the loop gets more answers than one read takes. If they were left for later turns, claims would
 * wait behind messages. Returns false if the wire is gone. */
static bool read_answers(struct wire *w)
{
	static _Thread_local char bytes[READ_BYTES];

	for (int i = 0; i < READS_PER_TURN; i++) {
		size_t most = FAULT_POINT_ONE("redis: answers come in bytes", sizeof(bytes));
		ssize_t n = recv(w->context->fd, bytes, most, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0) {
			fault(w, n ? strerror(errno) : "the server closed the connection");
			return false;
		}
		if (w->tls ? !take_encrypted(w, bytes, (size_t)n) : !w->on.on_bytes(w->on.arg, bytes, (size_t)n))
			return false;
		if ((size_t)n < sizeof(bytes))
			return true;
	}
	return true;
}

/* The first event on the socket shows whether it connected. Returns false if the wire is gone. */
static bool finish_connect(struct wire *w)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(w->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		fault(w, strerror(error ? error : errno));
		return false;
	}
	w->is_connected = true;
	if (w->tls)
		return take_encrypted(w, "", 0);
	tell_open(w);
	return true;
}

/* libuv reports a socket error as a status; reading finds out which. */
static void on_socket(void *arg, int fd, int status, int events)
{
	struct wire *w = arg;
	bool was_connected = w->is_connected;

	(void)fd;
	if (status < 0)
		events = UV_READABLE;
	if (!was_connected && !finish_connect(w))
		return;
	if (was_connected && events & UV_READABLE && !read_answers(w))
		return;
	if (events & UV_WRITABLE || w->tls) {
		poll_for(w->poll, UV_READABLE);
		wire_flush(w);
	}
}
