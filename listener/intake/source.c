/* source.c owns the dialled feeds: connect, stay connected, come back. A feed has no replay, so
 * what is lost while a connection is down is lost for this listener; its peers have it.
 *
 * libwebsockets connects and moves bytes; its own client takes frames byte by byte, which cost a third
 * of a listener's time. The bytes go through tls.c, upgrade.c and frame.c, in this order. */
#include "intake/source.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/memory.h"
#include "net/frame.h"
#include "base/log.h"
#include "base/resolve.h"
#include "base/counters.h"
#include "net/tls.h"
#include "net/upgrade.h"
#include "base/url.h"
#include "road/pipeline.h"

#define RECORD_BYTES 16384 /* of a TLS record, decrypted */
#define UNSENT_MOST  65536 /* of TLS's own words to a server that does not read */
#define CHECK_MS     1000
#define SETTLED_MS   60000 /* an open connection of this age shows that the feed works, though it said nothing */
#define LINGER_S     2     /* in which a server may end a connection that we are done with */

enum source_state {
	SOURCE_DOWN,       /* a timer will try again */
	SOURCE_CONNECTING, /* address lookup, connect, TLS, handshake */
	SOURCE_OPEN,
	SOURCE_CLOSING,
};

static const char *const state_names[] = {"down", "connecting", "open", "closing"};

struct source {
	struct ws_link link;
	struct sources *sources;
	struct url url;
	char *shown_url;
	enum source_state state;
	struct lws *wsi; /* NULL in SOURCE_DOWN and during the lookup */
	struct resolve *resolve;
	struct tls *tls;         /* NULL: ws:// */
	struct upgrade *upgrade; /* until the answer to the handshake is read */
	struct frames *frames;   /* from then on */
	struct backoff backoff;
	uv_timer_t retry; /* the next attempt, or the deadline of the one at hand */
	char error[200];
	bool has_error_logged;  /* since the feed last worked */
	int64_t opened_ms;      /* loop clock */
	int64_t last_message_s; /* since 1970; 0: none so far */
};

struct sources {
	struct ws *ws;
	const struct config *config;
	struct lws_vhost *vhost;
	struct tls_trust *trust; /* NULL: no source needs it */
	uv_timer_t check;        /* for silent sources */
	bool is_closing;
	size_t count;
	struct source items[];
};

static void connect_now(struct source *s);

static void set_state(struct source *s, enum source_state state)
{
	enum source_state old = s->state;

	if (old == state)
		return;
	s->state = state;
	if (state == SOURCE_OPEN)
		log_info("source connection", "from=%s to=%s url=%s", state_names[old], state_names[state],
			 s->shown_url);
	else
		log_debug("source connection", "from=%s to=%s url=%s", state_names[old], state_names[state],
			  s->shown_url);
}

static int64_t now_ms(const struct source *s)
{
	return (int64_t)uv_now(ws_loop(s->sources->ws));
}

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static void forget_connection(struct source *s)
{
	ws_link_close(&s->link);
	tls_free(s->tls);
	upgrade_free(s->upgrade);
	frames_free(s->frames);
	s->tls = NULL;
	s->upgrade = NULL;
	s->frames = NULL;
	s->wsi = NULL;
}

/* To be open proves nothing: a server may accept everybody and hang up. */
static void count_as_working(struct source *s)
{
	s->has_error_logged = false;
	backoff_reset(&s->backoff);
}

/* The backoff comes on top of what the server asks for, so that a fleet does not come back as one. */
static int64_t draw_wait(struct source *s, int64_t asked_ms)
{
	return asked_ms + backoff_next(&s->backoff, backoff_draw());
}

/* One warning for a spell of failures, and one for each long wait that a server asks for; the reason of each is in
 * /api/status. */
static enum log_level failure_level(const struct source *s, bool was_open, int64_t asked_ms)
{
	if (!s->has_error_logged || asked_ms > s->backoff.cap_ms)
		return LOG_WARN;
	return was_open ? LOG_INFO : LOG_DEBUG;
}

