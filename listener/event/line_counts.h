/* line_counts.h: what the lines of this process missed, and for how long its sources had no line, for /metrics: the
 * same as `wsonce lines` says. */
#ifndef WSONCE_LINE_COUNTS_H
#define WSONCE_LINE_COUNTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/line_minutes.h"

/* Minutes are counted once, when all listeners should have told of them and of late copies. Zero at first, but for
 * instance. */
struct line_counts {
	char instance[256]; /* of this process, as in rows */
	int64_t first;      /* the first full minute */
	int64_t next;       /* the first minute to count */
	int64_t end;        /* minutes before this one can be counted at the next check-in */
	int64_t asked_end;  /* the same of those that are asked for now */
	int64_t asked_ms;   /* since 1970 */
};

/* At a check-in: returns the minutes to ask for, [from the first one, before the second one]. */
json_t *line_counts_ask(struct line_counts *n, int64_t wall_ms);

/* Adds what their rows say to the lines: a JSON array of [minute, source, received, received_sum, stored, stored_sum,
 * unknown, reconnects, up, listener, minutes after `minute` at which it begins, minutes that are compared], in the
 * order of minute, source and listener. Sources without a line here are ignored. */
void line_counts_take(struct line_minutes *all, struct line_counts *n, const char *rows, size_t len);

/* The check-in is committed, or may not be. */
void line_counts_told(struct line_counts *n, bool is_told);

#endif
