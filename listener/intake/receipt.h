/* receipt.h: the acks that a profile describes for a producer's frames. No I/O. */
#ifndef WSONCE_RECEIPT_H
#define WSONCE_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"
#include "event/event.h"

/* Placeholder in an error ack for the reason, which is known only when the event settles. If a producer's own text
 * contains it, the producer only sees its reason there, too. */
#define RECEIPT_REASON "@wsonce-reason@"

/* The callbacks run when an event settles, or inside receipts_end. */
struct receipts_owner {
	/* Send this ack now. came_ms: when its frame came (loop clock). text is valid during the call. If say is NULL,
	 * no acks are sent, and now_ms is not called. */
	void (*say)(void *arg, struct slice text, int64_t came_ms);
	/* An event or dead letter of message n has settled, and the ack of its frame was passed to say. May free the
	 * receipts. */
	void (*on_answer)(void *arg, const struct event *ev, enum outcome outcome, uint64_t n);
	/* Returns the loop clock. */
	int64_t (*now_ms)(void *arg);
	/* The memory of waiting acks has changed by this many bytes. */
	void (*charge)(void *arg, long bytes);
};

/* For one connection; a member of its owner's struct. */
struct receipts {
	const struct receipts_owner *owner;
	void *arg;
	const char *name;   /* name of the producer's token; NULL: none */
	bool is_cumulative; /* an ack covers all frames before it, too */
	bool resends;       /* the producer waits for answers, and sends again what has none */
	bool is_left;       /* the connection is gone: send nothing */
	struct list frames; /* unsettled, in order of arrival; if cumulative, also settled ones behind them */
	size_t count;       /* number of frames */
	struct receipt *open;
	uint64_t n;
};

/* The acks for a frame, one for each outcome. at is NULL: send nothing. */
struct receipt_words {
	struct slice stored;    /* all events are stored, at least one is new */
	struct slice duplicate; /* all events were stored before */
	struct slice error;     /* an event became a dead letter */
};

/* The caller sets the members above `frames` first. */
void receipts_init(struct receipts *r);

/* Begins a frame of message n. */
void receipts_begin(struct receipts *r, uint64_t n);
/* Returns the sender for one more event or dead letter of the frame. Pass it to the pipeline exactly once. */
struct sender *receipts_expect(struct receipts *r);
/* Ends the frame. words are copied. */
void receipts_end(struct receipts *r, const struct receipt_words *words);

/* The connection is gone. Frames are freed as their events settle. */
void receipts_leave(struct receipts *r);

#endif
