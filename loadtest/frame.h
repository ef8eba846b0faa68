/* frame.h: the header of a WebSocket frame (RFC 6455, section 5.2). */
#ifndef WSONCE_FRAME_H
#define WSONCE_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER_MOST = 14, FRAME_CLOSE_MOST = FRAME_HEADER_MOST + 2 };
enum frame_opcode { FRAME_TEXT = 1, FRAME_CLOSE = 8 };

/* Writes the header of an unfragmented message of len bytes; returns the header's length. mask is
 * four bytes for a client, whose frames must be masked, or NULL for a server. */
size_t frame_header(uint8_t *out, enum frame_opcode opcode, size_t len, const uint8_t *mask);

/* Masks a message in place. */
void frame_mask(uint8_t *data, size_t len, const uint8_t *mask);

/* Writes a close frame into FRAME_CLOSE_MOST bytes; returns its length. */
size_t frame_close(uint8_t *out, unsigned int code, const uint8_t *mask);

#endif
