/* Whose turn it is to read a source, in readers.c: from what other listeners tell, or do not. */
#include "clock.h"
#include "played_redis.h"
#include "road/readers.h"
#include "unit.h"

#include <inttypes.h>
#include <uv.h>

#include "base/hash.h"

#define SOURCE  UINT64_C(12345)
#define BEAT_MS 1000
#define TURN_MS 10000
#define LOST_MS 5000

static uv_loop_t loop;
static struct readers *readers;
static struct reading reading;
static bool is_ours;
static int turns;

static struct reading on_ask(void *arg, size_t i)
{
	(void)arg;
	cr_assert_eq(i, 0);
	return reading;
}

static void on_turn(void *arg, size_t i, bool is_ours_now)
{
	(void)arg;
	cr_assert_eq(i, 0);
	cr_assert_neq(is_ours_now, is_ours, "told twice");
	is_ours = is_ours_now;
	turns++;
	reading = (struct reading){is_ours ? (uint64_t)turns : 0, 0};
}

static void on_closed(uv_handle_t *handle, void *n)
{
	(void)handle;
	++*(int *)n;
}

static void open_readers(int64_t k)
{
	static struct config config = {.claim_prefix = "p:", .instance_id = "i", .redis = "redis://played"};
	static const uint64_t ids[] = {SOURCE};

	config.readers = k;
	readers = readers_open(&loop, &config, ids, 1, &(struct readers_owner){.on_ask = on_ask, .on_turn = on_turn});
}

static void set_up(void)
{
	clock_stop();
	played_redis_start();
	uv_loop_init(&loop);
}

static void tear_down(void)
{
	int left = 0;

	readers_close(readers);
	clock_pass(BEAT_MS);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_walk(&loop, on_closed, &left);
	cr_assert_eq(left, 0, "a handle is left");
	uv_loop_close(&loop);
}

TestSuite(readers, .init = set_up, .fini = tear_down);

static void pass(int64_t ms)
{
	for (; ms > 0; ms -= 500) {
		clock_pass(500);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
}

static uint64_t score(uint64_t seed)
{
	return hash_mix(seed ^ SOURCE * UINT64_C(0x9e3779b97f4a7c15));
}

/* The nth listener that comes before us for the source, or after us. */
static uint64_t seed_of(bool is_before, int nth)
{
	uint64_t own = score(hash_text("i", 1)), seed = 0;

	while (nth >= 0)
		nth -= (score(++seed) > own) == is_before;
	return seed;
}

/* Redis tells of n others, each with what its heartbeat says after its name; NULL ends them. */
static void tell(const char *const *others)
{
	static char texts[4][100];
	static struct redis_reply names[4], *elements[4];
	size_t n = 0;

	for (; others[n]; n++) {
		bool is_before = others[n][0] == '<';

		snprintf(texts[n], sizeof(texts[n]), "%016zx %016" PRIx64 "%s", n + 1, seed_of(is_before, (int)n),
			 others[n] + 1);
		names[n] = (struct redis_reply){.type = REPLY_STRING, .str = texts[n], .len = strlen(texts[n])};
		elements[n] = &names[n];
	}
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = n, .element = elements});
}

#define TELL(...) tell((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Heartbeats of so long, each answered so. */
#define TELL_FOR(ms, ...) \
	for (int64_t at_ = 0; at_ < (ms); at_ += BEAT_MS) { \
		pass(BEAT_MS); \
		TELL(__VA_ARGS__); \
	}

Test(readers, who_is_alone_reads)
{
	open_readers(1);
	played_redis_set_state(REDIS_READY);
	cr_assert_not(is_ours, "nobody was asked yet");
	cr_assert_not(readers_know(readers));
	TELL();
	cr_assert(readers_know(readers));
	cr_assert(is_ours);
}

Test(readers, who_comes_after_as_many_as_are_wanted_does_not_read)
{
	open_readers(2);
	played_redis_set_state(REDIS_READY);
	TELL("<", "<");
	cr_assert_not(is_ours);
	pass(BEAT_MS);
	TELL("<", ">", ">");
	cr_assert(is_ours, "one before us is gone, and those behind us do not count");
}

