/* condition.h: matches a document against a profile's `when`, `where` or `hold_until`. */
#ifndef WSONCE_FEED_CONDITION_H
#define WSONCE_FEED_CONDITION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "base/json_pointers.h"

/* Pointers, each with the condition that its value must meet. */
struct conditions {
	struct condition *items;
	size_t count; /* 0: always true */
};

/* object is validated by the profile's reader and must outlive c. NULL means no condition. */
void conditions_compile(struct conditions *c, const json_t *object, struct json_pointers *pointers);
void conditions_free(struct conditions *c);

/* Tests the values that these pointers read last. */
bool conditions_hold(const struct conditions *c, const struct slice *slots);

#endif
