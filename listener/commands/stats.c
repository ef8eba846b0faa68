/* stats.c owns `wsonce stats duplicates`: how many further copies of events listeners counted per day
 * (store/checkin.c), and which --dedup-window they suggest. Postgres makes the object and the text. */
#include <jansson.h>
#include <string.h>

#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "duplicates.sql.h"
#include "duplicates_text.sql.h"

struct stats_options {
	int64_t since_us;
	bool is_json;
};

static const struct option stats_options[] = {
	{"since", OPTION_MOMENT, offsetof(struct stats_options, since_us), "TIME", 0, 0, NULL,
	 "only days (UTC) from this one on: RFC 3339, or an age such as 7d; default: all days"},
	{"json", OPTION_SWITCH, offsetof(struct stats_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static int run_stats(const struct invocation *in)
{
	static const char told[] = "WITH told (d) AS (" SQL_DUPLICATES ") " SQL_DUPLICATES_TEXT;
	const struct stats_options *o = in->options;
	AUTO_ROWS *rows =
		session_query(in->session, told, NULL, "nn", o->since_us, (int64_t)in->config->dedup_window_s);

	if (!rows)
		return STATUS_FAILED;
	if (o->is_json) {
		json_out_object(json_loads(session_text(rows, 0, 0), 0, NULL));
	} else {
		json_out_text(session_text(rows, 0, 1), strlen(session_text(rows, 0, 1)), false);
		putchar('\n');
	}
	return STATUS_FINE;
}

const struct subcommand stats_duplicates = {
	.name = "stats duplicates",
	COMMAND_OPTIONS(stats_options, struct stats_options),
	.settings = SETTINGS_STORE " dedup-window",
	.session = SESSION_UPGRADE,
	.run = run_stats,
};
