/* profiled.h: one source of this listener that a profile describes. */
#ifndef WSONCE_PROFILED_H
#define WSONCE_PROFILED_H

#include "base/slice.h"
#include "intake/feed_client.h"
#include "road/pipeline.h"

struct profiled;

struct profiled_parts {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline *pipeline;
	struct dialler *dialler;
	struct requests *requests;
	/* A source is to connect, and its stored cursor must be known before. */
	void (*on_wanting)(void *arg);
	void *arg;
};

/* parts is copied; what it points to, and profile, must outlive the source. Nothing is dialled yet. */
struct profiled *profiled_new(const struct profiled_parts *parts, const struct profile *profile);

/* Connects, and comes back for ever; an exclusive source only while no other listener has it, and with --readers one
 * that is not exclusive only when it is this listener's turn. */
void profiled_start(struct profiled *s);

/* With --readers: it is this listener's turn to read it, or no longer. An exclusive source has its lease for that. */
void profiled_set_turn(struct profiled *s, bool is_ours);

/* Stored cursors are being read; this is one of them; that were all. Those that wanted them before that connect. */
void profiled_begin_reading(struct profiled *s);
void profiled_restore(struct profiled *s, const struct cursor *cursor);
void profiled_end_reading(struct profiled *s);

/* The database has forgotten what was durable: cursors and acks of what came so far do not count, and the connection is
 * made anew from what is stored now, unless the source is closed. */
void profiled_forget(struct profiled *s);

/* No more connections, no more messages. */
void profiled_close(struct profiled *s);

/* After the loop has ended. NULL is allowed. */
void profiled_free(struct profiled *s);

const struct profile *profiled_profile(const struct profiled *s);
struct feed_client_view profiled_view(const struct profiled *s);

#endif
