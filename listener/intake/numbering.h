/* numbering.h: the holes in a source's own numbering of its events, as the profile's gap says where it is. */
#ifndef WSONCE_NUMBERING_H
#define WSONCE_NUMBERING_H

#include <stdint.h>

#include "feed/secrets.h"
#include "feed/session.h"

struct numbering;

/* Since the start. */
struct numbering_count {
	uint64_t gaps;
	uint64_t missing; /* numbers in them */
};

/* NULL if the profile's numbers need not follow each other; all other functions take NULL. */
struct numbering *numbering_new(const struct profile *p);
void numbering_free(struct numbering *n);

/* An event has come. Its number is compared with the largest one before it, on any connection. */
void numbering_note(struct numbering *n, const struct session_event *event);

/* Warns of new gaps, with one as an example, once a minute at most. now_ms: loop clock. */
void numbering_tell(struct numbering *n, struct secrets *secrets, int64_t now_ms);

struct numbering_count numbering_count(const struct numbering *n);

#endif
