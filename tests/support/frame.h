/* RFC 6455 by hand: frames as bytes, written and read without judging them, so that tests can also
 * send what no library would. No sockets here. */
#ifndef SUPPORT_FRAME_H
#define SUPPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>

enum frame_opcode {
	FRAME_CONTINUATION = 0,
	FRAME_TEXT = 1,
	FRAME_BINARY = 2,
	FRAME_CLOSE = 8,
	FRAME_PING = 9,
	FRAME_PONG = 10,
};

#define FRAME_HEAD_MAX 14 /* bytes of the longest frame header */

struct frame {
	int opcode;           /* four bits as they came, known or not */
	bool fin;             /* the last frame of its message */
	bool masked;          /* came with a mask, which frame_read has taken off */
	unsigned char *bytes; /* the payload, inside the bytes given to frame_read */
	size_t len;           /* of the payload */
	size_t size;          /* of header and payload */
};

/* Write one frame to out, which holds FRAME_HEAD_MAX + len bytes. mask is four bytes (a client) or
 * NULL (a server). Returns the bytes written. */
size_t frame_write(unsigned char *out, int opcode, bool fin, const unsigned char *mask, const void *bytes, size_t len);

/* Read the frame at the front of n bytes and unmask its payload in place. Returns false while it is
 * not all there; true fills frame, and is given once per frame (a second call would mask it again). */
bool frame_read(unsigned char *in, size_t n, struct frame *frame);

/* The code of a close frame; 1005 when it has none. */
int frame_close_code(const struct frame *frame);

/* The Sec-WebSocket-Accept that answers a Sec-WebSocket-Key, written to out with its NUL. */
void frame_accept_key(const char *key, char out[29]);

/* The value of a header in an HTTP head (request or response), without the spaces around it. Case of
 * the name does not matter. Returns NULL if it is not there.otherwise */
char *frame_header(const char *head, const char *name);

#endif
