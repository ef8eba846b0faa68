/* How fast courtesy.c lets messages go, and what waits. */
#include "intake/courtesy.h"

#include "unit.h"

static struct courtesy courtesy;
static char said[100000];

static void on_say(void *arg, const char *text, size_t len)
{
	cr_assert_eq(arg, &courtesy);
	strncat(said, text, len);
}

static int say(const char *text, enum courtesy_kind kind, int64_t now_ms)
{
	return courtesy_say(&courtesy, text, strlen(text), kind, now_ms, on_say, &courtesy);
}

static void go_on(int64_t now_ms)
{
	courtesy_go_on(&courtesy, now_ms, on_say, &courtesy);
}

static void fini(void)
{
	courtesy_clear(&courtesy);
}

TestSuite(courtesy, .fini = fini, .timeout = 60);

Test(courtesy, a_rate_holds_for_all_kinds_in_order)
{
	courtesy_init(&courtesy, 2, 1000);
	cr_assert_eq(say("a", COURTESY_OWN, 1000), 0);
	cr_assert_eq(say("b", COURTESY_ACK, 1000), 0);
	cr_assert_eq(say("c", COURTESY_REPLY, 1000), 0);
	cr_assert_eq(say("d", COURTESY_OWN, 1400), 0);
	cr_assert_str_eq(said, "ab");
	go_on(1500);
	cr_assert_str_eq(said, "abc");
	say("e", COURTESY_OWN, 1999);
	go_on(1999);
	cr_assert_str_eq(said, "abc");
	go_on(2500);
	cr_assert_str_eq(said, "abcde");
}

Test(courtesy, an_hour_of_silence_saves_up_one_second)
{
	courtesy_init(&courtesy, 3, 0);
	for (int i = 0; i < 10; i++)
		say("x", COURTESY_OWN, 3600000);
	cr_assert_str_eq(said, "xxx");
}

Test(courtesy, less_than_one_a_second_is_still_one)
{
	courtesy_init(&courtesy, 0.5, 0);
	say("a", COURTESY_OWN, 0);
	say("b", COURTESY_OWN, 0);
	go_on(1900);
	cr_assert_str_eq(said, "a");
	go_on(2000);
	cr_assert_str_eq(said, "ab");
}

Test(courtesy, without_a_rate_replies_alone_are_bounded)
{
	courtesy_init(&courtesy, 0, 0);
	for (int i = 0; i < 2 * COURTESY_REPLIES; i++)
		cr_assert_eq(say("r", COURTESY_REPLY, 0), 0);
	cr_assert_eq(strlen(said), COURTESY_REPLIES);
	for (int i = 0; i < 500; i++)
		cr_assert_eq(say("a", i % 2 ? COURTESY_ACK : COURTESY_OWN, 0), 0);
	cr_assert_eq(strlen(said), COURTESY_REPLIES + 500);
	go_on(1000);
	cr_assert_eq(strlen(said), 2 * COURTESY_REPLIES + 500);
}

Test(courtesy, who_provokes_more_is_told_so)
{
	courtesy_init(&courtesy, 0, 0);
	for (int i = 0; i < COURTESY_REPLIES + COURTESY_WAITING; i++)
		cr_assert_eq(say("r", COURTESY_REPLY, 0), 0);
	cr_assert_eq(say("r", COURTESY_REPLY, 0), -1);
}
