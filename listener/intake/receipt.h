/* receipt.h: what a producer is told of the frames that it sent, where a profile gives the words. No I/O. */
#ifndef WSONCE_RECEIPT_H
#define WSONCE_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"
#include "road/event.h"

/* Stands in the words of an error for the reason, which is known when the event settles. Words that hold it because a
 * producer sent it tell that producer its reason twice. */
#define RECEIPT_REASON "@wsonce-reason@"

/* Called when an event settles, or from receipts_end. */
struct receipts_owner {
	/* To be sent now, of a frame that came then, on the loop clock. Lives for the call. */
	void (*say)(void *arg, struct slice text, int64_t came_ms);
	/* One event of a frame, or dead letter, has settled; n: the number of its message. What was to be said of its
	 * frame has been said. The receipts may be gone afterwards. */
	void (*on_answer)(void *arg, const struct event *ev, enum outcome outcome, uint64_t n);
	/* The loop clock. */
	int64_t (*now_ms)(void *arg);
	/* The words that wait have so many bytes of memory more, or fewer. */
	void (*charge)(void *arg, long bytes);
};

/* Of one connection; a member of its owner's struct. */
struct receipts {
	const struct receipts_owner *owner;
	void *arg;
	const char *name;   /* of the sender's token; NULL: none */
	bool is_cumulative; /* what is said of a frame is for all before it, too */
	bool is_left;       /* nothing is said any more */
	struct list frames; /* in the order in which they came, that have not settled; or, if cumulative, whose words
			       wait */
	size_t count;       /* of frames */
	struct receipt *open;
	uint64_t n;
};

/* What is to be said of a frame; at NULL: nothing. */
struct receipt_words {
	struct slice stored;    /* its events are, and one of them was new */
	struct slice duplicate; /* all of them were there */
	struct slice error;     /* one has become a dead letter */
};

/* The members above `frames` are the caller's to set before. */
void receipts_init(struct receipts *r);

/* A frame of message n begins. */
void receipts_begin(struct receipts *r, uint64_t n);
/* One more event of it, or the dead letter that it becomes, is handed to the pipeline with this sender, once. */
struct sender *receipts_expect(struct receipts *r);
/* It ends. Words are copied. */
void receipts_end(struct receipts *r, const struct receipt_words *words);

/* The connection is gone. Frames are freed as their events settle. */
void receipts_leave(struct receipts *r);

#endif
