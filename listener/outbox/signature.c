/* signature.c makes the id and the signatures of a delivery. config/webhook_secret.c signs. */
#include "outbox/signature.h"

#include <sodium.h>
#include <string.h>

/* Hashes the name's NUL too, so that two pairs of name and id cannot give the same input. */
void signature_id(char *out, const char *target, const char *event_id, size_t len)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state state;

	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, (const unsigned char *)target, strlen(target) + 1);
	crypto_hash_sha256_update(&state, (const unsigned char *)event_id, len);
	crypto_hash_sha256_final(&state, digest);
	memcpy(out, "msg_", 4);
	sodium_bin2hex(out + 4, SIGNATURE_ID_SIZE - 4, digest, 16);
}

void signature_write(char *out, const struct webhook *webhook, const struct webhook_signed *what)
{
	*out = '\0';
	for (size_t i = 0; i < webhook->secret_count; i++) {
		if (i)
			*out++ = ' ';
		webhook_secret_sign(out, &webhook->secrets[i], what);
		out += WEBHOOK_SIGNATURE_SIZE - 1;
	}
}
