/* webhook.c reads webhooks from the settings file. delivery.c sends to them. */
#include "config/webhook.h"

#include <errno.h>
#include <math.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"

#define SECRET_MARK  "whsec_"
#define SECRET_LEAST 24 /* bytes, by Standard Webhooks; the array in struct webhook_secret is the upper limit */
#define SECRETS_FILE 4096

struct reader {
	struct webhook *webhook;
	size_t index; /* of the webhook */
	bool has_secrets;
	char *error;
	size_t size;
};

static int fail(const struct reader *r, const char *key, const char *what)
{
	const char *name = r->webhook && r->webhook->name ? r->webhook->name : NULL;

	if (name)
		snprintf(r->error, r->size, "webhook %s, %s: %s", name, key, what);
	else
		snprintf(r->error, r->size, "webhooks[%zu], %s: %s", r->index, key, what);
	return -1;
}

/* --- secrets --- */

/* A secret is whsec_ followed by base64 (Standard Webhooks). */
static bool decode_secret(const char *text, size_t len, struct webhook_secret *secret)
{
	unsigned char bytes[sizeof(secret->bytes) + 3];
	size_t mark = strlen(SECRET_MARK);
	int n;

	if (len <= mark || strncmp(text, SECRET_MARK, mark) != 0)
		return false;
	text += mark;
	len -= mark;
	if (len % 4 || len / 4 * 3 > sizeof(bytes))
		return false;
	n = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	for (int i = 1; i <= 2 && n > 0 && text[len - (size_t)i] == '='; i++)
		n--; /* EVP_DecodeBlock counts the padding */
	if (n < SECRET_LEAST || n > (int)sizeof(secret->bytes))
		return false;
	memcpy(secret->bytes, bytes, (size_t)n);
	secret->len = (size_t)n;
	return true;
}

/* Reads secrets separated by blanks. Every one signs, so that a secret can be replaced without a gap. */
static int decode_secrets(const struct reader *r, const char *key, const char *text)
{
	static const char blanks[] = " \t\r\n";
	struct webhook *t = r->webhook;

	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		size_t len = strcspn(text, blanks);

		if (t->secret_count == WEBHOOK_SECRETS_MAX)
			return fail(r, key, "there are more than 4 secrets");
		if (!decode_secret(text, len, &t->secrets[t->secret_count]))
			return fail(r, key, "a secret must be whsec_ followed by 24 to 64 bytes in base64");
		t->secret_count++;
		text += len;
	}
	return t->secret_count ? 0 : fail(r, key, "has no secret");
}

static int read_secret_env(const struct reader *r, const char *key, const char *name)
{
	char *text, what[200];
	int result;

	if (!r->has_secrets)
		return 0;
	r->webhook->secret_env = memory_strdup(name);
	text = secret_named(name);
	snprintf(what, sizeof(what), "the variable %.100s is not set", name);
	result = text ? decode_secrets(r, key, text) : fail(r, key, what);
	if (text)
		OPENSSL_cleanse(text, strlen(text));
	free(text);
	return result;
}

static int read_secret_file(const struct reader *r, const char *key, const char *path)
{
	char *text, what[300];
	size_t len;
	int result;

	if (!r->has_secrets)
		return 0;
	text = file_read(path, SECRETS_FILE, &len);
	if (!text) {
		snprintf(what, sizeof(what), "%.200s cannot be read: %s", path, strerror(errno));
		return fail(r, key, what);
	}
	result = decode_secrets(r, key, text);
	OPENSSL_cleanse(text, len);
	free(text);
	return result;
}

/* --- members --- */

