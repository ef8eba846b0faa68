/* sequence_gaps.h: counts gaps in the sequence numbers that the profile's `gap` points to. */
#ifndef WSONCE_SEQUENCE_GAPS_H
#define WSONCE_SEQUENCE_GAPS_H

#include <stdint.h>

#include "feed/secrets.h"
#include "feed/session.h"

struct sequence_gaps;

/* Totals since the start. */
struct sequence_gaps_count {
	uint64_t gaps;
	uint64_t missing; /* numbers in those gaps */
};

/* Returns NULL unless the profile has a contiguous `gap`. All other functions accept NULL. */
struct sequence_gaps *sequence_gaps_new(const struct profile *p);
void sequence_gaps_free(struct sequence_gaps *n);

/* Compares the event's number with the largest one so far, on any connection. Returns how many are missing between
 * them. */
uint64_t sequence_gaps_note(struct sequence_gaps *n, const struct session_event *event);

/* Logs new gaps with an example, at most once a minute. now_ms: loop clock. */
void sequence_gaps_tell(struct sequence_gaps *n, struct secrets *secrets, int64_t now_ms);

struct sequence_gaps_count sequence_gaps_count(const struct sequence_gaps *n);

#endif
