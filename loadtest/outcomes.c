/* outcomes.c records what was sent and answered. The ledger is written from it, and the table events
 * is compared with it. */
#include "outcomes.h"

#include <stdlib.h>
#include <string.h>

static int grow(struct outcomes *o, uint64_t least)
{
	uint64_t size = o->size ? o->size : 4096;
	uint8_t *bytes;

	while (size < least)
		size *= 2;
	bytes = realloc(o->bytes, size);
	if (!bytes)
		return -1;
	memset(bytes + o->size, OUTCOME_UNSENT, size - o->size);
	o->bytes = bytes;
	o->size = size;
	return 0;
}

int outcomes_raise(struct outcomes *o, uint64_t n, enum outcome outcome)
{
	if (n >= o->size && grow(o, n + 1))
		return -1;
	if (n > o->last)
		o->last = n;
	if (o->bytes[n] < outcome)
		o->bytes[n] = (uint8_t)outcome;
	return 0;
}

enum outcome outcomes_of(const struct outcomes *o, uint64_t n)
{
	return n <= o->last && n < o->size ? (enum outcome)o->bytes[n] : OUTCOME_UNSENT;
}

const char *outcome_name(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_UNSENT:
		return "unsent";
	case OUTCOME_UNANSWERED:
		return "unanswered";
	case OUTCOME_REJECTED:
		return "rejected";
	case OUTCOME_DUPLICATE:
		return "duplicate";
	case OUTCOME_PERSISTED:
		return "persisted";
	}
	return "";
}

void outcomes_free(struct outcomes *o)
{
	free(o->bytes);
	*o = (struct outcomes){0};
}