Test(readers, without_an_answer_everybody_reads)
{
	open_readers(1);
	pass(LOST_MS - BEAT_MS);
	cr_assert_not(is_ours);
	pass(2 * BEAT_MS);
	cr_assert(is_ours);
}

Test(readers, nobody_hangs_up_before_each_reader_has_shown_for_five_seconds_that_it_reads)
{
	open_readers(2);
	played_redis_set_state(REDIS_READY);
	TELL();
	TELL_FOR(2 * TURN_MS, "< 0:9r", "<");
	cr_assert(is_ours, "one has no connection");
	TELL_FOR(BEAT_MS, "< 0:9r", "< 0:4r");
	cr_assert(is_ours, "one has a connection that is too new");
	TELL_FOR(BEAT_MS, "< 0:9r", "< 1:9r");
	cr_assert(is_ours, "one reads another source");
	TELL_FOR(BEAT_MS, "< 0:9r", "< 0:5r");
	cr_assert_not(is_ours);
}

Test(readers, who_was_a_reader_in_the_last_ten_seconds_does_not_hang_up)
{
	open_readers(1);
	played_redis_set_state(REDIS_READY);
	TELL();
	TELL_FOR(TURN_MS - BEAT_MS, "< 0:9r");
	cr_assert(is_ours);
	TELL_FOR(BEAT_MS, ">");
	TELL_FOR(TURN_MS - BEAT_MS, "< 0:9r");
	cr_assert(is_ours, "it was one once more");
	TELL_FOR(BEAT_MS, "< 0:9r");
	cr_assert_not(is_ours);
}

Test(readers, a_connection_that_brings_nothing_counts_only_if_ours_brings_nothing)
{
	open_readers(1);
	played_redis_set_state(REDIS_READY);
	TELL();
	reading.last_message_ms = (int64_t)uv_now(&loop) + 2 * TURN_MS;
	TELL_FOR(2 * TURN_MS, "< 0:9");
	cr_assert(is_ours, "ours has brought something since");
	reading.last_message_ms = (int64_t)uv_now(&loop) - 60000;
	TELL_FOR(BEAT_MS, "< 0:9");
	cr_assert_not(is_ours);
}

Test(readers, nobody_hangs_up_on_an_answer_that_was_long_on_its_way)
{
	open_readers(1);
	played_redis_set_state(REDIS_READY);
	TELL();
	TELL_FOR(TURN_MS - BEAT_MS, "< 0:9r");
	pass(3 * BEAT_MS);
	TELL("< 0:9r");
	cr_assert(is_ours, "the reader may be dead by now");
	TELL_FOR(BEAT_MS, "< 0:9r");
	cr_assert_not(is_ours);
}

/* What the oldest heartbeat that was not looked at says of us; *old is what it replaces. */
static const char *next_member(const char **old)
{
	static char text[300];
	char *member, *end;

	snprintf(text, sizeof(text), "%s", played_redis_next());
	cr_assert(strncmp(text, "EVALSHA heartbeat 1 wsonce:readers:p:", 37) == 0, "%s", text);
	member = strchr(text + 37, ' ') + 1;
	end = strstr(member, " 3000 ");
	cr_assert(end, "%s", text);
	*end = '\0';
	*old = end + 6;
	return member;
}

Test(readers, a_heartbeat_says_what_is_read_and_takes_the_place_of_the_one_before)
{
	char before[100];
	const char *now, *old;

	open_readers(1);
	played_redis_set_state(REDIS_READY);
	now = next_member(&old);
	cr_assert_eq(strlen(now), 33, "%s", now);
	cr_assert_str_eq(now, old, "there is none before it");
	snprintf(before, sizeof(before), "%s", now);
	TELL();
	pass(3 * BEAT_MS);
	TELL();
	now = next_member(&old);
	cr_assert(strcmp(now + 33, " 0:0") == 0, "it has its connection since it was asked: %s", now);
	cr_assert_str_eq(old, before);
	reading.last_message_ms = (int64_t)uv_now(&loop) + 1;
	pass(BEAT_MS);
	now = next_member(&old);
	cr_assert_eq(now[strlen(now) - 1], 'r', "%s", now);
}
