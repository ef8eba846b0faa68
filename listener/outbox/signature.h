/* signature.h: what the receiver of a webhook knows a request by: its id, and that it is ours. No I/O. */
#ifndef WSONCE_SIGNATURE_H
#define WSONCE_SIGNATURE_H

#include <stddef.h>

#include "config/webhook.h"

#define SIGNATURE_ID_SIZE (4 + 2 * 16 + 1)                     /* msg_, 16 bytes in hex, NUL */
#define SIGNATURE_SIZE    (WEBHOOK_SECRETS_MAX * (3 + 44 + 1)) /* of each v1, and base64; a blank or NUL */

/* The id of an event's delivery to a target: the same at every attempt, of any listener. */
void signature_id(char *out, const char *target, const char *event_id, size_t len);

/* The value of webhook-signature: a signature by each of the webhook's secrets, a blank between two. */
void signature_write(char *out, const struct webhook *webhook, const char *id, const char *timestamp, const char *body,
		     size_t len);

#endif
