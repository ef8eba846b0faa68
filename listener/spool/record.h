/* record.h: the bytes of a segment: its head, and the record of one event (docs/spool.md). No I/O. */
#ifndef WSONCE_RECORD_H
#define WSONCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RECORD_HEAD 48
#define RECORD_MOST (288u << 20) /* bytes of a record: the largest --max-message plus names */

enum record_kind {
	RECORD_MESSAGE, /* a raw message; id and type are empty, since the message contains them */
	RECORD_EVENT,   /* an event from a profile; message is its payload */
};

struct record {
	enum record_kind kind;
	bool has_time;
	uint64_t ordinal; /* unique in the directory, and increasing */
	int64_t came_us;  /* received_at, Unix time */
	int64_t time_us;  /* the event's own Unix time, if has_time */
	struct slice source, id, type, message;
};

/* Returns the size of the record in bytes. */
size_t record_size(const struct record *r);

/* Writes record_size() bytes to at. salt is the segment's. */
void record_write(char *at, const struct record *r, uint32_t salt);

enum record_verdict {
	RECORD_WHOLE,
	RECORD_SHORT, /* incomplete: pass at least *size bytes */
	RECORD_WRONG, /* not a record */
};

/* Reads the record at `at`. With RECORD_WHOLE, fills r and sets *size; the slices of r point into the input. */
enum record_verdict record_read(const char *at, size_t len, uint32_t salt, struct record *r, size_t *size);

#define SEGMENT_HEAD 48

struct segment_head {
	uint64_t first;    /* ordinal of its first record */
	int64_t oldest_us; /* came_us of its first record */
	uint32_t salt;     /* random; each record starts with it, so no message can imitate a record */
	uint64_t count;    /* records in the segment, written when it ends; 0: unknown */
};

void segment_head_write(char at[SEGMENT_HEAD], const struct segment_head *head);
/* Returns false if at is not a head. */
bool segment_head_read(const char at[SEGMENT_HEAD], struct segment_head *head);

#endif
