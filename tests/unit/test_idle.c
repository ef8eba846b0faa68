/* When a source is silent for idle.c, and when not any more. Connections are opened at 100 s. */
#include "intake/idle.h"

#include "unit.h"

#define OPENED   INT64_C(100000)
#define AT(time) (OPENED + (time))

static const struct idle_limit limit = {.ms = 60000}, none = {0}, guess = {.ms = 600000, .is_guess = true},
			       messages = {.ms = 60000, .is_only_messages = true};

/* A connection at now_ms. All times count from its opening; pinged_ms -1: never. */
static enum idle look(enum idle before, const struct idle_limit *l, int64_t message_ms, int64_t heard_ms,
		      int64_t pinged_ms, int64_t now_ms)
{
	struct idle_signs signs = {OPENED, AT(message_ms), AT(heard_ms), pinged_ms < 0 ? 0 : AT(pinged_ms)};

	return idle_look(before, l, &signs, AT(now_ms));
}

static enum idle unanswered(enum idle before, int64_t message_ms, int64_t heard_ms, int64_t pinged_ms)
{
	struct idle_signs signs = {OPENED, AT(message_ms), AT(heard_ms), pinged_ms < 0 ? 0 : AT(pinged_ms)};

	return idle_unanswered(before, &signs);
}

Test(idle, at_the_limit_a_source_is_silent)
{
	struct idle_signs signs = {OPENED, AT(200), AT(200), 0};

	cr_assert_eq(look(IDLE_NOT, &limit, 200, 200, -1, 60199), IDLE_NOT);
	cr_assert_eq(look(IDLE_NOT, &limit, 200, 200, -1, 60200), IDLE_TIMED_OUT);
	cr_assert_eq(look(IDLE_UNANSWERED, &limit, 200, 200, -1, 60200), IDLE_TIMED_OUT);
	cr_assert_eq(idle_length(&limit, &signs, AT(60199)), 0);
	cr_assert_eq(idle_length(&limit, &signs, AT(60203)), 60003);
	cr_assert_eq(idle_length(&none, &signs, AT(INT32_MAX)), 0);
	cr_assert_eq(look(IDLE_NOT, &none, 0, 0, -1, INT32_MAX), IDLE_NOT);
}

Test(idle, a_guessed_limit_says_nothing)
{
	struct idle_signs signs = {OPENED, OPENED, OPENED, 0};

	cr_assert_eq(idle_length(&guess, &signs, AT(600000)), 600000);
	for (enum idle i = IDLE_NOT; i <= IDLE_TIMED_OUT; i++)
		cr_assert_eq(look(i, &guess, 0, 0, -1, 600000), i);
}

Test(idle, pongs_do_not_count_where_only_messages_do)
{
	cr_assert_eq(look(IDLE_NOT, &limit, 100, 59000, -1, 61000), IDLE_NOT);
	cr_assert_eq(look(IDLE_NOT, &messages, 100, 59000, -1, 61000), IDLE_TIMED_OUT);
	cr_assert_eq(look(IDLE_TIMED_OUT, &messages, 100, 59000, -1, 59001), IDLE_TIMED_OUT);
}

Test(idle, a_greeting_does_not_end_it)
{
	cr_assert_eq(look(IDLE_TIMED_OUT, &limit, 30000, 30000, -1, 30100), IDLE_TIMED_OUT);
	cr_assert_eq(look(IDLE_TIMED_OUT, &limit, 30001, 30001, -1, 30100), IDLE_NOT);
	cr_assert_eq(look(IDLE_TIMED_OUT, &messages, 30001, 30001, -1, 30100), IDLE_NOT);
	cr_assert_eq(look(IDLE_UNANSWERED, &limit, 5000, 5000, -1, 5100), IDLE_UNANSWERED);
	cr_assert_eq(look(IDLE_UNANSWERED, &none, 5000, 5000, -1, 5100), IDLE_UNANSWERED);
	cr_assert_eq(look(IDLE_UNANSWERED, &none, 5001, 5001, -1, 5100), IDLE_NOT);
}

Test(idle, an_answer_to_a_ping_ends_it)
{
	for (enum idle i = IDLE_UNANSWERED; i <= IDLE_TIMED_OUT; i++) {
		cr_assert_eq(look(i, &limit, 0, 0, -1, 100), i, "the answer to the upgrade is not a sign of life");
		cr_assert_eq(look(i, &limit, 100, 101, -1, 200), IDLE_NOT);
		cr_assert_eq(look(i, &limit, 100, 100, 200, 300), i, "it came before the ping");
		cr_assert_eq(look(i, &limit, 201, 201, 200, 300), IDLE_NOT);
	}
	cr_assert_eq(look(IDLE_UNANSWERED, &messages, 100, 101, -1, 200), IDLE_NOT);
}

Test(idle, a_connection_without_answers_is_silent_if_it_was_only_greeted)
{
	cr_assert_eq(unanswered(IDLE_NOT, 0, 0, -1), IDLE_UNANSWERED);
	cr_assert_eq(unanswered(IDLE_NOT, 5000, 5000, 20000), IDLE_UNANSWERED);
	cr_assert_eq(unanswered(IDLE_NOT, 5001, 5001, 20000), IDLE_NOT);
	cr_assert_eq(unanswered(IDLE_NOT, 100, 300, -1), IDLE_NOT, "it has answered another one");
	cr_assert_eq(unanswered(IDLE_TIMED_OUT, 0, 0, -1), IDLE_TIMED_OUT);
}

Test(idle, who_sets_the_limit)
{
	struct profile p = {.ws_ping_s = -1, .idle_timeout.ms = -1};
	char url[] = "ws://feed.test/";
	struct idle_limit l = idle_limit(&p, 0, 0, 20000);

	cr_assert_eq(l.ms, 90000);
	cr_assert(!l.is_guess && !l.is_only_messages);
	p.never_send = true;
	l = idle_limit(&p, 0, 0, 20000);
	cr_assert_eq(l.ms, 600000);
	cr_assert(l.is_guess);
	l = idle_limit(&p, 600, 0, 20000);
	cr_assert(l.ms == 600000 && !l.is_guess);
	l = idle_limit(&p, 0, 7, 20000);
	cr_assert(l.ms == 7 && !l.is_guess);
	l = idle_limit(&p, 600, 7, 20000);
	cr_assert(l.ms == 7 && !l.is_guess);
	p.idle_timeout.ms = 600000;
	l = idle_limit(&p, 5, 0, 20000);
	cr_assert(l.ms == 600000 && !l.is_guess);
	p.idle_timeout.ms = 0;
	p.redacted_url = url;
	l = idle_limit(&p, 5, 0, 20000);
	cr_assert(!l.ms && !l.is_guess && !l.is_only_messages);
	p.idle_timeout.ms = 1;
	cr_assert(idle_limit(&p, 5, 0, 20000).is_only_messages);
}

Test(idle, a_feed_is_not_silent_before_it_is_pinged)
{
	struct profile p = {.ws_ping_s = -1, .idle_timeout.ms = -1};
	struct idle_limit l = idle_limit(&p, 0, 0, 120000);

	cr_assert(l.ms == 360000 && !l.is_guess);
	cr_assert_eq(idle_limit(&p, 600, 0, 120000).ms, 600000);
	cr_assert_eq(idle_limit(&p, 0, 0, 0).ms, 90000, "the feed has not told its interval yet");
}
