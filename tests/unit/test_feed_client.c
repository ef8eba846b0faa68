/* What is logged of many sources that fail together. */
#include "intake/feed_client.h"

#include "unit.h"

Test(feed_client, lines_that_a_minute_lacks_are_counted_in_the_next_one)
{
	capture_begin();
	for (int i = 0; i < 25; i++)
		feed_client_log(LOG_WARN, 60000, "gone", "source=%d", i);
	feed_client_log(LOG_WARN, 120000, "gone", "source=%d", 25);
	cr_assert_eq(captured_times("event=gone"), 21, "%s", captured());
	cr_assert_eq(captured_times("source=25 more_lines=5"), 1, "%s", captured());
	capture_end();
}
