/* reading.h: the sources that this listener dials: what beats report about them, whose turn it is to read them
 * (--readers), and which are silent here while others hear them. No I/O; time is an argument (loop clock). */
#ifndef WSONCE_READING_H
#define WSONCE_READING_H

#include "config/config.h"
#include "fleet/roster.h"

struct readings;

/* This listener's connection to a source. Times are of the loop clock; 0: never. */
struct reading {
	int64_t open_ms; /* when it was opened; 0: not connected */
	uint64_t messages;
	int64_t last_ms; /* last message */
	bool is_paused;  /* reading is paused, so silence means nothing */
	bool is_alone;   /* other listeners get other messages */
	bool is_doubted; /* it was silent for too long, or is not confirmed: others had better read, too */
	bool is_talking; /* its subscriptions are not all sent, so others must not leave the source to it yet */
	bool is_idle;    /* reserved for a further shard: nobody dials it */
	bool is_standby; /* left to others */
};

/* A connection that brings nothing though other listeners hear the source. */
struct silence {
	int64_t since_ms;     /* loop clock */
	uint64_t heard;       /* messages that another listener has received since then */
	unsigned int redials; /* redials so far */
	bool is_told;         /* log it: at first, and then once a minute */
	bool is_redialled;    /* close it and dial again now */
};

/* Called from the loop. Sources are numbered from 0 as in the settings: plain URLs first, then feeds. */
struct reading_owner {
	struct reading (*on_ask)(void *arg, size_t i);
	/* With --readers: start reading source i, or stop. The calls alternate and start with true. */
	void (*on_turn)(void *arg, size_t i, bool is_ours);
	/* Source i is silent here; s is valid during the call. NULL: it has brought a message again, or is left to
	 * others. */
	void (*on_silent)(void *arg, size_t i, const struct silence *s);
	void *arg;
};

/* name: this listener's name, as in struct peer; copied. */
struct readings *readings_new(const struct config *config, const char *name, int64_t now_ms);
void readings_free(struct readings *all);

/* Sets the owner, which is copied; NULL: none. Without an owner, beats do not contain the sources. */
void readings_set_owner(struct readings *all, const struct reading_owner *owner);

/* Returns the id of a source in the fleet: the same in each process, whatever the user in its URL. name: a profile's,
 * or "". */
uint64_t readings_source_id(const char *url, const char *name);
/* Sets the pointer that events of source i have as their source's name: other pointers may have the same text. */
void readings_set_events(struct readings *all, size_t i, const char *name);
/* Returns the number of the dialled source whose events have this name, or readings_count(). */
size_t readings_find(const struct readings *all, const char *name);
size_t readings_count(const struct readings *all);
uint64_t readings_id(const struct readings *all, size_t i);

/* Source i has brought events, so this listener may lead it: the next readings_write() says so. Returns false if beats
 * do not contain dialled sources. */
bool readings_may_lead(struct readings *all, size_t i);
/* Writes the dialled sources for the next beat. Returns the end; text needs ROSTER_HEARD_SIZE bytes for each. */
char *readings_write(struct readings *all, char *text, int64_t now_ms);

/* Call when roster has a new answer; asked_ms is when it was requested. is_able: this listener can store. */
void readings_judge(struct readings *all, struct roster *roster, int64_t asked_ms, int64_t now_ms, bool is_able);
/* Call each second. Without an answer for five seconds, everybody reads everything. Also notices when a source brings
 * messages again. */
void readings_tick(struct readings *all, int64_t now_ms);
/* True once it has been known which sources this listener reads. */
bool readings_know(const struct readings *all);
/* Returns NULL if source i is not silent, as far as known. */
const struct silence *readings_silence(const struct readings *all, size_t i);

#endif
