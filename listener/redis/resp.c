/* resp.c formats Redis commands. hiredis calls printf for each, and there is a command for each message. */
#include "redis/resp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *reserve(struct resp *c, size_t more)
{
	if (c->len + more > c->size) {
		c->size = (c->len + more) * 2;
		c->bytes = memory_realloc(c->bytes, c->size);
	}
	return c->bytes + c->len;
}

static char *put_count(char *at, char kind, size_t n)
{
	char digits[24];
	int i = sizeof(digits);

	*at++ = kind;
	if (n < 100) { /* the usual case */
		if (n >= 10)
			*at++ = (char)('0' + n / 10);
		*at++ = (char)('0' + n % 10);
	} else {
		do
			digits[--i] = (char)('0' + n % 10);
		while (n /= 10);
		at = mempcpy(at, digits + i, sizeof(digits) - (size_t)i);
	}
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

void resp_start(struct resp *c, size_t count)
{
	c->len = 0;
	c->len = (size_t)(put_count(reserve(c, 32), '*', count) - c->bytes);
}

void resp_ready(struct resp *c, const char *parts, size_t len)
{
	memcpy(reserve(c, len), parts, len);
	c->len += len;
}

void resp_start_ready(struct resp *c, const char *parts, size_t len)
{
	c->len = 0;
	resp_ready(c, parts, len);
}

void resp_joined(struct resp *c, const char *a, size_t a_len, const char *b, size_t b_len)
{
	char *at = put_count(reserve(c, a_len + b_len + 40), '$', a_len + b_len);

	memcpy(at, a, a_len);
	memcpy(at + a_len, b, b_len);
	at += a_len + b_len;
	*at++ = '\r';
	*at++ = '\n';
	c->len = (size_t)(at - c->bytes);
}

void resp_bytes(struct resp *c, const char *at, size_t len)
{
	resp_joined(c, at, len, "", 0);
}

void resp_word(struct resp *c, const char *text)
{
	resp_bytes(c, text, strlen(text));
}

void resp_number(struct resp *c, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	resp_word(c, text);
}

void resp_free(struct resp *c)
{
	free(c->bytes);
	*c = (struct resp){NULL, 0, 0};
}
