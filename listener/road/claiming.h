/* claiming.h: who claims an event and when, and the waits of events that others have. */
#ifndef WSONCE_CLAIMING_H
#define WSONCE_CLAIMING_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/log_spell.h"
#include "config/config.h"
#include "claim/claim.h"
#include "event/event.h"
#include "event/hold.h"
#include "store/storing.h"

struct pipeline;

struct claiming {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct storing *storing;
	struct pipeline *pipeline;
	struct claim *claim;
	struct hold hold;
	struct list left;        /* events that the done channel may settle, oldest first, linked by wait_link */
	int64_t led_ms;          /* loop clock: this listener last claimed an event as its source's leader; 0: never */
	int64_t told_ms;         /* loop clock: the channel last settled a copy here, */
	int64_t arrived_ms;      /* and when the newest of those copies had arrived */
	int64_t left_checked_ms; /* loop clock: when overdue events were last searched, */
	int64_t left_probed_ms;  /* when one was last claimed because the channel was silent, */
	int64_t left_free_ms;    /* and when one was last found not to be stored elsewhere; 0: it was */
	bool is_ahead;           /* far ahead of the leaders, so reading stops */
	bool is_resting;         /* it stalls, the others know it, and it leaves claims to them */
	bool is_draining;        /* draining: nothing waits for others */
	bool doubts_marks;       /* ignore marks in Redis */
	int64_t probed_ms;       /* loop clock: the last try while resting */
	int64_t renew_ms;        /* loop clock: next renewal of leases, */
	int64_t watch_ms;        /* and next check if rows can be stored */
	struct log_spell rests;  /* why it cannot store */
};

/* Opens the claim, which the caller closes. All arguments must outlive it. It calls the pipeline through
 * road/settling.h. */
void claiming_open(struct claiming *c, uv_loop_t *loop, const struct config *config, struct events *events,
		   struct storing *storing, struct pipeline *pipeline);

/* Returns the event with this hash if the done channel told of it and that can be believed now, else NULL. */
const struct done *claiming_find_done(const struct claiming *c, const struct id_hash *hash);

/* Takes a new event: claims it, or leaves it to the leader of its source. is_ours: nobody else gets it, or a producer
 * waits for its ack. */
void claiming_take(struct claiming *c, struct event *ev, bool is_ours);
/* Claims ev, which is in EV_CLAIMING, even if another listener leads. */
void claiming_claim_now(struct claiming *c, struct event *ev);
/* Call when another copy of ev has arrived from this source: claims ev if it was left to another leader, and this
 * listener leads the source. */
void claiming_lead(struct claiming *c, struct event *ev, const char *source);
/* Makes ev wait for its next try, as in hold.h. */
void claiming_back_off(struct claiming *c, struct event *ev, enum wait wait, unsigned int step);

/* True if so many events are left to storing leaders that reading on only costs, and this listener leads no source. */
bool claiming_is_far_ahead(struct claiming *c);

/* Call in each turn of the loop: rests if nothing can be stored, and stops resting if something can. */
void claiming_turn(struct claiming *c);
/* Settles, claims or stores what has waited long enough, and renews leases. claiming_wait() returns in how many
 * milliseconds to call it. */
void claiming_tick(struct claiming *c);
int64_t claiming_wait(const struct claiming *c);

/* Call at the drain: events no longer wait for others or for the server. */
void claiming_drain(struct claiming *c);
/* Releases the claims of all remaining events. */
void claiming_release_left(struct claiming *c);

#endif
