/* A WebSocket feed inside the test: one thread that polls, and one lock around everything. Calls of a test only queue
 * frames and wake the thread; only the thread accepts, reads and writes. It never fails the test, because Criterion
 * allows that only in the test's own thread. */
#include "feed.h"
#include "buffer.h"
#include "support.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#define RAW         -1 /* no frame */
#define READ_BYTES  65536
#define SPARE_BYTES (1 << 20) /* sent bytes that are kept in front of the others */

enum client_state {
	CLIENT_SHAKING, /* its request is not complete             -> CLIENT_OPEN, CLIENT_GONE    */
	CLIENT_OPEN,    /* frames go both ways                     -> CLIENT_CLOSING, CLIENT_GONE */
	CLIENT_CLOSING, /* has sent a close frame: flush, then end -> CLIENT_GONE                 */
	CLIENT_GONE,    /* without a socket                                                     */
};

struct client {
	enum client_state state;
	int fd;             /* -1 when gone */
	bool has_our_close; /* our close frame is queued or sent */
	char *request;      /* the head of its handshake */
	struct buffer in;   /* received, not yet parsed */
	struct buffer out;  /* to send, after the first sent bytes */
	size_t sent;
};

struct feed {
	pthread_t thread;
	pthread_mutex_t lock; /* protects everything below */
	int port;
	char url[64];
	int listen_fd;
	int wake_fd;               /* eventfd that wakes the thread */
	struct client **clients;   /* by number; only the thread adds */
	struct pollfd *polls;      /* the thread's: listen_fd, wake_fd, then one per client */
	size_t n, room;            /* number of clients; allocated size of clients and polls */
	int numbered;              /* clients that finished their handshake */
	struct client **by_number; /* those, in that order */
	bool is_ending, is_frozen, has_pongs;
	int refusal; /* HTTP status for handshakes; 0 = accept */
	int refusals;
	int open; /* clients in CLIENT_OPEN or CLIENT_CLOSING */
	long received, pings;
	size_t backlog; /* bytes in all queues */
	char *request;  /* head of the latest handshake */
	char *muted;    /* clients whose handshake has this text get nothing; NULL: there are none */
	char *lines;    /* extra header lines of each 101, or NULL */
	char *path;     /* handshakes for this path get this answer; NULL: a connection that is closed at once */
	char *answer;
	int tunnels;        /* CONNECT requests */
	struct buffer said; /* texts from clients, each followed by a newline */
};

/* ---- queues; the lock is held ---- */

static void enqueue(struct feed *f, struct client *c, const void *bytes, size_t len)
{
	buffer_append(&c->out, bytes, len);
	f->backlog += len;
}

static void enqueue_frame(struct feed *f, struct client *c, int opcode, bool fin, const void *bytes, size_t len)
{
	size_t n = frame_write(buffer_reserve(&c->out, FRAME_HEAD_MAX + len), opcode, fin, NULL, bytes, len);

	buffer_grow(&c->out, n);
	f->backlog += n;
}

static bool has_queue(const struct client *c)
{
	return c->sent < c->out.len;
}

static bool is_connected(const struct client *c)
{
	return c->state == CLIENT_OPEN || c->state == CLIENT_CLOSING;
}

static void leave(struct feed *f, struct client *c)
{
	if (c->state == CLIENT_GONE)
		return;
	if (is_connected(c))
		f->open--;
	f->backlog -= c->out.len - c->sent;
	c->sent = 0;
	buffer_clear(&c->out);
	buffer_clear(&c->in);
	close(c->fd);
	c->fd = -1;
	c->state = CLIENT_GONE;
}

/* Resets a connection. */
static void cut(struct feed *f, struct client *c)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (c->state == CLIENT_GONE)
		return;
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	leave(f, c);
}

/* ---- the thread; the lock is held ---- */

static void send_queue(struct feed *f, struct client *c)
{
	while (has_queue(c)) {
		ssize_t n = send(c->fd, c->out.bytes + c->sent, c->out.len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1) {
			leave(f, c);
			return;
		}
		f->backlog -= (size_t)n;
		c->sent += (size_t)n;
		if (!has_queue(c) || c->sent > SPARE_BYTES) {
			buffer_consume(&c->out, c->sent);
			c->sent = 0;
		}
	}
	if (c->state == CLIENT_CLOSING)
		leave(f, c);
}

