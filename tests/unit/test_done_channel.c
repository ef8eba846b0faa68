/* The done channel: what is published, which messages are accepted, and how long an entry is kept. */
#include "clock.h"
#include "loop.h"
#include "played_redis.h"
#include "claim/done_channel.h"
#include "unit.h"

#include <sodium.h>
#include <uv.h>

#define CAME_MS INT64_C(1700000000000)
#define HEADER  24
#define ENTRY   18

static uv_loop_t loop;
static struct redis *redis;
static struct done_channel *channel;
static struct config config = {.redis = "redis://localhost", .claim_prefix = "dedup:"};
static struct done told[10];
static size_t told_count;
static bool are_wanted; /* returned by the callback: the entry was used */
static unsigned char message[10 * ENTRY + HEADER];
static size_t message_len;

static size_t on_done(void *arg, struct done *events, size_t n)
{
	for (size_t i = 0; i < n; i++)
		told[told_count++] = events[i];
	return are_wanted ? 0 : n;
}

static void on_state(void *owner, enum redis_state state)
{
	done_channel_set_redis(channel, state == REDIS_READY ? redis : NULL);
}

static void pass(int64_t ms)
{
	clock_pass(ms);
	uv_run(&loop, UV_RUN_NOWAIT);
}

static void set_up(void)
{
	const struct redis_settings settings = {.on_state = on_state};

	cr_assert_geq(sodium_init(), 0);
	played_redis_start();
	clock_stop();
	uv_loop_init(&loop);
	redis = redis_open(&loop, &settings);
	channel = done_channel_open(&loop, &config, on_done, NULL);
	played_redis_set_state(REDIS_READY);
	done_channel_set_place(channel, "database", 0xab);
	played_redis_subscribe(false);
}

