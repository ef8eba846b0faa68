/* config.c reads the settings. --help, the table in the docs and the start-up log line (print.c) and reloads (change.c)
 * use its table too, so a setting cannot exist in one place only. */
#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "config/setting.h"
#include "config/tokens.h"
#include "config/value.h"
#include "base/secret.h"
#include "base/url.h"
#include "base/text.h"
#include "base/timestamp.h"

#define KEY_BYTES_MIN 16
#define CREDENTIAL    "wsonce."  /* prefix of credential names */
#define FILE_TEXT_MAX (64 << 20) /* bytes of the settings file */

#define AT(member) offsetof(struct config, member)
#define DAY        86400LL
/* clang-format off */
#define NUMBER(flag, env, type, member, value, fallback, lowest, highest, meaning) \
	{flag, env, {type, lowest, highest, NULL}, AT(member), value, fallback, meaning}
#define TEXT(flag, env, type, member, value, fallback, meaning) \
	{flag, env, {type, 0, 0, NULL}, AT(member), value, fallback, meaning}
#define CHOICE(flag, env, member, value, fallback, choices, meaning) \
	{flag, env, {VALUE_CHOICE, 0, 0, choices}, AT(member), value, fallback, meaning}
/* clang-format on */

static const struct setting settings[] = {
	TEXT("source", "WSONCE_SOURCE", VALUE_URLS, sources, "[NAME=]URL", NULL,
	     "ws:// or wss:// feed to dial, and its name in log, status and metrics; repeatable (WSONCE_SOURCE "
	     "takes several, separated by commas)"),
	TEXT("feed", "WSONCE_FEED", VALUE_FEEDS, feed_specs, "NAME", NULL,
	     "listen to the feed of a profile, a shipped one (wsonce profile list shows them) or a path, as NAME or "
	     "NAME?var=value&...; repeatable (WSONCE_FEED takes several, separated by blanks)"),
	TEXT("source-file", "WSONCE_SOURCE_FILE", VALUE_FILE_OF, sources, "FILE", NULL,
	     "read --source from the lines of FILE, to keep secrets in URLs off the command line"),
	TEXT("feed-file", "WSONCE_FEED_FILE", VALUE_FILE_OF, feed_specs, "FILE", NULL,
	     "read --feed from the lines of FILE, to keep secrets off the command line"),
	TEXT("source-ca", "WSONCE_SOURCE_CA", VALUE_TEXT, source_ca, "FILE", "/etc/ssl/certs/ca-certificates.crt",
	     "PEM certificates that wss:// sources are verified against"),
	TEXT("source-cert", "WSONCE_SOURCE_CERT", VALUE_TEXT, source_cert, "FILE", NULL,
	     "PEM certificate chain to show to wss:// sources that ask for one; needs --source-key"),
	TEXT("source-key", "WSONCE_SOURCE_KEY", VALUE_TEXT, source_key, "FILE", NULL,
	     "PEM private key of --source-cert"),
	TEXT("source-proxy", "WSONCE_SOURCE_PROXY", VALUE_PROXY, source_proxy, "URL", NULL,
	     "connect to sources through this proxy, http://[user:password@]host[:port=80] (CONNECT) or "
	     "socks5://[user:password@]host[:port=1080] (which looks up names); http_proxy is ignored"),
	TEXT("source-proxy-file", "WSONCE_SOURCE_PROXY_FILE", VALUE_FILE_OF, source_proxy, "FILE", NULL,
	     "read --source-proxy from the first line of FILE, to keep it off the command line"),
	TEXT("source-uncompressed", "WSONCE_SOURCE_UNCOMPRESSED", VALUE_SWITCH, source_uncompressed, "", NULL,
	     "do not offer permessage-deflate to sources"),
	NUMBER("readers", "WSONCE_READERS", VALUE_NUMBER, readers, "K", "0", 0, 1000,
	       "at most K listeners of a fleet read one source (docs/scaling.md); 0: all do"),
	NUMBER("ping-interval", "WSONCE_PING_INTERVAL", VALUE_SECONDS, ping_interval_s, "TIME", "20", 1, DAY,
	       "ping a connection that has been silent for this long; close it after as long again without an answer"),
	NUMBER("idle-timeout", "WSONCE_IDLE_TIMEOUT", VALUE_SECONDS, idle_timeout_s, "TIME", "0", 0, 30 * DAY,
	       "reconnect to a source that has sent no message for this long, even if it answers pings; 0: never"),
	TEXT("ingest", "WSONCE_INGEST", VALUE_ADDRESS, ingest, "ADDR:PORT", NULL,
	     "accept producers at ws://ADDR:PORT/events"),
	TEXT("ingest-http", "WSONCE_INGEST_HTTP", VALUE_ADDRESS, ingest_http, "ADDR:PORT", NULL,
	     "accept producers by POST http://ADDR:PORT/events, one event or one per line; or at unix:/PATH"),
	TEXT("ingest-profile", "WSONCE_INGEST_PROFILE", VALUE_PROFILE, ingest_profile_spec, "PROFILE", NULL,
	     "profile that describes producers' messages and acks: a file, or a shipped one as NAME[?var=value&...]"),
	TEXT("ingest-token", "WSONCE_INGEST_TOKEN", VALUE_SECRET, ingest_token, "T", NULL,
	     "require Authorization: Bearer T"),
	TEXT("ingest-token-file", "WSONCE_INGEST_TOKEN_FILE", VALUE_TEXT, ingest_token_file, "FILE", NULL,
	     "require one of the tokens in FILE, lines \"name token\"; reloaded when it changes"),
	TEXT("ingest-webhook-secret-file", "WSONCE_INGEST_WEBHOOK_SECRET_FILE", VALUE_TEXT, ingest_webhook_secret_file,
	     "FILE", NULL,
	     "take POST /events without a token if one of the secrets in FILE has signed it (Standard Webhooks), lines "
	     "\"name whsec_...\"; reloaded when it changes"),
	TEXT("ingest-open", "WSONCE_INGEST_OPEN", VALUE_SWITCH, ingest_open, "", NULL,
	     "allow an --ingest address that is not loopback without a token: anybody may send"),
	TEXT("ingest-origin", "WSONCE_INGEST_ORIGIN", VALUE_ORIGINS, ingest_origins, "ORIGIN", NULL,
	     "allow web pages of ORIGIN, such as https://example.com; others are refused; repeatable"),
	TEXT("ingest-cert", "WSONCE_INGEST_CERT", VALUE_TEXT, ingest_cert, "FILE", NULL,
	     "PEM certificate chain: producers connect by wss://; needs --ingest-key"),
	TEXT("ingest-key", "WSONCE_INGEST_KEY", VALUE_TEXT, ingest_key, "FILE", NULL,
	     "PEM private key of --ingest-cert"),
	TEXT("ingest-client-ca", "WSONCE_INGEST_CLIENT_CA", VALUE_TEXT, ingest_client_ca, "FILE", NULL,
	     "require a certificate signed by an authority in FILE (PEM); if there are tokens, either one"),
	NUMBER("ingest-max-connections", "WSONCE_INGEST_MAX_CONNECTIONS", VALUE_NUMBER, ingest_connections, "N",
	       "10000", 1, 1000000, "at most N producers are connected at once; more are refused"),
	NUMBER("ingest-max-handshakes", "WSONCE_INGEST_MAX_HANDSHAKES", VALUE_NUMBER, ingest_handshakes, "N", "4096", 1,
	       1000000, "at most N handshakes at once; a further one replaces the oldest"),
	NUMBER("ingest-max-per-address", "WSONCE_INGEST_MAX_PER_ADDRESS", VALUE_NUMBER, ingest_per_address, "N", "0", 0,
	       1000000, "at most N producers from one address (IPv6: one /64); 0: no limit"),
	NUMBER("handshake-timeout", "WSONCE_HANDSHAKE_TIMEOUT", VALUE_SECONDS, handshake_timeout_s, "TIME", "10", 1,
	       3600, "time for a new connection to become a WebSocket"),
	NUMBER("message-timeout", "WSONCE_MESSAGE_TIMEOUT", VALUE_SECONDS, message_timeout_s, "TIME", "60", 1, DAY,
	       "time for a producer to finish a message it has begun"),
	TEXT("redis", "WSONCE_REDIS", VALUE_REDIS, redis, "URL", "redis://127.0.0.1:6379/0",
	     "redis://[user:password@]host:port/db, rediss:// for TLS, redis-sentinel://host:port,host:port/master/db, "
	     "or unix:///path; none: rely on the unique key alone"),
	TEXT("redis-file", "WSONCE_REDIS_FILE", VALUE_FILE_OF, redis, "FILE", NULL,
	     "read --redis from the first line of FILE, to keep it off the command line"),
	TEXT("redis-ca", "WSONCE_REDIS_CA", VALUE_TEXT, redis_ca, "FILE", "/etc/ssl/certs/ca-certificates.crt",
	     "PEM certificates that rediss:// servers are verified against"),
	TEXT("redis-cert", "WSONCE_REDIS_CERT", VALUE_TEXT, redis_cert, "FILE", NULL,
	     "PEM certificate chain to show to rediss:// servers; needs --redis-key"),
	TEXT("redis-key", "WSONCE_REDIS_KEY", VALUE_TEXT, redis_key, "FILE", NULL, "PEM private key of --redis-cert"),
	NUMBER("redis-timeout", "WSONCE_REDIS_TIMEOUT", VALUE_MS, redis_timeout_ms, "TIME", "2", 1, 3600000,
	       "an answer later than this counts as an outage"),
	TEXT("store", "WSONCE_STORE", VALUE_STORE, store, "STORE", "postgres",
	     "where events are stored: postgres, or sqlite://PATH, a file on a local disk that needs no server "
	     "(docs/sqlite.md); --redis then defaults to none"),
	TEXT("postgres", "WSONCE_POSTGRES", VALUE_CONNINFO, postgres, "CONNINFO", "",
	     "libpq connection string, a URI or key=value; default: libpq's own (PGHOST, PGDATABASE, ...)"),
	TEXT("postgres-file", "WSONCE_POSTGRES_FILE", VALUE_FILE_OF, postgres, "FILE", NULL,
	     "read --postgres from the first line of FILE, to keep it off the command line"),
	NUMBER("postgres-timeout", "WSONCE_POSTGRES_TIMEOUT", VALUE_MS, postgres_timeout_ms, "TIME", "30", 1,
	       1000 * DAY, "an answer later than this counts as an outage: reconnect and send the batch again"),
	NUMBER("postgres-connections", "WSONCE_POSTGRES_CONNECTIONS", VALUE_NUMBER, postgres_connections, "N", "2", 1,
	       2, "at most N connections store events; the second is opened when rows come faster than one takes them"),
	TEXT("admin", "WSONCE_ADMIN", VALUE_ADDRESS, admin, "ADDR:PORT", NULL,
	     "serve /healthz, /readyz, /metrics and /api/status; unix:/PATH for a socket"),
	TEXT("admin-host", "WSONCE_ADMIN_HOST", VALUE_HOSTS, admin_hosts, "NAME", NULL,
	     "also answer requests for this host name, besides localhost and addresses; repeatable"),
	TEXT("instance-id", "WSONCE_INSTANCE_ID", VALUE_TEXT, instance_id, "ID", NULL,
	     "name of this listener in claims, dead letters and logs; default: host name and pid"),
	TEXT("claim-prefix", "WSONCE_CLAIM_PREFIX", VALUE_TEXT, claim_prefix, "P",
	     "dedup:", "prefix of the keys in Redis; a colon is added if it does not end in one"),
	NUMBER("claim-ttl", "WSONCE_CLAIM_TTL", VALUE_SECONDS, claim_ttl_s, "TIME", "30", 1, DAY,
	       "lease of a claim, renewed while its event is in flight"),
	NUMBER("dedup-window", "WSONCE_DEDUP_WINDOW", VALUE_SECONDS, dedup_window_s, "TIME", "300", 1, 365 * DAY,
	       "how long done marks stay in Redis (about 165 bytes each); the unique key catches later duplicates"),
	TEXT("marks-key-file", "WSONCE_MARKS_KEY_FILE", VALUE_KEY_FILE, marks_key, "FILE", NULL,
	     "add a MAC to each mark in Redis, with the key in the first line of FILE (16 bytes or more, the same for "
	     "the whole fleet); ignore marks without one"),
	NUMBER("batch-max", "WSONCE_BATCH_MAX", VALUE_NUMBER, batch_max, "N", "4000", 1, 100000,
	       "at most N rows in a batch"),
	NUMBER("max-inflight-bytes", "WSONCE_MAX_INFLIGHT_BYTES", VALUE_BYTES, inflight_bytes, "N", "256MiB", 1024,
	       INT64_C(1) << 40, "at most N bytes of memory for all events, including held ones"),
	TEXT("spool", "WSONCE_SPOOL", VALUE_TEXT, spool, "DIR", NULL,
	     "directory on a local disk for events that nobody would send again, while they wait to be stored "
	     "(docs/spool.md); created if missing, one for each listener"),
	NUMBER("spool-max", "WSONCE_SPOOL_MAX", VALUE_BYTES, spool_bytes, "N", "10GiB", 1 << 20, INT64_C(1) << 50,
	       "at most N bytes in the spool; beyond that, events wait only in memory"),
	NUMBER("spool-after", "WSONCE_SPOOL_AFTER", VALUE_MS, spool_after_ms, "TIME", "100ms", 0, 3600000,
	       "write an event that is not stored after this time; 0: write each before it is claimed"),
	NUMBER("spool-sync", "WSONCE_SPOOL_SYNC", VALUE_MS, spool_sync_ms, "TIME", "1", 1, 3600000,
	       "time between two fdatasyncs of the spool; a power cut may lose what came since the last one"),
	NUMBER("max-message", "WSONCE_MAX_MESSAGE", VALUE_BYTES, message_bytes, "N", "1MiB", 64, 256 << 20,
	       "at most N bytes in a message; a larger one closes a producer's connection with 1009, or becomes a dead "
	       "letter with its start (source)"),
	NUMBER("max-attempts", "WSONCE_MAX_ATTEMPTS", VALUE_NUMBER, max_attempts, "N", "5", 1, 1000000,
	       "tries of one listener to store an event before it becomes a dead letter"),
	NUMBER("drain-timeout", "WSONCE_DRAIN_TIMEOUT", VALUE_MS, drain_timeout_ms, "TIME", "10", 1, 1000 * DAY,
	       "time to finish what is in memory after SIGTERM"),
	TEXT("id-pointer", "WSONCE_ID_POINTER", VALUE_POINTERS, id_pointers, "POINTER", "/event_id",
	     "JSON pointer (RFC 6901) to the event's id; repeatable, the parts are joined by |"),
	TEXT("type-pointer", "WSONCE_TYPE_POINTER", VALUE_POINTER, type_pointer, "POINTER", "/event_type",
	     "JSON pointer to the event's type"),
	TEXT("payload-pointer", "WSONCE_PAYLOAD_POINTER", VALUE_POINTER, payload_pointer, "POINTER", "/payload",
	     "JSON pointer to the payload; an empty pointer is the whole message"),
	TEXT("traceparent-pointer", "WSONCE_TRACEPARENT_POINTER", VALUE_POINTER, traceparent_pointer, "POINTER", NULL,
	     "JSON pointer, within the payload, to the event's traceparent (W3C Trace Context), sent to webhooks"),
	TEXT("time-pointer", "WSONCE_TIME_POINTER", VALUE_POINTER, time_pointer, "POINTER", NULL,
	     "JSON pointer to the event's own time, a string or a number; needed by --max-age"),
	CHOICE("time-unit", "WSONCE_TIME_UNIT", time_unit, "UNIT", "rfc3339", TIMESTAMP_UNITS,
	       "format of that time: rfc3339, a number since 1970 in s, ms, us or ns, or hex_s"),
	NUMBER("max-age", "WSONCE_MAX_AGE", VALUE_SECONDS, max_age_s, "AGE", NULL, 1, 3650 * DAY,
	       "an event older than this (30d, 12h, 15m, 45s) when it arrives or enters a batch becomes a dead letter; "
	       "default: no limit"),
	TEXT("order-pointer", "WSONCE_ORDER_POINTER", VALUE_POINTER, order_pointer, "POINTER", NULL,
	     "JSON pointer to a key: events with the same key are stored one after another, through all tries "
	     "(docs/effects.md)"),
	NUMBER("unsettled-warning", "WSONCE_UNSETTLED_WARNING", VALUE_SECONDS, unsettled_warning_s, "AGE", "60s", 0,
	       365 * DAY, "warn about events that are not settled after this long; 0s: never"),
	NUMBER("lines-keep", "WSONCE_LINES_KEEP", VALUE_SECONDS, lines_keep_s, "AGE", "30d", 3600, 3650 * DAY,
	       "delete what wsonce lines reports on after this long"),
	TEXT("handler", "WSONCE_HANDLER", VALUE_FUNCTION, handler, "SCHEMA.FUNCTION", NULL,
	     "SQL function (event_id text, event_type text, payload jsonb) RETURNS void that is called once for each "
	     "event, in the transaction that stores it"),
	TEXT("consumer", "WSONCE_CONSUMER", VALUE_NAME, consumer, "NAME", "",
	     "name of this fleet, if several fleets share a database and each of them processes every event"),
	CHOICE("log-level", "WSONCE_LOG_LEVEL", log_level, "LEVEL", "info", "debug info warn error",
	       "debug, info, warn or error; to standard error"),
	CHOICE("log-format", "WSONCE_LOG_FORMAT", log_format, "FORMAT", "text", "text json", "text or json"),
	TEXT("config", "WSONCE_CONFIG", VALUE_TEXT, file, "FILE", NULL,
	     "JSON file whose keys are these names without the dashes, webhooks (docs/webhooks.md) and sources "
	     "(docs/feeds/profiles.md)"),
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

const struct setting *setting_at(size_t i)
{
	static_assert(SETTINGS <= CONFIG_SETTINGS_MAX, "struct config has a place for the origin of each");

	return i < SETTINGS ? &settings[i] : NULL;
}

/* Settings that only a listener uses. Other commands have no flags for them, but accept them in the environment and the
 * file, which they share with the listeners. */
static const char listen_only[] =
	"source feed source-file feed-file source-ca source-cert source-key source-proxy source-proxy-file "
	"source-uncompressed readers ping-interval idle-timeout ingest ingest-http ingest-profile ingest-token "
	"ingest-token-file ingest-open ingest-origin ingest-cert ingest-key ingest-client-ca ingest-max-connections "
	"ingest-max-handshakes ingest-max-per-address ingest-webhook-secret-file handshake-timeout message-timeout "
	"traceparent-pointer admin admin-host lines-keep";

struct reader {
	struct config *config;
	struct config_own *own; /* NULL: none */
	const char *command;
	enum config_origin list_origin[SETTINGS]; /* origin of the list's current items */
	struct slice file_text;
	char *error;
	size_t error_size;
};

/* Returns the length of a setting's name without -file: the name of its credential. */
static size_t credential_length(const struct setting *s)
{
	const char *end = strstr(s->flag, "-file");

	return end ? (size_t)(end - s->flag) : strlen(s->flag);
}

static __attribute__((format(printf, 2, 3))) int refuse(struct reader *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->error, r->error_size, format, args);
	va_end(args);
	return -1;
}

