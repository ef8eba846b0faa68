/* The series of a source's numbers. */
#include "feed/gap.h"
#include "unit.h"

#include <uthash.h>

#define SERIES 20000

TestSuite(gap, .timeout = 60);

/* As in test_event.c: all names have the same value under uthash's own hash (Jenkins'). */
static void make_colliding_key(uint32_t n, char *key)
{
	uint32_t a = 0x9e3779b9u + n, b = 0x9e3779b9u, c = 0xfeedbeefu;
	uint32_t words[6] = {n};

	HASH_JEN_MIX(a, b, c);
	words[3] = 0 - a;
	words[4] = 0 - b;
	words[5] = 0 - c;
	memcpy(key, words, sizeof(words));
}

static void make_key(uint32_t n, char *key)
{
	memset(key, 0, 24);
	memcpy(key, &n, sizeof(n));
}

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
	double usual = note_all(make_key), colliding = note_all(make_colliding_key);

	cr_assert_lt(colliding, 10 * usual + 0.1, "%.3f s, not %.3f s", colliding, usual);
}
