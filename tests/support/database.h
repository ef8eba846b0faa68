/* A database for one test, and queries to it. If Postgres does not answer, the test fails. */
#ifndef SUPPORT_DATABASE_H
#define SUPPORT_DATABASE_H

struct database;

/* Makes a database with empty tables and a unique name on the suite's shared server. It is dropped when the test ends.
 * WSONCE_TEST_LAYOUT chooses the layout of its tables. */
struct database *database_new(void);

/* The same without tables, for tests of how they are made. */
struct database *database_empty_new(void);

/* Makes the tables of WSONCE_TEST_LAYOUT, if set, in an empty database. */
void database_lay_out(struct database *db);

/* An existing database. Connects at the first query. */
struct database *database_open(const char *conninfo);

/* Its conninfo in key=value form, for libpq and --postgres. Lives as long as db. */
const char *database_conninfo(const struct database *db);

/* The statements below are printf-like formats (a literal % is %%); the caller quotes values. They connect when
 * needed, wait up to 10 s (stretched) for a server that is starting or gone, and up to 60 s for the answer. An SQL
 * error fails the test. Use from one thread at a time. */

/* Runs a query for one number (or boolean: 1 or 0). */
long database_long(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Runs a query for one value. Returns its text, or NULL for an SQL NULL. */
char *database_text(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Runs statements without results. Never sent twice: if the connection breaks meanwhile, the test fails. */
void database_exec(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns a statement of sql/queries as one that finds its tables by the search_path, on the heap. */
char *database_sql(const char *sql);

/* From now on inserting or changing a row of events takes row_ms longer; 0 ends that. For tests that must meet a
 * program in the middle of its work. */
void database_slow_down(struct database *db, int row_ms);

/* Drop the unique key of events. */
void database_drop_key(struct database *db);

/* Turns off autovacuum for a table and its partitions, because its reads would be counted. */
void database_stop_autovacuum(struct database *db, const char *table);

/* Terminates all other connections to this database, as an administrator would. Returns their number. */
long database_terminate_backends(struct database *db);

/* Closes the connection; the next query opens it again. NULL is allowed. */
void database_free(struct database *db);

#endif
