/* The last hour of a listener, minute by minute. */
#include "ops/hour.h"

#include "unit.h"

#define START_S (INT64_C(29000000) * 60)

static struct hour hour;
static int64_t lived_ms;

TestSuite(hour, .timeout = 60);

/* Simulates a minute with these counts and n commits of this latency. */
static void live(int64_t minute, uint64_t received, uint64_t stored, int n, double ms)
{
	hour_tick(&hour, START_S + minute * 60, lived_ms);
	counters.received += received;
	counters.persisted += stored;
	for (int i = 0; i < n; i++)
		histogram_observe(&commit_latency, ms);
	hour_tick(&hour, START_S + minute * 60 + 59, lived_ms + 59000);
	lived_ms += 60000;
}

static json_t *minutes(size_t count)
{
	json_t *all = hour_describe(&hour);

	cr_assert_eq(json_array_size(all), count, "%zu minutes", json_array_size(all));
	return all;
}

static void expect(const json_t *all, size_t i, const char *text)
{
	char *found = json_dumps(json_array_get(all, i), JSON_COMPACT);

	cr_assert_str_eq(found, text);
	free(found);
}

Test(hour, only_minutes_that_are_over_are_told)
{
	json_decref(minutes(0));
	counters.received = 7; /* before the first tick */
	live(0, 5, 3, 3, 1.5);
	json_decref(minutes(0));
	live(1, 10, 0, 0, 0);
	json_t *all = minutes(1);
	expect(all, 0, "[29000000,12,3,0,0,2.0,2.0]");
	json_decref(all);
	live(2, 0, 0, 0, 0);
	all = minutes(2);
	expect(all, 1, "[29000001,10,0,0,0,null,null]");
	json_decref(all);
}

Test(hour, a_minute_has_the_median_and_the_slowest_of_its_own)
{
	live(0, 0, 0, 1000, 100000);
	live(1, 0, 0, 95, 0.5);
	for (int i = 0; i < 5; i++)
		histogram_observe(&commit_latency, 900000);
	live(2, 0, 0, 0, 0);
	json_t *all = minutes(2);
	expect(all, 1, "[29000001,0,0,0,0,1.0,300000.0]");
	json_decref(all);
}

Test(hour, minutes_are_forgotten_after_an_hour_and_a_clock_that_is_set_does_no_harm)
{
	for (int64_t i = 0; i < 200; i++)
		live(i, 1, 1, 0, 0);
	json_t *all = minutes(60);
	expect(all, 0, "[29000139,1,1,0,0,null,null]");
	json_decref(all);
	live(500, 1, 1, 0, 0); /* forward: the hour before is empty */
	live(501, 1, 1, 0, 0);
	json_decref(minutes(1));
	live(300, 1, 1, 0, 0); /* and back */
	live(301, 1, 1, 0, 0);
	json_decref(minutes(1));
}

Test(hour, minute_in_which_the_clock_is_set_is_not_told)
{
	live(0, 5, 3, 0, 0);
	lived_ms -= 20000; /* it took 40 seconds */
	live(1, 7, 3, 0, 0);
	live(2, 0, 0, 0, 0);
	json_t *all = minutes(1);
	expect(all, 0, "[29000001,7,3,0,0,null,null]");
	json_decref(all);
}
