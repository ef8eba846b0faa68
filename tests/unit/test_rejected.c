/* What is logged about messages that become dead letters, and how often. */
#include "event/rejected.h"

#include "unit.h"
#include "base/counters.h"

static void init(void)
{
	capture_begin();
	rejected_watch(100000); /* counting begins */
}

static void fini(void)
{
	capture_end();
}

TestSuite(rejected, .init = init, .fini = fini, .timeout = 60);

static void note(const char *reason, const char *message)
{
	rejected_refused(reason);
	rejected_checkin("feed", reason, message, strlen(message));
}

Test(rejected, without_dead_letters_nothing_is_told)
{
	rejected_watch(101000);
	rejected_watch(300000);
	cr_assert_str_eq(captured(), "");
}

Test(rejected, the_last_reason_is_told_with_an_example)
{
	note("rare", "x");
	note("common", "the first");
	note("common", "the second");
	rejected_watch(101000);
	cr_assert(strstr(captured(),
			 "level=warn event=\"all messages became dead letters\" dead_letters=3 stored=0 duplicates=0 "
			 "source=feed reason=common example=\"the second\"\n"),
		  "%s", captured());
}

Test(rejected, what_may_be_tried_again_is_not_the_reason_of_dead_letters)
{
	const char *reason;

	note("no partition", "the first");
	rejected_refused("permission denied");
	rejected_watch(101000);
	cr_assert(strstr(captured(), "dead_letters=1 stored=0 duplicates=0 source=feed reason=\"no partition\" "), "%s",
		  captured());
	rejected_run(&reason);
	cr_assert_str_eq(reason, "permission denied");
}

Test(rejected, it_is_no_warning_where_others_are_stored)
{
	counters.persisted += 7;
	counters.duplicates += 2;
	note("odd", "x");
	rejected_watch(101000);
	cr_assert(strstr(captured(), "level=info event=\"some messages became dead letters\" dead_letters=1 stored=7 "
				     "duplicates=2 "),
		  "%s", captured());
}

Test(rejected, a_run_lasts_until_an_event_is_stored)
{
	const char *reason;

	cr_assert_eq(rejected_run(&reason), 0);
	note("odd", "x");
	note("other", "x");
	cr_assert_eq(rejected_run(&reason), 2);
	cr_assert_str_eq(reason, "other");
	counters.duplicates++;
	cr_assert_eq(rejected_run(&reason), 0);
	note("odd", "x");
	cr_assert_eq(rejected_run(&reason), 1);
}

Test(rejected, there_is_one_line_a_minute)
{
	note("odd", "x");
	rejected_watch(101000);
	for (int i = 1; i < 60; i++) {
		note("odd", "x");
		rejected_watch(101000 + i * 1000);
	}
	cr_assert(!strstr(strstr(captured(), "dead_letters=1 "), "\ntime"), "%s", captured());
	rejected_watch(161000);
	cr_assert(strstr(captured(), "dead_letters=59 "), "%s", captured());
	rejected_watch(300000);
	cr_assert(!strstr(captured(), "dead_letters=0"), "%s", captured());
}

Test(rejected, what_was_stored_long_before_does_not_count)
{
	counters.duplicates += 7;
	rejected_watch(160000);
	note("odd", "x");
	rejected_watch(161000);
	cr_assert(strstr(captured(), "dead_letters=1 stored=0"), "%s", captured());
}

Test(rejected, an_example_is_shortened_and_has_no_nul)
{
	char message[300];

	memset(message, 'm', sizeof(message));
	message[3] = '\0';
	rejected_checkin(NULL, "long", message, sizeof(message));
	rejected_watch(101000);
	cr_assert(strstr(captured(), "example=\"mmm mmmm"), "%s", captured());
	cr_assert(strstr(captured(), "mmmm\"\n"), "%s", captured());
	cr_assert_lt(strlen(captured()), 300);
}

Test(rejected, a_run_ends_ten_minutes_after_its_last_message)
{
	const char *reason;

	for (int i = 0; i < 10; i++)
		rejected_refused("odd");
	rejected_watch(101000);
	rejected_watch(700999);
	cr_assert_eq(rejected_run(&reason), 10);
	rejected_watch(701000);
	cr_assert_eq(rejected_run(&reason), 0);
	rejected_refused("odd");
	cr_assert_eq(rejected_run(&reason), 1);
}
