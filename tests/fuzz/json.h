/* json.h: a second opinion on JSON (RFC 8259) and JSON pointers (RFC 6901), which shares nothing with
 * the listener's: it goes through the text again for each question, and builds nothing. */
#ifndef FUZZ_JSON_H
#define FUZZ_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* A part of the text. */
struct span {
	const char *at;
	size_t len;
};

/* What a text is, and what is in it that JSON allows and parsers may not. */
struct json_facts {
	bool is_json;
	bool has_half_pair;   /* a \u escape of half a surrogate pair, in a string or a name */
	bool has_nul_in_name; /* \u0000 */
	bool has_huge_number; /* beyond a double's range */
	int containers;       /* arrays and objects inside each other */
	int values;           /* the same, the innermost scalar counted */
};

struct json_facts oracle_examine(const char *text, size_t len);

enum json_found {
	JSON_FOUND,
	JSON_ABSENT,
	JSON_TWICE, /* a member on the way has its name twice */
};

/* The value at pointer in text, which is JSON. */
enum json_found oracle_find(struct span text, const char *pointer, struct span *value);

/* Decodes a string or a name, quotes included; NULL if it holds half a surrogate pair. */
char *oracle_decode(struct span quoted, size_t *len);

/* Is key what the reference token (n bytes, escaped) of a pointer names? */
bool oracle_is_step(const char *token, size_t n, const char *key, size_t key_len);

#endif
