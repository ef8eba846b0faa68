/* gap.h: gaps in the sequence numbers of a source. */
#ifndef WSONCE_FEED_GAP_H
#define WSONCE_FEED_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "feed/secrets.h"

struct gaps;

/* The missing numbers. */
struct gap {
	__int128 first;
	__int128 last;
	uint64_t missing; /* how many */
};

/* Totals since the start. */
struct gaps_count {
	uint64_t gaps;
	uint64_t missing;
};

struct gaps *gaps_new(void);
/* Forgets the last numbers, but not the counts. */
void gaps_forget(struct gaps *g);
void gaps_free(struct gaps *g); /* NULL is allowed, also below */

/* Records the sequence number seq (JSON) of the series key, a text; {NULL, 0} is a series like any other. Ignores a seq
 * that is not an integer. Returns true, counts and sets gap if numbers before seq are missing. */
bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap);

struct gaps_count gaps_count(const struct gaps *g);

/* Logs new gaps with an example, without secrets, at most once a minute. now_ms: loop clock. */
void gaps_tell(struct gaps *g, const char *source, const struct secrets *secrets, int64_t now_ms);

#define GAP_NUMBER_BYTES 48

/* Writes number in decimal to text and returns text. */
char *gap_write(__int128 number, char text[GAP_NUMBER_BYTES]);

#endif
