/* id_hash.h: the hash of an event's id, the same in the whole fleet. */
#ifndef WSONCE_ID_HASH_H
#define WSONCE_ID_HASH_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SipHash-128. Without the key nobody can construct an id with a given hash, or ids with equal hashes. */
struct id_hash {
	uint64_t half[2];
};

struct id_hash_key {
	unsigned char bytes[crypto_shorthash_siphashx24_KEYBYTES];
};

static inline struct id_hash id_hash_of(const struct id_hash_key *key, const char *id, size_t len)
{
	struct id_hash hash;

	crypto_shorthash_siphashx24((unsigned char *)&hash, (const unsigned char *)id, len, key->bytes);
	return hash;
}

static inline bool id_hash_is_equal(const struct id_hash *a, const struct id_hash *b)
{
	return a->half[0] == b->half[0] && a->half[1] == b->half[1];
}

#endif
