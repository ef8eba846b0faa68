/* A producer that sends any bytes: the listener's server of --ingest, on libwebsockets and a loop, judges its request
 * and reads its frames. Only a request that a second reader accepts becomes a WebSocket, the messages are those that
 * book.c reads, answers are well formed, and no memory is left.
 *
 * An input is a byte whose bits are enum flag, a byte that cuts, and what the client sends, in which each of the first
 * four bytes 0x1a stands for the token. */

#include "base/log.h"
#include "book.h"
#include "client.h"
#include "fuzz.h"
#include "intake/ingest.h"
#include "pipeline/pipeline.h"

#define TOKEN        "hunter2-and-more"
#define MESSAGE_MOST 300 /* bytes: --max-message */
#define PENDING_MOST 65536
#define TOKENS_MOST  4 /* tokens in one input */

enum flag {
	SHAKEN = 1, /* the handshake is done, and the input is frames */
	WANTS_ACKS = 2,
	REJECTS = 4, /* the listener rejects all messages */
};

static uv_loop_t loop;
static unsigned int flags; /* flags of the input: enum flag */
static struct ws *ws;
static struct ingest *ingest;
static struct sockaddr_in address = {.sin_family = AF_INET};
static char *const origins[] = {(char *)"https://shop.example"};
static struct config config = {
	.message_bytes = MESSAGE_MOST,
	.inflight_bytes = 1 << 28,
	.ping_interval_s = 20,
	.handshake_timeout_s = 10,
	.message_timeout_s = 10,
	.ingest_connections = 100,
	.ingest_handshakes = 100,
	.ingest_token = (char *)TOKEN,
	.ingest_origins = {(char **)origins, 1},
};

/* Counts outcomes as coverage, since libwebsockets' branches are not instrumented. */
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t outcomes[2048];

/* --- the rest of a listener --- */

static struct {
	long bytes;         /* bytes charged */
	char text[1 << 14]; /* received messages: a dot before each byte, a bar at the end of each message */
	size_t len;
	size_t messages;
	size_t pending;
	struct sender *senders[PENDING_MOST];
} taken;

static void charge(void *owner, long bytes)
{
	taken.bytes += bytes;
}

static bool is_never_full(const void *owner)
{
	return false;
}

static void take(const char *message, size_t len)
{
	must(taken.len + 2 * len + 1 < sizeof(taken.text), "more messages than bytes");
	for (size_t i = 0; i < len; i++) {
		taken.text[taken.len++] = '.';
		taken.text[taken.len++] = message[i];
	}
	taken.text[taken.len++] = '|';
	taken.messages++;
}

bool pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from, struct sender *sender)
{
	must(from, "nobody has sent it");
	must(len <= MESSAGE_MOST, "a message of %zu bytes", len);
	must(taken.pending < PENDING_MOST, "more messages than can be");
	take(message, len);
	taken.senders[taken.pending++] = sender;
	return true;
}

void pipeline_refuse(struct pipeline *p, const char *source, const char *message, size_t len, const char *reason,
		     struct sender *sender)
{
	must(!source, "a frame of a profile");
	must(*reason, "refused without a reason");
	must(taken.pending < PENDING_MOST, "more messages than can be");
	take(message, len);
	taken.senders[taken.pending++] = sender;
}

/* Without a profile there are none of these. */
void pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender)
{
	must(false, "an event of a profile");
}

/* Answers come later, not from inside. */
static void settle(bool is_rejected)
{
	static char reason[] = "the id is missing";
	struct event ev = {.id = "e", .id_len = 1, .reason = is_rejected ? reason : NULL};

	for (size_t i = 0; i < taken.pending; i++)
		taken.senders[i]->answer(taken.senders[i], &ev, is_rejected ? OUTCOME_REJECTED : OUTCOME_PERSISTED);
	taken.pending = 0;
}

