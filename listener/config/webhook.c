/* webhook.c reads webhooks from the settings file. outbox/delivery.c sends to them. */
#include "config/webhook.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"
#include "config/keys.h"
#include "config/webhook_headers.h"

#define SECRETS_FILE 4096

/* --- secrets --- */

/* Reads secrets separated by blanks. All of them sign, so that a secret can be replaced without a gap. */
static int decode_secrets(struct profile_reader *r, struct webhook *w, const char *text)
{
	static const char blanks[] = " \t\r\n";

	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		size_t len = strcspn(text, blanks);

		if (w->secret_count == WEBHOOK_SECRETS_MAX)
			return profile_fail(r, "there are more than 4 secrets");
		if (!webhook_secret_decode(&w->secrets[w->secret_count], text, len))
			return profile_fail(r, "a secret must be whsec_ followed by 24 to 64 bytes in base64");
		w->secret_count++;
		text += len;
	}
	return w->secret_count ? 0 : profile_fail(r, "has no secret");
}

static int read_secrets(struct profile_reader *r, struct webhook *w, const char *file)
{
	size_t len;
	char *text = file ? file_read(file, SECRETS_FILE, &len) : secret_named(w->secret_env);
	int result;

	if (!text)
		return file ? profile_fail(r, "secret-file: %.200s cannot be read: %s", file, strerror(errno))
			    : profile_fail(r,
					   "secret-env: the variable %.100s is not set, nor does %.100s_FILE name a "
					   "readable file",
					   w->secret_env, w->secret_env);
	result = decode_secrets(r, w, text);
	OPENSSL_cleanse(text, strlen(text));
	free(text);
	return result;
}

/* --- members --- */

static int read_name(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	if (key_text(r, k, value, at))
		return -1;
	return is_name(*(const char **)at, 64)
		       ? 0
		       : profile_fail(r, "a name has 1 to 64 letters, digits, dots, underscores and dashes");
}

/* The digest identifies the destination in tables and commands without showing the URL. */
static void digest_url(struct webhook *w, const struct url *url)
{
	uint8_t digest[SHA256_BYTES];
	char text[4096];
	int len = snprintf(text, sizeof(text), "%s %s %d %s", url->scheme, url->host, url->port, url->path);

	sha256(text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1, digest);
	write_hex(w->digest, digest, 16);
}

/* Errors do not quote the URL, since it may contain a token. */
static int read_url(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct webhook *w = (struct webhook *)((char *)at - k->offset);
	struct url url = {0};
	bool is_good;

	if (key_text(r, k, value, at))
		return -1;
	is_good = url_parse(&url, w->url) == 0 && url_has_scheme(&url, "http https") && url.host[0];
	if (is_good)
		digest_url(w, &url);
	url_clear(&url);
	return is_good ? 0 : profile_fail(r, "is not an http:// or https:// URL with a host");
}

static int check_type(struct profile_reader *r, const json_t *type)
{
	size_t len = json_string_length(type);

	if (len && json_string_value(type)[len - 1] == '*')
		return profile_fail(r, "types are compared as a whole: name each one, or leave out types to get all");
	return len ? 0 : profile_fail(r, "an event type must be a string that is not empty");
}

static int read_types(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct webhook *w = (struct webhook *)((char *)at - k->offset);
	size_t n = json_array_size(value);

	if (!n || n > WEBHOOK_TYPES_MAX)
		return profile_fail(r, "must be an array of 1 to 256 event types; without it, events of every type "
				       "are sent");
	if (key_check_each(r, value, check_type))
		return -1;
	w->types = memory_calloc(n, sizeof(*w->types));
	for (; w->type_count < n; w->type_count++) {
		w->types[w->type_count] = (char *)json_string_value(json_array_get(value, w->type_count));
		for (size_t i = 0; i < w->type_count; i++)
			if (strcmp(w->types[i], w->types[w->type_count]) == 0)
				return profile_fail(r, "a type is listed twice");
	}
	return 0;
}

static int read_headers(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	return webhook_headers_check(r, value) || key_keep(value, at);
}

int webhook_refresh_headers(struct webhook *t, char *fault, size_t size)
{
	struct bytes lines;

	if (webhook_headers_read(&lines, t->headers, t->bearer_file, fault, size))
		return -1;
	webhook_headers_clear(&t->header_lines);
	t->header_lines = lines;
	return 0;
}

#define AT(member) offsetof(struct webhook, member)

static const struct key keys[] = {
	KEY("name", read_name, AT(name)),
	KEY("url", read_url, AT(url)),
	KEY("types", read_types, AT(types)),
	KEY("secret-env", key_text, AT(secret_env)),
	KEY("secret-file", key_text, AT(secret_file)),
	KEY("ca", key_text, AT(ca)),
	KEY("cert", key_text, AT(cert)),
	KEY("key", key_text, AT(key)),
	KEY("when", key_conditions, AT(when)),
	KEY("headers", read_headers, AT(headers)),
	KEY("bearer-file", key_text, AT(bearer_file)),
	RANGE("batch", key_number, AT(batch), 1, 100),
	RANGE("batch-bytes", key_number, AT(batch_bytes), 1000, 4 << 20),
	CHOICE("format", AT(format), "json cloudevents", WEBHOOK_JSON),
	RANGE("ttl_s", key_seconds, AT(ttl_ms), 1, 365 * 86400.0),
	RANGE("timeout", key_seconds, AT(timeout_ms), 0.01, 600),
	RANGE("concurrency", key_number, AT(concurrency), 1, 1000),
	RANGE("attempts", key_number, AT(attempts), 1, 1000),
	RANGE("backoff", key_seconds, AT(backoff_ms), 0.001, 86400),
	RANGE("backoff-cap", key_seconds, AT(backoff_cap_ms), 0.001, 7 * 86400.0),
};

