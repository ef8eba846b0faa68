/* How long events are in flight, which is the oldest, and when a warning is logged. */
#include "ops/overdue.h"
#include "view.h"

#include "unit.h"

static struct events events;

static void init(void)
{
	events_init(&events);
}

static void fini(void)
{
	events_clear(&events);
}

TestSuite(overdue, .init = init, .fini = fini, .timeout = 60);

/* Adds an event that came at this time on the loop clock. */
static struct event *add(const char *id, enum event_state state, int64_t came_ms)
{
	struct envelope_view view = view_of(&events, id, "", "{}");

	return event_new(&events, state, "message", 7, *id ? &view : NULL, NULL, came_ms * 1000);
}

static void expect_log(struct overdue_watch *w, int64_t now_ms, int64_t limit_ms, const char *text)
{
	capture_begin();
	overdue_watch(w, &events, now_ms, limit_ms);
	const char *said = capture_end();
	if (*text)
		cr_assert_not_null(strstr(said, text), "at %lld: %s", (long long)now_ms, said);
	else
		cr_assert_str_eq(said, "", "at %lld: %s", (long long)now_ms, said);
}

/* Expects what a first warning says at this time, with a limit of a second. */
static void expect(int64_t now_ms, size_t count, const char *oldest, int64_t age_ms)
{
	struct overdue_watch w = {0};
	char text[100];

	snprintf(text, sizeof(text), "events=%zu limit_s=1 oldest=%s oldest_s=%lld ", count, oldest,
		 (long long)age_ms / 1000);
	expect_log(&w, now_ms, 1000, text);
	cr_assert_eq(overdue_oldest_ms(&events, now_ms), age_ms);
}

Test(overdue, without_events_nothing_is_old)
{
	struct overdue_watch w = {0};

	expect_log(&w, 5000, 1000, "");
	cr_assert_eq(overdue_oldest_ms(&events, 5000), 0);
}

Test(overdue, oldest_is_the_one_that_came_first_whatever_its_state)
{
	struct event *a = add("a", EV_CLAIMING, 1000), *b = add("b", EV_CLAIMING, 1500);

	add("c", EV_CLAIMING, 3000);
	expect(3200, 2, "a", 2200);
	event_move(&events, b, EV_BATCHED);
	event_move(&events, a, EV_HELD);
	event_move(&events, a, EV_CLAIMING);
	event_move(&events, a, EV_HELD);
	expect(3200, 2, "a", 2200);
	event_move(&events, a, EV_BATCHED);
	event_move(&events, a, EV_STORING);
	event_move(&events, a, EV_DONE);
	event_finish(&events, a, OUTCOME_PERSISTED);
	expect(3200, 1, "b", 1700);
	expect(4500, 2, "b", 3000);
}

Test(overdue, messages_that_become_dead_letters_count_too)
{
	struct event *garbage = add("", EV_REFUSED, 1000), *stale = add("s", EV_REFUSED, 1100);

	add("a", EV_CLAIMING, 1200);
	expect(3000, 3, "\"\"", 2000);
	event_move(&events, garbage, EV_DEAD_LETTERING);
	expect(3000, 3, "\"\"", 2000);
	event_move(&events, garbage, EV_DONE);
	event_finish(&events, garbage, OUTCOME_REJECTED);
	expect(3000, 2, "s", 1900);
	event_move(&events, stale, EV_DEAD_LETTERING);
	expect(3000, 2, "s", 1900);
}

/* --- the warning --- */

Test(overdue, warning_names_how_many_and_the_oldest_and_comes_again_each_minute)
{
	struct overdue_watch w = {0};
	struct event *a = add("order-7", EV_CLAIMING, 1000);

	add("b", EV_CLAIMING, 1001);
	add("c", EV_CLAIMING, 30000);
	expect_log(&w, 31000, 30000, "");
	expect_log(&w, 32000, 30000,
		   "level=warn event=\"events are overdue\" events=2 limit_s=30 "
		   "oldest=order-7 oldest_s=31 state=claiming");
	expect_log(&w, 33000, 30000, "");
	expect_log(&w, 91999, 30000, "");
	expect_log(&w, 92000, 30000, "events=3");
	event_move(&events, a, EV_DONE);
	event_finish(&events, a, OUTCOME_DUPLICATE);
	expect_log(&w, 93000, 95000, "level=info event=\"all overdue events have settled\"");
	expect_log(&w, 94000, 95000, "");
	expect_log(&w, 95000, 30000, "");
	expect_log(&w, 96000, 95000, "");
	expect_log(&w, 152000, 30000, "events=2");
}

Test(overdue, limit_of_0_never_warns)
{
	struct overdue_watch w = {0};

	add("a", EV_CLAIMING, 0);
	expect_log(&w, 1000000000, 0, "");
}
