/* Owners of claims in owners.c: how we tell that we live, when others are asked for, and which of them are dead. */
#include "clock.h"
#include "played_redis.h"
#include "road/owners.h"
#include "loop.h"
#include "unit.h"

#include <uv.h>

#define OURS "89abcdef.7"

static uv_loop_t loop;
static struct redis *redis;
static struct owners *owners;
static char gone[100];

static void on_gone(void *arg, uint16_t owner)
{
	(void)arg;
	snprintf(gone + strlen(gone), sizeof(gone) - strlen(gone), "%s ", owners_name(owners, owner));
}

static void on_state(void *owner, enum redis_state state)
{
	(void)owner;
	owners_set_redis(owners, state == REDIS_READY ? redis : NULL);
}

static void say(enum reply_type type, const char *text)
{
	played_redis_answer(&(struct redis_reply){.type = type, .str = (char *)text, .len = strlen(text)});
}

/* A word for each element; "-" is nil. */
static void say_beats(int n, const char *const *texts)
{
	struct redis_reply replies[20], *elements[20];

	for (int i = 0; i < n; i++) {
		replies[i] = (struct redis_reply){.type = strcmp(texts[i], "-") == 0 ? REPLY_NIL : REPLY_STRING,
						  .str = (char *)texts[i],
						  .len = strlen(texts[i])};
		elements[i] = &replies[i];
	}
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = (size_t)n, .element = elements});
}