static int fail(struct reader *r, const struct setting *s, enum config_origin origin, const char *what)
{
	switch (origin) {
	case FROM_ENV:
		return refuse(r, "%s: %s", s->env, what);
	case FROM_FILE:
		return refuse(r, "%s in %s: %s", s->flag, r->config->file ? r->config->file : "", what);
	case FROM_CREDENTIAL:
		return refuse(r, "credential " CREDENTIAL "%.*s: %s", (int)credential_length(s), s->flag, what);
	case FROM_DEFAULT:
	case FROM_FLAG:
		break;
	}
	return refuse(r, "--%s: %s", s->flag, what);
}

static const struct setting *find_in(const struct setting *table, size_t count, const char *name, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(table[i].flag) == len && strncmp(table[i].flag, name, len) == 0)
			return &table[i];
	return NULL;
}

const struct setting *setting_find(const char *name, size_t len)
{
	return find_in(settings, SETTINGS, name, len);
}

static bool is_listen(const char *command)
{
	return strcmp(command, "listen") == 0;
}

bool setting_is_of(const struct setting *s, const char *command)
{
	return is_listen(command) || !is_one_of(listen_only, s->flag);
}

/* Returns "; did you mean --claim-ttl?" or "", valid until the next call. */
static const char *ask_meant(const struct config_own *own, const char *name, size_t len, const char *command,
			     const char *head)
{
	static _Thread_local char text[100];
	struct nearest n;

	nearest_init(&n, name, len);
	for (size_t i = 0; own && i < own->count; i++)
		nearest_offer(&n, own->table[i].flag);
	for (size_t i = 0; i < SETTINGS; i++)
		if (setting_is_of(&settings[i], command))
			nearest_offer(&n, settings[i].flag);
	if (!*head) { /* in a file */
		nearest_offer(&n, "webhooks");
		nearest_offer(&n, "sources");
	}
	return nearest_ask(&n, head, text, sizeof(text));
}

