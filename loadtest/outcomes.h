/* outcomes.h: what became of each event, in one byte per event. */
#ifndef WSONCE_OUTCOMES_H
#define WSONCE_OUTCOMES_H

#include <stdint.h>

/* In this order the later wins: of two copies one may be persisted, the other a duplicate. */
enum outcome {
	OUTCOME_UNSENT,
	OUTCOME_UNANSWERED, /* sent, and no ack has come */
	OUTCOME_REJECTED,
	OUTCOME_DUPLICATE,
	OUTCOME_PERSISTED,
};

/* All zeros is an empty one. */
struct outcomes {
	uint8_t *bytes; /* an enum outcome per event; event 0 is not used */
	uint64_t size;  /* of bytes */
	uint64_t last;  /* highest event that has an outcome */
};

/* Notes that event n came to at least this. Returns -1 when there is no memory. */
int outcomes_raise(struct outcomes *o, uint64_t n, enum outcome outcome);

enum outcome outcomes_of(const struct outcomes *o, uint64_t n);
const char *outcome_name(enum outcome outcome);
void outcomes_free(struct outcomes *o);

#endif
