/* link.c owns the producer's connections. It is the only file of wsonce-producer that uses
 * libwebsockets, for handshakes, control frames and reading. Messages are written as ready frames
 * (LWS_WRITE_RAW), as many as fit into one write, because a system call per message would cost more
 * than everything else. window.c owns the pending messages, script.c their order. */
#include "link.h"

#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "frame.h"
#include "random.h"
#include "window.h"

enum {
	WRITE_BYTES = 64 << 10, /* one write; more if a message needs it */
	ACK_MOST = 16 << 10,    /* a longer ack is ignored */
	READ_BYTES = 16 << 10,  /* bytes per read */
	BACKOFF_BASE_MS = 100,
	BACKOFF_CAP_MS = 5000,
	CONNECTING_MOST = 256, /* concurrent handshakes */
	CONNECTING_MS = 20,    /* when the other connections try again */
};

enum link_state {
	LINK_DOWN,       /* waits for its next attempt	-> LINK_CONNECTING */
	LINK_CONNECTING, /* handshake in progress	-> LINK_READY, LINK_DOWN */
	LINK_READY,      /*				-> LINK_CLOSING, LINK_DOWN */
	LINK_CLOSING,    /* close frame sent	-> LINK_DOWN */
};

struct link {
	struct list room;   /* in links.rooms while READY with room in its window */
	struct list unsent; /* in links.unsent while it has something to write */
	struct links *links;
	const struct link_target *target;
	enum link_state state;
	struct lws *wsi; /* libwebsockets'; NULL while DOWN */
	struct window window;
	unsigned int malformed_open; /* malformed messages sent on this connection that have no ack yet */
	struct backoff backoff;
	uv_timer_t retry;   /* runs while DOWN */
	bool was_up;        /* the next handshake is a reconnect */
	int64_t lost_ns;    /* when the connection was lost */
	bool is_waiting;    /* for libwebsockets to report it writable */
	char ack[ACK_MOST]; /* the fragments of an ack so far */
	size_t ack_len;     /* more than ACK_MOST: too long, skip it */
};

struct links {
	struct links_settings settings;
	struct lws_context *context; /* libwebsockets sets it to NULL when destroyed */
	struct link *all;            /* settings.connections of them */
	struct list rooms;           /* links that can take a message, the next one first */
	struct list unsent;          /* links to write to before the loop sleeps */
	uv_prepare_t flush;
	unsigned int ready;      /* links in LINK_READY or LINK_CLOSING */
	unsigned int connecting; /* links in LINK_CONNECTING */
	bool is_closing;         /* no more attempts */
	struct random random;
	struct links_counts counts;
	uint8_t *buffer;     /* LWS_PRE bytes, then one write */
	size_t buffer_bytes; /* size of that write */
	char trouble[512];   /* why the last attempt failed, or "" */
	links_acked_cb *acked;
	links_room_cb *room;
	void *arg;
};

static void on_retry(uv_timer_t *timer);

static bool is_up(enum link_state state)
{
	return state == LINK_READY || state == LINK_CLOSING;
}

/* Call when the state or the window's count has changed. A link that had room before keeps its turn. */
static void note_room(struct link *k)
{
	bool has_room = k->state == LINK_READY && k->window.count < k->links->settings.window;

	if (!has_room)
		list_remove(&k->room);
	else if (list_is_empty(&k->room))
		list_append(&k->links->rooms, &k->room);
}

static void link_move(struct link *k, enum link_state state)
{
	struct links *l = k->links;

	l->ready += is_up(state);
	l->ready -= is_up(k->state);
	l->connecting += state == LINK_CONNECTING;
	l->connecting -= k->state == LINK_CONNECTING;
	if (is_up(k->state))
		k->lost_ns = (int64_t)uv_hrtime();
	k->state = state;
	note_room(k);
	switch (state) {
	case LINK_DOWN:
		k->wsi = NULL;
		k->is_waiting = false;
		list_remove(&k->unsent);
		k->malformed_open = 0;
		k->ack_len = 0;
		if (!l->is_closing)
			uv_timer_start(&k->retry, on_retry,
				       (uint64_t)backoff_next(&k->backoff, (uint32_t)random_next(&l->random)), 0);
		return;
	case LINK_READY:
		backoff_reset(&k->backoff);
		l->counts.connects++;
		l->counts.reconnects += k->was_up;
		k->was_up = true;
		return;
	case LINK_CONNECTING:
	case LINK_CLOSING:
		return;
	}
}