static int read_name(const struct reader *r, const char *key, const char *text)
{
	if (!is_name(text, 64))
		return fail(r, key, "a name has 1 to 64 letters, digits, dots, underscores and dashes");
	r->webhook->name = memory_strdup(text);
	return 0;
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
static int read_url(const struct reader *r, const char *key, const char *text)
{
	struct url url;
	bool is_good = url_parse(&url, text) == 0 && url_has_scheme(&url, "http https") && url.host[0];

	if (is_good) {
		digest_url(r->webhook, &url);
		r->webhook->url = memory_strdup(text);
	}
	url_clear(&url);
	return is_good ? 0 : fail(r, key, "is not an http:// or https:// URL with a host");
}

static int read_ca(const struct reader *r, const char *key, const char *text)
{
	(void)key;
	r->webhook->ca = memory_strdup(text);
	return 0;
}

static const struct {
	const char *key;
	int (*read)(const struct reader *r, const char *key, const char *text);
} text_members[] = {
	{"name", read_name}, {"url", read_url}, {"secret-env", read_secret_env}, {"secret-file", read_secret_file},
	{"ca", read_ca},
};

static const struct {
	const char *key;
	size_t offset;
	bool is_time; /* seconds, kept in milliseconds */
	double fallback;
	double lowest;
	double highest;
} number_members[] = {
	{"timeout", offsetof(struct webhook, timeout_ms), true, 15, 0.01, 600},
	{"concurrency", offsetof(struct webhook, concurrency), false, 16, 1, 1000},
	{"attempts", offsetof(struct webhook, attempts), false, 20, 1, 1000},
	{"backoff", offsetof(struct webhook, backoff_ms), true, 2, 0.001, 86400},
	{"backoff-cap", offsetof(struct webhook, backoff_cap_ms), true, 3600, 0.001, 7 * 86400},
};

#define TEXT_MEMBERS   (sizeof(text_members) / sizeof(text_members[0]))
#define NUMBER_MEMBERS (sizeof(number_members) / sizeof(number_members[0]))

static int64_t *number_at(struct webhook *t, size_t i)
{
	return (int64_t *)((char *)t + number_members[i].offset);
}

static void set_defaults(struct webhook *t)
{
	for (size_t i = 0; i < NUMBER_MEMBERS; i++)
		*number_at(t, i) = (int64_t)(number_members[i].fallback * (number_members[i].is_time ? 1000 : 1));
}

static int read_number(const struct reader *r, size_t i, const json_t *value)
{
	double number = json_number_value(value);
	char what[120];

	if (json_is_number(value) && number >= number_members[i].lowest && number <= number_members[i].highest &&
	    (number_members[i].is_time || json_is_integer(value))) {
		*number_at(r->webhook, i) = llround(number * (number_members[i].is_time ? 1000 : 1));
		return 0;
	}
	snprintf(what, sizeof(what), "not a%s number from %g to %g", number_members[i].is_time ? "" : " whole",
		 number_members[i].lowest, number_members[i].highest);
	return fail(r, number_members[i].key, what);
}

static int add_type(const struct reader *r, const json_t *value)
{
	struct webhook *t = r->webhook;
	const char *type = json_string_value(value);

	if (!type || !*type)
		return fail(r, "types", "an event type must be a string that is not empty");
	for (size_t i = 0; i < t->type_count; i++)
		if (strcmp(t->types[i], type) == 0)
			return fail(r, "types", "a type is listed twice");
	t->types[t->type_count++] = memory_strdup(type);
	return 0;
}

static int read_types(const struct reader *r, const json_t *value)
{
	struct webhook *w = r->webhook;
	size_t n = json_array_size(value), i;
	json_t *type;

	if (!n || n > WEBHOOK_TYPES_MAX)
		return fail(r, "types",
			    "not an array of 1 to 256 event types; without it, events of every type are sent");
	w->type_count = 0;
	w->types = memory_calloc(n, sizeof(*w->types));
	json_array_foreach(value, i, type) if (add_type(r, type)) return -1;
	return 0;
}

static int read_member(const struct reader *r, const char *key, const json_t *value)
{
	if (strcmp(key, "types") == 0)
		return read_types(r, value);
	for (size_t i = 0; i < NUMBER_MEMBERS; i++)
		if (strcmp(number_members[i].key, key) == 0)
			return read_number(r, i, value);
	for (size_t i = 0; i < TEXT_MEMBERS; i++)
		if (strcmp(text_members[i].key, key) == 0)
			return json_is_string(value) ? text_members[i].read(r, key, json_string_value(value))
						     : fail(r, key, "not a text");
	return fail(r, key, "a webhook has no such setting; see docs/webhooks.md");
}

/* --- webhooks --- */

static int read_webhook(const struct reader *r, const json_t *value)
{
	const json_t *name = json_object_get(value, "name");
	bool has_env = json_object_get(value, "secret-env"), has_file = json_object_get(value, "secret-file");
	const char *key;
	json_t *member;

	if (!json_is_object(value))
		return fail(r, "the value", "not an object");
	if (!json_is_string(name) || read_name(r, "name", json_string_value(name)))
		return *r->error ? -1 : fail(r, "name", "is missing, or is not a string");
	set_defaults(r->webhook);
	json_object_foreach((json_t *)value, key, member)
	{
		if (strcmp(key, "name") != 0 && read_member(r, key, member))
			return -1;
	}
	if (!r->webhook->url)
		return fail(r, "url", "is missing");
	return has_env != has_file ? 0 : fail(r, "secret-env, secret-file", "one of the two is needed");
}

static bool is_known(const struct webhooks *t, const char *name)
{
	for (size_t i = 0; i + 1 < t->count; i++)
		if (strcmp(t->items[i].name, name) == 0)
			return true;
	return false;
}

int webhooks_read(struct webhooks *t, const json_t *value, bool has_secrets, char *error, size_t size)
{
	struct reader r = {.has_secrets = has_secrets, .error = error, .size = size};
	size_t n = json_array_size(value);
	json_t *item;

	*t = (struct webhooks){.items = NULL};
	*error = '\0';
	if (!json_is_array(value) || n > WEBHOOKS_MAX) {
		snprintf(error, size, "webhooks: not an array of at most %d objects", WEBHOOKS_MAX);
		return -1;
	}
	t->items = memory_calloc(n ? n : 1, sizeof(*t->items));
	json_array_foreach(value, r.index, item)
	{
		r.webhook = &t->items[t->count++];
		if (read_webhook(&r, item))
			return -1;
		if (is_known(t, r.webhook->name))
			return fail(&r, "name", "two webhooks have this name");
	}
	return 0;
}

void webhook_copy(struct webhook *copy, const struct webhook *of)
{
	*copy = *of;
	copy->name = memory_strdup(of->name);
	copy->url = memory_strdup(of->url);
	copy->ca = of->ca ? memory_strdup(of->ca) : NULL;
	copy->secret_env = of->secret_env ? memory_strdup(of->secret_env) : NULL;
	copy->types = memory_calloc(of->type_count + 1, sizeof(*copy->types)); /* size must not be 0 */
	for (size_t i = 0; i < of->type_count; i++)
		copy->types[i] = memory_strdup(of->types[i]);
}

static bool is_same_secrets(const struct webhook *a, const struct webhook *b)
{
	size_t i = 0;

	while (i < a->secret_count && i < b->secret_count && a->secrets[i].len == b->secrets[i].len &&
	       CRYPTO_memcmp(a->secrets[i].bytes, b->secrets[i].bytes, a->secrets[i].len) == 0)
		i++;
	return i == a->secret_count && i == b->secret_count && is_same_text(a->secret_env, b->secret_env);
}

static bool is_same(struct webhook *a, struct webhook *b)
{
	bool result = is_same_text(a->name, b->name) && is_same_text(a->url, b->url) && is_same_text(a->ca, b->ca) &&
		      is_same_secrets(a, b) && a->type_count == b->type_count;

	for (size_t i = 0; result && i < a->type_count; i++)
		result = strcmp(a->types[i], b->types[i]) == 0;
	for (size_t i = 0; result && i < NUMBER_MEMBERS; i++)
		result = *number_at(a, i) == *number_at(b, i);
	return result;
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
	for (size_t i = 0; i < t->type_count; i++)
		free(t->types[i]);
	free(t->types);
	free(t->name);
	free(t->url);
	free(t->ca);
	free(t->secret_env);
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
