/* Settings from the command line, the environment and the file: whatever they are, there is either a
 * configuration that keeps its promises, or one line that says what is wrong. What is secret in them is
 * in no error and in no log line.
 *
 * An input is arguments, each ended by NUL, of which those of the form WSONCE_X=text are environment
 * variables; an empty one ends them, and the rest is the file. Each byte 1 stands for a secret, and each
 * byte 2 for one that a webhook takes. */
#include "config/config.h"

#include <jansson.h>
#include <limits.h>
#include <regex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "road/envelope.h"
#include "fuzz.h"
#include "base/log.h"

#define SECRET       "hunter2-7f3a"
#define CODED        "aHVudGVyMi03ZjNh" /* the same in base64 */
#define HOOK_SECRET  "whsec_" CODED CODED
#define HOOK_DECODED SECRET SECRET
#define ARGS_MAX     40
#define ENV_MAX      40

struct input {
	char *argv[ARGS_MAX + 2];
	int argc;
	char *env[ENV_MAX]; /* NAME=text, cut at the = while it is set */
	int env_count;
	char *file; /* NULL: none */
};

static int file_fd = -1;
static char file_path[40];
static char log_line[8192];

/* In place of log.c: what config_log says, kept; but not its warning of names that are no settings, which are not
 * secret. */
void log_write(enum log_level level, const char *event, const char *fields, ...)
{
	size_t n = strlen(event);
	va_list ap;

	if (level == LOG_WARN)
		return;
	memcpy(log_line, event, n);
	va_start(ap, fields);
	vsnprintf(log_line + n, sizeof(log_line) - n, fields, ap);
	va_end(ap);
}

void log_setup(enum log_level level, enum log_format format, const char *instance)
{
	(void)level, (void)format, (void)instance;
}

/* --- the input --- */

/* The text on the heap, with the secrets in it. */
static char *reveal(const char *text, size_t len)
{
	char *out = calloc(1, len * sizeof(HOOK_SECRET) + 1), *at = out;

	for (size_t i = 0; i < len; i++)
		if (text[i] == 1 || text[i] == 2)
			at = stpcpy(at, text[i] == 1 ? SECRET : HOOK_SECRET);
		else
			*at++ = text[i];
	return out;
}

static void add_text(struct input *in, char *text)
{
	bool is_env = strncmp(text, "WSONCE_", 7) == 0 && strchr(text, '=');

	/* Only our own file is read: another might be endless. */
	if (strcasestr(text, "config"))
		free(text);
	else if (is_env && in->env_count < ENV_MAX)
		in->env[in->env_count++] = text;
	else if (!is_env && in->argc < ARGS_MAX)
		in->argv[in->argc++] = text;
	else
		free(text);
}

static void write_file(const char *text)
{
	size_t len = strlen(text);

	must(ftruncate(file_fd, 0) == 0 && pwrite(file_fd, text, len, 0) == (ssize_t)len, "cannot write the file");
}

static void read_input(struct input *in, const char *data, size_t size)
{
	const char *end = data + size;

	*in = (struct input){.argv = {strdup("listen")}, .argc = 1};
	while (data < end) {
		size_t n = strnlen(data, (size_t)(end - data));

		if (!n) {
			in->file = reveal(data + 1, (size_t)(end - data - 1));
			write_file(in->file);
			break;
		}
		add_text(in, reveal(data, n));
		data += n + (data + n < end);
	}
	for (int i = 0; i < in->env_count; i++) {
		char *value = strchr(in->env[i], '=');

		*value = '\0';
		setenv(in->env[i], value + 1, 1);
		*value = '=';
	}
	if (in->file)
		setenv("WSONCE_CONFIG", file_path, 1);
}

static void clear_input(struct input *in)
{
	for (int i = 0; i < in->env_count; i++) {
		in->env[i][strcspn(in->env[i], "=")] = '\0';
		unsetenv(in->env[i]);
		free(in->env[i]);
	}
	for (int i = 0; i < in->argc; i++)
		free(in->argv[i]);
	free(in->file);
	unsetenv("WSONCE_CONFIG");
}

/* --- where a secret may be shown --- */