static void link_wait(struct link *k)
{
	k->is_waiting = true;
	lws_callback_on_writable(k->wsi);
}

/* Schedules a write for after the loop has handled its reads. Asking libwebsockets for a writable callback each time
 * would cost four system calls, more than the message itself. */
static void link_ask(struct link *k)
{
	if (is_up(k->state) && !k->is_waiting && list_is_empty(&k->unsent))
		list_append(&k->links->unsent, &k->unsent);
}

/* libwebsockets keeps its timers in a sorted list, so ten thousand simultaneous handshakes would take a minute. So its
 * pings are off, and only CONNECTING_MOST handshakes run at a time. */
static const lws_retry_bo_t no_keepalive;

static void link_connect(struct link *k)
{
	struct lws_client_connect_info info = {
		.context = k->links->context,
		.address = k->target->host,
		.port = k->target->port,
		.path = k->target->path,
		.host = k->target->host,
		.protocol = k->links->settings.wants_acks ? ACK_PROTOCOL : NULL,
		.local_protocol_name = ACK_PROTOCOL,
		.userdata = k,
		.pwsi = &k->wsi,
		.retry_and_idle_policy = &no_keepalive,
	};

	link_move(k, LINK_CONNECTING);
	/* A failure may have been reported, and the state changed, before this returns. */
	if (!lws_client_connect_via_info(&info) && k->state == LINK_CONNECTING)
		link_move(k, LINK_DOWN);
}

static void on_retry(uv_timer_t *timer)
{
	struct link *k = timer->data;

	if (k->links->connecting < CONNECTING_MOST)
		link_connect(k);
	else
		uv_timer_start(timer, on_retry, CONNECTING_MS, 0);
}

static size_t write_text(const struct links *l, const struct sending *m, char *out)
{
	if (m->step.kind == SCRIPT_MALFORMED)
		return message_malformed(&l->settings.form, m->step.n, out);
	return message_event(&l->settings.form, m->step.n, out);
}

static size_t write_frame(struct links *l, const struct sending *m, uint8_t *out)
{
	uint64_t random = random_next(&l->random);
	uint8_t *text = out + FRAME_HEADER_MOST;
	size_t len = write_text(l, m, (char *)text);
	uint8_t mask[4];
	size_t before;

	memcpy(mask, &random, sizeof(mask));
	frame_mask(text, len, mask);
	before = frame_header(out, FRAME_TEXT, len, mask);
	memmove(out + before, text, len);
	return before + len;
}

/* m was acked, or gets no ack. */
static void settle(struct link *k, struct sending *m, const struct ack *ack, int64_t now_ns)
{
	note_room(k);
	k->links->acked(k->links->arg, m, ack, now_ns);
	free(m);
}

/* Fills the buffer with as many messages as certainly fit; returns the bytes. */
static size_t link_fill(struct link *k, int64_t now_ns)
{
	struct links *l = k->links;
	size_t most = message_most(&l->settings.form) + FRAME_HEADER_MOST;
	size_t used = 0;
	struct sending *m;

	while (used + most <= l->buffer_bytes && (m = window_send(&k->window, now_ns))) {
		used += write_frame(l, m, l->buffer + LWS_PRE + used);
		l->counts.messages++;
		k->malformed_open += m->step.kind == SCRIPT_MALFORMED;
		l->counts.resends += m->first_ns != now_ns;
		if (!l->settings.wants_acks)
			settle(k, window_take(&k->window, m), NULL, now_ns);
	}
	return used;
}

/* May send two close frames if libwebsockets still had data to write; peers ignore the second. */
static int link_say_goodbye(struct link *k)
{
	static const uint8_t mask[4] = {0x5a, 0xc3, 0x3c, 0xa5};
	uint8_t *start = k->links->buffer + LWS_PRE;

	return lws_write(k->wsi, start, frame_close(start, LWS_CLOSE_STATUS_NORMAL, mask), LWS_WRITE_RAW) < 0 ? -1 : 0;
}

