/* line_counts.h: what the lines of this process missed, and how long its sources had no line, for /metrics. Counts as
 * `wsonce lines` does. */
#ifndef WSONCE_LINE_COUNTS_H
#define WSONCE_LINE_COUNTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/line_minutes.h"

/* Each minute is counted once, when all listeners should have reported it and its late copies. Starts as all zeros,
 * except instance. */
struct line_counts {
	char instance[256]; /* this process's, as in line_minutes */
	int64_t first;      /* the first full minute */
	int64_t next;       /* the first minute to count */
	int64_t end;        /* the next check-in may count minutes before this one */
	int64_t asked_end;  /* end of the minutes that the current check-in asked for */
	int64_t asked_ms;   /* Unix time */
};

/* Returns the minutes that a check-in should ask for: [first, one past the last]. */
json_t *line_counts_ask(struct line_counts *n, int64_t wall_ms);

/* Adds the figures of these rows to the lines. rows: a JSON array of [minute, source, received, received_sum, stored,
 * stored_sum, unknown, reconnects, up, instance], ordered by minute, source and instance. Ignores sources that have no
 * line here. */
void line_counts_take(struct line_minutes *all, struct line_counts *n, const char *rows, size_t len);

/* is_told: the check-in is committed. Otherwise the next one asks for its minutes again. */
void line_counts_told(struct line_counts *n, bool is_told);

#endif
