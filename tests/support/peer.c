/* A WebSocket client inside the test: handshake, masked frames out, messages in. */
#include "peer.h"
#include "buffer.h"
#include "support.h"

#define CONNECT_MS 10000
#define SEND_MS    10000
#define READ_BYTES 65536

/* Fixed key and mask, so that failures are repeatable. */
static const char key[] = "d3NvbmNlIHRlc3QgcGVlcg==";
static const unsigned char mask[4] = {0x37, 0xfa, 0x21, 0x3d};

struct peer {
	int fd;              /* -1 once closed by us */
	bool has_ended;      /* end of file, or an error */
	bool has_sent_close; /* has sent a close frame */
	int close_code;      /* of the server's close frame; 0 before it */
	int send_ms;         /* deadline of one send */
	long pongs;
	char *subprotocol;     /* chosen by the server, or NULL */
	struct buffer out;     /* not yet accepted by the kernel */
	struct buffer in;      /* received, not yet parsed */
	size_t understood;     /* parsed bytes of in */
	struct buffer message; /* frames so far of an unfinished message */
};

struct peer *peer_dial(int port)
{
	process_raise_file_limit();
	int fd = port_connect(port, CONNECT_MS);
	if (fd == -1)
		return NULL;
	struct peer *p = calloc(1, sizeof *p);
	p->fd = fd;
	p->send_ms = SEND_MS;
	return p;
}

/* Reads once, waiting until end_ms. False if nothing came. */
static bool read_some(struct peer *p, int64_t end_ms)
{
	struct pollfd pfd = {.fd = p->fd, .events = POLLIN};

	if (p->fd == -1 || p->has_ended || poll(&pfd, 1, wait_left_ms(end_ms)) < 1)
		return false;
	buffer_consume(&p->in, p->understood);
	p->understood = 0;
	ssize_t n = recv(p->fd, buffer_reserve(&p->in, READ_BYTES), READ_BYTES, 0);
	if (n == -1 && errno == EAGAIN)
		return true;
	if (n <= 0) {
		p->has_ended = true;
		return false;
	}
	buffer_grow(&p->in, (size_t)n);
	return true;
}

