/* world.h: what a history is made of before it begins, and what the world knows while it runs. */
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
	int event; /* -1: it has no id */
	const char *payload;
	size_t payload_len;
	bool is_poison; /* Postgres can never store it, or there is no id */
	unsigned char digest[32];
	unsigned char feed_digest[32]; /* as an event of a feed that a profile describes */
};

enum deed_kind {
	DEED_FEED,    /* a message comes to listeners, the bits of to */
	DEED_PRODUCE, /* a producer, to, sends it and wants an ack */
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
	int number;       /* in the order of making */
	bool is_left_out; /* by the shrinker */
};

enum feed_kind {
	FEED_PLAIN,      /* messages go to listeners, and are not sent again */
	FEED_CURSOR,     /* it sends what is behind a cursor, then what is new */
	FEED_HELD,       /* the same, and what is stored comes newest first */
	FEED_ACKED,      /* each frame goes to one listener, until it is acked */
	FEED_CUMULATIVE, /* the same; an ack is for all before it */
};

struct feed_settings {
	enum feed_kind kind;
	bool is_last; /* the last cursor counts, not the largest */
	int rewind;
	int max_unacked;
	int overlap_s; /* 0: a connection ends before the next one begins */
};

struct settings {
	int listeners;
	int64_t ttl_s, redis_timeout_ms, postgres_timeout_ms, batch_max, max_attempts, drain_ms;
	bool has_redis, has_handler;
	struct feed_settings feed;
	int hooks; /* webhooks */
	int64_t hook_attempts;
	int64_t lasts; /* of the load and the faults */
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

/* The plan of this seed, made at the beginning of the history: from sim_draw(). */
void plan_make(struct plan *plan);
/* No plan has a Redis; else few are without. */
extern bool plans_are_without_redis;
void plan_tell(const struct plan *plan);

/* Lives through the plan; returns when the history is over, and not at all if it is wrong (process_fail). */
void world_run(struct plan *plan);
/* Of the history at hand: when the last fault that concerns everybody ended, and whether this listener is, and has been
 * since then, without a fault of its own. */
int64_t world_wide_until(void);
int64_t world_disturbed_until(int listener);
/* Has the network to Postgres been silent? Then a server cannot know that its clients have left. */
bool world_was_silent(void);
/* When the last fault of Redis as a whole ended. */
int64_t world_redis_until(void);
int64_t world_postgres_until(void);
const struct plan *world_plan(void);
/* The number of the life that this listener lives. */
int world_life(int process);
/* The number of a webhook, by its name, and the other way round. */
int world_hook(const char *name);
const char *world_hook_name(int hook);
/* This listener begins a request to a webhook. */
void world_sends(int process);
int64_t world_touched_until(const char *id);
bool world_may_refuse(const char *id);

/* --- checker.c --- */

void checker_start(const struct plan *plan);
/* A message was handed to a listener; its life is the listener's incarnation. */
void checker_received(int process, int life, int message);
void checker_acked(int process, int message, enum word word);
/* The life ended: in order, with nothing left, or not. */
void checker_ended(int process, int life, bool is_in_order);
/* A request has begun, which ends until then; the receiver has it, and says so. */
void checker_requested(int process, const char *target, const char *id, const char *key, int64_t until);
void checker_taken(const char *target, const char *id, int status);
/* Is there a row of its event now, or a letter of it? */
bool checker_has(int message);
/* The same, or has it been forgotten so lately that nobody need know? */
bool checker_had(int message);
/* Has Postgres forgotten commits so lately that a listener may not know of it, since nothing has answered it? */
bool checker_forgets(void);
/* Bits: the event has had a row; a dead letter. */
unsigned int checker_knows(int event);
/* All has settled: the whole history is judged. */
void checker_finish(void);
/* The rows of this moment are committed in time? Called now and then. */
void checker_look(void);

/* --- cost.c --- */

void cost_start(const struct plan *plan);
/* Judges what sim_cost() counted. */
void cost_finish(void);

#endif