static void list_free(struct config_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i]);
	free(l->items);
	*l = (struct config_list){NULL, 0};
}

static void list_add(struct config_list *l, const char *text, size_t len)
{
	l->items = memory_realloc(l->items, (l->count + 1) * sizeof(*l->items));
	l->items[l->count++] = memory_strndup(text, len);
}

/* Errors quote the value only if it cannot be secret. */
static int check(struct reader *r, const struct setting *s, enum config_origin origin, const char *text,
		 int64_t *number)
{
	const char *fault = value_fault(&s->form, text, number);
	char what[300];

	if (!fault)
		return 0;
	if (value_is_secret(s->form.type))
		snprintf(what, sizeof(what), "the value %s", fault);
	else
		snprintf(what, sizeof(what), "\"%.80s\" %s", text, fault);
	return fail(r, s, origin, what);
}

static int set_text(struct reader *r, const struct setting *s, enum config_origin origin, const char *text)
{
	char **at = setting_member(r->config, s);

	if (check(r, s, origin, text, NULL))
		return -1;
	free(*at);
	*at = memory_strdup(text);
	return 0;
}

static int add_item(struct reader *r, const struct setting *s, enum config_origin origin, const char *text, size_t len)
{
	struct config_list *l = setting_member(r->config, s);
	enum config_origin *last = &r->list_origin[s - settings];

	if (*last != origin) /* replaces the list from a weaker origin */
		list_free(l);
	*last = origin;
	list_add(l, text, len);
	return check(r, s, origin, l->items[l->count - 1], NULL);
}