static void retry_later(struct source *s, const char *why)
{
	bool was_open = s->state == SOURCE_OPEN;
	int64_t wait, asked_ms = s->upgrade ? upgrade_wait_s(s->upgrade) * 1000 : 0;

	snprintf(s->error, sizeof(s->error), "%s", why);
	forget_connection(s);
	if (s->sources->is_closing) {
		set_state(s, SOURCE_CLOSING);
		return;
	}
	if (was_open && now_ms(s) - s->opened_ms >= SETTLED_MS)
		count_as_working(s);
	wait = draw_wait(s, asked_ms);
	counters.source_disconnects++;
	log_write(failure_level(s, was_open, asked_ms), "cannot connect to source, will retry",
		  "url=%s reason=%s retry_ms=%lld", s->shown_url, s->error, (long long)wait);
	s->has_error_logged = true;
	set_state(s, SOURCE_DOWN);
	uv_timer_start(&s->retry, on_retry, (uint64_t)wait, 0);
}

/* --- messages --- */

static void count_message(struct ws_link *link)
{
	struct source *s = list_entry(link, struct source, link);

	s->last_message_s = time(NULL);
	count_as_working(s);
}

static int on_message(struct ws_link *link, const char *message, size_t len, bool is_text)
{
	(void)is_text;
	count_message(link);
	pipeline_receive(ws_owner(link->ws), message, len, NULL);
	return 0;
}

static void on_too_long(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	count_message(link);
	pipeline_refuse_long(ws_owner(link->ws), head, len, digest, total, NULL);
}

static const struct ws_reader reader = {on_message, on_too_long, true};

static void on_piece(void *arg, const struct ws_piece *piece)
{
	struct source *s = arg;

	ws_link_receive(&s->link, piece);
}

static void on_pong(void *arg)
{
	struct source *s = arg;

	ws_link_heard(&s->link);
}

static const struct frames_reader frames_reader = {on_piece, on_pong};

/* --- what is sent --- */

static size_t take_plain(struct source *s, char *room)
{
	if (s->frames)
		return frames_take(s->frames, room);
	return s->upgrade ? upgrade_take(s->upgrade, room, FRAMES_ROOM) : 0;
}

static size_t take(struct source *s, char *room)
{
	char plain[FRAMES_ROOM];
	size_t n = s->tls ? tls_take(s->tls, room, FRAMES_ROOM) : take_plain(s, room);

	if (n || !s->tls || !tls_is_ready(s->tls))
		return n;
	n = take_plain(s, plain);
	if (!n || tls_write(s->tls, plain, n))
		return 0;
	return tls_take(s->tls, room, FRAMES_ROOM);
}

/* As much of what is due as the socket takes. Returns -1 if the connection is broken. */
static int send_due(struct source *s)
{
	unsigned char room[LWS_PRE + FRAMES_ROOM];

	for (;;) {
		size_t n;

		if (lws_send_pipe_choked(s->wsi)) {
			lws_callback_on_writable(s->wsi);
			return 0;
		}
		n = take(s, (char *)room + LWS_PRE);
		if (!n)
			return 0;
		if (lws_write(s->wsi, room + LWS_PRE, n, LWS_WRITE_RAW) < (int)n)
			return -1;
	}
}

static int on_writable(struct source *s)
{
	if (s->link.ws && s->sources->is_closing && ws_link_leave(&s->link))
		frames_close(s->frames, LWS_CLOSE_STATUS_GOINGAWAY);
	if (s->link.ws && ws_link_take_ping(&s->link))
		frames_ping(s->frames);
	if (send_due(s))
		return -1;
	if (!s->link.ws)
		ws_hook(s->sources->ws, s->wsi);
	return 0;
}

