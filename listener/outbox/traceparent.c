/* traceparent.c checks if an event's value is a traceparent (www.w3.org/TR/trace-context, section 3.2). */
#include "outbox/traceparent.h"

#include <string.h>

#include "base/json.h"

#define DIGITS "0123456789abcdef"

/* VERSION-TRACE-PARENT-FLAGS */
enum { VERSION_LEN = 2, TRACE_LEN = 32, PARENT_LEN = 16, FLAGS_LEN = 2, WHOLE_LEN = TRACEPARENT_SIZE - 1 };

/* Skips a field of len digits and the dash after it. */
static bool has_field(const char **at, size_t len, bool may_be_zero)
{
	const char *field = *at;

	*at += len + 1;
	return strspn(field, DIGITS) == len && (may_be_zero || strspn(field, "0") < len);
}

/* A later version may have more fields, which we do not know: it is passed on as version 00. */
static bool is_traceparent(const char *text, size_t len, const char *rest)
{
	const char *at = text;

	if (strncmp(text, "ff", VERSION_LEN) == 0 || !has_field(&at, VERSION_LEN, true) || at[-1] != '-' ||
	    !has_field(&at, TRACE_LEN, false) || at[-1] != '-' || !has_field(&at, PARENT_LEN, false) || at[-1] != '-' ||
	    !has_field(&at, FLAGS_LEN, true))
		return false;
	return len == WHOLE_LEN || (strncmp(text, "00", VERSION_LEN) != 0 && *rest == '-');
}

bool traceparent_find(char *out, const char *body, size_t len, const char *pointer)
{
	struct slice data = json_find((struct slice){body, len}, "/data");
	struct slice found = json_kind(data) == KIND_MISSING ? data : json_find(data, pointer);

	if (json_kind(found) != KIND_STRING || found.len < WHOLE_LEN + 2)
		return false;
	memcpy(out, found.at + 1, WHOLE_LEN); /* after the quote; a valid one has no escapes */
	out[WHOLE_LEN] = '\0';
	if (!is_traceparent(out, found.len - 2, found.at + 1 + WHOLE_LEN))
		return false;
	memcpy(out, "00", VERSION_LEN);
	return true;
}
