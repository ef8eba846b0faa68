/* road.c sends events through the listener's pipeline and simulates Redis and Postgres, so that run can count the
 * instructions; it counts allocations itself. Everything between the bytes of a message and the calls of
 * redis/connection.h and store.h is the listener's code. There are no sockets, and road.c sets the time, so that two
 * runs are the same to the instruction.
 *
 *   road winner N    every claim is won, every row is stored
 *   road loser N     every claim is another's, and done when it is asked for again
 *   road profile N   as winner; a profile of five rules reads the messages, and the last rule matches
 *   road exploded N  the same with frames of 50 messages each
 *   road about       what it was built with, as JSON */
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../loadtest/message.h"
#include "feed/session.h"
#include "event/hold.h"
#include "event/line_minutes.h"
#include "pipeline/pipeline.h"
#include "redis/connection.h"
#include "redis/reply.h"
#include "base/counters.h"

#define URL    "ws://feed.example/"
#define SOURCE "feed"

enum {
	EVENTS_MAX = 1000000,
	PER_TURN = 500,      /* messages that one turn of the loop reads */
	US_PER_MESSAGE = 10, /* 100,000 messages/s */
	TURNS_MAX = 1000,    /* after the last message, until all has settled */
	CALLS_MAX = 1 << 16, /* commands without an answer */
	WALL_S = 1700000000, /* 2023; the monotonic clock's zero */
};

struct path {
	const char *name;
	struct redis_reply *claim; /* what Redis says to a claim */
	size_t outcome;            /* offset of the counter that each message has to end in */
	size_t per_frame;          /* messages per frame, read by a profile; 0: without a profile */
};

/* clang-format off */
#define TEXT_REPLY(kind, text) {.type = (kind), .str = (text), .len = sizeof(text) - 1}
/* clang-format on */

static struct redis_reply nothing = {.type = REPLY_NIL};
static struct redis_reply other = TEXT_REPLY(REPLY_STRING, "listener-2.0123456789abcdef@1700000000000");
static struct redis_reply done = TEXT_REPLY(REPLY_STRING, "done@1700000000000.00000001");
static struct redis_reply okay = TEXT_REPLY(REPLY_STATUS, "OK");

static const struct path paths[] = {
	{"winner", &nothing, offsetof(struct counters, persisted), 0},
	{"loser", &other, offsetof(struct counters, duplicates), 0},
	{"profile", &nothing, offsetof(struct counters, persisted), 1},
	{"exploded", &nothing, offsetof(struct counters, persisted), 50},
};

static const struct path *path;

static const uint64_t *outcome_counter(void)
{
	return (const uint64_t *)(const void *)((const char *)&counters + path->outcome);
}

static void fail(const char *why)
{
	fprintf(stderr, "road: %s\n", why);
	exit(1);
}

/* --- the clock --- */

static int64_t now_us = 1000000;

/* In place of the C library's, for the listener and for libuv. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;

	now->tv_sec = now_us / 1000000 + (is_wall ? WALL_S : 0);
	now->tv_nsec = now_us % 1000000 * 1000;
	return 0;
}

/* --- memory --- */

static size_t allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

/* In place of the C library's, for libraries too. */
void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	allocations++;
	return __libc_realloc(block, size);
}

/* --- redis/connection.h --- */

struct call {
	redis_cb *cb;
	void *arg;
	struct redis_reply *reply;
};

struct redis {
	void *owner;
	struct call calls[CALLS_MAX]; /* a ring */
	size_t sent;
	size_t answered;
	bool is_claimed[EVENTS_MAX + 1]; /* loser: by the other listener, as we know by now */
};

static struct redis the_redis;

struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings)
{
	the_redis.owner = settings->owner;
	return &the_redis;
}

bool redis_is_cluster(const struct redis *r)
{
	(void)r;
	return false;
}

enum redis_state redis_state(const struct redis *r)
{
	return REDIS_READY;
}

/* Is word, with its \r, one of the command's words? Without the C library, whose instructions count. */
static bool has_word(const char *bytes, size_t len, const char *word)
{
	for (size_t at = 0; at + 4 <= len; at++) {
		size_t i = 0;

		if (bytes[at] != '\n')
			continue;
		while (word[i] && at + 1 + i < len && bytes[at + 1 + i] == word[i])
			i++;
		if (!word[i])
			return true;
	}
	return false;
}

/* The number of the event whose id ends the key of SET: its fifth line. */
static size_t number_of(const char *bytes)
{
	size_t n = 0;

	for (int lines = 0; lines < 4; bytes++)
		lines += *bytes == '\n';
	for (; *bytes != '\r'; bytes++)
		n = *bytes < '0' || *bytes > '9' ? 0 : n * 10 + (size_t)(*bytes - '0');
	return n;
}

/* The loser's first claim finds that of the other listener, which has stored the event when it is claimed again. */
static struct redis_reply *answer_claim(struct redis *r, const char *bytes)
{
	bool *is_claimed = &r->is_claimed[number_of(bytes)];

