/* backlog.h: the deliveries that are still to be made, as the database knows them, and a warning of those that
 * wait for unusually long. */
#ifndef WSONCE_BACKLOG_H
#define WSONCE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define BACKLOG_MAX 20000 /* no more rows are counted */

struct backlog {
	int64_t pending;
	int64_t overdue;   /* pending for longer than the limit; 0 without a limit */
	int64_t oldest_ms; /* how long the oldest is pending; 0: there is none */
	char oldest_id[ENVELOPE_ID_MAX + 1];
	char oldest_target[65];
	char strays[1000];   /* names of targets of rows that no listener delivers to; "": none */
	char disputed[1000]; /* names of webhooks that have another URL with another listener; "": none */
	int64_t warned_ms;   /* loop clock; 0: all is well */
};

#define BACKLOG_CELLS 8

/* Takes the cells of sql/queries/backlog.sql's one row, as texts; logs a warning when strays or disputed change. */
void backlog_read(struct backlog *b, const char *const cells[BACKLOG_CELLS]);

/* Logs a warning when deliveries are pending for longer than the limit (0: never), again each minute while they
 * are, and one line when it is over. */
void backlog_watch(struct backlog *b, int64_t now_ms, int64_t limit_ms);

#endif
