/* wire.c owns a socket of Redis's: connecting, TLS, sending and receiving. What the bytes say is talk.c's business.
 *
 * hiredis's own event interface is not used: it keeps a callback on the heap for each command, and in 0.14 its adapter
 * for libuv drops errors of the socket, so that a refused connection never calls back; nor has 0.14 any TLS. */
#include "redis/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/poll.h"
#include "base/rare.h"
#include "redis/resp.h"

#define READ_BYTES     65536 /* from the socket at once */
#define READS_PER_TURN 4
#define PLAIN_BYTES    16384 /* of a TLS record, decrypted */

struct wire {
	redisContext *context; /* its output is what the socket gets: commands, or records of TLS */
	struct poll *poll;
	struct tls *tls;   /* NULL: in the clear */
	struct resp plain; /* TLS: commands that are not encrypted yet */
	struct wire_callbacks on;
	bool is_connected;
	bool is_open; /* connected, and for TLS, the server is known */
};

static void on_socket(void *arg, int fd, int status, int events);

struct wire *wire_open(uv_loop_t *loop, const char *address, int port, const char *path,
		       const struct wire_callbacks *callbacks, char *why, size_t size)
{
	struct wire *w = memory_calloc(1, sizeof(*w));

	w->on = *callbacks;
	w->context = address ? redisConnectNonBlock(address, port) : redisConnectUnixNonBlock(path);
	memory_given(w->context, "hiredis");
	if (!w->context->err)
		w->poll = poll_open(loop, w->context->fd, on_socket, w);
	if (w->poll) {
		poll_for(w->poll, UV_READABLE | UV_WRITABLE);
		return w;
	}
	snprintf(why, size, "%s", w->context->err ? w->context->errstr : "the socket cannot be watched");
	wire_close(w);
	return NULL;
}

int wire_use_tls(struct wire *w, const struct tls_trust *trust, const char *host)
{
	w->tls = tls_new(trust, host, NULL);
	return w->tls ? 0 : -1;
}

redisReader *wire_reader(const struct wire *w)
{
	return w->context->reader;
}

void wire_close(struct wire *w)
{
	poll_close(w->poll);
	redisFree(w->context);
	tls_free(w->tls);
	resp_free(&w->plain);
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
		resp_ready(&w->plain, bytes, len);
	else
		append(w, bytes, len);
}

/* Returns 0, or -1 if TLS is broken. */
static int encrypt(struct wire *w)
{
	char room[PLAIN_BYTES];
	int failed = w->plain.len && w->is_open && tls_write(w->tls, w->plain.bytes, w->plain.len);

	if (w->is_open)
		w->plain.len = 0;
	for (size_t n; (n = tls_take(w->tls, room, sizeof(room))) > 0;)
		append(w, room, n);
	return failed ? -1 : 0;
}

/* hiredis writes once; what the kernel does not take goes when it can. */
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

/* Returns false if the wire is gone. */
static bool open_tls(struct wire *w)
{
	if (w->is_open || !tls_is_ready(w->tls))
		return true;
	w->is_open = true;
	w->on.on_open(w->on.arg);
	return true;
}

/* What the server sent may open the connection, and have answers behind. The owner writes only from inside on_bytes
 * and on_open, so what there is to be sent goes at the end. */
static bool take_encrypted(struct wire *w, const char *bytes, size_t len)
{
	char plain[PLAIN_BYTES];
	ssize_t n;

	tls_receive(w->tls, bytes, len);
	while ((n = tls_read(w->tls, plain, sizeof(plain))) > 0)
		if (!w->on.on_bytes(w->on.arg, plain, (size_t)n))
			return false;
	if (n < 0) {
		encrypt(w); /* TLS tells the server, too, why it ends */
		redisBufferWrite(w->context, &(int){0});
		fault(w, tls_reason(w->tls));
		return false;
	}
	return open_tls(w);
}

/* A listener under load gets more answers in one turn of the loop than one read takes; were they left for the next
 * turns, claims would wait behind messages. Returns false if the wire is gone. */
static bool read_answers(struct wire *w)
{
	static char bytes[READ_BYTES];

	for (int i = 0; i < READS_PER_TURN; i++) {
		size_t most = RARELY_ONE("redis: answers come in bytes", sizeof(bytes));
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

/* The first sign of the socket tells whether it could connect. Returns false if the wire is gone. */
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
	w->is_open = true;
	w->on.on_open(w->on.arg);
	return true;
}

/* libuv reports an error on the socket as a status; what is wrong is found out by reading. */
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
