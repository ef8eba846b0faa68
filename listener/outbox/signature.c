/* signature.c makes the id and the signature of a delivery as in the Standard Webhooks specification
 * (standardwebhooks.com): HMAC-SHA256 over the id, the timestamp and the body, joined by dots. */
#include "outbox/signature.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
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

static void add_text(crypto_auth_hmacsha256_state *mac, const char *text, size_t len)
{
	crypto_auth_hmacsha256_update(mac, (const unsigned char *)text, len);
}

static void sign(unsigned char *digest, const struct webhook_secret *secret, const char *id, const char *timestamp,
		 const char *body, size_t len)
{
	crypto_auth_hmacsha256_state mac;

	crypto_auth_hmacsha256_init(&mac, secret->bytes, secret->len);
	add_text(&mac, id, strlen(id));
	add_text(&mac, ".", 1);
	add_text(&mac, timestamp, strlen(timestamp));
	add_text(&mac, ".", 1);
	add_text(&mac, body, len);
	crypto_auth_hmacsha256_final(&mac, digest);
}

void signature_write(char *out, const struct webhook *webhook, const char *id, const char *timestamp, const char *body,
		     size_t len)
{
	unsigned char digest[crypto_auth_hmacsha256_BYTES];

	*out = '\0';
	for (size_t i = 0; i < webhook->secret_count; i++) {
		sign(digest, &webhook->secrets[i], id, timestamp, body, len);
		out += sprintf(out, "%sv1,", i ? " " : "");
		out += EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
	}
}