static bool is_request_sent(struct peer *p, int port, const char *path, const char *subprotocol, const char *token)
{
	char *text;
	int len = asprintf(&text,
			   "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s%s%s%s%s%s\r\n",
			   path, port, key, subprotocol ? "Sec-WebSocket-Protocol: " : "",
			   subprotocol ? subprotocol : "", subprotocol ? "\r\n" : "",
			   token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");

	if (len < 0)
		cr_assert_fail("out of memory");
	bool ok = peer_send_raw(p, text, (size_t)len);
	free(text);
	return ok;
}

/* Waits for the header of the server's answer. The caller frees it; NULL if it does not come. */
static char *read_head(struct peer *p)
{
	int64_t end = wait_end_ms(CONNECT_MS);

	do {
		char *text = (char *)p->in.bytes;
		char *limit = p->in.len ? strstr(text, "\r\n\r\n") : NULL;

		if (limit) {
			p->understood = (size_t)(limit + 4 - text);
			return strndup(text, p->understood);
		}
	} while (read_some(p, end));
	return NULL;
}

static void check_answer(struct peer *p, const char *head)
{
	char expected[29];
	char *accept = frame_header(head, "Sec-WebSocket-Accept");

	frame_accept_key(key, expected);
	if (!accept || strcmp(accept, expected) != 0)
		cr_assert_fail("wrong Sec-WebSocket-Accept in: %s", head);
	p->subprotocol = frame_header(head, "Sec-WebSocket-Protocol");
	free(accept);
}

struct peer *peer_open(int port, const char *path, const char *subprotocol, const char *token, int *status)
{
	int code = 0;
	struct peer *p = peer_dial(port);
	char *head = NULL;

	/* Read the answer even if sending failed: a server may refuse before it has read everything. */
	if (p) {
		is_request_sent(p, port, path, subprotocol, token);
		head = read_head(p);
	}
	if (head)
		sscanf(head, "HTTP/%*s %d", &code);
	if (code == 101) {
		check_answer(p, head);
	} else {
		peer_free(p);
		p = NULL;
	}
	if (status)
		*status = code;
	free(head);
	return p;
}

struct peer *peer_open_events(int port, const char *subprotocol)
{
	int status;
	struct peer *p = peer_open(port, "/events", subprotocol, NULL, &status);

	if (!p)
		cr_assert_fail("/events on port %d refused a producer: HTTP status %d", port, status);
	return p;
}

const char *peer_subprotocol(const struct peer *p)
{
	return p->subprotocol;
}

bool peer_send_text(struct peer *p, const char *text)
{
	return peer_send(p, FRAME_TEXT, true, text, strlen(text));
}

bool peer_sendf(struct peer *p, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *text = suite_vtext(fmt, args);
	va_end(args);
	bool ok = peer_send_text(p, text);
	free(text);
	return ok;
}

bool peer_send(struct peer *p, int opcode, bool fin, const void *bytes, size_t len)
{
	unsigned char *end = buffer_reserve(&p->out, FRAME_HEAD_MAX + len);

	buffer_grow(&p->out, frame_write(end, opcode, fin, mask, bytes, len));
	p->has_sent_close |= opcode == FRAME_CLOSE;
	return peer_flush(p);
}

bool peer_send_raw(struct peer *p, const void *bytes, size_t len)
{
	buffer_append(&p->out, bytes, len);
	return peer_flush(p);
}

bool peer_flush(struct peer *p)
{
	int64_t end = wait_end_ms(p->send_ms);
	struct pollfd pfd = {.fd = p->fd, .events = POLLOUT};

	while (p->out.len && p->fd != -1) {
		ssize_t n = send(p->fd, p->out.bytes, p->out.len, MSG_NOSIGNAL);

		if (n > 0)
			buffer_consume(&p->out, (size_t)n);
		else if (errno != EAGAIN || poll(&pfd, 1, wait_left_ms(end)) < 1)
			return false;
	}
	return p->fd != -1;
}

void peer_set_deadline(struct peer *p, int ms)
{
	p->send_ms = ms;
}

/* Handles a control frame. */
static void on_control(struct peer *p, const struct frame *frame)
{
	switch (frame->opcode) {
	case FRAME_PING:
		peer_send(p, FRAME_PONG, true, frame->bytes, frame->len);
		break;
	case FRAME_PONG:
		p->pongs++;
		break;
	case FRAME_CLOSE:
		if (!p->has_sent_close)
			peer_send(p, FRAME_CLOSE, true, frame->bytes, frame->len < 2 ? 0 : 2);
		p->close_code = frame_close_code(frame);
		break;
	}
}

/* The next complete message among the received bytes, or NULL. */
static char *next_message(struct peer *p)
{
	struct frame frame;

	while (frame_read(p->in.bytes + p->understood, p->in.len - p->understood, &frame)) {
		p->understood += frame.size;
		if (frame.opcode >= FRAME_CLOSE) {
			on_control(p, &frame);
			continue;
		}
		buffer_append(&p->message, frame.bytes, frame.len);
		if (!frame.fin)
			continue;
		char *text = (char *)p->message.bytes;
		p->message = (struct buffer){0};
		return text;
	}
	return NULL;
}

char *peer_recv(struct peer *p, int deadline_ms)
{
	int64_t end = wait_end_ms(deadline_ms);
	char *text;

	do
		text = next_message(p);
	while (!text && read_some(p, end));
	return text;
}

int peer_recv_close(struct peer *p, int deadline_ms)
{
	int64_t end = wait_end_ms(deadline_ms);

	do {
		char *text;

		while ((text = next_message(p)))
			free(text);
		if (p->close_code)
			return p->close_code;
	} while (read_some(p, end));
	return p->has_ended ? 1006 : 0;
}

bool peer_is_open(const struct peer *p)
{
	return p->fd != -1 && !p->has_ended && !p->close_code;
}

long peer_pongs(const struct peer *p)
{
	return p->pongs;
}

bool peer_send_close(struct peer *p, int code)
{
	unsigned char bytes[2] = {(unsigned char)(code >> 8), (unsigned char)code};

	return peer_send(p, FRAME_CLOSE, true, bytes, sizeof bytes);
}

void peer_reset(struct peer *p)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (p->fd == -1)
		return;
	setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(p->fd);
	p->fd = -1;
}

void peer_close(struct peer *p)
{
	char unread[4096];

	if (p->fd == -1)
		return;
	while (recv(p->fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
		; /* with something unread, close would send RST instead of FIN */
	close(p->fd);
	p->fd = -1;
}

void peer_free(struct peer *p)
{
	if (!p)
		return;
	peer_close(p);
	free(p->subprotocol);
	buffer_clear(&p->out);
	buffer_clear(&p->in);
	buffer_clear(&p->message);
	free(p);
}