/* Replaces log.c. */
void log_write(enum log_level level, const char *event, const char *fields, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fields);
	vsnprintf(text, sizeof(text), fields, ap);
	va_end(ap);
	must(!strstr(text, TOKEN), "the token is in the log: %s %s", event, text);
}

/* Returns whether messages came in the last turn of the loop, and answers them. */
static bool on_turn(void)
{
	bool has_pending = taken.pending;

	settle(flags & REJECTS);
	return has_pending;
}

static struct client client = {.loop = &loop, .on_turn = on_turn};

/* --- the judgement, by a second reader --- */

struct request {
	char line[2000];
	bool is_plain; /* every line has a form that can be read in only one way */
	int upgrades, connections, hosts, keys, versions, origins, tokens, others;
	bool is_upgrade, is_connection, is_key, is_version, is_origin, is_token;
};

/* Copies a line without its end. Returns the next one, or NULL if the line has no end. */
static const char *next_line(const char *at, const char *end, char *room, size_t size, bool *is_plain)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));

	if (!stop)
		return NULL;
	*is_plain = *is_plain && stop > at && stop[-1] == '\r';
	size_t len = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
	must(len < size, "an input longer than is allowed");
	memcpy(room, at, len);
	room[len] = '\0';
	for (size_t i = 0; i < len; i++)
		*is_plain = *is_plain && room[i] >= ' ' && room[i] < 0x7f;
	return stop + 1;
}

static bool is_base64_of_16(const char *text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	return strlen(text) == 24 && strspn(text, digits) == 22 && strcmp(text + 22, "==") == 0;
}

