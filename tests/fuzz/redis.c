/* A Redis that lies. The connection and the claims are the listener's own code; this program simulates the server
 * and the rest of the listener. Whatever the answers are: each query gets one answer, an event ends only by a mark that
 * is valid for it, no log line contains the password, and no memory is left.
 *
 * An input is a byte whose bits are enum flag; a byte that tells how many steps there are, and a byte for each (its
 * low half: enum step; the high half: the event, or how many); the rest is what the server sends, in pieces. In that,
 * 0x1a stands for the epoch, 0x1b for the password, 0x1c for our name in claims, 0x1d for the digest of the
 * first event, and 0x1e for its done mark with a MAC by the fleet's key. */
#include <hiredis/hiredis.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/counters.h"
#include "fuzz.h"
#include "claim/claim.h"
#include "claim/mark.h"
#include "claim/mac.h"
#include "fleet/presence.h"

#define EVENTS      8
#define STEPS_MOST  32
#define QUIET_TURNS 3 /* after this many turns of the loop without bytes, no more will come */
#define PASSWORD    "hunter2-and-more"
#define EPOCH       0x0123ab45
#define KEY         "a key that the fleet shares"
#define DATABASE    "00000000-1111-2222-3333-444444444444"
#define LINES_MOST  20 /* log lines above debug for one connection */

enum flag {
	LOGIN_IS_FUZZED = 1, /* the server's bytes begin with the answers to the login */
	EPOCH_IS_KNOWN = 2,
	DATABASE_IS_KNOWN = 4,
	IN_PIECES = 8,
	HAS_KEY = 16, /* the listener has --marks-key-file */
};

enum step {
	TAKE,
	INHERIT,
	SAY,
	RENEW,
	RELEASE,
	MARK_DONE,
	MARK_DEAD,
	HEAR,
	REST,
	LEAVE,
	SET_DATABASE,
	TURN,
};

static uv_loop_t loop;
static int server = -1; /* the socket's other end */
static char *const sources[] = {(char *)"ws://feed"};
static struct config config = {
	.redis = (char *)"unix://:" PASSWORD "@/redis.sock",
	.redis_timeout_ms = 2000,
	.instance_id = (char *)"fuzz",
	.claim_prefix = (char *)"dedup:",
	.claim_ttl_s = 30,
	.dedup_window_s = 300,
	.sources = {(char **)sources, 1},
};
static struct events events;

/* --- the rest of a listener --- */

enum question { NOT_ASKED, ASKED };

static struct asker {
	struct event *ev;
	enum question question;
	char digest[18]; /* as in a dead mark */
} askers[EVENTS];

static int ear = -1;     /* the server's end of the connection for the done channel, the first to be made; silent */
static const char *sent; /* all bytes that the server sends */
static size_t sent_len;
static char signed_mark[MARK_TEXT_SIZE + MAC_LEN + 1]; /* the first event's done mark */
static unsigned int lines;
static uint64_t renewals, releases; /* numbers requested */
static bool is_closed;

/* Replaces log.c. */
void log_write(enum log_level level, const char *event, const char *fields, ...)
{
	char text[4096];
	va_list ap;

	lines += level > LOG_DEBUG;
	va_start(ap, fields);
	vsnprintf(text, sizeof(text), fields, ap);
	va_end(ap);
	must(!strstr(text, PASSWORD), "the password is in the log: %s %s", event, text);
}

void log_setup(enum log_level level, enum log_format format, const char *instance)
{
}

/* Replaces hiredis's function: there is no file to connect to. */
redisContext *redisConnectUnixNonBlock(const char *path)
{
	redisContext *context;
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "no socket: %s",
	     strerror(errno));
	if (ear < 0) {
		ear = pair[1];
	} else {
		if (server >= 0)
			close(server);
		server = pair[1];
	}
	context = redisConnectFd(pair[0]);
	context->flags &= ~REDIS_BLOCK;
	return context;
}

/* Replaces libuv's function: our name is known here. */
int uv_random(uv_loop_t *l, uv_random_t *req, void *bytes, size_t len, unsigned int flags, uv_random_cb cb)
{
	memset(bytes, 7, len);
	return 0;
}

static struct asker *asker_of(const struct event *ev)
{
	for (size_t i = 0; i < EVENTS; i++)
		if (askers[i].ev == ev)
			return &askers[i];
	must(false, "an event from nowhere");
	return NULL;
}

/* True if the server sent a value that begins with head, has our epoch after its first point, and, for a dead mark,
 * this digest. */
static bool has_mark(const char *head, const char *digest)
{
	const char *at = sent, *end = sent + sent_len, *point, *slash;
	char epoch[12];

	snprintf(epoch, sizeof(epoch), ".%08x", EPOCH);
	for (; (at = memmem(at, (size_t)(end - at), head, strlen(head))); at++) {
		point = memchr(at, '.', (size_t)(end - at));
		if (!point || end - point < 9 || memcmp(point, epoch, 9) != 0)
			continue;
		slash = memchr(point, '/', (size_t)(end - point));
		if (!digest || (slash && end - slash >= 17 && memcmp(slash, digest, 17) == 0))
			return true;
	}
	return false;
}

