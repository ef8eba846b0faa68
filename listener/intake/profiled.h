/* profiled.h: the sources that profiles describe. */
#ifndef WSONCE_PROFILED_H
#define WSONCE_PROFILED_H

#include "base/slice.h"
#include "fleet/presence.h"
#include "intake/feed_client.h"
#include "pipeline/pipeline.h"

/* All sources; and one of them, or one of its lines. */
struct profiles;
struct profiled;

struct profiled_parts {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline *pipeline;
	struct presence *presence; /* NULL: this listener is alone */
	struct dialler *dialler;
	struct requests *requests;
};

/* Connects to the source of each profile once its cursor is known, and reconnects for ever; if the database loses
 * durable data, from the cursor that is stored then. A profile that follows itself has several lines. parts is copied;
 * what it points to, and the profiles, must outlive the result. */
struct profiles *profiles_open(const struct profiled_parts *parts, struct profile *const *profiles, size_t count);
struct profiled *profiles_at(const struct profiles *all, size_t i);

/* Disconnects all sources for good. */
void profiles_close(struct profiles *all);
/* Call after the loop has ended. NULL is allowed. */
void profiles_free(struct profiles *all);

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

/* Closes the connection, which brings no messages, and dials again. reason says why. */
void profiled_redial(struct profiled *s, const char *reason);

struct source_view profiled_view(const struct profiled *s);
void profiled_mask(const struct profiled *s, char *text);

#endif