/* True if these are words with commas between them. */
static bool is_list(const char *words)
{
	char text[256], *rest = text;

	snprintf(text, sizeof(text), "%s", words);
	for (char *word; (word = strsep(&rest, ","));) {
		word += strspn(word, " ");
		if (!*word || word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")])
			return false;
	}
	return true;
}

static bool has_upgrade(const char *words)
{
	char text[256], *rest = text;

	snprintf(text, sizeof(text), "%s", words);
	for (char *word; (word = strsep(&rest, ", \t"));)
		if (strcasecmp(word, "upgrade") == 0)
			return true;
	return false;
}

static void read_header(struct request *r, char *line)
{
	size_t len = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-0123456789");
	char *value = line + len + 1;

	if (!len || line[len] != ':' || *value != ' ' || value[1] == ' ' || strlen(line) > 200 ||
	    line[strlen(line) - 1] == ' ')
		r->is_plain = false;
	if (line[len] != ':')
		return;
	line[len] = '\0';
	value += strspn(value, " ");
	if (strcasecmp(line, "Upgrade") == 0) {
		r->upgrades++;
		r->is_upgrade |= strcasecmp(value, "websocket") == 0;
	} else if (strcasecmp(line, "Connection") == 0) {
		r->connections++;
		r->is_connection |= has_upgrade(value);
		r->is_plain = r->is_plain && is_list(value);
	} else if (strcasecmp(line, "Host") == 0) {
		r->hosts += *value != '\0';
	} else if (strcasecmp(line, "Sec-WebSocket-Key") == 0) {
		r->keys++;
		r->is_key |= is_base64_of_16(value);
	} else if (strcasecmp(line, "Sec-WebSocket-Version") == 0) {
		r->versions++;
		r->is_version |= strcmp(value, "13") == 0;
	} else if (strcasecmp(line, "Origin") == 0) {
		r->origins++;
		r->is_origin |= strcasecmp(value, origins[0]) == 0;
	} else if (strcasecmp(line, "Authorization") == 0) {
		r->tokens++;
		r->is_token |= strncasecmp(value, "Bearer ", 7) == 0 && strcmp(value + 7, TOKEN) == 0;
	} else {
		r->others++;
	}
}

/* Returns where the request ends, or NULL if it does not. */
static const char *read_request(struct request *r, const char *at, const char *end)
{
	char line[2000] = "";

	memset(r, 0, sizeof(*r));
	r->is_plain = true;
	at = next_line(at, end, r->line, sizeof(r->line), &r->is_plain);
	while (at && (at = next_line(at, end, line, sizeof(line), &r->is_plain)) && *line)
		read_header(r, line);
	return at;
}

/* True if the request has what every upgrade needs, however the rest is read. */
static bool may_upgrade(const struct request *r)
{
	return r->is_upgrade && r->is_connection && r->hosts && r->is_version && r->is_token &&
	       (!r->origins || r->is_origin);
}

/* True if the request must be accepted: each header occurs once, and none is special to libwebsockets only. */
static bool must_upgrade(const struct request *r)
{
	return may_upgrade(r) && r->is_key && strcmp(r->line, "GET /events HTTP/1.1") == 0 && r->upgrades == 1 &&
	       r->connections == 1 && r->hosts == 1 && r->keys == 1 && r->versions == 1 && r->origins <= 1 &&
	       r->tokens == 1 && !r->others;
}

/* --- what is answered --- */

static bool is_open(const struct client *c)
{
	return strncmp(c->answer, "HTTP/1.1 101 ", 13) == 0;
}

/* Checks the refusal: ours, libwebsockets' own, or none. */
static void check_refusal(const struct client *c)
{
	int status = 0;

	must(!taken.messages, "a message without a handshake");
	if (!c->len)
		return;
	must(sscanf(c->answer, "HTTP/1.%*1[01] %3d", &status) == 1 && status >= 400 && status < 506,
	     "a refusal of no known form: %.80s", c->answer);
	must(c->is_ended, "a refusal, and it goes on: %.80s", c->answer);
	outcomes[status] = 1;
}

static void check_request(const struct client *c, const char *sent, size_t len)
{
	struct request r;
	const char *end = read_request(&r, sent, sent + len);

	if (!is_open(c)) {
		must(!end || !r.is_plain || !must_upgrade(&r), "refused, though it is right: %.80s", c->answer);
		check_refusal(c);
		return;
	}
	must(end || !r.is_plain, "an upgrade before the request's end");
	must(may_upgrade(&r) || !r.is_plain, "an upgrade that is not right: %s", r.line);
	must(memmem(sent, len, TOKEN, strlen(TOKEN)), "an upgrade without the token");
}

/* The server's first frame that is not an ack: pongs and a close frame. */
static void check_frames(const struct client *c)
{
	const char *frames = strstr(c->answer, "\r\n\r\n");
	size_t len = c->len - (size_t)(frames + 4 - c->answer);
	struct meaning m;
	size_t acks = 0;

	must(frames, "an upgrade without an end: %.200s", c->answer);
	char *text = malloc(3 * len + 3);
	book_read(&m, (const uint8_t *)frames + 4, len, false, text);
	must(!m.may_end || m.must_end, "the server's frames are wrong");
	must(m.goodbye_len == 0 || m.goodbye[0] != 1002 >> 8 || m.goodbye[1] != (1002 & 255) || m.must_end,
	     "the server's frames are wrong");
	for (size_t i = 0; i < m.whole_len; i += m.text[i] == '|' ? 1 : 2)
		acks += m.text[i] == '|';
	must(acks <= taken.messages && (acks == 0 || flags & WANTS_ACKS), "%zu acks of %zu messages", acks,
	     taken.messages);
	free(text);
}

/* Checks that exactly these messages were received, up to the first violation of the RFC or of our limits. */
static void check_messages(const struct client *c, const uint8_t *sent, size_t len)
{
	char *text = malloc(3 * len + 3);
	struct meaning m;
	size_t i = 0, n = 0, begin = 0;
	bool has_ended = false;

	book_read(&m, sent, len, true, text);
	while (i < m.whole_len && !has_ended) {
		uint8_t message[2000];
		size_t message_len = 0;
		bool is_text = m.text[i] == 't';

		for (; m.text[i] != '|'; i += 2)
			message[message_len++] = (uint8_t)m.text[i + 1];
		i++;
		has_ended = message_len > MESSAGE_MOST;
		if (has_ended)
			break;
		if (n == taken.len)
			break;
		for (begin = 0; begin < message_len; begin++, n += 2)
			must(n + 1 < taken.len && taken.text[n] == '.' && taken.text[n + 1] == (char)message[begin],
			     "another message: byte %zu of %zu", begin, message_len);
		must(n < taken.len && taken.text[n] == '|', "a longer message than %zu bytes", message_len);
		n++;
		has_ended = is_text && !book_is_unicode(message, message_len);
	}
	must(n == taken.len || m.must_end || m.may_end, "more messages than were sent");
	must(!has_ended || n == taken.len, "a message after the end");
	must(i == m.whole_len || has_ended || c->is_ended || flags & REJECTS || m.must_end || m.may_end,
	     "fewer messages than were sent");
	outcomes[1024 + (taken.messages < 15 ? taken.messages : 15)] = 1;
	outcomes[1040 + has_ended] = 1;
	outcomes[1044 + c->is_ended] = 1;
	free(text);
}

/* --- the fuzzer --- */

static const char handshake[] = "GET /events HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
				"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
				"Authorization: Bearer " TOKEN "\r\n";

static void shake_hands(struct client *c)
{
	static const char acks[] = "Sec-WebSocket-Protocol: wsonce.ack.v1\r\n";

	client_send(c, handshake, sizeof(handshake) - 1, 0);
	if (flags & WANTS_ACKS)
		client_send(c, acks, sizeof(acks) - 1, 0);
	client_send(c, "\r\n", 2, 0);
	for (int turns = 0; turns < 1000 && !strstr(c->answer, "\r\n\r\n"); turns++)
		client_turn(c);
	must(is_open(c), "the server is not well: %.100s", c->answer);
}

/* Waits until the server has freed a closed connection and its memory. */
static void await_end(void)
{
	for (int turns = 0; turns < 10000; turns++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		settle(false);
		if (!ingest_connections(ingest) && !taken.bytes && !taken.pending)
			return;
	}
	must(false, "%zu connections and %ld bytes are left", ingest_connections(ingest), taken.bytes);
}

static uint8_t *reveal(const uint8_t *bytes, size_t len, size_t *out_len)
{
	uint8_t *out = malloc(len + TOKENS_MOST * sizeof(TOKEN)), *at = out;
	int tokens = 0;

	for (size_t i = 0; i < len; i++)
		if (bytes[i] == 0x1a && tokens++ < TOKENS_MOST)
			at = mempcpy(at, TOKEN, sizeof(TOKEN) - 1);
		else
			*at++ = bytes[i];
	*out_len = (size_t)(at - out);
	return out;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char text[60];
	const struct ws_budget budget = {NULL, charge, is_never_full, is_never_full};
	char error[400];

	snprintf(text, sizeof(text), "127.0.0.1:%d", find_port(&address));
	config.ingest = text;
	must(uv_loop_init(&loop) == 0, "no loop");
	ws = ws_open(&loop, &config, &budget);
	must(ws, "no context");
	ingest = ingest_open(ws, &config, error, sizeof(error));
	must(ingest, "%s", error);
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	size_t len;

	if (size < 2)
		return;
	flags = data[0];
	taken.len = taken.messages = 0;
	uint8_t *bytes =
		flags & SHAKEN ? memcpy(malloc(size), data + 2, len = size - 2) : reveal(data + 2, size - 2, &len);
	client_open(&client, &address);
	if (flags & SHAKEN)
		shake_hands(&client);
	client_send(&client, bytes, len, data[1]);
	client_await_quiet(&client);
	if (!is_open(&client)) /* some refusals are sent when the client is silent */
		shutdown(client.fd, SHUT_WR);
	client_await_quiet(&client);
	if (flags & SHAKEN)
		check_messages(&client, bytes, len);
	else
		check_request(&client, (const char *)bytes, len);
	if (is_open(&client))
		check_frames(&client);
	close(client.fd);
	await_end();
	free(bytes);
}
