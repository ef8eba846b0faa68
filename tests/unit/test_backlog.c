/* When pending deliveries cause a warning. */
#include "outbox/backlog.h"

#include "unit.h"
#include "base/log.h"

static struct backlog backlog;

static void look(const char *pending, const char *overdue, const char *oldest_ms)
{
	const char *const cells[BACKLOG_CELLS] = {pending, overdue, oldest_ms, "order-7", "shop", "", "0", ""};

	backlog_read(&backlog, cells);
}

static void expect_log(int64_t now_ms, int64_t limit_ms, const char *text)
{
	char said[2000] = "";
	int saved = dup(STDERR_FILENO), ends[2];

	cr_assert_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	backlog_watch(&backlog, now_ms, limit_ms);
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	close(saved);
	cr_assert_geq(read(ends[0], said, sizeof(said) - 1), 0);
	close(ends[0]);
	if (*text)
		cr_assert_not_null(strstr(said, text), "%s", said);
	else
		cr_assert_str_eq(said, "");
}

Test(backlog, warning_names_how_many_and_the_oldest_and_comes_again_each_minute, .timeout = 60)
{
	log_setup(LOG_INFO, LOG_TEXT, NULL);
	look("5", "0", "29000");
	expect_log(1000, 30000, "");
	look("5", "3", "31000");
	expect_log(2000, 30000,
		   "level=warn event=\"deliveries are overdue\" deliveries=3 limit_s=30 oldest=order-7 "
		   "target=shop oldest_s=31");
	expect_log(61999, 30000, "");
	expect_log(62000, 30000, "deliveries=3");
	look("0", "0", "0");
	expect_log(63000, 30000, "level=info event=\"all overdue deliveries have ended\"");
	expect_log(64000, 30000, "");
}

Test(backlog, limit_of_0_never_warns, .timeout = 60)
{
	look("5", "5", "1000000");
	expect_log(1000, 0, "");
}
