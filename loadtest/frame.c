/* frame.c encodes WebSocket frames. libwebsockets writes one frame per system call, these programs
 * write hundreds. libwebsockets still does handshakes, decoding and control frames. */
#include "frame.h"

#include <string.h>

size_t frame_header(uint8_t *out, enum frame_opcode opcode, size_t len, const uint8_t *mask)
{
	size_t at = 0;

	out[at++] = (uint8_t)(0x80 | opcode);
	if (len < 126) {
		out[at++] = (uint8_t)len;
	} else if (len < 65536) {
		out[at++] = 126;
		out[at++] = (uint8_t)(len >> 8);
		out[at++] = (uint8_t)len;
	} else {
		out[at++] = 127;
		for (int shift = 56; shift >= 0; shift -= 8)
			out[at++] = (uint8_t)((uint64_t)len >> shift);
	}
	if (!mask)
		return at;
	out[1] |= 0x80;
	memcpy(out + at, mask, 4);
	return at + 4;
}

void frame_mask(uint8_t *data, size_t len, const uint8_t *mask)
{
	uint64_t wide, key;
	size_t i = 0;

	memcpy(&key, mask, 4);
	memcpy((uint8_t *)&key + 4, mask, 4);
	for (; i + 8 <= len; i += 8) {
		memcpy(&wide, data + i, 8);
		wide ^= key;
		memcpy(data + i, &wide, 8);
	}
	for (; i < len; i++)
		data[i] ^= mask[i & 3];
}

size_t frame_close(uint8_t *out, unsigned int code, const uint8_t *mask)
{
	size_t at = frame_header(out, FRAME_CLOSE, 2, mask);

	out[at] = (uint8_t)(code >> 8);
	out[at + 1] = (uint8_t)code;
	if (mask)
		frame_mask(out + at, 2, mask);
	return at + 2;
}