#define SAY_BEATS(...) \
	say_beats(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void expect_sent(const char *expected)
{
	cr_assert_str_eq(played_redis_next(), expected);
}

static void expect_gone(const char *expected)
{
	cr_assert_str_eq(gone, expected);
	*gone = '\0';
}

static void pass(int64_t ms)
{
	clock_pass(ms);
	uv_run(&loop, UV_RUN_NOWAIT);
}

/* Each second a beat is sent, and confirmed. */
static void beat_for(int seconds)
{
	for (int i = 0; i < seconds; i++) {
		pass(1000);
		expect_sent("SET wsonce:{alive}:me@ " OURS " PX 3000");
		say(REPLY_STATUS, "OK");
	}
}

static uint16_t find(const char *value)
{
	return owners_find(owners, value, strlen(value));
}

/* An event waits for this owner, which is then asked for. */
static void wait_for(const char *value)
{
	owners_wait(owners, find(value));
	pass(1);
}

static void set_up(void)
{
	const struct redis_settings settings = {.on_state = on_state};

	played_redis_start();
	played_redis_show_beats(OURS);
	clock_stop();
	uv_loop_init(&loop);
	redis = redis_open(&loop, &settings);
	owners = owners_open(&loop, "me@", on_gone, NULL);
	played_redis_set_state(REDIS_READY);
	expect_sent("SET wsonce:{alive}:me@ " OURS " PX 3000");
	say(REPLY_STATUS, "OK");
}

static void tear_down(void)
{
	owners_close(owners, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(owners, .init = set_up, .fini = tear_down, .timeout = 60);

Test(owners, each_has_a_number_by_what_its_claims_begin_with)
{
	uint16_t a = find("a.1@5"), b = find("b.1@5");

	cr_assert(a && b && a != b);
	cr_assert_eq(find("a.1@6"), a);
	cr_assert_eq(find("b.1@"), b);
	cr_assert_neq(find("a.2@5"), a);
	cr_assert_str_eq(owners_name(owners, a), "a.1@");
	cr_assert_eq(find("no owner"), 0);
	cr_assert_str_eq(owners_name(owners, 0), "");
}

Test(owners, more_than_there_is_room_for_take_the_place_of_the_oldest)
{
	char value[20];
	uint16_t first = find("first@1");

	for (int i = 0; i < 255; i++) {
		pass(1);
		snprintf(value, sizeof(value), "%d@1", i);
		cr_assert_neq(find(value), first);
	}
	pass(1);
	cr_assert_eq(find("last@1"), first);
	cr_assert_str_eq(owners_name(owners, first), "last@");
}

Test(owners, beat_comes_each_second_and_who_is_not_waited_for_is_not_asked_for)
{
	find("a.1@5");
	beat_for(5);
	expect_sent("");
}

Test(owners, who_has_lost_its_connection_is_dead)
{
	wait_for("a.1@5");
	expect_sent("MGET wsonce:{alive}:a.1@");
	SAY_BEATS("89abcdef.12");
	expect_sent("CLIENT LIST ID 12");
	say(REPLY_STRING, "id=112 addr=id=12 name=\n");
	expect_gone("a.1@ ");
}

Test(owners, who_has_its_connection_lives)
{
	wait_for("a.1@5");
	SAY_BEATS("89abcdef.12");
	say(REPLY_STRING, "id=1 addr=x\nid=12 addr=y\n");
	expect_gone("");
}

Test(owners, those_of_several_that_are_dead_are_told_from_the_others)
{
	owners_wait(owners, find("a.1@5"));
	owners_wait(owners, find("b.1@5"));
	wait_for("c.1@5");
	expect_sent("MGET wsonce:{alive}:a.1@ wsonce:{alive}:b.1@ wsonce:{alive}:c.1@");
	SAY_BEATS("89abcdef.12", "00000000.13", "89abcdef.14");
	expect_sent("CLIENT LIST ID 12 14");
	say(REPLY_STRING, "id=12 addr=x\n");
	expect_gone("c.1@ ");
}

/* The number of a connection to another server, or none at all, says nothing. */
Test(owners, what_is_no_number_here_is_not_asked_for)
{
	static const char *const beats[] = {"00000000.12", "-", "", "89abcdef.", "89abcdef.1 2", "89abcdef"};

	wait_for("a.1@5");
	for (size_t i = 0; i < sizeof(beats) / sizeof(*beats); i++) {
		expect_sent("MGET wsonce:{alive}:a.1@");
		say_beats(1, &beats[i]);
		expect_sent("");
		owners_wait(owners, find("a.1@5"));
		pass(100);
	}
	expect_gone("");
}

Test(owners, who_is_silent_for_three_seconds_is_dead_if_we_are_heard_ourselves)
{
	beat_for(4);
	wait_for("a.1@5");
	SAY_BEATS("-");
	expect_gone("a.1@ ");
}

Test(owners, silence_says_nothing_while_others_may_not_have_come_back)
{
	beat_for(3);
	wait_for("a.1@5");
	SAY_BEATS("-");
	expect_gone("");
}

Test(owners, silence_says_nothing_if_our_own_beats_are_refused)
{
	beat_for(4);
	pass(1000);
	say(REPLY_ERROR, "OOM");
	pass(1000);
	say(REPLY_ERROR, "OOM");
	played_redis_next(), played_redis_next();
	wait_for("a.1@5");
	expect_sent("MGET wsonce:{alive}:a.1@");
	SAY_BEATS("-");
	expect_gone("");
}

Test(owners, they_are_asked_for_each_tenth_of_a_second_while_they_are_waited_for)
{
	wait_for("a.1@5");
	for (int i = 0; i < 5; i++) {
		expect_sent("MGET wsonce:{alive}:a.1@");
		SAY_BEATS("00000000.1");
		owners_wait(owners, find("a.1@5"));
		pass(100);
	}
	expect_sent("MGET wsonce:{alive}:a.1@");
	pass(100);
	expect_sent("");
}

Test(owners, one_question_is_asked_at_a_time_and_not_for_all_at_once)
{
	char value[20];

	for (int i = 0; i < 20; i++) {
		snprintf(value, sizeof(value), "%d@1", i);
		owners_wait(owners, find(value));
	}
	pass(1);
	cr_assert(strstr(played_redis_next(), "}:15@"));
	pass(100);
	expect_sent("");
	played_redis_answer(NULL);
	pass(100);
	expect_sent(
		"MGET wsonce:{alive}:16@ wsonce:{alive}:17@ wsonce:{alive}:18@ wsonce:{alive}:19@ wsonce:{alive}:0@ "
		"wsonce:{alive}:1@ wsonce:{alive}:2@ wsonce:{alive}:3@ wsonce:{alive}:4@ wsonce:{alive}:5@ "
		"wsonce:{alive}:6@ wsonce:{alive}:7@ wsonce:{alive}:8@ wsonce:{alive}:9@ wsonce:{alive}:10@ "
		"wsonce:{alive}:11@");
}

Test(owners, a_user_who_may_not_ask_for_clients_asks_once)
{
	wait_for("a.1@5");
	SAY_BEATS("89abcdef.12");
	say(REPLY_ERROR, "NOPERM");
	expect_gone("");
	played_redis_next(), played_redis_next();
	pass(100);
	expect_sent("MGET wsonce:{alive}:a.1@");
	SAY_BEATS("89abcdef.12");
	expect_sent("");
}

Test(owners, without_redis_nobody_is_asked_for)
{
	played_redis_set_state(REDIS_DOWN);
	wait_for("a.1@5");
	pass(5000);
	expect_sent("");
	played_redis_set_state(REDIS_READY);
	expect_sent("SET wsonce:{alive}:me@ " OURS " PX 3000");
}
