/* head.h: the head of an HTTP answer that a dialled feed or a proxy gives. */
#ifndef WSONCE_HEAD_H
#define WSONCE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_BYTES 8192 /* an answer's head may have */

/* Zero at first. */
struct head {
	char bytes[HEAD_BYTES + 1];
	size_t len;
	char *at;           /* the next header */
	const char *reason; /* of HEAD_BAD */
};

enum head_result {
	HEAD_MORE, /* it is not complete */
	HEAD_DONE,
	HEAD_BAD, /* this is no HTTP, or longer than the limit */
};

/* Keeps bytes; *used of them belong to the head. Not called again after it has returned anything but HEAD_MORE. */
enum head_result head_receive(struct head *h, const char *bytes, size_t len, size_t *used);

/* After HEAD_DONE, once: the status, or -1 if the first line is no status line. */
int head_status(struct head *h);

/* Then the headers, one a call: their name and value, without the blanks around it. False at the end. A line that is
 * no header has the name NULL. */
bool head_next(struct head *h, char **name, char **value);

/* The seconds that a Retry-After asks for, by RFC 9110, section 10.2.3: an hour at most, 0 if it is neither a number
 * nor a date. */
int64_t head_retry_after(const char *value);

#endif