static const char *find_key_fault(const char *text)
{
	return strlen(text) < KEY_BYTES_MIN ? "is shorter than 16 bytes" : NULL;
}

static int fail_file(struct reader *r, const struct setting *s, enum config_origin origin, const char *path,
		     const char *fault)
{
	char what[300];

	snprintf(what, sizeof(what), "the file %.200s %s%s", path,
		 fault ? "cannot be read: " : "has an empty first line, or one that is not text", fault ? fault : "");
	return fail(r, s, origin, what);
}

/* Reads the value of another setting from a file. Errors name this setting. */
static int set_text_from(struct reader *r, const struct setting *s, const struct setting *other,
			 enum config_origin origin, const char *path)
{
	char **at = setting_member(r->config, s), *text = secret_read(path), what[300];
	const char *fault;

	if (!text)
		return fail_file(r, s, origin, path, errno ? strerror(errno) : NULL);
	fault = other ? value_fault(&other->form, text, NULL) : find_key_fault(text);
	if (fault) {
		snprintf(what, sizeof(what), "the value in %.200s %s", path, fault);
		free(text);
		return fail(r, s, origin, what);
	}
	free(*at);
	*at = text;
	return 0;
}

/* Reads a list from the lines of a file, skipping empty lines and those that begin with #. */
static int set_items_from(struct reader *r, const struct setting *s, const struct setting *other,
			  enum config_origin origin, const char *path)
{
	struct config_list *l = setting_member(r->config, other);
	FILE *in = file_open(path);
	char *line = NULL, what[300];
	const char *fault = NULL;
	size_t size = 0;
	char *item;

