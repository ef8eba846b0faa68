/* keyed.h: the hash for tables whose keys come from outside. */
#ifndef WSONCE_KEYED_H
#define WSONCE_KEYED_H

#include <stddef.h>
#include <stdint.h>

/* SipHash with a random key of this process, so that nobody else can construct colliding keys. */
uint32_t keyed_hash(const void *bytes, size_t len);

#endif
