/* sim.h: the core of the simulator: one virtual clock, one stream of random numbers, processes that live on them, and
 * what the played servers owe to the checker.
 *
 * Whole listeners run in this one process: all of listener/ but main, intake, net and commands, with the program's own
 * redis/connection.c and postgres/connection.c. What is played lies below them:
 *
 *     uv.c         libuv: loops, timers, prepare, poll        (the few functions that road/ uses)
 *     redis.c      hiredis's sockets, and SimRedis behind them (bytes of RESP; hiredis's own reader reads the answers)
 *     postgres.c   libpq: every PQ function that postgres/ calls, hangup(), and SimPostgres behind them
 *     world.c      feeds, producers, faults
 *     checker.c    the oracles, which share no code with the program
 *
 * Nothing here reads a real clock, an address or a file, so the same seed gives the same history. */
#ifndef WSONCE_SIM_H
#define WSONCE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the clock and its events --- */

/* Microseconds since the history began. */
int64_t sim_now(void);

/* The wall clock at sim_now() as the servers see it, in microseconds since 1970. */
int64_t sim_wall(void);

/* fn(arg) is called after delay_us, as nobody's (sim_self() is SIM_NOBODY). Of events of the same time, chance decides
 * which comes first. */
void sim_at(int64_t delay_us, void (*fn)(void *arg), void *arg);

/* --- chance: one stream for the whole history --- */

uint64_t sim_draw(void);

/* 0 to n - 1; n is not 0. */
static inline uint64_t sim_below(uint64_t n)
{
	return sim_draw() % n;
}

static inline int64_t sim_between(int64_t least, int64_t most)
{
	return least + (int64_t)sim_below((uint64_t)(most - least) + 1);
}

static inline bool sim_chance(int in_a_thousand)
{
	return sim_below(1000) < (uint64_t)in_a_thousand;
}

/* --- memory of the simulator: zeroed, and gone with the history. There is nothing to free. --- */

void *sim_alloc(size_t size);
char *sim_copy(const char *bytes, size_t len); /* with a NUL behind it */
char *sim_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- processes --- */

#define SIM_NOBODY    (-1)
#define SIM_LISTENERS 8
#define SIM_PROCESSES SIM_LISTENERS

/* Which listener's code is running, or SIM_NOBODY. A restarted listener has the number of the one before. */
int sim_self(void);
/* The name of a process in stories: "listener 2"; of SIM_NOBODY, "the world". */
const char *sim_name(int process);

/* --- the network: what a message between a listener and a server meets --- */

enum sim_server { SIM_REDIS, SIM_POSTGRES, SIM_SERVERS };

enum sim_link {
	SIM_LINK_UP,
	SIM_LINK_CUT,    /* connections are refused; those that are there were ended (sim_fd_cut) when it began */
	SIM_LINK_SILENT, /* what is sent is lost, both ways, and nobody is told: no answer, no refusal */
};

enum sim_link sim_link(int process, enum sim_server server);

/* For how long one message is on its way, in microseconds: short, but for slow links and rare stragglers. A stream must
 * keep its order itself: see sim_fd_later(). */
int64_t sim_travel(int process, enum sim_server server);

/* --- played sockets: what uv_poll watches --- */

#define SIM_READABLE 1 /* as UV_READABLE */
#define SIM_WRITABLE 2 /* as UV_WRITABLE; uv_poll reports it only while it is set */

/* A socket of the process that runs, with no flag set. on_gone is called, as nobody's, when the process dies, or when
 * the link is cut: the server's end. It is not called after sim_fd_close(). */
int sim_fd_open(enum sim_server server, void (*on_gone)(void *arg, bool is_killed), void *arg);
void sim_fd_set(int fd, int flags);   /* adds; the process' loop wakes */
void sim_fd_clear(int fd, int flags); /* takes away */
void sim_fd_close(int fd);
/* Calls fn(arg), as nobody's, when a message that is sent now over this socket has arrived at the other end: never
 * before one that was sent earlier in the same direction (to_server). Not at all if the socket has been closed at the
 * receiving end (!to_server), or the link is silent when it is sent. */
void sim_fd_later(int fd, bool to_server, void (*fn)(void *arg), void *arg);
bool sim_fd_is_open(int fd);

/* --- the history: one line of text for each thing that happened --- */

/* "12.345678 listener 1: " and the text. No addresses, no real time. Costs little unless the history is shown: only a
 * digest is kept. */
