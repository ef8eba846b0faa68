/* head.h: one HTTP request to a feed or a proxy, and the head of the answer. */
#ifndef WSONCE_HEAD_H
#define WSONCE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

#define HEAD_BYTES 8192 /* maximum size of a head */

/* Starts as all zeros, except for the request. */
struct head {
	char *request; /* on the heap; freed by the owner */
	size_t sent;   /* bytes of request */
	char bytes[HEAD_BYTES + 1];
	size_t len;
	char *at;           /* the next header */
	const char *reason; /* reason for HEAD_BAD */
};

enum head_result {
	HEAD_MORE, /* not complete */
	HEAD_DONE,
	HEAD_BAD, /* not HTTP, or longer than HEAD_BYTES */
};

/* Returns a header with this name, for Basic authentication with the user and password of url, on the heap; "" if url
 * has none. */
char *head_authorization(const char *name, const struct url *url);

/* Copies the next unsent bytes of the request to room. Returns their number, 0 at the end. */
size_t head_take(struct head *h, char *room, size_t size);

/* Adds bytes of the answer and sets *used to how many of them belong to the head. Do not call again after a result
 * other than HEAD_MORE. */
enum head_result head_receive(struct head *h, const char *bytes, size_t len, size_t *used);

/* Call once, after HEAD_DONE. Returns the status, or -1 if the first line is not a status line. */
int head_status(struct head *h);

/* Call after head_status: returns one header per call, its value without surrounding blanks. Returns false at the end.
 * name is NULL for a line that is not a header. */
bool head_next(struct head *h, char **name, char **value);

/* The seconds of a Retry-After header (RFC 9110, section 10.2.3), at most an hour; 0 if it is neither a number nor a
 * date. */
int64_t head_retry_after(const char *value);

#endif
