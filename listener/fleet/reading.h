/* reading.h: the sources that this listener dials: what it says of them, with --readers whose turn it is to read
 * them, and which are silent here while others hear them. No I/O; time is an argument (loop clock). */
#ifndef WSONCE_READING_H
#define WSONCE_READING_H

#include "config/config.h"
#include "fleet/roster.h"

struct readings;

/* What this listener has of a source. Times are of the loop clock; 0: never. */
struct reading {
	int64_t open_ms; /* when its connection was opened; 0: it has none */
	uint64_t messages;
	int64_t last_ms; /* of the last message */
	bool is_paused;  /* the connection is not read, so that its silence says nothing */
	bool is_alone;   /* other listeners do not get the same messages */
};

/* A connection that brings nothing, though other listeners hear the source. */
struct silence {
	int64_t since_ms;     /* loop clock */
	uint64_t heard;       /* messages since then, by another listener */
	unsigned int redials; /* because of it, so far */
	bool is_told;         /* the log should say so: at first, and then once a minute */
	bool is_redialled;    /* it is to be closed and dialled again now */
};

/* Called from the loop. Sources are counted from 0 as in the settings: plain URLs first, then feeds; each line of a
 * feed that has several is counted. */
struct reading_owner {
	struct reading (*on_ask)(void *arg, size_t i);
	/* With --readers: source i is to be read from now on, or not any more; in turn, the first time true. */
	void (*on_turn)(void *arg, size_t i, bool is_ours);
	/* Source i is silent here; s lives for the call. NULL: it has brought a message again, or is left to others. */
	void (*on_silent)(void *arg, size_t i, const struct silence *s);
	void *arg;
};

/* name: as in struct peer, of this listener; copied. */
struct readings *readings_new(const struct config *config, const char *name, int64_t now_ms);
void readings_free(struct readings *all);

/* From now on owner, which is copied, is asked and told; NULL: nobody is. Until then nothing is said of the sources. */
void readings_set_owner(struct readings *all, const struct reading_owner *owner);

/* What names a source to the fleet: the same in each process, whoever the feed knows it as. name: a profile's, or "".
 */
uint64_t readings_source_id(const char *url, const char *name);
/* The number of the dialled source that events have this name from, of its first line; or readings_count(). */
size_t readings_find(const struct readings *all, const char *name);
size_t readings_count(const struct readings *all);
uint64_t readings_id(const struct readings *all, size_t i);

/* Events of source i have come, so that this listener may lead it: the next readings_write() says so. Returns false if
 * nothing is said of dialled sources. */
bool readings_may_lead(struct readings *all, size_t i);
/* Writes what the next beat says of all dialled sources. Returns the end; text has room for ROSTER_HEARD_SIZE bytes of
 * each. */
char *readings_write(struct readings *all, char *text, int64_t now_ms);

/* The others say what roster has; asked_ms: when they were asked. */
void readings_judge(struct readings *all, struct roster *roster, int64_t asked_ms, int64_t now_ms);
/* To be called each second: without an answer for five seconds, everybody reads everything. Also finds out that a
 * source brings messages again. */
void readings_tick(struct readings *all, int64_t now_ms);
/* Has it been found out, at least once, which sources are this listener's to read? */
bool readings_know(const struct readings *all);
/* NULL: source i is not silent, as far as is known. */
const struct silence *readings_silence(const struct readings *all, size_t i);

#endif