static void want_write(struct source *s)
{
	if (s->link.ws)
		ws_link_want_write(&s->link);
	else
		lws_callback_on_writable(s->wsi);
}

/* --- what is received --- */

/* What libwebsockets says of this connection later is ignored: it no longer knows the source. */
static struct lws *detach(struct source *s)
{
	struct lws *wsi = s->wsi;

	lws_set_opaque_user_data(wsi, NULL);
	return wsi;
}

static int give_up(struct source *s, const char *why)
{
	detach(s);
	retry_later(s, why);
	return -1;
}

/* After a close frame the server is to end the connection (RFC 6455, section 7.1.1), and what it still
 * sends is dropped. The next connection does not wait for that: a feed has no replay. */
static int leave(struct source *s)
{
	struct lws *wsi;

	if (s->sources->is_closing || send_due(s))
		return give_up(s, frames_reason(s->frames));
	wsi = detach(s);
	lws_rx_flow_control(wsi, 1);
	lws_set_timeout(wsi, PENDING_TIMEOUT_CLOSE_ACK, LINGER_S);
	retry_later(s, frames_reason(s->frames));
	return 0;
}

static void on_open(struct source *s)
{
	s->frames = frames_new(&frames_reader, s);
	upgrade_free(s->upgrade);
	s->upgrade = NULL;
	uv_timer_stop(&s->retry);
	s->error[0] = '\0';
	s->opened_ms = now_ms(s);
	counters.source_connects++;
	set_state(s, SOURCE_OPEN);
	ws_link_open(s->sources->ws, &s->link, s->wsi, &reader);
}

static int on_frames(struct source *s, const char *bytes, size_t len)
{
	return frames_receive(s->frames, bytes, len) == FRAMES_END ? leave(s) : 0;
}

static int on_plain(struct source *s, const char *bytes, size_t len)
{
	size_t used;

	if (s->frames)
		return on_frames(s, bytes, len);
	switch (upgrade_receive(s->upgrade, bytes, len, &used)) {
	case UPGRADE_MORE:
		return 0;
	case UPGRADE_REFUSED:
		return give_up(s, upgrade_reason(s->upgrade));
	case UPGRADE_DONE:
		break;
	}
	on_open(s);
	return on_frames(s, bytes + used, len - used);
}

static int on_encrypted(struct source *s, const char *bytes, size_t len)
{
	char plain[RECORD_BYTES];
	ssize_t n;

	tls_receive(s->tls, bytes, len);
	while ((n = tls_read(s->tls, plain, sizeof(plain))) > 0)
		if (on_plain(s, plain, (size_t)n))
			return -1;
		else if (!s->tls) /* it has been left */
			return 0;
	if (!n && tls_due(s->tls) < UNSENT_MOST)
		return 0;
	send_due(s); /* TLS tells the server, too, why it ends */
	return give_up(s, n ? tls_reason(s->tls) : "the server sends pings and does not read the answers");
}

/* All of the bytes are taken, also if reading is to stop in the midst of them: that is one buffer of
 * one source for each time, and the budget has room for it. */
static int on_received(struct source *s, const char *bytes, size_t len)
{
	if (s->sources->is_closing && !s->link.ws)
		return -1;
	if (s->tls ? on_encrypted(s, bytes, len) : on_plain(s, bytes, len))
		return -1;
	if (s->wsi && (!s->frames || frames_is_due(s->frames) || (s->tls && tls_due(s->tls))))
		want_write(s);
	return 0;
}

/* --- libwebsockets --- */

static int on_connected(struct source *s, struct lws *wsi)
{
	s->wsi = wsi;
	/* The first words of TLS are ours, too. */
	if (s->tls && tls_read(s->tls, NULL, 0) < 0)
		return -1;
	lws_callback_on_writable(wsi);
	return 0;
}

/* libwebsockets may drop a connection without another word. */
static void on_destroyed(struct source *s, const struct lws *wsi)
{
	if (s->wsi == wsi)
		retry_later(s, "the connection ended during the handshake");
}

