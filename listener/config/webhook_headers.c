/* webhook_headers.c reads the headers of webhooks. Their texts may hold ${env:NAME} and ${file:PATH}. */
#include "config/webhook_headers.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/secret.h"
#include "config/keys.h"
#include "config/profile_placeholder.h"

/* True if wsonce or libcurl sets this header. */
static bool is_taken(const char *name)
{
	static const char *const names[] = {
		"connection", "content-length", "content-type",      "expect", "host", "idempotency-key",
		"te",         "trailer",        "transfer-encoding", "upgrade"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return strncasecmp(name, "webhook-", 8) == 0;
}

static int check_placeholders(struct profile_reader *r, const char *text)
{
	struct placeholder p;

	for (; placeholder_find(text, &p); text = p.end)
		if (p.kind != PLACEHOLDER_SECRET || p.is_text)
			return profile_fail(r, "%.*s is neither ${env:NAME} nor ${file:PATH}",
					    (int)(p.end - p.begin < 80 ? p.end - p.begin : 80), p.begin);
	return p.fault ? profile_fail(r, "holds %s", p.fault) : 0;
}

static int check_header(struct profile_reader *r, const char *name, const json_t *value, void *arg)
{
	const char *text;

	(void)arg;
	if (!profile_is_token(name))
		return profile_fail(r, "is not the name of a header");
	if (is_taken(name))
		return profile_fail(r, "is a header that wsonce sets itself");
	return key_text(r, NULL, value, &text) || check_placeholders(r, text) ? -1 : 0;
}

int webhook_headers_check(struct profile_reader *r, const json_t *headers)
{
	if (!json_is_object(headers) || json_object_size(headers) > WEBHOOK_HEADERS_MAX)
		return profile_fail(r,
				    "must be an object of at most %d headers, such as {\"x-api-key\": \"${env:KEY}\"}",
				    WEBHOOK_HEADERS_MAX);
	return profile_each(r, headers, check_header, NULL);
}

/* --- values --- */

/* Appends the secret that env:NAME or file:PATH names. */
static int add_secret(struct bytes *out, const char *of, char *fault, size_t size)
{
	char *secret = secret_of(of);

	if (!secret) {
		snprintf(fault, size,
			 strncmp(of, "env:", 4) == 0 ? "the variable %.100s is not set"
						     : "%.200s cannot be read, or its first line is empty",
			 strchr(of, ':') + 1);
		return -1;
	}
	bytes_add(out, secret, strlen(secret));
	OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
	return 0;
}

/* Appends a text that webhook_headers_check has seen. */
static int add_text(struct bytes *out, const char *text, char *fault, size_t size)
{
	struct placeholder p;
	int result = 0;

	for (; !result && placeholder_find(text, &p); text = p.end) {
		char *of = memory_strndup(p.name.at, p.name.len);

		bytes_add(out, text, (size_t)(p.begin - text));
		result = add_secret(out, of, fault, size);
		free(of);
	}
	bytes_add(out, text, strlen(text));
	return result;
}

/* Appends a line and its NUL: the header's name, and text and the secret that of names (NULL: none). A value
 * has no control characters but tabs (RFC 9110, section 5.5). */
static int add_line(struct bytes *out, const char *name, const char *text, const char *of, char *fault, size_t size)
{
	size_t begin;

	bytes_add(out, name, strlen(name));
	bytes_add(out, ": ", 2);
	begin = out->len;
	if (add_text(out, text, fault, size) || (of && add_secret(out, of, fault, size)))
		return -1;
	for (size_t i = begin; i < out->len; i++)
		if (((unsigned char)out->at[i] < ' ' && out->at[i] != '\t') || out->at[i] == 0x7f)
			begin = out->len;
	if (begin == out->len) {
		snprintf(fault, size, "the header %.60s would be empty, or hold a control character", name);
		return -1;
	}
	bytes_add(out, "", 1);
	return 0;
}

/* The file's name may hold any character, so it cannot be written as a template. */
static int add_bearer(struct bytes *out, const char *file, char *fault, size_t size)
{
	char *of = memory_printf("file:%s", file);
	int result = add_line(out, "authorization", "Bearer ", of, fault, size);

	free(of);
	return result;
}

int webhook_headers_read(struct bytes *lines, const json_t *headers, const char *bearer_file, char *fault, size_t size)
{
	const char *name;
	json_t *value;
	int result;

	*lines = (struct bytes){.at = NULL};
	result = bearer_file ? add_bearer(lines, bearer_file, fault, size) : 0;
	json_object_foreach((json_t *)headers, name, value) result =
		result ? result : add_line(lines, name, json_string_value(value), NULL, fault, size);
	if (result)
		webhook_headers_clear(lines);
	return result;
}

void webhook_headers_clear(struct bytes *lines)
{
	if (lines->at)
		OPENSSL_cleanse(lines->at, lines->len);
	bytes_free(lines);
}