static void check_result(const struct asker *a, enum claim_result result, unsigned int flags)
{
	must(result != CLAIM_DONE || ((flags & EPOCH_IS_KNOWN) && has_mark("done@", NULL)),
	     "an event is said to be done, and no mark says so");
	must(result != CLAIM_DEAD || ((flags & EPOCH_IS_KNOWN) && has_mark("dead@", a->digest)),
	     "an event is said to be dead, and no mark says so");
	if (flags & HAS_KEY) {
		must(result != CLAIM_DEAD, "an event is said to be dead by a mark without a MAC");
		must(result != CLAIM_DONE || (a == askers && memmem(sent, sent_len, signed_mark, strlen(signed_mark))),
		     "an event is said to be done by a mark without its MAC");
	}
	must(result != CLAIM_MINE || a->ev->is_claimed, "a claim that is ours and is not");
}

static unsigned int flags_now;

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	struct asker *a = asker_of(ev);

	must(a->question == ASKED, "an answer that nobody waits for");
	must(result != CLAIM_ABSENT, "a claim that nobody has, and not we");
	a->question = NOT_ASKED;
	check_result(a, result, flags_now);
}

static size_t on_done(void *arg, struct done *told, size_t n)
{
	return n;
}

static void on_owner_gone(void *arg, uint16_t owner)
{
	must(owner, "nobody is gone");
}

static void on_foreign(void *arg, const char *sentence)
{
	must(!strstr(sentence, PASSWORD), "the password is shown: %s", sentence);
	must(!strstr(sentence, "(null)"), "a name that is none: %s", sentence);
}

static void on_closed(void *arg)
{
	is_closed = true;
}

/* --- what is asked --- */

/* Inherits claims from owner 1, whether it exists or not. */
static void inherit(struct claim *c, size_t n)
{
	struct event *evs[EVENTS];
	size_t count = 0;

	for (size_t i = 0; i < EVENTS && count < n; i++)
		if (askers[i].question == NOT_ASKED) {
			askers[i].question = ASKED;
			evs[count++] = askers[i].ev;
		}
	if (count)
		claim_inherit(c, 1, evs, count);
}

static void take(struct claim *c, struct asker *a)
{
	if (a->question != NOT_ASKED)
		return;
	a->question = ASKED; /* before: it must not be answered from inside */
	int failed = claim_take(c, a->ev);
	must(a->question == ASKED, "an answer from inside the question");
	if (failed)
		a->question = NOT_ASKED;
}

static void change_all(struct claim *c, bool is_renewal)
{
	struct event *evs[EVENTS];

	for (size_t i = 0; i < EVENTS; i++)
		evs[i] = askers[i].ev;
	if (is_renewal)
		claim_renew(c, evs, EVENTS);
	else
		claim_release(c, evs, EVENTS);
	*(is_renewal ? &renewals : &releases) += EVENTS;
}

static void take_step(struct claim *c, uint8_t step)
{
	struct asker *a = &askers[(step >> 4) % EVENTS];

	switch ((enum step)(step & 15)) {
	case TAKE:
		take(c, a);
		return;
	case INHERIT:
		inherit(c, 1U + (step >> 4) % EVENTS);
		return;
	case SAY:
		presence_say(claim_presence(c), step >> 4 ? "postgres is away" : "");
		return;
	case RENEW:
	case RELEASE:
		change_all(c, (step & 15) == RENEW);
		return;
	case MARK_DONE:
	case MARK_DEAD:
		releases++; /* if Redis refuses marks */
		claim_mark(c, a->ev, (step & 15) == MARK_DONE ? CLAIM_MARK_DONE : CLAIM_MARK_DEAD);
		return;
	case HEAR:
		claim_has_other_leader(c, event_origin(a->ev));
		return;
	case REST:
		presence_set_state(claim_presence(c), step >> 4 ? PEER_PASSIVE : PEER_WORKING);
		return;
	case LEAVE:
		presence_set_state(claim_presence(c), PEER_DRAINING);
		return;
	case SET_DATABASE:
		claim_set_database(c, step >> 4 ? DATABASE : "");
		return;
	case TURN:
		uv_run(&loop, UV_RUN_NOWAIT);
		return;
	}
}

/* --- what the server does --- */

static const char login[] = "+OK\r\n$20\r\nredis_version:7.0.15\r\n:7\r\n$28\r\nmaxmemory:0\r\nmaxmemory_polic\r\n"
			    "$40\r\n0123456789012345678901234567890123456789\r\n";

