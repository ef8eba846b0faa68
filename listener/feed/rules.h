/* rules.h: a profile's rules, made ready: which of them a frame matches, which elements are in it, and what their ids
 * are. Nothing here remembers a frame. */
#ifndef WSONCE_FEED_RULES_H
#define WSONCE_FEED_RULES_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/slice.h"
#include "config/profile.h"
#include "feed/condition.h"
#include "feed/part.h"
#include "feed/pointers.h"

struct alternative {
	struct part *parts;
	size_t count;
};

struct capture {
	const char *name;
	struct part part;
};

struct rule {
	const struct profile_rule *profile;
	struct conditions when;
	struct conditions where;
	struct alternative *ids;
	size_t id_count;
	struct part type;
	struct part time;
	struct part payload;
	struct part cursor;
	struct part gap_key;
	struct part gap_seq;
	struct capture *captures;
	size_t capture_count;
	struct pointers *element; /* of the element; without explode the frame's own */
	int container;            /* the frame's slot of what explode begins with */
	struct json_step *steps;  /* of explode, from there on */
	int step_count;
};

struct rules {
	struct pointers *frame;
	struct rule *items; /* the last one is the fallback */
	size_t count;       /* without it */
};

struct rules *rules_new(const struct profile *p);
void rules_free(struct rules *r);

/* Reads a frame, which json_check has passed: the first rule that it matches, or the fallback. The slots of r->frame
 * are the frame's until the next call. */
const struct rule *rules_match(struct rules *r, struct slice frame);

/* Calls on_element for each element of the frame that was read last: of what explode names, else once, with the frame.
 * The slots of rule->element are the element's then. */
void rule_explode(const struct rules *r, const struct rule *rule, struct slice frame,
		  void (*on_element)(void *ctx, struct slice element, size_t index), void *ctx);

/* Writes the id into id: the first alternative of which no part is missing; its SHA-256 in hex if it has more than
 * most bytes. false: there is none. */
bool rule_id(const struct rule *rule, const struct place *at, size_t most, struct bytes *id);

#endif
