/* keyed.h: the hash of this process's tables whose keys strangers choose. */
#ifndef WSONCE_KEYED_H
#define WSONCE_KEYED_H

#include <stddef.h>
#include <stdint.h>

/* SipHash under a key that this process has drawn: nobody else can find texts that have the same. */
uint32_t keyed_hash(const void *bytes, size_t len);

#endif
