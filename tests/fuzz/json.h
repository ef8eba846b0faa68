/* json.h: jansson as the second reader of JSON, and where in a text the value at a JSON pointer (RFC 6901) is. */
#ifndef FUZZ_JSON_H
#define FUZZ_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A part of the text. */
struct span {
	const char *at;
	size_t len;
};

enum json_is {
	JSON_IS,
	JSON_IS_NOT,
	JSON_UNKNOWN, /* beyond a limit of jansson: its depth, or an integer beyond a double */
};

/* The tree of the text, or NULL if jansson refuses it; *is says whether RFC 8259 allows the text. */
json_t *oracle_load(struct span text, enum json_is *is);

/* Returns how deep arrays and objects are nested. The text need not be JSON. */
int oracle_depth(struct span text);

enum json_found {
	JSON_FOUND,
	JSON_ABSENT,
	JSON_TWICE, /* a member on the way occurs twice */
};

/* The value at pointer in text, which is JSON. */
enum json_found oracle_find(struct span text, const char *pointer, struct span *value);

/* Decodes a string or a name with its quotes; NULL if it contains an unpaired surrogate. */
char *oracle_decode(struct span quoted, size_t *len);

/* True if the reference token (n bytes, escaped) of a pointer names key. */
bool oracle_is_step(const char *token, size_t n, const char *key, size_t key_len);

#endif
