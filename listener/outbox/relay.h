/* relay.h: the outbox's rows on their way to the webhooks. */
#ifndef WSONCE_RELAY_H
#define WSONCE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "outbox/backlog.h"
#include "config/config.h"
#include "outbox/target.h"

struct relay;

/* Starts connecting, and relaying. config, which has webhooks, must outlive the relay. */
struct relay *relay_open(uv_loop_t *loop, const struct config *config);

/* The webhooks of config are others, or have other settings: used from the next request on. Requests that are at work
 * end as they began; rows that wait for a webhook that is gone, or has another URL, are given back. */
void relay_change(struct relay *r);

/* There are new rows: they are looked for now, and not after half a second. */
void relay_wake(struct relay *r);

/* Stops leasing rows. done is called once, later, when no request is at work and what became of the last ones
 * is recorded; or when the drain timeout is over, which ends the requests. */
void relay_drain(struct relay *r, void (*done)(void *arg), void *arg);

/* For operators. */
size_t relay_targets(const struct relay *r);
const struct target *relay_target(const struct relay *r, size_t i);
const struct backlog *relay_backlog(const struct relay *r);

/* Drops everything that is at work. done is called from the loop when nothing of r is left. */
void relay_close(struct relay *r, void (*done)(void *arg), void *arg);

#endif
