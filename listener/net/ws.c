/* ws.c owns the libwebsockets context and what feeds and producers share: assembling messages from frames, the limit on
 * their size, and stopping to read.
 *
 * Producers are offered no extension, and a feed's compressed messages arrive here inflated, so all sizes are those of
 * the message. */
#include "net/ws.h"

#include <poll.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/log_spell.h"
#include "base/counters.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "net/long_head.h"

#define READ_BYTES  65536 /* most bytes per read from a socket */
#define HEAD_BYTES  4096  /* bytes kept of a message over the limit */
#define CHECK_MS    1000
#define FIRST_BYTES 4096 /* first size of a buffer for a message in pieces */
#define HALVES_PART 4    /* a quarter of the budget for producers' unfinished messages, but always room for one */
#define QUIET_MOST  8    /* a connection is quiet if it sent nothing during this many stops */

struct ws {
	uv_loop_t *loop;
	struct lws_context *context;
	struct ws_budget budget;
	size_t max_message;
	struct list links;
	struct list lively; /* links that have sent data lately, or are stopped */
	enum pressure pressure;
	bool is_stopped;
	struct list halves[2]; /* links with an unfinished message: of producers, of feeds */
	size_t half_bytes[2];
	size_t half_limit;     /* for producers */
	size_t half_limit_all; /* for producers or feeds while reading is stopped */
	size_t half_most;      /* for both together; above it, reading could not resume even if all events settled */
	int64_t message_timeout_ms;
	struct log_spell ended; /* connections ended for their unfinished messages */
	int64_t ping_interval_ms;
	lws_retry_bo_t no_keepalive; /* turns off libwebsockets' own; see check_life() */
	uv_timer_t check;
	void (*on_close)(void *arg); /* NULL: no feeds */
	void *arg;
};

/* --- a socket that has data and an error --- */

static bool must_wait(const struct ws_link *link);
static void put_off(struct ws_link *link);
static int wait_if_held(struct ws_link *link, int events);

/* libuv reports a reset connection as an error and not as readable, and libwebsockets then closes it. Data that the
 * peer sent before, which the kernel still holds, would be lost. So this reads what libwebsockets has buffered and then
 * what the kernel has, until libwebsockets closes the connection. Returns false if there is no memory for more; the
 * rest is read later. */
static bool read_rest(struct ws_link *link)
{
	struct lws_context *context = link->ws->context;
	struct watch *w = &link->watch;
	int fd = link->fd;

	/* bounded by the size of the socket's buffer */
	for (int i = 0; i < 10000 && watch_of(fd) == w; i++) {
		struct lws_pollfd ready = {.fd = fd, .events = POLLIN, .revents = POLLIN};

		if (must_wait(link)) {
			put_off(link);
			return false;
		}
		lws_rx_flow_control(link->wsi, 1);
		if (lws_service_fd(context, &ready))
			break; /* it has closed the connection, or will when it gets the error */
	}
	return true;
}

bool ws_is_reset(int fd)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, 0) == 1 && p.revents & (POLLERR | POLLHUP);
}

/* RFC 6455, section 5.1: a client must mask its frames. libwebsockets does not report the mask, so this peeks at a
 * producer's first frame before it is read. */
