/* The bytes of a dialled feed, in pieces as the network cuts them: upgrade.c and frame.c must come to the same result
 * as a second reader (book.c, and for the answer this file) that has all bytes at once.
 *
 * An input is a byte, 0: the feed is open already, or else the handshake's key is made of it; a byte that
 * tells the number of steps, and a byte for each: this many bytes come (the low six bits), then we write, ping or send
 * a close frame (the high two); the rest is what the server sends, and comes at once after the steps. In an answer to
 * the handshake each byte 0x1a stands for the proof of the key. */
#include <openssl/sha.h>
#include <regex.h>
#include <uv.h>

#include "base/text.h"
#include "book.h"
#include "net/frame.h"
#include "fuzz.h"
#include "net/upgrade.h"

#define ANSWER_MOST 8192
#define STEPS_MOST  32
#define ACCEPT_LEN  28
#define GOODBYE     1001

enum what { WHAT_NOTHING, WHAT_WRITE, WHAT_PING, WHAT_GOODBYE };

static uint8_t key_byte;

/* Replaces libuv's function: makes keys that are known here. */
int uv_random(uv_loop_t *loop, uv_random_t *req, void *bytes, size_t len, unsigned int flags, uv_random_cb cb)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(key_byte * (i + 1));
	return 0;
}

/* --- frames, as frame.c reads them --- */

struct feed {
	struct frames *frames;
	char *text; /* as in struct meaning */
	size_t text_len;
	size_t text_size;
	uint64_t rest;
	unsigned int pongs;
	unsigned int answered; /* pings that are answered, or superseded by a newer one */
	bool is_ping_due;
	bool is_goodbye_due;
	bool has_said_goodbye;
	bool has_ended;
};

static void on_piece(void *arg, const struct ws_piece *piece)
{
	struct feed *f = arg;

	must(!f->has_ended, "a piece after the end");
	must(f->text_len + 2 * piece->len + 1 <= f->text_size, "more text than bytes");
	for (size_t i = 0; i < piece->len; i++) {
		f->text[f->text_len++] = piece->is_text ? 't' : 'b';
		f->text[f->text_len++] = piece->bytes[i];
	}
	f->rest = piece->rest;
	if (piece->is_final && !piece->rest)
		f->text[f->text_len++] = '|';
}

static void on_pong(void *arg)
{
	struct feed *f = arg;

	f->pongs++;
}

/* Checks a frame of ours: final, masked by the key, and not too long. Returns where it ends. */
static const uint8_t *check_written(const uint8_t *at, const uint8_t *end, unsigned int opcode, const void *payload,
				    size_t len)
{
	must(end - at >= 6 && at[0] == (0x80 | opcode), "opcode %u was to be written", opcode);
	must(at[1] == (0x80 | len) && (size_t)(end - at) >= 6 + len, "%zu bytes were to be written, masked", len);
	for (size_t i = 0; i < 4; i++)
		must(at[2 + i] == (uint8_t)(key_byte * (i + 1)), "the mask is not the key");
	for (size_t i = 0; i < len; i++)
		must((at[6 + i] ^ at[2 + i % 4]) == ((const uint8_t *)payload)[i], "the payload is another");
	return at + 6 + len;
}

static void check_writing(struct feed *f, const struct meaning *m)
{
	bool is_due = !f->has_said_goodbye && (m->pings > f->answered || f->is_ping_due || f->is_goodbye_due);
	uint8_t room[FRAMES_ROOM];
	const uint8_t *at = room, *end;
	static const uint8_t ours[2] = {GOODBYE >> 8, GOODBYE & 255};

	must(is_due <= frames_is_due(f->frames), "nothing is due, and yet it is");
	end = room + frames_take(f->frames, (char *)room);
	must(end <= room + sizeof(room), "more was written than there is room");
	if (!f->has_said_goodbye) {
		if (m->pings > f->answered)
			at = check_written(at, end, 10, m->ping, m->ping_len);
		if (f->is_ping_due)
			at = check_written(at, end, 9, WS_PING_PAYLOAD, strlen(WS_PING_PAYLOAD));
		if (f->is_goodbye_due)
			at = check_written(at, end, 8, ours, sizeof(ours));
		else if (f->has_ended)
			at = check_written(at, end, 8, m->goodbye, m->goodbye_len);
	}
	must(at == end, "%zu bytes too many were written", (size_t)(end - at));
	f->has_said_goodbye = f->has_said_goodbye || f->is_goodbye_due || f->has_ended;
	f->answered = m->pings;
	f->is_ping_due = f->is_goodbye_due = false;
}