	if (!in)
		return fail_file(r, s, origin, path, strerror(errno));
	list_free(l);
	while (!fault && getline(&line, &size, in) >= 0) {
		line[strcspn(line, "\r\n")] = '\0';
		item = profile_beside(other->form.type == VALUE_FEEDS ? path : "", line);
		if (*line && *line != '#' && !(fault = value_fault(&other->form, line, NULL)))
			list_add(l, item, strlen(item));
		free(item);
	}
	if (line)
		OPENSSL_cleanse(line, size);
	free(line);
	fclose(in);
	r->list_origin[other - settings] = origin;
	snprintf(what, sizeof(what),
		 fault ? "a line of %.200s %s" : "%.200s has no value, only blank lines and comments%s", path,
		 fault ? fault : "");
	return fault || !l->count ? fail(r, s, origin, what) : 0;
}

static int set_from_file(struct reader *r, const struct setting *s, enum config_origin origin, const char *path)
{
	const struct setting *other = setting_find(s->flag, strlen(s->flag) - strlen("-file"));
	char **file = &r->config->files[s - settings];

	assert(other || s->form.type == VALUE_KEY_FILE); /* it precedes this one in the table */
	if (other && value_is_list(other->form.type) ? set_items_from(r, s, other, origin, path)
						     : set_text_from(r, s, other, origin, path))
		return -1;
	free(*file);
	*file = memory_strdup(path);
	if (other)
		r->config->origins[other - settings] = (unsigned char)origin;
	return 0;
}

static int set_switch(struct reader *r, const struct setting *s, enum config_origin origin, const char *text)
{
	bool *at = setting_member(r->config, s);

	if (check(r, s, origin, text, NULL))
		return -1;
	*at = is_one_of("yes true 1", text);
	return 0;
}