static bool is_secret_setting(const char *name, size_t len)
{
	static const char *const names[] = {"source",        "redis",        "postgres",        "ingest-token",
					    "WSONCE_SOURCE", "WSONCE_REDIS", "WSONCE_POSTGRES", "WSONCE_INGEST_TOKEN",
					    "WSONCE_HOOK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return true;
	return false;
}

static bool holds_secret(const char *text)
{
	return text && (strstr(text, SECRET) || strstr(text, CODED));
}

static bool is_in_open_flag(const struct input *in)
{
	for (int i = 1; i < in->argc; i++) {
		const char *name = in->argv[i] + 2 * (strncmp(in->argv[i], "--", 2) == 0);
		size_t n = strcspn(name, "=");
		const char *value = name[n] ? name + n + 1 : in->argv[i + 1];
		bool is_secret = name != in->argv[i] && is_secret_setting(name, n);

		if (!is_secret && (holds_secret(in->argv[i]) || holds_secret(value)))
			return true;
		i += !name[n];
	}
	return false;
}

static bool is_in_open_variable(const struct input *in)
{
	for (int i = 0; i < in->env_count; i++)
		if (holds_secret(in->env[i]) && !is_secret_setting(in->env[i], strcspn(in->env[i], "=")))
			return true;
	return false;
}

/* Does an object have it in a name, or in a value that is no secret? */
static bool is_open_in(const json_t *object, bool (*is_secret)(const char *key, size_t len))
{
	bool is_open = false;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		char *text = json_dumps(value, JSON_ENCODE_ANY);

		if (holds_secret(key) || (holds_secret(text) && !is_secret(key, strlen(key))))
			is_open = true;
		free(text);
	}
	return is_open;
}

/* Webhooks are looked at one by one. */
static bool is_secret_member(const char *key, size_t len)
{
	return is_secret_setting(key, len) || strcmp(key, "webhooks") == 0;
}

/* Tokens live in URLs; secrets are kept elsewhere, and a member says where. */
static bool is_secret_of_webhook(const char *key, size_t len)
{
	(void)len;
	return strcmp(key, "url") == 0;
}