static void act(struct feed *f, enum what what, const struct meaning *m)
{
	switch (what) {
	case WHAT_NOTHING:
		return;
	case WHAT_WRITE:
		check_writing(f, m);
		return;
	case WHAT_PING:
		frames_ping(f->frames);
		f->is_ping_due = true;
		return;
	case WHAT_GOODBYE:
		frames_close(f->frames, GOODBYE);
		f->is_goodbye_due = f->is_goodbye_due || (!f->has_said_goodbye && !f->has_ended);
		return;
	}
}

/* Checks frame.c's result after n bytes. A wrong head may be found before it is whole. */
static void check_read(struct feed *f, enum frames_result result, struct meaning *m)
{
	must(result == FRAMES_END || !m->must_end, "read on after what ends a feed");
	must(result == FRAMES_MORE || m->must_end || m->may_end, "the end, without a reason: %s",
	     frames_reason(f->frames));
	if (result == FRAMES_END && !m->must_end)
		book_end(m, 1002);
	must(f->text_len == m->text_len && memcmp(f->text, m->text, m->text_len) == 0,
	     "another text: %zu bytes, not %zu", f->text_len, m->text_len);
	must(f->rest == m->rest || !m->text_len, "%llu bytes to come, not %llu", (unsigned long long)f->rest,
	     (unsigned long long)m->rest);
	must(f->pongs == m->pongs, "%u pongs, not %u", f->pongs, m->pongs);
	f->has_ended = result == FRAMES_END;
	must(!f->has_ended || *frames_reason(f->frames), "an end without a word");
}

/* --- the handshake --- */

struct handshake {
	struct url url;
	struct upgrade *upgrade;
	char accept[ACCEPT_LEN + 1];
};

static regex_t status_line, header_line, upgrade_line, websocket_line, connection_line, accept_line, unasked_line;

static void compile(regex_t *to, const char *pattern)
{
	must(regcomp(to, pattern, REG_EXTENDED | REG_ICASE) == 0, "cannot compile %s", pattern);
}

static bool is_like(const regex_t *pattern, const char *line)
{
	return regexec(pattern, line, 0, NULL, 0) == 0;
}

/* True if the line has this value; it ends where blanks begin, or at the end of the line. */
static bool is_accepted(const char *line, const char *accept)
{
	const char *value = strchr(line, ':') + 1;

	value += strspn(value, " \t");
	return strncmp(value, accept, ACCEPT_LEN) == 0 && !value[ACCEPT_LEN + strspn(value + ACCEPT_LEN, " \t")];
}

/* lines: whole lines, each ended by NUL, with an empty one after the last. */
static bool is_right_answer(const char *line, const char *accept)
{
	unsigned int upgrades = 0, connections = 0, accepts = 0;

	if (strncmp(line, "HTTP/1.", 7) != 0 || !is_like(&status_line, line))
		return false;
	for (line += strlen(line) + 1; *line; line += strlen(line) + 1) {
		if (!is_like(&header_line, line) || is_like(&unasked_line, line))
			return false;
		if (is_like(&upgrade_line, line) && !is_like(&websocket_line, line))
			return false;
		if (is_like(&accept_line, line) && (!is_accepted(line, accept) || accepts++))
			return false;
		upgrades += is_like(&websocket_line, line);
		connections += is_like(&connection_line, line);
	}
	return upgrades && connections && accepts;
}

