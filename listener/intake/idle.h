/* idle.h: whether a feed has been silent for too long, and what ends that. Asks no clock: all times are in ms of the
 * loop's clock. */
#ifndef WSONCE_IDLE_H
#define WSONCE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/profile.h"

/* The state of a source. It outlives a connection: the next one may be silent, too. Data ends it in any case. */
enum idle {
	IDLE_NOT,
	IDLE_UNANSWERED, /* a ping was not answered */
	IDLE_TIMED_OUT,
};

struct idle_limit {
	int64_t ms;            /* 0: none */
	bool is_guess;         /* nobody has set it, and no ping is sent: the feed may have nothing to send */
	bool is_only_messages; /* a plain source: it may answer pings after it has dropped the subscription */
};

/* Signs of life of a connection. */
struct idle_signs {
	int64_t opened_ms;
	int64_t message_ms; /* the last message */
	int64_t heard_ms;   /* the last bytes of any kind */
	int64_t pinged_ms;  /* our last ping that is a message; 0: none */
};

/* Returns the limit for a source. idle_s is --idle-timeout; told_ms is what the feed has set, or 0; ping_ms is the
 * shortest interval of pings, or 0. */
struct idle_limit idle_limit(const struct profile *p, int64_t idle_s, int64_t told_ms, int64_t ping_ms);

/* Returns how long ago the last sign of life was if the connection must end for that, else 0. */
int64_t idle_length(const struct idle_limit *limit, const struct idle_signs *signs, int64_t now_ms);

/* Returns the state of a source whose state was before. */
enum idle idle_look(enum idle before, const struct idle_limit *limit, const struct idle_signs *signs, int64_t now_ms);

/* The same after a ping was not answered on a connection that has brought no data. */
enum idle idle_unanswered(enum idle before, const struct idle_signs *signs);

#endif
