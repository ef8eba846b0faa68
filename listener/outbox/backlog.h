/* backlog.h: the pending deliveries, as the database counts them, and a warning if some wait unusually long. */
#ifndef WSONCE_BACKLOG_H
#define WSONCE_BACKLOG_H

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
	char disputed[1000]; /* webhooks that another listener has under another URL; "": none */
	int64_t warned_ms;   /* loop clock; 0: no warning stands */
};

#define BACKLOG_CELLS 8

/* Takes the row of sql/queries/backlog.sql, as texts. Logs a warning when strays or disputed change. */
void backlog_read(struct backlog *b, const char *const cells[BACKLOG_CELLS]);

/* Logs a warning when deliveries are pending longer than the limit (0: never), once a minute while they are, and a line
 * when that ends. */
void backlog_watch(struct backlog *b, int64_t now_ms, int64_t limit_ms);

#endif
