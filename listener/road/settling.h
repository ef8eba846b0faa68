/* settling.h: what claiming.c and spooling.c call in the pipeline. */
#ifndef WSONCE_SETTLING_H
#define WSONCE_SETTLING_H

#include <stdbool.h>

#include "event/event.h"
#include "spool/spool.h"

struct pipeline;

/* Settles and frees ev: its row or dead letter is committed, or a believed mark says so. */
void pipeline_settle(struct pipeline *p, struct event *ev, enum outcome outcome);
/* Tries another message with the id of ev, which was refused or postponed, in its place: the backoff belongs to one
 * message, and its bytes may be the cause. Returns false if each was tried as often as ev. */
bool pipeline_try_other(struct pipeline *p, struct event *ev);
/* Like claiming_take(), once no other event with its key is at work. */
void pipeline_begin(struct pipeline *p, struct event *ev, bool is_ours);
/* Takes an event back from the spool: its record, and the name of its source, which outlives the pipeline, or NULL. */
void pipeline_restore(struct pipeline *p, const struct record *r, const char *source, struct spool_segment *segment);
/* True if on_drained has been called. */
bool pipeline_is_drained(const struct pipeline *p);
/* Call when the drain is over and what is left in memory has been written to disk as far as possible. */
void pipeline_on_left(void *arg);
/* The claims in Redis belong to another database's fleet. */
void pipeline_on_foreign(struct pipeline *p, const char *sentence);

#endif
