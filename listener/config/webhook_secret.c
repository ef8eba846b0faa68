/* webhook_secret.c signs and verifies as in the Standard Webhooks specification: HMAC-SHA256 over the id, the timestamp
 * and the body, joined by dots. */
#include "config/webhook_secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/sha256.h"

#define SECRET_MARK  "whsec_"
#define SECRET_LEAST 24  /* bytes, as Standard Webhooks requires; struct webhook_secret has room for the most */
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

static void add(EVP_MAC_CTX *mac, const char *text, size_t len)
{
	EVP_MAC_update(mac, (const unsigned char *)text, len);
}

/* OpenSSL fails only when memory runs out. It is seven times as fast as libsodium, which has no code for the
 * processor's SHA instructions. */
static EVP_MAC_CTX *begin(const struct webhook_secret *secret)
{
	static EVP_MAC *hmac;
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
				     OSSL_PARAM_construct_end()};
	EVP_MAC_CTX *mac;

	if (!hmac)
		hmac = memory_given(EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL), "OpenSSL");
	mac = memory_given(EVP_MAC_CTX_new(hmac), "OpenSSL");
	if (!EVP_MAC_init(mac, secret->bytes, secret->len, params))
		memory_exhausted("OpenSSL", 0);
	return mac;
}

void webhook_secret_sign(char *out, const struct webhook_secret *secret, const struct webhook_signed *what)
{
	unsigned char digest[SHA256_BYTES];
	EVP_MAC_CTX *mac = begin(secret);
	size_t len;

	add(mac, what->id, strlen(what->id));
	add(mac, ".", 1);
	add(mac, what->timestamp, strlen(what->timestamp));
	add(mac, ".", 1);
	add(mac, what->body.at, what->body.len);
	EVP_MAC_final(mac, digest, &len, sizeof(digest));
	EVP_MAC_CTX_free(mac);
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
