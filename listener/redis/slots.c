/* slots.c computes the slots of keys and commands in Redis Cluster. */
#include "redis/slots.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* CRC-16/XMODEM, as the Redis Cluster Specification requires, four bits at a time. */
static unsigned int crc16(const char *bytes, size_t len)
{
	static const unsigned int table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
					       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
	unsigned int crc = 0;

	for (size_t i = 0; i < len; i++)
		for (int shift = 4; shift >= 0; shift -= 4)
			crc = (crc << 4 ^ table[(crc >> 12 ^ (unsigned char)bytes[i] >> shift) & 15]) & 0xffff;
	return crc;
}

unsigned int slot_of_key(const char *key, size_t len)
{
	const char *open = memchr(key, '{', len);
	const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

	if (close && close > open + 1)
		return crc16(open + 1, (size_t)(close - open - 1)) % SLOTS;
	return crc16(key, len) % SLOTS;
}

/* Returns the next word of a command and moves *at past it. */
static const char *next_word(const char **at, const char *end, size_t *len)
{
	const char *word = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;

	if (!word)
		return NULL;
	*len = strtoul(*at + 1, NULL, 10);
	*at = word + 1 + *len + 2;
	return word + 1;
}

static bool is_word(const char *word, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(word, text, len) == 0;
}

static bool has_no_key(const char *word, size_t len)
{
	return is_word(word, len, "CLIENT") || is_word(word, len, "INFO") || is_word(word, len, "CLUSTER");
}

int slot_of_command(const char *bytes, size_t len)
{
	const char *at = memchr(bytes, '\n', len), *end = bytes + len, *word;
	size_t n;

	if (!at++)
		return -1;
	word = next_word(&at, end, &n);
	if (!word || has_no_key(word, n))
		return -1;
	if (is_word(word, n, "EVAL")) {
		next_word(&at, end, &n);
		word = next_word(&at, end, &n);
		if (!word || is_word(word, n, "0"))
			return -1;
	}
	word = next_word(&at, end, &n);
	return word ? (int)slot_of_key(word, n) : -1;
}
