/* session.h: a command's connection to Postgres, or its SQLite file. Every call waits for the answer. */
#ifndef WSONCE_SESSION_H
#define WSONCE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct session;
struct pg_result; /* a type of libpq */

/* What a session may do to the schema. */
enum session_aim {
	SESSION_NONE,    /* the command opens one itself, or needs none */
	SESSION_LOOK,    /* change nothing; tables may be missing */
	SESSION_READ,    /* change nothing; the schema may be older than this program's */
	SESSION_UPGRADE, /* upgrade it, as a listener does */
	SESSION_CREATE,  /* also create missing tables */
};

/* Connects to the database. Returns NULL after printing one line to standard error, as all calls below do. */
struct session *session_open(const struct config *config, enum session_aim aim);
/* Sets a deadline for all statements of this thread together, ms from now. With is_to_read, SESSION_UPGRADE is
 * SESSION_READ. */
void session_limit(int64_t ms, bool is_to_read);
/* True if the deadline has passed. */
bool session_is_late(void);
/* jit is off: see print_limits() in postgres/connection.c. */
#define SESSION_SETTINGS \
	"SELECT pg_catalog.set_config('statement_timeout', $1, true), pg_catalog.set_config('jit', 'off', true)"
/* Replaces SESSION_SETTINGS, the statement that sets the limits of each transaction in Postgres that has no explicit
 * BEGIN. Its $1 is the statement_timeout. limit_ms is that timeout unless session_limit() has set another one; 0: none.
 * settings must outlive s. */
void session_configure(struct session *s, const char *settings, int64_t limit_ms);
void session_close(struct session *s);

/* True for an SQLite file. */
bool session_is_file(const struct session *s);

/* Runs sql in Postgres, or sqlite in a file. sqlite may be several statements, with ?1 for $1: they run in one
 * transaction and return the rows of the last one that has any. If sqlite is NULL, a file is refused. types has a
 * letter for each value that follows: s for a text, NULL for an SQL NULL; n for an int64_t. Returns the rows, which the
 * caller passes to session_drop; or NULL. Outside of a transaction the role's statement_timeout does not apply. */
struct pg_result *session_query(struct session *s, const char *sql, const char *sqlite, const char *types, ...);
/* Called for a row: its n cells are texts, NULL for an SQL NULL. */
typedef void session_row_fn(void *arg, const char *const *cells, int n);
/* Like session_query with n texts, but passes the rows to take one by one, so that only one is in memory. In Postgres
 * the session's own timeouts apply; SQLite begins no transaction, so writers do not wait. take must not use s. */
int session_each_row(struct session *s, const char *sql, const char *sqlite, int n, const char *const *values,
		     session_row_fn *take, void *arg);
/* Runs statements that Postgres and SQLite understand. In Postgres they have the session's own timeouts, and a single
 * one runs outside of a transaction, as CREATE INDEX CONCURRENTLY requires. Returns 0 or -1. */
int session_run_alone(struct session *s, const char *sql);
/* Runs the same statement in Postgres or SQLite, and prints nothing; why gets the reason of a failure. */
struct pg_result *session_try(struct session *s, const char *sql, int n, const char *const *values, char *why,
			      size_t size);
/* Runs the parts of a text separately, as session_try does, so that a missing right or a lock hides one part only. Each
 * part begins with a line of head and its name. take gets the rows, valid during the call; or NULL and why. */
void session_each_part(struct session *s, const char *text, const char *head, int n, const char *const *values,
		       void (*take)(void *arg, const char *name, const struct pg_result *rows, const char *why),
		       void *arg);
void session_drop(struct pg_result *rows);
/* A local variable whose rows are dropped at the end of its block. It must be set where it is declared. */
#define AUTO_ROWS __attribute__((cleanup(session_drop_at))) struct pg_result
static inline void session_drop_at(struct pg_result **rows)
{
	session_drop(*rows);
}
/* Like session_query, for statements whose rows do not matter. Returns 0 or -1. */
#define session_run(...) session_dropped(session_query(__VA_ARGS__))
static inline int session_dropped(struct pg_result *rows)
{
	bool is_done = rows;

	session_drop(rows);
	return is_done ? 0 : -1;
}

/* The contents of rows. An SQL NULL reads as "", 0 and false. */
size_t session_count(const struct pg_result *rows);
bool session_is_null(const struct pg_result *rows, size_t row, int column);
const char *session_text(const struct pg_result *rows, size_t row, int column);
int64_t session_number(const struct pg_result *rows, size_t row, int column);
bool session_flag(const struct pg_result *rows, size_t row, int column);
/* Returns the bytes of a bytea, followed by a NUL, on the heap. */
char *session_bytes(const struct pg_result *rows, size_t row, int column, size_t *len);

#endif
