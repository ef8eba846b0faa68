/* reply_arena.c allocates the answers of Redis. hiredis's own functions call malloc twice for each part of an answer,
 * and the answer to a look has hundreds of parts. */
#include "redis/reply_arena.h"

#include <string.h>

_Static_assert(REPLY_STRING == REDIS_REPLY_STRING && REPLY_ARRAY == REDIS_REPLY_ARRAY &&
		       REPLY_INTEGER == REDIS_REPLY_INTEGER && REPLY_NIL == REDIS_REPLY_NIL &&
		       REPLY_STATUS == REDIS_REPLY_STATUS && REPLY_ERROR == REDIS_REPLY_ERROR,
	       "redisReadTask has hiredis's numbers");

#if HIREDIS_MAJOR >= 1
typedef size_t reply_count;
#else
typedef int reply_count;
#endif

/* Allocates a part of an answer. Without the limit, a few bytes could announce an array of 16 GiB. */
static void *take(struct arena *a, size_t size)
{
	return size > REPLY_BYTES || a->taken > REPLY_BYTES - size ? NULL : arena_alloc(a, size);
}

static struct redis_reply *new_reply(const redisReadTask *task)
{
	struct arena *a = task->privdata;
	struct redis_reply *reply = take(a, sizeof(*reply));

	if (!reply)
		return NULL;
	memset(reply, 0, sizeof(*reply));
	reply->type = (enum reply_type)task->type;
	if (task->parent)
		((struct redis_reply *)task->parent->obj)->element[task->idx] = reply;
	return reply;
}

static void *new_string(const redisReadTask *task, char *text, size_t len)
{
	struct redis_reply *reply = new_reply(task);
	char *copy = reply ? take(task->privdata, len + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	reply->str = copy;
	reply->len = len;
	return reply;
}

static void *new_array(const redisReadTask *task, reply_count count)
{
	struct redis_reply *reply = new_reply(task);

	if (!reply)
		return NULL;
	reply->elements = (size_t)count;
	if (count) {
		reply->element = take(task->privdata, (size_t)count * sizeof(*reply->element));
		if (!reply->element)
			return NULL;
		memset(reply->element, 0, (size_t)count * sizeof(*reply->element));
	}
	return reply;
}

static void *new_integer(const redisReadTask *task, long long value)
{
	struct redis_reply *reply = new_reply(task);

	if (reply)
		reply->integer = value;
	return reply;
}

/* task->type is the type that the value would have had: string or array. */
static void *new_nil(const redisReadTask *task)
{
	struct redis_reply *reply = new_reply(task);

	if (reply)
		reply->type = REPLY_NIL;
	return reply;
}

static void free_reply(void *reply)
{
	(void)reply; /* arena_clear frees it */
}

#if HIREDIS_MAJOR >= 1
/* Doubles and booleans come only to clients that asked for RESP3, or from a hostile server. Without these functions
 * hiredis would use a number as a pointer. */

/* NOLINTNEXTLINE(readability-non-const-parameter): hiredis names the types */
static void *new_double(const redisReadTask *task, double value, char *text, size_t len)
{
	(void)value, (void)text, (void)len;
	return new_reply(task);
}

static void *new_boolean(const redisReadTask *task, int value)
{
	(void)value;
	return new_reply(task);
}
#endif

static redisReplyObjectFunctions functions = {
	.createString = new_string,
	.createArray = new_array,
	.createInteger = new_integer,
	.createNil = new_nil,
#if HIREDIS_MAJOR >= 1
	.createDouble = new_double,
	.createBool = new_boolean,
#endif
	.freeObject = free_reply,
};

void reply_use_arena(redisReader *reader, struct arena *a)
{
	reader->fn = &functions;
	reader->privdata = a;
}