/* Cuts the answer into lines in out, which has room for it. Returns its length, 0 if it has no end. */
static size_t cut_answer(const char *at, size_t n, char *out)
{
	const char *end = at + n;

	for (const char *line = at; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t len = newline ? (size_t)(newline - line) : 0;

		if (!newline)
			return 0;
		len -= len && line[len - 1] == '\r';
		out = mempcpy(out, line, len);
		*out++ = '\0';
		line = newline + 1;
		if (!len)
			return (size_t)(line - at);
	}
	return 0;
}

/* Returns what upgrade.c must return for n bytes, and how many of them belong to the answer. */
static enum upgrade_result judge(const char *at, size_t n, const char *accept, size_t *used)
{
	size_t known = n < ANSWER_MOST ? n : ANSWER_MOST;
	char lines[ANSWER_MOST + 2] = "";

	*used = cut_answer(at, known, lines);
	if (memcmp(at, "HTTP/1.", known < 7 ? known : 7) != 0)
		return UPGRADE_REFUSED;
	if (memchr(at, '\0', *used ? *used : known))
		return UPGRADE_REFUSED;
	if (!*used)
		return n < ANSWER_MOST ? UPGRADE_MORE : UPGRADE_REFUSED;
	return is_right_answer(lines, accept) ? UPGRADE_DONE : UPGRADE_REFUSED;
}

/* Makes the request, with a key of 16 bytes, and computes the correct answer to it. */
static void ask(struct handshake *h)
{
	static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	static const struct upgrade_offer offer;
	char request[1000], key[16], coded[sizeof(magic) + 30];
	unsigned char digest[SHA_DIGEST_LENGTH];
	size_t n = 0, more;

	must(url_parse(&h->url, "ws://u:p@h:1/feed?x") == 0 && (h->upgrade = upgrade_new(&h->url, &offer)),
	     "no handshake");
	while ((more = upgrade_take(h->upgrade, request + n, 1 + key_byte)))
		n += more;
	must(n > 4 && memcmp(request + n - 4, "\r\n\r\n", 4) == 0 && !memchr(request, '\0', n), "no request");
	request[n] = '\0';
	const char *at = strstr(request, "\r\nSec-WebSocket-Key: ");
	uv_random(NULL, NULL, key, sizeof(key), 0, NULL);
	EVP_EncodeBlock((unsigned char *)coded, (unsigned char *)key, sizeof(key));
	must(at && strncmp(at + 21, coded, 24) == 0 && at[21 + 24] == '\r', "the key is another: %s", request);
	strcat(coded, magic);
	SHA1((unsigned char *)coded, strlen(coded), digest);
	EVP_EncodeBlock((unsigned char *)h->accept, digest, sizeof(digest));
}

/* --- an input --- */

struct input {
	bool has_handshake;
	const uint8_t *steps;
	size_t step_count;
	uint8_t *bytes; /* heap, of exact size, so that ASan detects an overrun */
	size_t len;
};

static bool read_input(struct input *in, const uint8_t *data, size_t size, const char *accept)
{
	const uint8_t *from, *end = data + size;

	in->has_handshake = *data;
	in->step_count = data[1] % STEPS_MOST;
	in->steps = data + 2;
	if (size - 2 < in->step_count)
		return false;
	from = in->steps + in->step_count;
	uint8_t *to = in->bytes = malloc((size_t)(end - from) * ACCEPT_LEN + 1);
	for (; from < end; from++)
		if (*from == 0x1a && in->has_handshake)
			to = mempcpy(to, accept, ACCEPT_LEN);
		else
			*to++ = *from;
	in->len = (size_t)(to - in->bytes);
	in->bytes = realloc(in->bytes, in->len ? in->len : 1);
	return true;
}

/* Returns how many bytes come at this step; the rest comes after the last step. */
static size_t step_bytes(const struct input *in, size_t step, size_t from)
{
	size_t n = step < in->step_count ? in->steps[step] & 63 : in->len;

	return n < in->len - from ? n : in->len - from;
}

