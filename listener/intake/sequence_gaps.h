/* sequence_gaps.h: the holes in a source's own numbering of its events, as the profile's gap says where it is. */
#ifndef WSONCE_SEQUENCE_GAPS_H
#define WSONCE_SEQUENCE_GAPS_H

#include <stdint.h>

#include "feed/secrets.h"
#include "feed/session.h"

struct sequence_gaps;

/* Since the start. */
struct sequence_gaps_count {
	uint64_t gaps;
	uint64_t missing; /* numbers in them */
};

/* NULL if the profile's numbers need not follow each other; all other functions take NULL. */
struct sequence_gaps *sequence_gaps_new(const struct profile *p);
void sequence_gaps_free(struct sequence_gaps *n);

/* An event has come. Its number is compared with the largest one before it, on any connection. */
void sequence_gaps_note(struct sequence_gaps *n, const struct session_event *event);

/* Warns of new gaps, with one as an example, once a minute at most. now_ms: loop clock. */
void sequence_gaps_tell(struct sequence_gaps *n, struct secrets *secrets, int64_t now_ms);

struct sequence_gaps_count sequence_gaps_count(const struct sequence_gaps *n);

#endif
