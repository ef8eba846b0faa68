/* keyed.h: the hash for tables whose keys come from outside. */
#ifndef WSONCE_KEYED_H
#define WSONCE_KEYED_H

#include <stddef.h>
#include <stdint.h>

/* SipHash with a random key of this process, so that nobody else can construct colliding keys. */
uint32_t keyed_hash(const void *bytes, size_t len);
#define HASH_FUNCTION(key, len, hash) ((hash) = keyed_hash(key, len)) /* of uthash.h, if it is included after this */

#endif
