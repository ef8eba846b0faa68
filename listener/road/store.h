/* store.h: batches of events into Postgres, and what became of each event. */
#ifndef WSONCE_STORE_H
#define WSONCE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "road/batch.h"
#include "config/config.h"
#include "road/cursors.h"
#include "road/event.h"

struct store;

enum store_result {
	STORE_INSERTED, /* this statement made the row, and it is committed with what follows from it */
	STORE_PRESENT,  /* a committed row with this id was there; of a consumer, its mark */
	STORE_LATER,    /* Postgres cannot store this row now, which may be nobody's fault; */
	STORE_BLOCKED, /* it works, but another transaction, or a function that is called for this row, is in the way */
	STORE_REFUSED, /* Postgres refused the row now; another time it may take it */
	STORE_HOPELESS, /* Postgres can never take this text */
	STORE_UNKNOWN,  /* store_give_up() was called: it may be stored or not */
};

enum store_burial {
	STORE_BURIED,   /* the dead letter is committed */
	STORE_UNBURIED, /* Postgres cannot write the letter now: it is to be handed in again later */
	STORE_HAS_ROW,  /* the event is stored, as by STORE_PRESENT: there is no letter */
};

/* Called from the loop. If store_insert or store_bury finds the connection lost or the statement refused, it may also
 * call on_epoch, and on_stored for events that were not stored. */
struct store_callbacks {
	/* A batch is stored, and the next one can be given, before on_stored tells of the first one's events, or behind
	 * that. NULL: nobody wants to know. */
	void (*on_idle)(void *arg);
	/* Once for each event of a batch. why is the server's words with the last four results, and
	 * lives for the call. ev may be freed. */
	void (*on_stored)(void *arg, struct event *ev, enum store_result result, const char *why);
	/* Once for each event handed to store_bury. ev may be freed. */
	void (*on_buried)(void *arg, struct event *ev, enum store_burial burial);
	/* What was handed to store_checkin is committed (is_told) or given up. answer is the first value of
	 * sql/queries/checkin.sql, NULL if there is none, and lives for the call. */
	void (*on_checked_in)(void *arg, bool is_told, const char *answer);
	/* What was handed to store_put_cursors is committed (is_stored), or may not be. */
	void (*on_cursors_put)(void *arg, bool is_stored);
	/* A cursor that store_read_cursors asked for, which lives for the call. NULL: that were all, if is_read. */
	void (*on_cursor_read)(void *arg, const struct cursor *cursor, bool is_read);
	/* The id of a row that store_read_newest found, which lives for the call. NULL: there are no more, or nothing
	 * could be told. */
	void (*on_newest)(void *arg, const char *id, size_t len);
	/* The name of another session that store_read_members found, which lives for the call. NULL: that were all, if
	 * is_told. */
	void (*on_member)(void *arg, const char *name, size_t len, bool is_told);
	/* A connection is there; id is that of its database, "" if it has none, and lives for the call. */
	void (*on_database)(void *arg, const char *id);
	/* The epoch of the database is known, or not known any more (0), or is another one. What on_stored and
	 * on_buried tell until the next call was committed in it. */
	void (*on_epoch)(void *arg, uint32_t epoch);
	/* New rows of the outbox are committed, in the transaction of events just told of by on_stored. */
	void (*on_posted)(void *arg);
	/* This database will never do; sentence says why and lives for the call. status is the exit status
	 * that fits: 2 if it is a setting that is wrong, else 1. If it returns, the store waits until that is
	 * mended. */
	void (*on_unusable)(void *arg, const char *sentence, int status);
	void *arg;
};

/* Starts connecting. config must outlive the store. */
struct store *store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks);

/* Can a batch be given? false while one is at work, also while Postgres is away and the batch at
 * hand waits for it: trouble with the server is retried here, until it is known which events meet it. */
bool store_is_idle(const struct store *s);

/* Is Postgres there? If not, why gets the reason, valid until the next call. */
bool store_is_ready(const struct store *s, const char **why);

/* By what commits may vanish when the server crashes or fails over, as was asked at the last connect or check-in; "" if
 * by nothing that is known. Valid until the next call. */
const char *store_hazards(const struct store *s);

/* Which session's lock statements wait for, and what to do; "": none that is known. Valid until the next call. */
const char *store_holder(const struct store *s);

/* Is a statement of the batch at hand at the server, or may it be, because its answer was not seen? */
bool store_is_sent(const struct store *s);

/* Is it being found out which rows of the batch at hand another transaction has? Postgres works then. */
bool store_is_searching(const struct store *s);

/* What the server said when it last could not store; never NULL. */
const char *store_trouble(const struct store *s);

/* Is Postgres away, or has it been at the statement at hand for unusually long? */
bool store_is_stalled(const struct store *s);

/* Is what on_epoch told last beyond doubt? Not if an epoch was told longer than a second ago: a server that takes
 * over from another one needs longer than that. */
bool store_is_sure(const struct store *s);

/* Asks for it, unless that was done just now. The store must be idle. Returns 0; or -1 if the connection is lost. */
int store_ask_epoch(struct store *s);

/* Ends the work on the batch at hand, of which on_stored tells STORE_UNKNOWN before this returns. The connection must
 * be lost, or s be closed next. */
void store_give_up(struct store *s);

/* Stores the events of a sorted batch, or records them as dead letters with their reasons. The
 * store must be idle. b is borrowed until the callbacks of all its events, each event until its own. */
void store_insert(struct store *s, const struct batch *b);
void store_bury(struct store *s, const struct batch *b);

/* Tells the database a text for sql/queries/checkin.sql, which is copied. The store must be idle. Returns 0, and
 * on_checked_in is called; or -1 if the connection is lost. Nothing is tried again: it is only a check-in. */
int store_checkin(struct store *s, const char *text);

/* Stores those cursors that are CURSOR_SENT: all before them was stored in epoch, and in another one nothing is
 * written. The store must be idle. Returns 0, and on_cursors_put is called; or -1 if the connection is lost. */
int store_put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch);
/* Asks for the cursors of n sources. Returns 0, and on_cursor_read is called; or -1. */
int store_read_cursors(struct store *s, const char *const *sources, size_t n);

/* Asks for the newest rows, at most so many, of those that were not told on this connection; of some before them again,
 * since others may commit later what has lower numbers. The store must be idle. Returns 0, and on_newest is called; or
 * -1 because a row is not enough (a consumer), the store cannot tell, or the connection is lost. */
int store_read_newest(struct store *s, size_t most);

/* Names the own session, and asks for those of others whose names begin alike: see sql/queries/members.sql. The store
 * must be idle. Returns 0, and on_member is called; or -1 because the sessions of this connection cannot be told apart,
 * or it is lost. */
int store_read_members(struct store *s, const char *name);

/* Gives up the batch at hand, without callbacks. done is called from the loop when nothing of s is
 * left. */
void store_close(struct store *s, void (*done)(void *arg), void *arg);

#endif
