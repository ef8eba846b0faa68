/* signature.c owns the id and the signature of a delivery, as the Standard Webhooks specification has them
 * (standardwebhooks.com): HMAC-SHA256 over the id, the timestamp and the body, with dots between. */
#include "outbox/signature.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* The name's NUL is hashed too, so that no name and id together look like another name and id. */
int signature_id(char *out, const char *target, const char *event_id, size_t len)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool is_made = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) &&
		       EVP_DigestUpdate(md, target, strlen(target) + 1) && EVP_DigestUpdate(md, event_id, len) &&
		       EVP_DigestFinal_ex(md, digest, NULL);

	EVP_MD_CTX_free(md);
	if (!is_made)
		return -1;
	out += sprintf(out, "msg_");
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%02x", digest[i]);
	return 0;
}

static bool add_text(EVP_MAC_CTX *mac, const char *text, size_t len)
{
	return EVP_MAC_update(mac, (const unsigned char *)text, len);
}

static bool sign(EVP_MAC_CTX *mac, const struct webhook_secret *secret, const char *id, const char *timestamp,
		 const char *body, size_t len, unsigned char digest[32])
{
	char hash[] = "SHA256";
	const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, hash, 0),
				     OSSL_PARAM_construct_end()};
	size_t n;

	return EVP_MAC_init(mac, secret->bytes, secret->len, params) && add_text(mac, id, strlen(id)) &&
	       add_text(mac, ".", 1) && add_text(mac, timestamp, strlen(timestamp)) && add_text(mac, ".", 1) &&
	       add_text(mac, body, len) && EVP_MAC_final(mac, digest, &n, 32);
}

int signature_write(char *out, const struct webhook *webhook, const char *id, const char *timestamp, const char *body,
		    size_t len)
{
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *mac = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
	unsigned char digest[32];
	bool is_made = mac;

	*out = '\0';
	for (size_t i = 0; i < webhook->secret_count && is_made; i++) {
		is_made = sign(mac, &webhook->secrets[i], id, timestamp, body, len, digest);
		out += sprintf(out, "%sv1,", i ? " " : "");
		out += EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
	}
	EVP_MAC_CTX_free(mac);
	EVP_MAC_free(hmac);
	return is_made ? 0 : -1;
}
