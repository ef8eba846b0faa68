/* ledger.h: the frames of one connection in the order in which they came, until all in them is stored: from where the
 * source is to be asked again, and what it is told. No I/O. */
#ifndef WSONCE_LEDGER_H
#define WSONCE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/slice.h"
#include "road/event.h"

struct ledger;

/* All callbacks may come from inside ledger_end, and when an event settles; never from inside another call. */
struct ledger_settings {
	bool is_last;         /* the cursor is the value that came last; else the largest */
	bool is_lasting;      /* it goes on when the connection is gone: a largest value that all connections share */
	bool is_held;         /* no cursor counts before ledger_release */
	bool is_cumulative;   /* an ack is for all frames before it; else for its own */
	bool is_at_once;      /* an ack is due when its frame has come; else when it is durable */
	size_t max_unacked;   /* frames whose acks were not taken; 0: any number */
	struct list *ledgers; /* where it is until it is freed */
	/* All that came before this cursor on the connection is durable. Lives for the call. */
	void (*on_cursor)(void *arg, struct slice cursor);
	/* There is something for ledger_take_ack. */
	void (*on_ack_due)(void *arg);
	/* So many frames are unacked that no more may be read; or no longer. */
	void (*on_full)(void *arg, bool is_full);
	void *arg;      /* of on_cursor; outlives it */
	void *conn_arg; /* of the other two, which are not called any more after ledger_leave */
};

struct ledger *ledger_new(const struct ledger_settings *settings);

/* Loop clock: frames that come from here on came then. */
void ledger_tick(struct ledger *l, int64_t now_ms);

/* A message comes in: its frames, each with calls of the next five, and its end. */

/* What was rejected so far is of another frame. */
void ledger_begin_frame(struct ledger *l);

/* One more event of it, or the dead letter that it becomes, is handed to the pipeline with this sender, once. */
struct sender *ledger_expect(struct ledger *l);
/* An event of it, or the frame itself, says this cursor, JSON. Copied. */
void ledger_note_cursor(struct ledger *l, struct slice cursor);
/* The source waits for this ack of what came of the frame so far. Copied. What comes of it later is as of a frame of
 * its own. */
void ledger_owe_ack(struct ledger *l, struct slice ack);
/* A part of it cannot be read: it is never acked. */
void ledger_reject(struct ledger *l);
/* It ends the time in which cursors do not count, when all before it is durable. */
void ledger_release(struct ledger *l);
void ledger_end(struct ledger *l);

/* The next ack to send, in a moment when it can be sent; at NULL: none is due. Lives until the next call. */
struct slice ledger_take_ack(struct ledger *l);
/* When the frame of that ack came. */
int64_t ledger_taken_ms(const struct ledger *l);

/* No cursor that came so far counts, on any connection, gone or not: the source has said so, or the database has
 * forgotten. Nor do those that come later on connections older than first; NULL: they do. */
void ledgers_forget_cursors(struct list *ledgers, const struct ledger *first);

/* The connection is gone: nothing more comes, and no acks go out. Freed when its last event has settled. */
void ledger_leave(struct ledger *l);

/* Frees all that are left, when no event can settle any more. */
void ledgers_free(struct list *ledgers);

/* Is the cursor b, JSON, ahead of a? Numbers by their size, also hexadecimal ones in strings; strings by their bytes;
 * of two forms the second: the source has changed it. */
bool ledger_is_ahead(struct slice a, struct slice b);

#endif
