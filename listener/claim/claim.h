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

struct claim;

enum claim_result {
	CLAIM_MINE,    /* this process holds the claim */
	CLAIM_OTHER,   /* another instance is at work on the event, which is not yet stored */
	CLAIM_DONE,    /* a done mark: the event is committed */
	CLAIM_DEAD,    /* a dead mark: the event is recorded as a dead letter */
	CLAIM_ABSENT,  /* internal: a mark that says nothing of this event */
	CLAIM_UNKNOWN, /* Redis could not be asked, or its answer was lost, or is a mark and the epoch is not known */
};

enum claim_mark { CLAIM_MARK_DONE, CLAIM_MARK_DEAD };

/* All are called from the loop, each once for its call below, and but for claim_inherit() never from inside it. */
struct claim_callbacks {
	void (*on_claimed)(void *arg, struct event *ev, enum claim_result result);
	/* Not for a call below, and maybe again and again: the owner of claims that events were held for is dead. */
	void (*on_owner_gone)(void *arg, uint16_t owner);
	/* Others have committed n events; as in done_channel.h. */
	done_cb *on_done;
	/* At the start: the claims in this Redis are another database's; sentence says so and lives for the call. */
	void (*on_foreign)(void *arg, const char *sentence);
	void *arg;
};

/* Starts connecting to c->redis, unless that is "none". config must outlive the claim. */
struct claim *claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *callbacks);

/* Can Redis be asked now? Not if it is foreign. */
bool claim_is_ready(const struct claim *c);
/* Have its claims become another database's? */
bool claim_is_foreign(const struct claim *c);
/* Has Redis, though it can be asked, refused claims, marks, beats or the done channel in the last seconds? It may be
 * full, a part of a cluster may be without a server, or the user may lack a right. */
bool claim_is_refused(const struct claim *c);
/* Is there a Redis at all? false: --redis none. */
bool claim_is_used(const struct claim *c);

/* A message of this source (see event_origin()) has come. Does another listener lead it? That one then claims its
 * events at once, unless it is dead or has not received them, which nobody may depend on. */
bool claim_has_other_leader(struct claim *c, const char *source);

/* Asks for the right to store ev. Returns 0 and calls on_claimed; or -1 because Redis cannot be
 * asked now, and on_claimed is never called. ev lives until then. The lease is counted from
 * before the command was sent. */
int claim_take(struct claim *c, struct event *ev);

/* Takes the claims of n events over from their owner, which is dead: those that are still its own, or nobody's. Calls
 * on_claimed for each, CLAIM_MINE for those that were taken; or at once, CLAIM_UNKNOWN, if Redis cannot be asked now.
 */
void claim_inherit(struct claim *c, uint16_t owner, struct event *const *evs, size_t n);

/* The rest is sent and forgotten; ev may be freed at once. While Redis is away nothing is sent, and claims end by their
 * TTL. */

/* Extends the leases of n events that are still ours (I4). */
void claim_renew(struct claim *c, struct event *const *evs, size_t n);
/* Gives the claims of n events back, each only if its whole value is still ours (I4). */
void claim_release(struct claim *c, struct event *const *evs, size_t n);
/* Says to the fleet that ev is committed, or a dead letter. Unconditional: it is a fact, whoever
 * owns the key now. Must not be called before the commit. */
void claim_mark(struct claim *c, struct event *ev, enum claim_mark kind);

/* The id of the database that the claims are about, "" if it has none: no other may have the same prefix. */
void claim_set_database(struct claim *c, const char *id);

/* The epoch that the database is in, 0 if it is not known. Marks say it, and only marks that say the same
 * are read as CLAIM_DONE and CLAIM_DEAD; others are as good as absent. */
void claim_set_epoch(struct claim *c, uint32_t epoch);

/* Commands that Redis has not answered yet; 0 if it is away. */
uint64_t claim_unanswered(const struct claim *c);

/* done is called from the loop when nothing of c is left. */
void claim_close(struct claim *c, void (*done)(void *arg), void *arg);

/* Who is alive, and what each listener reads. */
struct presence *claim_presence(const struct claim *c);
/* What the others have committed. claim_mark() adds what is committed here. */
struct done_channel *claim_channel(const struct claim *c);

/* The name of this instance in its claims, and in the keys by which others know that it is alive. */
const char *claim_owner(const struct claim *c);

#endif
