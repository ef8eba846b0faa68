/* reply.h: an answer of Redis and its parts (RESP2). */
#ifndef WSONCE_REPLY_H
#define WSONCE_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

#define REPLY_BYTES ((size_t)16 << 20) /* limit for one answer, and for its arrays; ours are below 1 MiB */

enum reply_type {
	REPLY_STRING = 1,
	REPLY_ARRAY,
	REPLY_INTEGER,
	REPLY_NIL,
	REPLY_STATUS,
	REPLY_ERROR,
};

struct redis_reply {
	enum reply_type type;
	long long integer;
	char *str; /* text of a string, a status or an error; NUL-terminated */
	size_t len;
	size_t elements; /* number of elements of an array */
	struct redis_reply *element;
};

/* Called once from the loop with the answer to a command. owner is the asker's, arg was passed with the command. reply
 * is NULL if the connection died or the answer was late, so that the outcome is unknown. reply is valid during the
 * call. */
typedef void(redis_cb)(void *owner, void *arg, const struct redis_reply *reply);

/* Reads the answer that begins at bytes. Returns its end; NULL if it is not whole yet, or with *why if it is not RESP2
 * or too large. Its texts are in bytes, whose line ends become NULs; its arrays are in a, which it clears first. */
char *reply_read(struct redis_reply *reply, char *bytes, size_t len, struct arena *a, const char **why);

/* True if it is an error with this code, or with any if code is "". */
bool reply_is_error(const struct redis_reply *reply, const char *code);

#endif
