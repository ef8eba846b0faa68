/* sign.h: the signatures in templates. */
#ifndef WSONCE_FEED_SIGN_H
#define WSONCE_FEED_SIGN_H

#include "base/bytes.h"
#include "base/slice.h"
#include "config/profile_placeholder.h"

/* Appends the signature of text. key is the key of an HMAC, or the path of an RSA key in PEM. Returns NULL, or what is
 * wrong with the key, such as "is empty". */
const char *sign(struct bytes *out, enum placeholder_signature how, const char *key, struct slice text);

#endif
