/* profiles.h: all sources that profiles describe, and their stored cursors. */
#ifndef WSONCE_PROFILES_H
#define WSONCE_PROFILES_H

#include "intake/profiled.h"

struct profiles;

/* Connects to the source of each profile once its cursor is known. A profile that follows itself has several lines.
 * parts is copied; its on_wanting is not used. The profiles must outlive the result. */
struct profiles *profiles_open(const struct profiled_parts *parts, struct profile *const *profiles, size_t count);

struct profiled *profiles_at(const struct profiles *all, size_t i);

/* Disconnects all sources for good. */
void profiles_close(struct profiles *all);

/* Call after the loop has ended. NULL is allowed. */
void profiles_free(struct profiles *all);

#endif
