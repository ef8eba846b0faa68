/* What is logged about messages that become dead letters, and how often. */
#include "event/rejected.h"

#include "unit.h"
#include "base/counters.h"

static int kept_stderr, capture;
static char lines[10000];

static void init(void)
{
	capture = memfd_create("log", 0);
	kept_stderr = dup(STDERR_FILENO);
	dup2(capture, STDERR_FILENO);
	rejected_watch(100000); /* counting begins */
}

static void fini(void)
{
	dup2(kept_stderr, STDERR_FILENO);
}

TestSuite(rejected, .init = init, .fini = fini, .timeout = 60);

/* What was logged so far. */
static const char *logged(void)
{
	ssize_t size = pread(capture, lines, sizeof(lines) - 1, 0);

	cr_assert_geq(size, 0);
	lines[size] = '\0';
	return lines;
}

static void note(const char *reason, const char *message)
{
	rejected_checkin(reason, message, strlen(message));
}

Test(rejected, without_dead_letters_nothing_is_told)
{
	rejected_watch(101000);
	rejected_watch(300000);
	cr_assert_str_eq(logged(), "");
}

Test(rejected, the_last_reason_is_told_with_an_example)
{
	note("rare", "x");
	note("common", "the first");
	note("common", "the second");
	rejected_watch(101000);
	cr_assert(strstr(logged(),
			 "level=warn event=\"all messages became dead letters\" dead_letters=3 stored=0 duplicates=0 "
			 "reason=common example=\"the second\"\n"),
		  "%s", lines);
}

Test(rejected, it_is_no_warning_where_others_are_stored)
{
	counters.persisted += 7;
	counters.duplicates += 2;
	note("odd", "x");
	rejected_watch(101000);
	cr_assert(strstr(logged(), "level=info event=\"some messages became dead letters\" dead_letters=1 stored=7 "
				   "duplicates=2 "),
		  "%s", lines);
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
	cr_assert(!strstr(strstr(logged(), "dead_letters=1 "), "\ntime"), "%s", lines);
	rejected_watch(161000);
	cr_assert(strstr(logged(), "dead_letters=59 "), "%s", lines);
	rejected_watch(300000);
	cr_assert(!strstr(logged(), "dead_letters=0"), "%s", lines);
}

Test(rejected, what_was_stored_long_before_does_not_count)
{
	counters.duplicates += 7;
	rejected_watch(160000);
	note("odd", "x");
	rejected_watch(161000);
	cr_assert(strstr(logged(), "dead_letters=1 stored=0"), "%s", lines);
}

Test(rejected, an_example_is_shortened_and_has_no_nul)
{
	char message[300];

	memset(message, 'm', sizeof(message));
	message[3] = '\0';
	rejected_checkin("long", message, sizeof(message));
	rejected_watch(101000);
	cr_assert(strstr(logged(), "example=\"mmm mmmm"), "%s", lines);
	cr_assert(strstr(logged(), "mmmm...\"\n"), "%s", lines);
	cr_assert_lt(strlen(logged()), 300);
}
