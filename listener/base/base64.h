/* base64.h: base64 (RFC 4648, section 4), with OpenSSL. */
#ifndef WSONCE_BASE64_H
#define WSONCE_BASE64_H

#include <openssl/evp.h>
#include <stddef.h>

#include "base/bytes.h"

/* Appends bytes as base64. */
static inline void base64_add(struct bytes *out, const void *bytes, size_t len)
{
	out->len += (size_t)EVP_EncodeBlock((unsigned char *)bytes_reserve(out, 4 * (len / 3 + 1)), bytes, (int)len);
}

/* Decodes text to out, which has room for 3 bytes for each 4 of text. Returns how many bytes there are, or -1 if text
 * is not base64. */
static inline int base64_decode(void *out, const char *text, size_t len)
{
	int n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);

	for (size_t i = 1; i <= 2 && n > 0 && text[len - i] == '='; i++)
		n--; /* EVP_DecodeBlock counts the padding */
	return n;
}

#endif
