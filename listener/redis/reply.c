/* reply.c reads the answers of Redis in place. */
#include "redis/reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 7 /* arrays in arrays */

struct reader {
	char *at, *end;
	struct arena *arena;
	const char *why; /* the answer cannot be read; NULL: it can, or more bytes may show it */
};

static bool read_value(struct reader *r, struct redis_reply *out, int depth);

static bool refuse(struct reader *r, const char *why)
{
	r->why = why;
	return false;
}

static bool read_string(struct reader *r, struct redis_reply *out, size_t len)
{
	if (len > REPLY_BYTES)
		return refuse(r, "an answer is larger than 16 MiB");
	if ((size_t)(r->end - r->at) < len + 2)
		return false;
	*out = (struct redis_reply){.type = REPLY_STRING, .str = r->at, .len = len};
	r->at[len] = '\0';
	r->at += len + 2;
	return true;
}

/* NOLINTBEGIN(misc-no-recursion): at most DEPTH_MAX levels */

/* Without the limit, a few bytes could announce an array of 16 GiB. */
static bool read_array(struct reader *r, struct redis_reply *out, size_t count, int depth)
{
	size_t size = count * sizeof(*out);

	if (count > REPLY_BYTES / sizeof(*out) || r->arena->taken > REPLY_BYTES - size || depth == DEPTH_MAX)
		return refuse(r, "an answer is larger than 16 MiB");
	*out = (struct redis_reply){.type = REPLY_ARRAY, .elements = count, .element = arena_alloc(r->arena, size)};
	for (size_t i = 0; i < count; i++)
		if (!read_value(r, &out->element[i], depth + 1))
			return false;
	return true;
}

static bool read_value(struct reader *r, struct redis_reply *out, int depth)
{
	char *line = r->at, *newline = memchr(line, '\n', (size_t)(r->end - line)), *stop;
	long long n;

	if (line < r->end && !memchr("+-:$*", *line, 5))
		return refuse(r, "an answer is not RESP2");
	if (!newline)
		return false;
	if (newline < line + 2)
		return refuse(r, "an answer is not RESP2");
	newline[-1] = '\0';
	r->at = newline + 1;
	if (*line == '+' || *line == '-') {
		*out = (struct redis_reply){.type = *line == '+' ? REPLY_STATUS : REPLY_ERROR,
					    .str = line + 1,
					    .len = (size_t)(newline - line - 2)};
		return true;
	}
	n = strtoll(line + 1, &stop, 10);
	if (stop == line + 1 || *stop)
		return refuse(r, "an answer is not RESP2");
	*out = (struct redis_reply){.type = *line == ':' ? REPLY_INTEGER : REPLY_NIL, .integer = n};
	if (*line == ':' || n < 0)
		return true;
	return *line == '$' ? read_string(r, out, (size_t)n) : read_array(r, out, (size_t)n, depth);
}

/* NOLINTEND(misc-no-recursion) */

char *reply_read(struct redis_reply *reply, char *bytes, size_t len, struct arena *a, const char **why)
{
	struct reader r = {.end = bytes + len, .arena = a};

	r.at = bytes;
	arena_clear(a);
	if (read_value(&r, reply, 0))
		return r.at;
	*why = !r.why && len > REPLY_BYTES ? "an answer is larger than 16 MiB" : r.why;
	return NULL;
}

bool reply_is_error(const struct redis_reply *reply, const char *code)
{
	return reply && reply->type == REPLY_ERROR && strncmp(reply->str, code, strlen(code)) == 0;
}
