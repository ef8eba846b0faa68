/* rules.h: a profile's compiled rules: which rule a frame matches, its elements, and their ids. Keeps nothing from
 * frame to frame. */
#ifndef WSONCE_FEED_RULES_H
#define WSONCE_FEED_RULES_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/slice.h"
#include "config/profile.h"
#include "base/condition.h"
#include "feed/part.h"
#include "base/json_pointers.h"

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
	const struct part **shared; /* parts of the frame and variables */
	size_t shared_count;
	struct json_pointers *element; /* into the element, or without explode into the frame */
	int container;                 /* frame slot of the value above the first * of explode */
	struct json_step *steps;       /* steps of explode, from its first * on */
	int step_count;
};

struct rules {
	struct json_pointers *frame;
	struct rule *items; /* rules for JSON, then the fallback, then rules for texts */
	size_t count;       /* number of rules for JSON */
	size_t text_count;
};

struct rules *rules_new(const struct profile *p);
void rules_free(struct rules *r);

/* Reads a frame that json_check has accepted. Returns the first rule that it matches, or the fallback. r->frame holds
 * the frame's slots until the next call. */
const struct rule *rules_match(struct rules *r, struct slice frame);

/* Returns the first rule whose `text` is this message, or NULL. */
const struct rule *rules_match_text(const struct rules *r, struct slice message);

/* Calls on_element for each element of the last frame: those that explode names, or the frame itself. rule->element
 * holds the element's slots during the call. Returns false if there is nothing where explode looks first, or neither an
 * array nor null for its *. */
bool rule_explode(const struct rules *r, const struct rule *rule, struct slice frame,
		  void (*on_element)(void *ctx, struct slice element, size_t index), void *ctx);

/* Returns how many bytes the event of each element takes from the frame and from variables, so that all events repeat
 * them. */
size_t rule_shared(const struct rule *rule, const struct place *at);

/* Sets id to the first alternative without a missing part, or to its SHA-256 in hex if it is longer than `most` bytes.
 * If every alternative lacks a part, returns false and sets why to the reason. */
bool rule_id(const struct rule *rule, const struct place *at, size_t most, struct bytes *id, struct bytes *why);

#endif
