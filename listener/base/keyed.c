/* keyed.c owns the key of the hash of ids. uthash's own hash has none: 60,000 ids that were made for it were one
 * chain, and each further one a walk along all of it. What a fleet must agree on is hashed by hash.h. */
#include "base/keyed.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

uint32_t keyed_hash(const void *bytes, size_t len)
{
	static unsigned char key[crypto_shorthash_KEYBYTES];
	static bool is_drawn;
	unsigned char hash[crypto_shorthash_BYTES];
	uint32_t low;

	if (!is_drawn)
		crypto_shorthash_keygen(key);
	is_drawn = true;
	crypto_shorthash(hash, bytes, len, key);
	memcpy(&low, hash, sizeof(low));
	return low;
}
