/* readers.h: which listeners of a fleet read a source, where not all of them do (--readers). */
#ifndef WSONCE_READERS_H
#define WSONCE_READERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"

struct readers;

/* What this listener has of a source. */
struct reading {
	uint64_t connection;     /* the number of the one that is open, from 1; 0: none is */
	int64_t last_message_ms; /* loop clock; 0: none so far */
};

/* Called from the loop, never from inside a call below. */
struct readers_owner {
	struct reading (*on_ask)(void *arg, size_t i);
	/* Source i is to be read from now on, or not any more; in turn, the first time true. */
	void (*on_turn)(void *arg, size_t i, bool is_ours);
	void *arg;
};

/* Of n sources: ids names each, the same in every listener and in any order. Every listener that has just these sources
 * belongs to the fleet. Until the first on_turn of a source it is not to be read; that comes when Redis has told who
 * else there is, or within five seconds. config must outlive it; ids is copied. */
struct readers *readers_open(uv_loop_t *loop, const struct config *config, const uint64_t *ids, size_t n,
			     const struct readers_owner *owner);

/* Has it been found out, at least once, whose turns are this listener's? */
bool readers_know(const struct readers *r);

/* Tells the others that this listener reads no more, and frees r when that is done. Nothing is called any more. */
void readers_close(struct readers *r);

#endif
