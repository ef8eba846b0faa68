/* acks.h: the acks of one producer that have not been sent yet. */
#ifndef WSONCE_ACKS_H
#define WSONCE_ACKS_H

#include <stddef.h>

#include "event/event.h"

/* WebSocket frames, one for each ack. Starts as all zeros. */
struct acks {
	char *bytes;
	size_t begin; /* first byte not sent yet */
	size_t end;
	size_t size; /* size of the allocation */
};

/* Adds the ack for ev, which was message n of the connection. */
void acks_add(struct acks *a, const struct event *ev, enum outcome outcome, uint64_t n);

/* Returns the JSON of such an ack, on the heap. */
char *ack_text(const struct event *ev, enum outcome outcome, uint64_t n);

/* Adds any other text message. */
void acks_add_text(struct acks *a, const char *text, size_t len);

/* Bytes to charge to the memory budget. A small buffer per connection is not charged. */
size_t acks_memory(const struct acks *a);

/* Returns how many bytes wait to be sent. */
size_t acks_waiting(const struct acks *a);

/* Returns the first whole frames: as many as fit in `most` bytes, but at least one. Sets len in bytes and count in
 * frames. */
char *acks_first(const struct acks *a, size_t most, size_t *len, size_t *count);

/* Removes len bytes that were sent. When nothing waits, frees memory beyond a small buffer. */
void acks_sent(struct acks *a, size_t len);

void acks_clear(struct acks *a);

#endif
