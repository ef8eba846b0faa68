/* webhook_secret.c signs and verifies as in the Standard Webhooks specification: HMAC-SHA256 over the id, the timestamp
 * and the body, joined by dots. */
#include "config/webhook_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

#define SECRET_MARK  "whsec_"
#define SECRET_LEAST 24  /* bytes, by Standard Webhooks; the array in struct webhook_secret is the upper limit */
#define TOLERANCE_S  300 /* as in the specification's libraries */

bool webhook_secret_decode(struct webhook_secret *secret, const char *text, size_t len)
{
	unsigned char bytes[sizeof(secret->bytes) + 3];
	size_t mark = strlen(SECRET_MARK);
	int n;

	if (len <= mark || strncmp(text, SECRET_MARK, mark) != 0)
		return false;
	text += mark;
	len -= mark;
	if (len % 4 || len / 4 * 3 > sizeof(bytes))
		return false;
	n = base64_decode(bytes, text, len);
	if (n < SECRET_LEAST || n > (int)sizeof(secret->bytes))
		return false;
	memcpy(secret->bytes, bytes, (size_t)n);
	secret->len = (size_t)n;
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return true;
}

static void add(crypto_auth_hmacsha256_state *mac, const char *text, size_t len)
{
	crypto_auth_hmacsha256_update(mac, (const unsigned char *)text, len);
}

void webhook_secret_sign(char *out, const struct webhook_secret *secret, const struct webhook_signed *what)
{
	unsigned char digest[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state mac;

	crypto_auth_hmacsha256_init(&mac, secret->bytes, secret->len);
	add(&mac, what->id, strlen(what->id));
	add(&mac, ".", 1);
	add(&mac, what->timestamp, strlen(what->timestamp));
	add(&mac, ".", 1);
	add(&mac, what->body.at, what->body.len);
	crypto_auth_hmacsha256_final(&mac, digest);
	memcpy(out, "v1,", 3);
	EVP_EncodeBlock((unsigned char *)out + 3, digest, sizeof(digest));
}

/* Signatures of other schemes, such as v1a, have another beginning. */
bool webhook_secret_has_signed(const struct webhook_secret *secret, const struct webhook_signed *what,
			       const char *signatures)
{
	char own[WEBHOOK_SIGNATURE_SIZE];
	bool is_found = false;

	webhook_secret_sign(own, secret, what);
	for (const char *at = signatures; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		is_found |= len == sizeof(own) - 1 && CRYPTO_memcmp(at, own, len) == 0;
		at += len;
	}
	return is_found;
}

bool webhook_timestamp_is_fresh(const char *timestamp, int64_t now_s)
{
	size_t len = timestamp ? strspn(timestamp, "0123456789") : 0;
	int64_t time_s = len && len <= 12 && !timestamp[len] ? strtoll(timestamp, NULL, 10) : INT64_MIN / 2;

	return time_s >= now_s - TOLERANCE_S && time_s <= now_s + TOLERANCE_S;
}
