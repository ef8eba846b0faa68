/* server.c owns the connections of the feed, and is the only file of wsonce-source that knows
 * libwebsockets. libwebsockets does handshake, control frames and buffering of a write that the
 * kernel took in part; the data are frames from the backlog, written as they are
 * (LWS_WRITE_RAW), some 64 KiB at a time. Since each write is whole frames, a pong that
 * libwebsockets puts between two writes is where it may be. What the messages are, and how fast
 * they come, is left to the owner. */
#include "server.h"

#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "arrival.h"
#include "backlog.h"
#include "frame.h"

enum {
	WRITE_MOST = 1 << 20, /* bytes to one client before the others have a turn */
	TX_MOST = 128 << 20,  /* bytes of one write; more than any message */
	FRAME_MOST = 4096,    /* bytes that are read from a client at a time, and ignored */
};

enum client_state {
	CLIENT_IDLE,    /* has been given everything		-> CLIENT_WRITING, CLIENT_LEAVING */
	CLIENT_WRITING, /* waits until it may be written to	-> CLIENT_IDLE, CLIENT_LEAVING */
	CLIENT_LEAVING, /* has been sent a close frame, or is being cut */
	CLIENT_STATES,
};

/* libwebsockets owns the memory, from the handshake to LWS_CALLBACK_CLOSED. */
struct client {
	struct list link; /* in server.clients[state] */
	enum client_state state;
	struct lws *wsi;
	struct cursor cursor;
	uint64_t arrived; /* bytes at the client's kernel when last seen */
	int64_t moved_ns; /* when that number last changed, or nothing was on its way */
};

struct server {
	struct server_settings settings;
	struct lws_context *context; /* libwebsockets makes it NULL when it is gone */
	struct lws_vhost *vhost;
	struct backlog *backlog;
	struct list clients[CLIENT_STATES];
	unsigned int open; /* clients in all states */
	struct server_counts counts;
	unsigned int goodbye; /* the close code once goodbye was said, else 0 */
	server_cb *cb;
	void *arg;
};

static void client_move(struct server *s, struct client *c, enum client_state state)
{
	list_remove(&c->link);
	c->state = state;
	list_append(&s->clients[state], &c->link);
}

static void client_open(struct server *s, struct client *c, struct lws *wsi)
{
	c->wsi = wsi;
	list_init(&c->link);
	cursor_open(&c->cursor, s->backlog);
	client_move(s, c, CLIENT_IDLE);
	s->open++;
	s->counts.connections++;
}

static void client_close(struct server *s, struct client *c)
{
	if (c->state != CLIENT_LEAVING)
		s->counts.departures++;
	list_remove(&c->link);
	cursor_close(&c->cursor, s->backlog);
	s->open--;
}

/* The frame is our own, because libwebsockets cuts who does not answer its within five seconds; a
 * listener that has much to store first may take longer. */
static void client_say_goodbye(struct server *s, struct client *c)
{
	uint8_t frame[FRAME_CLOSE_MOST];

	client_move(s, c, CLIENT_LEAVING);
	lws_write(c->wsi, frame, frame_close(frame, s->goodbye, NULL), LWS_WRITE_RAW);
}

/* Writes until the kernel is full, the client has everything, or others should have a turn. What
 * the kernel takes only in part libwebsockets keeps; then it is time to wait. */
static int client_write(struct server *s, struct client *c)
{
	size_t written = 0;
	struct span span;

	while (written < WRITE_MOST && !cursor_is_at_end(&c->cursor, s->backlog) && !lws_partial_buffered(c->wsi) &&
	       !lws_send_pipe_choked(c->wsi)) {
		cursor_read(&c->cursor, s->backlog, &span);
		if (lws_write(c->wsi, (unsigned char *)(uintptr_t)span.bytes, span.len, LWS_WRITE_RAW) < 0)
			return -1;
		written += span.len;
		s->counts.deliveries += span.messages;
	}
	s->counts.bytes += written;
	return 0;
}

static int on_writable(struct server *s, struct client *c)
{
	if (c->state == CLIENT_LEAVING)
		return 0;
	if (client_write(s, c))
		return -1;
	s->cb(s->arg);
	if (!cursor_is_at_end(&c->cursor, s->backlog)) {
		client_move(s, c, CLIENT_WRITING);
		lws_callback_on_writable(c->wsi);
	} else if (s->goodbye) {
		client_say_goodbye(s, c);
	} else {
		client_move(s, c, CLIENT_IDLE);
	}
	return 0;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct server *s = lws_context_user(lws_get_context(wsi));
	struct client *c = user;

	(void)in;
	(void)len;
	switch ((int)reason) {
	case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
		return s->goodbye != 0;
	case LWS_CALLBACK_ESTABLISHED:
		client_open(s, c, wsi);
		s->cb(s->arg);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return on_writable(s, c);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		/* After our own close frame nothing may follow, not even an answer to this one. */
		return c->state == CLIENT_LEAVING ? -1 : 0;
	case LWS_CALLBACK_CLOSED:
		if (!c->wsi) /* it was refused, and never opened */
			return 0;
		client_close(s, c);
		s->cb(s->arg);
		return 0;
	}
	return 0;
}

