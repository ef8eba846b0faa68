/* profiles.h: all sources of this listener that profiles describe, and the cursors that are stored for them. */
#ifndef WSONCE_PROFILES_H
#define WSONCE_PROFILES_H

#include "intake/profiled.h"

struct profiles;

/* Connects to the source of each profile, when its cursor is known. parts is copied; its on_wanting is not used. The
 * profiles must outlive it. */
struct profiles *profiles_open(const struct profiled_parts *parts, struct profile *const *profiles, size_t count);

struct profiled *profiles_at(const struct profiles *all, size_t i);

/* No more connections, no more messages. */
void profiles_close(struct profiles *all);

/* After the loop has ended. NULL is allowed. */
void profiles_free(struct profiles *all);

#endif
