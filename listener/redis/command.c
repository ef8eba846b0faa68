/* command.c owns the wire form of Redis commands. hiredis can format too, but by a printf for each
 * command, and there is a command for each message. */
#include "redis/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(struct command *c, size_t more)
{
	if (c->len + more > c->size) {
		size_t size = (c->len + more) * 2;
		char *bytes = realloc(c->bytes, size);

		if (!bytes) {
			c->len = 0;
			return NULL;
		}
		c->bytes = bytes;
		c->size = size;
	}
	return c->bytes + c->len;
}

static char *put_count(char *at, char kind, size_t n)
{
	char digits[24];
	int i = sizeof(digits);

	*at++ = kind;
	if (n < 100) { /* as nearly all are */
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

void command_start(struct command *c, size_t count)
{
	char *at;

	c->len = 0;
	at = reserve(c, 32);
	if (at)
		c->len = (size_t)(put_count(at, '*', count) - c->bytes);
}

void command_ready(struct command *c, const char *parts, size_t len)
{
	char *at = c->len ? reserve(c, len) : NULL;

	if (!at)
		return;
	memcpy(at, parts, len);
	c->len += len;
}

void command_start_ready(struct command *c, const char *parts, size_t len)
{
	c->len = 0;
	if (!reserve(c, len))
		return;
	memcpy(c->bytes, parts, len);
	c->len = len;
}

void command_joined(struct command *c, const char *a, size_t a_len, const char *b, size_t b_len)
{
	char *at = c->len ? reserve(c, a_len + b_len + 40) : NULL;

	if (!at)
		return;
	at = put_count(at, '$', a_len + b_len);
	memcpy(at, a, a_len);
	memcpy(at + a_len, b, b_len);
	at += a_len + b_len;
	*at++ = '\r';
	*at++ = '\n';
	c->len = (size_t)(at - c->bytes);
}

void command_bytes(struct command *c, const char *at, size_t len)
{
	command_joined(c, at, len, "", 0);
}

void command_word(struct command *c, const char *text)
{
	command_bytes(c, text, strlen(text));
}

void command_number(struct command *c, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	command_word(c, text);
}

void command_free(struct command *c)
{
	free(c->bytes);
	*c = (struct command){NULL, 0, 0};
}