static const struct lws_protocols protocols[] = {
	{.name = "feed",
	 .callback = on_event,
	 .per_session_data_size = sizeof(struct client),
	 .rx_buffer_size = FRAME_MOST,
	 .tx_packet_size = TX_MOST},
	{0},
};

static struct lws_context *context_new(uv_loop_t *loop, struct server *s)
{
	void *loops[] = {loop};
	struct lws_context_creation_info info = {
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
		.foreign_loops = loops,
		.user = s,
		.pcontext = &s->context,
	};

	lws_set_log_level(LLL_ERR, NULL);
	return lws_create_context(&info);
}

static struct lws_vhost *vhost_new(struct server *s)
{
	struct lws_context_creation_info info = {
		.iface = s->settings.address,
		.port = s->settings.port,
		.protocols = protocols,
	};

	return lws_create_vhost(s->context, &info);
}

struct server *server_open(uv_loop_t *loop, const struct server_settings *settings, struct backlog *b, server_cb *cb,
			   void *arg)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->settings = *settings;
	s->backlog = b;
	s->cb = cb;
	s->arg = arg;
	for (int i = 0; i < CLIENT_STATES; i++)
		list_init(&s->clients[i]);
	s->context = context_new(loop, s);
	if (s->context)
		s->vhost = vhost_new(s);
	if (s->vhost)
		return s;
	fprintf(stderr, "cannot listen on %s:%d\n", settings->address, settings->port);
	if (s->context)
		lws_context_destroy(s->context);
	free(s);
	return NULL;
}

int server_port(const struct server *s)
{
	return lws_get_vhost_listen_port(s->vhost);
}

unsigned int server_clients(const struct server *s)
{
	return s->open;
}

const struct server_counts *server_counts(const struct server *s)
{
	return &s->counts;
}

/* Who has everything sleeps on: its callback would ask for more, find none while the slowest is behind,
 * and wake it again. */
void server_wake(struct server *s)
{
	list_each(node, after, &s->clients[CLIENT_IDLE]) {
		struct client *c = list_entry(node, struct client, link);

		if (cursor_is_at_end(&c->cursor, s->backlog) && !s->goodbye)
			continue;
		client_move(s, c, CLIENT_WRITING);
		lws_callback_on_writable(c->wsi);
	}
}

bool server_is_behind(const struct server *s)
{
	return !list_is_empty(&s->clients[CLIENT_WRITING]);
}

static struct arrival client_arrival(const struct client *c)
{
	struct arrival arrival = arrival_of(lws_get_socket_fd(c->wsi));

	arrival.is_complete &= !lws_partial_buffered(c->wsi);
	return arrival;
}

bool server_is_flushed(const struct server *s)
{
	list_each(node, after, &s->clients[CLIENT_IDLE])
		if (!client_arrival(list_entry(node, struct client, link)).is_complete)
			return false;
	return !server_is_behind(s);
}

/* A reset instead of an orderly end, and nothing that waits is sent any more. */
static void client_cut(struct server *s, struct client *c)
{
	struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	setsockopt(lws_get_socket_fd(c->wsi), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	client_move(s, c, CLIENT_LEAVING);
	cursor_close(&c->cursor, s->backlog);
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
	lws_cancel_service(s->context); /* a loop with nothing else to do would not look at timeouts */
}

void server_cut(struct server *s, uint64_t which)
{
	unsigned int left = s->open ? (unsigned int)(which % s->open) : 0;

	for (int state = CLIENT_IDLE; state < CLIENT_LEAVING; state++)
		list_each(node, after, &s->clients[state]) {
			if (left--)
				continue;
			client_cut(s, list_entry(node, struct client, link));
			s->counts.drops++;
			return;
		}
}

static bool is_stalled(struct server *s, struct client *c, int64_t now_ns)
{
	struct arrival arrival = client_arrival(c);

	if (arrival.bytes != c->arrived || arrival.is_complete || !c->moved_ns) {
		c->arrived = arrival.bytes;
		c->moved_ns = now_ns;
	}
	return s->settings.stall_timeout_s > 0 && (double)(now_ns - c->moved_ns) > s->settings.stall_timeout_s * 1e9;
}

static void client_check(struct server *s, struct client *c, int64_t now_ns)
{
	if (s->settings.behind_most && cursor_bytes_left(&c->cursor, s->backlog) > s->settings.behind_most) {
		s->counts.overruns++;
		client_cut(s, c);
	} else if (is_stalled(s, c, now_ns)) {
		s->counts.stalls++;
		client_cut(s, c);
	}
}

void server_check(struct server *s, int64_t now_ns)
{
	for (int state = CLIENT_IDLE; state < CLIENT_LEAVING; state++)
		list_each(node, after, &s->clients[state])
			client_check(s, list_entry(node, struct client, link), now_ns);
}

void server_say_goodbye(struct server *s, unsigned int code)
{
	s->goodbye = code;
	server_wake(s);
}

void server_close(struct server *s)
{
	lws_context_destroy(s->context);
}

/* On a loop of ours libwebsockets 4.1 leaves the last step of destroying to a second call. */
void server_free(struct server *s)
{
	if (s && s->context)
		lws_context_destroy(s->context);
	free(s);
}
