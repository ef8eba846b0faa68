/* print.c prints settings: --help, the table in the docs, the values in force and their origins, and unknown variables.
 * It leaves secrets out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/url.h"
#include "config/setting.h"
#include "config/value.h"
#include "postgres/conninfo.h"

/* The first setting of each group in --help, and the group's title. */
static const char *const titles[][2] = {
	{"source", "feeds"},           {"ingest", "producers"},  {"redis", "Redis"},
	{"store", "storage"},          {"admin", "operators"},   {"claim-prefix", "claims and marks"},
	{"batch-max", "limits"},       {"id-pointer", "events"}, {"handler", "processing"},
	{"log-level", "log and file"},
};

static bool is_named(const char *only, const char *flag)
{
	return !only || is_one_of(only, flag);
}

void config_help(FILE *out, const char *command, const char *only)
{
	const char *title = NULL;
	const struct setting *s;

	for (size_t i = 0; (s = setting_at(i)); i++) {
		const char *fallback = setting_fallback(s, command);
		char text[200];

		for (size_t k = 0; k < sizeof(titles) / sizeof(titles[0]); k++)
			title = strcmp(titles[k][0], s->flag) == 0 ? titles[k][1] : title;
		if (!setting_is_of(s, command) || !is_named(only, s->flag))
			continue;
		if (title)
			fprintf(out, "\n%s:\n", title);
		title = NULL;
		snprintf(text, sizeof(text), "  --%s%s%s", s->flag, *s->value ? " " : "", s->value);
		text_wrap(out, text, 28, s->meaning);
		snprintf(text, sizeof(text), "[%s%s%s]", s->env, fallback && *fallback ? "; default " : "",
			 fallback ? fallback : "");
		text_wrap(out, "", 28, text);
	}
}

void config_describe(const char *command, const char *only, json_t *flags)
{
	const struct setting *s;

	for (size_t i = 0; (s = setting_at(i)); i++)
		if (setting_is_of(s, command) && is_named(only, s->flag))
			json_array_append_new(flags, json_pack("{ss ss ss}", "flag", s->flag, "value", s->value,
							       "meaning", s->meaning));
}

