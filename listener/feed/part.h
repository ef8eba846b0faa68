/* part.h: one value of an event, as a profile names it: /x of the element, ^/x of the frame, =text, $variable, @ (the
 * index of the element) or #/x (the SHA-256 of it in canonical form). */
#ifndef WSONCE_FEED_PART_H
#define WSONCE_FEED_PART_H

#include <stddef.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/slice.h"
#include "feed/pointers.h"
#include "feed/vars.h"

enum part_kind { PART_NONE, PART_ELEMENT, PART_FRAME, PART_LITERAL, PART_VARIABLE, PART_INDEX, PART_HASH };

struct part {
	enum part_kind kind;
	int slot;             /* -1: looked for when it is asked for */
	const char *text;     /* the pointer or the name; the profile's */
	struct bytes literal; /* as JSON */
};

/* Where parts are looked for. */
struct place {
	struct slice frame;
	struct slice element;
	size_t index;
	const struct slice *frame_slots;
	const struct slice *element_slots;
	const struct vars *vars;
	struct arena *arena; /* for what has to be decoded or computed */
};

/* text: NULL: no part. element and frame: where its pointers are added, NULL: nowhere. */
void part_compile(struct part *p, const char *text, struct pointers *element, struct pointers *frame);
void part_free(struct part *p);

/* The value as JSON; at is NULL if it is missing, or nested too deeply for a hash. */
struct slice part_value(const struct part *p, const struct place *at);
/* The text of a value that may be a part of an id, a type or a time: a string, an integer, true or false; {NULL, 0} of
 * all others, and of "". */
struct slice part_text(struct slice value, struct arena *a);

#endif
