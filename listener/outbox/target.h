/* target.h: how a webhook takes its deliveries: what an answer means, when to try again, and when to leave it alone for
 * a while. Each webhook has two targets, its lanes: one for rows without an attempt, one for rows that are tried again.
 * Each is paused by its own failures, and opened by a success of either. No I/O; time is an argument. */
#ifndef WSONCE_TARGET_H
#define WSONCE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/webhook.h"

#define TARGET_FAILURES     5     /* in a row, after which it is paused */
#define TARGET_PAUSE_MS     1000  /* the first pause; doubled with each, */
#define TARGET_PAUSE_CAP_MS 60000 /* up to this */
#define TARGET_RETRY_CAP_MS \
	4000 /* of retries: each row may have to fail several times, as with a receiver that is slow */

#define TARGET_AHEAD       32        /* as many rows may be leased as this times its concurrency, */
#define TARGET_AHEAD_BYTES (4 << 20) /* if their bodies are not larger than this in all */

enum target_state {
	TARGET_OPEN,    /* takes as many requests as its concurrency allows -> TARGET_PAUSED */
	TARGET_PAUSED,  /* failed too often in a row: no row is leased      -> TARGET_PROBING, TARGET_OPEN */
	TARGET_PROBING, /* the pause is over: one row at a time             -> TARGET_PAUSED, TARGET_OPEN */
};

/* What becomes of an outbox row after an attempt. */
enum target_outcome {
	TARGET_DELIVERED,
	TARGET_RETRY,  /* is tried again */
	TARGET_DEAD,   /* never */
	TARGET_UNSENT, /* the request was not begun, so it is no attempt */
	TARGET_OUTCOMES,
};

/* How an attempt ended. */
struct target_answer {
	int status;             /* of HTTP; 0: there was no answer */
	int64_t retry_after_ms; /* asked for by the answer, six hours at most; 0: nothing */
	const char *reason;     /* for the log; NULL: none */
	bool is_local;          /* no request could be made, for a reason on this side */
};

struct target {
	const struct webhook *webhook;
	struct target *other; /* the webhook's other lane */
	bool is_retry;        /* the lane of rows that are tried again, which has half of the concurrency */
	enum target_state state;
	unsigned int failures; /* in a row */
	int64_t pause_ms;      /* the last pause; 0: none since the target was open */
	int64_t resume_ms;     /* TARGET_PAUSED ends, by the loop clock */
	size_t at_work;        /* requests, */
	size_t probes;         /* and those among them that began while it was probed */
	size_t waiting;        /* rows that are leased and not yet at work */
	size_t bytes;          /* of the bodies of all these */
	size_t depth;          /* both of them together, at most; 0: the concurrency */
	size_t wanted;         /* rows that the round at hand asks for */
	uint64_t ended[TARGET_OUTCOMES];
};

const char *target_state_name(enum target_state state);
const char *target_outcome_name(enum target_outcome outcome);

/* For operators: of both lanes of t's webhook. It is not open if one of them is not. */
enum target_state target_webhook_state(const struct target *t);
size_t target_at_work(const struct target *t);
uint64_t target_ended(const struct target *t, enum target_outcome outcome);

/* How many more requests may begin. Both lanes together have no more than the webhook's concurrency. */
size_t target_free_slots(const struct target *t);

/* How many more rows to lease, which is kept as wanted. Ends a pause that is over. */
size_t target_want(struct target *t, int64_t now_ms);

/* A round has brought so many of the wanted rows, which wait now, with so many bytes to send. A target that answers
 * faster than rounds bring rows gets more of them at once the next time, one whose rows wait gets fewer. */
void target_supply(struct target *t, size_t rows, size_t bytes);

/* A request begins; tells whether it is a probe, which is to be told again when it ends. */
bool target_begin(struct target *t);
void target_end(struct target *t, bool is_probe);

/* Was the event taken, by the status of an answer? */
bool target_is_success(int status);

/* Takes the answer to attempt number attempt (from 1) of a row, and tells what becomes of the row; with
 * TARGET_RETRY, wait_ms is the time until the next attempt. While the target is probed, the answers to requests that
 * began before say nothing of it. random is any evenly distributed number; a success needs none. */
enum target_outcome target_take(struct target *t, const struct target_answer *answer, int attempt, bool is_probe,
				int64_t now_ms, uint32_t random, int64_t *wait_ms);

#endif
