/* profile_reader.h: for config/profile*.c only: the reader's position, its errors, and the checks of pointers, parts,
 * conditions and templates. */
#ifndef WSONCE_PROFILE_READER_H
#define WSONCE_PROFILE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/nearest.h"
#include "config/profile.h"

#define PATH_MAX_STEPS 24

struct profile_reader {
	struct profile_origin own;   /* origin of the profile */
	struct profile_origin given; /* origin of the overrides */
	const json_t *overrides;     /* NULL if there are none */
	const char *name;            /* default name of the profile; must outlive it */
	struct profile_fault *fault;
	struct profile_fault doubt; /* the first one; "" if none */
	struct {
		const char *name; /* NULL if an index */
		size_t index;
	} path[PATH_MAX_STEPS]; /* path to the current value */
	size_t depth;
	json_t *variables; /* object whose names are the variables that $x and ${x} may use */
};

/* Replaces members of root with r->overrides. Returns 0, or -1 after profile_fail. */
int profile_override(struct profile_reader *r, json_t *root);
/* Takes ownership of root. Returns NULL after filling r->fault. */
struct profile *profile_from_json(json_t *root, struct profile_reader *r);

/* Fills r->fault: source, line, path and sentence. Returns -1. */
int profile_fail(struct profile_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Records a doubt in the same form. Returns 0. */
int profile_doubt(struct profile_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fills fault without a path. Returns -1. */
int profile_fail_at(struct profile_fault *fault, const char *source, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Returns the origin of the value at r's path: the profile, or the overrides. */
const struct profile_origin *profile_find_origin(const struct profile_reader *r);

/* Called for an element of an array (name is NULL) or a member of an object, with r's path at it. Returns 0 or -1. */
typedef int(profile_each_fn)(struct profile_reader *r, const char *name, const json_t *item, void *arg);
/* Calls each for all elements or members of value, until it returns nonzero. Returns 0 or -1. */
int profile_each(struct profile_reader *r, const json_t *value, profile_each_fn *each, void *arg);

/* Moves r's path to a member, or to an element if name is NULL; and back. */
void profile_enter(struct profile_reader *r, const char *name, size_t index);
void profile_leave(struct profile_reader *r);

/* Begins a search for the name nearest to a misspelled one. */
struct nearest profile_nearest(const char *word);
/* Returns "; did you mean \"X\"?", or "" if no name is near enough. Valid until the next call. */
const char *profile_meant(const struct nearest *n);
/* The same, for the names in an object. */
const char *profile_meant_member(const json_t *object, const char *word);

/* Returns a new object whose names are the variables that a profile can set. */
json_t *profile_collect_variables(const json_t *root);

bool profile_is_pointer(const char *text);
/* True if text is a token (RFC 9110, section 5.6.2), such as the name of a header. */
bool profile_is_token(const char *text);
/* Returns the first step * of a JSON pointer, beginning with its slash, or NULL. */
const char *profile_find_star(const char *pointer);

/* Each returns 0, or -1 after profile_fail. */
int profile_check_steps(struct profile_reader *r, const char *pointer);
/* The same, but a step * is a doubt. */
int profile_check_pointer(struct profile_reader *r, const char *pointer);
int profile_check_part(struct profile_reader *r, const char *part);
int profile_check_conditions(struct profile_reader *r, const json_t *when);
/* has_frame: ${/pointer} is allowed. */
int profile_check_template(struct profile_reader *r, const json_t *t, bool has_frame);
int profile_check_template_text(struct profile_reader *r, const char *text, bool has_frame);
int profile_check_variable(struct profile_reader *r, const char *name, size_t len);

#endif
