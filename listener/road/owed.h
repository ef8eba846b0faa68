/* owed.h: a queue of marks: those that Redis has not answered, and those that could not be sent. */
#ifndef WSONCE_OWED_H
#define WSONCE_OWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owed {
	char *bytes;  /* per mark: length of the id, is_dead, epoch, digest, the id */
	size_t begin; /* of the oldest mark */
	size_t end;
	size_t size;
};

struct owed_mark {
	const char *id;
	size_t len;
	bool is_dead;
	uint32_t epoch;  /* in which the event was settled */
	uint64_t digest; /* of a dead mark, as in mark.h */
};

/* Puts a mark at the end; the id is copied. Returns -1 if there are some megabytes of marks, or memory
 * is out. */
int owed_add(struct owed *o, const struct owed_mark *mark);

/* Takes back what the last owed_add() put in. */
void owed_undo(struct owed *o, const struct owed_mark *mark);

/* Takes the oldest mark out; its id lives until the next call. Returns false if there is none. */
bool owed_take(struct owed *o, struct owed_mark *mark);

void owed_free(struct owed *o);

#endif
