/* The series of a source's numbers. */
#include "feed/gap.h"
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
