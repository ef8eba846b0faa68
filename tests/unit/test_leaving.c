/* Producers that leave while --ingest still holds something for them: every state times every way to leave. Nothing may
 * be leaked or used after it is freed, which the sanitizers notice. */

#include "clock.h"
#include "intake/ingest.h"
#include "pipeline/pipeline.h"
#include "unit.h"
#include <arpa/inet.h>
#include <sys/socket.h>

#define PENDING_MOST 8192
#define LONG_ID      500 /* bytes, so that acks pile up soon */

static uv_loop_t loop;
static struct ws *ws;
static struct ingest *ingest;
static struct sockaddr_in address = {.sin_family = AF_INET};
static char listen_at[40];
static struct config config = {
	.ingest = listen_at,
	.message_bytes = 1 << 16,
	.inflight_bytes = 1 << 28,
	.handshake_timeout_s = 10,
	.message_timeout_s = 10,
	.ingest_connections = 100,
	.ingest_handshakes = 100,
};
static const char owing[] = "{\"name\": \"owed\", \"max_unacked\": 3, \"ack_mode\": \"each\", \"ack\": {\"ok\": 1}, "
			    "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}";

/* --- the rest of a listener --- */

static long charged;
static struct sender *senders[PENDING_MOST];
static size_t pending;
static int fd;         /* of the producer */
static bool is_ending; /* the listener has stopped reading and ends the connection itself */

bool __wrap_pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from,
			     struct sender *sender);
void __wrap_pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender);

bool __wrap_pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from,
			     struct sender *sender)
{
	cr_assert_lt(pending, (size_t)PENDING_MOST);
	senders[pending++] = sender;
	return true;
}

void __wrap_pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender)
{
	__wrap_pipeline_receive(p, NULL, 0, NULL, sender);
}

static void charge(void *owner, long bytes)
{
	charged += bytes;
}

static bool is_never_full(const void *owner)
{
	return false;
}

/* Settles the oldest n messages. Garbage costs a producer the most. */
static void answer(size_t n, bool is_garbage)
{
	static char id[LONG_ID], reason[] = "no event";
	struct event ev = {.id = id, .id_len = LONG_ID, .message_len = 1 << 20, .reason = is_garbage ? reason : NULL};

	memset(id, 'i', sizeof(id));
	cr_assert_leq(n, pending);
	for (size_t i = 0; i < n; i++)
		senders[i]->answer(senders[i], &ev, is_garbage ? OUTCOME_REJECTED : OUTCOME_PERSISTED);
	memmove(senders, senders + n, (pending -= n) * sizeof(*senders));
}

/* --- the producer --- */

