/* acks.h: the acks of one producer that are not sent yet. */
#ifndef WSONCE_ACKS_H
#define WSONCE_ACKS_H

#include <stddef.h>

#include "road/event.h"

/* Frames, one for each ack; zero at first. */
struct acks {
	char *bytes;
	size_t begin; /* not sent from here on */
	size_t end;
	size_t size; /* of the memory */
};

/* Adds what became of message n of the connection, which is this event's. */
void acks_add(struct acks *a, const struct event *ev, enum outcome outcome, uint64_t n);

/* The JSON of such an ack, on the heap. */
char *ack_text(const struct event *ev, enum outcome outcome, uint64_t n);

/* Adds a whole text message of other words. */
void acks_add_text(struct acks *a, const char *text, size_t len);

/* Bytes of memory that are to be paid for: all, but nothing for a small buffer, which each connection may have. */
size_t acks_memory(const struct acks *a);

/* How many bytes wait. */
size_t acks_waiting(const struct acks *a);

/* The first whole frames, at most so many bytes unless the first frame is longer: how many bytes, and how many frames.
 */
char *acks_first(const struct acks *a, size_t most, size_t *len, size_t *count);

/* So many bytes are sent. When none waits, memory beyond a small buffer is given back. */
void acks_sent(struct acks *a, size_t len);

void acks_clear(struct acks *a);

#endif
