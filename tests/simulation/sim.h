/* sim.h: the core of the simulator: one virtual clock, one stream of random numbers, processes that live on them, and
 * what the played servers owe to the checker.
 *
 * Whole listeners run in this one process: all of listener/ but main, intake, net and commands, with the program's own
 * redis/connection.c, postgres/connection.c and spool/disk.c. What is played lies below them:
 *
 *     uv.c         libuv: loops, timers, prepare, poll        (the few functions that the way of an event uses)
 *     redis.c      hiredis's sockets, and SimRedis behind them (bytes of RESP; hiredis's own reader reads the answers)
 *     postgres.c   libpq: every PQ function that postgres/ calls, postgres_cancel(), and SimPostgres behind them
 *     files.c      the calls of the kernel that the spool makes
 *     world.c      feeds, producers, faults
 *     checker.c    the oracles, which share no code with the program
 *
 * Nothing here reads a real clock, an address or a real file, so the same seed gives the same history. */
#ifndef WSONCE_SIM_H
#define WSONCE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the clock and its events --- */

/* Microseconds since the start of the history. */
int64_t sim_now(void);

/* The wall clock at sim_now() as the servers see it, in microseconds since 1970. */
int64_t sim_wall(void);

/* Calls fn(arg) after delay_us, as nobody (sim_self() is SIM_NOBODY). Simultaneous events run in random order. */
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

/* --- memory of the simulator: zeroed, and freed with the history --- */

void *sim_alloc(size_t size);
char *sim_copy(const char *bytes, size_t len); /* followed by a NUL */
char *sim_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- processes --- */

#define SIM_NOBODY    (-1)
#define SIM_LISTENERS 8
#define SIM_PROCESSES SIM_LISTENERS

/* The listener whose code is running, or SIM_NOBODY. A restarted listener keeps its number. */
int sim_self(void);
/* The name of a process in the log: "listener 2", or "the world" for SIM_NOBODY. */
const char *sim_name(int process);

/* --- the network between a listener and a server --- */

enum sim_server { SIM_REDIS, SIM_POSTGRES, SIM_SERVERS };

enum sim_link {
	SIM_LINK_UP,
	SIM_LINK_CUT,    /* new connections are refused; existing ones were ended (sim_fd_cut) when it began */
	SIM_LINK_SILENT, /* messages are lost in both directions, without an error */
};

enum sim_link sim_link(int process, enum sim_server server);

/* The travel time of one message in microseconds: short, except on slow links and for rare stragglers. The caller
 * keeps a stream in order; see sim_fd_later(). */
int64_t sim_travel(int process, enum sim_server server);

/* --- simulated sockets, which uv_poll watches --- */

#define SIM_READABLE 1 /* as UV_READABLE */
#define SIM_WRITABLE 2 /* as UV_WRITABLE; uv_poll reports it only while it is set */

/* A socket of the current process, with no flags set. on_gone is the server's end: it is called as nobody when the
 * process dies or the link is cut, but not after sim_fd_close(). */
int sim_fd_open(enum sim_server server, void (*on_gone)(void *arg, bool is_killed), void *arg);
void sim_fd_set(int fd, int flags);   /* adds flags and wakes the process's loop */
void sim_fd_clear(int fd, int flags); /* clears flags */
void sim_fd_close(int fd);
/* Calls fn(arg) as nobody when a message sent now over this socket arrives at the other end, never before an earlier
 * message in the same direction. Never calls it if the receiving end (!to_server) was closed, or the link is silent
 * when the message is sent. */
void sim_fd_later(int fd, bool to_server, void (*fn)(void *arg), void *arg);
bool sim_fd_is_open(int fd);

/* --- the history: a log with one line per event --- */

/* Logs "12.345678 listener 1: " and the text. No addresses, no real time. Cheap unless the history is printed: only a
 * digest is kept. */
