/* RFC 6455 frames as bytes, written and read without validation, so that tests can also send invalid ones. No sockets.
 */
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
	int opcode;           /* the four bits as received, valid or not */
	bool fin;             /* the last frame of its message */
	bool masked;          /* was masked; frame_read has removed the mask */
	unsigned char *bytes; /* the payload, inside the bytes given to frame_read */
	size_t len;           /* of the payload */
	size_t size;          /* of header and payload */
};

/* Write one frame to out, which holds FRAME_HEAD_MAX + len bytes. mask is four bytes (a client) or
 * NULL (a server). Returns the bytes written. */
size_t frame_write(unsigned char *out, int opcode, bool fin, const unsigned char *mask, const void *bytes, size_t len);

/* Reads the frame at the front of n bytes and unmasks its payload in place. Returns false if it is incomplete. Call it
 * once per frame: a second call would mask it again. */
bool frame_read(unsigned char *in, size_t n, struct frame *frame);

/* The code of a close frame; 1005 when it has none. */
int frame_close_code(const struct frame *frame);

/* The Sec-WebSocket-Accept that answers a Sec-WebSocket-Key, written to out with its NUL. */
void frame_accept_key(const char *key, char out[29]);

/* The value of a header in an HTTP request or response, without surrounding spaces, or NULL. Ignores the case of the
 * name. */
char *frame_header(const char *head, const char *name);

#endif
