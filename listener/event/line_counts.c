/* line_counts.c computes what /metrics shows of this process's lines. The check-in reads the rows of finished minutes,
 * and line_verdict.c judges them. */
#include "event/line_counts.h"

#include <stdlib.h>
#include <string.h>

#include "event/line_verdict.h"

#define MINUTES_A_TIME 10 /* minutes per check-in, after an outage of Postgres */

enum column {
	MINUTE,
	SOURCE,
	RECEIVED,
	RECEIVED_SUM,
	STORED,
	STORED_SUM,
	UNKNOWN,
	RECONNECTS,
	UP,
	LISTENER,
	AFTER,
	LENGTH
};

/* Skip the first minute: an earlier process may have reported the start of it. */
json_t *line_counts_ask(struct line_counts *n, int64_t wall_ms)
{
	if (!n->next)
		n->first = n->next = n->end = wall_ms / LINE_MINUTE_MS + 1;
	n->asked_ms = wall_ms;
	n->asked_end = n->end > n->next + MINUTES_A_TIME ? n->next + MINUTES_A_TIME : n->end;
	return json_pack("[I, I]", (json_int_t)n->next, (json_int_t)n->asked_end);
}

/* The next check-in counts minutes up to this one: by then other listeners have reported their late copies. */
void line_counts_told(struct line_counts *n, bool is_told)
{
	int64_t end = (n->asked_ms - LINE_LATE_MS) / LINE_MINUTE_MS - 1;

	if (!n->next)
		return;
	if (!is_told) { /* a check-in that asked for nothing may be answered first */
		n->asked_end = n->next;
		n->asked_ms = 0;
		return;
	}
	n->next = n->asked_end;
	n->end = end > n->end ? end : n->end;
}

static int64_t number(const json_t *row, enum column column)
{
	return json_integer_value(json_array_get(row, column));
}

static const char *text(const json_t *row, enum column column)
{
	const char *s = json_string_value(json_array_get(row, column));

	return s ? s : "";
}

static void read_row(struct line_row *row, const json_t *from)
{
	const json_t *up = json_array_get(from, UP);

	*row = (struct line_row){.received = (uint64_t)number(from, RECEIVED),
				 .received_sum = (uint64_t)number(from, RECEIVED_SUM),
				 .stored = (uint64_t)number(from, STORED),
				 .stored_sum = (uint64_t)number(from, STORED_SUM),
				 .unknown = (uint64_t)number(from, UNKNOWN),
				 .reconnects = (unsigned int)number(from, RECONNECTS)};
	for (; row->spans < LINE_UP_MAX && 2 * row->spans + 1 < json_array_size(up); row->spans++)
		for (size_t i = 0; i < 2; i++)
			row->up[row->spans][i] =
				(int)json_integer_value(json_array_get(up, 2 * (size_t)row->spans + i));
	line_row_place(row, text(from, LISTENER), number(from, AFTER), number(from, LENGTH));
}

/* True if row belongs to line. After the instance, rows of further lines have the line's number. */
static bool is_of(const struct line_row *row, const struct line *line, const char *instance)
{
	size_t len = strlen(instance);
	const char *rest = row->instance + len;

	if (strncmp(row->instance, instance, len) != 0)
		return false;
	return line->number ? *rest == '/' && strtoul(rest + 1, NULL, 10) == line->number + 1 : !*rest;
}

static void add_minute(struct line *line, const char *instance, const struct line_verdict *v)
{
	for (size_t i = 0; i < v->open_count; i++)
		line->open_ms += v->open[i][1] - v->open[i][0];
	for (size_t i = 0; i < v->count; i++)
		if (is_of(v->lines[i].row, line, instance))
			line->missing += v->lines[i].missing;
}

void line_counts_take(struct line_minutes *all, struct line_counts *n, const char *rows, size_t len)
{
	static struct line_row minute[LINES_A_TIME];
	static struct line_verdict v;
	json_t *list = json_loadb(rows, len, 0, NULL);
	size_t count = json_array_size(list), used = 0;

	for (size_t i = 0; i < count; i++) {
		const json_t *row = json_array_get(list, i), *next = json_array_get(list, i + 1);
		struct line_row read;
		struct line *line;

		read_row(&read, row);
		used = line_row_add(minute, used, &read);
		if (next && number(next, MINUTE) == number(row, MINUTE) &&
		    strcmp(text(next, SOURCE), text(row, SOURCE)) == 0)
			continue;
		used = line_row_end(minute, used);
		line_verdict(&v, minute, used, 0, minute->length_ms);
		if (number(row, MINUTE) >= n->first)
			for (unsigned int k = 0; (line = line_minutes_find(all, text(row, SOURCE), k)); k++)
				add_minute(line, n->instance, &v);
		used = 0;
	}
	json_decref(list);
}
