/* When pending deliveries cause a warning. */
#include "outbox/backlog.h"

#include "unit.h"
#include "base/log.h"

static struct backlog backlog;

static void look(const char *pending, const char *overdue, const char *oldest_ms)
{
	const char *const cells[BACKLOG_CELLS] = {pending, overdue, oldest_ms, "order-7", "shop", "", "0", "", ""};

	backlog_read(&backlog, cells);
}

static void expect_log(int64_t now_ms, int64_t limit_ms, const char *text)
{
	capture_begin();
	backlog_watch(&backlog, now_ms, limit_ms);
	const char *said = capture_end();
	if (*text)
		cr_assert_not_null(strstr(said, text), "%s", said);
	else
		cr_assert_str_eq(said, "");
}

Test(backlog, warning_names_how_many_and_the_oldest_and_comes_again_each_minute, .timeout = 60)
{
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
	look("1", "1", "31000");
	expect_log(65000, 30000, "");
	look("0", "0", "0");
	expect_log(66000, 30000, "");
	look("1", "1", "31000");
	expect_log(122000, 30000, "deliveries=1");
}

Test(backlog, limit_of_0_never_warns, .timeout = 60)
{
	look("5", "5", "1000000");
	expect_log(1000, 0, "");
}