void sim_log(int process, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- coverage: which state met which answer or fault --- */

/* Static strings. The table at the end counts each pair ("postgres", "40001 in a function", ...). */
void sim_reached(const char *what, const char *met);

/* --- the played servers --- */

struct sim_fault {
	const char *name; /* as a story tells it: "postgres: a trigger raises 40001 for one id" */
	int weight;       /* how often it is drawn among the others; 10 is usual */
	/* Begins now and ends by itself after lasts_us (where it lasts). draw decides all else about it: the same draw
	 * and length give the same fault, so that a shrunk history keeps those that it keeps. It must not call
	 * sim_draw() to decide what it does: struct sim_dice below. */
	void (*begin)(uint64_t draw, int64_t lasts_us);
	/* It concerns one listener, or none. One that calls sim_touches() for single events when it begins concerns
	 * these alone, whatever stands here: the others must be stored meanwhile, as if there were no fault. */
	bool is_narrow;
};

/* A fault, narrow or not, may keep the events whose id begins so from being stored until now + lasts_us; and, if
 * may_refuse, their messages may become dead letters. "" is every event. */
void sim_touches(const char *id_prefix, int64_t lasts_us, bool may_refuse);

/* Random numbers of a fault's own: dice_below(&draw, n) changes draw. */
uint64_t sim_dice(uint64_t *draw, uint64_t n);

/* postgres.c. start: an empty database with our schema, at the beginning of each history; all state of the last one is
 * forgotten (its memory was sim_alloc's). calm: whatever fault is on ceases now, locks of others are released, a
 * crashed server comes up. */
void sim_postgres_start(void);
void sim_postgres_calm(void);
extern const struct sim_fault sim_postgres_faults[]; /* ends with a name of NULL */

/* redis.c, likewise. */
void sim_redis_start(void);
void sim_redis_calm(void);
extern const struct sim_fault sim_redis_faults[];

/* receiver.c, likewise. */
void sim_receiver_start(void);
void sim_receiver_calm(void);
extern const struct sim_fault sim_receiver_faults[];

/* The machine of each server goes, with what was not on its disk, and another one takes its place; no connection is
 * ended in order. */
extern const struct sim_fault sim_redis_machine, sim_postgres_machine;

/* Of fleets with a handler. */
extern const struct sim_fault sim_handler_faults[];

/* What operators do to deliveries: postgres_faults.c. */
extern const struct sim_fault sim_operator_faults[];

/* Ids that the world uses in this history, so that a fault can choose one: an event's id, or a prefix that a trigger
 * looks at. Lives as long as the history. */
size_t sim_id_count(void);
const char *sim_id(size_t i);

/* --- what the checker is told, at the moment at which it becomes true --- */

/* postgres.c tells: a transaction that the server has committed has stored this row, or letter. process is whose
 * statement it was. payload is the text that jsonb was given. */
void sim_committed_row(int process, const char *id, size_t id_len, const char *payload, size_t len);
void sim_committed_letter(int process, const unsigned char digest[32], const char *id, size_t id_len,
			  const char *reason);
/* The feed's cursor is stored: JSON. */
void sim_committed_cursor(int process, const char *value);
/* The handler ran for this row, in the transaction that was committed with it. */
void sim_committed_effect(int process, const char *id, size_t id_len);
/* The database lost what it had committed: these are gone from it. A crash without durable commits, or a standby that
 * was promoted. */
/* A transaction was committed in a session that a handler has changed. */
void sim_committed_changed(int process);
void sim_forgot_row(const char *id, size_t id_len);
void sim_forgot_cursor(void);
void sim_forgot_letter(const unsigned char digest[32]);

/* A row of the outbox was committed in this state; was: NULL, it is new. It is leased until then, by sim_now(). */
void sim_committed_delivery(int process, const char *target, const char *id, const char *was, const char *is);
void sim_committed_lease(int process, const char *target, const char *id, int64_t until);
/* Postgres could not read a row that was to be leased. */
void sim_lease_refused(void);
void sim_forgot_delivery(const char *target, const char *id);
/* How many are pending. */
int sim_outbox_open(void);

/* postgres.c answers the checker, at any moment: is there a committed row, and with which payload? NULL: none. */
const char *sim_row(const char *id, size_t id_len, size_t *payload_len);
bool sim_has_letter(const unsigned char digest[32]);
/* A statement of this process was ended because it and another one waited for each other. */
void sim_deadlocked(int process);
/* A statement of this process with so many rows was ended by statement_timeout. */
void sim_took_too_long(int process, size_t rows);
/* The servers did this so many times, for whomever: see cost.c. */
void sim_cost(const char *name, size_t n);
/* Backends that are there now, for the bound on them. */
int sim_backends(void);

#endif
