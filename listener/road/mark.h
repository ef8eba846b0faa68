/* mark.h: the text of a mark, which is what a key in Redis says when an event has ended. */
#ifndef WSONCE_MARK_H
#define WSONCE_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How marks begin. No claim does: its owner's name has no @. */
#define MARK_DONE_HEAD "done@"
#define MARK_DEAD_HEAD "dead@"
#define MARK_TEXT_SIZE 56 /* bytes of the longest mark without its seal (seal.h), and its NUL */

/* An epoch names a database and a history of it: a mark is true of those alone. A digest names a message:
 * a dead mark is true of that alone. */
struct mark {
	bool is_dead;    /* dead@: recorded as a dead letter; else done@: committed */
	int64_t ms;      /* wall clock, of the writing; not read back, since copies come by the million */
	uint32_t epoch;  /* 0: unknown, as in marks of version 0.1 */
	uint64_t digest; /* of a dead mark; 0: unknown */
};

/* Writes done@<ms>[.<epoch>] or dead@<ms>[.<epoch>][/<digest>], epoch in 8 and digest in 16 hex digits, into
 * text, MARK_TEXT_SIZE bytes. Returns the length without the NUL. */
size_t mark_write(const struct mark *mark, char *text);

/* Reads a value; a seal is not looked at. Returns false, and leaves mark alone, if it is another's claim and not a
 * mark. What cannot be read of a mark is 0, and so is ms. */
bool mark_read(struct mark *mark, const char *value, size_t len);

#endif
