/* book.c owns a second reader of frames, written from RFC 6455 without code of the listener. */
#include "book.h"

#include <string.h>

struct head {
	unsigned int opcode;
	bool is_final;
	bool is_wrong; /* the part received so far is wrong */
	bool is_whole; /* it was received completely */
	bool has_mask;
	uint64_t len; /* length of the payload */
	size_t size;  /* size of the head */
};

static bool is_control(const struct head *h)
{
	return h->opcode & 8;
}

static struct head read_head(const uint8_t *at, size_t n, bool is_in_message, bool is_masked)
{
	struct head h = {0};

	if (n < 2)
		return h;
	h.opcode = at[0] & 15;
	h.is_final = at[0] >> 7;
	h.len = at[1] & 127;
	size_t extra = h.len == 126 ? 2 : h.len == 127 ? 8 : 0;
	h.has_mask = at[1] >> 7;
	h.size = 2 + extra + h.has_mask * 4U;
	h.is_wrong = at[0] & 0x70 || h.has_mask != is_masked || (h.opcode > 2 && h.opcode < 8) || h.opcode > 10;
	h.is_wrong = h.is_wrong || (is_control(&h) && (!h.is_final || h.len > 125));
	h.is_wrong = h.is_wrong || (!is_control(&h) && (h.opcode == 0) != is_in_message);
	h.is_whole = n >= h.size;
	if (n < 2 + extra || !extra)
		return h;
	h.len = 0;
	for (size_t i = 0; i < extra; i++)
		h.len = h.len << 8 | at[2 + i];
	h.is_wrong = h.is_wrong || h.len < (extra == 2 ? 126 : 65536) || h.len >> 63;
	return h;
}

/* Table 3-7 of the Unicode standard. */
bool book_is_unicode(const uint8_t *at, size_t n)
{
	while (n) {
		size_t more = *at < 0x80 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
		uint8_t low = 0x80, high = 0xbf;

		if ((*at >= 0x80 && *at < 0xc2) || *at > 0xf4 || n < more + 1)
			return false;
		low = *at == 0xe0 ? 0xa0 : *at == 0xf0 ? 0x90 : low;
		high = *at == 0xed ? 0x9f : *at == 0xf4 ? 0x8f : high;
		if (more && (at[1] < low || at[1] > high))
			return false;
		for (size_t i = 2; i <= more; i++)
			if (at[i] >> 6 != 2)
				return false;
		at += more + 1;
		n -= more + 1;
	}
	return true;
}

void book_end(struct meaning *m, unsigned int code)
{
	m->must_end = true;
	m->goodbye[0] = (uint8_t)(code >> 8);
	m->goodbye[1] = (uint8_t)code;
	m->goodbye_len = 2;
}

static void end_by_close(struct meaning *m, const uint8_t *at, size_t n)
{
	unsigned int code = n > 1 ? at[0] * 256U + at[1] : 0;

	m->must_end = true;
	if (!n)
		return;
	if (n == 1 || code < 1000 || (code > 1014 && code < 3000) || code > 4999 || (code > 1003 && code < 1007))
		book_end(m, 1002);
	else
		book_end(m, book_is_unicode(at + 2, n - 2) ? code : 1007);
}

/* Returns an unmasked byte. The mask is the end of the head. */
static uint8_t payload_byte(const struct head *h, const uint8_t *payload, size_t i)
{
	return payload[i] ^ (h->has_mask ? (payload - 4)[i % 4] : 0);
}

static void add_control(struct meaning *m, const struct head *h, const uint8_t *payload)
{
	uint8_t bytes[125];

	for (size_t i = 0; i < h->len; i++)
		bytes[i] = payload_byte(h, payload, i);
	if (h->opcode == 8)
		end_by_close(m, bytes, h->len);
	if (h->opcode == 10)
		m->pongs++;
	if (h->opcode != 9)
		return;
	m->pings++;
	memcpy(m->ping, bytes, h->len);
	m->ping_len = h->len;
}

static void add_payload(struct meaning *m, const struct head *h, const uint8_t *payload, size_t n, char kind)
{
	for (size_t i = 0; i < n; i++) {
		m->text[m->text_len++] = kind;
		m->text[m->text_len++] = (char)payload_byte(h, payload, i);
	}
}

void book_read(struct meaning *m, const uint8_t *at, size_t n, bool is_masked, char *text)
{
	char kind = '\0'; /* kind of the message that has begun */

	*m = (struct meaning){.text = text};
	while (!m->must_end) {
		struct head h = read_head(at, n, kind, is_masked);
		size_t there = h.is_whole ? n - h.size : 0;

		m->may_end = h.is_wrong;
		if (!h.is_whole || (!there && h.len))
			return;
		if (h.is_wrong) {
			book_end(m, 1002);
			return;
		}
		there = there < h.len ? there : h.len;
		if (is_control(&h)) {
			if (there < h.len)
				return;
			add_control(m, &h, at + h.size);
		} else {
			kind = h.opcode == 1 ? 't' : h.opcode == 2 ? 'b' : kind;
			add_payload(m, &h, at + h.size, there, kind);
			m->rest = h.len - there;
			if (m->rest)
				return;
			if (h.is_final) {
				m->text[m->text_len++] = '|';
				m->whole_len = m->text_len;
				kind = '\0';
			}
		}
		at += h.size + there;
		n -= h.size + there;
	}
}
