/* purge_tables.h: the tables that wsonce purge can go through, each with its statements. */
#ifndef WSONCE_PURGE_TABLES_H
#define WSONCE_PURGE_TABLES_H

#include <stddef.h>

#include "commands/retention_guard.h"

enum purge_table_name {
	PASS_EVENTS,
	PASS_LETTERS,
	PASS_OUTBOX,
	PASS_PROCESSED,
	PASS_ACTIONS, /* of operators, in two tables */
	PASS_TABLES,
};

/* Does the pass go with --delete-rows? */
enum purge_table_rows {
	PASS_ROWS_ANY, /* with and without */
	PASS_ROWS_STAY,
	PASS_ROWS_GO,
};

#define PASS_FIRST_ID "-9223372036854775808"

/* The statements of a pass. */
struct pass_sql {
	/* $1 seconds, $2 rows to keep; NULL: not asked for. Returns the time before which rows go, the later one if
	 * both are given, and its age in seconds. */
	const char *cutoff;
	/* $1 the cutoff, $2 a key before all others. Returns a key before the rows that go, NULL if none does; and the
	 * last id that goes, NULL if keys are not ids: the pass goes to the end then. Rows in between may stay. */
	const char *range;
	/* $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at. Looks at the next rows for up to $3 that
	 * are too old. Returns their number, their size, and the key of the last row looked at, NULL at the end. */
	const char *look;
	/* $1 the last key, $2 the cutoff, $3 the key that look returned. Changes the rows in between that are too old,
	 * except those that others have locked. Returns their number. */
	const char *change;
};

/* One table, from the first key that may go to the last one. */
struct pass {
	enum purge_table_name table;
	enum purge_table_rows rows;
	const char *name;                             /* of its member in JSON */
	const char *done_as;                          /* what the count says */
	const char *first;                            /* a key before all others */
	const struct retention_guard_deletion *guard; /* NULL: without these rows nothing is processed twice */
	/* The same parameters as change: ids of events whose dead marks in Redis belong to these rows, or to others in
	 * the range. NULL: there are no marks. */
	const char *marked;
	struct pass_sql postgres;
	struct pass_sql file; /* of SQLite; all NULL: a file has no such table. Open letters go too if there is a
			       * temporary table wsonce_open_too. */
};

#define PURGE_TABLES ((size_t)7)

/* In the order in which they are done. */
extern const struct pass purge_tables[PURGE_TABLES];

#endif
