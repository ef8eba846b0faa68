/* condition.h: matches a document against the `when`, `where` or `hold_until` of a profile, or the `when` of a webhook.
 */
#ifndef WSONCE_CONDITION_H
#define WSONCE_CONDITION_H

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

/* object has been accepted by profile_check_conditions() and must outlive c. NULL means no condition. */
void conditions_compile(struct conditions *c, const json_t *object, struct json_pointers *pointers);
void conditions_free(struct conditions *c);

/* Tests the values that these pointers read last. */
bool conditions_hold(const struct conditions *c, const struct slice *slots);

#endif
