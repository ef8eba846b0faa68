/* spool.h: events on disk. It knows which records' events have not settled, and which of these are not in memory; what
 * an event is, it does not know. */
#ifndef WSONCE_SPOOL_H
#define WSONCE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "spool/record.h"

struct spool;
struct spool_segment;

/* Called from the loop, never inside a call. */
struct spool_callbacks {
	/* The records up to this ordinal are in the file, or could not be written. */
	void (*on_written)(void *arg, uint64_t last, bool is_written);
	/* The event of a record, which lives for the call, comes back to memory. */
	void (*on_record)(void *arg, struct spool_segment *segment, const struct record *r);
	/* So many events on disk cannot be read. */
	void (*on_lost)(void *arg, uint64_t events);
	void *arg;
};

/* Opens the directory, whose segments are to be fed. They take `most` bytes; sync_ms is the time between two
 * fdatasyncs. Returns NULL and a sentence in error if it cannot be used. */
struct spool *spool_open(uv_loop_t *loop, const char *dir, uint64_t most, int64_t sync_ms, char *error, size_t size);
/* Who is called; before anything else. */
void spool_listen(struct spool *s, const struct spool_callbacks *on);

/* Can a record be taken now? Not if the disk fails, the spool is full, or enough is under way. */
bool spool_can_take(struct spool *s);
/* Is the disk failing or full, so that nothing is to be waited for? */
bool spool_is_out(const struct spool *s);
/* Takes a record and sets its ordinal. Returns its segment. */
struct spool_segment *spool_append(struct spool *s, struct record *r);
/* Gives the thread what was appended. Also ends a segment that nobody needs. Once in each turn of the loop. */
void spool_flush(struct spool *s);

/* The event of a record has settled, or is not to be on disk any more. */
void spool_settle(struct spool *s, struct spool_segment *segment);
/* The event of a record that was written has left memory. */
void spool_put_away(struct spool_segment *segment, uint64_t ordinal);
/* Reads about so many bytes of records whose events are not in memory, the oldest first, unless there are none or such
 * a call is at work. */
void spool_read(struct spool *s, size_t bytes);

/* Calls synced when all that was appended is on the disk, as far as it could be written. */
void spool_sync(struct spool *s, void (*synced)(void *arg), void *arg);

struct spool_view {
	uint64_t events;    /* on disk that have not settled */
	uint64_t away;      /* of these, not in memory */
	uint64_t bytes;     /* of segments */
	int64_t oldest_us;  /* received_at of about the oldest event, since 1970; 0: none */
	const char *reason; /* why nothing is written, or NULL */
};
struct spool_view spool_view(const struct spool *s);

/* Removes the segments that nobody needs, and ends the thread. closed is called from the loop. */
void spool_close(struct spool *s, void (*closed)(void *arg), void *arg);

#endif
