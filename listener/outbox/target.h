/* target.h: the state of a webhook: what an answer means, when to try again, and when to pause. Each webhook has two
 * targets, its lanes: one for rows without an attempt, one for retries. A lane is paused by its own failures and opened
 * by a success in either lane. No I/O; time is an argument. */
#ifndef WSONCE_TARGET_H
#define WSONCE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log_spell.h"
#include "config/webhook.h"

#define TARGET_FAILURES     5     /* failures in a row before a pause */
#define TARGET_CREDIT       50    /* limit of credit */
#define TARGET_PAUSE_MS     1000  /* the first pause; each further one is twice as long */
#define TARGET_PAUSE_CAP_MS 60000 /* the longest pause, since a receiver that refuses a row makes it dead */
#define TARGET_RETRY_CAP_MS 4000  /* the longest if the row is retried: those behind it may be better */

#define TARGET_IDLE_MS 600000 /* a probe that finds no row for this long ends the spell */

#define TARGET_AHEAD       32        /* limit of leased rows per slot */
#define TARGET_AHEAD_BYTES (4 << 20) /* limit of the bytes in the bodies of leased rows, per target */

enum target_state {
	TARGET_OPEN,    /* takes as many requests as its concurrency allows -> TARGET_PAUSED */
	TARGET_PAUSED,  /* failed too often in a row: leases no rows        -> TARGET_PROBING, TARGET_OPEN */
	TARGET_PROBING, /* the pause is over: one row at a time             -> TARGET_PAUSED, TARGET_OPEN */
};

/* What becomes of an outbox row after an attempt. */
enum target_outcome {
	TARGET_DELIVERED,
	TARGET_RETRY,  /* the row will be tried again */
	TARGET_DEAD,   /* the row is dead */
	TARGET_UNSENT, /* the request did not begin, so this does not count as an attempt */
	TARGET_GONE,   /* 410: as if unsent, and the webhook is paused in the database until an operator resumes it */
	TARGET_OUTCOMES,
};

/* How an attempt ended. */
struct target_answer {
	int status;             /* HTTP status; 0: no answer */
	int64_t retry_after_ms; /* from Retry-After, at most six hours; 0: none */
	const char *reason;     /* for the log; NULL: none */
	bool is_local;          /* this host could not make the request */
};

struct target {
	const struct webhook *webhook;
	struct target *other; /* the webhook's other lane */
	bool is_retry;        /* the retry lane, with half of the concurrency */
	enum target_state state;
	unsigned int failures;  /* consecutive failures */
	unsigned int credit;    /* further ones before a pause: five for each success */
	struct log_spell spell; /* of five failures in a row, and of pauses */
	char why[200];          /* the last failure that paused it, without the body of an answer */
	bool is_newest;         /* the probe takes the row that came due last */
	int64_t pause_ms;       /* length of the last pause; 0: none since it was open */
	int64_t resume_ms;      /* loop clock: when TARGET_PAUSED ends */
	size_t at_work;         /* requests in progress */
	size_t rows;            /* rows in these requests */
	size_t probes;          /* requests in progress that began in TARGET_PROBING */
	size_t waiting;         /* leased rows whose request has not begun */
	size_t bytes;           /* bytes of the bodies of all leased rows */
	size_t depth;           /* limit of rows + waiting; 0: as many as one request per slot can have */
	size_t wanted;          /* rows that the current round asks for */
	uint64_t ended[TARGET_OUTCOMES];
};

const char *target_state_name(enum target_state state);
const char *target_outcome_name(enum target_outcome outcome);

/* For operators. target_failing() returns the lane of t's webhook that fails or did within the last ten seconds,
 * the one that began first, or NULL; the others return sums of both lanes. */
const struct target *target_failing(const struct target *t);
size_t target_at_work(const struct target *t);
uint64_t target_ended(const struct target *t, enum target_outcome outcome);

/* Returns how many more requests may begin. Both lanes share the webhook's concurrency. */
size_t target_free_slots(const struct target *t);

/* Returns how many more rows to lease, and stores it in wanted. Starts probing when a pause is over, and
 * logs the end of pauses. */
size_t target_want(struct target *t, int64_t now_ms);

/* Call when a round has leased this many rows, with these bytes. A target that was idle before the round gets more rows
 * next time; one whose rows are still waiting gets fewer. */
void target_supply(struct target *t, size_t rows, size_t bytes);

/* Returns how many rows may share a request with a row whose attempt has this number (from 1). After each failure it is
 * a tenth as many, so that a row which is always refused is soon alone. */
size_t target_batch(const struct webhook *w, int attempt);

/* Call when a request with this many rows begins. Returns true if it is a probe: pass that to target_end. */
bool target_begin(struct target *t, size_t rows);
void target_end(struct target *t, size_t rows, bool is_probe);

/* True if this status means that the event was accepted. */
bool target_is_success(int status);

/* Changes the state after the answer to a request. In TARGET_PROBING, answers to earlier requests change nothing.
 * random is evenly distributed; a success does not use it. */
void target_hear(struct target *t, const struct target_answer *answer, bool is_probe, int64_t now_ms, uint32_t random);

/* Returns the outcome for one of the rows of that request, whose attempt has this number. Only an answer to a request
 * without other rows makes a row dead. Sets wait_ms to the time until the next attempt. */
enum target_outcome target_take(const struct target *t, const struct target_answer *answer, size_t rows, int attempt,
				uint32_t random, int64_t *wait_ms);

#endif
