/* roster.h: the listeners of a fleet, as each says of itself. No I/O; time is an argument (loop clock). */
#ifndef WSONCE_ROSTER_H
#define WSONCE_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROSTER_MAX        256  /* listeners; a further one takes the place of the one met longest ago */
#define ROSTER_NAME_MAX   300  /* bytes of a name; longer ones are not ours */
#define ROSTER_SUSPECT_MS 4000 /* for so long a suspect does not lead: then a dead one is not listed any more */

enum peer_state {
	PEER_WORKING,
	PEER_PASSIVE, /* cannot store, and leaves events to the others */
	PEER_DRAINING,
};

/* What a listener says of a source. */
struct heard {
	uint64_t id;
	bool may_lead;     /* its events come, and no later than another listener's */
	bool is_dialled;   /* the listener may read it; of the others, which producers send, the rest is not known */
	bool is_open;      /* it has a connection, */
	int64_t open_s;    /* for so long, at most ROSTER_OPEN_MOST_S */
	uint32_t messages; /* so far, modulo 2^30, */
	int64_t quiet_ms;  /* and since the last one; ROSTER_QUIET_MOST_MS: longer, or there was none */
	uint32_t ahead;    /* messages since ours brought the last one, by roster_is_silent() */
};

#define ROSTER_OPEN_MOST_S   63
#define ROSTER_QUIET_MOST_MS INT64_C(26214300)
#define ROSTER_HEARD_SIZE    21 /* bytes of one in what a listener says */

/* Another listener. */
struct peer {
	char *name; /* what its claims begin with: instance, a dot, its nonce and @ */
	size_t len;
	uint64_t seed;        /* a hash of the name */
	uint64_t reader_seed; /* a hash of the instance alone, which stays the same when it starts again */
	bool is_alive;        /* as of the last answer */
	char client[40];      /* as redis_client() says it; "": unknown */
	enum peer_state state;
	struct heard *sources; /* sorted by id */
	size_t source_count;
	int64_t met_ms;     /* when it was last named */
	int64_t waited_ms;  /* when an event last waited for it; 0: never */
	int64_t suspect_ms; /* when it was last seen not to store; 0: never */
};

struct roster {
	struct peer peers[ROSTER_MAX];
	size_t count;
};

/* The number, from 1, of the listener with this name, which is added if it is new. A number stays the same until the
 * listener has not been met for so long that another one takes its place. */
uint16_t roster_find(struct roster *r, const char *name, size_t len, int64_t now_ms);

/* Returns the listener with this number, or NULL. */
struct peer *roster_peer(struct roster *r, uint16_t number);

/* An answer begins: nobody is alive but those that are noted from now on. */
void roster_begin(struct roster *r);
/* A live listener says this of itself: "2 CLIENT STATE DATABASE VERSION SOURCES", a line end, and why it cannot store.
 * CLIENT and DATABASE are - if unknown, STATE is one of w, p and d, and SOURCES are as roster_write() writes them,
 * without blanks. Other texts say only that it is alive. */
void roster_note(struct roster *r, const char *name, size_t name_len, const char *said, size_t len, int64_t now_ms);
/* Writes what a listener says of a source: ROSTER_HEARD_SIZE digits to the base 64 (0 to 9, A to Z, a to z, -, _).
 * 11 are the id; 1 has flags (1: may lead; 2: dialled; 4: open); 1 is open_s; 5 are the messages; 3 are tenths of a
 * second of quiet_ms. */
void roster_write(char *text, const struct heard *s);
/* What a listener has said of this source; NULL: nothing. */
const struct heard *roster_source(const struct peer *p, uint64_t id);
/* The id of a database other than ours that a listener says it uses, in found; "" if it says none. */
void roster_other_database(const char *said, size_t len, const char *ours, char found[40]);

/* How many listeners are alive. */
size_t roster_alive(const struct roster *r);

/* Returns the leader of a source: the first by rendezvous hashing (hash_score()) of those that are alive, working, no
 * suspects, and hear it. All that know the same listeners choose the same one, and the sources of one that leaves are
 * spread over the others. NULL: it is the listener with this seed, whatever is known of that one. */
struct peer *roster_leader(struct roster *r, uint64_t source, uint64_t own_seed, int64_t now_ms);

/* --- readers: where --readers says how many listeners read a source --- */

/* What a listener of this name has in common with itself after a restart. */
uint64_t roster_reader_seed(const char *name, size_t len);
/* Is the listener with this seed among the readers of a source? They are the first of all that may read it, by
 * rendezvous hashing. */
bool roster_is_reader(const struct roster *r, uint64_t source, uint64_t reader_seed, size_t readers);
/* Do all other readers read it? Each must have had a connection for five seconds. One that has brought nothing counts
 * only if ours has been quiet for as long: there may be nothing to bring. */
bool roster_is_read(const struct roster *r, uint64_t source, size_t readers, int64_t quiet_ms);

/* --- silence: our connection brings nothing, though others hear the source --- */

/* What roster_is_silent() keeps of a connection of ours; zero at first. */
struct vigil {
	int64_t since_ms; /* of the last message, or of the connection if that is later */
	uint64_t messages;
	int64_t usual_ms;    /* between two messages; 0: unknown */
	uint64_t beside;     /* messages of the source that other connections of ours brought; the caller sets it */
	uint64_t began;      /* beside at the beginning of the count */
	uint32_t heard;      /* by the listener that has heard most since then, or by those connections, */
	unsigned int rounds; /* in so many seconds, */
	int64_t round_ms;    /* and in which last */
	bool is_counting;    /* what others say is of a time after since_ms */
};

/* To be called after each answer. Is our connection silent? It is if another listener has counted ten messages since
 * ours brought the last one, over two seconds at least, and that was three seconds and five usual intervals ago. So
 * what a listener reads late, or is sent when it connects, does not count. open_ms: when our connection was opened, 0
 * if there is none, or it is not read, or others get other messages. last_ms and messages: of its last message, and of
 * all so far. asked_ms: when the others were asked. */
bool roster_is_silent(struct roster *r, uint64_t source, struct vigil *v, int64_t open_ms, int64_t last_ms,
		      uint64_t messages, int64_t asked_ms);

void roster_free(struct roster *r);

#endif
