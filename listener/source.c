/* source.c owns the dialled feeds: connect, stay connected, come back. A feed has no replay, so
 * what is lost while a connection is down is lost for this listener; its peers have it. */
#include "source.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "log.h"
#include "resolve.h"
#include "stats.h"
#include "url.h"

#define RECEIVE_BYTES 65536 /* handed over at once */
#define CHECK_MS      1000

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
	struct backoff backoff;
	uv_timer_t retry; /* the next attempt, or the deadline of the one at hand */
	char error[200];
	bool has_error_logged; /* since it was last open */
};

struct sources {
	struct ws *ws;
	const struct config *config;
	struct lws_vhost *vhost;
	uv_timer_t check; /* for silent sources */
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

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

/* One warning for a spell of failures; the reason of each is in /api/status. */
static void retry_later(struct source *s, const char *why)
{
	bool was_open = s->state == SOURCE_OPEN;
	uint32_t random = 0;
	int64_t wait;

	s->wsi = NULL;
	if (s->sources->is_closing) {
		set_state(s, SOURCE_CLOSING);
		return;
	}
	snprintf(s->error, sizeof(s->error), "%s", why);
	uv_random(NULL, NULL, &random, sizeof(random), 0, NULL);
	wait = backoff_next(&s->backoff, random);
	stats.source_disconnects++;
	log_write(s->has_error_logged && !was_open ? LOG_DEBUG : LOG_WARN, "source is not connected",
		  "url=%s reason=%s retry_ms=%lld", s->shown_url, s->error, (long long)wait);
	s->has_error_logged = true;
	set_state(s, SOURCE_DOWN);
	uv_timer_start(&s->retry, on_retry, (uint64_t)wait, 0);
}

/* --- messages --- */

static int on_message(struct ws_link *link, const char *message, size_t len, bool is_text)
{
	(void)is_text;
	return pipeline_receive(ws_pipeline(link->ws), message, len, NULL);
}

static int on_too_long(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	char reason[120];

	snprintf(reason, sizeof(reason), "the message has %llu bytes, more than --max-message allows",
		 (unsigned long long)total);
	return pipeline_refuse(ws_pipeline(link->ws), head, len, digest, reason, NULL);
}

static const struct ws_reader reader = {on_message, on_too_long};

/* --- libwebsockets --- */

static int add_authorization(struct source *s, unsigned char **at, size_t room)
{
	char plain[400], coded[600], header[620];
	int n;

	if (!s->url.user)
		return 0;
	n = snprintf(plain, sizeof(plain), "%s:%s", s->url.user, s->url.password ? s->url.password : "");
	if (n < 0 || (size_t)n >= sizeof(plain) || lws_b64_encode_string(plain, n, coded, sizeof(coded)) < 0)
		return -1;
	n = snprintf(header, sizeof(header), "Basic %s", coded);
	return lws_add_http_header_by_token(s->wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (unsigned char *)header, n, at,
					    *at + room);
}

static void on_open(struct source *s, struct lws *wsi)
{
	uv_timer_stop(&s->retry);
	s->error[0] = '\0';
	s->has_error_logged = false;
	backoff_reset(&s->backoff);
	stats.source_connects++;
	set_state(s, SOURCE_OPEN);
	ws_link_open(s->sources->ws, &s->link, wsi, &reader);
}

/* What libwebsockets says of a refused certificate is an error number. */
static const char *describe_failure(struct lws *wsi, const char *why, char *text, size_t size)
{
	SSL *tls = lws_get_ssl(wsi);
	long result = tls ? SSL_get_verify_result(tls) : X509_V_OK;

	if (result == X509_V_OK)
		return why;
	snprintf(text, size, "the certificate is not trusted: %s", X509_verify_cert_error_string(result));
	return text;
}

/* libwebsockets may drop a connection whose handshake was reset without another word. */
static void on_destroyed(struct source *s, const struct lws *wsi)
{
	if (s->wsi != wsi)
		return;
	s->wsi = NULL;
	if (s->state == SOURCE_CONNECTING)
		retry_later(s, "the connection ended during the handshake");
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct source *s = lws_get_opaque_user_data(wsi);
	char text[200];

	(void)user;
	if (!s)
		return 0;
	/* An int, not the enum: libwebsockets has some 80 reasons, and a few of them concern us. */
	switch ((int)reason) {
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		s->wsi = wsi;
		return add_authorization(s, in, len);
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		retry_later(s, describe_failure(wsi, in && len ? in : "connection failed", text, sizeof(text)));
		return 0;
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
		on_open(s, wsi);
		return 0;
	case LWS_CALLBACK_CLIENT_RECEIVE:
		return s->link.ws ? ws_link_receive(&s->link, in, len) : -1;
	case LWS_CALLBACK_CLIENT_RECEIVE_PONG:
		if (s->link.ws)
			ws_link_heard(&s->link);
		return 0;
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		if (s->sources->is_closing)
			ws_link_say_goodbye(&s->link, true);
		return s->link.ws ? ws_link_write(&s->link) : 0;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		if (s->sources->is_closing)
			return -1; /* the answer to our close frame: no more frames */
		return s->link.ws ? ws_link_take_close(&s->link, in, len) : 0;
	case LWS_CALLBACK_WSI_DESTROY:
		on_destroyed(s, wsi);
		return 0;
	case LWS_CALLBACK_CLIENT_CLOSED:
		ws_link_close(&s->link);
		retry_later(s, "the connection ended");
		return 0;
	}
	return 0;
}

static const struct lws_protocols protocols[] = {
	{.name = "wsonce-source", .callback = on_lws, .rx_buffer_size = RECEIVE_BYTES},
	{.name = NULL},
};

/* --- connecting --- */

static void dial(struct source *s, const char *address)
{
	bool is_tls = strcmp(s->url.scheme, "wss") == 0;
	bool is_v6 = strchr(s->url.host, ':') != NULL;
	char host[300], path[1024];
	struct lws_client_connect_info info = {0};
	struct lws *wsi;

	snprintf(path, sizeof(path), "%s%.*s", s->url.path[0] == '/' ? "" : "/", (int)strcspn(s->url.path, "#"),
		 s->url.path);
	snprintf(host, sizeof(host), s->url.port ? "%s%s%s:%d" : "%s%s%s", is_v6 ? "[" : "", s->url.host,
		 is_v6 ? "]" : "", s->url.port);
	info.context = ws_context(s->sources->ws);
	info.vhost = s->sources->vhost;
	info.address = address;
	info.port = s->url.port ? s->url.port : is_tls ? 443 : 80;
	info.path = path;
	info.host = host;
	info.origin = host;
	/* Nobody but the place that we were given hears our password. */
	info.ssl_connection = LCCSCF_HTTP_NO_FOLLOW_REDIRECT | (is_tls ? LCCSCF_USE_SSL : 0);
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

/* A handshake that is never answered. What libwebsockets says of this attempt later is ignored: its
 * connection no longer knows the source. */
static void on_deadline(uv_timer_t *timer)
{
	struct source *s = timer->data;

	if (s->resolve)
		resolve_cancel(s->resolve);
	s->resolve = NULL;
	if (s->wsi) {
		lws_set_opaque_user_data(s->wsi, NULL);
		ws_kill(s->sources->ws, s->wsi);
	}
	retry_later(s, "the handshake was not answered in time");
}

static void connect_now(struct source *s)
{
	set_state(s, SOURCE_CONNECTING);
	uv_timer_start(&s->retry, on_deadline, (uint64_t)s->sources->config->handshake_timeout_s * 1000, 0);
	s->resolve = resolve_start(ws_loop(s->sources->ws), s->url.host, on_address, s);
	if (!s->resolve)
		retry_later(s, "out of memory");
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
		log_warn("source is silent: connecting again", "url=%s idle_s=%lld", s->shown_url,
			 (long long)all->config->idle_timeout_s);
		ws_kill(s->sources->ws, s->wsi);
		s->link.last_message_ms = now;
	}
}

static int source_init(struct source *s, struct sources *all, const char *url)
{
	s->sources = all;
	s->backoff = (struct backoff){.base_ms = 100, .cap_ms = 10000};
	list_init(&s->link.link);
	uv_timer_init(ws_loop(all->ws), &s->retry);
	s->retry.data = s;
	s->shown_url = url_redact(url);
	if (url_parse(&s->url, url) || !s->shown_url)
		return -1;
	uv_timer_start(&s->retry, on_retry, 0, 0);
	return 0;
}

static struct lws_vhost *open_vhost(struct ws *ws, const struct config *config)
{
	struct lws_context_creation_info info = {0};