static int set_value(struct reader *r, const struct setting *s, enum config_origin origin, const char *text)
{
	r->config->origins[s - settings] = (unsigned char)origin;
	if (s->form.type == VALUE_SWITCH)
		return set_switch(r, s, origin, text);
	if (s->form.type == VALUE_FILE_OF || s->form.type == VALUE_KEY_FILE)
		return set_from_file(r, s, origin, text);
	if (value_is_number(s->form.type))
		return check(r, s, origin, text, setting_member(r->config, s));
	if (!value_is_list(s->form.type))
		return set_text(r, s, origin, text);
	if (origin != FROM_ENV)
		return add_item(r, s, origin, text, strlen(text));
	for (;;) {
		size_t n = strcspn(text, s->form.type == VALUE_FEEDS ? " " : ",");

		if (add_item(r, s, origin, text, n))
			return -1;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

/* Other commands print to the same terminal as the log, so they log less. */
const char *setting_fallback(const struct setting *s, const char *command)
{
	return is_listen(command) || strcmp(s->flag, "log-level") != 0 ? s->fallback : "warn";
}

static int read_defaults(struct reader *r)
{
	const struct setting *instance = setting_find("instance-id", 11);
	char host[128] = "host", name[200];

	assert(instance);
	for (size_t i = 0; i < SETTINGS; i++) {
		const char *fallback = setting_fallback(&settings[i], r->command);

		if (fallback && set_value(r, &settings[i], FROM_DEFAULT, fallback))
			return -1;
	}
	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%s-%d", host, (int)getpid());
	return set_value(r, instance, FROM_DEFAULT, name);
}

/* The path of a profile is relative to the settings file. */
static int read_text(struct reader *r, const struct setting *s, const char *text)
{
	bool is_profile = s->form.type == VALUE_FEEDS || s->form.type == VALUE_PROFILE;
	AUTO_FREE char *found = is_profile ? profile_beside(r->config->file, text) : memory_strdup(text);

	return set_value(r, s, FROM_FILE, found);
}

static int read_item(struct reader *r, const struct setting *s, const json_t *value)
{
	char number[40];

	if (json_is_string(value))
		return read_text(r, s, json_string_value(value));
	if (json_is_boolean(value) && s->form.type == VALUE_SWITCH)
		return set_value(r, s, FROM_FILE, json_is_true(value) ? "yes" : "no");
	if (!value_is_number(s->form.type))
		return fail(r, s, FROM_FILE,
			    s->form.type == VALUE_SWITCH ? "must be true or false" : "must be a string");
	if (!json_is_number(value))
		return fail(r, s, FROM_FILE, "must be a number or a string");
	if (json_is_integer(value))
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
	else
		snprintf(number, sizeof(number), "%.15g", json_real_value(value));
	return set_value(r, s, FROM_FILE, number);
}

static int read_webhooks(struct reader *r, const json_t *value)
{
	struct profile_origin origin = profile_origin_of_member(r->config->file, r->file_text, "webhooks");
	struct profile_fault fault;

	if (webhooks_read(&r->config->webhooks, value, is_listen(r->command), &origin, &fault) == 0)
		return 0;
	return refuse(r, "%s", fault.text);
}

/* --- feeds --- */

const struct profile *config_find_feed(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (strcmp(c->feeds[i]->name, name) == 0)
			return c->feeds[i];
	return NULL;
}

/* Returns -1 if p is NULL (it could not be read, and fault says why), or if there is a doubt about it. */
static int judge_profile(struct reader *r, const struct profile *p, const struct profile_fault *fault)
{
	const char *why = p ? p->doubt.text : fault->text;

	return *why ? refuse(r, "%s", why) : 0;
}

/* Adds a feed; p and fault as in judge_profile. Its rows and cursor have its name, which must be unique. The settings
 * own p even if it is refused. */
static int add_feed(struct reader *r, struct profile *p, const struct profile_fault *fault)
{
	struct config *c = r->config;
	bool is_double = p && config_find_feed(c, p->name);

	if (p) {
		c->feeds = memory_realloc(c->feeds, (c->feed_count + 1) * sizeof(struct profile *));
		c->feeds[c->feed_count++] = p;
	}
	if (judge_profile(r, p, fault))
		return -1;
	if (!p->url)
		return refuse(r, "%.100s: the profile has no url, so it is only for producers: use --ingest-profile",
			      p->name);
	return is_double ? refuse(r,
				  "two feeds are named %.100s: give one of them another \"name\" (--feed "
				  "%.100s?name=...)",
				  p->name, p->name)
			 : 0;
}

static int read_sources(struct reader *r, const json_t *value)
{
	struct profile_fault fault;
	struct profile_origin origin;
	char path[40];
	size_t i;
	json_t *source;

	if (!json_is_array(value))
		return refuse(r, "sources in %.200s: must be an array of profiles", r->config->file);
	json_array_foreach(value, i, source)
	{
		origin = profile_origin_of_source(r->config->file, r->file_text, i, path, sizeof(path));
		if (is_listen(r->command) && add_feed(r, profile_read_source(source, &origin, &fault), &fault))
			return -1;
	}
	return 0;
}

static int read_feeds(struct reader *r)
{
	const struct config_list *specs = &r->config->feed_specs;
	struct profile_fault fault;

	for (size_t i = 0; i < specs->count && is_listen(r->command); i++)
		if (add_feed(r, profile_read_named(specs->items[i], &fault), &fault))
			return -1;
	return 0;
}

/* --- producers --- */

/* Each element that is not an event becomes a dead letter. Without a limit, one message could cause a million. */
#define PRODUCER_ELEMENTS_MAX 10000

/* Sets the profile; p and fault as in judge_profile. The settings own p even if it is refused. */
static int set_ingest_profile(struct reader *r, struct profile *p, const struct profile_fault *fault)
{
	profile_free(r->config->ingest_profile);
	r->config->ingest_profile = p;
	if (judge_profile(r, p, fault))
		return -1;
	if (!p->max_elements)
		p->max_elements = PRODUCER_ELEMENTS_MAX;
	return p->ack_on == ACK_ON_RECEIVE ? refuse(r,
						    "%.100s: ack_on is receive, but producers are answered only "
						    "after their events are stored",
						    p->name)
					   : 0;
}

/* Reads "ingest-profile" in the file, a profile like a member of "sources". */
static int read_ingest_profile(struct reader *r, const json_t *value)
{
	struct profile_origin origin = profile_origin_of_member(r->config->file, r->file_text, "ingest-profile");
	struct profile_fault fault;

	return is_listen(r->command) ? set_ingest_profile(r, profile_read_source(value, &origin, &fault), &fault) : 0;
}

/* Reads the profile named by the setting, which replaces the one in the file. */
static int read_named_ingest_profile(struct reader *r)
{
	const char *spec = r->config->ingest_profile_spec;
	struct profile_fault fault;

	if (!spec || !is_listen(r->command))
		return 0;
	return set_ingest_profile(r, profile_read_any(spec, &fault), &fault);
}

static int read_member(struct reader *r, const char *key, const json_t *value)
{
	const struct setting *s = setting_find(key, strlen(key));
	size_t i;
	json_t *item;

	if (strcmp(key, "webhooks") == 0)
		return read_webhooks(r, value);
	if (strcmp(key, "sources") == 0)
		return read_sources(r, value);
	if (strcmp(key, "ingest-profile") == 0 && json_is_object(value))
		return read_ingest_profile(r, value);
	if (s && strcmp(key, "config") == 0)
		return fail(r, s, FROM_FILE, "a file cannot name another one");
	if (!s)
		return refuse(r, "%.100s in %.200s: no such setting%s (see wsonce listen --help)", key, r->config->file,
			      ask_meant(NULL, key, strlen(key), "listen", ""));
	if (!value_is_list(s->form.type) || !json_is_array(value))
		return read_item(r, s, value);
	json_array_foreach(value, i, item) if (read_item(r, s, item)) return -1;
	return 0;
}

/* jansson quotes the text near an error. Keep it only for a duplicate name: elsewhere it may be a password. */
static int refuse_file(struct reader *r, const json_error_t *where)
{
	bool is_double = json_error_code(where) == json_error_duplicate_key;
	const char *near = is_double ? NULL : strstr(where->text, " near '");

	return refuse(r, "--config: %s is not JSON at line %d, column %d: %.*s", r->config->file, where->line,
		      where->column, (int)(near ? near - where->text : INT_MAX), where->text);
}

/* Returns the whole file on the heap, or NULL after setting the error. */
static char *read_file_text(struct reader *r, size_t *len)
{
	char *text = file_read(r->config->file, FILE_TEXT_MAX, len);

	if (!text)
		snprintf(r->error, r->error_size, "--config: %s cannot be read: %s", r->config->file, strerror(errno));
	return text;
}

/* NOLINTNEXTLINE(misc-no-recursion): jansson limits the depth to 2048 */
static bool holds_nul(const json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		return strlen(json_string_value(value)) != json_string_length(value);
	json_array_foreach(value, i, item) if (holds_nul(item)) return true;
	json_object_foreach((json_t *)value, key, item) if (holds_nul(item)) return true;
	return false;
}

/* Only profiles may hold \u0000. */
static int read_members(struct reader *r, json_t *root)
{
	const char *key;
	json_t *value;

	json_object_foreach(root, key, value)
	{
		if (strcmp(key, "sources") != 0 && strcmp(key, "ingest-profile") != 0 && holds_nul(value))
			return refuse(r, "%.100s in %.200s must not hold \\u0000", key, r->config->file);
		if (read_member(r, key, value))
			return -1;
	}
	return 0;
}

static int read_file(struct reader *r)
{
	json_error_t where;
	size_t len;
	char *text = read_file_text(r, &len);
	json_t *root = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where) : NULL;
	int result = -1;

	r->file_text = (struct slice){text, len};
	if (text && !root)
		refuse_file(r, &where);
	else if (root)
		result = json_is_object(root) ? read_members(r, root)
					      : refuse(r, "--config: %s is not a JSON object", r->config->file);
	json_decref(root);
	free(text);
	return result;
}

/* Reads systemd credentials: LoadCredential=wsonce.redis:PATH sets --redis-file. */
static int read_credentials(struct reader *r)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");

	for (size_t i = 0; folder && *folder && i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		char path[PATH_MAX];

		if (!setting_is_file(s) || strcmp(s->flag, "config") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/" CREDENTIAL "%.*s", folder, (int)credential_length(s), s->flag);
		if (access(path, F_OK) == 0 && set_value(r, s, FROM_CREDENTIAL, path))
			return -1;
	}
	return 0;
}

/* An empty variable counts as unset, because compose files pass "" for a variable that is not set. */
static int read_environment(struct reader *r)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const char *text = getenv(settings[i].env);
		bool may_be_empty = settings[i].form.type == VALUE_POINTER && settings[i].fallback;

		if (text && (*text || may_be_empty) && set_value(r, &settings[i], FROM_ENV, text))
			return -1;
	}
	return 0;
}

