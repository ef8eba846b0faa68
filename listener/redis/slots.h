/* slots.h: the slots of keys in a cluster. */
#ifndef WSONCE_REDIS_SLOTS_H
#define WSONCE_REDIS_SLOTS_H

#include <stddef.h>

#define SLOTS 16384

/* Returns the slot of a key, or of the text in its first braces unless that is empty (Redis Cluster Specification,
 * "Hash tags"). */
unsigned int slot_of_key(const char *key, size_t len);

/* Returns the slot of the first key in a formatted command, or -1 if it names none. */
int slot_of_command(const char *bytes, size_t len);

#endif
