/* vars.h: the variables of a source: JSON values by name. They survive reconnects until they are cleared. */
#ifndef WSONCE_FEED_VARS_H
#define WSONCE_FEED_VARS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/slice.h"

#define VARS_BYTES_MAX (64 << 10) /* of one value: what a source can make us keep */

struct vars {
	struct variable *items;
	size_t count;
	const json_t *first; /* the profile's values, to which a cleared variable returns */
};

/* first: an object that lives as long; or NULL. */
void vars_init(struct vars *v, const json_t *first);
void vars_free(struct vars *v);

/* The value as JSON; {NULL, 0}: not set. Lives until the variable changes. */
struct slice vars_get(const struct vars *v, const char *name, size_t len);
/* Is it the profile's own value, which nothing that the feed sent has replaced? */
bool vars_is_first(const struct vars *v, const char *name, size_t len);
/* Copies value. false: it is too long, and the variable is as it was. */
bool vars_set(struct vars *v, const char *name, struct slice value);
void vars_clear(struct vars *v, const char *name);

/* Bytes of memory. */
size_t vars_bytes(const struct vars *v);

/* Writes those that are not the profile's own as a JSON object. */
void vars_save(const struct vars *v, struct bytes *out);

#endif
