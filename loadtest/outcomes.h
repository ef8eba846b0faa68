/* outcomes.h: the outcome of each event, in one byte per event. */
#ifndef WSONCE_OUTCOMES_H
#define WSONCE_OUTCOMES_H

#include <stdint.h>

/* The greater one wins: of two copies, one may be persisted and the other a duplicate. */
enum outcome {
	OUTCOME_UNSENT,
	OUTCOME_UNANSWERED, /* sent, no ack yet */
	OUTCOME_REJECTED,
	OUTCOME_DUPLICATE,
	OUTCOME_PERSISTED,
};

/* Initialize with zeros. */
struct outcomes {
	uint8_t *bytes; /* an enum outcome per event; event 0 is not used */
	uint64_t size;  /* length of bytes */
	uint64_t last;  /* highest event that has an outcome */
};

/* Records outcome for event n, unless it has a greater one. Returns -1 if out of memory. */
int outcomes_raise(struct outcomes *o, uint64_t n, enum outcome outcome);

enum outcome outcomes_of(const struct outcomes *o, uint64_t n);
const char *outcome_name(enum outcome outcome);
void outcomes_free(struct outcomes *o);

#endif
