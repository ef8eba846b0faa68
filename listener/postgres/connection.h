/* connection.h: a connection to Postgres that reconnects by itself and has a deadline for every answer. */
#ifndef WSONCE_POSTGRES_CONNECTION_H
#define WSONCE_POSTGRES_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/slice.h"

#define POSTGRES_VALUES_MAX 10
#define POSTGRES_UPGRADE_MS 600000 /* timeout of a migration, which may build an index of a large table */

struct postgres;

enum postgres_state {
	POSTGRES_DOWN,       /* not connected; a timer will try again */
	POSTGRES_CONNECTING, /* libpq is connecting and logging in */
	POSTGRES_PREPARING,  /* the schema is being inspected and upgraded */
	POSTGRES_READY,      /* takes a query */
	POSTGRES_BUSY,       /* a query is running */
	POSTGRES_CLOSING,
};

/* The result of a query, which says how to handle it. */
enum postgres_result {
	POSTGRES_OK,
	POSTGRES_BAD_VALUE, /* a parameter's text can never be stored */
	POSTGRES_BAD_ROW,   /* a row was refused but may pass later (a trigger that raises, a check) */
	POSTGRES_CONFLICT,  /* it conflicts with another transaction, such as in a deadlock */
	POSTGRES_TROUBLE,   /* the server cannot do it now; no row is to blame */
	POSTGRES_UNKNOWN,   /* the connection died or timed out: the query may have committed */
};

/* What caused a POSTGRES_CONFLICT or POSTGRES_TROUBLE of a statement with a single row. */
enum postgres_blame {
	POSTGRES_BLAME_NOBODY, /* the server, the operator or another transaction */
	POSTGRES_BLAME_OPEN,   /* the row, if other rows are stored meanwhile */
	POSTGRES_BLAME_ROW,    /* the row: a function raised the error */
};

/* The database of a connection and its epoch (sql/migrations/005_epoch.sql). */
struct postgres_identity {
	char database[40];   /* the database's id, "" if it has none */
	char hazards[160];   /* how commits may be lost in a crash or failover, "" if they cannot */
	char run[32];        /* start of the server that the epoch's row names */
	uint32_t epoch;      /* 0 if unknown */
	bool is_partitioned; /* the table events is partitioned */
	bool is_changed;     /* triggers may change or drop rows of events before they are stored */
};

/* An answer, valid during the callback. */
struct postgres_answer {
	enum postgres_result result;
	enum postgres_blame blame;
	bool is_late;      /* it ended because it ran or waited too long */
	bool is_locked;    /* is_late, and the wait was for a lock */
	bool is_blocked;   /* it waited for another transaction's row */
	bool is_local;     /* is_blocked, or ended in a function: says nothing about other rows */
	const char *error; /* one line: the server's message and SQLSTATE; NULL with POSTGRES_OK */
	size_t rows;       /* returned rows without that of the epoch; for postgres_copy, stored rows */
	bool has_epoch;    /* its first row was the epoch, as in sql/queries/epoch.sql */
	uint32_t epoch;    /* epoch of the database that answered; 0 if there is none */
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
	const char *tables; /* tables that will be written, as the text of a text[] */
	/* Statements call functions that others wrote: reset the settings that these change in the session. */
	bool calls_others;
	bool is_second; /* the process has another connection, which logs losses; failures of all such ones are one */
	/* Called after each change of state, except between READY and BUSY. */
	void (*on_state)(void *owner, enum postgres_state state);
	/* Called once per query, from the loop, never from inside postgres_query. The state is then READY; or DOWN,
	 * with POSTGRES_UNKNOWN or POSTGRES_TROUBLE; or still BUSY if the answer has another epoch, from another
	 * server: then the connection goes DOWN after the call and inspects the database again. */
	void (*on_answer)(void *owner, const struct postgres_answer *answer);
	/* Called when this program cannot use the database, unless the connection has been READY before. sentence is
	 * valid during the call; status is a fitting exit status. If it is not called, or returns, the connection tries
	 * again later, logs the sentence and returns it from postgres_error(). A schema that is only newer than the
	 * program does not prevent its use. */
	void (*on_unusable)(void *owner, const char *sentence, int status);
	void *owner;
};

/* Starts connecting. */
struct postgres *postgres_open(uv_loop_t *loop, const struct postgres_settings *settings);

enum postgres_state postgres_state(const struct postgres *p);

/* Returns the identity of the connection while it is READY or BUSY. Valid as long as p. */
const struct postgres_identity *postgres_identity(const struct postgres *p);

/* Returns why the last attempt to connect failed, or "" after a success. */
const char *postgres_error(const struct postgres *p);

/* Sends one statement with up to POSTGRES_VALUES_MAX values, which it copies. The statement is unnamed, so that it
 * works behind PgBouncer. Expands :schema. (postgres/schema.h). Returns 0 and later calls on_answer; or returns -1 if
 * the connection is not READY. */
int postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n);

/* Sets how long the next statements wait for a lock; 0: most of the timeout. */
void postgres_set_lock_timeout(struct postgres *p, int64_t lock_ms);

/* Keeps the next statement, and only that one, from reading whole tables: it must find rows by their keys. */
void postgres_find_by_key(struct postgres *p);

/* Makes the next postgres_query(), and only that one, first send sql in the same transaction; see SCHEMA_AS_BLOCK. sql
 * must live until then. */
void postgres_begin_with(struct postgres *p, const char *sql);

#define POSTGRES_PIECE 65536 /* recommended size of a piece */

/* Runs a COPY ... FROM STDIN. next returns the data in pieces; an empty piece marks the end, and a piece may be
 * overwritten by the next call. next is called as fast as the server takes data until on_answer is called, for the
 * first time from inside this call. Otherwise like postgres_query, except that on_answer may be called from inside, if
 * the server refuses or the connection is lost. */
int postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg);

/* Returns the text of a row's first column. */
const char *postgres_text(const struct postgres_answer *answer, size_t row, size_t *len);

/* Returns the text of a column, counted from 0; "" for NULL. */
const char *postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len);

/* Drops the connection without waiting for an answer, and does not call on_answer. done is called from the loop when p
 * is closed and about to be freed. */
void postgres_close(struct postgres *p, void (*done)(void *arg), void *arg);

#endif
