/* How frame.c parses the bytes of a server, what it answers, and what it refuses. */
#include "net/frame.h"
#include "unit.h"

static struct frames *frames;
static char text[200000]; /* all messages in order, each followed by a bar */
static size_t text_len;
static unsigned int pieces, pongs;

static void on_piece(void *arg, const struct ws_piece *piece)
{
	cr_assert_eq(arg, &frames);
	if (piece->len)
		memcpy(text + text_len, piece->bytes, piece->len);
	text_len += piece->len;
	pieces++;
	if (piece->is_final && !piece->rest)
		text[text_len++] = piece->is_text ? '|' : '#';
	text[text_len] = '\0';
}

static void on_pong(void *arg)
{
	pongs++;
}

static void init(void)
{
	static const struct frames_reader reader = {on_piece, on_pong, NULL};

	text[0] = '\0';
	text_len = pieces = pongs = 0;
	frames = frames_new(&reader, &frames);
	cr_assert_not_null(frames);
}

static void fini(void)
{
	frames_free(frames);
}

TestSuite(frame, .init = init, .fini = fini, .timeout = 60);

#define RECEIVE(bytes) frames_receive(frames, bytes, sizeof(bytes) - 1)

/* Returns the payloads of frames to be sent, unmasked, each after its opcode. */
static const char *take(void)
{
	static char out[FRAMES_ROOM];
	char room[FRAMES_ROOM], *at = out;
	size_t n = frames_take(frames, room);

	for (char *in = room; in < room + n;) {
		size_t len = (unsigned char)in[1] & 0x7f;

		cr_assert((unsigned char)in[0] & 0x80 && (unsigned char)in[1] & 0x80, "not final, or not masked");
		at += sprintf(at, "%x:", in[0] & 0xf);
		for (size_t i = 0; i < len; i++)
			*at++ = (char)(in[6 + i] ^ in[2 + i % 4]);
		in += 6 + len;
	}
	*at = '\0';
	return out;
}

static bool is_stopped;

static bool is_held(void *arg)
{
	return is_stopped;
}

static void on_last_piece(void *arg, const struct ws_piece *piece)
{
	on_piece(arg, piece);
	is_stopped = piece->is_final && !piece->rest;
}

Test(frame, while_reading_is_stopped_the_rest_is_kept)
{
	static const struct frames_reader reader = {on_last_piece, on_pong, is_held};

	frames_free(frames);
	frames = frames_new(&reader, &frames);
	cr_assert_eq(RECEIVE("\x81\1a\x81\1b\x81\2c"), FRAMES_MORE);
	cr_assert(frames_are_kept(frames));
	cr_assert_str_eq(text, "a|");
	cr_assert_eq(RECEIVE("d"), FRAMES_MORE);
	cr_assert_str_eq(text, "a|");
	is_stopped = false;
	cr_assert_eq(frames_receive(frames, "", 0), FRAMES_MORE);
	cr_assert_str_eq(text, "a|b|");
	is_stopped = false;
	cr_assert_eq(frames_receive(frames, "", 0), FRAMES_MORE);
	cr_assert_str_eq(text, "a|b|cd|");
	is_stopped = false;
	cr_assert_eq(frames_receive(frames, "", 0), FRAMES_MORE);
	cr_assert(!frames_are_kept(frames));
}

Test(frame, of_many_pings_the_newest_is_answered)
{
	cr_assert_eq(RECEIVE("\x89\x01x\x89\x01y\x89\x00\x89\x02zz"), FRAMES_MORE);
	cr_assert(frames_is_due(frames));
	cr_assert_str_eq(take(), "a:zz");
	cr_assert(!frames_is_due(frames));
	cr_assert_str_eq(take(), "");
}

Test(frame, a_pong_is_told_and_our_ping_has_a_payload)
{
	frames_ping(frames);
	cr_assert_str_eq(take(), "9:wsonce");
	cr_assert_eq(RECEIVE("\x8a\x06wsonce"), FRAMES_MORE);
	cr_assert_eq(pongs, 1);
}

Test(frame, after_our_goodbye_nothing_more_is_said)
{
	frames_close(frames, 1001);
	cr_assert_str_eq(take(), "8:\x03\xe9");
	cr_assert_eq(RECEIVE("\x81\x01x\x89\x01x"), FRAMES_MORE);
	frames_ping(frames);
	frames_close(frames, 1002);
	cr_assert_str_eq(take(), "");
	cr_assert(!frames_is_due(frames));
	cr_assert_eq(RECEIVE("\x88\x02\x03\xe9"), FRAMES_END);
	cr_assert_str_eq(take(), "");
}

