/* world.h: the plan of a history, and the state of the world while it runs. */
#ifndef WSONCE_SIM_WORLD_H
#define WSONCE_SIM_WORLD_H

#include "process.h"

#define EVENTS_MAX    400
#define MESSAGES_MAX  800
#define DEEDS_MAX     4096
#define PRODUCERS_MAX 4
#define HOOKS_MAX     2

enum word { WORD_PERSISTED, WORD_DUPLICATE, WORD_REJECTED };

struct message {
	const char *bytes;
	size_t len;
	int event; /* -1 if it has no id */
	const char *payload;
	size_t payload_len;
	bool is_poison;  /* Postgres can never store it, or it has no id */
	int64_t time_us; /* its time, with max_age_s */
	unsigned char digest[32];
	unsigned char feed_digest[32]; /* digest when received from a feed with a profile */
};

enum deed_kind {
	DEED_FEED,    /* a feed sends a message to the listeners in `to`, a bit mask */
	DEED_PRODUCE, /* producer number `to` sends a message and waits for an ack */
	DEED_FAULT,
};

struct deed {
	enum deed_kind kind;
	int64_t at;
	int message;
	unsigned int to;
	const struct sim_fault *fault;
	uint64_t draw;
	int64_t lasts;
	int number;       /* in order of creation */
	bool is_left_out; /* the shrinker leaves it out */
};

enum feed_kind {
	FEED_PLAIN,      /* sends messages once */
	FEED_CURSOR,     /* sends stored frames after a cursor, then new ones */
	FEED_HELD,       /* the same, but stored frames newest first */
	FEED_ACKED,      /* sends each frame to one listener, until it is acked */
	FEED_CUMULATIVE, /* the same, but an ack covers all frames before it */
};

struct feed_settings {
	enum feed_kind kind;
	bool is_last; /* the last cursor is used, not the largest */
	int rewind;
	int max_unacked;
	int overlap_s; /* 0 if a connection ends before the next one begins */
};

struct settings {
	int listeners;
	int64_t ttl_s, redis_timeout_ms, postgres_timeout_ms, batch_max, max_attempts, drain_ms;
	bool has_redis, has_handler;
	struct feed_settings feed;
	int hooks; /* number of webhooks */
	int64_t hook_attempts;
	bool has_order;    /* by the v of a payload */
	int64_t max_age_s; /* 0: no limit */
	bool has_spool;
	int64_t slow_us; /* how late each answer of Postgres is, while nothing else is wrong; 0: not late */
	int64_t spool_after_ms, spool_sync_ms, inflight_bytes;
	int64_t lasts; /* duration of the load and the faults */
};

struct plan {
	struct settings settings;
	const char *ids[EVENTS_MAX];
	int events;
	struct message messages[MESSAGES_MAX];
	int message_count;
	struct deed deeds[DEEDS_MAX];
	int deed_count;
};

/* Makes the plan of this seed from sim_draw(), at the beginning of the history. */
void plan_make(struct plan *plan);
/* If set, no plan has a Redis; else few plans have none. */
extern bool plans_are_without_redis;
void plan_tell(const struct plan *plan);

/* Runs the plan. Does not return if the history is wrong (process_fail). */
void world_run(struct plan *plan);
/* When the last fault that affects all listeners ended, and whether this listener runs and has had no fault of its own
 * since. */
int64_t world_wide_until(void);
int64_t world_disturbed_until(int listener);
/* Was the network to Postgres silent at some time? Then a server cannot know that its clients are gone. */
bool world_was_silent(void);
/* Until when what was sent to Postgres in such a silence may arrive there. */
int64_t world_late_until(void);
/* When the last fault of the whole Redis ended. */
int64_t world_redis_until(void);
int64_t world_postgres_until(void);
const struct plan *world_plan(void);
/* The number of a webhook by its name, and the reverse. */
int world_hook(const char *name);
const char *world_hook_name(int hook);
/* This listener starts a request to a webhook. */
void world_sends(int process);
int64_t world_touched_until(const char *id);
bool world_may_refuse(const char *id);

/* --- checker.c --- */

void checker_start(const struct plan *plan);
/* A process of the listener starts: the claims of the one before are those of a dead owner. */
void checker_started(int process);
/* A listener in this life received a message. */
void checker_received(int process, int life, int message);
void checker_acked(int process, int message, enum word word);
/* The life ended; is_in_order if it drained with nothing left. */
void checker_ended(int process, int life, bool is_in_order);
/* Before a life ends by a kill, or because the power goes. */
void checker_died(int process, int life, bool is_dark);
/* Before its disk loses what is not synced. */
void checker_loses_power(int process);
/* Has the message's event ever had a row, or the message a letter? */
bool checker_was_kept(int message);
/* May its record on this listener's disk be torn, since the power was lost before a sync? */
bool checker_is_scrap(int process, int message);
/* The receiver got a request, which ends by `until`. */
void checker_requested(int process, const char *target, const char *id, const char *key, int64_t until);
void checker_taken(const char *target, const char *id, int status);
/* Does the message's event have a row or a letter now? */
bool checker_has(int message);
/* Could a listener believe, for a message that came at this time (sim_now()), a mark of a commit that is forgotten? */
bool checker_trusts_old_marks(int64_t at);
/* Has Postgres lost commits so recently that a listener cannot know, because nothing has answered it since? */
bool checker_forgets(void);
/* Bits: the event had a row; it had a dead letter. */
unsigned int checker_knows(int event);
/* Everything has settled: checks the whole history. */
void checker_finish(void);
/* Checks that rows are committed in time. Called now and then. */
void checker_look(void);

/* --- cost.c --- */

void cost_start(const struct plan *plan);
/* A copy came half a second and more after its event was stored: no leader announces it, so its listener asks. */
void cost_late_copy(void);
/* A dead letter was written. The dead mark of one message says nothing about others with its id. */
void cost_letter(void);
/* Checks what sim_cost() counted. */
void cost_finish(void);

#endif