void sim_log(int process, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- coverage: states and the answers or faults they met --- */

/* what and met are string literals. The table at the end counts each pair ("postgres", "40001 in a function", ...). */
void sim_reached(const char *what, const char *met);

/* --- the played servers --- */

struct sim_fault {
	const char *name; /* for the log: "postgres: a trigger raises 40001 for one id" */
	int weight;       /* relative probability; 10 is usual */
	/* Starts the fault, which ends by itself after lasts_us (if it lasts). draw decides everything else: the same
	 * draw and length give the same fault, so that shrinking keeps the remaining faults. Use sim_dice() below, not
	 * sim_draw(). */
	void (*begin)(uint64_t draw, int64_t lasts_us);
	/* Affects one listener or none. A fault that calls sim_touches() for single events when it begins affects only
	 * these: all others must be stored meanwhile, as if there were no fault. */
	bool is_narrow;
};

/* Until now + lasts_us, the fault may keep events whose id has this prefix ("" is every event) from being stored. If
 * may_refuse, their messages may become dead letters. */
void sim_touches(const char *id_prefix, int64_t lasts_us, bool may_refuse);

/* Random numbers for one fault: dice_below(&draw, n) advances draw. */
uint64_t sim_dice(uint64_t *draw, uint64_t n);

/* postgres.c. start: an empty database with our schema, at the beginning of each history; forgets all earlier state,
 * whose memory came from sim_alloc. calm: ends all faults, releases locks of others, restarts a crashed server. */
void sim_postgres_start(void);
void sim_postgres_calm(void);
extern const struct sim_fault sim_postgres_faults[]; /* ends with a name of NULL */

/* The same for redis.c. */
void sim_redis_start(void);
void sim_redis_calm(void);
extern const struct sim_fault sim_redis_faults[];

/* The same for receiver.c. */
void sim_receiver_start(void);
void sim_receiver_calm(void);
extern const struct sim_fault sim_receiver_faults[];

/* files.c. */
extern const struct sim_fault sim_disk_faults[];

/* Each server's machine is replaced by another one: data not on its disk are lost, and no connection is closed
 * cleanly. */
extern const struct sim_fault sim_redis_machine, sim_postgres_machine;

/* Faults for fleets with a handler. */
extern const struct sim_fault sim_handler_faults[];

/* Operators change deliveries; in postgres_faults.c. */
extern const struct sim_fault sim_operator_faults[];

/* Ids used in this history, for faults to choose from: an event's id, or a prefix that a trigger checks. They live as
 * long as the history. */
size_t sim_id_count(void);
const char *sim_id(size_t i);

/* From world.c: the number of this listener's current life, which grows with each restart. */
int world_life(int process);

/* --- reports to the checker, at the moment that something becomes true --- */

/* From postgres.c: the transaction that stored this row or letter was committed. process sent the statement. payload
 * is the text given to jsonb. */
void sim_committed_row(int process, int life, const char *id, size_t id_len, const char *payload, size_t len);
void sim_committed_letter(int process, const unsigned char digest[32], const char *id, size_t id_len,
			  const char *reason);
/* The feed's cursor was stored; value is JSON. */
void sim_committed_cursor(int process, const char *value);
/* The handler ran for this row in the committed transaction. */
void sim_committed_effect(int process, const char *id, size_t id_len);
/* The database lost this committed data: a crash without durable commits, or a promoted standby. */
/* A transaction was committed in a session that a handler has changed. */
void sim_committed_changed(int process);
void sim_forgot_row(const char *id, size_t id_len);
void sim_forgot_cursor(void);
void sim_forgot_letter(const unsigned char digest[32]);

/* A row of the outbox was committed in this state. was is NULL for a new row. until (sim_now()) is the end of its
 * lease. */
void sim_committed_delivery(int process, const char *target, const char *id, const char *was, const char *is);
void sim_committed_lease(int process, const char *target, const char *id, int64_t until);
/* Postgres could not read a row to be leased. */
void sim_lease_refused(void);
void sim_forgot_delivery(const char *target, const char *id);
/* The number of pending deliveries. */
int sim_outbox_open(void);

/* From postgres.c, at any time: the payload of the committed row with this id, or NULL. */
const char *sim_row(const char *id, size_t id_len, size_t *payload_len);
/* A statement of this process was cancelled because of a deadlock. */
void sim_deadlocked(int process);
/* A statement of this process with this many rows hit statement_timeout; 0: one was refused before that. */
void sim_took_too_long(int process, size_t rows);
/* The servers did this n times, for all listeners together; see cost.c. */
void sim_cost(const char *name, size_t n);
/* A listener claims an event. */
void sim_claims(int process);
/* The number of backends now, for the bound on it. */
int sim_backends(void);

#endif
