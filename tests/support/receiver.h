/* An HTTP server that receives webhooks; tests/support/receiver.py defines its behaviour per path. */
#ifndef SUPPORT_RECEIVER_H
#define SUPPORT_RECEIVER_H

#include <jansson.h>
#include <stdbool.h>

struct certificate;
struct receiver;

/* The secret with which the receiver verifies signatures, in the format of the setting. */
#define RECEIVER_SECRET "whsec_d2hhdCBvbmx5IHRoZSByZWNlaXZlciBrbm93cw=="

/* Start one, with TLS if certificate is not NULL, and wait until it answers. */
struct receiver *receiver_start(const struct certificate *certificate);

/* The same, with TLS, for clients that show a certificate of this authority. */
struct receiver *receiver_start_for(const struct certificate *certificate, const struct certificate *authority);

/* The port that it listens on. */
int receiver_port(const struct receiver *r);

/* The requests to path (without a query) so far, each an object: path, key, attempt, at_ms, headers, body, is_signed,
 * is_answered, port (of the sender's socket). The caller releases it with json_decref. */
json_t *receiver_requests(struct receiver *r, const char *path);

/* How many requests there were to path. */
long receiver_count(struct receiver *r, const char *path);

/* Requires that the requests to path were signed and that events and keys correspond one to one. Returns the number of
 * keys: the effects on a receiver that remembers keys. */
long receiver_effects(struct receiver *r, const char *path);

/* Lets it answer the requests it holds (/hold/N) and hold no more; or send another unrequested answer (/extra/N). */
void receiver_release(struct receiver *r);

/* The number of unrequested answers sent. */
int receiver_extras(struct receiver *r);

#endif