static int set_own(struct reader *r, const struct setting *s, const char *text)
{
	void *at = (char *)r->own->into + s->offset;
	bool is_number = value_is_number(s->form.type);

	if (s->form.type == VALUE_SWITCH) {
		*(bool *)at = true;
		return 0;
	}
	if (!is_number)
		*(const char **)at = text;
	return check(r, s, FROM_FLAG, text, is_number ? at : NULL);
}

/* Returns how many bytes of a wrong argument an error may show: not what may be the value of a secret setting, without
 * a blank behind its name. */
static int shown_of(const char *word)
{
	size_t n = strcspn(word, ":=@ ");

	for (size_t i = 0; i < SETTINGS; i++) {
		size_t end = strlen(settings[i].flag);

		if (end < n && word[end] != '-' && value_is_secret(settings[i].form.type) &&
		    strncmp(word, settings[i].flag, end) == 0)
			n = end;
	}
	return (int)(n < 80 ? n : 80);
}

typedef int set_fn(struct reader *r, const struct setting *s, const char *text);

/* Reads argv[*i], which is --flag=value, --switch, or --flag with the value behind it. */
static int read_flag(struct reader *r, int argc, char **argv, int *i, set_fn *set)
{
	const char *name = argv[*i] + 2, *value = strchr(name, '=');
	size_t n = strcspn(name, "=");
	const struct setting *own = r->own ? find_in(r->own->table, r->own->count, name, n) : NULL;
	const struct setting *s = own ? own : setting_find(name, n);
	bool is_switch = s && s->form.type == VALUE_SWITCH;
	int shown = shown_of(name);

	if (!s || (!own && !setting_is_of(s, r->command)))
		return refuse(r,
			      s ? "--%.*s%s is only for listeners%s (see wsonce %s --help)"
				: "unknown option --%.*s%s%s (see wsonce %s --help)",
			      shown, name, (size_t)shown < n ? "..." : "",
			      s ? "" : ask_meant(r->own, name, strcspn(name, ":=@ "), r->command, "--"),
			      r->own ? r->own->command : r->command);
	if (own && is_switch && value)
		return fail(r, s, FROM_FLAG, "takes no value");
	if (!value && !is_switch && *i + 1 == argc)
		return fail(r, s, FROM_FLAG, "needs a value");
	value = value ? value + 1 : is_switch ? "yes" : argv[++*i];
	if (!*value && (own || is_one_of("FILE DIR", s->value)))
		return fail(r, s, FROM_FLAG, "\"\" is empty; is a shell variable not set?");
	return (own ? set_own : set)(r, s, value);
}

/* Calls set for each flag that is a setting. Sets the command's own options, and takes its words. */
static int each_flag(struct reader *r, int argc, char **argv, set_fn *set)
{
	bool is_over = false;
	int words = 0;

	for (int i = 1; i < argc; i++) {
		bool is_flag = !is_over && argv[i][0] == '-' && argv[i][1];

		if (is_flag && strcmp(argv[i], "--") == 0) {
			is_over = true;
		} else if (is_flag && argv[i][1] == '-') {
			if (read_flag(r, argc, argv, &i, set))
				return -1;
		} else if (is_flag || !r->own) {
			return refuse(r, "\"%.*s\" is not an option; see wsonce %s --help", shown_of(argv[i]), argv[i],
				      r->own ? r->own->command : r->command);
		} else {
			r->own->words[words++] = argv[i];
		}
	}
	if (r->own)
		r->own->word_count = words;
	return 0;
}

