/* slots.c computes the slots of keys and commands in Redis Cluster, and the tags in our keys. The ids of events may
 * contain braces, but the tag stands before the id, so they cannot move a key. */
#include "redis/slots.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_SIZE 8

/* CRC-16/XMODEM, as the Redis Cluster Specification requires. */
static unsigned int crc16(const char *bytes, size_t len)
{
	unsigned int crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned int)(unsigned char)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
	}
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

/* Returns the next word of a command and moves *at behind it. */
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

/* Finds the smallest number whose slot is in this part of the slots. The result must never change. */
static void find_tag(unsigned int tag, char *text)
{
	for (unsigned int n = 0;; n++) {
		int len = snprintf(text, TAG_SIZE, "{%u}", n);

		if (slot_of_key(text, (size_t)len) / (SLOTS / SLOT_TAGS) == tag)
			return;
	}
}

const char *slot_tag(unsigned int tag)
{
	static _Thread_local char tags[SLOT_TAGS][TAG_SIZE];

	if (!tags[tag][0])
		find_tag(tag, tags[tag]);
	return tags[tag];
}
