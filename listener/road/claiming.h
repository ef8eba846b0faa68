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
#include "road/storing.h"

struct pipeline;

struct claiming {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct storing *storing;
	struct pipeline *pipeline;
	struct claim *claim;
	struct hold hold;
	struct list left;        /* events of which the done channel may tell, oldest first, by wait_link */
	int64_t led_ms;          /* loop clock: this listener last claimed an event as its source's leader; 0: never */
	int64_t told_ms;         /* loop clock: the channel last told of a copy here, */
	int64_t arrived_ms;      /* and when the newest of those copies had arrived */
	int64_t left_checked_ms; /* loop clock: when it was last seen which of them are due, */
	int64_t left_probed_ms;  /* when one was claimed because the channel was silent, */
	int64_t left_free_ms;    /* and when one last turned out not to be at work elsewhere; 0: it was */
	bool is_ahead;           /* far ahead of the leaders, so nothing is read */
	bool is_resting;         /* it stalls, the others know, and it leaves claims to them */
	bool is_draining;        /* nothing waits for others any more */
	bool doubts_marks;       /* marks in Redis are not believed */
	int64_t probed_ms;       /* loop clock, of the last try of one that rests */
	int64_t renew_ms;        /* loop clock: leases are renewed then, */
	int64_t watch_ms;        /* and looked whether rows can be stored */
	struct log_spell rests;  /* that it could not store */
};

/* Opens the claim, which the caller closes. What it is given must outlive it; it tells the pipeline by
 * road/settling.h. */
void claiming_open(struct claiming *c, uv_loop_t *loop, const struct config *config, struct events *events,
		   struct storing *storing, struct pipeline *pipeline);

/* The event with this hash as the done channel told of it; NULL if it did not, or may not be believed now. */
const struct done *claiming_find_done(const struct claiming *c, const struct id_hash *hash);

/* A new event: claims it, or leaves it to the leader of its source. is_ours: nobody else gets it, or a producer waits
 * for its ack. */
void claiming_take(struct claiming *c, struct event *ev, bool is_ours);
/* Claims ev, which is in EV_CLAIMING, whoever leads. */
void claiming_claim_now(struct claiming *c, struct event *ev);
/* Another copy of ev has come, from this source: claims ev if it was left to another leader, and we lead this source.
 */
void claiming_lead(struct claiming *c, struct event *ev, const char *source);
/* ev waits for its next try, as in hold.h. */
void claiming_back_off(struct claiming *c, struct event *ev, enum wait wait, unsigned int step);

/* Are so many events left to leaders that store, and none led here, that reading on would only cost? */
bool claiming_is_far_ahead(struct claiming *c);

/* In each turn of the loop: rests if nothing can be stored, and works again if it can. */
void claiming_turn(struct claiming *c);
/* Settles, claims or stores what has waited long enough, and renews leases; claiming_wait() says in how many
 * milliseconds that is due. */
void claiming_tick(struct claiming *c);
int64_t claiming_wait(const struct claiming *c);

/* What waits for others, or for the server, waits no longer. */
void claiming_drain(struct claiming *c);
/* Gives back the claims of all events that are left. */
void claiming_release_left(struct claiming *c);

#endif
