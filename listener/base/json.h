/* json.h: JSON read where it lies, without a tree. All functions but json_check take values of a text that it has
 * passed, as the slices that they are in it. */
#ifndef WSONCE_JSON_H
#define WSONCE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/slice.h"

#define JSON_DEPTH_MAX 2048 /* arrays and objects inside each other, as in jansson */
#define JSON_STEPS_MAX 16   /* of a pointer */

enum json_kind {
	KIND_MISSING, /* a slice whose at is NULL */
	KIND_NULL,
	KIND_FALSE,
	KIND_TRUE,
	KIND_INTEGER, /* without a point or an exponent: 1.0 is a real */
	KIND_REAL,
	KIND_STRING,
	KIND_ARRAY,
	KIND_OBJECT,
};

/* Is it one JSON value in UTF-8, with nothing but blanks around it? NULL: yes, and value is without the blanks; else
 * one sentence that lives until the next call. */
const char *json_check(const char *text, size_t len, struct slice *value);

enum json_kind json_kind(struct slice value);

/* Where the value that begins at `at` ends. */
const char *json_skip(const char *at, const char *end);
/* Where the string that begins at `at` ends, and whether it holds a backslash. */
const char *json_skip_string(const char *at, bool *has_escape);
/* The next byte that is no blank, comma or colon. */
const char *json_next(const char *at, const char *end);

/* One step of a JSON pointer, decoded. index: the step as the index of an array, -1 if it is none. */
struct json_step {
	char *name;
	size_t len;
	long index;
};

/* The steps of a pointer (RFC 6901) into an array of most; returns how many, or -1 if it is not one, or has more. The
 * names are on the heap. */
int json_steps(const char *pointer, struct json_step *steps, int most);
void json_steps_free(struct json_step *steps, int count);

/* The member or element that a step names; of members of the same name the last. at is NULL if there is none. */
struct slice json_child(struct slice value, const struct json_step *step);
/* What is at a pointer of at most JSON_STEPS_MAX steps; the same. */
struct slice json_find(struct slice document, const char *pointer);

/* Is the name, as it stands between its quotes, this one? */
bool json_is_name(struct slice raw, bool has_escape, const char *name, size_t len);

/* A string without quotes and escapes: a part of the text, or in memory of a. Half of a surrogate pair becomes the
 * three bytes that UTF-8 would have for it, which no valid text holds. */
struct slice json_text(struct slice string, struct arena *a);
/* Does a text hold half of a surrogate pair as an escape? */
bool json_has_half_pair(const char *text, size_t len);

/* An integer of up to 38 digits. */
bool json_to_integer(struct slice value, __int128 *number);
double json_to_real(struct slice value);

/* Walks an array or the members of an object:
 *     struct json_walk w = json_walk(value); while (json_walk_next(&w)) use(w.value); */
struct json_walk {
	const char *at;
	const char *end;
	bool is_object;
	bool has_escape;   /* in the name */
	struct slice name; /* of the member, between its quotes */
	struct slice value;
};

struct json_walk json_walk(struct slice v);
bool json_walk_next(struct json_walk *w);

#endif
