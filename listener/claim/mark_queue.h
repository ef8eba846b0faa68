/* mark_queue.h: a queue of marks that Redis has not acknowledged, or that could not be sent. */
#ifndef WSONCE_MARK_QUEUE_H
#define WSONCE_MARK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mark_queue {
	char *bytes;  /* per mark: length of the id, is_dead, epoch, minute, digest, the id */
	size_t begin; /* offset of the oldest mark */
	size_t end;
	size_t size;
};

struct queued_mark {
	const char *id;
	size_t len;
	bool is_dead;
	uint32_t epoch;  /* the epoch in which the event was settled */
	uint64_t digest; /* of a dead mark, as in mark.h */
	uint32_t minute; /* of a done mark, as in mark.h */
};

/* Appends a mark and copies its id. Returns -1 if the queue is full (8 MiB). */
int mark_queue_add(struct mark_queue *o, const struct queued_mark *mark);

/* Removes the mark that the last mark_queue_add() appended. */
void mark_queue_undo(struct mark_queue *o, const struct queued_mark *mark);

/* Removes the oldest mark; its id lives until the next call. Returns false if the queue is empty. */
bool mark_queue_take(struct mark_queue *o, struct queued_mark *mark);

void mark_queue_free(struct mark_queue *o);

#endif