static void turn(int n)
{
	for (int i = 0; i < n; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

#define AWAIT(condition) \
	for (time_t until = time(NULL) + 20; !(condition); turn(1)) \
	cr_assert_lt(time(NULL), until, "waiting for " #condition)

static void send_bytes(const void *bytes, size_t len)
{
	for (const char *at = bytes; len;) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		turn(1);
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void send_text(const char *text)
{
	send_bytes(text, strlen(text));
}

/* A frame of less than 126 bytes, with a key of zeros. */
static void send_frame(unsigned char first, const char *text)
{
	const unsigned char head[] = {first, (unsigned char)(0x80 | strlen(text)), 0, 0, 0, 0};

	send_bytes(head, sizeof(head));
	send_text(text);
}

static void send_messages(size_t n)
{
	size_t before = pending;

	for (size_t i = 0; i < n; i++)
		send_frame(0x81, "{\"id\":1}");
	AWAIT(pending == before + n);
}

static void dial(void)
{
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	send_text("GET /events HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n");
}

static void shake_hands(void)
{
	dial();
	send_text("Sec-WebSocket-Protocol: wsonce.ack.v1\r\n\r\n");
	AWAIT(ingest_connections(ingest) == 1);
}

/* --- the states --- */

static void be_idle(void)
{
	shake_hands();
}

static void be_half_shaken(void)
{
	dial();
	turn(3);
}

static void be_unanswered(void)
{
	shake_hands();
	send_messages(5);
}

static void have_half_a_message(void)
{
	shake_hands();
	send_frame(0x01, "half");
	AWAIT(charged > 0);
}

static void have_half_a_frame(void)
{
	shake_hands();
	send_bytes("\x81\xfe\x10\x00\0\0\0\0half", 12);
	turn(3);
}

static void read_no_acks(void)
{
	shake_hands();
	send_messages(PENDING_MOST - 1);
	answer(PENDING_MOST - 1, false);
	turn(3);
	cr_assert_gt(charged, 256 << 10);
}

static void rest(void)
{
	shake_hands();
	send_messages(20);
	answer(16, true);
	turn(3);
}

static void be_dismissed(void)
{
	shake_hands();
	for (int spell = 0; spell < 5; spell++) {
		send_messages(20);
		answer(18, true);
		clock_pass(600);
		turn(3);
	}
	cr_assert_gt(pending, 0);
}

static void be_told_to_go(void)
{
	be_dismissed();
	answer(pending, true);
	turn(3);
}

static void be_held(enum pressure pressure, int times)
{
	shake_hands();
	for (int i = 0; i < times; i++) {
		ws_set_pressure(ws, pressure);
		turn(1);
		ws_set_pressure(ws, PRESSURE_NONE);
		turn(1);
	}
	ws_set_pressure(ws, pressure);
	send_frame(0x81, "{}");
	turn(3);
	cr_assert_eq(pending, 0);
}

static void be_held_with_producers(void)
{
	be_held(PRESSURE_PRODUCERS, 0);
}

static void be_held_with_all(void)
{
	be_held(PRESSURE_ALL, 0);
}

static void be_held_as_a_quiet_one(void)
{
	be_held(PRESSURE_ALL, 20);
}

static void be_drained(void)
{
	be_unanswered();
	ingest_drain(ingest);
	is_ending = true;
	send_frame(0x81, "{}");
	turn(3);
	cr_assert_eq(pending, 5);
}

static void be_stopped(void)
{
	be_unanswered();
	ws_stop(ws);
	is_ending = true;
	send_frame(0x81, "{}");
	turn(3);
	cr_assert_eq(pending, 5);
}

static void owe(void)
{
	shake_hands();
	send_messages(3);
	send_frame(0x81, "{\"id\":4}");
	turn(3);
	cr_assert_eq(pending, 3);
}

/* --- ways to leave --- */

static void go_by_reset(void)
{
	static const struct linger at_once = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

static void go_with_a_word(void)
{
	send(fd, "\x88\x82\0\0\0\0\x03\xe8", 8, MSG_NOSIGNAL);
}

static void go_silently(void)
{
}

/* A token is required now, and the producer has none. */
static void go_by_force(void)
{
	struct config fresh = config;
	char error[400];

	fresh.ingest_token = "token";
	cr_assert_eq(ingest_read_again(ingest, &fresh, error, sizeof(error)), 0, "%s", error);
	ingest_take(ingest);
}

/* When its messages settle: before the loop notices that it is gone, while it does, or later. */
enum when { BEFORE, AFTER, WHENS };

static void leave(void (*be)(void), void (*go)(void), enum when when)
{
	be();
	go();
	close(fd);
	if (when == BEFORE)
		answer(pending, false);
	turn(3);
	clock_pass(600);
	turn(3);
	answer(pending, false);
	ws_set_pressure(ws, PRESSURE_NONE);
	clock_pass(11000);
	AWAIT(is_ending || ingest_connections(ingest) == 0);
	answer(pending, false);
}

/* --- the server --- */

static void find_port(void)
{
	socklen_t len = sizeof(address);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	getsockname(s, (struct sockaddr *)&address, &len);
	snprintf(listen_at, sizeof(listen_at), "127.0.0.1:%d", ntohs(address.sin_port));
	close(s);
}

static void open_server(void)
{
	const struct ws_budget budget = {NULL, charge, is_never_full, is_never_full};
	char error[400];

	find_port();
	uv_loop_init(&loop);
	ws = ws_open(&loop, &config, &budget);
	ingest = ingest_open(ws, &config, error, sizeof(error));
	cr_assert(ingest, "%s", error);
}

static void close_server(void)
{
	ingest_close(ingest);
	AWAIT(ingest_is_closed(ingest) && charged == 0);
	ws_close(ws);
	uv_run(&loop, UV_RUN_DEFAULT);
	ingest_free(ingest);
	ws_free(ws);
	cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(leaving, .timeout = 120);

static void leave_by_all_ways(void (*be)(void))
{
	static void (*const ways[])(void) = {go_by_reset, go_with_a_word, go_silently, go_by_force};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		for (int when = 0; when < WHENS; when++) {
			open_server();
			leave(be, ways[i], (enum when)when);
			close_server();
		}
}

#define LEAVING(state) \
	Test(leaving, state) \
	{ \
		leave_by_all_ways(state); \
	}

LEAVING(be_idle)
LEAVING(be_half_shaken)
LEAVING(be_unanswered)
LEAVING(have_half_a_message)
LEAVING(have_half_a_frame)
LEAVING(read_no_acks)
LEAVING(rest)
LEAVING(be_dismissed)
LEAVING(be_told_to_go)
LEAVING(be_held_with_producers)
LEAVING(be_held_with_all)
LEAVING(be_held_as_a_quiet_one)
LEAVING(be_drained)
LEAVING(be_stopped)

Test(leaving, owe)
{
	struct profile_fault fault;

	config.ingest_profile = profile_parse(owing, strlen(owing), "test", NULL, &fault);
	cr_assert(config.ingest_profile, "%s", fault.text);
	leave_by_all_ways(owe);
	profile_free(config.ingest_profile);
}
