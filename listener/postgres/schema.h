/* schema.h: which SQL brings a database to the schema that this program needs. No I/O. */
#ifndef WSONCE_SCHEMA_H
#define WSONCE_SCHEMA_H

/* The version that this program works with. */
int schema_version(void);

/* A name like :schema.events in SQL stands for that table in the schema that was found at connect, whatever the
 * search_path has become. Puts the schema, quoted where it has to be, into a text, on the heap; with "", the
 * search_path decides. */
char *schema_expand(const char *sql, const char *schema);

#define SCHEMA_QUOTED_SIZE 136 /* of a schema's name with its quotes */

/* Takes the names of the tables that the program writes, as a text[]; one row of these columns. Its file,
 * sql/queries/inspect.sql, has their meaning. */
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

/* A statement with one column more, which has no end of its own: what sql/queries/hazards.sql tells. */
#define SCHEMA_WITH_HAZARDS(sql) sql ", (" SQL_HAZARDS ")"

/* Statements that answer nothing, as one. */
#define SCHEMA_AS_BLOCK(sql) "DO $do$ BEGIN " sql "; END $do$"

/* Asks for the version at hand, one row, one column; fails with 42P01 on a database without any. */
const char *schema_ask_sql(void);

/* Opens a transaction, waits for the fleet's lock, and asks for the version again. */
const char *schema_lock_sql(void);

/* Everything from version to schema_version(), and the COMMIT. It fails with 55P03 if a table is in use, rather than
 * keep inserts waiting behind it, and is to be tried again. On the heap. */
char *schema_upgrade_sql(int version);

/* The whole schema in a transaction of its own: first these statements, then the migrations, then those. Each ends with
 * ; or is "". On the heap. */
char *schema_create_sql(const char *before, const char *after);

#endif
