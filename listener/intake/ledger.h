/* ledger.h: the frames of one connection, of a feed or a producer, in order of arrival, until all their events are
 * stored. It decides which cursor to resume from and which acks to send. No I/O. */
#ifndef WSONCE_LEDGER_H
#define WSONCE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/slice.h"
#include "event/event.h"

struct ledger;

/* Placeholder in the ack of an error for the reason, which is known only when the event settles. If a producer's own
 * text contains it, the producer only sees its reason there, too. */
#define LEDGER_REASON "@wsonce-reason@"

/* The acks of a frame, one for each outcome. A feed has one. at is NULL: send nothing. */
struct ledger_acks {
	struct slice stored;    /* all events are stored, at least one is new; or all, if duplicate.at is NULL */
	struct slice duplicate; /* all events were stored before */
	struct slice error;     /* an event became a dead letter */
};

/* Callbacks run inside ledger_owe_acks and ledger_end and when an event settles, never inside another call. */
struct ledger_settings {
	bool is_last;         /* the cursor is the latest value, not the largest */
	bool is_hex;          /* cursors are hexadecimal numbers in strings */
	bool is_lasting;      /* the cursor is shared by all connections, so it still moves after this one ends */
	bool is_held;         /* cursors do not count until ledger_release */
	bool is_cumulative;   /* an ack covers all frames before it, too */
	bool resends;         /* the other side sends again what did not settle, */
	bool forgets;         /* but not to another process */
	bool is_at_once;      /* an ack is due on arrival, not when its frame is durable */
	size_t max_unacked;   /* limit of frames that wait for their acks; 0: none */
	const char *name;     /* name of the producer's token; NULL: none */
	struct list *ledgers; /* the list it stays in until it is freed */
	/* The memory of cursors and acks, whose length the other side chooses, has changed by this many bytes. NULL: do
	 * not charge. */
	void (*charge)(void *arg, long bytes);
	/* All frames up to this cursor are durable. cursor is valid during the call. */
	void (*on_cursor)(void *arg, struct slice cursor);
	/* Send this ack now. came_ms: when its frame came. ack is valid during the call. */
	void (*on_ack)(void *arg, struct slice ack, int64_t came_ms);
	/* is_full: max_unacked is reached, stop reading. Otherwise resume. */
	void (*on_full)(void *arg, bool is_full);
	/* An event or dead letter of message n has settled, and the ack of its frame was sent. NULL: dead letters are
	 * acked as events are. */
	void (*on_answer)(void *arg, const struct event *ev, enum outcome outcome, uint64_t n);
	void *arg;      /* for on_cursor, on_answer and charge; must outlive the ledger */
	void *conn_arg; /* for on_ack and on_full, which are not called after ledger_leave */
};

struct ledger *ledger_new(const struct ledger_settings *settings);

/* Sets the number and arrival time (loop clock) of the message whose frames follow. */
void ledger_tick(struct ledger *l, uint64_t n, int64_t now_ms);

/* For each frame of a message call ledger_begin_frame and then any of the next five; after the message, ledger_end. For
 * a producer's frame, call ledger_expect for each event and then ledger_owe_acks. */

/* Begins a frame. ledger_reject applies to this frame only. */
void ledger_begin_frame(struct ledger *l);

/* Returns the sender for one more event or dead letter of the frame. Pass it to the pipeline exactly once. */
struct sender *ledger_expect(struct ledger *l);
/* Copies the cursor (JSON) of the frame or of an event in it. */
void ledger_note_cursor(struct ledger *l, struct slice cursor);
/* Copies the acks that the other side expects for the events of the frame so far. Later events of the frame count as
 * another frame. If stored.at is NULL, a frame without events counts as nothing. */
void ledger_owe_acks(struct ledger *l, const struct ledger_acks *acks);
/* Call when a part of the frame cannot be read: the frame is never acked. */
void ledger_reject(struct ledger *l);
/* Call for a frame that releases cursors: they count once everything before it is durable. */
void ledger_release(struct ledger *l);
void ledger_end(struct ledger *l);

/* Discards all cursors so far, on every connection, because the source said so or the database lost data. Also discards
 * later cursors of connections older than first, unless first is NULL. */
void ledgers_forget_cursors(struct list *ledgers, const struct ledger *first);

/* The connection is gone. The ledger is freed when its last event has settled. */
void ledger_leave(struct ledger *l);

/* Frees all remaining ledgers, when no event can settle. */
void ledgers_free(struct list *ledgers);

#endif