	if (path->claim != &other)
		return path->claim;
	*is_claimed = !*is_claimed;
	return *is_claimed ? &other : &done;
}

int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	struct call *call = &r->calls[r->sent++ % CALLS_MAX];

	*call = (struct call){cb, arg, &okay};
	if (r->sent - r->answered > CALLS_MAX)
		fail("more commands wait for an answer than there is room for");
	if (has_word(bytes, len, "NX\r"))
		call->reply = answer_claim(r, bytes);
	return 0;
}

const char *redis_trouble(const struct redis *r)
{
	return "";
}

const char *redis_client(const struct redis *r)
{
	return "01234567.1";
}

void redis_mask(const struct redis *r, char *text)
{
}

uint64_t redis_unanswered(const struct redis *r)
{
	return r->sent - r->answered;
}

void redis_close(struct redis *r, void (*on_closed)(void *arg), void *arg)
{
}

/* Answers what was sent before; returns whether there was anything. */
static bool answer_commands(struct redis *r)
{
	size_t end = r->sent;
	bool is_any = end > r->answered;

	while (r->answered < end) {
		struct call call = r->calls[r->answered++ % CALLS_MAX];

		if (call.cb)
			call.cb(r->owner, call.arg, call.reply);
	}
	return is_any;
}

/* --- store.h --- */

struct store {
	struct store_callbacks on;
	const struct batch *batch; /* NULL: idle */
	bool is_noting;
};

static struct store the_store;

struct store *store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks)
{
	the_store.on = *callbacks;
	return &the_store;
}

struct store_view store_view(const struct store *s)
{
	return (struct store_view){.is_idle = !s->batch && !s->is_noting,
				   .is_ready = true,
				   .why = "",
				   .trouble = "",
				   .hazards = "",
				   .holder = ""};
}

bool store_is_sure(const struct store *s)
{
	return true;
}

int store_ask_epoch(struct store *s)
{
	fail("the epoch is asked for");
	return -1;
}

void store_insert(struct store *s, const struct batch *b)
{
	s->batch = b;
}

void store_give_up(struct store *s)
{
	fail("there is one connection, and it is never lost");
}

void store_dead_letter(struct store *s, const struct batch *b)
{
	fail("an event became a dead letter");
}

int store_checkin(struct store *s, const char *text)
{
	s->is_noting = true;
	return 0;
}

int store_put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch)
{
	return -1;
}

int store_read_cursors(struct store *s, const char *const *sources, size_t n)
{
	return -1;
}

void store_close(struct store *s, void (*on_closed)(void *arg), void *arg)
{
}

/* As answer_commands(). */
static bool answer_batch(struct store *s)
{
	const struct batch *b = s->batch;

	if (s->is_noting) {
		s->is_noting = false;
		s->on.on_checked_in(s->on.arg, true, NULL);
		return true;
	}
	if (!b)
		return false;
	for (size_t i = 0; i < b->count; i++)
		s->on.on_stored(s->on.arg, b->events[i], STORE_INSERTED, NULL);
	s->batch = NULL;
	return true;
}

/* --- the road --- */

static uv_loop_t loop;
static struct pipeline *pipeline;

struct message {
	char *text;
	size_t len;
};

static struct message *make_messages(size_t n)
{
	const struct message_form form = {"r19a8c5b2f40-3039", 100, MESSAGE_EVENT};
	struct message *messages = calloc(n, sizeof(*messages));
	char *text = malloc(n * message_most(&form));

	if (!messages || !text)
		fail("out of memory");
	for (size_t i = 0; i < n; i++) {
		messages[i] = (struct message){text, message_event(&form, i + 1, text)};
		text += messages[i].len;
	}
	return messages;
}

/* What was asked for is answered; returns whether there was anything. The listener's answer to that is
 * in the next turn, so there is always something in flight, as there is at full rate. */
static bool turn(void)
{
	bool is_any = answer_commands(&the_redis);

	is_any |= answer_batch(&the_store);
	uv_run(&loop, UV_RUN_NOWAIT);
	return is_any;
}

/* --- the profile --- */

#define RULES(last) \
	"{\"url\": \"wss://h/\", \"rules\": [" \
	"{\"when\": {\"/channel\": \"status\"}}, {\"when\": {\"/event_type\": [\"heartbeat\", \"subscriptions\"]}}," \
	"{\"when\": {\"/method\": \"pong\"}}, {\"when\": {\"/event_type\": \"error\"}, \"action\": \"fatal\"}," \
	"{\"action\": \"event\", \"id\": [[\"/event_id\"]], \"type\": \"/event_type\", \"payload\": " \
	"\"/payload\", " last "}]}"

static struct session *session;

static void on_event(void *ctx, const struct session_event *event)
{
	const struct feed_event taken = {.id = event->id,
					 .type = event->type,
					 .payload = event->payload,
					 .time = event->time,
					 .unit = event->time_unit,
					 .source = SOURCE};

	pipeline_receive_event(pipeline, &taken, NULL);
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	fail(why);
}