static void look_for_mask(struct ws_link *link)
{
	unsigned char head[2];
	ssize_t n;
	SSL *ssl;

	if (link->is_begun || !link->wsi)
		return;
	ssl = lws_get_ssl(link->wsi);
	n = ssl ? SSL_peek(ssl, head, sizeof(head)) : recv(link->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	link->is_begun = n > 0 || !ssl;
	link->is_unmasked = n == sizeof(head) && !(head[1] & 0x80);
}

/* libwebsockets writes before it reads, so it must not see that a reset connection is writable. */
static bool on_poll(struct watch *w, int *status, int *events)
{
	struct ws_link *link = list_entry(w, struct ws_link, watch);
	uv_poll_t *handle = w->poll;

	if (*status >= 0 && *events & UV_WRITABLE && ws_is_reset(link->fd))
		*status = UV_ECONNRESET;
	if (*status >= 0) {
		*events = wait_if_held(link, *events);
		if (*events & UV_READABLE)
			look_for_mask(link);
		return *events;
	}
	if (read_rest(link))
		return !uv_is_closing((uv_handle_t *)handle);
	uv_poll_stop(handle); /* or the error would be reported again and again */
	return false;
}

void ws_link_hook(struct ws_link *link)
{
	watch_hook(&link->watch);
}

/* --- reading or not --- */

static bool is_held_by(const struct ws_link *link, enum pressure pressure)
{
	return pressure == PRESSURE_ALL || (pressure == PRESSURE_PRODUCERS && link->resends);
}

static bool is_held(const struct ws_link *link)
{
	return is_held_by(link, link->ws->pressure);
}

static void set_reading(struct ws_link *link, bool is_reading)
{
	if (link->feed)
		link->feed->set_reading(link, is_reading);
	else
		lws_rx_flow_control(link->wsi, is_reading);
}

/* libwebsockets looks at data that OpenSSL has already read only when it is woken, by asking for a writable callback.
 * That costs three system calls more than stopping and resuming, for each connection that has sent data lately. */
static bool must_wake(const struct ws_link *link)
{
	return link->wsi && lws_is_ssl(link->wsi);
}

/* Moves a connection that has just sent data to the end of the list, so that those that waited longest are read first
 * after a stop. The kernel returns sockets in the order in which they were added, and only the first few may be read
 * before the next stop. */
static void make_lively(struct ws_link *link)
{
	link->quiet = 0;
	list_remove(&link->lively);
	list_append(&link->ws->lively, &link->lively);
}

/* Connections that were stopped together resume together. A quiet connection is not among them until it is stopped
 * itself. */
static void apply_flow(struct ws_link *link)
{
	bool is_reading = !link->holds && !is_held(link) && !link->ws->is_stopped;
	int64_t now = (int64_t)uv_now(link->ws->loop);

	if (is_held(link) && list_is_empty(&link->lively))
		make_lively(link);
	set_reading(link, is_reading);
	if (is_reading) {
		if (must_wake(link))
			lws_callback_on_writable(link->wsi);
		if (link->unread_ms)
			link->last_message_ms += now - link->unread_ms;
		link->unread_ms = 0;
	} else if (!link->unread_ms) {
		link->unread_ms = now;
	}
	ws_link_hook(link);
}

void ws_link_want_write(struct ws_link *link)
{
	if (link->feed) {
		link->feed->want_write(link);
		return;
	}
	lws_callback_on_writable(link->wsi);
	ws_link_hook(link);
}

static bool must_wait(const struct ws_link *link)
{
	return is_held(link) && !link->ws->is_stopped;
}

/* Stops reading from this connection until the others resume. */
static void put_off(struct ws_link *link)
{
	make_lively(link);
	apply_flow(link);
}

/* While all reading is stopped, a quiet connection that becomes readable is stopped, too. */
static int wait_if_held(struct ws_link *link, int events)
{
	if (!is_held(link) || !list_is_empty(&link->lively) || !(events & UV_READABLE))
		return events;
	put_off(link);
	return events & ~UV_READABLE;
}

void ws_link_hold(struct ws_link *link, enum ws_hold reason, bool is_held)
{
	unsigned int holds = is_held ? link->holds | reason : link->holds & ~(unsigned int)reason;

	if (!link->ws || holds == link->holds)
		return;
	link->holds = holds;
	apply_flow(link);
}

/* Under load this runs a hundred times a second, perhaps with ten thousand silent connections. Only those that sent
 * data lately are worth the system calls; they also include those whose data libwebsockets has buffered, which must
 * wait, too. The others are stopped when they send: wait_if_held(). Feeds are few. */
void ws_set_pressure(struct ws *ws, enum pressure pressure)
{
	enum pressure before = ws->pressure;

	ws->pressure = pressure;
	list_each(node, after, &ws->lively) {
		struct ws_link *link = list_entry(node, struct ws_link, lively);

		if (is_held_by(link, before) == is_held(link))
			continue;
		if (!is_held(link) || link->feed || ++link->quiet <= QUIET_MOST) {
			apply_flow(link);
		} else {
			list_remove(&link->lively);
			ws_link_hook(link);
		}
	}
}

void ws_stop(struct ws *ws)
{
	ws->is_stopped = true;
	list_each(node, after, &ws->links)
		apply_flow(list_entry(node, struct ws_link, link));
}

/* --- signs of life --- */

/* libwebsockets checks its timers only after other work, so this also wakes it. */
void ws_kill(struct ws *ws, struct lws *wsi)
{
	lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
	lws_cancel_service(ws->context);
}

static void end_link(struct ws_link *link, const char *fault)
{
	link->fault = fault;
	if (link->feed)
		link->feed->kill(link);
	else
		ws_kill(link->ws, link->wsi);
}

/* libwebsockets has pings of its own, but it keeps its timers in one sorted list, so a round of pings to ten thousand
 * connections would block the loop for seconds. */

bool ws_link_has_unread(const struct ws_link *link)
{
	int bytes;

	return link->ws && ioctl(link->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

void ws_link_heard(struct ws_link *link)
{
	link->heard_ms = (int64_t)uv_now(link->ws->loop);
	link->pinged_ms = 0;
}

/* Don't time out a paused peer: its pong is queued behind unread data. This does not apply to a quiet connection, which
 * is read until it sends something, nor to a producer that is paused because it does not read its acks. */
static bool is_kept_waiting(const struct ws_link *link)
{
	if (link->holds & WS_HOLD_ACKS)
		return false;
	return link->holds || link->ws->is_stopped || (is_held(link) && !list_is_empty(&link->lively));
}

static void check_life(struct ws_link *link, int64_t now)
{
	int64_t interval = link->ping_interval_ms;

	if (is_kept_waiting(link)) {
		ws_link_heard(link);
		link->half_ms = now;
	}
	if (!interval)
		return;
	if (link->pinged_ms && now - link->pinged_ms >= interval) {
		if (ws_link_has_unread(link))
			return;
		end_link(link, "a ping was not answered in time");
	} else if (!link->pinged_ms && now - link->heard_ms >= interval) {
		link->pinged_ms = now;
		link->is_ping_due = true;
		ws_link_want_write(link);
	}
}

void ws_link_set_ping(struct ws_link *link, int64_t interval_ms)
{
	link->ping_interval_ms = interval_ms;
	link->pinged_ms = 0;
}

bool ws_link_take_ping(struct ws_link *link)
{
	bool is_due = link->is_ping_due;

	link->is_ping_due = false;
	return is_due;
}

/* --- messages from frames --- */

static void charge(struct ws_link *link, size_t size)
{
	struct ws *ws = link->ws;

	ws->half_bytes[!!link->feed] += size - link->size;
	ws->budget.charge(ws->budget.owner, (long)size - (long)link->size);
	link->size = size;
}

static void forget_message(struct ws_link *link)
{
	if (link->size)
		charge(link, 0);
	list_remove(&link->half);
	free(link->bytes);
	EVP_MD_CTX_free(link->digest);
	link->bytes = NULL;
	link->len = 0;
	link->total = 0;
	link->digest = NULL;
}

/* Frees the unfinished message at once and closes the connection soon. */
static void end_half(struct ws_link *link)
{
	forget_message(link);
	link->has_peer_closed = true;
	counters.ingest_unfinished++;
	log_spell_on(&link->ws->ended, (int64_t)uv_now(link->ws->loop),
		     "closing connections whose unfinished messages take too much memory or time", NULL);
	end_link(link, "memory is full and its unfinished message holds the most");
}

/* Ends the connections that hold most until no more than `most` is left. Buffers grow by doubling, so one pass per size
 * is enough. */
static void end_halves(struct ws *ws, bool is_feed, size_t most)
{
	for (size_t size = ws->max_message; size && ws->half_bytes[is_feed] > most; size /= 2)
		list_each(node, after, &ws->halves[is_feed]) {
			struct ws_link *link = list_entry(node, struct ws_link, half);

			if (link->size >= size && ws->half_bytes[is_feed] > most)
				end_half(link);
		}
}

/* Returns the buffer size for this many bytes. */
static size_t grow(const struct ws_link *link, size_t needed)
{
	size_t size = link->size ? link->size : FIRST_BYTES;

	while (size < needed)
		size *= 2;
	return size > link->limit && needed <= link->limit ? link->limit : size;
}

/* Returns -1 if this connection itself was ended for holding too much. */
static int make_room(struct ws_link *link, size_t needed)
{
	struct ws *ws = link->ws;
	size_t size = grow(link, needed);

	link->bytes = memory_realloc(link->bytes, size);
	if (!link->len) {
		list_remove(&link->half);
		list_append(&ws->halves[!!link->feed], &link->half);
		link->half_ms = (int64_t)uv_now(ws->loop);
	}
	charge(link, size);
	if (!link->feed && ws->half_bytes[false] > ws->half_limit)
		end_halves(ws, false, ws->half_limit - ws->half_limit / 8);
	return link->has_peer_closed ? -1 : 0;
}

static int keep(struct ws_link *link, const char *in, size_t len)
{
	if (link->len + len > link->size && make_room(link, link->len + len))
		return -1;
	if (len) /* an empty fragment may have no buffer */
		memcpy(link->bytes + link->len, in, len);
	link->len += len;
	return 0;
}

static void end_too_long(struct ws_link *link)
{
	uint8_t digest[SHA256_BYTES];

	sha256_end(&link->digest, digest);
	link->reader->on_too_long(link, link->bytes, link->len < HEAD_BYTES ? link->len : HEAD_BYTES, digest,
				  link->total);
	forget_message(link);
}

static int receive_too_long(struct ws_link *link, const char *in, size_t len, bool is_last)
{
	if (!link->reader->on_too_long) {
		lws_close_reason(link->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, (unsigned char *)"message too big", 15);
		return -1;
	}
	if (!link->digest) { /* now over the limit: from here on only the digest is updated */
		link->digest = sha256_begin();
		EVP_DigestUpdate(link->digest, link->bytes, link->len);
	}
	if (link->len < HEAD_BYTES && keep(link, in, len < HEAD_BYTES ? len : HEAD_BYTES))
		return -1;
	EVP_DigestUpdate(link->digest, in, len);
	if (is_last)
		end_too_long(link);
	return 0;
}

int ws_link_receive(struct ws_link *link, const struct ws_piece *piece)
{
	bool is_last = piece->rest == 0 && piece->is_final;
	int result;

	link->is_begun = true;
	if (link->is_unmasked) {
		lws_close_reason(link->wsi, LWS_CLOSE_STATUS_PROTOCOL_ERR, (unsigned char *)"a frame without a mask",
				 22);
		return -1;
	}
	ws_link_hook(link);
	if (link->has_peer_closed)
		return 0;
	link->last_message_ms = (int64_t)uv_now(link->ws->loop);
	make_lively(link);
	ws_link_heard(link);
	link->total += piece->len;
	if (link->digest || link->total + piece->rest > link->limit)
		return receive_too_long(link, piece->bytes, piece->len, is_last);
	if (is_last && !link->len) { /* the usual case: a whole message */
		link->total = 0;
		return link->reader->on_message(link, piece->bytes, piece->len, piece->is_text);
	}
	if (keep(link, piece->bytes, piece->len))
		return -1;
	if (!is_last)
		return 0;
	result = link->reader->on_message(link, link->bytes, link->len, piece->is_text);
	forget_message(link);
	return result;
}

/* RFC 6455, section 7.4: the codes allowed in a close frame. 1000 to 1015 are registered individually. */
static bool is_close_code(unsigned int code)
{
	if (code == 1004 || code == 1005 || code == 1006)
		return false;
	return (code >= 1000 && code < 1015) || (code >= 3000 && code < 5000);
}

unsigned int ws_judge_close(const char *in, size_t len)
{
	const unsigned char *code = (const unsigned char *)in;

	if (len == 1 || (len >= 2 && !is_close_code((unsigned int)code[0] << 8 | code[1])))
		return LWS_CLOSE_STATUS_PROTOCOL_ERR;
	return len > 2 && !is_utf8(in + 2, len - 2) ? LWS_CLOSE_STATUS_INVALID_PAYLOAD : 0;
}

void ws_link_ignore(struct ws_link *link)
{
	link->has_peer_closed = true;
}

/* Ends connections whose message has been unfinished for --message-timeout. */
static void end_slow_halves(struct ws *ws)
{
	int64_t now = (int64_t)uv_now(ws->loop);

	list_each(node, after, &ws->halves[false]) {
		struct ws_link *link = list_entry(node, struct ws_link, half);

		if (now - link->half_ms >= ws->message_timeout_ms && !ws_link_has_unread(link))
			end_half(link);
	}
}

/* Breaks a deadlock: unfinished messages need memory to be completed, and reading is stopped for lack of memory. So
 * this ends some, but those of feeds, which have no replay, only if no room will be left when all events have
 * settled. */
static void make_way(struct ws *ws)
{
	size_t most = ws->half_limit_all;

	if (ws->budget.is_full_for_producers(ws->budget.owner))
		end_halves(ws, false, most);
	if (ws->budget.is_full(ws->budget.owner) && ws->half_bytes[false] + ws->half_bytes[true] >= ws->half_most)
		end_halves(ws, true, most);
}

static void on_check(uv_timer_t *timer)
{
	struct ws *ws = timer->data;

	list_each(node, after, &ws->links)
		check_life(list_entry(node, struct ws_link, link), (int64_t)uv_now(ws->loop));
	end_slow_halves(ws);
	make_way(ws);
	log_spell_off(&ws->ended, (int64_t)uv_now(ws->loop), NULL);
}

void ws_link_open(struct ws *ws, struct ws_link *link, struct lws *wsi, int fd, const struct ws_reader *reader)
{
	memset(link, 0, sizeof(*link));
	link->ws = ws;
	link->wsi = wsi;
	link->fd = fd;
	link->reader = reader;
	link->feed = reader->feed;
	link->resends = !reader->feed;
	link->limit = ws->max_message;
	link->ping_interval_ms = ws->ping_interval_ms;
	link->last_message_ms = link->heard_ms = (int64_t)uv_now(ws->loop);
	list_init(&link->lively);
	list_init(&link->half);
	list_append(&ws->links, &link->link);
	make_lively(link);
	if (wsi)
		watch_begin(&link->watch, ws->loop, fd, on_poll);
	if (ws->pressure || ws->is_stopped)
		apply_flow(link);
}

/* Raises the limit for unfinished messages, which must leave room for at least one. */
void ws_link_set_limit(struct ws_link *link, size_t bytes)
{
	link->limit = bytes;
	if (!link->feed && link->ws->half_limit < bytes)
		link->ws->half_limit = bytes;
}

void ws_link_set_resends(struct ws_link *link, bool resends)
{
	link->resends = resends;
	apply_flow(link);
}

void ws_link_close(struct ws_link *link)
{
	if (!link->ws)
		return;
	forget_message(link);
	list_remove(&link->lively);
	list_remove(&link->link);
	watch_end(&link->watch);
	link->ws = NULL;
	link->wsi = NULL;
}

static int drop_message(struct ws_link *link, const char *message, size_t len, bool is_text)
{
	(void)link, (void)message, (void)len, (void)is_text;
	return 0;
}

static void drop_too_long(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	(void)link, (void)head, (void)len, (void)digest, (void)total;
}

bool ws_link_leave(struct ws_link *link)
{
	static const struct ws_reader dropper = {drop_message, drop_too_long, NULL};

	if (link->reader == &dropper)
		return false;
	link->reader = &dropper;
	set_reading(link, true);
	return true;
}

/* --- the context --- */

static void on_lws_log(int level, const char *line)
{
	char text[300];

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(line, "\n"), line);
	log_write(LOG_DEBUG, "libwebsockets", "level=%d text=%s", level, text);
}

struct ws *ws_open(uv_loop_t *loop, const struct config *config, const struct ws_budget *budget)
{
	struct lws_context_creation_info info = {0};
	struct ws *ws = memory_calloc(1, sizeof(*ws));
	void *loops[] = {loop};

	ws->loop = loop;
	ws->budget = *budget;
	ws->max_message = (size_t)config->message_bytes;
	ws->message_timeout_ms = config->message_timeout_s * 1000;
	ws->half_limit = (size_t)config->inflight_bytes / HALVES_PART;
	if (ws->half_limit < ws->max_message)
		ws->half_limit = ws->max_message;
	ws->half_limit_all = (size_t)config->inflight_bytes / 8 * 3;
	ws->half_most = (size_t)config->inflight_bytes / 8 * 7;
	list_init(&ws->links);
	list_init(&ws->lively);
	list_init(&ws->halves[false]);
	list_init(&ws->halves[true]);
	ws->ping_interval_ms = config->ping_interval_s * 1000;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	info.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS;
	if (config->ingest_cert) /* loads megabytes of OpenSSL; feeds have their own context in tls.c */
		info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
	info.foreign_loops = loops;
	info.pt_serv_buf_size = READ_BYTES;
	info.max_http_header_data = LONG_HEAD_ROOM;
	info.timeout_secs = (unsigned int)config->handshake_timeout_s;
	info.connect_timeout_secs = (unsigned int)config->handshake_timeout_s;
	info.pcontext = &ws->context;
	ws->context = lws_create_context(&info);
	if (!ws->context) {
		free(ws);
		return NULL;
	}
	uv_timer_init(loop, &ws->check);
	ws->check.data = ws;
	uv_timer_start(&ws->check, on_check, CHECK_MS, CHECK_MS);
	return ws;
}

struct lws_context *ws_context(const struct ws *ws)
{
	return ws->context;
}

void ws_charge(struct ws *ws, long bytes)
{
	ws->budget.charge(ws->budget.owner, bytes);
}

void *ws_owner(const struct ws *ws)
{
	return ws->budget.owner;
}

uv_loop_t *ws_loop(const struct ws *ws)
{
	return ws->loop;
}

const lws_retry_bo_t *ws_no_keepalive(const struct ws *ws)
{
	return &ws->no_keepalive;
}

void ws_on_close(struct ws *ws, void (*on_close)(void *arg), void *arg)
{
	ws->on_close = on_close;
	ws->arg = arg;
}

/* On a foreign loop libwebsockets first closes its handles and must be called once more when they are closed; it then
 * sets context to NULL. */
void ws_close(struct ws *ws)
{
	watch_end_all();
	if (ws->on_close)
		ws->on_close(ws->arg);
	uv_close((uv_handle_t *)&ws->check, NULL);
	lws_context_destroy(ws->context);
}

void ws_free(struct ws *ws)
{
	if (ws->context)
		lws_context_destroy(ws->context);
	free(ws);
}
