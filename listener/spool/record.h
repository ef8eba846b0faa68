/* record.h: the bytes of a segment: its head, and the record of one event (docs/spool.md). No I/O. */
#ifndef WSONCE_RECORD_H
#define WSONCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RECORD_HEAD 48
#define RECORD_MOST (288u << 20) /* bytes of a record: the largest --max-message, and names */

enum record_kind {
	RECORD_MESSAGE, /* a message as it came; id and type are empty, since the message has them */
	RECORD_EVENT,   /* an event that a profile has read; its message is the payload */
};

struct record {
	enum record_kind kind;
	bool has_time;
	uint64_t ordinal; /* each record of a directory has another, and they grow */
	int64_t came_us;  /* received_at, since 1970 */
	int64_t time_us;  /* the event's own time since 1970, if has_time */
	struct slice source, id, type, message;
};

/* Bytes of the record. */
size_t record_size(const struct record *r);

/* Writes record_size() bytes. salt is that of the segment. */
void record_write(char *at, const struct record *r, uint32_t salt);

enum record_verdict {
	RECORD_WHOLE,
	RECORD_SHORT, /* *size bytes are needed to tell */
	RECORD_WRONG, /* no record begins here */
};

/* Reads what begins at `at`. For RECORD_WHOLE, fills r, whose slices point into the bytes, and sets *size. */
enum record_verdict record_read(const char *at, size_t len, uint32_t salt, struct record *r, size_t *size);

#define SEGMENT_HEAD 48

struct segment_head {
	uint64_t first;    /* ordinal of its first record */
	int64_t oldest_us; /* came_us of its first record */
	uint32_t salt;     /* random, and at the beginning of each record: no message can contain a record */
	uint64_t count;    /* of its records, once the segment has ended; 0: not known */
};

void segment_head_write(char at[SEGMENT_HEAD], const struct segment_head *head);
/* Returns false if at is no head. */
bool segment_head_read(const char at[SEGMENT_HEAD], struct segment_head *head);

#endif