static void tear_down(void)
{
	done_channel_close(channel, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(done_channel, .init = set_up, .fini = tear_down, .timeout = 60);

static struct done done_of(const char *id, int64_t came_ms)
{
	return (struct done){id_hash_of(done_channel_key(channel), id, strlen(id)), came_ms};
}

static void add(const char *id, int64_t came_ms)
{
	struct done done = done_of(id, came_ms);

	done_channel_add(channel, &done);
}

static bool has(const char *id)
{
	struct done done = done_of(id, 0);

	return done_channel_find(channel, &done.hash);
}

static void put(uint64_t n, int bytes)
{
	for (; bytes; bytes--, n >>= 8)
		message[message_len++] = (unsigned char)n;
}

static void begin(const char *magic, uint32_t epoch)
{
	memcpy(message, magic, 4);
	message_len = 4;
	put(epoch, 4);
	put(4711, 8); /* the publisher */
	put(CAME_MS, 8);
}

/* Computes the hash independently: SipHash-2-4-128 with BLAKE2b of the place as its key. */
static void put_id(const char *prefix, const char *secret, const char *database, uint32_t epoch, const char *id)
{
	unsigned char key[16];
	char place[60];
	int len = snprintf(place, sizeof(place), "%s/%08x", database, epoch);
	crypto_generichash_state state;

	crypto_generichash_init(&state, (const unsigned char *)place, (size_t)len, sizeof(key));
	crypto_generichash_update(&state, (const unsigned char *)prefix, strlen(prefix) + 1);
	if (secret)
		crypto_generichash_update(&state, (const unsigned char *)secret, strlen(secret));
	crypto_generichash_final(&state, key, sizeof(key));
	crypto_shorthash_siphashx24(message + message_len, (const unsigned char *)id, strlen(id), key);
	message_len += 16;
	put(250, 2);
}

static void say(void)
{
	played_redis_say((const char *)message, message_len);
}

Test(done_channel, what_another_has_committed_here_is_known_with_its_time)
{
	struct done a = done_of("a", 0);

	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	cr_assert_eq(told_count, 1);
	cr_assert(id_hash_is_equal(&told[0].hash, &a.hash));
	cr_assert_eq(told[0].came_ms, CAME_MS + 250);
	cr_assert(has("a"));
	cr_assert_not(has("b"));
}

/* What settled through the store says nothing about when its row was received. */
Test(done_channel, a_time_that_is_not_known_is_heard_as_such)
{
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	message_len -= 2;
	put(65535, 2);
	say();
	cr_assert_eq(told_count, 1);
	cr_assert_eq(told[0].came_ms, 0);
	cr_assert(has("a"));
}

Test(done_channel, what_has_settled_a_copy_is_not_kept)
{
	are_wanted = true;
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	cr_assert_eq(told_count, 1);
	cr_assert_not(has("a"));
}

/* R2: an entry is for one epoch, database and place; with a secret, nobody else can forge it. */
Test(done_channel, what_was_committed_elsewhere_says_nothing)
{
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xac, "a");
	put_id("dedup:", NULL, "databas", 0xab, "a");
	put_id("other:", NULL, "database", 0xab, "a");
	put_id("dedup:", "secret", "database", 0xab, "a");
	say();
	cr_assert_not(has("a"));
}

Test(done_channel, a_message_of_another_epoch_or_version_is_not_read)
{
	begin("wsd1", 0xac);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	begin("wsd2", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	cr_assert_eq(told_count, 0);
	cr_assert_not(has("a"));
}

Test(done_channel, what_was_known_of_another_epoch_is_forgotten)
{
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	done_channel_set_place(channel, "database", 0xac);
	cr_assert_not(has("a"));
	done_channel_set_place(channel, "database", 0xab);
	cr_assert_not(has("a"));
	done_channel_set_place(channel, "database", 0);
	cr_assert_null(done_channel_key(channel));
}

Test(done_channel, what_is_known_is_forgotten_after_four_seconds)
{
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	pass(2000);
	cr_assert(has("a"));
	pass(2001);
	cr_assert_not(has("a"));
}

Test(done_channel, garbage_is_no_entry)
{
	begin("wsd1", 0xab);
	put(0, 7);
	say();
	cr_assert_eq(told_count, 0);
	begin("wsd1", 0xab);
	put(0, 8), put(0, 8), put(0, 2);
	say();
	cr_assert_eq(told_count, 1, "zeros mark a free slot, and are not kept");
	played_redis_say("wsd1", 4);
	played_redis_say("", 0);
	cr_assert_eq(told_count, 1);
}

static void expect_messages(int n)
{
	for (; n; n--)
		cr_assert_eq(strncmp(played_redis_next(), "PUBLISH wsonce:done:dedup: wsd1", 31), 0);
	cr_assert_str_eq(played_redis_next(), "");
}

Test(done_channel, commits_of_a_batch_are_one_message)
{
	add("a", CAME_MS);
	add("b", CAME_MS + 65534);
	expect_messages(0);
	done_channel_publish(channel);
	expect_messages(1);
	done_channel_publish(channel);
	expect_messages(0);
}

Test(done_channel, a_time_that_is_too_far_from_the_first_one_needs_another_message)
{
	add("a", CAME_MS);
	add("b", CAME_MS + 65536);
	add("c", CAME_MS);
	done_channel_publish(channel);
	expect_messages(3);
}

Test(done_channel, a_message_has_at_most_64_kib)
{
	for (int i = 0; i < (65536 - HEADER) / ENTRY; i++)
		add("a", CAME_MS);
	expect_messages(0);
	add("a", CAME_MS);
	expect_messages(1);
}

Test(done_channel, a_time_that_is_not_known_needs_no_message_of_its_own)
{
	add("a", CAME_MS);
	add("b", 0);
	add("c", CAME_MS + 1);
	done_channel_publish(channel);
	expect_messages(1);
}

Test(done_channel, without_redis_or_a_place_nothing_is_published_and_what_is_known_stays)
{
	begin("wsd1", 0xab);
	put_id("dedup:", NULL, "database", 0xab, "a");
	say();
	played_redis_set_state(REDIS_DOWN);
	add("b", CAME_MS);
	done_channel_publish(channel);
	cr_assert(has("a"));
	played_redis_set_state(REDIS_READY);
	done_channel_set_place(channel, "database", 0);
	done_channel_add(channel, &told[0]);
	done_channel_publish(channel);
	expect_messages(0);
}

Test(done_channel, it_is_heard_when_redis_lets_it_subscribe)
{
	cr_assert(done_channel_is_heard(channel));
	played_redis_subscribe(true);
	cr_assert_not(done_channel_is_heard(channel));
}

/* Returns the CPU seconds for this many hashes. shift is the position of the number in the hash. */
static double hear_all(int shift)
{
	clock_t began = clock();

	for (uint64_t n = 1; n <= 20000; n++) {
		if (n % 10 == 1)
			begin("wsd1", 0xab);
		put(n << shift, 8);
		put(n, 8);
		put(250, 2);
		if (n % 10 == 0)
			say();
		told_count = 0;
	}
	return (double)(clock() - began) / CLOCKS_PER_SEC;
}

Test(done_channel, hashes_that_are_made_to_collide_cost_no_more)
{
	double usual = hear_all(0), colliding = hear_all(40);

	cr_assert_lt(colliding, 10 * usual + 0.1, "%.3f s, not %.3f s", colliding, usual);
}
