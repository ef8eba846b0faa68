/* ledger.h: the frames of one connection in order of arrival, until all their events are stored. It decides which
 * cursor to resume from and which acks to send. No I/O. */
#ifndef WSONCE_LEDGER_H
#define WSONCE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/slice.h"
#include "event/event.h"

struct ledger;

/* Callbacks run inside ledger_end and when an event settles, never inside another call. */
struct ledger_settings {
	bool is_last;         /* the cursor is the latest value, not the largest */
	bool is_hex;          /* cursors are hexadecimal numbers in strings */
	bool is_lasting;      /* the cursor is shared by all connections, so it still moves after this one ends */
	bool is_held;         /* cursors do not count until ledger_release */
	bool is_cumulative;   /* an ack covers all frames before it, too */
	bool resends;         /* the source sends again what did not settle */
	bool is_at_once;      /* an ack is due on arrival, not when its frame is durable */
	size_t max_unacked;   /* limit of frames whose acks were not taken; 0: none */
	struct list *ledgers; /* the list it stays in until it is freed */
	/* The memory of cursors and acks, whose length the feed chooses, has changed by this many bytes. NULL: do not
	 * charge. */
	void (*charge)(void *arg, long bytes);
	/* All frames up to this cursor are durable. cursor is valid during the call. */
	void (*on_cursor)(void *arg, struct slice cursor);
	/* ledger_take_ack has an ack. */
	void (*on_ack_due)(void *arg);
	/* is_full: max_unacked is reached, stop reading. Otherwise resume. */
	void (*on_full)(void *arg, bool is_full);
	void *arg;      /* for on_cursor and charge; must outlive the ledger */
	void *conn_arg; /* for on_ack_due and on_full, which are not called after ledger_leave */
};

struct ledger *ledger_new(const struct ledger_settings *settings);

/* Sets the arrival time of the frames that follow (loop clock). */
void ledger_tick(struct ledger *l, int64_t now_ms);

/* For each frame of a message call ledger_begin_frame and then any of the next five; after the message, ledger_end. */

/* Begins a frame. ledger_reject applies to this frame only. */
void ledger_begin_frame(struct ledger *l);

/* Returns the sender for one more event or dead letter of the frame. Pass it to the pipeline exactly once. */
struct sender *ledger_expect(struct ledger *l);
/* Copies the cursor (JSON) of the frame or of an event in it. */
void ledger_note_cursor(struct ledger *l, struct slice cursor);
/* Copies the ack that the source expects for the events of the frame so far. Later events of the frame count as another
 * frame. */
void ledger_owe_ack(struct ledger *l, struct slice ack);
/* Call when a part of the frame cannot be read: the frame is never acked. */
void ledger_reject(struct ledger *l);
/* Call for a frame that releases cursors: they count once everything before it is durable. */
void ledger_release(struct ledger *l);
void ledger_end(struct ledger *l);

/* Returns the next ack to send; call it only when it can be sent at once. at is NULL if none is due. Valid until the
 * next call. */
struct slice ledger_take_ack(struct ledger *l);
/* Returns when the frame of that ack arrived (loop clock). */
int64_t ledger_taken_ms(const struct ledger *l);

/* Discards all cursors so far, on every connection, because the source said so or the database lost data. Also discards
 * later cursors of connections older than first, unless first is NULL. */
void ledgers_forget_cursors(struct list *ledgers, const struct ledger *first);

/* The connection is gone. The ledger is freed when its last event has settled. */
void ledger_leave(struct ledger *l);

/* Frees all remaining ledgers, when no event can settle. */
void ledgers_free(struct list *ledgers);

#endif
