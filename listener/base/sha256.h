/* sha256.h: SHA-256 by OpenSSL, which fails only when memory runs out. */
#ifndef WSONCE_SHA256_H
#define WSONCE_SHA256_H

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

#define SHA256_BYTES 32

static inline void sha256(const void *bytes, size_t len, uint8_t *digest)
{
	if (!EVP_Digest(bytes, len, digest, NULL, EVP_sha256(), NULL))
		memory_exhausted("OpenSSL", 0);
}

/* Begins a digest of several pieces. Pass each to EVP_DigestUpdate. */
static inline EVP_MD_CTX *sha256_begin(void)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (!EVP_DigestInit_ex(md, EVP_sha256(), NULL))
		memory_exhausted("OpenSSL", 0);
	return md;
}

/* Writes the digest, frees *md and sets it to NULL. */
static inline void sha256_end(EVP_MD_CTX **md, uint8_t *digest)
{
	EVP_DigestFinal_ex(*md, digest, NULL);
	EVP_MD_CTX_free(*md);
	*md = NULL;
}

#endif
