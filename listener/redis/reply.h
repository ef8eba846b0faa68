/* reply.h: an answer of Redis, and its parts. */
#ifndef WSONCE_REPLY_H
#define WSONCE_REPLY_H

#include <stddef.h>

/* As the wire has them; other kinds come only to clients that asked for them (RESP3), and say nothing to us. */
enum reply_type {
	REPLY_STRING = 1,
	REPLY_ARRAY = 2,
	REPLY_INTEGER = 3,
	REPLY_NIL = 4,
	REPLY_STATUS = 5,
	REPLY_ERROR = 6,
};

struct redis_reply {
	enum reply_type type;
	long long integer;
	char *str; /* of a string, a status or an error; ends in NUL */
	size_t len;
	size_t elements; /* of an array */
	struct redis_reply **element;
};

/* The answer to one command, called once from the loop. owner is the asker's, arg what the command was sent with.
 * reply is NULL if the answer is unknown: the connection died, or the answer was late. reply lives for the call. */
typedef void(redis_cb)(void *owner, void *arg, const struct redis_reply *reply);

#endif
