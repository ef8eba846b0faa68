/* The log of commits in done_log.c: when it is kept, what is written and read, and what is believed of it. */
#include "clock.h"
#include "played_redis.h"
#include "road/done_log.h"
#include "loop.h"
#include "unit.h"

#include <sodium.h>
#include <uv.h>

#define LARGE  12
#define SECOND "1700000000"

static uv_loop_t loop;
static struct redis *redis;
static struct done_log *done_log;
static char written[4000]; /* by another listener */
static size_t written_len;

static void on_state(void *owner, enum redis_state state)
{
	(void)owner;
	done_log_set_redis(done_log, state == REDIS_READY ? redis : NULL);
}

static void say_time(const char *second, const char *us)
{
	struct redis_reply parts[2] = {{.type = REPLY_STRING, .str = (char *)second, .len = strlen(second)},
				       {.type = REPLY_STRING, .str = (char *)us, .len = strlen(us)}};
	struct redis_reply *elements[2] = {&parts[0], &parts[1]};

	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = 2, .element = elements});
}

static void say_bytes(const char *bytes, size_t len)
{
	played_redis_answer(&(struct redis_reply){.type = REPLY_STRING, .str = (char *)bytes, .len = len});
}

static void expect_sent(const char *expected)
{
	cr_assert_str_eq(played_redis_next(), expected);
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
	played_redis_show_beats("");
	clock_stop();
	uv_loop_init(&loop);
	redis = redis_open(&loop, &settings);
	done_log = done_log_open(&loop, "dedup:", NULL);
	played_redis_set_state(REDIS_READY);
	done_log_set_place(done_log, "database", 0xab);
	done_log_set_fleet(done_log, LARGE);
	expect_sent("TIME");
	say_time(SECOND, "300000");
}

static void tear_down(void)
{
	done_log_close(done_log, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(done_log, .init = set_up, .fini = tear_down, .timeout = 60);

static bool has(const char *id)
{
	return done_log_has(done_log, id, strlen(id));
}

static void add(const char *id)
{
	done_log_add(done_log, id, strlen(id));
}

/* What a listener of this place would have appended for the id. */
static void hear(const char *prefix, const char *secret, const char *database, uint32_t epoch, const char *id)
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
	crypto_shorthash_siphashx24((unsigned char *)written, (const unsigned char *)id, strlen(id), key);
	written_len = 16;
}

/* The next part of the log is what was heard. */
static void read_on(void)
{
	cr_assert(done_log_expect(done_log));
	pass(50);
	say_bytes(written, written_len);
}

Test(done_log, what_another_has_committed_here_is_known)
{
	hear("dedup:", NULL, "database", 0xab, "a");
	cr_assert_not(has("a"));
	read_on();
	expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 0 262143");
	cr_assert(has("a"));
	cr_assert_not(has("b"));
	pass(50);
	expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 16 262159");
}

/* R2: knowledge has an epoch, a database, and a place; and with a secret nobody else makes it up. */
Test(done_log, what_was_committed_elsewhere_says_nothing)
{
	hear("dedup:", NULL, "database", 0xac, "a");
	read_on();
	hear("dedup:", NULL, "databas", 0xab, "a");
	read_on();
	hear("other:", NULL, "database", 0xab, "a");
	read_on();
	hear("dedup:", "secret", "database", 0xab, "a");
	read_on();
	cr_assert_not(has("a"));
}

Test(done_log, what_was_known_of_another_epoch_is_forgotten)
{
	hear("dedup:", NULL, "database", 0xab, "a");
	read_on();
	done_log_set_place(done_log, "database", 0xac);
	cr_assert_not(has("a"));
	done_log_set_place(done_log, "database", 0xab);
	cr_assert_not(has("a"));
	done_log_set_place(done_log, "database", 0);
	cr_assert_not(done_log_expect(done_log));
}

Test(done_log, commits_of_a_turn_are_appended_at_once_and_expire)
{
	add("a");
	add("b");
	pass(0);
	cr_assert_eq(strncmp(played_redis_next(), "APPEND wsonce:{done}:dedup:" SECOND " ", 38), 0);
	expect_sent("EXPIRE wsonce:{done}:dedup:" SECOND " 60");
	add("c");
	pass(0);
	cr_assert_eq(strncmp(played_redis_next(), "APPEND", 6), 0);
	pass(0);
	expect_sent("");
	pass(700);
	add("d");
	pass(0);
	cr_assert_eq(strncmp(played_redis_next(), "APPEND wsonce:{done}:dedup:1700000001 ", 38), 0);
}

Test(done_log, a_small_fleet_keeps_none)
{
	done_log_set_fleet(done_log, LARGE - 1);
	add("a");
	cr_assert_not(done_log_expect(done_log));
	pass(500);
	expect_sent("");
}

Test(done_log, without_redis_nothing_is_written_and_what_is_known_stays)
{
	hear("dedup:", NULL, "database", 0xab, "a");
	read_on();
	played_redis_set_state(REDIS_DOWN);
	add("b");
	cr_assert_not(done_log_expect(done_log));
	cr_assert(has("a"));
}

Test(done_log, it_is_read_while_something_is_expected)
{
	cr_assert(done_log_expect(done_log));
	for (int i = 0; i < 10; i++) {
		pass(50);
		expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 0 262143");
		say_bytes("", 0);
	}
	pass(50);
	expect_sent("");
	pass(500);
	expect_sent("");
}

Test(done_log, a_large_fleet_reads_it_less_often)
{
	done_log_set_fleet(done_log, 70);
	cr_assert(done_log_expect(done_log));
	pass(100);
	expect_sent("");
	pass(40);
	expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 0 262143");
}

Test(done_log, the_last_second_is_read_for_a_while_as_well)
{
	for (int i = 0; i < 14; i++) {
		done_log_expect(done_log);
		pass(50);
		if (i == 13)
			break;
		played_redis_next();
		say_bytes("", 0);
	}
	expect_sent("GETRANGE wsonce:{done}:dedup:1700000001 0 262143");
	expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 0 262143");
}

Test(done_log, garbage_in_it_is_no_entry)
{
	memset(written, 0, sizeof(written));
	written_len = 16;
	read_on();
	written_len = 7;
	read_on();
	cr_assert_not(has("a"));
	played_redis_next();
	played_redis_next();
	pass(50);
	expect_sent("GETRANGE wsonce:{done}:dedup:" SECOND " 16 262159");
}
