/* schema.h: the SQL that brings a database to the schema of this program. No I/O. */
#ifndef WSONCE_SCHEMA_H
#define WSONCE_SCHEMA_H

/* Returns the schema version that this program uses. */
int schema_version(void);

/* Replaces :schema. in sql, as in :schema.events, with the schema found at connect, whatever the search_path is by
 * then. schema is quoted if needed; with "", the search_path decides. Returns the text on the heap. */
char *schema_expand(const char *sql, const char *schema);

#define SCHEMA_QUOTED_SIZE 136 /* of a schema's quoted name */

/* Takes the names of the tables that the program writes, as a text[], and returns one row with these columns.
 * sql/queries/inspect.sql explains them. */
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
};

/* Adds a column with sql/queries/hazards.sql to a statement that has no semicolon. */
#define SCHEMA_WITH_HAZARDS(sql) sql ", (" SQL_HAZARDS ")"

/* Wraps statements that return nothing into one. */
#define SCHEMA_AS_BLOCK(sql) "DO $do$ BEGIN " sql "; END $do$"

/* Selects the current version as one row and column. Fails with 42P01 on a database without tables. */
const char *schema_ask_sql(void);

/* Begins a transaction, waits for the fleet's lock, and selects the version again. */
const char *schema_lock_sql(void);

/* Returns the migrations from version to schema_version(), and COMMIT, on the heap. If a table is in use, they fail
 * with 55P03 instead of making inserts wait, and must be tried again. */
char *schema_upgrade_sql(int version);

/* Returns the whole schema as a transaction, on the heap: before, the migrations. before ends with ; or is "". */
char *schema_create_sql(const char *before);

#endif
