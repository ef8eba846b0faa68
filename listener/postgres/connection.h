/* connection.h: one connection to Postgres that comes back by itself, with a deadline on every
 * answer. */
#ifndef WSONCE_POSTGRES_CONNECTION_H
#define WSONCE_POSTGRES_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/slice.h"

#define POSTGRES_VALUES_MAX 10

struct postgres;

enum postgres_state {
	POSTGRES_DOWN,       /* not connected; a timer will try again */
	POSTGRES_CONNECTING, /* libpq connects and logs in */
	POSTGRES_PREPARING,  /* the schema is looked at, and brought up to date */
	POSTGRES_READY,      /* may be given a query */
	POSTGRES_BUSY,       /* a query is on its way */
	POSTGRES_CLOSING,
};

/* What came of a query, by what has to be done about it. */
enum postgres_result {
	POSTGRES_OK,
	POSTGRES_BAD_VALUE, /* a parameter's text can never be stored as it is */
	POSTGRES_BAD_ROW,   /* a row was refused; it may pass later (a trigger that raises, a check) */
	POSTGRES_CONFLICT,  /* this transaction and another could not both go on (a deadlock, say) */
	POSTGRES_TROUBLE,   /* the server cannot now; no row's fault */
	POSTGRES_UNKNOWN,   /* the connection died or was late: it may have been committed */
};

/* Whose fault a POSTGRES_CONFLICT or POSTGRES_TROUBLE is, if a statement of a single row fails with it. */
enum postgres_blame {
	POSTGRES_BLAME_NOBODY, /* the server's, the operator's, or another transaction's */
	POSTGRES_BLAME_OPEN,   /* the row's if other rows are stored meanwhile */
	POSTGRES_BLAME_ROW,    /* a function raised it */
};

/* Which database a connection leads to, and which history of it (see sql/migrations/005_epoch.sql). */
struct postgres_identity {
	char database[40];   /* its id; "" if it has none */
	char hazards[160];   /* by what commits may vanish when the server crashes or fails over; "" if by nothing */
	uint32_t epoch;      /* 0: unknown */
	int backend;         /* its number, as libpq was told; a pooler's own is of no session */
	bool is_partitioned; /* the table events is */
	bool is_changed;     /* its rows may be, or be kept back, by triggers before they are stored */
};

/* The answer. Valid during the callback. */
struct postgres_answer {
	enum postgres_result result;
	enum postgres_blame blame;
	bool is_late;      /* it was given up because it took or waited too long, */
	bool is_locked;    /* for a lock */
	bool is_blocked;   /* it waited for a row of another transaction */
	bool is_local;     /* it did so, or was in a function: that says nothing of other rows */
	const char *error; /* one line: the server's words and SQLSTATE; NULL with POSTGRES_OK */
	size_t rows;       /* returned, but for the one with the epoch; with postgres_copy, stored */
	bool has_epoch;    /* the statement told the epoch in its first row, as sql/queries/epoch.sql does */
	uint32_t epoch;    /* in which it ran; 0: there is none */
	const void *data;  /* for postgres_text */
};

/* A parameter in binary form. */
struct postgres_value {
	unsigned int type; /* OID */
	const char *bytes;
	size_t len;
};

struct postgres_settings {
	const char *conninfo; /* must live as long as the connection */
	int64_t timeout_ms;
	const char *tables; /* that are written, as the text of a text[] */
	/* Statements call functions that are not ours: what these set for the session is set back. */
	bool calls_others;
	/* Called after each change of state but between READY and BUSY. */
	void (*on_state)(void *owner, enum postgres_state state);
	/* Called once for a query, from the loop, never from inside postgres_query. The connection
	 * is then READY again; or DOWN, with POSTGRES_UNKNOWN or POSTGRES_TROUBLE; or still BUSY, and DOWN after
	 * the call, if the epoch is not that of the connection: then this is another server, to be looked at anew. */
	void (*on_answer)(void *owner, const struct postgres_answer *answer);
	/* The database is not one that this program can work with; sentence lives for the call. status is the exit
	 * status that fits. Not called once the connection has been READY. If it is not called, or returns, then the
	 * connection stays away and tries again, and the sentence is logged and postgres_error's; one whose schema is
	 * only newer than the program is used. */
	void (*on_unusable)(void *owner, const char *sentence, int status);
	void *owner;
};

/* Starts connecting. */
struct postgres *postgres_open(uv_loop_t *loop, const struct postgres_settings *settings);

enum postgres_state postgres_state(const struct postgres *p);

/* Of the connection that is READY or BUSY. Lives as long as p. */
const struct postgres_identity *postgres_identity(const struct postgres *p);

/* Why the last connection attempt failed; "" after a success. */
const char *postgres_error(const struct postgres *p);

/* Sends one statement, in which :schema. is expanded (see postgres/schema.h), with up to POSTGRES_VALUES_MAX values,
 * unnamed, so that it works behind PgBouncer. Returns 0, and on_answer is called; or -1 because the connection is not
 * READY. The values are copied. */
int postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n);

/* For how long the next statements wait for a lock; 0: for most of the timeout. */
void postgres_set_patience(struct postgres *p, int64_t lock_ms);

/* The next statement, and that one alone, is to find rows by their keys, not to read a table as a whole. */
void postgres_find_by_key(struct postgres *p);

/* The next postgres_query(), and that one alone, sends this in front, in the same transaction: see SCHEMA_AS_BLOCK. It
 * must live until then. */
void postgres_begin_with(struct postgres *p, const char *sql);

#define POSTGRES_PIECE 65536 /* bytes that next may well return */

/* Runs a COPY ... FROM STDIN with the bytes that next returns piece by piece, each of which is used up when it is
 * called again; an empty one is the end. It is called when the server is ready and as fast as it takes them, until
 * on_answer is called, and for the first time within, after the statement was sent. Else as postgres_query; but
 * on_answer may be called within, if the server has refused, or the connection is lost, by then. */
int postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg);

/* Text of a row's first column. */
const char *postgres_text(const struct postgres_answer *answer, size_t row, size_t *len);

/* Text of any of its columns, from 0; "" for NULL. */
const char *postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len);

/* Drops the connection without waiting for an answer; on_answer is not called any more. done is
 * called from the loop when nothing of p is left. */
void postgres_close(struct postgres *p, void (*done)(void *arg), void *arg);

/* Whether libpq can read this conninfo. */
bool postgres_is_conninfo(const char *conninfo);

#endif
