/* condition.h: does a document say what a profile's `when`, `where` or `hold_until` asks for? */
#ifndef WSONCE_FEED_CONDITION_H
#define WSONCE_FEED_CONDITION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "feed/pointers.h"

/* An object of pointers and what must be there. */
struct conditions {
	struct condition *items;
	size_t count; /* 0: always true */
};

/* object: checked by the profile's reader, and living as long; NULL: no condition. */
void conditions_compile(struct conditions *c, const json_t *object, struct pointers *pointers);
void conditions_free(struct conditions *c);

/* Of what was read last by those pointers. */
bool conditions_hold(const struct conditions *c, const struct slice *slots);

#endif
