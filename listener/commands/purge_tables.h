/* purge_tables.h: the tables that wsonce purge processes, and their statements. */
#ifndef WSONCE_PURGE_TABLES_H
#define WSONCE_PURGE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "commands/guards.h"

enum purge_table_name {
	PASS_EVENTS,
	PASS_DEAD_LETTERS,
	PASS_OUTBOX,
	PASS_PROCESSED,
	PASS_ACTIONS, /* operators' actions, in two tables */
	PASS_TABLES,
};

/* Whether a pass runs with --delete-rows. */
enum purge_table_rows {
	PASS_ROWS_ANY, /* with and without */
	PASS_ROWS_STAY,
	PASS_ROWS_GO,
};

#define PASS_FIRST_ID "-9223372036854775808"

/* One pass over a table. Its rows are in two parts, so that an index of sql/queries/indexes.sql finds each: `part` is
 * always purged, and `other` unless it has the open rows, or with --open-too. */
struct pass {
	enum purge_table_name table;
	enum purge_table_rows rows;
	const char *name;                             /* name of its member in JSON */
	const char *done_as;                          /* what the report calls the count */
	const char *first;                            /* a key before all others */
	const struct retention_guard_deletion *guard; /* NULL: without these rows nothing is processed twice */
	bool is_other_open;

	/* SQL, in the words of the statements. */
	const char *from;
	const char *moment; /* the column with the time of a row */
	const char *size;   /* the expression for the bytes of a row */
	const char *change; /* the statement that changes the rows */
	const char *part;
	const char *other;       /* NULL: there is no other part */
	const char *and;         /* a further condition */
	const char *marked;      /* column that purge_step.sql returns of a changed row; NULL: none */
	const char *file_change; /* statement for SQLite; NULL: a file has no such table */
	const char *file_part;
};

/* The statements of a pass, on the heap; sql/ says what each takes and returns. */
struct pass_sql {
	char *cutoff;
	char *range;
	char *step;
};

/* With is_file, the pass must have file_change. */
struct pass_sql purge_sql(const struct pass *pass, bool is_file, bool is_open_too);
void purge_sql_free(struct pass_sql *sql);

#define PURGE_TABLES ((size_t)7)

/* In the order in which they run. */
extern const struct pass purge_tables[PURGE_TABLES];

#endif
