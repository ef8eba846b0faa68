/* fleet_hour.c owns the sum of what listeners tell of their last hour. Listeners that are gone count, those that left
 * have taken their row with them. */
#include "commands/fleet_hour.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/timestamp.h"
#include "ops/hour.h"

enum column { NUMBER, RECEIVED, STORED, DUPLICATES, DEAD_LETTERED, P50, P99, COLUMNS };

struct minute {
	bool is_known;
	double sums[COLUMNS]; /* latencies: the greatest; -1: nothing was stored */
};

static void add_minute(struct minute *m, const json_t *told)
{
	if (!m->is_known)
		m->sums[P50] = m->sums[P99] = -1;
	m->is_known = true;
	for (size_t i = RECEIVED; i < P50; i++)
		m->sums[i] += (double)json_integer_value(json_array_get(told, i));
	for (size_t i = P50; i < COLUMNS; i++) {
		const json_t *ms = json_array_get(told, i);

		if (json_is_number(ms) && json_number_value(ms) > m->sums[i])
			m->sums[i] = json_number_value(ms);
	}
}

static void add_hour(struct minute *minutes, int64_t first, const json_t *hour)
{
	size_t i;
	json_t *told;

	json_array_foreach(hour, i, told)
	{
		int64_t n = json_integer_value(json_array_get(told, NUMBER)) - first;

		if (n >= 0 && n < HOUR_MINUTES)
			add_minute(&minutes[n], told);
	}
}

static json_t *describe_ms(double ms)
{
	return ms < 0 ? json_null() : json_real(ms);
}

static json_t *describe(const struct minute *m, int64_t number)
{
	char at[TIMESTAMP_SIZE];

	return json_pack("{s:s, s:f, s:f, s:f, s:I, s:o, s:o}", "at", timestamp_print(number * 60000000, at),
			 "received_per_s", m->sums[RECEIVED] / 60, "stored_per_s", m->sums[STORED] / 60,
			 "duplicates_per_s", m->sums[DUPLICATES] / 60, "dead_lettered",
			 (json_int_t)m->sums[DEAD_LETTERED], "p50_ms", describe_ms(m->sums[P50]), "p99_ms",
			 describe_ms(m->sums[P99]));
}

json_t *fleet_hour_sum(const json_t *rows)
{
	struct minute minutes[HOUR_MINUTES] = {{false, {0}}};
	int64_t first = (int64_t)time(NULL) / 60 - HOUR_MINUTES;
	json_t *all = json_array(), *row;
	size_t i;

	json_array_foreach(rows, i, row)
		add_hour(minutes, first, json_object_get(json_object_get(row, "report"), "hour"));
	for (int n = 0; n < HOUR_MINUTES; n++)
		if (minutes[n].is_known)
			json_array_append_new(all, describe(&minutes[n], first + n));
	return all;
}
