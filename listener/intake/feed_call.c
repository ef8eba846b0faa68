/* feed_call.c makes the HTTP calls of profiles. */
#include "intake/feed_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "feed/reach.h"
#include "feed/secrets.h"

#define CALL_HEADERS  32
#define EXAMPLE_BYTES 200

struct call_headers {
	char *lines[CALL_HEADERS + 1];
	size_t count;
};

/* Returns a copy of a header value without the final newline that a file may have; NULL if it is not valid. */
static char *header_value(const char *text)
{
	char *value = memory_strdup(text);
	size_t n = strlen(value);

	while (n && (value[n - 1] == '\n' || value[n - 1] == '\r'))
		value[--n] = '\0';
	for (const char *c = value; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
			free(value);
			return NULL;
		}
	return value;
}

static void on_secret(void *arg, const char *name, size_t len)
{
	(void)name;
	(void)len;
	*(bool *)arg = true;
}

static bool has_secret(const json_t *template)
{
	bool found = false;

	secrets_each(template, on_secret, &found);
	return found;
}

void feed_call_headers(struct session *s, const json_t *headers, bool is_own, void (*add)(void *to, char *text),
		       void *to, char why[FEED_CALL_REASON])
{
	const char *name, *fault = NULL;
	json_t *item;

	json_object_foreach((json_t *)(uintptr_t)headers, name, item)
	{
		const char *text;
		char *value;

		if (!is_own && has_secret(item))
			continue;
		text = session_render_text(s, json_string_value(item), false, &fault);
		value = text && !fault ? header_value(text) : NULL;

		if (value)
			add(to, memory_printf("%s: %s", name, value));
		else
			snprintf(why, FEED_CALL_REASON, "header %.60s cannot be sent: %s", name,
				 fault ? fault : "it has no value, or contains a control character");
		free(value);
	}
}

static void add_header(void *to, char *text)
{
	struct call_headers *h = to;

	if (h->count < CALL_HEADERS)
		h->lines[h->count++] = text;
	else
		free(text);
}

struct request *feed_call_send(struct requests *requests, const struct profile *p, struct session *s,
			       const struct profile_http *http, request_cb *cb, void *arg, char why[FEED_CALL_REASON])
{
	const char *fault = NULL, *text = session_render_text(s, http->url, true, &fault);
	AUTO_FREE char *url = text ? memory_strdup(text) : NULL;
	struct call_headers headers = {0};
	struct request *request = NULL;
	struct slice body = {0};
	bool is_own = false;

	*why = '\0';
	if (!fault)
		fault = reach_fault(p, url ? url : "", &is_own);
	feed_call_headers(s, http->headers, is_own, add_header, &headers, why);
	if (!fault && http->body)
		body = session_render(s, http->body, &fault);
	if (url && !fault && !*why)
		request = request_send(requests,
				       &(struct request_call){.method = http->method,
							      .url = url,
							      .headers = (const char *const *)headers.lines,
							      .body = body.at,
							      .body_len = body.len},
				       cb, arg);
	if (!request && (fault || !*why))
		snprintf(why, FEED_CALL_REASON, "%s", fault ? fault : "its URL is not http:// or https://");
	for (size_t i = 0; i < headers.count; i++)
		free(headers.lines[i]);
	return request;
}

bool feed_call_succeeded(const struct request_answer *answer, char why[FEED_CALL_REASON])
{
	if (answer->status / 100 == 2)
		return true;
	if (answer->status)
		snprintf(why, FEED_CALL_REASON, "answered %d%s%.*s", answer->status, answer->len ? ": " : "",
			 (int)(answer->len < EXAMPLE_BYTES ? answer->len : EXAMPLE_BYTES),
			 answer->body ? answer->body : "");
	else
		snprintf(why, FEED_CALL_REASON, "%s", answer->reason);
	return false;
}