/* libwebsockets buffers what the kernel does not accept; then wait until it is writable. Wait without acks, too:
 * nothing else shows when there is room. */
static int link_write(struct link *k)
{
	uint8_t *start = k->links->buffer + LWS_PRE;
	bool has_more = !k->links->settings.wants_acks && window_has_unsent(&k->window);

	while (window_has_unsent(&k->window)) {
		size_t len;

		if (lws_partial_buffered(k->wsi)) {
			link_wait(k);
			return 0;
		}
		len = link_fill(k, (int64_t)uv_hrtime());
		if (lws_write(k->wsi, start, len, LWS_WRITE_RAW) < 0)
			return -1;
	}
	if (has_more)
		link_wait(k);
	return 0;
}

static int on_writable(struct link *k)
{
	k->is_waiting = false;
	if (k->state == LINK_CLOSING)
		return link_say_goodbye(k);
	if (!k->links->settings.wants_acks)
		k->links->room(k->links->arg);
	return link_write(k);
}

static void on_flush(uv_prepare_t *flush)
{
	struct links *l = flush->data;

	list_each(node, after, &l->unsent) {
		struct link *k = list_entry(node, struct link, unsent);

		list_remove(&k->unsent);
		if (k->state == LINK_CLOSING)
			link_wait(k);
		else if (link_write(k))
			lws_set_timeout(k->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
	}
}

static void settle_event(struct link *k, const struct ack *ack, uint64_t n)
{
	struct sending *m = window_settle_event(&k->window, n);

	if (m)
		settle(k, m, ack, (int64_t)uv_hrtime());
	else
		k->links->counts.stray_acks++;
}

/* The ack of a malformed message does not name it, and messages settle in any order. So they are settled
 * together, once all on this connection have acks. An accepted one is counted at once. */
static void settle_malformed(struct link *k, const struct ack *ack)
{
	struct links *l = k->links;
	struct sending *m;
	bool is_last;

	if (!k->malformed_open) {
		l->counts.stray_acks++;
		return;
	}
	is_last = --k->malformed_open == 0;
	if (!is_last && ack->status == ACK_REJECTED)
		return;
	while ((m = window_settle_malformed(&k->window))) {
		settle(k, m, ack, (int64_t)uv_hrtime());
		if (!is_last)
			return;
	}
}

static void on_ack(struct link *k, const char *text, size_t len)
{
	struct links *l = k->links;
	struct ack ack;
	uint64_t n;

	if (ack_read(text, len, &ack)) {
		l->counts.bad_acks++;
		return;
	}
	n = ack.id ? message_number(&l->settings.form, ack.id, ack.id_len) : 0;
	if (n)
		settle_event(k, &ack, n);
	else
		settle_malformed(k, &ack);
	ack_free(&ack);
	l->room(l->arg);
}

/* Joins fragments. Most acks arrive in one piece and are parsed in place. */
static void on_bytes(struct link *k, const char *bytes, size_t len)
{
	bool is_end = lws_is_final_fragment(k->wsi) && !lws_remaining_packet_payload(k->wsi);

	if (is_end && !k->ack_len) {
		on_ack(k, bytes, len);
		return;
	}
	if (k->ack_len + len <= ACK_MOST)
		memcpy(k->ack + k->ack_len, bytes, len);
	k->ack_len += len;
	if (!is_end)
		return;
	if (k->ack_len <= ACK_MOST)
		on_ack(k, k->ack, k->ack_len);
	else
		k->links->counts.bad_acks++;
	k->ack_len = 0;
}

static void note_trouble(struct link *k, const char *why, size_t len)
{
	struct links *l = k->links;

	l->counts.refusals++;
	snprintf(l->trouble, sizeof(l->trouble), "%s:%d: %.*s", k->target->host, k->target->port, (int)len, why);
}

static int add_token(struct link *k, unsigned char **at, unsigned char *end)
{
	char value[1024];
	int len;

	if (!k->links->settings.token)
		return 0;
	len = snprintf(value, sizeof(value), "Bearer %s", k->links->settings.token);
	return lws_add_http_header_by_token(k->wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (unsigned char *)value, len, at, end);
}

/* Without the ack subprotocol every message would wait forever. */
static int refuse_without_acks(struct link *k)
{
	char agreed[64] = "";

	if (!k->links->settings.wants_acks)
		return 0;
	if (lws_hdr_copy(k->wsi, agreed, sizeof(agreed), WSI_TOKEN_PROTOCOL) > 0 && !strcmp(agreed, ACK_PROTOCOL))
		return 0;
	snprintf(k->links->trouble, sizeof(k->links->trouble), "%s:%d: does not speak " ACK_PROTOCOL, k->target->host,
		 k->target->port);
	return -1;
}

static void on_up(struct link *k)
{
	link_move(k, LINK_READY);
	if (k->links->is_closing)
		link_move(k, LINK_CLOSING);
	window_retry(&k->window, INT64_MAX);
	k->links->room(k->links->arg);
	link_ask(k);
}

/* If a handshake is reset, this may be libwebsockets' only callback. */
static void on_destroyed(struct link *k, const struct lws *wsi)
{
	if (k->wsi == wsi && k->state == LINK_CONNECTING)
		link_move(k, LINK_DOWN);
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct link *k = user;

	switch ((int)reason) {
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		k->wsi = wsi;
		return add_token(k, in, *(unsigned char **)in + len);
	case LWS_CALLBACK_CLIENT_FILTER_PRE_ESTABLISH:
		return refuse_without_acks(k);
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
		on_up(k);
		return 0;
	case LWS_CALLBACK_CLIENT_RECEIVE:
		on_bytes(k, in, len);
		return 0;
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		return on_writable(k);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		/* After our own close frame, send nothing: not even an answer to this one. */
		return k->state == LINK_CLOSING ? -1 : 0;
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		note_trouble(k, in ? in : "no connection", in ? len : sizeof("no connection") - 1);
		link_move(k, LINK_DOWN);
		return 0;
	case LWS_CALLBACK_CLIENT_CLOSED:
		link_move(k, LINK_DOWN);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		if (k)
			on_destroyed(k, wsi);
		return 0;
	}
	return 0;
}

static const struct lws_protocols protocols[] = {
	{.name = ACK_PROTOCOL,
	 .callback = on_event,
	 .rx_buffer_size = READ_BYTES,
	 .tx_packet_size = (size_t)MESSAGE_PAYLOAD_MOST * 2},
	{0},
};

static struct lws_context *context_new(uv_loop_t *loop, struct links *l)
{
	void *loops[] = {loop};
	struct lws_context_creation_info info = {
		.options = LWS_SERVER_OPTION_LIBUV,
		.foreign_loops = loops,
		.port = CONTEXT_PORT_NO_LISTEN,
		.protocols = protocols,
		.http_proxy_address = ":", /* no proxy; overrides http_proxy */
		.pt_serv_buf_size = READ_BYTES,
		.pcontext = &l->context,
	};

	lws_set_log_level(LLL_ERR, NULL);
	return lws_create_context(&info);
}

static void link_init(struct link *k, struct links *l, uv_loop_t *loop, const struct link_target *target)
{
	k->links = l;
	k->target = target;
	list_init(&k->room);
	list_init(&k->unsent);
	k->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
	window_init(&k->window);
	uv_timer_init(loop, &k->retry);
	k->retry.data = k;
	uv_timer_start(&k->retry, on_retry, 0, 0);
}

int link_read_url(const char *url, struct link_target *target)
{
	char copy[768];
	const char *scheme, *host, *path;

	if (snprintf(copy, sizeof(copy), "%s", url) >= (int)sizeof(copy))
		return -1;
	if (lws_parse_uri(copy, &scheme, &host, &target->port, &path) || strcmp(scheme, "ws") != 0 || !*host ||
	    snprintf(target->host, sizeof(target->host), "%s", host) >= (int)sizeof(target->host) || target->port < 1 ||
	    target->port > 65535)
		return -1;
	if (!*path || !strcmp(path, "/"))
		path = "events";
	return snprintf(target->path, sizeof(target->path), "/%s", path) < (int)sizeof(target->path) ? 0 : -1;
}

struct links *links_open(uv_loop_t *loop, const struct links_settings *settings, links_acked_cb *acked,
			 links_room_cb *room, void *arg)
{
	size_t most = message_most(&settings->form) + FRAME_HEADER_MOST;
	struct links *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->settings = *settings;
	l->acked = acked;
	l->room = room;
	l->arg = arg;
	l->random.state = settings->seed;
	list_init(&l->rooms);
	list_init(&l->unsent);
	l->buffer_bytes = most > WRITE_BYTES ? most : WRITE_BYTES;
	l->buffer = malloc(LWS_PRE + l->buffer_bytes);
	l->all = calloc(settings->connections, sizeof(*l->all));
	l->context = l->buffer && l->all ? context_new(loop, l) : NULL;
	if (!l->context) {
		links_free(l);
		return NULL;
	}
	uv_prepare_init(loop, &l->flush);
	l->flush.data = l;
	uv_prepare_start(&l->flush, on_flush);
	for (unsigned int i = 0; i < settings->connections; i++)
		link_init(&l->all[i], l, loop, &settings->targets[i % settings->targets_count]);
	return l;
}

bool links_has_room(const struct links *l)
{
	return !list_is_empty(&l->rooms);
}

/* The next connection in turn that can take a message, or NULL. */
static struct link *next_with_room(const struct links *l)
{
	return links_has_room(l) ? list_entry(l->rooms.next, struct link, room) : NULL;
}

static void end_turn(struct link *k)
{
	list_remove(&k->room);
	note_room(k);
}

int links_offer(struct links *l, const struct script_step *step, int64_t planned_ns)
{
	struct link *k = next_with_room(l);

	if (!k || window_add(&k->window, step, planned_ns))
		return -1;
	end_turn(k);
	link_ask(k);
	return 0;
}

uint64_t links_under_way(const struct links *l)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < l->settings.connections; i++)
		count += l->all[i].window.count;
	return count;
}

