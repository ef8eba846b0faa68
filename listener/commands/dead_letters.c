/* dead_letters.c owns `wsonce dead-letters list`: what could not be stored, grouped by reason. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "dispatch.h"
#include "session.h"

struct list_options {
	bool is_json;
	int64_t limit;
};

static const struct option list_options[] = {
	{"limit", OPTION_NUMBER, offsetof(struct list_options, limit), "N", 1, 1000000, NULL,
	 "at most so many reasons (20)"},
	{"json", OPTION_SWITCH, offsetof(struct list_options, is_json), NULL, 0, 0, NULL, "for machines"},
};

static const struct list_options list_defaults = {.limit = 20};

static const char sql_list[] =
	"SELECT reason, count(*), sum(seen) FROM dead_letters GROUP BY reason ORDER BY 2 DESC, 1 LIMIT $1";

static void print_group(const struct pg_result *rows, size_t row, bool is_json, bool is_first)
{
	json_t *group;
	char *text;

	if (!is_json) {
		printf("%8" PRId64 "  %s\n", session_number(rows, row, 1), session_text(rows, row, 0));
		return;
	}
	group = json_pack("{s:s,s:I,s:I}", "reason", session_text(rows, row, 0), "letters",
			  (json_int_t)session_number(rows, row, 1), "seen", (json_int_t)session_number(rows, row, 2));
	text = json_dumps(group, JSON_COMPACT);
	printf("%s%s", is_first ? "" : ",", text);
	free(text);
	json_decref(group);
}

static int run_list(const struct invocation *in)
{
	const struct list_options *o = in->options;
	struct session *s = session_open(in->config);
	struct pg_result *rows;
	char limit[24];
	const char *values[] = {limit};

	if (!s)
		return STATUS_FAILED;
	snprintf(limit, sizeof(limit), "%" PRId64, o->limit);
	rows = session_ask(s, sql_list, 1, values);
	if (rows && o->is_json)
		printf("[");
	for (size_t i = 0; rows && i < session_count(rows); i++)
		print_group(rows, i, o->is_json, !i);
	if (rows && o->is_json)
		printf("]\n");
	session_drop(rows);
	session_close(s);
	return rows ? STATUS_FINE : STATUS_FAILED;
}

const struct command dead_letters_list = {
	.name = "dead-letters list",
	.arguments = "",
	.summary = "what could not be stored, grouped by reason",
	.help = "Lists the dead letters that are open, grouped by reason.\n",
	.options = list_options,
	.option_count = sizeof(list_options) / sizeof(list_options[0]),
	.options_size = sizeof(struct list_options),
	.defaults = &list_defaults,
	.run = run_list,
};
