/* gap.h: holes in the numbering of a source. */
#ifndef WSONCE_FEED_GAP_H
#define WSONCE_FEED_GAP_H

#include <stdbool.h>

#include "base/slice.h"

struct gaps;

/* The numbers that were not seen. */
struct gap {
	__int128 first;
	__int128 last;
};

struct gaps *gaps_new(void);
void gaps_free(struct gaps *g);

/* An event with this number of this series (a text; at NULL is a series, too). seq is JSON; what is not an integer does
 * not count. true: numbers were left out before it. */
bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap);

#define GAP_NUMBER_BYTES 48

/* Writes one of its numbers in decimal. Returns text. */
char *gap_write(__int128 number, char text[GAP_NUMBER_BYTES]);

#endif
