/* rejected.h: why messages become dead letters in this process, told in the log once a minute. */
#ifndef WSONCE_REJECTED_H
#define WSONCE_REJECTED_H

#include <stddef.h>
#include <stdint.h>

/* What kind of message became a dead letter, for metrics. */
enum rejected_class {
	REJECTED_MESSAGE, /* no event: not JSON, without an id, too long */
	REJECTED_PROFILE, /* a frame that a profile refused, or whose event has no complete id */
	REJECTED_EVENT,   /* it has an id, and is too old, or Postgres refused it */
	REJECTED_CLASSES,
};
#define REJECTED_CLASS_NAMES "message", "profile", "event"

/* Counts so many messages of a class, and tells how many were counted since the start. */
void rejected_add(enum rejected_class class, uint64_t messages);
uint64_t rejected_count(enum rejected_class class);

/* A message has become a dead letter, for this reason. Keeps the heads of both. */
void rejected_checkin(const char *reason, const char *message, size_t len);

/* Logs how many messages became dead letters since the last such line, the commonest reason and an example of it: at
 * once, but one line a minute at most. It is a warning where nothing at all was stored in that time, and else for
 * information. To be called each second; now_ms is the loop clock. */
void rejected_watch(int64_t now_ms);

#endif
