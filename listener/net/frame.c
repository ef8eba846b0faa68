/* frame.c owns the frames of a dialled feed (RFC 6455, section 5), with wslay: it turns bytes into pieces of messages,
 * answers pings, and answers violations with the matching close code. It does no I/O.
 *
 * wslay reads through its own 4096-byte buffer and returns a frame in the pieces it finds there. It checks lengths and
 * the form of control frames; everything else is checked here. */
#include "net/frame.h"

#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"

#define CONTROL_BYTES 125       /* maximum payload of a control frame (section 5.5) */
#define FRAME_HEAD    14        /* maximum size of a frame's head with its masking key */
#define TURN_BYTES    (1 << 20) /* inflated bytes after which the rest of what came waits for the next turn */

struct control {
	char bytes[CONTROL_BYTES];
	size_t len;
	bool is_due;
};

/* An outgoing message, already masked. */
struct outgoing {
	struct outgoing *next;
	size_t len;
	size_t sent;
	char bytes[];
};

struct frames {
	wslay_frame_context_ptr wslay;
	const struct frames_reader *reader;
	void *arg;
	const char *in; /* input that wslay has not read yet */
	size_t in_len;
	struct bytes kept; /* a copy of that input while reading is stopped */
	bool is_kept;
	uint64_t rest;             /* bytes of the current frame still to come */
	uint8_t message;           /* opcode of the unfinished message; 0: none */
	bool is_compressed;        /* the unfinished message is compressed */
	struct inflater *inflater; /* NULL: compression was not agreed */
	size_t inflated;           /* bytes of that message so far */
	size_t inflated_most;
	size_t inflated_now;    /* bytes in this call of frames_receive() */
	struct outgoing *first; /* queue of messages to write */
	struct outgoing **last;
	size_t unsent;         /* bytes in that queue */
	struct control heard;  /* control frame being received */
	struct control pong;   /* answer to the newest ping; older ones need none (section 5.5.3) */
	struct control ping;   /* to send */
	struct control ending; /* the close frame; nothing is written after it */
	bool is_ending;
	unsigned int close_code; /* from the server; 0: none */
	char reason[200];
};

/* --- what wslay asks for --- */

static ssize_t on_need(uint8_t *room, size_t size, int flags, void *arg)
{
	struct frames *f = arg;
	size_t n = f->in_len < size ? f->in_len : size;

	(void)flags;
	if (!n)
		return -1;
	memcpy(room, f->in, n);
	f->in += n;
	f->in_len -= n;
	return (ssize_t)n;
}

struct frames *frames_new(const struct frames_reader *reader, void *arg)
{
	static const struct wslay_frame_callbacks callbacks = {NULL, on_need, NULL};
	struct frames *f = memory_calloc(1, sizeof(*f));

	f->reader = reader;
	f->arg = arg;
	f->last = &f->first;
	if (wslay_frame_context_init(&f->wslay, &callbacks, f))
		memory_exhausted("wslay", 0);
	return f;
}

static void drop_first(struct frames *f)
{
	struct outgoing *o = f->first;

	f->first = o->next;
	if (!f->first)
		f->last = &f->first;
	f->unsent -= o->len - o->sent;
	free(o);
}

void frames_free(struct frames *f)
{
	if (!f)
		return;
	while (f->first)
		drop_first(f);
	bytes_free(&f->kept);
	inflater_free(f->inflater);
	wslay_frame_context_free(f->wslay);
	free(f);
}

void frames_inflate(struct frames *f, const struct deflate_terms *terms, size_t most)
{
	f->inflater = inflater_new(terms);
	f->inflated_most = most;
}

/* --- to be written --- */

static void set_due(struct control *c, const void *bytes, size_t len)
{
	memcpy(c->bytes, bytes, len);
	c->len = len;
	c->is_due = true;
}

void frames_ping(struct frames *f)
{
	set_due(&f->ping, WS_PING_PAYLOAD, strlen(WS_PING_PAYLOAD));
}

void frames_close(struct frames *f, unsigned int code)
{
	const unsigned char bytes[2] = {(unsigned char)(code >> 8), (unsigned char)code};

	if (f->is_ending)
		return;
	f->is_ending = true;
	set_due(&f->ending, bytes, sizeof(bytes));
}

bool frames_is_due(const struct frames *f)
{
	return f->pong.is_due || f->ping.is_due || f->ending.is_due || f->first;
}

/* Writes a final, masked frame with the shortest length field (section 5.2). Its key must be unpredictable (section
 * 5.3). Returns the end of the frame. */
static char *write_frame(char *out, uint8_t opcode, const char *bytes, size_t len)
{
	unsigned char key[4];

	*out++ = (char)(0x80 | opcode);
	*out++ = (char)(0x80 | (len < 126 ? len : len < 65536 ? 126 : 127));
	for (int shift = len < 126 ? -8 : len < 65536 ? 8 : 56; shift >= 0; shift -= 8)
		*out++ = (char)(len >> shift);
	if (uv_random(NULL, NULL, key, sizeof(key), 0, NULL))
		memory_exhausted("libuv", sizeof(key));
	out = mempcpy(out, key, sizeof(key));
	for (size_t i = 0; i < len; i++)
		*out++ = (char)(bytes[i] ^ key[i % sizeof(key)]);
	return out;
}

