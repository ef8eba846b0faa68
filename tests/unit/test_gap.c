/* The series of a source's numbers. */
#include "feed/gap.h"

#include <malloc.h>

#include "base/log_spell.h"
#include "feed/secrets.h"
#include "unit.h"

#define SERIES 20000

TestSuite(gap, .timeout = 60);

/* Notes the first number of each series. Returns the CPU seconds. */
static double note_all(void (*make)(uint32_t n, char *key))
{
	struct gaps *gaps = gaps_new();
	clock_t began = clock();
	struct gap gap;
	char key[24];

	for (uint32_t n = 0; n < SERIES; n++) {
		make(n, key);
		cr_assert(!gaps_note(gaps, (struct slice){key, sizeof(key)}, (struct slice){"1", 1}, &gap));
	}
	gaps_free(gaps);
	return (double)(clock() - began) / CLOCKS_PER_SEC;
}

Test(gap, series_whose_names_are_made_to_collide_cost_no_more)
{
	collisions_must_cost_no_more(note_all);
}

static void note(struct gaps *gaps, int series, const char *seq, bool is_gap)
{
	char key[1024];
	struct gap gap;

	snprintf(key, sizeof(key), "%01023d", series);
	cr_assert_eq(gaps_note(gaps, (struct slice){key, sizeof(key)}, (struct slice){seq, 1}, &gap), is_gap);
}

Test(gap, long_names_take_no_more_memory_than_short_ones)
{
	struct gaps *gaps = gaps_new();
	size_t before = mallinfo2().uordblks;

	for (int n = 0; n < SERIES; n++)
		note(gaps, n, "1", false);
	cr_assert_lt(mallinfo2().uordblks - before, 200 * SERIES);
	note(gaps, 7, "2", false);
	note(gaps, 8, "3", true);
	gaps_free(gaps);
}

Test(gap, holes_of_many_sources_are_twenty_lines)
{
	struct secrets *secrets = secrets_new();

	capture_begin();
	for (int source = 0; source < 25; source++) {
		struct gaps *gaps = gaps_new();

		note(gaps, 1, "1", false);
		note(gaps, 1, "3", true);
		gaps_tell(gaps, "ticks", secrets, 60000);
		gaps_free(gaps);
	}
	cr_assert_eq(captured_times("level=warn"), 20, "%s", captured());
	capture_end();
	secrets_free(secrets);
}

Test(gap, the_first_hole_and_one_an_hour_later_are_no_failures_that_go_on)
{
	struct secrets *secrets = secrets_new();
	struct gaps *gaps = gaps_new();
	int64_t now_ms = 60000;

	note(gaps, 1, "1", false);
	for (const char *number = "357"; *number; number++, now_ms += 3600000) {
		for (int i = 0; i < 25; i++)
			log_of_many(LOG_AGAIN, LOG_WARN, now_ms, "gone", "source=%d", i);
		note(gaps, 1, number, true);
		capture_begin();
		gaps_tell(gaps, "ticks", secrets, now_ms);
		cr_assert_eq(captured_times("level=warn"), 1, "%s", captured());
		capture_end();
	}
	gaps_free(gaps);
	secrets_free(secrets);
}
