/* mark.h: the text of a mark, the value of an event's key in Redis once the event is committed or a dead letter. */
#ifndef WSONCE_MARK_H
#define WSONCE_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How marks begin. A claim never begins like this, because its owner's name contains no @. */
#define MARK_DONE_HEAD "done@"
#define MARK_DEAD_HEAD "dead@"
#define MARK_TEXT_SIZE 56 /* bytes of the longest mark with its NUL, without its MAC (mac.h) */

/* A mark is valid only in the epoch that it names. A dead mark is valid only for the message with its digest. */
struct mark {
	bool is_dead;    /* dead@, recorded as a dead letter; else done@, committed */
	int64_t ms;      /* wall clock when written; mark_read does not parse it, to save time per copy */
	uint32_t epoch;  /* 0 if unknown, as in marks of version 0.1 */
	uint64_t digest; /* dead marks; 0 if unknown */
	uint32_t minute; /* done marks: received_at of the row, Unix time; 0 if unknown, as in marks of version 0.2 */
};

/* Writes done@<ms>[.<epoch>[/m<minute>]] or dead@<ms>[.<epoch>][/<digest>], epoch and minute in 8 and digest in 16 hex
 * digits, into text, MARK_TEXT_SIZE bytes. Returns the length without the NUL. */
size_t mark_write(const struct mark *mark, char *text);

/* Parses a value without checking its MAC. Returns false, and leaves mark alone, if the value is a claim and not a
 * mark. Parts that cannot be parsed are 0, and so is ms. */
bool mark_read(struct mark *mark, const char *value, size_t len);

#endif
