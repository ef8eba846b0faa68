/* stats.c owns `wsonce stats duplicates`: how many further copies of events listeners counted, day by day
 * (store/checkin.c), and what follows for --dedup-window. Postgres makes the object that --json prints; the text is
 * made from it. */
#include <inttypes.h>
#include <jansson.h>

#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "duplicates.sql.h"

#define BAR_WIDTH 40
#define MIB       1048576.0

struct stats_options {
	int64_t since_us;
	bool is_json;
};

static const struct option stats_options[] = {
	{"since", OPTION_MOMENT, offsetof(struct stats_options, since_us), "TIME", 0, 0, NULL,
	 "only days (UTC) from this one on: RFC 3339, or an age such as 7d; default: all days"},
	{"json", OPTION_SWITCH, offsetof(struct stats_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* --- reading --- */

/* NULL after saying why. */
static json_t *read_duplicates(struct session *s, const struct config *config, int64_t since_us)
{
	struct pg_result *rows = session_query(s, SQL_DUPLICATES, NULL, "nn", since_us, config->dedup_window_s);
	json_t *found = rows ? json_loads(session_text(rows, 0, 0), 0, NULL) : NULL;

	session_drop(rows);
	return found;
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

static void print_pair(const char *name, const json_t *pair)
{
	char delay[24];

	if (json_is_object(pair))
		json_out_line("  %-28s %12s  %s", name, print_delay(member_real(pair, "ms") / 1000, delay),
			      member_text(pair, "event_id"));
}

static void print_keys(const json_t *d)
{
	static const char *const names[][2] = {{"keys_twice", "keys that came twice"},
					       {"keys_three_times", "keys that came three times"},
					       {"keys_more_often", "keys that came more often"}};

	for (size_t i = 0; i < 3; i++)
		printf("  %-28s %12lld%s\n", names[i][1], (long long)member_number(d, names[i][0]),
		       json_is_true(json_object_get(d, "keys_are_estimated")) ? "  estimated" : "");
	print_pair("closest pair", json_object_get(d, "closest"));
	print_pair("farthest pair", json_object_get(d, "farthest"));
}

/* Prints a line for each delay from the first to the last, those without copies too. */
static void print_plot(const json_t *delays)
{
	json_int_t from_ms = member_number(json_array_get(delays, 0), "from_ms"), most = 1;
	json_t *delay;
	char from[24];
	size_t i;

	json_array_foreach(delays, i, delay)
	{
		if (member_number(delay, "copies") > most)
			most = member_number(delay, "copies");
	}
	printf("\n  delay from        copies\n");
	for (i = 0; i < json_array_size(delays); from_ms = from_ms ? from_ms * 2 : 1) {
		const json_t *next = json_array_get(delays, i);
		json_int_t copies = member_number(next, "from_ms") == from_ms ? member_number(next, "copies") : 0;

		i += copies > 0;
		printf("  %9s %14lld %.*s\n", print_delay((double)from_ms / 1000, from), (long long)copies,
		       (int)((copies * BAR_WIDTH + most - 1) / most), "########################################");
	}
}

static void print_windows(const json_t *d)
{
	double rate = member_real(d, "events_per_second");
	json_t *window;
	size_t i;

	printf("\n  --dedup-window    copies within    Redis, at %.*f events/s (%lld bytes a mark)\n",
	       rate < 10 ? 2 : 0, rate, (long long)member_number(d, "bytes_per_mark"));
	json_array_foreach(json_object_get(d, "windows"), i, window)
	{
		json_int_t seconds = member_number(window, "seconds");

		printf("  %14lld    %11.2f %%    %10.1f MiB%s\n", (long long)seconds,
		       100 * member_real(window, "share_within"), member_real(window, "redis_bytes") / MIB,
		       seconds == member_number(d, "dedup_window_s") ? "  (now)" : "");
	}
}

static void print_text(const json_t *d, bool is_since)
{
	if (!*member_text(d, "first_day")) {
		printf("nothing is counted %s; listeners report once a minute and when they stop\n",
		       is_since ? "since then" : "yet");
		return;
	}
	printf("duplicates from %s to %s (UTC)\n\n", member_text(d, "first_day"), member_text(d, "last_day"));
	printf("  %-28s %12lld\n", "events stored", (long long)member_number(d, "events"));
	printf("  %-28s %12lld\n", "further copies", (long long)member_number(d, "copies"));
	if (member_number(d, "copies")) {
		print_keys(d);
		print_plot(json_object_get(d, "delays"));
	}
	print_windows(d);
	printf("\n%s\n", member_text(d, "advice"));
}

/* --- the command --- */

static int run_stats(const struct invocation *in)
{
	const struct stats_options *o = in->options;
	json_t *found = read_duplicates(in->session, in->config, o->since_us);

	if (!found)
		return STATUS_FAILED;
	if (!o->is_json)
		print_text(found, o->since_us);
	else
		json_out_object(json_incref(found));
	json_decref(found);
	return STATUS_FINE;
}

const struct subcommand stats_duplicates = {
	.name = "stats duplicates",
	COMMAND_OPTIONS(stats_options, struct stats_options),
	.settings = SETTINGS_STORE " dedup-window",
	.open = session_open,
	.run = run_stats,
};
