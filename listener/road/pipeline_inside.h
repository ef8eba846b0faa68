/* pipeline_inside.h: what pipeline.c, pipeline_claim.c and pipeline_store.c share of a pipeline. For these alone. */
#ifndef WSONCE_PIPELINE_INSIDE_H
#define WSONCE_PIPELINE_INSIDE_H

#include "base/log_spell.h"
#include "road/age_limit.h"
#include "road/batch.h"
#include "road/checkin.h"
#include "road/envelope.h"
#include "road/hold.h"
#include "road/order.h"
#include "road/pace.h"
#include "road/pipeline.h"
#include "road/spooling.h"
#include "road/stall.h"

#define BATCH_BYTES (8u << 20) /* of messages in one statement */

/* When reading stops: for all at the limits, for producers earlier where there are feeds. A feed has no replay,
 * and so is not stopped for the sake of producers. */
struct gate {
	size_t eighths; /* of the limits, at which it closes */
	bool is_full;   /* the budget is used up */
};

/* What this listener does with events. */
enum life {
	LIFE_WORKING,
	LIFE_RESTING,  /* it stalls, the others know, and it leaves claims to them */
	LIFE_DRAINING, /* nothing waits for others any more */
	LIFE_DRAINED,
};

/* What is told to the database once a minute, and once more at the end. */
enum telling {
	TELLING_TOLD, /* the timer says when to tell again */
	TELLING_DUE,
	TELLING_SENT,      /* there is no answer yet */
	TELLING_LAST_SENT, /* the last one is on its way */
	TELLING_OVER,      /* it has arrived or is given up */
};

/* What is done when its time has come. */
enum due {
	DUE_RENEW,       /* leases are renewed */
	DUE_WATCH,       /* can rows be stored? */
	DUE_CHECKIN,     /* a check-in; the last one is not waited for any longer */
	DUE_DEAD_LETTER, /* dead letters that could not be written are tried again */
	DUE_SPOOL,       /* an event is to be written to the spool */
	DUE_DRAIN,       /* the drain timeout is over, */
	DUE_END,         /* and so is the time for the last answers */
	DUES,
};

/* One of two stores, each with a connection of its own, and the batch that it is at work on. */
struct writer {
	struct pipeline *pipeline;
	struct store *store;     /* NULL: there was no need for it yet */
	struct batch batches[2]; /* in turn: one is at work in the store or empty, and */
	struct batch *batch;     /* this one; the other is being told of, or empty */
	int64_t sent_ms;         /* loop clock, of the last batch of events, or when it was opened */
	uint32_t epoch;          /* of its database; 0 if unknown or not connected */
	bool is_closing;
};

/* A spell in which rows come faster than the store takes them. */
struct slowness {
	int64_t since_ms; /* loop clock: before that, the store was fast enough */
	int64_t told_ms;  /* of the last line in the log; 0: there is no such spell, or it is short so far */
	uint64_t stored;  /* counters.persisted then */
};

struct pipeline {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline_callbacks on;
	struct envelope *envelope;
	struct age_limit stale, feed_stale;
	enum timestamp_unit time_unit; /* of --time-pointer */
	struct events events;
	struct claim *claim;
	struct writer first;    /* does all there is to do; */
	struct writer second;   /* only helps with events, where one backend of Postgres is not enough */
	unsigned int behind;    /* batches in a row behind which as many rows waited */
	int64_t second_from_ms; /* loop clock: that one is not opened before, because it could not be used */
	struct hold hold;
	struct order order;
	struct spooling spooling;
	struct pace pace;
	long partial_bytes; /* of messages that are not yet complete */
	struct gate producers, all;
	bool is_behind; /* producers wait for Redis, Postgres or other listeners */
	bool is_ahead;  /* far ahead of the leaders, so nothing is read */
	enum pressure pressure;
	struct list left;        /* of those, the ones of which the done channel may tell, oldest first, by wait_link */
	int64_t led_ms;          /* loop clock: this listener last claimed an event as its source's leader; 0: never */
	int64_t told_ms;         /* loop clock: the channel last told of a copy here, */
	int64_t arrived_ms;      /* and when the newest of those copies had arrived */
	int64_t left_checked_ms; /* loop clock: when it was last seen which of them are due, */
	int64_t left_probed_ms;  /* when one was claimed because the channel was silent, */
	int64_t left_free_ms;    /* and when one last turned out not to be at work elsewhere; 0: it was */
	size_t deferred;         /* events left to the leaders of their sources */
	enum life life;
	struct stall stall;
	struct slowness slow;
	int64_t probed_ms; /* loop clock, of the last try of one that rests */
	struct checkin checkin;
	enum telling telling;
	struct cursors cursors;
	struct {
		const char *const *sources;
		size_t count;
		pipeline_cursor_cb *cb; /* NULL: nobody asks */
		void *arg;
	} reading;
	uint32_t epoch;                  /* of the database, as far as it was told; 0: never */
	void (*on_forgotten)(void *arg); /* NULL: nobody wants to know */
	void *on_forgotten_arg;
	bool doubts_marks;
	bool had_suspects;              /* the last batch of events */
	int64_t came_us;                /* of the last event, since 1970 */
	int64_t time_told_ms;           /* loop clock, of the last warning about a time; 0: never */
	unsigned int since_dead_letter; /* batches of events since the last one of dead letters */
	uv_prepare_t turn;              /* before each wait for I/O: what this turn brought is sent */
	uv_timer_t tick;                /* for the first of those that are due, and of what is held */
	int64_t due_ms[DUES];           /* loop clock; 0: not at all */
	struct log_spell rests;         /* that it could not store */
	int open;                       /* parts left to close */
	void (*done)(void *arg);
	void *done_arg;
};