static int refuse_setting(struct reader *r, const struct setting *s, const char *text)
{
	(void)s, (void)text;
	return refuse(r, "settings are not allowed here");
}

static int set_file(struct reader *r, const struct setting *s, const char *text)
{
	return strcmp(s->flag, "config") == 0 ? set_text(r, s, FROM_FLAG, text) : 0;
}

static int set_flag(struct reader *r, const struct setting *s, const char *text)
{
	return set_value(r, s, FROM_FLAG, text);
}

static int check_tokens(struct reader *r)
{
	struct tokens *t, *secrets = NULL;

	if (!is_listen(r->command))
		return 0;
	t = tokens_new(NULL, r->config->ingest_token_file, false, r->error, r->error_size);
	if (t)
		secrets = tokens_new_secrets(r->config->ingest_webhook_secret_file, r->error, r->error_size);
	tokens_free(t);
	tokens_free(secrets);
	return secrets ? 0 : -1;
}

/* Checks the settings together. */
static int check_whole(struct reader *r)
{
	const char *what = check_settings(r->config, is_listen(r->command));

	return what ? refuse(r, "%s", what) : check_tokens(r);
}

/* Ends the prefix with a colon, so that "app" with the id "2-x" differs from "app2" with "-x". The consumer's name,
 * which keeps its claims and marks apart, goes in front: after the prefix it could be the beginning of an id. */
static char *print_prefix(const char *consumer, const char *bare)
{
	AUTO_FREE char *scope = config_consumer_scope(consumer);
	size_t len = strlen(bare);
	bool is_ended = len && bare[len - 1] == ':';

	return memory_printf("%s%s%s", scope, bare, is_ended ? "" : ":");
}

static void name_claims(struct config *c)
{
	char *prefix = print_prefix(c->consumer, c->claim_prefix);

	free(c->claim_prefix);
	c->claim_prefix = prefix;
}

char *config_claim_prefix(const struct config *c, const char *consumer)
{
	AUTO_FREE char *own = config_consumer_scope(c->consumer);

	return print_prefix(consumer, c->claim_prefix + strlen(own));
}

/* With SQLite, --redis defaults to none: all processes are on one host, where the unique key is enough. */
static int set_none(struct reader *r)
{
	const struct setting *redis = setting_find("redis", 5);

	assert(redis);
	return r->config->origins[redis - settings] == FROM_DEFAULT ? set_value(r, redis, FROM_DEFAULT, "none") : 0;
}

/* Refuses settings that need Postgres. Connection settings are refused only if their origin is at least as strong as
 * that of --store: a flag --store may override a Postgres in the environment. */
static int refuse_postgres(struct reader *r)
{
	static const char connection[] = "postgres postgres-file postgres-timeout postgres-connections";
	const struct setting *store = setting_find("store", 5);

	assert(store);
	for (size_t i = SETTINGS; i--;) {
		unsigned char origin = r->config->origins[i];

		if (origin != FROM_DEFAULT &&
		    (is_one_of("handler traceparent-pointer spool", settings[i].flag) ||
		     (is_one_of(connection, settings[i].flag) && origin >= r->config->origins[store - settings])))
			return fail(r, &settings[i], origin, "needs Postgres; it does not work with --store sqlite://");
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): r.error writes to it */
static int config_read_all(struct config *c, struct config_own *own, int argc, char **argv, char *error, size_t size)
{
	struct reader r = {.config = c, .own = own, .command = argv[0], .error = error, .error_size = size};
	const struct setting *config = setting_find("config", 6);
	const char *file = getenv("WSONCE_CONFIG");

	assert(config);
	if (!c)
		return each_flag(&r, argc, argv, refuse_setting);
	memset(c, 0, sizeof(*c));
	if (read_defaults(&r) || (file && *file && set_text(&r, config, FROM_ENV, file)) ||
	    each_flag(&r, argc, argv, set_file) || (c->file && read_file(&r)) || read_credentials(&r) ||
	    read_environment(&r) || each_flag(&r, argc, argv, set_flag) ||
	    (config_store_path(c) && (set_none(&r) || refuse_postgres(&r))) || read_feeds(&r) ||
	    read_named_ingest_profile(&r) || check_whole(&r))
		return -1;
	name_claims(c);
	return 0;
}

int config_read(struct config *c, struct config_own *own, int argc, char **argv, char *error, size_t size)
{
	int result = config_read_all(c, own, argc, argv, error, size);

	if (result) {
		make_line(error);
		secret_mask_logins(error);
	}
	return result;
}

void config_hide(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		size_t n = strcspn(argv[i], "=");
		const struct setting *s = strncmp(argv[i], "--", 2) == 0 ? setting_find(argv[i] + 2, n - 2) : NULL;

		if (!s || !value_is_secret(s->form.type))
			continue;
		if (argv[i][n])
			secret_hide(argv[i] + n + 1);
		else if (i + 1 < argc)
			secret_hide(argv[++i]);
	}
}

void config_free(struct config *c)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		if (value_is_list(settings[i].form.type))
			list_free(setting_member(c, &settings[i]));
		else if (!value_is_number(settings[i].form.type) && !setting_is_of_other(&settings[i]))
			free(*(char **)setting_member(c, &settings[i]));
		free(c->files[i]);
	}
	webhooks_free(&c->webhooks);
	for (size_t i = 0; i < c->feed_count; i++)
		profile_free(c->feeds[i]);
	free(c->feeds);
	profile_free(c->ingest_profile);
	memset(c, 0, sizeof(*c));
}
