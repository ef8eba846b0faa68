/* reply.h: an answer of Redis and its parts. */
#ifndef WSONCE_REPLY_H
#define WSONCE_REPLY_H

#include <stddef.h>

/* hiredis's numbers. Other types come only to clients that asked for RESP3, and we ignore them. */
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
	char *str; /* text of a string, a status or an error; NUL-terminated */
	size_t len;
	size_t elements; /* number of elements of an array */
	struct redis_reply **element;
};

/* Called once from the loop with the answer to a command. owner is the asker's, arg was passed with the command. reply
 * is NULL if the connection died or the answer was late, so that the outcome is unknown. reply is valid during the
 * call. */
typedef void(redis_cb)(void *owner, void *arg, const struct redis_reply *reply);

#endif
