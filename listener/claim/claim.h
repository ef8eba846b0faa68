/* claim.h: the right to store an event, as a key in Redis that only one listener can set. */
#ifndef WSONCE_CLAIM_H
#define WSONCE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "claim/done_channel.h"
#include "event/event.h"

/* Claim TTLs after which a held copy goes to the store, and a dead mark ends. */
#define HOLD_TTLS 2

struct claim;

enum claim_result {
	CLAIM_MINE,    /* this process holds the claim */
	CLAIM_OTHER,   /* another instance is processing the event, which is not yet stored */
	CLAIM_DONE,    /* a done mark: the event is committed */
	CLAIM_DEAD,    /* a dead mark: the event is recorded as a dead letter */
	CLAIM_ABSENT,  /* internal: a mark that says nothing about this event */
	CLAIM_UNKNOWN, /* Redis is away, its answer was lost, or the answer is a mark and the epoch is unknown */
};

enum claim_mark { CLAIM_MARK_DONE, CLAIM_MARK_DEAD };

/* Called from the loop, once per call of a function below; during the call only by claim_inherit(). */
struct claim_callbacks {
	void (*on_claimed)(void *arg, struct event *ev, enum claim_result result);
	/* The owner of claims that events here wait for is dead. Does not belong to a call, and may be repeated. */
	void (*on_owner_gone)(void *arg, uint16_t owner);
	/* Others have committed n events; as in done_channel.h. */
	done_cb *on_done;
	/* At the start: another database's fleet uses this Redis and prefix. sentence says so and is valid during the
	 * call. */
	void (*on_foreign)(void *arg, const char *sentence);
	void *arg;
};

/* Starts connecting to c->redis, unless that is "none". config must outlive the claim. */
struct claim *claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *callbacks);

/* True if Redis can be asked now; false if another database's fleet uses it. */
bool claim_is_ready(const struct claim *c);
/* True if another database's fleet uses the claims. */
bool claim_is_foreign(const struct claim *c);
/* True if Redis is connected but has refused claims, marks, beats or the done channel in the last seconds: it is full,
 * a part of a cluster has no server, or the user lacks a right. */
bool claim_is_refused(const struct claim *c);
/* False with --redis none. */
bool claim_is_used(const struct claim *c);

/* Call for each message of this source (see event_origin()). Returns true if another listener leads it and so claims
 * its events first. That listener may be dead or not have received them, so do not rely on it. */
bool claim_has_other_leader(struct claim *c, const char *source);
/* The same, for one that was known at that time (loop clock). */
bool claim_had_other_leader(struct claim *c, const char *source, int64_t ms);

/* Asks for the right to store ev. Returns 0 and calls on_claimed later; or -1 if Redis cannot be asked, without a
 * callback. ev must live until then. The lease starts before the command is sent. */
int claim_take(struct claim *c, struct event *ev);

/* Takes over the claims of n events from their dead owner, if they are still the owner's or free. Calls on_claimed for
 * each: later, with CLAIM_MINE if it was taken; or at once with CLAIM_UNKNOWN, if Redis cannot be asked. */
void claim_inherit(struct claim *c, uint16_t owner, struct event *const *evs, size_t n);

/* The functions below have no answer, and ev may be freed at once. While Redis is away they send nothing,
 * and claims expire. */

/* Extends the leases of n events that are still ours (I4). */
void claim_renew(struct claim *c, struct event *const *evs, size_t n);
/* Releases the claims of n events, each only if its whole value is still ours (I4), once Redis is back. */
void claim_release(struct claim *c, struct event *const *evs, size_t n);
/* Tells the fleet that ev is committed or a dead letter, whoever owns the key now. Call it only after the commit. If
 * Redis is away and may have a claim of ev, a done mark is sent when Redis is back. */
void claim_mark(struct claim *c, struct event *ev, enum claim_mark kind);

/* Sets the id of the database, "" if it has none. No other database may use the same prefix. */
void claim_set_database(struct claim *c, const char *id);

/* Sets the database's epoch; 0: unknown. Marks contain it, and only marks with the same epoch are read as CLAIM_DONE
 * and CLAIM_DEAD. Marks that were sent before keep theirs. */
void claim_set_epoch(struct claim *c, uint32_t epoch);

/* Returns the number of commands without an answer; 0 if Redis is away. */
uint64_t claim_unanswered(const struct claim *c);

/* done is called from the loop once c is freed. */
void claim_close(struct claim *c, void (*done)(void *arg), void *arg);

/* Who is alive, and what each listener reads. */
struct presence *claim_presence(const struct claim *c);
/* What other listeners have committed. claim_mark() publishes what is committed here. */
struct done_channel *claim_channel(const struct claim *c);

/* The name of this instance in its claims and in presence. */
const char *claim_owner(const struct claim *c);

#endif
