/* stats.c owns `wsonce stats duplicates`: how many further copies of events listeners counted per day
 * (store/checkin.c), and which --dedup-window they suggest. Postgres makes the object and the text. */
#include <jansson.h>
#include <string.h>

#include "commands/table.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "duplicates.sql.h"
#include "duplicates_text.sql.h"

int stats_duplicates(const struct invocation *in)
{
	static const char told[] = "WITH told (d) AS (" SQL_DUPLICATES ") " SQL_DUPLICATES_TEXT;
	const struct given *o = in->options;
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
