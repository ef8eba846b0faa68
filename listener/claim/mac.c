/* mac.c computes and checks the MAC of a mark: keyed BLAKE2b over the Redis key and the mark. Someone who can write to
 * Redis but does not have the secret key can restore an old mark under the same Redis key, but not forge one. */
#include "claim/mac.h"

#include <endian.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>

#define MAC_BYTES 16

void mac_key_make(struct mac_key *key, const char *text)
{
	crypto_generichash(key->bytes, sizeof(key->bytes), (const unsigned char *)text, strlen(text), NULL, 0);
}

/* Includes the lengths, so that the prefix, the id and the mark cannot run into each other. */
static void hash(const struct mac_key *key, const struct mac_place *place, const char *mark, size_t len,
		 unsigned char *out)
{
	const uint32_t lengths[2] = {htole32((uint32_t)place->prefix_len), htole32((uint32_t)place->id_len)};
	crypto_generichash_state state;

	crypto_generichash_init(&state, key->bytes, sizeof(key->bytes), MAC_BYTES);
	crypto_generichash_update(&state, (const unsigned char *)lengths, sizeof(lengths));
	crypto_generichash_update(&state, (const unsigned char *)place->prefix, place->prefix_len);
	crypto_generichash_update(&state, (const unsigned char *)place->id, place->id_len);
	crypto_generichash_update(&state, (const unsigned char *)mark, len);
	crypto_generichash_final(&state, out, MAC_BYTES);
}

static void write_mac(const struct mac_key *key, const struct mac_place *place, const char *mark, size_t len, char *out)
{
	unsigned char bytes[MAC_BYTES];
	char hex[2 * MAC_BYTES + 1];

	hash(key, place, mark, len, bytes);
	sodium_bin2hex(hex, sizeof(hex), bytes, sizeof(bytes));
	*out = '/';
	memcpy(out + 1, hex, MAC_LEN - 1);
}

size_t mac_append(const struct mac_key *key, const struct mac_place *place, char *text, size_t len)
{
	write_mac(key, place, text, len, text + len);
	return len + MAC_LEN;
}

bool mac_is_right(const struct mac_key *key, const struct mac_place *place, const char *value, size_t len)
{
	char expected[MAC_LEN];

	if (len < MAC_LEN)
		return false;
	write_mac(key, place, value, len - MAC_LEN, expected);
	return sodium_memcmp(expected, value + len - MAC_LEN, MAC_LEN) == 0;
}