/* --- messages of ours --- */

Test(frame, a_message_of_ours_is_masked_and_goes_out_in_parts)
{
	static const size_t lengths[] = {0, 5, 125, 126, 65535, 65536, 100000};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t len = lengths[i], head = len < 126 ? 2 : len < 65536 ? 4 : 10, n = 0, more;
		unsigned char *message = malloc(len + 1), *out = malloc(len + 14 + FRAMES_ROOM);

		memset(message, 'x', len);
		frames_send(frames, (char *)message, len);
		cr_assert_eq(frames_unsent(frames), head + 4 + len);
		while ((more = frames_take(frames, (char *)out + n)))
			n += more;
		cr_assert_eq(n, head + 4 + len);
		cr_assert_eq(out[0], 0x81);
		cr_assert_eq(out[1], 0x80 | (len < 126 ? len : len < 65536 ? 126 : 127));
		for (size_t k = 0; k < len; k++)
			cr_assert_eq(out[head + 4 + k] ^ out[head + k % 4], 'x');
		cr_assert_eq(frames_unsent(frames), 0);
		cr_assert(!frames_is_due(frames));
		free(message);
		free(out);
	}
}

Test(frame, a_pong_waits_for_the_end_of_a_message)
{
	static char message[FRAMES_ROOM];
	char room[FRAMES_ROOM];

	frames_send(frames, message, sizeof message);
	frames_send(frames, message, sizeof message);
	cr_assert_eq(frames_take(frames, room), FRAMES_ROOM);
	cr_assert_eq(RECEIVE("\x89\x02hi"), FRAMES_MORE);
	cr_assert_eq(frames_take(frames, room), 8);
	cr_assert_str_eq((frames_close(frames, 1001), take()), "a:hi8:\x03\xe9");
	cr_assert_eq(frames_unsent(frames), 0, "after a goodbye nothing is said");
}

/* --- compressed messages --- */

#define HELLO "\xf2\x48\xcd\xc9\xc9\x07\x00" /* RFC 7692, section 7.2.3.1 */

static void agree(size_t most)
{
	frames_inflate(frames, &(struct deflate_terms){.is_agreed = true}, most);
}

Test(frame, compressed_messages_are_inflated_and_others_are_not)
{
	agree(1000);
	cr_assert_eq(RECEIVE("\xc1\x07" HELLO "\x81\x02on\xc2\x07" HELLO), FRAMES_MORE);
	cr_assert_str_eq(text, "Hello|on|Hello#");
}

Test(frame, a_compressed_message_may_be_in_fragments)
{
	agree(1000);
	cr_assert_eq(RECEIVE("\x41\x03\xf2\x48\xcd\x89\x02hi\x00\x00\x80\x04\xc9\xc9\x07\x00\x81\x02on"), FRAMES_MORE);
	cr_assert_str_eq(text, "Hello|on|");
	cr_assert_str_eq(take(), "a:hi");
}

/* The message ends where it passes the limit. */
Test(frame, a_bomb_is_closed_with_1009)
{
	agree(4);
	cr_assert_eq(RECEIVE("\xc1\x07" HELLO), FRAMES_END);
	cr_assert_str_eq(take(), "8:\x03\xf1");
	cr_assert_str_eq(text, "Hello|");
}

static size_t counted;

static void on_counted(void *arg, const struct ws_piece *piece)
{
	counted += piece->len;
}

/* Two messages are more than a MiB. */
Test(frame, what_inflates_to_much_is_taken_in_several_calls)
{
	static const struct frames_reader reader = {on_counted, on_pong, NULL};
	static char blank[600000], all[10000];
	size_t len = 0;

	frames_free(frames);
	frames = frames_new(&reader, &frames);
	agree(sizeof(blank));
	for (int i = 0; i < 4; i++)
		len += compressed_frame(all + len, blank, sizeof(blank));
	cr_assert_eq(frames_receive(frames, all, len), FRAMES_MORE);
	cr_assert_eq(counted, 2 * sizeof(blank));
	cr_assert(frames_are_kept(frames));
	cr_assert_eq(frames_receive(frames, "", 0), FRAMES_MORE);
	cr_assert_eq(counted, 4 * sizeof(blank));
	cr_assert_eq(frames_receive(frames, "", 0), FRAMES_MORE);
	cr_assert(!frames_are_kept(frames));
}
