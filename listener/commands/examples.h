/* examples.h: what `wsonce try` shows of a feed: one whole event of each rule, and why messages were rejected. */
#ifndef WSONCE_EXAMPLES_H
#define WSONCE_EXAMPLES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "feed/session.h"

/* Begins as profile and zeros. Both lists are JSON objects, one a line. */
struct examples {
	const struct profile *profile;
	bool has_event[PROFILE_RULES_MAX + 1]; /* of each rule, by profile_rule_index */
	struct bytes events;
	struct bytes rejected; /* the first few, each with another reason */
	size_t rejected_count;
};

void examples_add(struct examples *e, const struct session_event *event);
void examples_reject(struct examples *e, struct slice message, const char *why);

/* Returns a list as a JSON array, and ends its use by lines. */
struct slice examples_array(struct bytes *list);
void examples_free(struct examples *e);

#endif
