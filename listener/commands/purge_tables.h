/* purge_tables.h: what wsonce purge can go through. */
#ifndef WSONCE_PURGE_TABLES_H
#define WSONCE_PURGE_TABLES_H

#include <stddef.h>

#include "commands/retention_guard.h"

enum purge_table_name {
	PASS_EVENTS,
	PASS_LETTERS,
	PASS_OUTBOX,
	PASS_PROCESSED,
	PASS_ACTIONS, /* of people, in two tables */
	PASS_TABLES,  /* how many there are */
};

/* Does the pass go with --delete-rows? */
enum purge_table_rows {
	PASS_ROWS_ANY, /* with and without */
	PASS_ROWS_STAY,
	PASS_ROWS_GO,
};

#define PASS_FIRST_ID "-9223372036854775808"

/* One table, from the first key that may go to the last one. */
struct pass {
	enum purge_table_name table;
	enum purge_table_rows rows;
	const char *name;                             /* of its member in JSON */
	const char *done_as;                          /* how the count is called */
	const char *first;                            /* a key before all others */
	const struct retention_guard_deletion *guard; /* NULL: nothing is processed twice without these rows */
	/* $1 seconds, $2 rows to keep, NULL if not asked for. The moment before which rows go, the later one
	 * of what the two say, and its age in seconds. */
	const char *cutoff_sql;
	/* $1 the cutoff, $2 a key before all others. A key before those that go, NULL if none does; the last id that
	 * goes, NULL where keys are not ids, and go to the end. Rows between them may stay. */
	const char *range_sql;
	/* $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at. How many were done, how many there
	 * were, and the last key now, NULL at the end. */
	const char *step_sql;
	/* $1 the last key, $2 the cutoff, $3 rows to look at. How many are too old, how big they are, and the
	 * last key, NULL at the end. */
	const char *count_sql;
};

#define PURGE_TABLES ((size_t)7)

/* In the order in which they are done. */
extern const struct pass purge_tables[PURGE_TABLES];

#define PURGE_FILE_TABLES ((size_t)4)

/* Those of an SQLite file. Open letters go too where a temporary table wsonce_open_too is. */
extern const struct pass purge_file_tables[PURGE_FILE_TABLES];

#endif
