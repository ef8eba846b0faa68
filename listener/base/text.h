/* text.h: is this text valid UTF-8, and what to show of it if it is not. */
#ifndef WSONCE_TEXT_H
#define WSONCE_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistr.h>

/* By RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Most messages are ASCII to
 * the last byte, so that is skipped eight bytes at a time, and libunistring sees only the rest. */
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

/* For where only UTF-8 will do and what came is not: each byte beyond ASCII becomes a question mark. */
static inline void make_ascii(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			*text = '?';
}

/* Words of a peer, for a line of the log: control characters become question marks, and so does each byte beyond ASCII
 * if the text is not UTF-8, as where it was cut. */
static inline void make_line(char *text)
{
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	if (!is_utf8(text, strlen(text)))
		make_ascii(text);
}

/* Text as a JSON string, of what make_ascii leaves of it if it is not UTF-8. */
json_t *make_json(const char *text, size_t len);
/* The same as the text of JSON, quotes included, on the heap. */
char *quote_json(const char *text, size_t len);

#endif
