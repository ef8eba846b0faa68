/* session.h: one connection to Postgres for a command, or an SQLite file; it waits for each answer. */
#ifndef WSONCE_SESSION_H
#define WSONCE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct session;
struct pg_result; /* libpq's */

/* Connects to a database that has wsonce's tables, and brings them up to date as a listener does. NULL if it cannot:
 * one line on standard error has said why, as after all failures below. */
struct session *session_open(const struct config *config);

/* The same, and makes the tables where there are none. */
struct session *session_open_or_create(const struct config *config);
/* The same as session_open, but changes nothing: the schema may be older than this program's. */
struct session *session_open_to_read(const struct config *config);
/* The same, and there may be no tables yet. */
struct session *session_open_to_look(const struct config *config);
/* From now on the statements of this thread take at most so long together, and with is_to_read session_open is
 * session_open_to_read. */
void session_limit(int64_t ms, bool is_to_read);
/* Is that time over? */
bool session_is_late(void);
void session_close(struct session *s);

/* Is it a file? Such a session takes what session_ask_either and session_copy_begin are given for it, and BEGIN, COMMIT
 * and ROLLBACK; all else it refuses with a line. */
bool session_is_file(const struct session *s);

/* Runs one statement; the n values are texts, NULL for an SQL NULL. Returns its rows, which the caller
 * gives to session_drop; or NULL. The role's statement_timeout does not end it, unless a transaction was begun. */
struct pg_result *session_ask(struct session *s, const char *sql, int n, const char *const *values);
/* The same, of a file: sqlite, which may be several statements in one transaction, with ?1 for $1. Its rows are those
 * of the last one that has any. With NULL for sqlite, a file is refused with a line. */
struct pg_result *session_ask_either(struct session *s, const char *sql, const char *sqlite, int n,
				     const char *const *values);
/* The same as session_ask, but says nothing, and takes SQL of a file, if it is one: where it returns NULL, why gets the
 * reason. */
struct pg_result *session_try(struct session *s, const char *sql, int n, const char *const *values, char *why,
			      size_t size);
/* Runs the statements of a text, each behind a line that is head and its name, as session_try does: a right that is
 * missing hides one part and not the rest. take gets rows, which live for the call; or NULL and why. */
void session_each_part(struct session *s, const char *text, const char *head, int n, const char *const *values,
		       void (*take)(void *arg, const char *name, const struct pg_result *rows, const char *why),
		       void *arg);
/* Runs a statement that must not be in a transaction, such as CREATE INDEX CONCURRENTLY, within the limits of the
 * session. Returns 0 or -1. */
int session_run_alone(struct session *s, const char *sql);
void session_drop(struct pg_result *rows);

/* What is in the rows. A NULL is "", 0 and false. */
size_t session_count(const struct pg_result *rows);
bool session_is_null(const struct pg_result *rows, size_t row, int column);
const char *session_text(const struct pg_result *rows, size_t row, int column);
int64_t session_number(const struct pg_result *rows, size_t row, int column);
bool session_flag(const struct pg_result *rows, size_t row, int column);
/* The bytes of a bytea, on the heap. */
char *session_bytes(const struct pg_result *rows, size_t row, int column, size_t *len);

/* Is a pooler between this connection and its server? */
bool session_is_pooled(struct session *s);

/* Starts a COPY ... FROM STDIN, or of a file, an INSERT of one line's fields; takes bytes of its text form; ends it.
 * Each returns 0 or -1. */
int session_copy_begin(struct session *s, const char *sql, const char *sqlite);
int session_copy_put(struct session *s, const char *bytes, size_t len);
int session_copy_end(struct session *s);

#endif