void config_start_log(const struct config *c)
{
	log_setup((enum log_level)find_word("debug info warn error", c->log_level),
		  strcmp(c->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT, c->instance_id);
}

/* --- values in force --- */

const char *config_origin_name(enum config_origin origin)
{
	static const char *const names[] = {"default", "file", "credential", "environment", "flag"};

	return names[origin];
}

static char *show_number(enum value_type type, int64_t n)
{
	char text[30];

	if (type == VALUE_SECONDS || (type == VALUE_MS && n % 1000 == 0))
		return memory_strdup(quantity_print_seconds(type == VALUE_MS ? n / 1000 : n, text, sizeof(text)));
	return memory_printf("%lld%s", (long long)n, type == VALUE_MS ? "ms" : "");
}

/* Redacts what may be a secret: variables of a feed, and the path and query of a URL. */
static char *redact_text(enum value_type type, const char *text)
{
	switch (type) {
	case VALUE_REDIS:
	case VALUE_PROXY:
	case VALUE_URLS:
		return url_redact(text);
	case VALUE_FEEDS:
	case VALUE_PROFILE:
		return memory_printf("%.*s%s", (int)strcspn(text, "?"), text, strchr(text, '?') ? "?***" : "");
	case VALUE_CONNINFO:
		return postgres_redact_conninfo(text);
	case VALUE_SECRET:
		return memory_strdup("***");
	default:
		return memory_strdup(text);
	}
}

static char *show_list(enum value_type type, const struct config_list *l)
{
	struct bytes all = {NULL, 0, 0};

	for (size_t i = 0; i < l->count; i++) {
		AUTO_FREE char *one = redact_text(type, l->items[i]);

		bytes_add_text(&all, i ? "," : "");
		bytes_add_text(&all, one);
	}
	return l->count ? (char *)bytes_text(&all) : NULL;
}

/* Returns the value as text, on the heap, or NULL. */
static char *show(const struct config *c, const struct setting *s, const char *file)
{
	const void *at = (const char *)c + s->offset;
	const char *text;

	if (value_is_list(s->form.type))
		return show_list(s->form.type, at);
	if (value_is_number(s->form.type))
		return *(const int64_t *)at || s->fallback ? show_number(s->form.type, *(const int64_t *)at) : NULL;
	if (s->form.type == VALUE_SWITCH)
		return memory_strdup(*(const bool *)at ? "yes" : "no");
	if (s->form.type == VALUE_FILE_OF || s->form.type == VALUE_KEY_FILE)
		return file ? memory_strdup(file) : NULL;
	text = *(const char *const *)at;
	return text ? redact_text(s->form.type, text) : NULL;
}

static bool holds_secret(const struct setting *s)
{
	size_t len = strlen(s->flag);

	return setting_is_file(s) && (is_one_of("config ingest-token-file ingest-webhook-secret-file", s->flag) ||
				      s->form.type == VALUE_FILE_OF || s->form.type == VALUE_KEY_FILE ||
				      (len > 4 && strcmp(s->flag + len - 4, "-key") == 0));
}

void config_each(const struct config *c, void (*each)(void *arg, const struct config_redacted *setting), void *arg)
{
	const struct setting *s;

	for (size_t i = 0; (s = setting_at(i)); i++) {
		AUTO_FREE char *value = show(c, s, c->files[i]);
		struct config_redacted redacted = {.flag = s->flag,
						   .env = s->env,
						   .value = value,
						   .origin = (enum config_origin)c->origins[i],
						   .is_secret = value && strcmp(value, "***") == 0,
						   .is_file = setting_is_file(s),
						   .is_key = holds_secret(s)};

		each(arg, &redacted);
	}
}

/* at is the end of a webhook's secret-env, or its suffix _FILE, which names a file with the secret. */
static bool is_variable_end(const char *at, const char *end)
{
	return at == end || (end - at == 5 && strncmp(at, "_FILE", 5) == 0);
}

static bool is_known_variable(const struct config *c, const char *name, size_t len)
{
	const struct setting *s;

	for (size_t i = 0; (s = setting_at(i)); i++)
		if (strlen(s->env) == len && strncmp(s->env, name, len) == 0)
			return true;
	if ((len == 15 && strncmp(name, "WSONCE_PROFILES", len) == 0) || strncmp(name + len, "=tcp://", 7) == 0)
		return true; /* the latter are Kubernetes', such as WSONCE_REDIS_PORT for a service wsonce-redis */
	for (size_t i = 0; i < c->webhooks.count; i++) {
		const char *env = c->webhooks.items[i].secret_env;

		if (env && strncmp(env, name, strlen(env)) == 0 && is_variable_end(name + strlen(env), name + len))
			return true;
	}
	return false;
}

#define PREFIX     "WSONCE_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

static const char *ask_variable(const char *name, size_t len)
{
	static char text[100];
	const struct setting *s;
	struct nearest n;

	nearest_init(&n, name + PREFIX_LEN, len - PREFIX_LEN);
	for (size_t i = 0; (s = setting_at(i)); i++)
		nearest_offer(&n, s->env + PREFIX_LEN);
	return nearest_ask(&n, PREFIX, text, sizeof(text));
}

void config_each_unknown(const struct config *c, void (*each)(void *arg, const char *variable, const char *meant),
			 void *arg)
{
	for (char **at = environ; *at; at++) {
		size_t len = strcspn(*at, "=");
		AUTO_FREE char *name = memory_strndup(*at, len);

		if (strncmp(*at, PREFIX, PREFIX_LEN) != 0 || is_known_variable(c, *at, len))
			continue;
		each(arg, name, ask_variable(name, len));
	}
}

/* Without this warning a misspelled setting would go unnoticed. */
static void log_unknown(void *arg, const char *variable, const char *meant)
{
	AUTO_FREE char *names = memory_printf("%s%s", variable, meant);

	(void)arg;
	log_warn("unknown WSONCE_ variables in the environment; see wsonce listen --help", "names=%s", names);
}

void config_log(const struct config *c)
{
	AUTO_FREE char *redacted = c->sources.count ? url_redact(config_source_url(c, 0)) : NULL;
	AUTO_FREE char *redis = url_redact(c->redis);

	log_info("starting",
		 "version=%s source=%s sources=%zu feeds=%zu ingest=%s admin=%s store=%s redis=%s claim_ttl_s=%lld "
		 "batch_max=%lld max_inflight_bytes=%lld consumer=%s handler=%s webhooks=%zu",
		 WSONCE_VERSION, redacted, c->sources.count, c->feed_count, c->ingest, c->admin, c->store, redis,
		 (long long)c->claim_ttl_s, (long long)c->batch_max, (long long)c->inflight_bytes,
		 *c->consumer ? c->consumer : NULL, c->handler, c->webhooks.count);
	config_each_unknown(c, log_unknown, NULL);
}
