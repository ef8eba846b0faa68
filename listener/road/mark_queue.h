/* mark_queue.h: a queue of marks: those that Redis has not answered, and those that could not be sent. */
#ifndef WSONCE_MARK_QUEUE_H
#define WSONCE_MARK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mark_queue {
	char *bytes;  /* per mark: length of the id, is_dead, epoch, digest, the id */
	size_t begin; /* of the oldest mark */
	size_t end;
	size_t size;
};

struct queued_mark {
	const char *id;
	size_t len;
	bool is_dead;
	uint32_t epoch;  /* in which the event was settled */
	uint64_t digest; /* of a dead mark, as in mark.h */
};

/* Puts a mark at the end; the id is copied. Returns -1 if there are some megabytes of marks. */
int mark_queue_add(struct mark_queue *o, const struct queued_mark *mark);

/* Takes back what the last mark_queue_add() put in. */
void mark_queue_undo(struct mark_queue *o, const struct queued_mark *mark);

/* Takes the oldest mark out; its id lives until the next call. Returns false if there is none. */
bool mark_queue_take(struct mark_queue *o, struct queued_mark *mark);

void mark_queue_free(struct mark_queue *o);

#endif
