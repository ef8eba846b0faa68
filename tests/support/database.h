/* A database for one test, and short questions to it. Any failure of Postgres to answer fails the test. */
#ifndef SUPPORT_DATABASE_H
#define SUPPORT_DATABASE_H

struct database;

/* Makes a database with empty tables, of a name of its own, on the suite's shared server. It is dropped when the test
 * ends. WSONCE_TEST_LAYOUT says how its tables are laid out. */
struct database *database_new(void);

/* The same without tables: for tests of how they are made. */
struct database *database_empty_new(void);

/* Makes the tables of WSONCE_TEST_LAYOUT in an empty database, if there is a layout. */
void database_lay_out(struct database *db);

/* The database that a conninfo names, as it is. Nothing is sent before the first question. */
struct database *database_open(const char *conninfo);

/* Its conninfo in key=value form, for libpq and --postgres. Lives as long as db. */
const char *database_conninfo(const struct database *db);

/* The statements below are printf-like formats (a literal % is %%), quoted by the caller. They
 * connect when needed, wait up to 10 s (stretched) for a server that is starting or gone, and for up
 * to 60 s for the answer; an SQL error fails the test. One thread at a time. */

/* Run a query that yields one number (or boolean: 1 or 0). */
long database_long(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Run a query that yields one value. Returns its text, or NULL for an SQL NULL. */
char *database_text(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Run statements whose result does not matter. Never sent twice: if the connection breaks on the way,
 * the test fails. */
void database_exec(struct database *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From now on each row of events that is inserted or changed takes so many milliseconds; with 0, no longer than
 * before. For programs that are to be met in the middle of their work. */
void database_slow_down(struct database *db, int row_ms);

/* Drop the unique key of events. */
void database_drop_key(struct database *db);

/* No autovacuum of a table and its partitions from now on: what it reads would count. */
void database_stop_autovacuum(struct database *db, const char *table);

/* End the connections that others (not db itself) have to this database, as an administrator would.
 * Returns how many. */
long database_terminate_backends(struct database *db);

/* Close the connection, which the next question opens again. NULL is allowed. */
void database_free(struct database *db);

#endif
