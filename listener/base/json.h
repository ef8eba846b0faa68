/* json.h: reads JSON in place, without a tree. json_check validates a text. All other functions take values as slices
 * of a text that json_check has accepted. */
#ifndef WSONCE_JSON_H
#define WSONCE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/slice.h"

#define JSON_DEPTH_MAX 2048 /* nested arrays and objects, as in jansson */
#define JSON_STEPS_MAX 16   /* most steps of a JSON pointer */

enum json_kind {
	KIND_MISSING, /* the slice's at is NULL */
	KIND_NULL,
	KIND_FALSE,
	KIND_TRUE,
	KIND_INTEGER, /* no point and no exponent: 1.0 is a real */
	KIND_REAL,
	KIND_STRING,
	KIND_ARRAY,
	KIND_OBJECT,
};

/* Checks that text is one JSON value in UTF-8 with only blanks around it. Returns NULL, and value without the blanks;
 * or an error, one sentence that stays valid until the next call. */
const char *json_check(const char *text, size_t len, struct slice *value);
/* Skips blanks in any text. Returns the first other byte, or end. */
const char *json_skip_blanks(const char *at, const char *end);

enum json_kind json_kind(struct slice value);

/* Returns the end of the value that begins at `at`. */
const char *json_skip(const char *at, const char *end);
/* Returns the end of the string that begins at `at`. *has_escape says whether it contains a backslash. */
const char *json_skip_string(const char *at, bool *has_escape);
/* Returns the next byte that is not a blank, a comma or a colon. */
const char *json_next(const char *at, const char *end);

/* One step of a JSON pointer, decoded. index is the step as an array index, or -1 if it is not one. */
struct json_step {
	char *name;
	size_t len;
	long index;
};

/* Splits a JSON pointer (RFC 6901) into steps. Returns how many, or -1 if it is malformed or has more than most.
 * json_steps_free frees the names. */
int json_steps(const char *pointer, struct json_step *steps, int most);
void json_steps_free(struct json_step *steps, int count);

/* Returns the member or element that a step names, the last if names repeat. at is NULL if absent. */
struct slice json_child(struct slice value, const struct json_step *step);
/* Returns the value at a pointer of at most JSON_STEPS_MAX steps. at is NULL if absent. */
struct slice json_find(struct slice document, const char *pointer);

/* True if a member has this name. raw is what stands between the quotes of the member's name. */
bool json_is_name(struct slice raw, bool has_escape, const char *name, size_t len);

/* Returns a string without quotes and escapes: a part of the text, or memory from a. An unpaired surrogate becomes the
 * three bytes that UTF-8 would use for it, which no valid text contains. */
struct slice json_text(struct slice string, struct arena *a);
/* True if a text contains an unpaired surrogate as an escape. */
bool json_has_half_pair(const char *text, size_t len);

/* Reads an integer of up to 38 digits. Returns false if v is anything else. */
bool json_to_integer(struct slice value, __int128 *number);
double json_to_real(struct slice value);
/* Reads the exponent of a number, if *at is at its e, and moves *at past it. An exponent beyond most is read as most or
 * a little more. Returns 0 without an exponent. */
long json_read_exponent(const char **at, const char *end, long most);

/* Walks an array or the members of an object:
 *     struct json_walk w = json_walk(value); while (json_walk_next(&w)) use(w.value); */
struct json_walk {
	const char *at;
	const char *end;
	bool is_object;
	bool has_escape;   /* in the name */
	struct slice name; /* name of the member, between its quotes */
	struct slice value;
};

struct json_walk json_walk(struct slice v);
bool json_walk_next(struct json_walk *w);

#endif
