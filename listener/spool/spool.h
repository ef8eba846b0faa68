/* spool.h: records of events on disk. It tracks which have not settled, and which of those are not in memory. It does
 * not read events. */
#ifndef WSONCE_SPOOL_H
#define WSONCE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "spool/record.h"

struct spool;
struct spool_segment;

/* Called on the loop, never during a call of a function below. */
struct spool_callbacks {
	/* The records up to ordinal last are in the file (is_written), or could not be written. */
	void (*on_written)(void *arg, uint64_t last, bool is_written);
	/* A file is gone, or the disk fails: records that are written may be lost. */
	void (*on_doubt)(void *arg);
	/* A record that was put away is back in memory. It is valid during the call. */
	void (*on_record)(void *arg, struct spool_segment *segment, const struct record *r);
	/* This number of events on disk cannot be read. */
	void (*on_lost)(void *arg, uint64_t events);
	void *arg;
};

/* Opens the directory. All records of its segments count as put away. most: bytes that all segments may have. sync_ms:
 * time between two fdatasyncs. On failure, returns NULL and writes a sentence to error. */
struct spool *spool_open(uv_loop_t *loop, const char *dir, uint64_t most, int64_t sync_ms, char *error, size_t size);
/* Sets the callbacks. Call it first. */
void spool_listen(struct spool *s, const struct spool_callbacks *on);

/* True if spool_append may be called: the disk works, the spool is not full, and not too much is being written. */
bool spool_can_take(struct spool *s);
/* True if the disk fails or the spool is full, so that waiting for spool_can_take is useless. */
bool spool_is_out(const struct spool *s);
/* Copies a record and sets r->ordinal. Returns its segment. */
struct spool_segment *spool_append(struct spool *s, struct record *r);
/* Starts writing what was appended, and ends a segment that has settled. Call it once per turn of the loop. */
void spool_flush(struct spool *s);

/* An event has settled, or its record is no longer needed. */
void spool_settle(struct spool *s, struct spool_segment *segment);
/* An event whose record is written has been dropped from memory. */
void spool_put_away(struct spool_segment *segment, uint64_t ordinal);
/* Reads about `bytes` bytes of records that were put away, the oldest first. Does nothing if there are none or another
 * read is running. */
void spool_read(struct spool *s, size_t bytes);

/* Calls synced when everything appended so far is on the disk or has failed. */
void spool_sync(struct spool *s, void (*synced)(void *arg), void *arg);

struct spool_view {
	uint64_t events;    /* on disk, not settled */
	uint64_t away;      /* unsettled events that are not in memory */
	uint64_t bytes;     /* bytes of all segments */
	int64_t oldest_us;  /* about the oldest received_at, Unix time; 0: no events */
	const char *reason; /* why nothing can be written, or NULL */
};
struct spool_view spool_view(const struct spool *s);

/* Removes settled segments and ends the thread. Calls closed on the loop. */
void spool_close(struct spool *s, void (*closed)(void *arg), void *arg);

#endif