static void refuse(struct feed *f, struct client *c, const char *text)
{
	char answer[128];

	snprintf(answer, sizeof answer, "HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		 f->refusal);
	if (!text)
		text = answer;
	f->refusals++;
	send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	leave(f, c);
}

static void accept_handshake(struct feed *f, struct client *c, const char *key)
{
	char accept[29], answer[512];

	frame_accept_key(key, accept);
	int len = snprintf(answer, sizeof answer,
			   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			   "Sec-WebSocket-Accept: %s\r\n%s\r\n",
			   accept, f->lines ? f->lines : "");
	enqueue(f, c, answer, (size_t)len);
	c->request = strdup(f->request);
	c->state = CLIENT_OPEN;
	f->by_number[f->numbered++] = c;
	f->open++;
}

static void read_handshake(struct feed *f, struct client *c)
{
	char *end = strstr((char *)c->in.bytes, "\r\n\r\n");

	if (!end)
		return;
	free(f->request);
	f->request = strndup((char *)c->in.bytes, (size_t)(end + 2 - (char *)c->in.bytes));
	buffer_consume(&c->in, strlen(f->request) + 2);
	if (strncmp(f->request, "CONNECT ", 8) == 0) {
		f->tunnels++;
		enqueue(f, c, "HTTP/1.1 200 OK\r\n\r\n", 19);
		return;
	}
	char *key = frame_header(f->request, "Sec-WebSocket-Key");
	bool is_answered = f->path && strncmp(strchr(f->request, ' ') + 1, f->path, strlen(f->path)) == 0;
	if (f->refusal || !key || (is_answered && f->answer))
		refuse(f, c, is_answered ? f->answer : NULL);
	else
		accept_handshake(f, c, key);
	if (is_answered && !f->answer)
		c->state = CLIENT_CLOSING;
	free(key);
}

static void on_close_frame(struct feed *f, struct client *c, const struct frame *frame)
{
	if (!c->has_our_close)
		enqueue_frame(f, c, FRAME_CLOSE, true, frame->bytes, frame->len < 2 ? 0 : 2);
	c->state = CLIENT_CLOSING;
}

static void keep_text(struct feed *f, const struct frame *frame)
{
	f->received++;
	buffer_append(&f->said, frame->bytes, frame->len);
	buffer_append(&f->said, "\n", 1);
}

static void read_frames(struct feed *f, struct client *c)
{
	struct frame frame;
	size_t done = 0;

	while (c->state == CLIENT_OPEN && frame_read(c->in.bytes + done, c->in.len - done, &frame)) {
		done += frame.size;
		if (frame.opcode == FRAME_TEXT || frame.opcode == FRAME_BINARY)
			keep_text(f, &frame);
		if (frame.opcode == FRAME_PING) {
			f->pings++;
			if (f->has_pongs)
				enqueue_frame(f, c, FRAME_PONG, true, frame.bytes, frame.len);
		}
		if (frame.opcode == FRAME_CLOSE)
			on_close_frame(f, c, &frame);
	}
	buffer_consume(&c->in, done);
}

static void receive(struct feed *f, struct client *c)
{
	ssize_t n = recv(c->fd, buffer_reserve(&c->in, READ_BYTES), READ_BYTES, MSG_DONTWAIT);

	if (n == -1 && errno == EAGAIN)
		return;
	if (n <= 0) {
		leave(f, c);
		return;
	}
	buffer_grow(&c->in, (size_t)n);
	if (c->state == CLIENT_SHAKING)
		read_handshake(f, c);
	if (c->state == CLIENT_OPEN)
		read_frames(f, c);
}

static void accept_clients(struct feed *f)
{
	int fd, on = 1;

	while ((fd = accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) != -1) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (f->n + 2 >= f->room) {
			f->room = f->room * 2 + 64;
			f->clients = realloc(f->clients, f->room * sizeof *f->clients);
			f->by_number = realloc(f->by_number, f->room * sizeof *f->by_number);
			f->polls = realloc(f->polls, f->room * sizeof *f->polls);
		}
		struct client *c = calloc(1, sizeof *c);
		if (!c || !f->clients || !f->by_number || !f->polls)
			abort();
		c->fd = fd;
		f->clients[f->n++] = c;
	}
}

