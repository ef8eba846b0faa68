/* webhook_secret.h: the secrets and signatures of Standard Webhooks (standardwebhooks.com). No I/O. */
#ifndef WSONCE_WEBHOOK_SECRET_H
#define WSONCE_WEBHOOK_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define WEBHOOK_SIGNATURE_SIZE (3 + 44 + 1) /* "v1,", base64, NUL */

/* A key of HMAC-SHA256. */
struct webhook_secret {
	unsigned char bytes[64];
	size_t len;
};

/* What a signature covers. */
struct webhook_signed {
	const char *id;
	const char *timestamp;
	struct slice body; /* as it is sent, compressed or not */
};

/* Reads a secret: whsec_ followed by 24 to 64 bytes in base64. Returns false if text is not one. */
bool webhook_secret_decode(struct webhook_secret *secret, const char *text, size_t len);

/* Writes the signature, WEBHOOK_SIGNATURE_SIZE bytes. */
void webhook_secret_sign(char *out, const struct webhook_secret *secret, const struct webhook_signed *what);

/* True if one of the signatures, which are separated by blanks, is that of the secret. Takes constant time for
 * signatures of one length. */
bool webhook_secret_has_signed(const struct webhook_secret *secret, const struct webhook_signed *what,
			       const char *signatures);

/* True if the timestamp is at most five minutes from now_s (Unix time). False for NULL. */
bool webhook_timestamp_is_fresh(const char *timestamp, int64_t now_s);

#endif
