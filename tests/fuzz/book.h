/* book.h: what frames mean, by the book (RFC 6455). */
#ifndef BOOK_H
#define BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the first n bytes mean. */
struct meaning {
	char *text; /* the messages: t or b before each byte, a bar at the end of each message */
	size_t text_len;
	size_t whole_len; /* length of text up to the last whole message */
	uint64_t rest;    /* bytes of the current message frame still to come */
	unsigned int pongs;
	unsigned int pings;
	uint8_t ping[125]; /* payload of the newest ping */
	size_t ping_len;
	bool may_end; /* the incomplete head of a frame is wrong already */
	bool must_end;
	uint8_t goodbye[2]; /* code in the close frame that answers the end */
	size_t goodbye_len;
};

/* Reads n bytes: from a client if they are masked, else from a server. text has room for three times n. */
void book_read(struct meaning *m, const uint8_t *at, size_t n, bool is_masked, char *text);

/* Ends it with this code in the answer. */
void book_end(struct meaning *m, unsigned int code);

bool book_is_unicode(const uint8_t *at, size_t n);

#endif