void frames_send(struct frames *f, const char *text, size_t len)
{
	struct outgoing *o = memory_alloc(sizeof(*o) + FRAME_HEAD + len);

	*o = (struct outgoing){.len = (size_t)(write_frame(o->bytes, WSLAY_TEXT_FRAME, text, len) - o->bytes)};
	f->unsent += o->len;
	*f->last = o;
	f->last = &o->next;
}

size_t frames_unsent(const struct frames *f)
{
	return f->unsent;
}

/* Writes as much of the queued messages as fits. No other frame may interrupt one (section 5.4). */
static char *take_messages(struct frames *f, char *out, size_t size)
{
	while (f->first && size) {
		struct outgoing *o = f->first;
		size_t n = o->len - o->sent < size ? o->len - o->sent : size;

		out = mempcpy(out, o->bytes + o->sent, n);
		o->sent += n;
		f->unsent -= n;
		size -= n;
		if (o->sent == o->len)
			drop_first(f);
	}
	return out;
}

static char *take_control(char *out, uint8_t opcode, struct control *c)
{
	bool is_due = c->is_due;

	c->is_due = false;
	return is_due ? write_frame(out, opcode, c->bytes, c->len) : out;
}

size_t frames_take(struct frames *f, char *room)
{
	bool has_ended = f->is_ending && !f->ending.is_due;
	char *out = room;

	if (has_ended)
		f->pong.is_due = f->ping.is_due = false;
	while (f->is_ending && f->first && !f->first->sent)
		drop_first(f);
	if (f->first && f->first->sent) {
		size_t rest = f->first->len - f->first->sent;

		return (size_t)(take_messages(f, room, rest < FRAMES_ROOM ? rest : FRAMES_ROOM) - room);
	}
	out = take_control(out, WSLAY_PONG, &f->pong);
	out = take_control(out, WSLAY_PING, &f->ping);
	out = take_control(out, WSLAY_CONNECTION_CLOSE, &f->ending);
	out = take_messages(f, out, FRAMES_ROOM - (size_t)(out - room));
	return (size_t)(out - room);
}

/* --- read --- */

static enum frames_result refuse(struct frames *f, unsigned int code, const char *what)
{
	snprintf(f->reason, sizeof(f->reason), "the server sent %s: closed with %u", what, code);
	frames_close(f, code);
	return FRAMES_END;
}

/* Sets the reason, with the server's code and text if it sent them. */
static void describe_close(struct frames *f)
{
	const char *bytes = f->heard.bytes;
	int words = f->heard.len > 2 ? (int)f->heard.len - 2 : 0;

	if (f->heard.len)
		snprintf(f->reason, sizeof(f->reason), "the server closed the connection with %u%s%.*s",
			 (unsigned int)(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1], words ? ": " : "", words,
			 bytes + 2);
	else
		snprintf(f->reason, sizeof(f->reason), "the server closed the connection");
	make_line(f->reason);
}

/* Answers a close frame with its own code, or with none if it has none (section 5.5.1). */
static enum frames_result take_close(struct frames *f)
{
	unsigned int code = ws_judge_close(f->heard.bytes, f->heard.len);

	if (code)
		return refuse(f, code, "a malformed close frame");
	describe_close(f);
	if (f->heard.len)
		f->close_code = (unsigned int)(unsigned char)f->heard.bytes[0] << 8 | (unsigned char)f->heard.bytes[1];
	if (!f->is_ending)
		set_due(&f->ending, f->heard.bytes, f->heard.len ? 2 : 0);
	f->is_ending = true;
	return FRAMES_END;
}

static enum frames_result take_control_piece(struct frames *f, const struct wslay_frame_iocb *piece)
{
	memcpy(f->heard.bytes + f->heard.len, piece->data, piece->data_length);
	f->heard.len += piece->data_length;
	if (f->rest)
		return FRAMES_MORE;
	if (piece->opcode == WSLAY_CONNECTION_CLOSE)
		return take_close(f);
	if (piece->opcode == WSLAY_PING)
		set_due(&f->pong, f->heard.bytes, f->heard.len);
	else
		f->reader->on_pong(f->arg);
	return FRAMES_MORE;
}

static int on_inflated(void *arg, const char *bytes, size_t len, bool is_last)
{
	struct frames *f = arg;
	bool is_bomb = (f->inflated += len) > f->inflated_most;
	struct ws_piece piece = {
		.bytes = bytes,
		.len = len,
		.is_final = is_last || is_bomb,
		.is_text = f->message == WSLAY_TEXT_FRAME,
	};

	f->inflated_now += len;
	f->reader->on_piece(f->arg, &piece);
	return is_bomb ? -1 : 0;
}

