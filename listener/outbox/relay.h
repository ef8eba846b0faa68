/* relay.h: delivers the rows of the outbox to the webhooks. */
#ifndef WSONCE_RELAY_H
#define WSONCE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "outbox/backlog.h"
#include "config/config.h"
#include "outbox/target.h"

struct relay;

/* Connects and starts delivering. config has webhooks and must outlive the relay. */
struct relay *relay_open(uv_loop_t *loop, const struct config *config);

/* Call when the webhooks in config have changed. The next requests use the new ones, requests in progress are not
 * affected, and rows that wait for a webhook that is gone or has another URL are given back. */
void relay_change(struct relay *r);

/* Call when there are new rows, to lease them now instead of within half a second. */
void relay_wake(struct relay *r);

/* Stops leasing rows. done is called once, later: when all requests have ended and are recorded, or after the drain
 * timeout, which cancels the requests. */
void relay_drain(struct relay *r, void (*done)(void *arg), void *arg);

/* For operators. */
size_t relay_targets(const struct relay *r);
const struct target *relay_target(const struct relay *r, size_t i);
/* If webhook i is paused for the whole fleet, returns {since, by, reason}; else NULL. Read from the database every 15
 * seconds. */
const json_t *relay_pause(const struct relay *r, size_t i);
/* Returns why deliveries cannot be leased or their outcomes not recorded, or "". */
const char *relay_error(const struct relay *r);
const struct backlog *relay_backlog(const struct relay *r);

/* Cancels all requests. done is called from the loop when r is freed. */
void relay_close(struct relay *r, void (*done)(void *arg), void *arg);

#endif
