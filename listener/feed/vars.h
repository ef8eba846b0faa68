/* vars.h: the variables of a source: named JSON values that survive reconnects until they are cleared. */
#ifndef WSONCE_FEED_VARS_H
#define WSONCE_FEED_VARS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/slice.h"

#define VARS_BYTES_MAX (64 << 10) /* limit of a value that a source sets */

struct vars {
	struct variable *items;
	size_t count;
	const json_t *first; /* initial values, from the profile; `clear` restores them */
	const char *listed;  /* the one of them that came by HTTP; NULL: none */
};

/* first is an object that must outlive v, or NULL. */
void vars_init(struct vars *v, const json_t *first);
void vars_free(struct vars *v);

/* The value as JSON, or {NULL, 0} if it is not set. Valid until the variable changes. */
struct slice vars_get(const struct vars *v, const char *name, size_t len);
/* True if the variable still has its initial value, which did not come by HTTP. */
bool vars_is_first(const struct vars *v, const char *name, size_t len);
/* Copies value. Returns false and leaves the variable unchanged if value is too long. */
bool vars_set(struct vars *v, const char *name, struct slice value);
void vars_clear(struct vars *v, const char *name);

size_t vars_bytes(const struct vars *v);

/* Writes the variables that do not have their initial value as a JSON object. */
void vars_save(const struct vars *v, struct bytes *out);

#endif
