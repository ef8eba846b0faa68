/* How fast rate_limit.c sends messages, and which wait. */
#include "intake/rate_limit.h"

#include "base/memory.h"

#include "unit.h"

static struct rate_limit rate_limit;
static char said[100000];

static void on_say(void *arg, const char *text, size_t len)
{
	cr_assert_eq(arg, &rate_limit);
	strncat(said, text, len);
}

static int say(const char *text, enum rate_limit_kind kind, int64_t now_ms)
{
	return rate_limit_send(&rate_limit, text, strlen(text), kind, now_ms, on_say, &rate_limit);
}

static void go_on(int64_t now_ms)
{
	rate_limit_resume(&rate_limit, now_ms, on_say, &rate_limit);
}

static void fini(void)
{
	rate_limit_clear(&rate_limit);
}

TestSuite(rate_limit, .fini = fini, .timeout = 60);

Test(rate_limit, a_rate_holds_for_all_kinds_in_order)
{
	rate_limit_init(&rate_limit, 2);
	cr_assert_eq(say("a", RATE_LIMIT_OWN, 1000), 0);
	cr_assert_eq(say("b", RATE_LIMIT_ACK, 1000), 0);
	cr_assert_eq(say("c", RATE_LIMIT_REPLY, 1000), 0);
	cr_assert_eq(say("d", RATE_LIMIT_OWN, 1400), 0);
	go_on(1500);
	go_on(2000);
	cr_assert_str_eq(said, "ab");
	go_on(2100);
	cr_assert_str_eq(said, "abcd");
	say("e", RATE_LIMIT_OWN, 3100);
	cr_assert_str_eq(said, "abcd");
	go_on(3200);
	cr_assert_str_eq(said, "abcde");
}

Test(rate_limit, a_rate_between_one_and_two_is_kept)
{
	rate_limit_init(&rate_limit, 1.6);
	for (int64_t now = 0; now < 10000; now += 25) {
		say("x", RATE_LIMIT_OWN, now);
		go_on(now);
	}
	cr_assert_eq(strlen(said), 14); /* one in 725 ms */
}

/* In less than a second, four messages may follow four others only if eight a second are allowed. */
Test(rate_limit, a_fraction_puts_no_more_messages_into_a_second)
{
	rate_limit_init(&rate_limit, 4.9);
	for (int64_t now = 0; now < 1000; now += 25) {
		say("x", RATE_LIMIT_OWN, now);
		go_on(now);
	}
	cr_assert_eq(strlen(said), 4);
}

Test(rate_limit, who_stays_below_the_rate_never_waits)
{
	rate_limit_init(&rate_limit, 5);
	for (int i = 0; i < 100; i++)
		say("x", RATE_LIMIT_ACK, i * 250);
	cr_assert_eq(strlen(said), 100);
}

Test(rate_limit, an_hour_of_silence_saves_up_one_second)
{
	rate_limit_init(&rate_limit, 3);
	for (int i = 0; i < 10; i++)
		say("x", RATE_LIMIT_OWN, 3600000);
	cr_assert_str_eq(said, "xxx");
}

Test(rate_limit, less_than_one_a_second_is_still_one)
{
	rate_limit_init(&rate_limit, 0.5);
	say("a", RATE_LIMIT_OWN, 0);
	say("b", RATE_LIMIT_OWN, 0);
	go_on(2000);
	cr_assert_str_eq(said, "a");
	go_on(2100);
	cr_assert_str_eq(said, "ab");
}

Test(rate_limit, without_a_rate_replies_alone_are_bounded)
{
	rate_limit_init(&rate_limit, 0);
	for (int i = 0; i < 2 * RATE_LIMIT_REPLIES; i++)
		cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), 0);
	cr_assert_eq(strlen(said), RATE_LIMIT_REPLIES);
	for (int i = 0; i < 500; i++)
		cr_assert_eq(say("a", i % 2 ? RATE_LIMIT_ACK : RATE_LIMIT_OWN, 0), 0);
	cr_assert_eq(strlen(said), RATE_LIMIT_REPLIES + 500);
	go_on(1100);
	cr_assert_eq(strlen(said), 2 * RATE_LIMIT_REPLIES + 500);
}

Test(rate_limit, who_provokes_more_is_told_so)
{
	rate_limit_init(&rate_limit, 0);
	for (int i = 0; i < RATE_LIMIT_REPLIES + RATE_LIMIT_WAITING; i++)
		cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), 0);
	cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), -1);
}

/* A feed may end a connection whose heartbeat is late. */
Test(rate_limit, acks_wait_however_many_they_are_and_hold_up_no_reply)
{
	rate_limit_init(&rate_limit, 1);
	for (int i = 0; i < 3 * RATE_LIMIT_WAITING; i++)
		cr_assert_eq(say("a", RATE_LIMIT_ACK, 0), 0);
	cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), 0);
	cr_assert_eq(rate_limit.waiting[RATE_LIMIT_ACKS], 3 * RATE_LIMIT_WAITING - 1);
	go_on(1100);
	cr_assert_str_eq(said, "ar");
	for (int i = 2; i <= 3 * RATE_LIMIT_WAITING; i++)
		go_on(1100 * i);
	cr_assert_eq(rate_limit.waiting[RATE_LIMIT_ACKS], 0);
}

Test(rate_limit, a_long_list_of_our_own_is_sent_and_holds_up_no_heartbeat)
{
	rate_limit_init(&rate_limit, 1);
	for (int i = 0; i < 3 * RATE_LIMIT_WAITING; i++)
		cr_assert_eq(say("o", RATE_LIMIT_OWN, 0), 0);
	cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), 0);
	cr_assert_eq(say("p", RATE_LIMIT_PING, 0), 0);
	for (int i = 1; i <= 3; i++)
		go_on(1100 * i);
	cr_assert_str_eq(said, "orpo");
}

Test(rate_limit, an_ack_that_covers_others_replaces_them)
{
	rate_limit_init(&rate_limit, 1);
	say("1", RATE_LIMIT_LAST_ACK, 0);
	say("2", RATE_LIMIT_LAST_ACK, 0);
	say("3", RATE_LIMIT_LAST_ACK, 0);
	cr_assert_eq(rate_limit.waiting[RATE_LIMIT_ACKS], 1);
	go_on(1100);
	go_on(2200);
	cr_assert_str_eq(said, "13");
}

Test(rate_limit, long_replies_fill_the_queue_sooner)
{
	char *reply = memory_printf("%01000000d", 7);

	rate_limit_init(&rate_limit, 1);
	cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), 0);
	for (int i = 0; i <= RATE_LIMIT_BYTES / 1000000; i++)
		cr_assert_eq(say(reply, RATE_LIMIT_REPLY, 0), 0);
	cr_assert_eq(say("r", RATE_LIMIT_REPLY, 0), -1);
	cr_assert_eq(say("a", RATE_LIMIT_ACK, 0), -1);
}