static enum frames_result take_compressed_piece(struct frames *f, const struct wslay_frame_iocb *frame)
{
	bool is_last = frame->fin && !f->rest;

	if (inflater_receive(f->inflater, (const char *)frame->data, frame->data_length, is_last, on_inflated, f))
		return f->inflated > f->inflated_most
			       ? refuse(f, WSLAY_CODE_MESSAGE_TOO_BIG, "a message that inflates to too many bytes")
			       : refuse(f, WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA, "a message that does not inflate");
	if (is_last)
		f->message = 0;
	return FRAMES_MORE;
}

static void take_message_piece(struct frames *f, const struct wslay_frame_iocb *frame)
{
	struct ws_piece piece = {
		.bytes = (const char *)frame->data,
		.len = frame->data_length,
		.rest = f->rest,
		.is_final = frame->fin,
		.is_text = f->message == WSLAY_TEXT_FRAME,
	};

	if (frame->fin && !f->rest)
		f->message = 0;
	f->reader->on_piece(f->arg, &piece);
}

/* RFC 7692, section 6: RSV1 in a message's first frame marks it as compressed. */
static bool may_have_rsv(const struct frames *f, const struct wslay_frame_iocb *frame)
{
	return f->inflater && frame->rsv == WSLAY_RSV1_BIT &&
	       (frame->opcode == WSLAY_TEXT_FRAME || frame->opcode == WSLAY_BINARY_FRAME);
}

/* Checks the head of a frame. Returns what is wrong with it, or NULL. */
static const char *judge_head(const struct frames *f, const struct wslay_frame_iocb *frame)
{
	if (frame->rsv && !may_have_rsv(f, frame))
		return "a frame with a reserved bit";
	if (frame->mask)
		return "a masked frame";
	switch (frame->opcode) {
	case WSLAY_CONTINUATION_FRAME:
		return f->message ? NULL : "a continuation without a message";
	case WSLAY_TEXT_FRAME:
	case WSLAY_BINARY_FRAME:
		return f->message ? "a message within a message" : NULL;
	case WSLAY_CONNECTION_CLOSE:
	case WSLAY_PING:
	case WSLAY_PONG:
		return NULL;
	}
	return "a frame with an unknown opcode";
}

static enum frames_result begin_frame(struct frames *f, const struct wslay_frame_iocb *frame)
{
	const char *what = judge_head(f, frame);

	if (what)
		return refuse(f, WSLAY_CODE_PROTOCOL_ERROR, what);
	f->rest = frame->payload_length;
	if (wslay_is_ctrl_frame(frame->opcode)) {
		f->heard.len = 0;
	} else if (frame->opcode != WSLAY_CONTINUATION_FRAME) {
		f->message = frame->opcode;
		f->is_compressed = frame->rsv;
		f->inflated = 0;
	}
	return FRAMES_MORE;
}

static enum frames_result take_piece(struct frames *f, const struct wslay_frame_iocb *piece)
{
	if (!f->rest && begin_frame(f, piece) == FRAMES_END)
		return FRAMES_END;
	f->rest -= piece->data_length;
	if (wslay_is_ctrl_frame(piece->opcode))
		return take_control_piece(f, piece);
	if (f->is_compressed)
		return take_compressed_piece(f, piece);
	take_message_piece(f, piece);
	return FRAMES_MORE;
}

static enum frames_result take_frames(struct frames *f)
{
	enum frames_result result = FRAMES_MORE;

	while (result == FRAMES_MORE) {
		struct wslay_frame_iocb piece = {0};
		ssize_t n;

		f->is_kept = f->inflated_now > TURN_BYTES || (f->reader->is_held && f->reader->is_held(f->arg));
		n = f->is_kept ? WSLAY_ERR_WANT_READ : wslay_frame_recv(f->wslay, &piece);
		if (n == WSLAY_ERR_WANT_READ)
			return FRAMES_MORE;
		result = n < 0 ? refuse(f, WSLAY_CODE_PROTOCOL_ERROR, "a frame of a wrong length")
			       : take_piece(f, &piece);
	}
	return result;
}

enum frames_result frames_receive(struct frames *f, const char *bytes, size_t len)
{
	AUTO_BYTES before = f->kept;
	enum frames_result result;

	if (f->is_kept) {
		bytes_add(&before, bytes, len);
		bytes = before.at;
		len = before.len;
	}
	f->kept = (struct bytes){NULL, 0, 0};
	f->in = bytes;
	f->in_len = len;
	f->inflated_now = 0;
	result = take_frames(f);
	if (f->is_kept)
		bytes_add(&f->kept, f->in, f->in_len);
	return result;
}

bool frames_are_kept(const struct frames *f)
{
	return f->is_kept;
}

const char *frames_reason(const struct frames *f)
{
	return f->reason;
}

unsigned int frames_close_code(const struct frames *f)
{
	return f->close_code;
}
