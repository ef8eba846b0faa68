/* letter_record.c owns the form of one row that is shown whole. */
#include "commands/letter_record.h"

#include <inttypes.h>
#include <stdio.h>

#include "commands/dispatch.h"

int letter_record_open(struct letter_record *r, const struct pg_result *row)
{
	const char *actions = session_is_null(row, 0, 1) ? "[]" : session_text(row, 0, 1);

	r->fields = json_loads(session_text(row, 0, 0), 0, NULL);
	r->actions = json_loads(actions, 0, NULL);
	return r->fields && r->actions ? 0 : -dispatch_fail("the row cannot be shown");
}

void letter_record_close(struct letter_record *r)
{
	json_decref(r->fields);
	json_decref(r->actions);
}

void letter_record_json(const struct letter_record *r, struct json_out *out)
{
	const char *name;
	json_t *value;

	json_object_foreach(r->fields, name, value) json_out_member(out, name, json_incref(value));
	json_out_member(out, "actions", json_incref(r->actions));
}

static void print_string(const json_t *value)
{
	json_out_text(json_string_value(value), json_string_length(value), true);
}

static void print_field(const char *name, const json_t *value)
{
	if (!json_is_integer(value) && !json_string_length(value))
		return;
	printf("%-12s ", name);
	if (json_is_integer(value))
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		print_string(value);
	putchar('\n');
}

static void print_action(const json_t *action)
{
	const json_t *outcome = json_object_get(action, "outcome"), *note = json_object_get(action, "note");

	printf("%-12s %s %s%s%s, by ", "action", json_string_value(json_object_get(action, "done_at")),
	       json_string_value(json_object_get(action, "action")), outcome ? ": " : "",
	       outcome ? json_string_value(outcome) : "");
	print_string(json_object_get(action, "db_user"));
	fputs(" as ", stdout);
	print_string(json_object_get(action, "instance_id"));
	if (note)
		fputs(": ", stdout);
	print_string(note);
	putchar('\n');
}

void letter_record_text(const struct letter_record *r)
{
	const char *name;
	json_t *value;
	size_t i;

	json_object_foreach(r->fields, name, value) print_field(name, value);
	json_array_foreach(r->actions, i, value) print_action(value);
}
