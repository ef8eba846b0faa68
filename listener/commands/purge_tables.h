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

/* The statements of a pass. */
struct pass_sql {
	/* $1 seconds, $2 rows to keep, NULL if not asked for. The moment before which rows go, the later one
	 * of what the two say, and its age in seconds. */
	const char *cutoff;
	/* $1 the cutoff, $2 a key before all others. A key before those that go, NULL if none does; the last id that
	 * goes, NULL where keys are not ids, and go to the end. Rows between them may stay. */
	const char *range;
	/* $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at. Of the next rows, up to $3 that are too
	 * old: how many they are, how big, and the key up to which they were looked for, NULL at the end. */
	const char *look;
	/* $1 the last key, $2 the cutoff, $3 the key that look told. Changes the rows between that are too old, but for
	 * those that others have locked; tells how many. */
	const char *change;
};

/* One table, from the first key that may go to the last one. */
struct pass {
	enum purge_table_name table;
	enum purge_table_rows rows;
	const char *name;                             /* of its member in JSON */
	const char *done_as;                          /* how the count is called */
	const char *first;                            /* a key before all others */
	const struct retention_guard_deletion *guard; /* NULL: nothing is processed twice without these rows */
	/* As change: the ids of events whose marks in Redis speak of these rows, or of others in the range, as a JSON
	 * array. NULL: none do. */
	const char *marked;
	struct pass_sql postgres;
	struct pass_sql file; /* of SQLite; NULLs: a file has no such table. Open letters go too where a temporary table
			       * wsonce_open_too is. */
};

#define PURGE_TABLES ((size_t)7)

/* In the order in which they are done. */
extern const struct pass purge_tables[PURGE_TABLES];

#endif
