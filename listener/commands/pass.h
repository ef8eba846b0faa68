/* pass.h: what wsonce purge can go through. */
#ifndef WSONCE_PASS_H
#define WSONCE_PASS_H

#include <stddef.h>

#include "commands/guard.h"

enum pass_table {
	PASS_EVENTS,
	PASS_LETTERS,
	PASS_OUTBOX,
	PASS_PROCESSED,
	PASS_ACTIONS, /* of people, in two tables */
	PASS_TABLES,  /* how many there are */
};

/* Does the pass go with --delete-rows? */
enum pass_rows {
	PASS_ROWS_ANY, /* with and without */
	PASS_ROWS_STAY,
	PASS_ROWS_GO,
};

#define PASS_FIRST_ID "-9223372036854775808"

/* One table, from its lowest key to its highest. */
struct pass {
	enum pass_table table;
	enum pass_rows rows;
	const char *name;                   /* of its member in JSON */
	const char *done_as;                /* how the count is called */
	const char *first;                  /* a key before all others */
	const struct guard_deletion *guard; /* NULL: nothing is processed twice without these rows */
	/* $1 seconds, $2 rows to keep, NULL if not asked for. The moment before which rows go, the later one
	 * of what the two say, and its age in seconds. */
	const char *cutoff_sql;
	/* $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at. How many were done, how many there
	 * were, and the last key now, NULL at the end. */
	const char *step_sql;
	/* $1 the last key, $2 the cutoff, $3 rows to look at. How many are too old, how big they are, and the
	 * last key, NULL at the end. */
	const char *count_sql;
};

#define PASSES ((size_t)7)

/* In the order in which they are done. */
extern const struct pass passes[PASSES];

#endif
