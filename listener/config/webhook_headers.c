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

/* RFC 9110, section 5.6.2 */
#define TOKEN "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

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

static int check_header(struct profile_reader *r, const char *name, const json_t *value)
{
	const char *text;

	if (!*name || name[strspn(name, TOKEN)])
		return profile_fail(r, "is not the name of a header");
	if (is_taken(name))
		return profile_fail(r, "is a header that wsonce sets itself");
	return key_text(r, NULL, value, &text);
}

int webhook_headers_check(struct profile_reader *r, const json_t *headers)
{
	const char *name;
	json_t *value;
	int result = 0;

	if (!json_is_object(headers) || json_object_size(headers) > WEBHOOK_HEADERS_MAX)
		return profile_fail(r,
				    "must be an object of at most %d headers, such as {\"x-api-key\": \"${env:KEY}\"}",
				    WEBHOOK_HEADERS_MAX);
	json_object_foreach((json_t *)headers, name, value)
	{
		profile_enter(r, name, 0);
		result = result ? result : check_header(r, name, value);
		profile_leave(r);
	}
	return result;
}

/* --- values --- */

/* Appends the secret in ${env:NAME} or ${file:PATH}; inside is the text between the braces. */
static int add_secret(struct bytes *out, const char *inside, char *fault, size_t size)
{
	bool is_env = strncmp(inside, "env:", 4) == 0, is_file = strncmp(inside, "file:", 5) == 0;
	char *secret = secret_of(inside);

	if (!secret && !is_env && !is_file)
		snprintf(fault, size, "${%.80s} is neither ${env:NAME} nor ${file:PATH}", inside);
	else if (!secret)
		snprintf(fault, size,
			 is_env ? "the variable %.100s is not set" : "%.200s has no first line that can be read",
			 inside + (is_env ? 4 : 5));
	if (!secret)
		return -1;
	bytes_add(out, secret, strlen(secret));
	OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
	return 0;
}

static int add_text(struct bytes *out, const char *text, char *fault, size_t size)
{
	for (const char *begin, *end; (begin = strstr(text, "${")) && (end = strchr(begin, '}')); text = end + 1) {
		char *inside = memory_strndup(begin + 2, (size_t)(end - begin - 2));
		int result;

		bytes_add(out, text, (size_t)(begin - text));
		result = add_secret(out, inside, fault, size);
		free(inside);
		if (result)
			return -1;
	}
	bytes_add(out, text, strlen(text));
	return 0;
}

/* Appends a line and its NUL. A value has no control characters but tabs (RFC 9110, section 5.5). */
static int add_line(struct bytes *out, const char *name, const char *text, char *fault, size_t size)
{
	size_t begin;

	bytes_add(out, name, strlen(name));
	bytes_add(out, ": ", 2);
	begin = out->len;
	if (add_text(out, text, fault, size))
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

static int add_bearer(struct bytes *out, const char *file, char *fault, size_t size)
{
	char *text = memory_printf("Bearer ${file:%s}", file);
	int result = add_line(out, "authorization", text, fault, size);

	free(text);
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
		result ? result : add_line(lines, name, json_string_value(value), fault, size);
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
