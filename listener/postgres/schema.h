/* schema.h: the SQL that brings a database to the schema of this program. No I/O. */
#ifndef WSONCE_SCHEMA_H
#define WSONCE_SCHEMA_H

/* Returns the schema version that this program uses. */
int schema_version(void);

/* Replaces :schema. in sql, as in :schema.events, with the schema found at connect, because the search_path may change.
 * schema must be quoted if needed; if it is "", the search_path decides. Returns the text on the heap. */
char *schema_expand(const char *sql, const char *schema);

#define SCHEMA_QUOTED_SIZE 136 /* bytes of a schema's quoted name */

/* Returns a statement whose parameter is a text[] with the tables that the program writes, and whose result is one row
 * with these columns. sql/queries/inspect.sql explains them. */
const char *schema_inspect_sql(void);
enum schema_column {
	SCHEMA_NAME,
	SCHEMA_IS_OURS,
	SCHEMA_FAULT,
	SCHEMA_WARNING,
	SCHEMA_LOCK_MS,
	SCHEMA_STATEMENT_MS,
	SCHEMA_IS_READ_ONLY,
	SCHEMA_IS_PARTITIONED,
	SCHEMA_IS_CHANGED,
	SCHEMA_CHECKS,
	SCHEMA_UNFILLED,
	SCHEMA_HIDDEN, /* rows, from the role */
	SCHEMA_COLUMNS,
};

/* Adds the column of sql/queries/hazards.sql to a statement without a semicolon. */
#define SCHEMA_WITH_HAZARDS(sql) sql ", (" SQL_HAZARDS ")"

/* Precedes the statements that prepare a connection: see print_limits() in connection.c. */
#define SCHEMA_BEFORE_STEP "SET LOCAL lock_timeout = '10s'; SET LOCAL jit = off; SET LOCAL search_path = pg_catalog; "

/* Makes one statement of several that return nothing. */
#define SCHEMA_AS_BLOCK(sql) "DO $do$ BEGIN " sql "; END $do$"

/* Returns a statement that selects the current version as one row and column. It fails with 42P01 on a database without
 * tables. */
const char *schema_ask_sql(void);

/* Returns statements that begin a transaction, wait for the fleet's lock, and select the version again. */
const char *schema_lock_sql(void);

/* Returns the migrations from version to schema_version(), followed by COMMIT, on the heap. If a table is in use, they
 * fail with 55P03 instead of making inserts wait; then try again. */
char *schema_upgrade_sql(int version);

/* Returns a transaction, on the heap, of before and all migrations. before ends with ; or is "". */
char *schema_create_sql(const char *before);

#endif
