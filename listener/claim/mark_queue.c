/* mark_queue.c owns the marks of settled events that may not be in Redis yet. The events' claims may still be there, or
 * be set late by a Redis that was frozen; without the marks, other listeners would hold their copies until the claims
 * expire. */
#include "claim/mark_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/fault_point.h"

#define OWED_BYTES (8u << 20)

struct head {
	uint16_t len;
	bool is_dead;
	uint32_t epoch;
	uint32_t minute;
	uint64_t digest;
};

static int reserve(struct mark_queue *o, size_t more)
{
	size_t used = o->end - o->begin;

	if (o->end + more <= o->size)
		return 0;
	if (used)
		memmove(o->bytes, o->bytes + o->begin, used);
	o->begin = 0;
	o->end = used;
	if (used + more <= o->size / 2)
		return 0;
	if (used + more > OWED_BYTES || FAULT_POINT("marks: the queue is full"))
		return -1;
	o->size = (used + more) * 2;
	o->bytes = memory_realloc(o->bytes, o->size);
	return 0;
}

int mark_queue_add(struct mark_queue *o, const struct queued_mark *mark)
{
	struct head head = {(uint16_t)mark->len, mark->is_dead, mark->epoch, mark->minute, mark->digest};

	if (reserve(o, sizeof(head) + mark->len))
		return -1;
	memcpy(o->bytes + o->end, &head, sizeof(head));
	memcpy(o->bytes + o->end + sizeof(head), mark->id, mark->len);
	o->end += sizeof(head) + mark->len;
	return 0;
}

void mark_queue_undo(struct mark_queue *o, const struct queued_mark *mark)
{
	o->end -= sizeof(struct head) + mark->len;
}

bool mark_queue_take(struct mark_queue *o, struct queued_mark *mark)
{
	struct head head;

	if (o->begin == o->end)
		return false;
	memcpy(&head, o->bytes + o->begin, sizeof(head));
	*mark = (struct queued_mark){
		o->bytes + o->begin + sizeof(head), head.len, head.is_dead, head.epoch, head.digest, head.minute};
	o->begin += sizeof(head) + head.len;
	return true;
}

void mark_queue_free(struct mark_queue *o)
{
	free(o->bytes);
	*o = (struct mark_queue){NULL, 0, 0, 0};
}
