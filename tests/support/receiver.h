/* A real HTTP server that webhooks are sent to; tests/support/receiver.py says what it does for which path. */
#ifndef SUPPORT_RECEIVER_H
#define SUPPORT_RECEIVER_H

#include <jansson.h>
#include <stdbool.h>

struct certificate;
struct receiver;

/* What the receiver verifies signatures with, as a setting has it. */
#define RECEIVER_SECRET "whsec_d2hhdCBvbmx5IHRoZSByZWNlaXZlciBrbm93cw=="

/* Start one, with TLS if certificate is not NULL, and wait until it answers. */
struct receiver *receiver_start(const struct certificate *certificate);

/* The port that it listens on. */
int receiver_port(const struct receiver *r);

/* The requests to path (without a query) so far, each an object: path, key, attempt, at_ms, headers, body,
 * is_signed, is_answered, port (of the sender's socket). The caller gives it back by json_decref. */
json_t *receiver_requests(struct receiver *r, const char *path);

/* How many requests there were to path. */
long receiver_count(struct receiver *r, const char *path);

/* Requires that the requests to path were signed, that each event came under one key and each key was of one
 * event. Returns how many keys there are: the effects that a receiver sees which keeps keys. */
long receiver_effects(struct receiver *r, const char *path);

/* Let it answer what it holds, /hold/N, and hold nothing from now on; or say once more what nobody asked for, /extra/N.
 */
void receiver_release(struct receiver *r);

/* How often it has said what nobody asked for. */
int receiver_extras(struct receiver *r);

#endif
