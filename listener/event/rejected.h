/* rejected.h: logs once a minute why messages became dead letters in this process. */
#ifndef WSONCE_REJECTED_H
#define WSONCE_REJECTED_H

#include <stddef.h>
#include <stdint.h>

/* The kinds of dead letters, for metrics. */
enum rejected_class {
	REJECTED_MESSAGE, /* not an event: not JSON, no id, or too long */
	REJECTED_PROFILE, /* a frame that a profile refused, or whose event has no complete id */
	REJECTED_EVENT,   /* has an id, but is too old or was refused by Postgres */
	REJECTED_CLASSES,
};
#define REJECTED_CLASS_NAMES "message", "profile", "event"

/* Counts messages of a class. */
void rejected_add(enum rejected_class class, uint64_t messages);
/* Messages of a class since the program started. */
uint64_t rejected_count(enum rejected_class class);

/* A message was refused for this reason for the first time, and becomes a dead letter now or after more tries. */
void rejected_refused(const char *reason);

/* The source that sent the last ones is left to others: the run is over. */
void rejected_forget(void);

/* A message of this source or producer (NULL: unknown) became a dead letter for this reason. Keeps the beginning of
 * each. */
void rejected_checkin(const char *source, const char *reason, const char *message, size_t len);

/* Sets what masks secrets in the reasons and examples that are shown. */
void rejected_set_mask(void (*mask)(void *arg, char *text), void *arg);

/* How many messages were refused since an event was last stored, and the reason of the last one. */
uint64_t rejected_run(const char **reason);
#define REJECTED_RUN    10     /* this many in a row are a problem, */
#define REJECTED_RUN_MS 600000 /* until none was refused for this long: the feed or the producers may be quiet */

/* Logs how many messages became dead letters since the last such line, the last reason and the beginning of its
 * message, at most once a minute. It is a warning if nothing was stored in that time, else info. Call it every second;
 * now_ms is the loop clock. */
void rejected_watch(int64_t now_ms);

#endif
