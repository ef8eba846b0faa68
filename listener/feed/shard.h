/* shard.h: divides the list of a profile with `shard` among its connections. Its only I/O is to read the list's file.
 */
#ifndef WSONCE_FEED_SHARD_H
#define WSONCE_FEED_SHARD_H

#include "base/slice.h"
#include "config/profile.h"

#define SHARD_REASON 300

/* Divides a list among as few connections as p allows, and returns a new array with the items of each, in an array. The
 * list is a JSON array of texts and numbers, or text with one item a line, but no object or HTML, as an error may be. A
 * byte order mark, blanks around items, blank items and repeated items are ignored. The result depends on the items
 * alone and not on their order, so all listeners divide a list in the same way; if some items change, few others move.
 * Returns NULL after writing why if list is not a list, is empty, or needs too many connections. */
json_t *shard_cut(const struct profile *p, struct slice list, char why[SHARD_REASON]);

/* The same with the list in p's variable, or in the file that it names. Returns NULL with an empty reason if the list
 * comes by HTTP. */
json_t *shard_load(const struct profile *p, char why[SHARD_REASON]);

/* Returns a new array of the items that are not in others. */
json_t *shard_without(const json_t *items, const json_t *others);

/* Returns the profile of one of p's connections, from 1: p's, but with the name NAME/number, and without items. p must
 * outlive it. */
struct profile *shard_profile(const struct profile *p, size_t number);
/* Sets its items and keeps a reference to them; NULL: none. */
void shard_set(struct profile *shard, json_t *items);
const json_t *shard_items(const struct profile *shard);
/* shard may be NULL. */
void shard_free(struct profile *shard);

#endif
