/* slots.h: where in a cluster a key lies. */
#ifndef WSONCE_REDIS_SLOTS_H
#define WSONCE_REDIS_SLOTS_H

#include <stddef.h>

#define SLOTS     16384
#define SLOT_TAGS 64

/* The slot of a key, or of what stands in its first braces, if there is anything (Redis Cluster Specification, "Hash
 * tags"). */
unsigned int slot_of_key(const char *key, size_t len);

/* The slot of the first key that a formatted command names; -1 if it names none. */
int slot_of_command(const char *bytes, size_t len);

/* One of SLOT_TAGS texts in braces, whose slots lie evenly, the same in each process. */
const char *slot_tag(unsigned int tag);

#endif
