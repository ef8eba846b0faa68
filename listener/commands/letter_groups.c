/* letter_groups.c owns the form of a list of groups. */
#include "commands/letter_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/dispatch.h"

enum column { HEADING, COUNT, TIMES, FIRST, LAST, JSON, GROUPS };

static void print_example(const json_t *example)
{
	const json_t *event_id = json_object_get(example, "event_id");

	printf("          %" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(example, "id")));
	if (json_is_string(event_id)) {
		fputs("  ", stdout);
		json_out_text(json_string_value(event_id), json_string_length(event_id), true);
	}
	putchar('\n');
}

static void print_group(const struct letter_groups *g, const struct pg_result *rows, size_t row, const json_t *group)
{
	const char *heading = session_text(rows, row, HEADING);
	size_t i;
	json_t *example;

	printf("\n%8" PRId64 "  ", session_number(rows, row, COUNT));
	json_out_text(heading, strlen(heading), true);
	printf("\n          %s %" PRId64 " times, from %s to %s\n", g->times, session_number(rows, row, TIMES),
	       session_text(rows, row, FIRST), session_text(rows, row, LAST));
	json_array_foreach(json_object_get(group, "examples"), i, example) print_example(example);
}

static void print_text(const struct letter_groups *g, const struct pg_result *rows, const struct letter_ids *ids,
		       int64_t groups)
{
	int64_t more = groups - (int64_t)session_count(rows);

	if (ids->looked_at)
		printf("%s: %zu of the newest %zu, reasons: %" PRId64 " (--newest 0 looks at all)\n", g->title,
		       ids->count, ids->looked_at, groups);
	else
		printf("%s: %zu, reasons: %" PRId64 "\n", g->title, ids->count, groups);
	for (size_t i = 0; i < session_count(rows); i++) {
		json_t *group = json_loads(session_text(rows, i, JSON), 0, NULL);

		print_group(g, rows, i, group);
		json_decref(group);
	}
	if (more)
		printf("\nand %" PRId64 " more reasons: --limit\n", more);
}

static void print_json(const struct letter_groups *g, const struct pg_result *rows, const struct letter_ids *ids,
		       int64_t groups, struct json_out *out)
{
	json_out_member(out, g->name, json_integer((json_int_t)ids->count));
	json_out_member(out, "newest", ids->looked_at ? json_integer((json_int_t)ids->looked_at) : json_null());
	json_out_member(out, "reasons", json_integer(groups));
	json_out_list(out, "groups");
	for (size_t i = 0; i < session_count(rows); i++)
		json_out_item(out, json_loads(session_text(rows, i, JSON), 0, NULL));
	json_out_list_end(out);
}

int letter_groups_print(const struct letter_groups *g, struct session *s, const struct letter_ids *ids, int64_t limit,
			int64_t examples, struct json_out *out)
{
	char number[24], few[24], *array = letters_array(ids, 0, ids->count);
	const char *values[] = {array, number, few};
	struct pg_result *rows;
	int64_t groups;

	snprintf(number, sizeof(number), "%" PRId64, limit);
	snprintf(few, sizeof(few), "%" PRId64, examples);
	rows = g->lite_sql ? session_ask_either(s, g->sql, g->lite_sql, 3, values) : session_ask(s, g->sql, 3, values);
	free(array);
	if (!rows)
		return -1;
	groups = session_count(rows) ? session_number(rows, 0, GROUPS) : 0;
	if (out)
		print_json(g, rows, ids, groups, out);
	else
		print_text(g, rows, ids, groups);
	session_drop(rows);
	return 0;
}