/* Reads the listener's commands, so that it can write, and turns the loop. Returns whether anything came. */
static bool turn(void)
{
	char bytes[65536];
	bool is_any = false;

	uv_run(&loop, UV_RUN_NOWAIT);
	while (recv(server, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		is_any = true;
	return is_any;
}

static void await_quiet(void)
{
	for (int quiet = 0; quiet < QUIET_TURNS; quiet++)
		if (turn())
			quiet = 0;
}

static void serve(const char *bytes, size_t len, unsigned int flags)
{
	while (len) {
		size_t piece = flags & IN_PIECES ? 1 + len / 3 : len;
		ssize_t n = send(server, bytes, piece, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return;
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
		turn();
	}
}

/* Returns the server's bytes with the placeholders replaced, on the heap. */
static char *reveal(const uint8_t *bytes, size_t len, size_t *out_len)
{
	char epoch[12], owner[60], *out = malloc(len * sizeof(signed_mark) + 1), *at = out;

	snprintf(epoch, sizeof(epoch), ".%08x", EPOCH);
	snprintf(owner, sizeof(owner), "%s.%016llx@", config.instance_id, 0x0707070707070707ULL);
	for (size_t i = 0; i < len; i++)
		switch (bytes[i]) {
		case 0x1a:
			at = stpcpy(at, epoch);
			break;
		case 0x1b:
			at = stpcpy(at, PASSWORD);
			break;
		case 0x1c:
			at = stpcpy(at, owner);
			break;
		case 0x1d:
			at = stpcpy(at, askers[0].digest);
			break;
		case 0x1e:
			at = stpcpy(at, signed_mark);
			break;
		default:
			*at++ = (char)bytes[i];
		}
	*out_len = (size_t)(at - out);
	return out;
}

/* --- the fuzzer --- */

static void reset_events(void)
{
	for (size_t i = 0; i < EVENTS; i++) {
		askers[i].question = NOT_ASKED;
		askers[i].ev->is_claimed = false;
		askers[i].ev->wait = i % 2 ? WAIT_LEADER : WAIT_NONE;
		askers[i].ev->claim_ms = askers[i].ev->lease_ms = 0;
	}
	memset(&counters, 0, sizeof(counters));
	lines = 0;
	renewals = releases = 0;
}

static void check_end(void)
{
	for (size_t i = 0; i < EVENTS; i++)
		must(askers[i].question == NOT_ASKED, "question %d has no answer", (int)askers[i].question);
	must(counters.claims_renewed + counters.claims_expired <= renewals,
	     "%" PRIu64 " renewed and %" PRIu64 " expired of %" PRIu64, counters.claims_renewed,
	     counters.claims_expired, renewals);
	must(counters.claims_released <= releases, "%" PRIu64 " released of %" PRIu64, counters.claims_released,
	     releases);
	must(lines <= LINES_MOST, "%u lines in the log", lines);
}

static void end(struct claim *c)
{
	is_closed = false;
	claim_close(c, on_closed, NULL);
	close(server);
	server = -1;
	uv_run(&loop, UV_RUN_DEFAULT);
	must(is_closed && !uv_loop_alive(&loop), "something is left");
}

static void sign_first(void)
{
	const struct mac_place place = {config.claim_prefix, strlen(config.claim_prefix), "e-0", 3};
	struct mac_key key;

	mac_key_make(&key, KEY);
	mac_append(&key, &place, signed_mark, mark_write(&(struct mark){.ms = 7, .epoch = EPOCH}, signed_mark));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	must(uv_loop_init(&loop) == 0, "no loop");
	events_init(&events);
	sign_first();
	for (size_t i = 0; i < EVENTS; i++) {
		char message[40];
		int n = snprintf(message, sizeof(message), "{\"event_id\":\"e-%zu\"}", i);
		struct envelope_view view = {.id = {message + 13, 3}, .type = {"", 0}, .payload = {"{}", 2}};

		askers[i].ev = event_new(&events, EV_CLAIMING, message, (size_t)n, &view, NULL, 0);
		snprintf(askers[i].digest, sizeof(askers[i].digest), "/%016" PRIx64, event_digest_head(askers[i].ev));
	}
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	static const struct claim_callbacks callbacks = {on_claimed, on_owner_gone, on_done, on_foreign, NULL};
	size_t steps = size < 2 ? 0 : data[1] % STEPS_MOST;
	char *bytes;

	if (size < 2 + steps)
		return;
	flags_now = data[0];
	config.marks_key = flags_now & HAS_KEY ? (char *)KEY : NULL;
	reset_events();
	sent = bytes = reveal(data + 2 + steps, size - 2 - steps, &sent_len);
	if (ear >= 0)
		close(ear);
	ear = -1;
	struct claim *c = claim_open(&loop, &config, &callbacks);
	claim_set_epoch(c, data[0] & EPOCH_IS_KNOWN ? EPOCH : 0);
	claim_set_database(c, data[0] & DATABASE_IS_KNOWN ? DATABASE : "");
	while (server < 0)
		uv_run(&loop, UV_RUN_NOWAIT);
	if (!(data[0] & LOGIN_IS_FUZZED))
		serve(login, sizeof(login) - 1, 0);
	await_quiet();
	for (size_t i = 0; i < steps; i++)
		take_step(c, data[2 + i]);
	serve(bytes, sent_len, data[0]);
	await_quiet();
	end(c);
	check_end();
	free(bytes);
}
