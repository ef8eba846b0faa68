/* resp.c formats Redis commands. hiredis calls printf for each, and there is a command for each message. */
#include "redis/resp.h"

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

void resp_start(struct bytes *c, size_t count)
{
	c->len = 0;
	c->len = (size_t)(put_count(bytes_reserve(c, 32), '*', count) - c->at);
}

void resp_joined(struct bytes *c, const char *a, size_t a_len, const char *b, size_t b_len)
{
	char *at = put_count(bytes_reserve(c, a_len + b_len + 40), '$', a_len + b_len);

	memcpy(at, a, a_len);
	memcpy(at + a_len, b, b_len);
	at += a_len + b_len;
	*at++ = '\r';
	*at++ = '\n';
	c->len = (size_t)(at - c->at);
}

void resp_bytes(struct bytes *c, const char *at, size_t len)
{
	resp_joined(c, at, len, "", 0);
}

void resp_word(struct bytes *c, const char *text)
{
	resp_bytes(c, text, strlen(text));
}

void resp_add_words(struct bytes *c, const char *const *words)
{
	for (; *words; words++)
		resp_word(c, *words);
}

void resp_number(struct bytes *c, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	resp_word(c, text);
}