/* Fills in what to poll; a frozen feed only waits to be woken. Returns the number of entries. */
static size_t fill_polls(struct feed *f)
{
	f->polls[0] = (struct pollfd){.fd = f->wake_fd, .events = POLLIN};
	if (f->is_frozen)
		return 1;
	f->polls[1] = (struct pollfd){.fd = f->listen_fd, .events = POLLIN};
	for (size_t i = 0; i < f->n; i++) {
		struct client *c = f->clients[i];
		short out = has_queue(c) ? POLLOUT : 0;

		f->polls[i + 2] = (struct pollfd){.fd = c->fd, .events = POLLIN | out};
	}
	return f->n + 2;
}

static void serve(struct feed *f, size_t polled)
{
	uint64_t wakes;

	if (f->polls[0].revents && read(f->wake_fd, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
		abort();
	for (size_t i = 2; i < polled && !f->is_frozen; i++) {
		struct client *c = f->clients[i - 2];

		if (f->polls[i].revents & (POLLIN | POLLHUP | POLLERR) && c->state != CLIENT_GONE)
			receive(f, c);
		if (has_queue(c) || c->state == CLIENT_CLOSING)
			send_queue(f, c);
	}
	if (polled > 1 && f->polls[1].revents && !f->is_frozen)
		accept_clients(f);
}

static void *run(void *feed)
{
	struct feed *f = feed;

	pthread_mutex_lock(&f->lock);
	while (!f->is_ending) {
		size_t n = fill_polls(f);

		pthread_mutex_unlock(&f->lock);
		poll(f->polls, n, -1);
		pthread_mutex_lock(&f->lock);
		serve(f, n);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- the calls of a test ---- */

static void wake(struct feed *f)
{
	uint64_t one = 1;

	if (write(f->wake_fd, &one, sizeof one) < 0)
		abort();
}

struct feed *feed_new(void)
{
	return feed_new_at(port_reserve());
}

struct feed *feed_new_at(int port)
{
	struct feed *f = calloc(1, sizeof *f);
	sigset_t all, before;

	process_raise_file_limit();
	f->port = port;
	f->listen_fd = port_listen(port);
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->has_pongs = true;
	f->room = 2;
	f->polls = calloc(f->room, sizeof *f->polls);
	snprintf(f->url, sizeof f->url, "ws://127.0.0.1:%d/feed", port);
	pthread_mutex_init(&f->lock, NULL);
	sigfillset(&all); /* signals are for the test's own thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&f->thread, NULL, run, f) != 0)
		cr_assert_fail("cannot start the feed's thread");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return f;
}

int feed_port(const struct feed *f)
{
	return f->port;
}

const char *feed_url(const struct feed *f)
{
	return f->url;
}

bool feed_wait_clients(struct feed *f, int n, int deadline_ms)
{
	return wait_until(feed_clients(f) >= n, deadline_ms);
}

/* Queues bytes for all clients, in a frame unless opcode is RAW. */
static void post(struct feed *f, int opcode, bool fin, const void *bytes, size_t len)
{
	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < f->numbered; i++) {
		struct client *c = f->by_number[i];

		if (c->state != CLIENT_OPEN || (f->muted && strstr(c->request, f->muted)))
			continue;
		if (opcode == RAW)
			enqueue(f, c, bytes, len);
		else
			enqueue_frame(f, c, opcode, fin, bytes, len);
	}
	wake(f);
	pthread_mutex_unlock(&f->lock);
}

void feed_mute(struct feed *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	free(f->muted);
	f->muted = text ? strdup(text) : NULL;
	pthread_mutex_unlock(&f->lock);
}

void feed_send_text(struct feed *f, const char *text)
{
	feed_send(f, FRAME_TEXT, true, text, strlen(text));
}

void feed_sendf(struct feed *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *text = suite_vtext(fmt, args);
	va_end(args);
	feed_send_text(f, text);
	free(text);
}

void feed_send(struct feed *f, int opcode, bool fin, const void *bytes, size_t len)
{
	post(f, opcode, fin, bytes, len);
}

void feed_send_raw(struct feed *f, const void *bytes, size_t len)
{
	post(f, RAW, true, bytes, len);
}

/* Bytes not sent yet: queued here, or held back by the kernel, as for a late acknowledgement. A reset would discard
 * them. */
static size_t unsent(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	size_t bytes = f->backlog;
	for (int i = 0; i < f->numbered; i++) {
		int held = 0;

		if (is_connected(f->by_number[i]) && ioctl(f->by_number[i]->fd, SIOCOUTQNSD, &held) == 0)
			bytes += (size_t)held;
	}
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

bool feed_flush(struct feed *f, int deadline_ms)
{
	return wait_until(unsent(f) == 0, deadline_ms);
}

void feed_drop_all(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n; i++)
		cut(f, f->clients[i]);
	wake(f);
	pthread_mutex_unlock(&f->lock);
}

void feed_close_all(struct feed *f, int code)
{
	unsigned char bytes[2] = {(unsigned char)(code >> 8), (unsigned char)code};

	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < f->numbered; i++) {
		struct client *c = f->by_number[i];

		if (c->state != CLIENT_OPEN || c->has_our_close)
			continue;
		enqueue_frame(f, c, FRAME_CLOSE, true, bytes, sizeof bytes);
		c->has_our_close = true;
	}
	wake(f);
	pthread_mutex_unlock(&f->lock);
}

void feed_refuse(struct feed *f, int http_status)
{
	pthread_mutex_lock(&f->lock);
	f->refusal = http_status;
	pthread_mutex_unlock(&f->lock);
}

/* Replaces a text of the feed by a copy, which the feed owns. */
static void put(struct feed *f, char **at, const char *text)
{
	pthread_mutex_lock(&f->lock);
	free(*at);
	*at = text ? strdup(text) : NULL;
	pthread_mutex_unlock(&f->lock);
}

void feed_accept_with(struct feed *f, const char *lines)
{
	put(f, &f->lines, lines);
}

void feed_answer(struct feed *f, const char *path, const char *answer)
{
	put(f, &f->answer, answer);
	put(f, &f->path, path);
}

void feed_answer_pings(struct feed *f, bool answer)
{
	pthread_mutex_lock(&f->lock);
	f->has_pongs = answer;
	pthread_mutex_unlock(&f->lock);
}

static void set_frozen(struct feed *f, bool is_frozen)
{
	pthread_mutex_lock(&f->lock);
	f->is_frozen = is_frozen;
	wake(f);
	pthread_mutex_unlock(&f->lock);
}

void feed_freeze(struct feed *f)
{
	set_frozen(f, true);
}

void feed_thaw(struct feed *f)
{
	set_frozen(f, false);
}

/* A getter for each count, read under the lock. */
#define COUNT(type, function, member) \
	type function(struct feed *f) \
	{ \
		pthread_mutex_lock(&f->lock); \
		type value = f->member; \
		pthread_mutex_unlock(&f->lock); \
		return value; \
	}
COUNT(int, feed_connections, numbered)
COUNT(int, feed_clients, open)
COUNT(long, feed_received, received)
COUNT(long, feed_pings, pings)
COUNT(int, feed_refusals, refusals)
COUNT(int, feed_tunnels, tunnels)

char *feed_request(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	char *request = f->request ? strdup(f->request) : NULL;
	pthread_mutex_unlock(&f->lock);
	return request;
}

bool feed_has_heard(struct feed *f, const char *text)
{
	return feed_has_heard_bytes(f, text, strlen(text));
}

bool feed_has_heard_bytes(struct feed *f, const char *bytes, size_t len)
{
	pthread_mutex_lock(&f->lock);
	bool has = f->said.len && memmem(f->said.bytes, f->said.len, bytes, len);
	pthread_mutex_unlock(&f->lock);
	return has;
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->is_ending = true;
	wake(f);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	for (size_t i = 0; i < f->n; i++) {
		cut(f, f->clients[i]);
		free(f->clients[i]->request);
		free(f->clients[i]);
	}
	pthread_mutex_destroy(&f->lock);
	close(f->listen_fd);
	close(f->wake_fd);
	free(f->muted);
	free(f->clients);
	free(f->by_number);
	free(f->polls);
	buffer_clear(&f->said);
	free(f->request);
	free(f->lines);
	free(f->path);
	free(f->answer);
	free(f);
}
