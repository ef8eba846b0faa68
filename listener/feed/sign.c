/* sign.c signs texts with OpenSSL. It does not keep keys. */
#include "feed/sign.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"

#define PEM_MAX 65536 /* bytes */

static const char *sign_hmac(struct bytes *out, const char *key, struct slice text, bool is_base64)
{
	unsigned char digest[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];

	if (!*key)
		return "is empty";
	if (!HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text.at, text.len, digest, NULL))
		memory_exhausted("OpenSSL", 0);
	write_hex(hex, digest, SHA256_BYTES);
	if (is_base64)
		base64_add(out, digest, SHA256_BYTES);
	else
		bytes_add_text(out, hex);
	return NULL;
}

/* Passes an empty passphrase: with NULL, OpenSSL would ask for one on the terminal. */
static EVP_PKEY *read_key(const char *file)
{
	size_t len = 0;
	char *pem = file_read(file, PEM_MAX, &len);
	BIO *in = BIO_new_mem_buf(pem ? pem : "", (int)len);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, "");

	BIO_free(in);
	if (pem)
		OPENSSL_cleanse(pem, len);
	free(pem);
	return key;
}

/* SHA-256, with a salt as long as the hash. */
static const char *sign_rsa_pss(struct bytes *out, const char *file, struct slice text)
{
	EVP_PKEY *key = read_key(file);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	size_t len = key ? (size_t)EVP_PKEY_size(key) : 0;
	unsigned char *bytes = memory_alloc(len + 1);
	EVP_PKEY_CTX *how;
	bool is_signed = key && EVP_PKEY_base_id(key) == EVP_PKEY_RSA &&
			 EVP_DigestSignInit(md, &how, EVP_sha256(), NULL, key) == 1 &&
			 EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) == 1 &&
			 EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) == 1 &&
			 EVP_DigestSign(md, bytes, &len, (const unsigned char *)text.at, text.len) == 1;

	if (is_signed)
		base64_add(out, bytes, len);
	ERR_clear_error(); /* other users of OpenSSL would take these errors for theirs */
	free(bytes);
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(key);
	return is_signed ? NULL : "cannot be read, is not an RSA key in PEM, or has a passphrase";
}

const char *sign(struct bytes *out, enum placeholder_signature how, const char *key, struct slice text)
{
	return how == SIGN_RSA_PSS ? sign_rsa_pss(out, key, text) : sign_hmac(out, key, text, how == SIGN_HMAC_BASE64);
}
