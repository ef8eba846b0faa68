/* connection.h: a connection to Postgres that reconnects by itself and has a deadline for every answer. */
#ifndef WSONCE_POSTGRES_CONNECTION_H
#define WSONCE_POSTGRES_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/slice.h"

#define POSTGRES_VALUES_MAX 10
#define POSTGRES_UPGRADE_MS 600000 /* for a migration: an index of a large table takes longer than an answer may */

struct postgres;

enum postgres_state {
	POSTGRES_DOWN,       /* not connected; a timer will try again */
	POSTGRES_CONNECTING, /* libpq connects and logs in */
	POSTGRES_PREPARING,  /* the schema is inspected and upgraded */
	POSTGRES_READY,      /* takes a query */
	POSTGRES_BUSY,       /* a query is running */
	POSTGRES_CLOSING,
};

/* The result of a query, by how to handle it. */
enum postgres_result {
	POSTGRES_OK,
	POSTGRES_BAD_VALUE, /* a parameter's text can never be stored */
	POSTGRES_BAD_ROW,   /* a row was refused but may pass later (a trigger that raises, a check) */
	POSTGRES_CONFLICT,  /* it conflicts with another transaction, such as in a deadlock */
	POSTGRES_TROUBLE,   /* the server cannot do it now; no row's fault */
	POSTGRES_UNKNOWN,   /* the connection died or was late: it may have committed */
};

/* Whose fault a POSTGRES_CONFLICT or POSTGRES_TROUBLE is, if a statement with a single row fails with it. */
enum postgres_blame {
	POSTGRES_BLAME_NOBODY, /* the server's, the operator's or another transaction's */
	POSTGRES_BLAME_OPEN,   /* the row's, if other rows are stored meanwhile */
	POSTGRES_BLAME_ROW,    /* a function raised it */
};

/* The database of a connection, and which history of it (sql/migrations/005_epoch.sql). */
struct postgres_identity {
	char database[40];   /* its id, "" if it has none */
	char hazards[160];   /* how commits may be lost in a crash or failover, "" if they cannot */
	uint32_t epoch;      /* 0 if unknown */
	int backend;         /* process id that libpq was told; behind a pooler it is no session's */
	bool is_partitioned; /* the table events is partitioned */
	bool is_changed;     /* triggers may change or drop rows of events before they are stored */
};

/* An answer, valid during the callback. */
struct postgres_answer {
	enum postgres_result result;
	enum postgres_blame blame;
	bool is_late;      /* it was ended because it ran or waited too long, */
	bool is_locked;    /* for a lock */
	bool is_blocked;   /* it waited for another transaction's row */
	bool is_local;     /* that, or it was in a function: says nothing about other rows */
	const char *error; /* one line: the server's message and SQLSTATE; NULL with POSTGRES_OK */
	size_t rows;       /* returned, without the one with the epoch; for postgres_copy, stored */
	bool has_epoch;    /* its first row had the epoch, as in sql/queries/epoch.sql */
	uint32_t epoch;    /* the epoch in which it ran, 0 if there is none */
	const void *data;  /* for postgres_text */
};

/* A parameter in binary form. */
struct postgres_value {
	unsigned int type; /* OID */
	const char *bytes;
	size_t len;
};

struct postgres_settings {
	const char *conninfo; /* must outlive the connection */
	int64_t timeout_ms;
	const char *tables; /* the tables to be written, as the text of a text[] */
	/* Statements call others' functions: reset what these change in the session. */
	bool calls_others;
	/* Called after each change of state, except between READY and BUSY. */
	void (*on_state)(void *owner, enum postgres_state state);
	/* Called once per query, from the loop, never from inside postgres_query. The connection is then READY; or
	 * DOWN, with POSTGRES_UNKNOWN or POSTGRES_TROUBLE; or still BUSY, if the answer's epoch is not the
	 * connection's, because another server answered: it then becomes DOWN after the call and is inspected again. */
	void (*on_answer)(void *owner, const struct postgres_answer *answer);
	/* Called when this program cannot use the database, with a sentence, valid during the call, and a fitting exit
	 * status. Not called once the connection has been READY. When it is not called, or returns, the connection
	 * stays down and tries again, and the sentence is logged and is postgres_error(). A schema that is only newer
	 * than the program is used. */
	void (*on_unusable)(void *owner, const char *sentence, int status);
	void *owner;
};

/* Starts connecting. */
struct postgres *postgres_open(uv_loop_t *loop, const struct postgres_settings *settings);

enum postgres_state postgres_state(const struct postgres *p);

/* Returns the identity of the connection while it is READY or BUSY. Valid as long as p. */
const struct postgres_identity *postgres_identity(const struct postgres *p);

/* Returns why the last attempt to connect failed, "" after a success. */
const char *postgres_error(const struct postgres *p);

/* Sends one statement, unnamed so that it works behind PgBouncer, with up to POSTGRES_VALUES_MAX values, which it
 * copies. Expands :schema. (postgres/schema.h). Returns 0, and on_answer is called; or -1 because it is not READY. */
int postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n);

/* Sets how long the next statements wait for a lock; 0: most of the timeout. */
void postgres_set_lock_timeout(struct postgres *p, int64_t lock_ms);

/* Makes the next statement, and only that one, find rows by their keys instead of reading a table as a whole. */
void postgres_find_by_key(struct postgres *p);

/* Makes the next postgres_query(), and only that one, send this statement in front, in the same transaction: see
 * SCHEMA_AS_BLOCK. It must live until then. */
void postgres_begin_with(struct postgres *p, const char *sql);

#define POSTGRES_PIECE 65536 /* a good number of bytes for next to return */

/* Runs a COPY ... FROM STDIN with the bytes that next returns piece by piece. An empty piece is the end; a piece may be
 * overwritten at the following call. next is called as fast as the server takes data, until on_answer is called, and
 * for the first time from inside this call. Otherwise like postgres_query, but on_answer may be called from inside, if
 * the server has refused or the connection was lost by then. */
int postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg);

/* Returns the text of a row's first column. */
const char *postgres_text(const struct postgres_answer *answer, size_t row, size_t *len);

/* Returns the text of a column, counted from 0; "" for NULL. */
const char *postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len);

/* Drops the connection without waiting for an answer; on_answer is no longer called. done is called from the loop when
 * p is closed and about to be freed. */
void postgres_close(struct postgres *p, void (*done)(void *arg), void *arg);

/* True if libpq can read this conninfo. */
bool postgres_is_conninfo(const char *conninfo);

#endif