unsigned int links_ready(const struct links *l)
{
	return l->ready;
}

const struct links_counts *links_counts(const struct links *l)
{
	return &l->counts;
}

const char *links_trouble(const struct links *l)
{
	return l->trouble;
}

static struct link *next_ready(const struct links *l)
{
	for (unsigned int i = 0; i < l->settings.connections && !links_has_room(l); i++)
		if (l->all[i].state == LINK_READY)
			return &l->all[i];
	return next_with_room(l);
}

/* Moves the messages of a dead connection to a live one, even beyond its window. */
static void link_check(struct links *l, struct link *k, int64_t before_ns)
{
	struct link *other;

	if (is_up(k->state)) {
		if (window_retry(&k->window, before_ns))
			link_ask(k);
		return;
	}
	other = k->window.count && k->lost_ns < before_ns ? next_ready(l) : NULL;
	if (!other)
		return;
	l->counts.moved += k->window.count;
	window_move(&k->window, &other->window);
	end_turn(other);
	link_ask(other);
}

void links_check(struct links *l, int64_t now_ns)
{
	int64_t before_ns = now_ns - (int64_t)(l->settings.retry_after_s * 1e9);

	for (unsigned int i = 0; i < l->settings.connections; i++)
		link_check(l, &l->all[i], before_ns);
}

void links_say_goodbye(struct links *l)
{
	l->is_closing = true;
	for (unsigned int i = 0; i < l->settings.connections; i++) {
		uv_timer_stop(&l->all[i].retry);
		if (l->all[i].state != LINK_READY)
			continue;
		link_move(&l->all[i], LINK_CLOSING);
		link_ask(&l->all[i]);
	}
}

static void on_closed(uv_handle_t *handle)
{
	(void)handle;
}

void links_close(struct links *l)
{
	l->is_closing = true;
	for (unsigned int i = 0; i < l->settings.connections; i++)
		uv_close((uv_handle_t *)&l->all[i].retry, on_closed);
	uv_close((uv_handle_t *)&l->flush, on_closed);
	lws_context_destroy(l->context);
}

/* With a foreign loop, libwebsockets 4.1 needs a second call to finish destroying the context. */
void links_free(struct links *l)
{
	if (!l)
		return;
	if (l->context)
		lws_context_destroy(l->context);
	for (unsigned int i = 0; l->all && i < l->settings.connections; i++)
		if (l->all[i].links)
			window_clear(&l->all[i].window);
	free(l->all);
	free(l->buffer);
	free(l);
}
