/* examples.c collects examples of a feed, as JSON. */
#include "commands/examples.h"

#include <string.h>

#include "base/text.h"
#include "commands/json_out.h"

#define REJECTED_MOST 5
#define MESSAGE_BYTES 300 /* of a rejected message */

/* Begins a line. Returns where. */
static size_t begin(struct bytes *list)
{
	if (list->len)
		bytes_add_byte(list, '\n');
	return list->len;
}

/* JSON of a feed may have newlines between its values. */
static void join_lines(struct bytes *list, size_t from)
{
	for (; from < list->len; from++)
		if ((unsigned char)list->at[from] < ' ')
			list->at[from] = ' ';
}

void examples_add(struct examples *e, const struct session_event *event)
{
	bool *has = &e->has_event[profile_rule_index(e->profile, event->rule)];
	size_t from;

	if (*has)
		return;
	*has = true;
	from = begin(&e->events);
	json_out_format(
		&e->events, "{\"rule\": %s, \"id\": %s, \"type\": %s, \"time\": %s, \"cursor\": %j, \"payload\": %j}",
		slice_of(event->rule->name), event->id, event->type, event->time, event->cursor, event->payload);
	join_lines(&e->events, from);
}

void examples_reject(struct examples *e, struct slice message, const char *why)
{
	char *text;

	if (e->rejected_count >= REJECTED_MOST || strstr(bytes_text(&e->rejected), why))
		return;
	e->rejected_count++;
	text = quote_json(message.at, message.len < MESSAGE_BYTES ? message.len : MESSAGE_BYTES);
	begin(&e->rejected);
	json_out_format(&e->rejected, "{\"why\": %s, \"message\": %j}", slice_of(why), slice_of(text));
	free(text);
}

struct slice examples_array(struct bytes *list)
{
	struct bytes array = {NULL, 0, 0};

	for (size_t i = 0; i < list->len; i++)
		if (list->at[i] == '\n')
			list->at[i] = ',';
	json_out_format(&array, "[%j]", list->len ? bytes_slice(list) : slice_of(""));
	bytes_free(list);
	*list = array;
	return bytes_slice(list);
}

void examples_free(struct examples *e)
{
	bytes_free(&e->events);
	bytes_free(&e->rejected);
}