/* --- webhooks --- */

static bool has_header(const json_t *headers, const char *wanted)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)headers, name, value) if (strcasecmp(name, wanted) == 0) return true;
	return false;
}

static int read_header_lines(struct profile_reader *r, struct webhook *w)
{
	char fault[300];

	return webhook_refresh_headers(w, fault, sizeof(fault)) ? profile_fail(r, "%s", fault) : 0;
}

/* An unreadable file pauses the webhook; a pipe would block the loop. */
static int check_plain(struct profile_reader *r, const char *key, const char *path)
{
	return !path || file_is_readable(path) || errno != EOPNOTSUPP
		       ? 0
		       : profile_fail(r, "%s: %.200s is not a regular file", key, path);
}

static int read_webhook(struct profile_reader *r, const json_t *value, struct webhook *w, bool has_secrets)
{
	*w = (struct webhook){.timeout_ms = 15000,
			      .concurrency = 16,
			      .attempts = 20,
			      .backoff_ms = 2000,
			      .backoff_cap_ms = 3600000,
			      .batch_bytes = 1 << 20,
			      .root = json_incref((json_t *)value)};
	if (key_object(r, TABLE(keys, "name url"), "a webhook", value, w))
		return -1;
	if (!w->secret_env == !w->secret_file)
		return profile_fail(r, "secret-env or secret-file is missing, or both are there");
	if (w->bearer_file && has_header(w->headers, "authorization"))
		return profile_fail(r, "bearer-file sets the header authorization, as headers does: remove one");
	if (w->key && !w->cert)
		return profile_fail(r, "key needs cert, the certificate of that key");
	if (check_plain(r, "ca", w->ca) || check_plain(r, "cert", w->cert) || check_plain(r, "key", w->key))
		return -1;
	return has_secrets ? read_secrets(r, w, w->secret_file) || read_header_lines(r, w) : 0;
}

static int check_name(struct profile_reader *r, const struct webhooks *t)
{
	const struct webhook *last = &t->items[t->count - 1];

	for (const struct webhook *w = t->items; w < last; w++)
		if (strcmp(w->name, last->name) == 0)
			return profile_fail(r, "two webhooks have the name %s", w->name);
	return 0;
}

struct list {
	struct webhooks *webhooks;
	bool has_secrets;
};

static int add_webhook(struct profile_reader *r, const char *name, const json_t *item, void *arg)
{
	const struct list *list = arg;
	struct webhooks *t = list->webhooks;

	(void)name;
	return read_webhook(r, item, &t->items[t->count++], list->has_secrets) || check_name(r, t);
}

int webhooks_read(struct webhooks *t, const json_t *value, bool has_secrets, const struct profile_origin *origin,
		  struct profile_fault *fault)
{
	struct profile_reader r = {.own = *origin, .fault = fault};

	*t = (struct webhooks){.items = NULL};
	if (!json_is_array(value) || json_array_size(value) > WEBHOOKS_MAX)
		return profile_fail(&r, "must be an array of at most %d objects", WEBHOOKS_MAX);
	t->items = memory_calloc(json_array_size(value) + 1, sizeof(*t->items));
	return profile_each(&r, value, add_webhook, &(struct list){t, has_secrets});
}

void webhook_copy(struct webhook *copy, const struct webhook *of)
{
	*copy = *of;
	json_incref(copy->root);
	copy->types = memory_calloc(of->type_count + 1, sizeof(*copy->types)); /* size must not be 0 */
	for (size_t i = 0; i < of->type_count; i++)
		copy->types[i] = of->types[i];
	copy->header_lines = (struct bytes){.at = NULL};
	bytes_add(&copy->header_lines, of->header_lines.at, of->header_lines.len);
}

static bool is_same(const struct webhook *a, const struct webhook *b)
{
	size_t i = 0;

	while (i < a->secret_count && i < b->secret_count && a->secrets[i].len == b->secrets[i].len &&
	       CRYPTO_memcmp(a->secrets[i].bytes, b->secrets[i].bytes, a->secrets[i].len) == 0)
		i++;
	return i == a->secret_count && i == b->secret_count && json_equal(a->root, b->root) &&
	       a->header_lines.len == b->header_lines.len &&
	       CRYPTO_memcmp(a->header_lines.at, b->header_lines.at, a->header_lines.len) == 0;
}

bool webhooks_are_same(const struct webhooks *a, const struct webhooks *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && is_same(&a->items[i], &b->items[i]))
		i++;
	return i == a->count && i == b->count;
}

void webhook_clear(struct webhook *t)
{
	free(t->types);
	webhook_headers_clear(&t->header_lines);
	json_decref(t->root);
	OPENSSL_cleanse(t->secrets, sizeof(t->secrets));
}

void webhooks_free(struct webhooks *t)
{
	for (size_t i = 0; i < t->count; i++)
		webhook_clear(&t->items[i]);
	free(t->items);
	*t = (struct webhooks){.items = NULL};
}

size_t webhooks_concurrency(const struct webhooks *t)
{
	size_t sum = 0;

	for (size_t i = 0; i < t->count; i++)
		sum += (size_t)t->items[i].concurrency;
	return sum;
}
