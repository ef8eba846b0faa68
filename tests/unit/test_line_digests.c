/* Where the lines of a source sent different bytes for the same event. */
#include "event/line_digests.h"
#include "unit.h"

#include <stdlib.h>

static struct line_digest *table;

static void tear_down(void)
{
	free(table);
}

TestSuite(line_digests, .fini = tear_down);

/* Does another line's copy differ? Which is then told. */
static bool differs(uint64_t hash, unsigned int line, char byte, int64_t now_ms)
{
	uint8_t digest[32];
	const uint8_t *first;

	memset(digest, byte, sizeof(digest));
	first = line_digests_note(&table, hash, line, digest, now_ms);
	cr_assert(!first || *first != byte);
	return first;
}

Test(line_digests, copies_of_other_lines_are_compared_with_the_first_one)
{
	cr_assert_not(differs(5, 1, 'a', 1000));
	cr_assert_not(differs(5, 0, 'a', 1100));
	cr_assert(differs(5, 2, 'b', 1200));
	cr_assert(differs(5, 3, 'b', 1300), "both differ from the first");
	cr_assert_not(differs(6, 0, 'a', 1400));
	cr_assert(differs(6, 1, 'c', 1400 + LINE_DIGESTS_MS));
}

Test(line_digests, a_line_that_sends_an_event_again_is_not_compared)
{
	cr_assert_not(differs(5, 0, 'a', 1000));
	cr_assert_not(differs(5, 0, 'b', 1001), "the same line");
	cr_assert_not(differs(5, 1, 'a', 1002));
	cr_assert_not(differs(5, 1, 'b', 1003));
}

Test(line_digests, what_came_long_ago_is_forgotten)
{
	cr_assert_not(differs(5, 0, 'a', 1000));
	cr_assert_not(differs(5, 1, 'b', 1001 + LINE_DIGESTS_MS));
	cr_assert(differs(5, 0, 'a', 1002 + LINE_DIGESTS_MS), "from here on it is the first");
}

/* A thousand events a second, and the other line is two seconds late. */
Test(line_digests, many_events_leave_each_other_room)
{
	int found = 0;

	for (int n = 0; n < 20000; n++) {
		differs((uint64_t)n * 0x9e3779b97f4a7c15, 0, 'a', 1000 + n);
		if (n >= 2000)
			found += differs((uint64_t)(n - 2000) * 0x9e3779b97f4a7c15, 1, 'b', 1000 + n);
	}
	cr_assert_geq(found, 17900, "%d", found);
}
