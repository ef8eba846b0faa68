/* stats.c owns `wsonce stats duplicates`: what listeners counted of copies, day by day (road/checkin.c), as numbers, as
 * a plot, and as advice for --dedup-window. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/dispatch.h"
#include "road/duplicates.h"
#include "commands/redis_query.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "base/memory.h"

#define BAR_WIDTH    40
#define USUAL_BYTES  165 /* of a done mark with an id of 14 bytes, measured */
#define WANTED_SHARE 0.99
#define SAMPLE       256 /* keys */
#define HOUR         INT64_C(3600)
#define DAY          (24 * HOUR)

struct stats_options {
	int64_t since_us;
	bool is_json;
};

static const struct option stats_options[] = {
	{"since", OPTION_MOMENT, offsetof(struct stats_options, since_us), "TIME", 0, 0, NULL,
	 "only days (UTC) from this one on: RFC 3339, or an age such as 7d; default: all days"},
	{"json", OPTION_SWITCH, offsetof(struct stats_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* Keys by how often they came: twice, three times, more often. */
enum { KEYS_TWICE, KEYS_THRICE, KEYS_OFTEN, KEYS };

/* An event and a copy of it. */
struct pair {
	int64_t ms; /* between them */
	char *id;   /* heap; NULL: there is none */
};

struct duplicates {
	char first_day[20];
	char last_day[20];
	int64_t events;
	int64_t copies;
	int64_t delays[DUPLICATES_DELAYS];
	int64_t keys[KEYS];
	bool is_estimate; /* keys */
	struct pair closest;
	struct pair farthest;
	double rate; /* events per second on the busiest day */
	int64_t window_s;
	int64_t mark_bytes;
	bool is_measured;
};

/* --- reading --- */

/* The rate of a day is over the seconds until now or its end, but at least an hour: the first check-in of a day reports
 * what came in the last minute of the day before. */
static const char days_sql[] =
	"SELECT pg_catalog.to_char(day, 'YYYY-MM-DD'), events, pg_catalog.array_to_string(copies, ' '), "
	"events / "
	"greatest(3600, extract(epoch FROM "
	"least(now(), (day + 1)::timestamp AT TIME ZONE 'UTC') - day::timestamp AT TIME ZONE 'UTC')) "
	"FROM :schema.wsonce_duplicates WHERE $1::bigint = 0 OR day >= (pg_catalog.to_timestamp($1::bigint / "
	"1000000.0) AT TIME ZONE "
	"'UTC')::date ORDER BY day";

static void add_delays(struct duplicates *d, const char *text)
{
	char *at = (char *)text;

	for (int i = 0; i < DUPLICATES_DELAYS && *at; i++) {
		int64_t copies = strtoll(at, &at, 10);

		d->delays[i] += copies;
		d->copies += copies;
	}
}

static void add_day(struct duplicates *d, const struct pg_result *rows, size_t row)
{
	double rate = strtod(session_text(rows, row, 3), NULL);

	if (!*d->first_day)
		snprintf(d->first_day, sizeof(d->first_day), "%s", session_text(rows, row, 0));
	snprintf(d->last_day, sizeof(d->last_day), "%s", session_text(rows, row, 0));
	d->events += session_number(rows, row, 1);
	add_delays(d, session_text(rows, row, 2));
	if (d->rate < rate)
		d->rate = rate;
}

/* The 256 keys with the smallest hashes, of all days together, see sql/migrations/014_duplicate_keys.sql. */
static const char keys_sql[] =
	"WITH days AS (SELECT * FROM :schema.wsonce_duplicates WHERE $1::bigint = 0 OR day >="
	" (pg_catalog.to_timestamp($1::bigint / 1000000.0) AT TIME ZONE 'UTC')::date),"
	" sample AS (SELECT key, pg_catalog.sum(value::bigint) AS copies FROM days,"
	" LATERAL pg_catalog.jsonb_each_text(keys) GROUP BY key ORDER BY key COLLATE \"C\" LIMIT 256)"
	" SELECT count(*) FILTER (WHERE copies = 1), count(*) FILTER (WHERE copies = 2),"
	" count(*) FILTER (WHERE copies > 2), count(*), pg_catalog.max(key COLLATE \"C\"), c->>0, c->>1, f->>0, f->>1"
	" FROM sample, (SELECT pg_catalog.array_agg(closest ORDER BY closest),"
	" pg_catalog.array_agg(farthest ORDER BY farthest DESC NULLS LAST) FROM days) AS pairs (closest, farthest),"
	" LATERAL (VALUES (closest[1], farthest[1])) AS p (c, f) GROUP BY c, f";

static void read_pair(const struct pg_result *rows, int column, struct pair *pair)
{
	if (session_is_null(rows, 0, column))
		return;
	pair->ms = session_number(rows, 0, column);
	pair->id = memory_strdup(session_text(rows, 0, column + 1));
}

/* Hashes are spread evenly: if 256 of them are below some number, as many are in each part of that size. */
static int read_keys(struct session *s, const char *since, struct duplicates *d)
{
	struct pg_result *rows = session_ask(s, keys_sql, 1, &since);

	if (rows && session_count(rows)) {
		double highest = (double)strtoull(session_text(rows, 0, 4), NULL, 16), factor = 1;

		d->is_estimate = session_number(rows, 0, 3) == SAMPLE;
		if (d->is_estimate)
			factor = (SAMPLE - 1) * ldexp(1, 64) / highest / SAMPLE;
		for (int i = 0; i < KEYS; i++)
			d->keys[i] = llround((double)session_number(rows, 0, i) * factor);
		read_pair(rows, 5, &d->closest);
		read_pair(rows, 7, &d->farthest);
	}
	session_drop(rows);
	return rows ? 0 : -1;
}

static int read_days(struct session *s, const struct stats_options *o, struct duplicates *d)
{
	char since[24];
	const char *values[] = {since};
	struct pg_result *rows;

	snprintf(since, sizeof(since), "%" PRId64, o->since_us);
	rows = session_ask(s, days_sql, 1, values);
	for (size_t i = 0; rows && i < session_count(rows); i++)
		add_day(d, rows, i);
	session_drop(rows);
	return rows ? read_keys(s, since, d) : -1;
}

/* Takes the window of the listener that was seen last, or our own setting. */
static int read_window(struct session *s, const struct config *config, struct duplicates *d)
{
	struct pg_result *rows = session_ask(
		s, "SELECT dedup_window_s FROM :schema.wsonce_listeners ORDER BY seen_at DESC, listener LIMIT 1", 0,
		NULL);

	if (!rows)
		return -1;
	d->window_s = session_count(rows) ? session_number(rows, 0, 0) : config->dedup_window_s;
	session_drop(rows);
	return 0;
}

static void measure_mark(const struct config *config, struct duplicates *d)
{
	struct redis_query *marks = redis_query_open(config);

	d->mark_bytes = redis_query_measure(marks);
	d->is_measured = d->mark_bytes > 0;
	if (!d->is_measured)
		d->mark_bytes = USUAL_BYTES;
	redis_query_close(marks);
}

/* --- advice --- */

static double bucket_from_s(int i)
{
	return i ? ldexp(1, i - 1) / 1000 : 0;
}

/* Returns the share of all copies that came within this delay, assuming an even spread inside a bucket. The last bucket
 * has no end, so its copies are never within. */
static double share_within(const struct duplicates *d, double seconds)
{
	double within = 0;

	for (int i = 0; i < DUPLICATES_DELAYS - 1; i++) {
		double from = bucket_from_s(i), to = bucket_from_s(i + 1);

		if (seconds >= to)
			within += (double)d->delays[i];
		else if (seconds > from)
			within += (double)d->delays[i] * (seconds - from) / (to - from);
	}
	return d->copies ? within / (double)d->copies : 1;
}

static double window_bytes(const struct duplicates *d, double seconds)
{
	return d->rate * seconds * (double)d->mark_bytes;
}

static const int64_t windows[] = {60, 300, 900, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY};

#define WINDOWS ((int)(sizeof(windows) / sizeof(windows[0])))

/* Returns the shortest of the windows with the wanted share; 0 if none has it. */
static int64_t find_window(const struct duplicates *d)
{
	for (int i = 0; i < WINDOWS; i++)
		if (share_within(d, (double)windows[i]) >= WANTED_SHARE)
			return windows[i];
	return 0;
}

static void advise(const struct duplicates *d, char *out, size_t size)
{
	int64_t window = find_window(d);
	double now = share_within(d, (double)d->window_s);

	if (!d->copies)
		snprintf(out, size, "No event came more than once: --dedup-window may be short.");
	else if (now >= WANTED_SHARE)
		snprintf(out, size,
			 "--dedup-window %" PRId64
			 " is long enough: %.2f %% of the copies come within it. The unique key "
			 "absorbs the others, which is as safe.",
			 d->window_s, 100 * now);
	else if (window)
		snprintf(out, size,
			 "--dedup-window %" PRId64
			 " would spare Postgres %.1f %% of the copies, which now meet the unique "
			 "key, and take about %.1f MiB of Redis instead of %.1f MiB. Both are safe.",
			 window, 100 * (share_within(d, (double)window) - now),
			 window_bytes(d, (double)window) / 1048576, window_bytes(d, (double)d->window_s) / 1048576);
	else
		snprintf(out, size,
			 "%.1f %% of the copies come more than 30 days late: no --dedup-window is long enough for "
			 "those, "
			 "and the unique key absorbs them.",
			 100 * (1 - share_within(d, (double)windows[WINDOWS - 1])));
}

/* --- text --- */

/* Prints a delay in a fitting unit: "4 ms", "2.1 h". */
static const char *print_delay(double seconds, char out[24])
{
	static const struct {
		double seconds;
		const char *unit;
	} units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}, {0.001, "ms"}};
	size_t i = 0;

	while (i < 4 && seconds < units[i].seconds)
		i++;
	snprintf(out, 24, "%.3g %s", seconds / units[i].seconds, units[i].unit);
	return out;
}

static void print_pair(const char *name, const struct pair *pair)
{
	char delay[24];

	if (!pair->id)
		return;
	printf("  %-28s %12s  ", name, print_delay((double)pair->ms / 1000, delay));
	json_out_text(pair->id, strlen(pair->id), true);
	putchar('\n');
}

static void print_keys(const struct duplicates *d)
{
	const char *remark = d->is_estimate ? "  estimated" : "";

	printf("  %-28s %12" PRId64 "%s\n", "keys that came twice", d->keys[KEYS_TWICE], remark);
	printf("  %-28s %12" PRId64 "%s\n", "keys that came three times", d->keys[KEYS_THRICE], remark);
	printf("  %-28s %12" PRId64 "%s\n", "keys that came more often", d->keys[KEYS_OFTEN], remark);
	print_pair("closest pair", &d->closest);
	print_pair("farthest pair", &d->farthest);
}

static void print_plot(const struct duplicates *d)
{
	int first = 0, last = DUPLICATES_DELAYS - 1;
	int64_t most = 1;
	char from[24];

	while (first < last && !d->delays[first])
		first++;
	while (last > first && !d->delays[last])
		last--;
	for (int i = first; i <= last; i++)
		most = d->delays[i] > most ? d->delays[i] : most;
	printf("\n  delay from        copies\n");
	for (int i = first; i <= last; i++) {
		int width = (int)((d->delays[i] * BAR_WIDTH + most - 1) / most);

		printf("  %9s %14" PRId64 " %.*s\n", print_delay(bucket_from_s(i), from), d->delays[i], width,
		       "########################################");
	}
}

static void print_window(const struct duplicates *d, int64_t window)
{
	printf("  %14" PRId64 "    %11.2f %%    %10.1f MiB%s\n", window, 100 * share_within(d, (double)window),
	       window_bytes(d, (double)window) / 1048576, window == d->window_s ? "  (now)" : "");
}

static void print_windows(const struct duplicates *d)
{
	int i = 0, decimals = d->rate < 10 ? 2 : 0;

	printf("\n  --dedup-window    copies within    Redis, at %.*f events/s (%" PRId64 " bytes a mark, %s)\n",
	       decimals, d->rate, d->mark_bytes, d->is_measured ? "measured" : "as usual");
	for (; i < WINDOWS && windows[i] < d->window_s; i++)
		print_window(d, windows[i]);
	print_window(d, d->window_s);
	for (; i < WINDOWS; i++)
		if (windows[i] != d->window_s)
			print_window(d, windows[i]);
}

static void print_text(const struct duplicates *d, bool is_since)
{
	char advice[400];

	if (!*d->first_day) {
		printf("nothing is counted %s; listeners report once a minute and when they stop\n",
		       is_since ? "since then" : "yet");
		return;
	}
	printf("duplicates from %s to %s (UTC)\n\n", d->first_day, d->last_day);
	printf("  %-28s %12" PRId64 "\n", "events stored", d->events);
	printf("  %-28s %12" PRId64 "\n", "further copies", d->copies);
	if (d->copies) {
		print_keys(d);
		print_plot(d);
	}
	print_windows(d);
	advise(d, advice, sizeof(advice));
	printf("\n%s\n", advice);
}

/* --- JSON --- */

static json_t *describe_delays(const struct duplicates *d)
{
	json_t *all = json_array();

	for (int i = 0; i < DUPLICATES_DELAYS; i++)
		if (d->delays[i])
			json_array_append_new(all, json_pack("{s:I, s:I}", "from_ms",
							     (json_int_t)llround(bucket_from_s(i) * 1000), "copies",
							     (json_int_t)d->delays[i]));
	return all;
}

static json_t *describe_windows(const struct duplicates *d)
{
	json_t *all = json_array();

	for (int i = 0; i < WINDOWS; i++)
		json_array_append_new(all, json_pack("{s:I, s:f, s:I}", "seconds", (json_int_t)windows[i],
						     "share_within", share_within(d, (double)windows[i]), "redis_bytes",
						     (json_int_t)llround(window_bytes(d, (double)windows[i]))));
	return all;
}

static json_t *describe_pair(const struct pair *pair)
{
	return pair->id ? json_pack("{s:o, s:I}", "event_id", json_out_string(pair->id), "ms", (json_int_t)pair->ms)
			: NULL;
}

static void print_json(const struct duplicates *d)
{
	struct json_out out;
	char advice[400];

	advise(d, advice, sizeof(advice));
	json_out_open(&out);
	json_out_member(&out, "first_day", json_out_string(*d->first_day ? d->first_day : NULL));
	json_out_member(&out, "last_day", json_out_string(*d->last_day ? d->last_day : NULL));
	json_out_member(&out, "events", json_integer((json_int_t)d->events));
	json_out_member(&out, "copies", json_integer((json_int_t)d->copies));
	json_out_member(&out, "keys_twice", json_integer((json_int_t)d->keys[KEYS_TWICE]));
	json_out_member(&out, "keys_three_times", json_integer((json_int_t)d->keys[KEYS_THRICE]));
	json_out_member(&out, "keys_more_often", json_integer((json_int_t)d->keys[KEYS_OFTEN]));
	json_out_member(&out, "keys_are_estimated", json_boolean(d->is_estimate));
	json_out_member(&out, "closest", describe_pair(&d->closest));
	json_out_member(&out, "farthest", describe_pair(&d->farthest));
	json_out_member(&out, "delays", describe_delays(d));
	json_out_member(&out, "dedup_window_s", json_integer((json_int_t)d->window_s));
	json_out_member(&out, "share_within", json_real(share_within(d, (double)d->window_s)));
	json_out_member(&out, "events_per_second", json_real(d->rate));
	json_out_member(&out, "bytes_per_mark", json_integer((json_int_t)d->mark_bytes));
	json_out_member(&out, "is_measured", json_boolean(d->is_measured));
	json_out_member(&out, "windows", describe_windows(d));
	json_out_member(&out, "advice", json_out_string(advice));
	json_out_close(&out);
}

/* --- the command --- */

static int run_stats(const struct invocation *in)
{
	const struct stats_options *o = in->options;
	struct session *s = session_open(in->config);
	struct duplicates d = {.events = 0};
	int failed = !s || read_days(s, o, &d) || read_window(s, in->config, &d);

	session_close(s);
	if (!failed) {
		measure_mark(in->config, &d);
		if (o->is_json)
			print_json(&d);
		else
			print_text(&d, o->since_us);
	}
	free(d.closest.id);
	free(d.farthest.id);
	return failed ? STATUS_FAILED : STATUS_FINE;
}

const struct subcommand stats_duplicates = {
	.name = "stats duplicates",
	.arguments = "",
	.summary = "show how often and how late further copies come",
	.help = "Shows how many further copies of events came, how many ids came two, three or more times, how long "
		"after the first the copies came, and which --dedup-window fits. Listeners report once a minute and "
		"when they stop. On a feed each listener gets every event, and these copies count too.",
	COMMAND_OPTIONS(stats_options, struct stats_options),
	.settings = SETTINGS_BOTH " dedup-window",
	.run = run_stats,
};
