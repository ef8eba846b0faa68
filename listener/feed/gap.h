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

/* Notes an event with number seq (JSON) of the series key (a text; at NULL is a series, too). Ignores a seq that is not
 * an integer. Returns true and sets gap if numbers before it are missing. */
bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap);

#define GAP_NUMBER_BYTES 48

/* Writes a number of a gap in decimal. Returns text. */
char *gap_write(__int128 number, char text[GAP_NUMBER_BYTES]);

#endif
