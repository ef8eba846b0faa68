/* backlog.h: the number of pending deliveries in the database, and warnings about those that wait for too long. */
#ifndef WSONCE_BACKLOG_H
#define WSONCE_BACKLOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define BACKLOG_MAX 20000 /* rows are counted up to this number */

struct backlog {
	int64_t pending;
	int64_t overdue;   /* pending longer than the limit; 0 without a limit */
	int64_t oldest_ms; /* age of the oldest; 0: there is none */
	char oldest_id[ENVELOPE_ID_MAX + 1];
	char oldest_target[65];
	char strays[1000];   /* targets of pending rows that no listener delivers to; "": none */
	char disputed[1000]; /* webhooks to which another listener gives another URL; "": none */
	json_t *pauses;      /* per webhook: {since, by, reason}; owned; NULL: none is paused */
	int64_t warned_ms;   /* loop clock, last warning; 0: none yet */
	bool is_told;        /* that deliveries are overdue now */
};

#define BACKLOG_CELLS 9

/* Reads the row of sql/queries/backlog.sql. Logs a warning when strays or disputed change. */
void backlog_read(struct backlog *b, const char *const cells[BACKLOG_CELLS]);

/* While deliveries are pending longer than the limit (0: never), logs a warning at most once a minute, and a line
 * when that ends. */
void backlog_watch(struct backlog *b, int64_t now_ms, int64_t limit_ms);

#endif
