/* profiled.h: one source of this listener that a profile describes. */
#ifndef WSONCE_PROFILED_H
#define WSONCE_PROFILED_H

#include "base/slice.h"
#include "intake/conversation.h"
#include "road/pipeline.h"

struct profiled;

struct profiled_parts {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline *pipeline;
	struct dialler *dialler;
	struct requests *requests;
};

/* parts is copied; what it points to, and profile, must outlive the source. Nothing is dialled yet. */
struct profiled *profiled_new(const struct profiled_parts *parts, const struct profile *profile);

/* Connects, and comes back for ever. */
void profiled_start(struct profiled *s);

/* No more connections, no more messages. */
void profiled_close(struct profiled *s);

/* After the loop has ended. NULL is allowed. */
void profiled_free(struct profiled *s);

const struct profile *profiled_profile(const struct profiled *s);
struct conversation_view profiled_view(const struct profiled *s);

#endif
