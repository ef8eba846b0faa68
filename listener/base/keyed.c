/* keyed.c holds the key for hashing ids. uthash's own hash has no key: 60,000 ids made to collide formed one chain,
 * which each new id had to walk. hash.h has the hashes on which a fleet must agree. */
#include "base/keyed.h"

#include <sodium.h>
#include <stdbool.h>

uint32_t keyed_hash(const void *bytes, size_t len)
{
	static unsigned char key[crypto_shorthash_KEYBYTES];
	static bool is_drawn;
	uint64_t hash;

	if (!is_drawn)
		crypto_shorthash_keygen(key);
	is_drawn = true;
	crypto_shorthash((unsigned char *)&hash, bytes, len, key);
	return (uint32_t)hash;
}
