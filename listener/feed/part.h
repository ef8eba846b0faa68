/* part.h: a value that a profile refers to: /x of the element, ^/x of the frame, =text, $variable, @ (the index of the
 * element) or #/x (the SHA-256 of /x in canonical form). */
#ifndef WSONCE_FEED_PART_H
#define WSONCE_FEED_PART_H

#include <stddef.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/slice.h"
#include "base/json_pointers.h"
#include "feed/vars.h"

enum part_kind { PART_NONE, PART_ELEMENT, PART_FRAME, PART_LITERAL, PART_VARIABLE, PART_INDEX, PART_HASH };

struct part {
	enum part_kind kind;
	int slot;             /* -1: no slot, so searched for when used */
	const char *text;     /* pointer or name, owned by the profile */
	struct bytes literal; /* the text as JSON */
};

/* Where the values of parts come from. */
struct place {
	struct slice frame;
	struct slice element;
	size_t index;
	const struct slice *frame_slots;
	const struct slice *element_slots;
	const struct vars *vars;
	struct arena *arena; /* for decoded or computed values */
};

/* Compiles a part; text NULL means none. Adds its pointer to element or frame, which may be NULL. */
void part_compile(struct part *p, const char *text, struct json_pointers *element, struct json_pointers *frame);
void part_free(struct part *p);

/* Returns the text of a compiled part as the profile has it. */
const char *part_name(const struct part *p);

/* Returns the value as JSON. at is NULL if the value is missing, or nested too deeply to hash. */
struct slice part_value(const struct part *p, const struct place *at);
/* Returns the text of a value that can be part of an id, a type or a time: a string, an integer, true or false.
 * {NULL, 0} for any other value and for "". */
struct slice part_text(struct slice value, struct arena *a);

#endif
