/* settling.h: what the parts of a pipeline ask of it. For claiming.c and spooling.c. */
#ifndef WSONCE_SETTLING_H
#define WSONCE_SETTLING_H

#include <stdbool.h>

#include "event/event.h"
#include "spool/spool.h"

struct pipeline;

/* The end of ev, which is freed: its row or dead letter is committed, or a mark that is believed says so. */
void pipeline_settle(struct pipeline *p, struct event *ev, enum outcome outcome);
/* Another message with the id of ev, which was refused or put off, is tried in its place: the backoff is for a message,
 * and what was wrong may be in its bytes. Returns false if each was tried as often as ev. */
bool pipeline_try_other(struct pipeline *p, struct event *ev);
/* As claiming_take(), as soon as no other event with its key is at work. */
void pipeline_begin(struct pipeline *p, struct event *ev, bool is_ours);
/* An event comes back from the spool: its record, and the name of its source, which outlives the pipeline, or NULL. */
void pipeline_restore(struct pipeline *p, const struct record *r, const char *source, struct spool_segment *segment);
/* Has on_drained been called? */
bool pipeline_is_drained(const struct pipeline *p);
/* What is left in memory when the drain is over is on disk, as far as it could be. */
void pipeline_on_left(void *arg);
/* The claims in Redis are another database's. */
void pipeline_on_foreign(struct pipeline *p, const char *sentence);

#endif
