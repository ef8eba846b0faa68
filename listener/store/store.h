/* store.h: stores batches of events in the database and reports the result of each event. */
#ifndef WSONCE_STORE_H
#define WSONCE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "store/batch.h"
#include "config/config.h"
#include "store/cursors.h"
#include "event/event.h"

struct store;

enum store_result {
	STORE_INSERTED, /* this statement inserted the row, and it is committed with its effects */
	STORE_PRESENT,  /* a committed row with this id existed, or with --consumer, a mark of the consumer */
	STORE_LATER,    /* Postgres cannot store the row now; the row may not be the cause */
	STORE_BLOCKED,  /* Postgres works, but another transaction or a function called for this row blocks it */
	STORE_REFUSED,  /* Postgres refused the row; it may accept it later */
	STORE_HOPELESS, /* Postgres can never store this text */
	STORE_UNKNOWN,  /* store_give_up() was called: the row may be stored or not */
};

enum store_dead_letter {
	STORE_DEAD_LETTERED,     /* the dead letter is committed */
	STORE_NOT_DEAD_LETTERED, /* Postgres cannot write the dead letter now: pass the event again later */
	STORE_HAS_ROW,           /* the event is stored, as with STORE_PRESENT: no dead letter was written */
};

/* Called from the loop. If the connection is lost or the statement refused, store_insert and store_dead_letter may also
 * call on_epoch, and on_stored for events that were not stored, before they return. Arguments are valid during the
 * call.
 */
struct store_callbacks {
	/* A batch is stored, and the store takes the next one. Called before or after the on_stored calls of its
	 * events. May be NULL. */
	void (*on_idle)(void *arg);
	/* The store waits before it tries its batch again. store_checkin may be called now. May be NULL. */
	void (*on_pause)(void *arg);
	/* Called once for each event of a batch, and may free it. With STORE_LATER and the results after it, why is the
	 * server's error text. */
	void (*on_stored)(void *arg, struct event *ev, enum store_result result, const char *why);
	/* Called once for each event passed to store_dead_letter, and may free it. */
	void (*on_dead_lettered)(void *arg, struct event *ev, enum store_dead_letter dead_letter);
	/* sql/queries/checkin.sql returned a second value: these rows. May be NULL. */
	void (*on_lines)(void *arg, const char *rows, size_t len);
	/* The text of store_checkin is committed (is_told) or was given up. answer is the first value of
	 * sql/queries/checkin.sql, or NULL. */
	void (*on_checked_in)(void *arg, bool is_told, const char *answer);
	/* The cursors of store_put_cursors are committed (is_stored), or may not be. */
	void (*on_cursors_put)(void *arg, bool is_stored);
	/* Called once for each cursor found by store_read_cursors, then with NULL; is_read says whether the list is
	 * complete. */
	void (*on_cursor_read)(void *arg, const struct cursor *cursor, bool is_read);
	/* Connected; id names the database, "" if it has no id. */
	void (*on_database)(void *arg, const char *id);
	/* The database's epoch became known (or 0: unknown), or changed. Everything that on_stored and on_dead_lettered
	 * report until the next call was committed in this epoch. */
	void (*on_epoch)(void *arg, uint32_t epoch);
	/* New rows of the outbox were committed with the events that on_stored reported last. */
	void (*on_posted)(void *arg);
	/* This database cannot be used; sentence says why. status is the exit status for it: 2 if a setting is wrong,
	 * else 1. If the callback returns, the store waits until the cause is fixed. */
	void (*on_unusable)(void *arg, const char *sentence, int status);
	void *arg;
};

/* Returns the tables of Postgres that a listener writes, as the text of a text[] that the next call overwrites. */
const char *store_tables(const struct config *config);

/* Starts to connect. config must outlive the store. */
struct store *store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks);

/* The state of a store. The texts are never NULL, and valid until the next call. */
struct store_view {
	/* The store takes a batch. False until the results of the last one are known, even if that has to wait for an
	 * unreachable Postgres: the store retries until it knows which events cannot be stored. */
	bool is_idle;
	bool is_ready;       /* Postgres is connected */
	bool is_sent;        /* the server may be executing a statement of the current batch, or its answer was lost */
	bool is_searching;   /* searching the batch for rows that another transaction blocks: Postgres works */
	bool is_stalled;     /* Postgres is unreachable, or the current statement takes unusually long */
	size_t rows_most;    /* of a statement, fewer than --batch-max if a handler is slow; 0: --batch-max */
	const char *why;     /* reason why Postgres is not connected */
	const char *trouble; /* the server's error text when it last could not store */
	/* The settings of the server with which a crash or failover can lose commits, as of the last connect or
	 * check-in; "" if none is known. */
	const char *hazards;
	/* The session whose lock statements wait for, and what to do about it; "" if none is known. */
	const char *holder;
};
struct store_view store_view(const struct store *s);

/* True if the epoch that on_epoch reported is certain: the server confirmed it within the last second, and a failover
 * takes longer. */
bool store_is_sure(const struct store *s);

/* Asks the server for its epoch, unless it was just asked. The store must be idle. Returns 0, or -1 if the connection
 * is lost. */
int store_ask_epoch(struct store *s);

/* Abandons the current batch: calls on_stored with STORE_UNKNOWN for its events before it returns. Only when the
 * connection is lost, or right before store_close. */
void store_give_up(struct store *s);

/* Stores the events of a batch, or records them as dead letters with their reasons. The store must be idle. b is
 * borrowed until all its events have had their callbacks, each event until its own. */
void store_insert(struct store *s, const struct batch *b);
void store_dead_letter(struct store *s, const struct batch *b);

/* Runs sql/queries/checkin.sql with this text, which is copied. The store must be idle, or call on_pause. Returns 0,
 * and on_checked_in is called; or -1 if the connection is lost. A failed check-in is not retried. */
int store_checkin(struct store *s, const char *text);

/* Stores the cursors that are sent. All events before them were stored in epoch; if the database has another
 * one, nothing is written. The store must be idle. Returns 0, and on_cursors_put is called; or -1 if the connection is
 * lost. */
int store_put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch);
/* Reads the cursors of n sources. Returns 0, and on_cursor_read is called; or -1. */
int store_read_cursors(struct store *s, const char *const *sources, size_t n);

/* Abandons the current batch without callbacks. done is called from the loop once s is freed. */
void store_close(struct store *s, void (*done)(void *arg), void *arg);

#endif