static void on_closed(struct source *s)
{
	retry_later(s, s->state == SOURCE_OPEN ? "the connection ended" : "the connection ended during the handshake");
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct source *s = lws_get_opaque_user_data(wsi);

	(void)user;
	if (!s)
		return 0;
	/* An int, not the enum: libwebsockets has some 80 reasons, and a few of them concern us. */
	switch ((int)reason) {
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		retry_later(s, in && len ? in : "connection failed");
		return 0;
	case LWS_CALLBACK_RAW_CONNECTED:
		return on_connected(s, wsi);
	case LWS_CALLBACK_RAW_RX:
		return s->wsi ? on_received(s, in, len) : -1;
	case LWS_CALLBACK_RAW_WRITEABLE:
		return s->wsi ? on_writable(s) : -1;
	case LWS_CALLBACK_RAW_CLOSE:
		on_closed(s);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		on_destroyed(s, wsi);
		return 0;
	}
	return 0;
}

static const struct lws_protocols protocols[] = {
	{.name = "wsonce-source", .callback = on_lws},
	{.name = NULL},
};

/* --- connecting --- */

/* What speaks over the connection at hand. */
static int prepare(struct source *s)
{
	bool is_tls = strcmp(s->url.scheme, "wss") == 0;

	s->upgrade = upgrade_new(&s->url);
	s->tls = is_tls ? tls_new(s->sources->trust, s->url.host) : NULL;
	return s->upgrade && (s->tls || !is_tls) ? 0 : -1;
}

static void dial(struct source *s, const char *address)
{
	struct lws_client_connect_info info = {0};
	struct lws *wsi;

	if (prepare(s)) {
		retry_later(s, "the connection cannot be prepared");
		return;
	}
	info.context = ws_context(s->sources->ws);
	info.vhost = s->sources->vhost;
	info.method = "RAW";
	info.address = info.host = address;
	info.port = s->url.port ? s->url.port : s->tls ? 443 : 80;
	info.local_protocol_name = protocols[0].name;
	info.retry_and_idle_policy = ws_no_keepalive(s->sources->ws);
	info.opaque_user_data = s;
	/* NULL may come after the callback has told the reason already; then a new attempt waits. */
	wsi = lws_client_connect_via_info(&info);
	if (s->state != SOURCE_CONNECTING)
		return;
	s->wsi = wsi;
	if (!wsi)
		retry_later(s, "connection failed");
}

static void on_address(void *arg, const char *address, const char *error)
{
	struct source *s = arg;

	s->resolve = NULL;
	if (address)
		dial(s, address);
	else
		retry_later(s, error);
}

/* A handshake that is never answered. */
static void on_deadline(uv_timer_t *timer)
{
	struct source *s = timer->data;

	if (s->resolve)
		resolve_cancel(s->resolve);
	s->resolve = NULL;
	if (s->wsi)
		ws_kill(s->sources->ws, detach(s));
	retry_later(s, "the handshake was not answered in time");
}

static void connect_now(struct source *s)
{
	set_state(s, SOURCE_CONNECTING);
	uv_timer_start(&s->retry, on_deadline, (uint64_t)s->sources->config->handshake_timeout_s * 1000, 0);
	s->resolve = resolve_start(ws_loop(s->sources->ws), s->url.host, s->backoff.tries, on_address, s);
	if (!s->resolve)
		retry_later(s, "no name can be looked up");
}

/* A peer that answers pings may still have forgotten us: with --idle-timeout, silence ends it. */
static void on_check(uv_timer_t *timer)
{
	struct sources *all = timer->data;
	int64_t limit_ms = all->config->idle_timeout_s * 1000;
	int64_t now = (int64_t)uv_now(ws_loop(all->ws));

	for (size_t i = 0; i < all->count; i++) {
		struct source *s = &all->items[i];

		if (s->state != SOURCE_OPEN || s->link.unread_ms || now - s->link.last_message_ms < limit_ms)
			continue;
		log_warn("source is silent, reconnecting", "url=%s idle_s=%lld", s->shown_url,
			 (long long)all->config->idle_timeout_s);
		ws_kill(s->sources->ws, s->wsi);
		s->link.last_message_ms = now;
	}
}

