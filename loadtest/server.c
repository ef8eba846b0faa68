/* server.c owns the connections of the feed. It is the only file of wsonce-source that uses
 * libwebsockets, for handshakes, control frames and the rest of partial writes. Data are frames from
 * the backlog, written unchanged (LWS_WRITE_RAW), about 64 KiB at a time. Each write is whole frames,
 * so libwebsockets may send a pong between two writes. source.c decides what is sent, and how fast. */
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
	WRITE_MOST = 1 << 20, /* bytes written to one client per turn */
	TX_MOST = 128 << 20,  /* bytes of one write; more than any message */
	FRAME_MOST = 4096,    /* bytes per read from a client; ignored */
};

enum client_state {
	CLIENT_IDLE,    /* everything is written		-> CLIENT_WRITING, CLIENT_LEAVING */
	CLIENT_WRITING, /* waits until it is writable		-> CLIENT_IDLE, CLIENT_LEAVING */
	CLIENT_LEAVING, /* close frame sent, or being dropped */
	CLIENT_STATES,
};

/* libwebsockets owns the memory, from the handshake to LWS_CALLBACK_CLOSED. */
struct client {
	struct list link; /* in server.clients[state] */
	enum client_state state;
	struct lws *wsi;
	struct cursor cursor;
	uint64_t arrived; /* bytes acknowledged by the client's kernel at the last check */
	int64_t moved_ns; /* the last time that number changed or nothing was pending */
};

struct server {
	struct server_settings settings;
	struct lws_context *context; /* libwebsockets sets it to NULL when destroyed */
	struct lws_vhost *vhost;
	struct backlog *backlog;
	struct list clients[CLIENT_STATES];
	unsigned int open; /* clients in all states */
	struct server_counts counts;
	unsigned int goodbye; /* the close code once close frames were sent, else 0 */
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

/* Writes its own close frame, because libwebsockets drops a client that does not answer its close frame within
 * five seconds; a listener that has much to store may take longer. */
static void client_say_goodbye(struct server *s, struct client *c)
{
	uint8_t frame[FRAME_CLOSE_MOST];

	client_move(s, c, CLIENT_LEAVING);
	lws_write(c->wsi, frame, frame_close(frame, s->goodbye, NULL), LWS_WRITE_RAW);
}

/* Writes until the kernel's buffer is full, everything is written, or it is another client's turn.
 * libwebsockets buffers the rest of a partial write; then wait until it is writable. */
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
		/* After our own close frame, send nothing: not even an answer to this one. */
		return c->state == CLIENT_LEAVING ? -1 : 0;
	case LWS_CALLBACK_CLOSED:
		if (!c->wsi) /* refused before it was open */
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

/* Wakes only clients with something to write. The callback of another would ask for more messages, get none while
 * the slowest client is behind, and wake it again. */
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

/* Resets the connection and discards unsent data. */
static void client_cut(struct server *s, struct client *c)
{
	struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	setsockopt(lws_get_socket_fd(c->wsi), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	client_move(s, c, CLIENT_LEAVING);
	cursor_close(&c->cursor, s->backlog);
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
	lws_cancel_service(s->context); /* an idle loop would not check timeouts */
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

/* With a foreign loop, libwebsockets 4.1 needs a second call to finish destroying the context. */
void server_free(struct server *s)
{
	if (s && s->context)
		lws_context_destroy(s->context);
	free(s);
}
