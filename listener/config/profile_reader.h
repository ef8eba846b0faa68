/* profile_reader.h: what the files that read a profile share: where the reader is, how it complains, and the checks of
 * the language's small forms. For config/profile*.c alone. */
#ifndef WSONCE_PROFILE_READER_H
#define WSONCE_PROFILE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/profile.h"

#define PATH_MAX_STEPS 24

struct profile_reader {
	struct profile_origin own;   /* of the profile */
	struct profile_origin given; /* of what replaces its members */
	const json_t *overrides;     /* that; NULL: nothing does */
	const char *name;            /* of a profile that does not say its own; it lives as long as the profile */
	struct profile_fault *fault;
	struct profile_fault doubt; /* the first; "": none */
	struct {
		const char *name; /* NULL: index */
		size_t index;
	} path[PATH_MAX_STEPS]; /* to the value at hand */
	size_t depth;
	json_t *variables; /* an object whose names are those that $x and ${x} may have */
};

/* Puts r->overrides in place of root's members. Returns 0, or -1 after profile_fail. */
int profile_override(struct profile_reader *r, json_t *root);
/* Takes root over. NULL after filling r->fault. */
struct profile *profile_from_json(json_t *root, struct profile_reader *r);

/* Writes the fault: source, line, path, and the sentence. Returns -1. */
int profile_fail(struct profile_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of what is only doubtful: it is kept, and 0 returned. */
int profile_doubt(struct profile_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of what cannot be told by the path. */
int profile_fail_at(struct profile_fault *fault, const char *source, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

void profile_enter(struct profile_reader *r, const char *name, size_t index);
void profile_leave(struct profile_reader *r);

/* The word most like this one, or NULL if none is. next(ctx, i): the i-th candidate, NULL at the end. */
const char *profile_nearest(const char *word, const char *(*next)(const void *ctx, size_t i), const void *ctx);

/* All variables that a profile can ever set. A new reference. */
json_t *profile_collect_variables(const json_t *root);

/* Each returns 0, or -1 after profile_fail. */
int profile_check_pointer(struct profile_reader *r, const char *pointer);
int profile_check_part(struct profile_reader *r, const char *part);
int profile_check_conditions(struct profile_reader *r, const json_t *when);
/* has_frame: may it have ${/pointer}? */
int profile_check_template(struct profile_reader *r, const json_t *t, bool has_frame);
int profile_check_template_text(struct profile_reader *r, const char *text, bool has_frame);
int profile_check_variable(struct profile_reader *r, const char *name, size_t len);

#endif
