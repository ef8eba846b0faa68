/* claiming.h: which listener claims an event and when, and the waits of events that others have claimed. */
#ifndef WSONCE_CLAIMING_H
#define WSONCE_CLAIMING_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "claim/claim.h"
#include "config/config.h"
#include "event/event.h"
#include "event/hold.h"
#include "store/storing.h"

#define CLAIMS_MOST 8192 /* unanswered claims, which the budget does not count, at which events and producers wait */

struct claiming;

/* Called from the loop or from a function below. */
struct claiming_callbacks {
	/* Settles and frees ev: a believed mark, or the done channel, says that it is committed or a dead letter. */
	void (*settle)(void *arg, struct event *ev, enum outcome outcome);
	/* Tries another message with the id of ev, which was refused or postponed, in its place. Returns false if every
	 * one has been tried as often as ev. */
	bool (*try_other)(void *arg, struct event *ev);
	/* As in claim.h. */
	void (*on_foreign)(void *arg, const char *sentence);
	void *arg;
};

/* Opens the claim. config, events and storing must outlive it. */
struct claiming *claiming_open(uv_loop_t *loop, const struct config *config, struct events *events,
			       struct storing *storing, const struct claiming_callbacks *callbacks);
/* Valid until claiming_close(). */
struct claim *claiming_claim(const struct claiming *c);
/* From now on, marks in Redis do not settle events. */
void claiming_doubt_marks(struct claiming *c);

/* Returns the event with this hash if the done channel has announced it and that can be believed now, else NULL. */
const struct done *claiming_find_done(const struct claiming *c, const struct id_hash *hash);

/* Claims a new event, or leaves it to the leader of its source. is_ours: nobody else gets it, or a producer waits for
 * its ack. */
void claiming_take(struct claiming *c, struct event *ev, bool is_ours);
/* Claims ev, which is in EV_CLAIMING, even if another listener leads. */
void claiming_claim_now(struct claiming *c, struct event *ev);
/* Call when another copy of ev has arrived from this source: claims ev if it was left to another leader, and this
 * listener leads the source. */
void claiming_lead(struct claiming *c, struct event *ev, const char *source);
/* Makes ev wait for its next try, as in hold.h. */
void claiming_back_off(struct claiming *c, struct event *ev, enum wait wait, unsigned int step);

/* True if this listener leads no source, and leaves events to storing leaders faster than they store them. */
bool claiming_is_far_ahead(struct claiming *c);

/* Call in each turn of the loop: the listener becomes passive if nothing can be stored, and active if something can. */
void claiming_turn(struct claiming *c);
/* Settles, claims or stores events that have waited long enough, and renews leases. claiming_wait() returns the
 * milliseconds until the next call. */
void claiming_tick(struct claiming *c);
int64_t claiming_wait(const struct claiming *c);

/* Call at the drain: events no longer wait for others or for the server. */
void claiming_drain(struct claiming *c);
/* Releases the claims of all remaining events. From now on, nothing is claimed. */
void claiming_release_left(struct claiming *c);

/* Closes the claim. done is called from the loop; then call claiming_free(), once no event is left. */
void claiming_close(struct claiming *c, void (*done)(void *arg), void *arg);
void claiming_free(struct claiming *c);

#endif
