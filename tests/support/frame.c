/* RFC 6455: frames, and the computations of the handshake. No sockets. */
#include "frame.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include "support.h"

static size_t write_length(unsigned char *out, size_t len)
{
	if (len < 126) {
		out[0] = (unsigned char)len;
		return 1;
	}
	size_t octets = len < 65536 ? 2 : 8;

	out[0] = octets == 2 ? 126 : 127;
	for (size_t i = 0; i < octets; i++)
		out[1 + i] = (unsigned char)((uint64_t)len >> (8 * (octets - 1 - i)));
	return 1 + octets;
}

static void apply_mask(unsigned char *bytes, size_t len, const unsigned char *mask)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] ^= mask[i % 4];
}

size_t frame_write(unsigned char *out, int opcode, bool fin, const unsigned char *mask, const void *bytes, size_t len)
{
	size_t head = 1;

	out[0] = (unsigned char)((fin ? 0x80 : 0) | opcode);
	head += write_length(out + 1, len);
	if (mask) {
		out[1] |= 0x80;
		memcpy(out + head, mask, 4);
		head += 4;
	}
	if (len)
		memcpy(out + head, bytes, len);
	if (mask)
		apply_mask(out + head, len, mask);
	return head + len;
}

/* Bytes of the header that starts with these two. */
static size_t head_size(const unsigned char *in)
{
	size_t octets = (in[1] & 0x7f) == 126 ? 2 : (in[1] & 0x7f) == 127 ? 8 : 0;

	return 2 + octets + (in[1] & 0x80 ? 4 : 0);
}

bool frame_read(unsigned char *in, size_t n, struct frame *frame)
{
	if (n < 2 || n < head_size(in))
		return false;
	size_t head = head_size(in);
	bool masked = in[1] & 0x80;
	size_t octets = head - 2 - (masked ? 4 : 0);
	uint64_t len = octets ? 0 : in[1] & 0x7f;

	for (size_t i = 0; i < octets; i++)
		len = len << 8 | in[2 + i];
	if (n - head < len)
		return false;
	if (masked)
		apply_mask(in + head, len, in + head - 4);
	*frame = (struct frame){
		.opcode = in[0] & 0x0f,
		.fin = in[0] & 0x80,
		.masked = masked,
		.bytes = in + head,
		.len = len,
		.size = head + len,
	};
	return true;
}

int frame_close_code(const struct frame *frame)
{
	return frame->len < 2 ? 1005 : frame->bytes[0] << 8 | frame->bytes[1];
}

void frame_accept_key(const char *key, char out[29])
{
	unsigned char text[256], digest[SHA_DIGEST_LENGTH];
	int len = snprintf((char *)text, sizeof text, "%.200s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);

	SHA1(text, (size_t)len, digest);
	EVP_EncodeBlock((unsigned char *)out, digest, sizeof digest);
}

char *frame_header(const char *head, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		const char *value = line + len + 1;
		value += strspn(value, " \t");
		return strndup(value, strcspn(value, "\r\n"));
	}
	return NULL;
}