	info.port = CONTEXT_PORT_NO_LISTEN;
	info.vhost_name = "source";
	info.protocols = protocols;
	info.retry_and_idle_policy = ws_no_keepalive(ws);
	info.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
	info.client_ssl_ca_filepath = config->source_ca;
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
	all = calloc(1, sizeof(*all) + count * sizeof(struct source));
	snprintf(error, size, "libwebsockets cannot dial: out of memory, or --source-ca holds no certificates");
	if (!all)
		return NULL;
	all->ws = ws;
	all->config = config;
	all->count = count;
	all->vhost = open_vhost(ws, config);
	if (!all->vhost) {
		free(all);
		return NULL;
	}
	uv_timer_init(ws_loop(ws), &all->check);
	all->check.data = all;
	if (config->idle_timeout_s)
		uv_timer_start(&all->check, on_check, CHECK_MS, CHECK_MS);
	for (size_t i = 0; i < count; i++)
		if (source_init(&all->items[i], all, config->sources.items[i]))
			return NULL;
	return all;
}

size_t sources_count(const struct sources *s)
{
	return s->count;
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	const struct source *at = &s->items[i];

	return (struct source_view){at->shown_url, state_names[at->state], at->error, at->state == SOURCE_OPEN};
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
		url_clear(&all->items[i].url);
		free(all->items[i].shown_url);
	}
	free(all);
}
