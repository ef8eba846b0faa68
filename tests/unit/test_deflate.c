/* Which parameters deflate.c accepts, and how it inflates valid and invalid messages, whole and in pieces. */
#include "net/deflate.h"

#include "unit.h"
#include <zlib.h>

static struct inflater *inflater;
static char text[300000];
static size_t text_len, parts, ends, parts_most;
static z_stream server;
static unsigned char packed[300000];

static int on_part(void *arg, const char *bytes, size_t len, bool is_last)
{
	cr_assert_eq(arg, &server);
	cr_assert_leq(text_len + len, sizeof text);
	memcpy(text + text_len, bytes, len);
	text_len += len;
	parts++;
	ends += is_last;
	return parts_most && parts >= parts_most ? -1 : 0;
}

static void init(void)
{
	inflater = inflater_new(&(struct deflate_terms){.is_agreed = true});
	cr_assert_eq(deflateInit2(&server, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
}

static void fini(void)
{
	inflater_free(inflater);
	deflateEnd(&server);
}

TestSuite(deflate, .init = init, .fini = fini, .timeout = 60);

/* As in RFC 7692, section 7.2.1: flushed, without the last four bytes. */
static size_t pack(const void *message, size_t len)
{
	server.next_in = (Bytef *)(uintptr_t)message;
	server.avail_in = (uInt)len;
	server.next_out = packed;
	server.avail_out = sizeof packed;
	deflate(&server, Z_SYNC_FLUSH);
	return sizeof packed - server.avail_out - 4;
}

static int take(const void *bytes, size_t len, bool is_last)
{
	return inflater_receive(inflater, bytes, len, is_last, on_part, &server);
}

static void expect(const char *message, size_t len)
{
	cr_assert_eq(text_len, len, "%zu bytes, not %zu", text_len, len);
	cr_assert_eq(memcmp(text, message, len), 0);
	cr_assert_eq(ends, 1);
	text_len = parts = ends = 0;
}

Test(deflate, terms_of_section_7_1_are_taken)
{
	static const char *const right[] = {
		"permessage-deflate",
		"PerMessage-Deflate ; client_no_context_takeover",
		"permessage-deflate; server_no_context_takeover; server_max_window_bits=8",
		"permessage-deflate;client_max_window_bits=\"15\";server_max_window_bits=10",
	};
	struct deflate_terms terms;

	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		cr_assert_eq(deflate_read_terms(right[i], &terms), 0, "%s", right[i]);
		cr_assert(terms.is_agreed && terms.is_forgetful == (i == 2));
	}
}

Test(deflate, other_terms_are_refused)
{
	static const char *const wrong[] = {
		"",
		"x-webkit-deflate-frame",
		"permessage-deflate, permessage-deflate",
		"permessage-deflate=1",
		"permessage-deflate;",
		"permessage-deflate; x",
		"permessage-deflate; server_no_context_takeover=1",
		"permessage-deflate; server_no_context_takeover; server_no_context_takeover",
		"permessage-deflate; client_no_context_takeover; client_no_context_takeover",
		"permessage-deflate; client_max_window_bits",
		"permessage-deflate; client_max_window_bits=16",
		"permessage-deflate; server_max_window_bits",
		"permessage-deflate; server_max_window_bits=7",
		"permessage-deflate; server_max_window_bits=16",
		"permessage-deflate; server_max_window_bits=08",
		"permessage-deflate; server_max_window_bits=",
	};
	struct deflate_terms terms;

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		cr_assert_eq(deflate_read_terms(wrong[i], &terms), -1, "%s", wrong[i]);
}

/* RFC 7692, section 7.2.3: the RFC's own examples. */
Test(deflate, the_examples_of_the_rfc_inflate)
{
	cr_assert_eq(take("\xf2\x48\xcd\xc9\xc9\x07\x00", 7, true), 0);
	expect("Hello", 5);
	cr_assert_eq(take("\xf2\x00\x11\x00\x00", 5, true), 0);
	expect("Hello", 5);
	cr_assert_eq(take("\x00\x05\x00\xfa\xffHello\x00", 11, true), 0);
	expect("Hello", 5);
	cr_assert_eq(take("\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8, true), 0);
	expect("Hello", 5);
	cr_assert_eq(take("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13, true), 0);
	expect("Hello", 5);
	cr_assert_eq(take("\x02\x00", 2, true), 0);
	expect("", 0);
}

Test(deflate, a_long_message_comes_in_parts)
{
	static char message[200000];
	size_t n = pack(message, sizeof message);

	cr_assert_lt(n, 1000);
	cr_assert_eq(take(packed, n, true), 0);
	cr_assert_geq(parts, 4);
	expect(message, sizeof message);
	n = pack(message, 65536);
	cr_assert_eq(take(packed, n, true), 0);
	expect(message, 65536);
}

/* Each costs a copy of the window. */
Test(deflate, last_blocks_have_a_number)
{
	char message[400];

	for (size_t i = 0; i < sizeof message; i += 2)
		memcpy(message + i, "\x03\x00", 2);
	cr_assert_eq(take(message, sizeof message, true), -1);
}