/* A file that is not JSON has no places at all. */
static bool is_in_open_member(const struct input *in)
{
	json_t *root = in->file ? json_loads(in->file, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *webhooks = json_object_get(root, "webhooks"), *webhook;
	bool is_open = is_open_in(root, is_secret_member);
	size_t i;

	json_array_foreach(webhooks, i, webhook) is_open = is_open || is_open_in(webhook, is_secret_of_webhook);
	json_decref(root);
	return is_open;
}

/* Is the secret in a part of the URL that is no secret, such as the host? */
static bool is_in_open_part(const char *url)
{
	char *text = strdup(url), *authority = strstr(text, "://"), *at;
	bool is_open;

	authority = authority ? authority + 3 : text;
	text[strcspn(text, "?#")] = '\0';
	at = memrchr(authority, '@', strcspn(authority, "/"));
	is_open = holds_secret(at ? at : text);
	free(text);
	return is_open;
}

/* --- what must be true --- */

static void check_error(const char *error, size_t size, const struct input *in)
{
	bool is_name = strstr(error, ": duplicate object key near "); /* which is no value */

	must(*error, "refused without a word");
	must(strnlen(error, size) < size, "an error without an end");
	for (const char *c = error; *c; c++)
		must((unsigned char)*c >= ' ' && *c != 0x7f, "a control character in: %s", error);
	must(!holds_secret(error) || is_name || is_in_open_flag(in) || is_in_open_variable(in) || is_in_open_member(in),
	     "a secret in the error: %s", error);
}

static void check_number(const char *name, int64_t value, int64_t lowest, int64_t highest)
{
	must(value >= lowest && value <= highest, "%s is %lld", name, (long long)value);
}

static void check_numbers(const struct config *c)
{
	const int64_t day = 86400;

	check_number("ping-interval", c->ping_interval_s, 1, day);
	check_number("idle-timeout", c->idle_timeout_s, 0, 30 * day);
	check_number("ingest-max-connections", c->ingest_connections, 1, 1000000);
	check_number("handshake-timeout", c->handshake_timeout_s, 1, 3600);
	check_number("redis-timeout", c->redis_timeout_ms, 1, 3600 * 1000);
	check_number("postgres-timeout", c->postgres_timeout_ms, 1, day * 1000);
	check_number("postgres-connections", c->postgres_connections, 1, 2);
	check_number("claim-ttl", c->claim_ttl_s, 1, day);
	check_number("dedup-window", c->dedup_window_s, 1, 365 * day);
	check_number("batch-max", c->batch_max, 1, 100000);
	check_number("max-inflight-bytes", c->inflight_bytes, 1024, INT64_C(1) << 40);
	check_number("max-message", c->message_bytes, 64, 256 << 20);
	check_number("max-attempts", c->max_attempts, 1, 1000000);
	check_number("drain-timeout", c->drain_timeout_ms, 1, day * 1000);
}

static bool begins_with(const char *text, const char *head)
{
	return strncmp(text, head, strlen(head)) == 0;
}

static void check_address(const char *text)
{
	const char *colon = text ? strrchr(text, ':') : NULL;
	char *end;
	long port;

	if (!text || begins_with(text, "unix:/"))
		return;
	must(colon && colon > text, "no port, or no address: %s", text);
	port = strtol(colon + 1, &end, 10);
	must(colon[1] >= '0' && colon[1] <= '9' && !*end && port <= 65535, "no port: %s", text);
}

/* A socket's path is the whole of its URL, but for a password. */
static void check_redis(const char *url)
{
	if (begins_with(url, "unix://")) {
		const char *path = url + 7 + strcspn(url + 7, "/");

		must(*path && (path == url + 7 || path[-1] == '@'), "redis is %s", url);
		return;
	}
	must(strcmp(url, "none") == 0 || begins_with(url, "redis://"), "redis is %s", url);
}

static void check_texts(const struct config *c)
{
	for (size_t i = 0; i < c->sources.count; i++) {
		const char *url = config_source_url(c, i);

		must(begins_with(url, "ws://") || begins_with(url, "wss://"), "source is %s", url);
		must(!strchr("/?#", strchr(url, ':')[3]), "a source without a host: %s", url);
	}
	check_redis(c->redis);
	check_address(c->ingest);
	check_address(c->admin);
	must(*c->instance_id && strlen(c->instance_id) <= 200 && !strchr(c->instance_id, '@'), "instance-id is %s",
	     c->instance_id);
	must(c->sources.count || c->feed_count || c->ingest, "nothing to listen to");
	must(!c->ingest_cert == !c->ingest_key, "a certificate without a key, or a key without one");
	must(!c->ingest_client_ca || c->ingest_cert, "certificates of clients without TLS");
	must(strstr("|debug|info|warn|error|", c->log_level), "log-level is %s", c->log_level);
	must(strstr("|text|json|", c->log_format), "log-format is %s", c->log_format);
}

/* The pointers are such as envelope.c takes. */
static void check_pointers(const struct config *c)
{
	static const char message[] = "{\"event_id\":\"a\",\"payload\":[{\"\":1}]}";
	struct envelope *reader = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	struct envelope_view view;

	must(c->id_pointers.count >= 1 && c->id_pointers.count <= 8, "%zu parts of an id", c->id_pointers.count);
	envelope_read(reader, message, sizeof(message) - 1, &view);
	envelope_free(reader);
}

static void check_like(const char *name, const char *text, const char *pattern)
{
	regex_t like;

	must(regcomp(&like, pattern, REG_EXTENDED | REG_NOSUB) == 0, "cannot compile %s", pattern);
	must(regexec(&like, text, 0, NULL, 0) == 0, "%s is %s", name, text);
	regfree(&like);
}

/* A function's name stands in SQL as it is. */
static void check_effects(const struct config *c)
{
#define IDENTIFIER "([A-Za-z_][A-Za-z_0-9$]*|\"([^\"]|\"\")+\")"
	if (c->handler)
		check_like("handler", c->handler, "^" IDENTIFIER "[.]" IDENTIFIER "$");
	check_like("consumer", c->consumer, "^[A-Za-z0-9._-]{0,64}$");
}

static void check_webhook(const struct webhook *w, const json_t *from)
{
	const char *env = json_string_value(json_object_get(from, "secret-env"));

	check_like("name", w->name, "^[A-Za-z0-9._-]{1,64}$");
	check_like("url", w->url, "^https?://(.*@)?[^/]");
	must(strcmp(w->name, json_string_value(json_object_get(from, "name"))) == 0, "name is %s", w->name);
	must(strcmp(w->url, json_string_value(json_object_get(from, "url"))) == 0, "url is %s", w->url);
	must(w->type_count == json_array_size(json_object_get(from, "types")), "%zu types", w->type_count);
	must(w->secret_count >= 1 && w->secret_count <= WEBHOOK_SECRETS_MAX, "%zu secrets", w->secret_count);
	for (size_t i = 0; i < w->secret_count; i++)
		check_number("secret's length", (int64_t)w->secrets[i].len, 24, 64);
	if (env && strcmp(env, "WSONCE_HOOK") == 0 && strcmp(getenv(env), HOOK_SECRET) == 0)
		must(w->secret_count == 1 && w->secrets[0].len == strlen(HOOK_DECODED) &&
			     memcmp(w->secrets[0].bytes, HOOK_DECODED, w->secrets[0].len) == 0,
		     "the secret is another");
	check_number("timeout", w->timeout_ms, 10, 600 * 1000);
	check_number("concurrency", w->concurrency, 1, 1000);
	check_number("attempts", w->attempts, 1, 1000);
	check_number("backoff", w->backoff_ms, 1, 86400 * 1000);
	check_number("backoff-cap", w->backoff_cap_ms, 1, INT64_C(7) * 86400 * 1000);
}

/* They are those of the file, in its order. */
static void check_webhooks(const struct config *c, const struct input *in)
{
	json_t *root = in->file ? json_loads(in->file, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *all = json_object_get(root, "webhooks");

	must(c->webhooks.count == json_array_size(all), "%zu webhooks", c->webhooks.count);
	for (size_t i = 0; i < c->webhooks.count; i++) {
		check_webhook(&c->webhooks.items[i], json_array_get(all, i));
		for (size_t j = 0; j < i; j++)
			must(strcmp(c->webhooks.items[i].name, c->webhooks.items[j].name) != 0, "a name twice");
	}
	json_decref(root);
}

static void check_log(const struct config *c)
{
	bool is_open = is_in_open_part(c->redis) || holds_secret(c->ingest) || holds_secret(c->admin) ||
		       (c->sources.count && is_in_open_part(c->sources.items[0])) || holds_secret(c->handler) ||
		       holds_secret(c->consumer);

	config_log(c);
	must(is_open || !holds_secret(log_line), "a secret in the log: %s", log_line);
	must(begins_with(log_line, "starting"), "the log says %s", log_line);
}

/* The last --flag=text or --flag text is what counts, before the environment and the file. NULL: there is none. */
static const char *last_flag(const struct input *in, const char *flag)
{
	const char *last = NULL;

	for (int i = 1; i < in->argc; i++) {
		const char *name = in->argv[i];
		size_t n = strcspn(name, "=");
		const char *text = name[n] ? name + n + 1 : in->argv[++i];

		if (strlen(flag) == n && strncmp(flag, name, n) == 0)
			last = text;
	}
	return last;
}

static void check_last_flag(const struct input *in, const char *flag, const char *value)
{
	const char *last = last_flag(in, flag);

	must(!last || strcmp(last, value) == 0, "%s %s is %s", flag, last, value);
}

/* The prefix of claims has a consumer's name in front of what was given, and ends in a colon. */
static const char *own_prefix(const struct config *c)
{
	size_t n = strlen("consumer:") + strlen(c->consumer) + 1;

	must(strrchr(c->claim_prefix, ':') && !strrchr(c->claim_prefix, ':')[1], "claims begin with %s",
	     c->claim_prefix);
	if (!*c->consumer)
		return c->claim_prefix;
	must(begins_with(c->claim_prefix, "consumer:") &&
		     begins_with(c->claim_prefix + strlen("consumer:"), c->consumer) && c->claim_prefix[n - 1] == ':',
	     "%s's claims begin with %s", c->consumer, c->claim_prefix);
	return c->claim_prefix + n;
}

static void check_prefix(const struct input *in, const struct config *c)
{
	const char *last = last_flag(in, "--claim-prefix"), *own = own_prefix(c);
	size_t n = last ? strlen(last) : 0;

	must(!last || (strncmp(own, last, n) == 0 && strcmp(own + n, n && last[n - 1] == ':' ? "" : ":") == 0),
	     "--claim-prefix %s is %s", last, own);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	file_fd = memfd_create("config", 0);
	must(file_fd >= 0, "cannot make a file in memory");
	snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file_fd);
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	struct input in;
	struct config config;
	char error[400] = "";

	read_input(&in, (const char *)data, size);
	if (config_read(&config, in.argc, in.argv, error, sizeof(error))) {
		check_error(error, sizeof(error), &in);
	} else {
		must(!*error, "taken, with an error: %s", error);
		check_numbers(&config);
		check_texts(&config);
		check_pointers(&config);
		check_effects(&config);
		check_webhooks(&config, &in);
		check_log(&config);
		check_last_flag(&in, "--instance-id", config.instance_id);
		check_last_flag(&in, "--consumer", config.consumer);
		check_prefix(&in, &config);
	}
	config_free(&config);
	clear_input(&in);
}
