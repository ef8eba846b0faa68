/* seal.c owns the seal of a mark: a keyed hash (BLAKE2b) of the key in Redis and of the mark. Who can write to Redis
 * but does not know the key can repeat a mark at its own place, and make none up. */
#include "road/seal.h"

#include <endian.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>

#define SEAL_BYTES 16

void seal_key_make(struct seal_key *key, const char *text)
{
	crypto_generichash(key->bytes, sizeof(key->bytes), (const unsigned char *)text, strlen(text), NULL, 0);
}

/* The prefix is the same for all, and the lengths say where the id ends. */
static void hash(const struct seal_key *key, const struct seal_place *place, const char *mark, size_t len,
		 unsigned char *out)
{
	const uint32_t lengths[2] = {htole32((uint32_t)place->prefix_len), htole32((uint32_t)place->id_len)};
	crypto_generichash_state state;

	crypto_generichash_init(&state, key->bytes, sizeof(key->bytes), SEAL_BYTES);
	crypto_generichash_update(&state, (const unsigned char *)lengths, sizeof(lengths));
	crypto_generichash_update(&state, (const unsigned char *)place->prefix, place->prefix_len);
	crypto_generichash_update(&state, (const unsigned char *)place->id, place->id_len);
	crypto_generichash_update(&state, (const unsigned char *)mark, len);
	crypto_generichash_final(&state, out, SEAL_BYTES);
}

static void write_seal(const struct seal_key *key, const struct seal_place *place, const char *mark, size_t len,
		       char *out)
{
	unsigned char bytes[SEAL_BYTES];
	char hex[2 * SEAL_BYTES + 1];

	hash(key, place, mark, len, bytes);
	sodium_bin2hex(hex, sizeof(hex), bytes, sizeof(bytes));
	*out = '/';
	memcpy(out + 1, hex, SEAL_LEN - 1);
}

size_t seal_put(const struct seal_key *key, const struct seal_place *place, char *text, size_t len)
{
	write_seal(key, place, text, len, text + len);
	return len + SEAL_LEN;
}

bool seal_is_right(const struct seal_key *key, const struct seal_place *place, const char *value, size_t len)
{
	char expected[SEAL_LEN];

	if (len < SEAL_LEN)
		return false;
	write_seal(key, place, value, len - SEAL_LEN, expected);
	return sodium_memcmp(expected, value + len - SEAL_LEN, SEAL_LEN) == 0;
}