static const struct session_handler handler = {.on_event = on_event, .on_rule = on_rule, .on_reject = on_reject};

static void open_session(void)
{
	const char *text = path->per_frame > 1 ? RULES("\"when\": {\"/channel\": \"orders\"}, \"explode\": \"/data/*\"")
					       : RULES("\"when\": {\"/event_type\": \"" MESSAGE_TYPE "\"}");
	struct profile_fault fault;
	struct profile *p = profile_parse(text, strlen(text), "road.c", NULL, &fault);

	if (!p)
		fail(fault.text);
	session = session_new(p, false);
}

/* Each frame holds per_frame of the messages. */
static struct message *make_frames(const struct message *messages, size_t n)
{
	size_t per_frame = path->per_frame;
	struct message *frames = calloc(n / per_frame, sizeof(*frames));

	for (size_t i = 0; i < n; i++) {
		struct message *f = &frames[i / per_frame];

		if (i % per_frame == 0)
			f->text = malloc(per_frame * (messages[i].len + 40) + 60);
		if (per_frame > 1)
			f->len += (size_t)sprintf(f->text + f->len, "%s",
						  i % per_frame ? "," : "{\"channel\":\"orders\",\"data\":[");
		memcpy(f->text + f->len, messages[i].text, messages[i].len);
		f->len += messages[i].len;
		if (per_frame > 1 && (i + 1) % per_frame == 0)
			f->len += (size_t)sprintf(f->text + f->len, "]}");
	}
	return frames;
}

static void receive(const struct message *m)
{
	if (path->per_frame)
		session_read(session, m->text, m->len, &handler, NULL);
	else
		pipeline_receive(pipeline, m->text, m->len, URL, NULL);
}

/* n messages, in frames or not. */
static void send_all(const struct message *messages, size_t n)
{
	size_t step = path->per_frame > 1 ? path->per_frame : 1;

	for (size_t i = 0; i < n; i += step) {
		receive(&messages[i / step]);
		now_us += (int64_t)step * US_PER_MESSAGE;
		if ((i + step) % PER_TURN == 0)
			turn();
	}
	for (int turns = 0; pipeline_events(pipeline)->messages || redis_unanswered(&the_redis); turns++) {
		if (turns == TURNS_MAX)
			fail("events do not settle");
		if (!turn())
			now_us += HOLD_FIRST_MS * 1000;
	}
}

/* What callgrind counts: it goes by the name, so this must be a function of its own. */
__attribute__((noinline)) void measured(const struct message *messages, size_t n);
void measured(const struct message *messages, size_t n)
{
	send_all(messages, n);
}

static void on_pressure(void *arg, enum pressure pressure)
{
	fail("reading is to stop");
}

static void on_drained(void *arg, size_t left)
{
}

static void on_posted(void *arg)
{
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	fail(sentence);
}

/* The listener's own defaults. */
static void open_pipeline(void)
{
	static char *argv[] = {"listen", "--source", "ws://localhost", "--instance-id", "listener-1"};
	static struct config config;
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, NULL};
	char error[300];

	if (config_read(&config, NULL, 5, argv, error, sizeof(error)))
		fail(error);
	uv_loop_init(&loop);
	pipeline = pipeline_open(&loop, &config, &on);
	the_store.on.on_epoch(the_store.on.arg, 1);
}

/* The first turns make the buffers and tables as large as they will be. */
static void walk(size_t n)
{
	const struct message *messages = make_messages(n);

	if (path->per_frame) {
		messages = make_frames(messages, n);
		open_session();
	}

	open_pipeline();
	line_minutes_connect(&line_minutes, path->per_frame ? SOURCE : URL, 0, true, WALL_S * INT64_C(1000), 0);
	send_all(messages, n < 2 * PER_TURN ? n : 2 * PER_TURN);
	uint64_t before = *outcome_counter();
	allocations = 0;
	measured(messages, n);
	printf("{\"allocations\": %zu}\n", allocations);
	if (*outcome_counter() - before != n)
		fail("events did not end as this path has it");
}

static void about(void)
{
#ifdef __clang__
	const char *compiler = __VERSION__;
#else
	const char *compiler = "gcc " __VERSION__;
#endif

	printf("{\"compiler\": \"%s\", \"flags\": \"%s\", \"libuv\": \"%s\", \"glibc\": \"%s\"}\n", compiler,
	       ROAD_FLAGS, uv_version_string(), gnu_get_libc_version());
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (argc == 2 && strcmp(argv[1], "about") == 0) {
		about();
		return 0;
	}
	for (size_t i = 0; argc == 3 && i < sizeof(paths) / sizeof(*paths); i++)
		if (strcmp(argv[1], paths[i].name) == 0)
			path = &paths[i];
	if (!path || n < 1 || n > EVENTS_MAX)
		fail("usage: road winner|loser|profile|exploded N, with N from 1 to 1000000; road about");
	walk(n);
	return 0;
}