/* The arg of a store's callbacks is its writer. */
static inline struct pipeline *pipeline_of(void *writer)
{
	return ((struct writer *)writer)->pipeline;
}

static inline int64_t now_ms(const struct pipeline *p)
{
	return (int64_t)uv_now(p->loop);
}

static inline int64_t ttl_ms(const struct pipeline *p)
{
	return p->config->claim_ttl_s * 1000;
}

static inline bool is_resting(const struct pipeline *p)
{
	return p->life == LIFE_RESTING;
}

static inline bool is_draining(const struct pipeline *p)
{
	return p->life >= LIFE_DRAINING;
}

static inline void pipeline_set_due(struct pipeline *p, enum due due, int64_t in_ms)
{
	p->due_ms[due] = now_ms(p) + in_ms;
}

/* The only way to change what ev waits for. */
static inline void pipeline_set_wait(struct pipeline *p, struct event *ev, enum wait wait)
{
	p->deferred += (wait == WAIT_LEADER) - (size_t)(ev->wait == WAIT_LEADER);
	ev->wait = wait;
}

/* pipeline.c */
void pipeline_set_life(struct pipeline *p, enum life life);
/* ev is to become a dead letter; why is copied, and NULL keeps the reason that ev has. */
void pipeline_refuse_event(struct pipeline *p, struct event *ev, const char *why);
/* ev leaves its place to next, another message with its id, which is tried now. */
void pipeline_try_next(struct pipeline *p, struct event *ev, struct event *next);
/* The end of ev, which is freed: its row or dead letter is committed, or a mark that is believed says so. */
void pipeline_settle(struct pipeline *p, struct event *ev, enum outcome outcome);
/* An event comes back from the spool: its record, and the name of its source, which outlives the pipeline, or NULL. */
void pipeline_restore(struct pipeline *p, const struct record *r, const char *source, struct spool_segment *segment);
/* What is left in memory when the drain is over is on disk, as far as it could be. */
void pipeline_on_left(struct pipeline *p);
/* One part less to wait for in pipeline_close; arg is the pipeline. */
void pipeline_on_part_closed(void *arg);

/* pipeline_claim.c */
/* ev goes into a batch: it has a claim, or the unique key is to decide. */
void pipeline_send_to_store(struct pipeline *p, struct event *ev);
/* The event with this hash as the done channel told of it; NULL if it did not, or may not be believed now. */
const struct done *pipeline_find_done(const struct pipeline *p, const struct id_hash *hash);
/* ev waits for the one who has claimed it. */
void pipeline_hold(struct pipeline *p, struct event *ev);
void pipeline_take_claim(struct pipeline *p, struct event *ev);
/* A new event: claims it, or leaves it to the leader of its source. is_ours: nobody else gets it, or a producer waits
 * for its ack. */
void pipeline_claim_or_defer(struct pipeline *p, struct event *ev, bool is_ours);
/* Claims or defers the events for which others with their keys have settled. */
void pipeline_take_turns(struct pipeline *p);
/* Another copy of ev has come, from this source: claims ev if it was left to another leader, and we lead this source.
 */
void pipeline_lead(struct pipeline *p, struct event *ev, const char *source);
/* Milliseconds until one of the events that the done channel may tell of is due; -1: there is none. */
int64_t pipeline_left_wait(const struct pipeline *p);
/* Rests if nothing can be stored, and works again if it can. */
void pipeline_check_stall(struct pipeline *p);
/* Of a listener that rests: one of the events that it has left to others finds out how Postgres is. */
void pipeline_probe(struct pipeline *p);
/* Gives back the claims of all events that are left. */
void pipeline_release_left(struct pipeline *p);
/* Settles, claims or stores what has waited long enough for others. */
void pipeline_check_held(struct pipeline *p);
void pipeline_renew_leases(struct pipeline *p);
/* Can rows be stored? */
void pipeline_watch(struct pipeline *p);
/* Callbacks of claim.h. */
void pipeline_on_claimed(void *arg, struct event *ev, enum claim_result result);
void pipeline_on_owner_gone(void *arg, uint16_t owner);
size_t pipeline_on_done(void *arg, struct done *events, size_t n);

/* pipeline_store.c */
/* Gives the store what is due, if it is idle. */
void pipeline_store_next(struct pipeline *p);
/* Milliseconds for which a batch is still to grow. */
int64_t pipeline_store_wait(struct pipeline *p);
/* Another message with the id of ev, which was refused or put off, is tried in its place: the backoff is for a message,
 * and what was wrong may be in its bytes. Returns false if each was tried as often as ev. */
bool pipeline_try_other(struct pipeline *p, struct event *ev);
/* Is there nothing to wait for before the end? The cursors and the last check-in are sent only if Postgres is there. */
bool pipeline_has_left(struct pipeline *p);
/* Tells the log, at its beginning, once a minute and at its end, that rows wait because the store is slow. */
void pipeline_check_slowness(struct pipeline *p);
void pipeline_open_writer(struct pipeline *p, struct writer *w);
void pipeline_close_writer(struct writer *w);
/* Closes the second connection where it is of no use, or in the way of the first one. */
void pipeline_check_second(struct pipeline *p);
/* It is time for a check-in. One that is late is not waited for any longer. */
void pipeline_on_checkin_due(struct pipeline *p);
/* Callback of store.h. */
void pipeline_on_second_closed(void *arg);

#endif
