/* book.h: what frames mean, by the book (RFC 6455). */
#ifndef BOOK_H
#define BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the first n bytes mean. */
struct meaning {
	char *text; /* of messages: t or b before each byte, a bar at the end of each */
	size_t text_len;
	size_t whole_len; /* as far as the last message that is whole */
	uint64_t rest;    /* of the message frame at hand, still to come */
	unsigned int pongs;
	unsigned int pings;
	uint8_t ping[125]; /* payload of the newest */
	size_t ping_len;
	bool may_end; /* what is there of a frame's head is wrong */
	bool must_end;
	uint8_t goodbye[2]; /* in the answer to what ended it */
	size_t goodbye_len;
};

/* Reads n bytes: from a client if they are masked, else from a server. text has room for three times n. */
void book_read(struct meaning *m, const uint8_t *at, size_t n, bool is_masked, char *text);

/* The end, with this code in the answer. */
void book_end(struct meaning *m, unsigned int code);

bool book_is_unicode(const uint8_t *at, size_t n);

#endif