/* Returns where the frames begin, and sets step to when; or 0 if the answer does not open the feed. */
static size_t shake_hands(struct handshake *h, const struct input *in, size_t *step)
{
	enum upgrade_result result = UPGRADE_MORE;
	size_t at = 0;

	for (; *step <= in->step_count && result == UPGRADE_MORE; (*step)++) {
		size_t n = step_bytes(in, *step, at), wanted, used = 0;
		enum upgrade_result right = judge((char *)in->bytes, at + n, h->accept, &wanted);
		uint8_t *copy = memcpy(malloc(n ? n : 1), in->bytes + at, n);

		result = upgrade_receive(h->upgrade, (char *)copy, n, &used);
		result = result == UPGRADE_MOVED ? UPGRADE_REFUSED : result; /* the target is not judged here */
		free(copy);
		must(result == right, "the answer's verdict is %d, not %d: %s", (int)result, (int)right,
		     upgrade_answer(h->upgrade)->reason);
		must(result != UPGRADE_DONE || (used <= n && at + used == wanted), "the answer has %zu bytes, not %zu",
		     at + used, wanted);
		must((result == UPGRADE_REFUSED) == !!*upgrade_answer(h->upgrade)->reason,
		     "refused, or not, without a word");
		at += result == UPGRADE_DONE ? used : n;
	}
	*step = *step < in->step_count ? *step : in->step_count; /* the rest may be frames */
	must(is_utf8(upgrade_answer(h->upgrade)->reason, strlen(upgrade_answer(h->upgrade)->reason)),
	     "a reason that is not UTF-8");
	for (const char *c = upgrade_answer(h->upgrade)->reason; *c; c++)
		must((unsigned char)*c >= ' ' && *c != 0x7f, "a control character in: %s",
		     upgrade_answer(h->upgrade)->reason);
	return result == UPGRADE_DONE ? at : 0;
}

static void read_frames(const struct input *in, size_t begin, size_t step)
{
	static const struct frames_reader reader = {on_piece, on_pong, NULL};
	size_t size = 3 * (in->len - begin) + 3, at = begin;
	struct feed f = {.text = malloc(size), .text_size = size};
	char *text = malloc(size);
	struct meaning m;

	f.frames = frames_new(&reader, &f);
	for (; step <= in->step_count && !f.has_ended; step++) {
		size_t n = step_bytes(in, step, at);
		uint8_t *copy = memcpy(malloc(n ? n : 1), in->bytes + at, n);
		enum frames_result result = frames_receive(f.frames, (char *)copy, n);

		free(copy);
		at += n;
		book_read(&m, in->bytes + begin, at - begin, false, text);
		check_read(&f, result, &m);
		act(&f, step < in->step_count ? (enum what)(in->steps[step] >> 6) : WHAT_WRITE, &m);
	}
	if (f.has_ended) {
		check_writing(&f, &m);
		act(&f, WHAT_PING, &m);
		check_writing(&f, &m); /* nothing, now that goodbye is said */
	}
	frames_free(f.frames);
	free(f.text);
	free(text);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	compile(&status_line, "^HTTP/1[.][0-9] 101( .*)?$");
	compile(&header_line, "^[^ \t:]+:");
	compile(&upgrade_line, "^Upgrade:");
	compile(&websocket_line, "^Upgrade:[ \t]*websocket[ \t]*$");
	compile(&connection_line, "^Connection:(.*,)?[ \t]*upgrade[ \t]*(,.*)?$");
	compile(&accept_line, "^Sec-WebSocket-Accept:");
	compile(&unasked_line, "^Sec-WebSocket-(Extensions|Protocol):[ \t]*[^ \t]");
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	struct handshake h = {.upgrade = NULL};
	struct input in;
	size_t step = 0, begin = 0;

	if (size < 2)
		return;
	key_byte = *data;
	ask(&h);
	if (read_input(&in, data, size, h.accept)) {
		begin = in.has_handshake ? shake_hands(&h, &in, &step) : 0;
		if (begin || !in.has_handshake)
			read_frames(&in, begin, step);
		free(in.bytes);
	}
	upgrade_free(h.upgrade);
	url_clear(&h.url);
}
