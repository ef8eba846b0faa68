/* gap.h: gaps in the sequence numbers of a source. */
#ifndef WSONCE_FEED_GAP_H
#define WSONCE_FEED_GAP_H

#include <stdbool.h>

#include "base/slice.h"

struct gaps;

/* The missing numbers. */
struct gap {
	__int128 first;
	__int128 last;
};

struct gaps *gaps_new(void);
void gaps_free(struct gaps *g);

/* Records the sequence number seq (JSON) of the series key, a text; {NULL, 0} is a series like any other. Ignores a seq
 * that is not an integer. Returns true and sets gap if numbers before seq are missing. */
bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap);

#define GAP_NUMBER_BYTES 48

/* Writes number in decimal to text and returns text. */
char *gap_write(__int128 number, char text[GAP_NUMBER_BYTES]);

#endif
