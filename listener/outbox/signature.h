/* signature.h: the id of a delivery, and the signature by which the receiver verifies it. No I/O. */
#ifndef WSONCE_SIGNATURE_H
#define WSONCE_SIGNATURE_H

#include <stddef.h>

#include "config/webhook.h"

#define SIGNATURE_ID_SIZE (4 + 2 * 16 + 1)                               /* msg_, 16 bytes in hex, NUL */
#define SIGNATURE_SIZE    (WEBHOOK_SECRETS_MAX * WEBHOOK_SIGNATURE_SIZE) /* separated by blanks, and a NUL */

/* Makes the id of an event's delivery to a target. It is the same for every attempt of every listener. */
void signature_id(char *out, const char *target, const char *event_id, size_t len);

/* Makes the value of webhook-signature: one signature for each of the webhook's secrets, separated by blanks. */
void signature_write(char *out, const struct webhook *webhook, const struct webhook_signed *what);

#endif
