/* text.h: checks UTF-8, cleans text for display, and searches lists of words. */
#ifndef WSONCE_TEXT_H
#define WSONCE_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistr.h>

/* UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Most messages are all ASCII, so leading
 * ASCII is skipped eight bytes at a time, and libunistring checks only the rest. */
static inline bool is_utf8(const char *text, size_t len)
{
	uint64_t eight;

	for (; len >= sizeof(eight); text += sizeof(eight), len -= sizeof(eight)) {
		memcpy(&eight, text, sizeof(eight));
		if (eight & UINT64_C(0x8080808080808080))
			break;
	}
	return u8_check((const uint8_t *)text, len) == NULL;
}

/* Returns the length of the byte order mark that text begins with; 0: there is none. */
static inline size_t text_mark_len(const char *text, size_t len)
{
	return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Replaces each byte that is not ASCII with a question mark, for uses that require UTF-8. */
static inline void make_ascii(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			*text = '?';
}

/* Returns the length of the first character of text if a terminal would act on it: a control character, a line
 * separator, or a character that changes the direction of text (UAX 9). Otherwise returns 0. */
static inline size_t text_control_len(const char *text, size_t len)
{
	ucs4_t c = ' ';
	int n = len ? u8_mbtouc(&c, (const uint8_t *)text, len) : 0;

	return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
			       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069)
		       ? (size_t)n
		       : 0;
}

/* Replaces each byte of such characters with `by`. */
static inline void text_replace_controls(char *text, char by)
{
	for (char *at = text, *end = text + strlen(text); at < end; at++)
		memset(at, by, text_control_len(at, (size_t)(end - at)));
}

/* Cleans text from a peer for a log line. Such characters become question marks. So does each byte that is not ASCII if
 * the text is not UTF-8, which happens when it was cut. */
static inline void make_line(char *text)
{
	text_replace_controls(text, '?');
	if (!is_utf8(text, strlen(text)))
		make_ascii(text);
}

/* Returns the index of text in words, which have one blank between them, or -1. */
int find_word(const char *words, const char *text);

static inline bool is_one_of(const char *words, const char *text)
{
	return find_word(words, text) >= 0;
}

/* True if text consists of 1 to most letters, digits, dots, underscores and dashes. */
bool is_name(const char *text, size_t most);

/* True if both are NULL or the same text. */
static inline bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Writes len bytes as 2 * len hexadecimal digits and a NUL. */
void write_hex(char *out, const void *bytes, size_t len);

/* Prints text in lines of at most 80 columns, broken at blanks and indented to column. head precedes the first line, or
 * stands on a line of its own if it is too long. In text, a newline is a blank, and two end a paragraph. */
void text_wrap(FILE *out, const char *head, size_t column, const char *text);

/* Returns text as a JSON string, after make_ascii if it is not UTF-8. */
json_t *make_json(const char *text, size_t len);
static inline json_t *json_of_text(const char *text)
{
	return make_json(text, strlen(text));
}
/* Returns the same as JSON text, quotes included, on the heap. */
char *quote_json(const char *text, size_t len);

#endif