static void source_init(struct source *s, struct sources *all, const char *url)
{
	s->sources = all;
	s->backoff = (struct backoff){.base_ms = 100, .cap_ms = 10000};
	list_init(&s->link.link);
	uv_timer_init(ws_loop(all->ws), &s->retry);
	s->retry.data = s;
	s->shown_url = url_redact(url);
	url_parse(&s->url, url); /* which config.c has checked */
	uv_timer_start(&s->retry, on_retry, 0, 0);
}

static struct lws_vhost *open_vhost(struct ws *ws)
{
	struct lws_context_creation_info info = {0};

	info.port = CONTEXT_PORT_NO_LISTEN;
	info.vhost_name = "source";
	info.http_proxy_address = ":"; /* or it would take that of http_proxy, whatever no_proxy says */
	info.protocols = protocols;
	info.retry_and_idle_policy = ws_no_keepalive(ws);
	return lws_create_vhost(ws_context(ws), &info);
}

static bool has_tls(const struct config *config)
{
	for (size_t i = 0; i < config->sources.count; i++)
		if (strncmp(config->sources.items[i], "wss:", 4) == 0)
			return true;
	return false;
}

struct sources *sources_open(struct ws *ws, const struct config *config, char *error, size_t size)
{
	size_t count = config->sources.count;
	struct sources *all;

	if (has_tls(config) && access(config->source_ca, R_OK)) {
		snprintf(error, size, "--source-ca: %s cannot be read, and wss:// sources are verified against it",
			 config->source_ca);
		return NULL;
	}
	all = memory_calloc(1, sizeof(*all) + count * sizeof(struct source));
	all->ws = ws;
	all->config = config;
	all->count = count;
	if (has_tls(config) && !(all->trust = tls_trust_new(config->source_ca))) {
		snprintf(error, size, "--source-ca: %s holds no certificates", config->source_ca);
		free(all);
		return NULL;
	}
	all->vhost = open_vhost(ws);
	if (!all->vhost) {
		snprintf(error, size, "--source: libwebsockets refuses");
		tls_trust_free(all->trust);
		free(all);
		return NULL;
	}
	uv_timer_init(ws_loop(ws), &all->check);
	all->check.data = all;
	if (config->idle_timeout_s)
		uv_timer_start(&all->check, on_check, CHECK_MS, CHECK_MS);
	for (size_t i = 0; i < count; i++)
		source_init(&all->items[i], all, config->sources.items[i]);
	return all;
}

size_t sources_count(const struct sources *s)
{
	return s->count;
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	const struct source *at = &s->items[i];

	return (struct source_view){
		.url = at->shown_url,
		.state = state_names[at->state],
		.error = at->error,
		.is_open = at->state == SOURCE_OPEN,
		.last_message_s = at->last_message_s,
	};
}

void sources_close(struct sources *all)
{
	all->is_closing = true;
	uv_close((uv_handle_t *)&all->check, NULL);
	for (size_t i = 0; i < all->count; i++) {
		struct source *s = &all->items[i];

		if (s->resolve)
			resolve_cancel(s->resolve);
		uv_close((uv_handle_t *)&s->retry, NULL);
		if (s->state == SOURCE_OPEN)
			ws_link_want_write(&s->link);
	}
}

void sources_free(struct sources *all)
{
	for (size_t i = 0; i < all->count; i++) {
		forget_connection(&all->items[i]);
		url_clear(&all->items[i].url);
		free(all->items[i].shown_url);
	}
	tls_trust_free(all->trust);
	free(all);
}
