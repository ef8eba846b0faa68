/* profiled.h: one source that a profile describes, or one of its lines. */
#ifndef WSONCE_PROFILED_H
#define WSONCE_PROFILED_H

#include "base/slice.h"
#include "intake/feed_client.h"
#include "pipeline/pipeline.h"

struct profiled;

struct profiled_parts {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline *pipeline;
	struct dialler *dialler;
	struct requests *requests;
	/* A source wants to connect and first needs its stored cursor. */
	void (*on_wanting)(void *arg);
	void *arg;
};

/* parts is copied; what it points to, and profile, must outlive the source. beside: the line or shard of the same
 * profile that was made last, of which the result is the next one; else NULL. Does not connect yet. */
struct profiled *profiled_new(const struct profiled_parts *parts, const struct profile *profile,
			      const struct profiled *beside);

/* Connects and reconnects for ever. An exclusive source connects only while this listener holds its lease. With
 * --readers, any other source connects only while it is this listener's turn. */
void profiled_start(struct profiled *s);

/* With --readers: begins or ends this listener's turn to read the source. Not for exclusive sources, which have a
 * lease. */
void profiled_set_turn(struct profiled *s, bool is_ours);

/* Call when the items of its profile, which is a shard, have changed. Connects if it had none, and disconnects if it
 * has none now. Otherwise subscribes to the new ones (an array), by a message of on_change or by another connection;
 * the open one stays until profiled_turn(). */
void profiled_change(struct profiled *s, const json_t *fresh);
/* True if the feed has confirmed the change, or if this listener does not read the source. */
bool profiled_is_changed(const struct profiled *s);
/* Unsubscribes from the items that are gone (an array), or closes the old connection. */
void profiled_turn(struct profiled *s, const json_t *gone);

/* Closes the connection, which gets no messages for this reason, and dials again. */
void profiled_redial(struct profiled *s, const char *reason);

/* Pass the stored cursors: call begin, then restore for each cursor, of any source, and end. A source that asked for
 * its cursor before begin connects at end. */
void profiled_begin_reading(struct profiled *s);
void profiled_restore(struct profiled *s, const struct cursor *cursor);
void profiled_end_reading(struct profiled *s);

/* Call when the database has lost durable data: drops the cursors and acks so far and, unless the source is closed,
 * reconnects from the cursor that is stored now. */
void profiled_forget(struct profiled *s);

/* Disconnects for good. */
void profiled_close(struct profiled *s);

/* Call after the loop has ended. NULL is allowed. */
void profiled_free(struct profiled *s);

struct source_view profiled_view(const struct profiled *s);

#endif
