/* roster.h: the listeners of a fleet, as each reports itself. No I/O; time is an argument (loop clock). */
#ifndef WSONCE_ROSTER_H
#define WSONCE_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROSTER_MAX      256 /* listeners; a further one replaces the one seen longest ago */
#define ROSTER_NAME_MAX 300 /* bytes of a name; no listener has a longer one */
/* A listener that cannot store for longer does not count as a reader. By then all have noticed a Postgres that hangs.
 */
#define ROSTER_UNABLE_MS  40000
#define ROSTER_SUSPECT_MS 4000 /* how long a suspect does not lead: by then a dead listener is no longer listed */

enum peer_state {
	PEER_WORKING,
	PEER_PASSIVE, /* cannot store, so it leaves events to the others */
	PEER_DRAINING,
};

/* A listener's report on a source. */
struct heard {
	uint64_t id;
	bool may_lead;     /* its events arrive, and no later than at other listeners */
	bool is_dialled;   /* the listener may read it; false: producers send it, and the rest is unknown */
	bool is_open;      /* it is connected */
	bool is_failing;   /* it should be, was not for ten seconds, and no connection has been a success since */
	int64_t open_s;    /* for how many seconds, at most ROSTER_OPEN_MOST_S */
	uint32_t messages; /* messages so far, modulo 2^30 */
	int64_t quiet_ms;  /* time since the last one; ROSTER_QUIET_MOST_MS: longer, or none yet */
	uint32_t ahead;    /* messages since our own last one; used by roster_is_silent() */
};

#define ROSTER_OPEN_MOST_S   63
#define ROSTER_QUIET_MOST_MS INT64_C(26214300)
#define ROSTER_HEARD_SIZE    21 /* bytes of one report */

/* Another listener. */
struct peer {
	char *name; /* how its claims begin: instance, a dot, its nonce and @ */
	size_t len;
	uint64_t seed;        /* a hash of the name */
	uint64_t reader_seed; /* a hash of the instance without the nonce: the same after a restart */
	bool is_alive;        /* alive, by the last answer */
	char client[40];      /* from redis_client(); "": unknown */
	enum peer_state state;
	int64_t unable_ms;     /* since when it says that it cannot store; 0: it can */
	struct heard *sources; /* sorted by id */
	size_t source_count;
	int64_t since_ms;   /* when one first named it */
	int64_t met_ms;     /* when a claim or an answer last named it */
	int64_t waited_ms;  /* when an event last waited for it; 0: never */
	int64_t suspect_ms; /* when it was last found not to store; 0: never */
};

struct roster {
	struct peer peers[ROSTER_MAX];
	size_t count;
};

/* Returns the number, from 1, of the listener with this name, and adds it if it is new. A number is reused only when
 * its listener has not been seen for a long time. */
uint16_t roster_find(struct roster *r, const char *name, size_t len, int64_t now_ms);

/* Returns the listener with this number, or NULL. */
struct peer *roster_peer(struct roster *r, uint16_t number);

/* Call when an answer starts: only listeners that are noted from now on are alive. */
void roster_begin(struct roster *r);
/* Reads the report of a live listener: "2 CLIENT STATE DATABASE VERSION SOURCES", a line end, and why it cannot store.
 * CLIENT and DATABASE are - if unknown, STATE is w, p or d, and SOURCES are as roster_write() writes them, without
 * blanks. Other texts only mean that it is alive. */
void roster_note(struct roster *r, const char *name, size_t name_len, const char *said, size_t len, int64_t now_ms);
/* Writes the report on a source: ROSTER_HEARD_SIZE digits in base 64 (0 to 9, A to Z, a to z, -, _). 11 are the id; 1
 * has flags (1: may lead; 2: dialled; 4: open; 8: failing); 1 is open_s; 5 the messages; 3 quiet_ms in 0.1 s. */
void roster_write(char *text, const struct heard *s);
/* Returns a listener's report on this source, or NULL. */
struct heard *roster_source(const struct peer *p, uint64_t id);
/* Sets found to the id of another database that a listener reports, or "". Returns true if that listener drains. */
bool roster_other_database(const char *said, size_t len, const char *ours, char found[40]);

/* True if some listener that is alive cannot store. */
bool roster_has_trouble(const struct roster *r);
/* True if another listener that dials this source can store, as it says. */
bool roster_has_able(const struct roster *r, uint64_t source);

/* Returns how many listeners are alive. */
size_t roster_alive(const struct roster *r);

/* Returns the leader of a source: by rendezvous hashing (hash_score()), the first of the listeners that are alive,
 * working, not suspected, and hear it. Listeners that know the same peers choose the same leader, and the sources of
 * one that leaves spread over the others. NULL means the listener with own_seed, whatever is known about it. */
struct peer *roster_leader(struct roster *r, uint64_t source, uint64_t own_seed, int64_t now_ms);

/* --- readers: where --readers says how many listeners read a source --- */

/* Returns the seed of this name, which stays the same after a restart. */
uint64_t roster_reader_seed(const char *name, size_t len);
/* True if the listener with this seed is a reader of a source: by rendezvous hashing, one of the first of all that may
 * read it. If it can store itself (is_able), those that cannot don't count. Each one that cannot connect has a
 * substitute, which has none: if the feed is down, twice as many try. */
bool roster_is_reader(const struct roster *r, uint64_t source, uint64_t reader_seed, size_t readers, bool is_able);
/* True if all other readers read it, but for those that have substitutes. Each must have been connected for five
 * seconds. A reader without messages counts only if our connection has been quiet for as long, since there may be no
 * messages. */
bool roster_is_read(const struct roster *r, uint64_t source, size_t readers, int64_t quiet_ms);

/* --- silence: our connection brings nothing, though others hear the source --- */

/* The state of roster_is_silent() for one of our connections; starts as all zeros. */
struct vigil {
	int64_t since_ms; /* last message, or the connection's start if that is later */
	uint64_t messages;
	int64_t usual_ms;    /* usual interval between messages; 0: unknown */
	uint64_t beside;     /* messages of the source that our other connections brought; the caller sets it */
	uint64_t began;      /* beside when the count began */
	uint32_t heard;      /* since then, messages of the listener that has heard most */
	unsigned int rounds; /* number of rounds in which that listener heard some */
	int64_t round_ms;    /* the last of those rounds */
	bool is_counting;    /* all reports are newer than since_ms */
};

/* Call after each answer. Returns true if our connection is silent: another listener has counted ten messages since our
 * last one, over at least two seconds, and our last one is older than three seconds and five usual intervals. So
 * messages that a listener reads late, or receives right after it connects, do not count. open_ms: when our connection
 * was opened; 0 if there is none, it is not read, or others get other messages. last_ms: its last message; messages:
 * all so far. asked_ms: when the answer was requested. */
bool roster_is_silent(struct roster *r, uint64_t source, struct vigil *v, int64_t open_ms, int64_t last_ms,
		      uint64_t messages, int64_t asked_ms);

void roster_free(struct roster *r);

#endif
