/* line_verdict.c has the rules by which `wsonce lines` judges a minute. */
#include "event/line_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/line_minutes.h"

const char *line_state_name(enum line_state state)
{
	static const char *const names[] = {"verified", "covered", "unverified", "differing", "open"};

	return names[state];
}

/* --- connections --- */

/* Returns the end of the time, starting at `at`, in which at least one of n rows was connected; `at` if none was. */
static int connected_until(const struct line_row *rows, size_t n, int at)
{
	bool has_moved = true;

	while (has_moved) {
		has_moved = false;
		for (size_t i = 0; i < n; i++)
			for (unsigned int k = 0; k < rows[i].spans; k++)
				if (rows[i].up[k][0] <= at && rows[i].up[k][1] > at) {
					at = rows[i].up[k][1];
					has_moved = true;
				}
	}
	return at;
}

/* Returns the next moment after `at` at which one of them is connected, or to_ms. */
static int connected_from(const struct line_row *rows, size_t n, int at, int to_ms)
{
	int next = to_ms;

	for (size_t i = 0; i < n; i++)
		for (unsigned int k = 0; k < rows[i].spans; k++)
			if (rows[i].up[k][0] > at && rows[i].up[k][0] < next)
				next = rows[i].up[k][0];
	return next;
}

/* Writes the spans in [from_ms, to_ms) without a connection. If there is no room for another span, extends the last
 * one. */
static size_t find_open(const struct line_row *rows, size_t n, int from_ms, int to_ms, int open[][2], size_t most,
			int *open_ms)
{
	size_t count = 0;

	*open_ms = 0;
	for (int at = connected_until(rows, n, from_ms); at < to_ms; at = connected_until(rows, n, at)) {
		int next = connected_from(rows, n, at, to_ms);

		*open_ms += next - at;
		if (count < most)
			open[count++][0] = at;
		open[count - 1][1] = next;
		at = next;
	}
	return count;
}

static bool is_full(const struct line_row *row)
{
	return !row->is_patched && connected_until(row, 1, 0) >= row->length_ms;
}

void line_row_place(struct line_row *row, const char *listener, int64_t after, int64_t minutes)
{
	int len = (int)strlen(listener) - 17; /* a dot, and the number of the process */

	snprintf(row->instance, sizeof(row->instance), "%.*s", len > 0 ? len : 0, listener);
	row->process = len > 0 ? strtoull(listener + len + 1, NULL, 16) : 0;
	row->length_ms = (int)minutes * LINE_MINUTE_MS;
	for (unsigned int i = 0; i < row->spans; i++)
		for (int k = 0; k < 2; k++)
			row->up[i][k] += (int)after * LINE_MINUTE_MS;
}

static void add_spans(struct line_row *into, const struct line_row *more)
{
	for (unsigned int i = 0; i < more->spans; i++) {
		int *last = into->spans ? into->up[into->spans - 1] : NULL;

		if (last && last[1] == more->up[i][0])
			last[1] = more->up[i][1];
		else if (into->spans < LINE_UP_MAX)
			memcpy(into->up[into->spans++], more->up[i], sizeof(into->up[0]));
	}
}

/* Adds the figures that can be summed for any processes. */
static void add_sums(struct line_row *into, const struct line_row *more)
{
	if (more->has_behind && (!into->has_behind || more->received > into->received)) {
		memcpy(into->behind, more->behind, sizeof(into->behind));
		into->has_behind = true;
	}
	into->stored += more->stored;
	into->stored_sum += more->stored_sum;
	into->unknown += more->unknown;
	into->gap += more->gap;
	into->filled += more->filled;
	into->disagree += more->disagree;
	into->has_numbers |= more->has_numbers;
	into->silent_ms += more->silent_ms;
	into->reconnects += more->reconnects;
}

void line_row_merge(struct line_row *into, const struct line_row *more)
{
	bool is_whole = is_full(into), was_empty = !into->spans && !into->received;

	add_sums(into, more);
	into->reconnects += more->spans && !was_empty;
	if (is_full(more)) {
		into->has_again |= into->received > 0;
		into->received = more->received;
		into->received_sum = more->received_sum;
	} else if (!is_whole) { /* a restarted process may receive events again */
		into->received += more->received;
		into->received_sum += more->received_sum;
	}
	into->has_again |= is_whole && !is_full(more) && more->received;
	into->is_patched = !was_empty && !is_whole && !is_full(more);
	add_spans(into, more);
}

/* Adds a row of the same process, which covers later minutes. */
static void continue_row(struct line_row *into, const struct line_row *more)
{
	add_sums(into, more);
	into->received += more->received;
	into->received_sum += more->received_sum;
	add_spans(into, more);
}

static bool is_same(const struct line_row *a, const struct line_row *b)
{
	return strcmp(a->instance, b->instance) == 0;
}

size_t line_row_end(struct line_row *all, size_t n)
{
	if (n < 2 || !is_same(&all[n - 2], &all[n - 1]))
		return n;
	line_row_merge(&all[n - 2], &all[n - 1]);
	return n - 1;
}

size_t line_row_add(struct line_row *all, size_t n, const struct line_row *row)
{
	if (n && is_same(&all[n - 1], row) && all[n - 1].process == row->process) {
		continue_row(&all[n - 1], row);
		return n;
	}
	n = line_row_end(all, n);
	if (n < LINES_A_TIME)
		all[n++] = *row;
	return n;
}

/* --- events --- */

/* Returns how many events only this line had, or -1. With two lines, these are the events that the other one missed.
 * With more, the number is known if one of the others missed nothing, or if all missed the same events. Unknown copies
 * make it unknown. */
static int64_t find_alone(const struct line_verdict *v, size_t at)
{
	const struct line_report *first = NULL;
	bool are_same = true;

	for (size_t i = 0; i < v->count; i++) {
		const struct line_report *line = &v->lines[i];

		if (i == at)
			continue;
		if (!line->absent)
			return 0;
		are_same &= !line->row->unknown && (!first || (first->absent == line->absent &&
							       first->row->received_sum == line->row->received_sum));
		first = first ? first : line;
	}
	if (!first)
		return (int64_t)v->lines[at].row->received;
	return are_same ? (int64_t)first->absent : -1;
}

/* Returns the number of all events that the lines had, as far as the rows show. */
static uint64_t find_all(const struct line_row *rows, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += rows[i].stored;
	/* A killed listener has not reported what it stored last. A restarted one may count events twice. */
	for (size_t i = 0; i < n; i++)
		if (rows[i].received > all && is_full(&rows[i]))
			all = rows[i].received;
	return all;
}

/* Compares the lines that were connected throughout. */
static enum line_state compare(const struct line_verdict *v, uint64_t stored, uint64_t stored_sum)
{
	size_t full = 0, equal = 0;
	bool is_unknown = v->count == LINES_A_TIME, has_missed = false, are_odd = false, is_unclear;
	const struct line_row *first = NULL;

	for (size_t i = 0; i < v->count; i++) {
		const struct line_row *row = v->lines[i].row;

		if (!v->lines[i].is_full)
			continue;
		full++;
		first = first ? first : row;
		is_unclear = row->unknown || (row->has_again && v->lines[i].missing);
		is_unknown |= is_unclear;
		has_missed |= !is_unclear && v->lines[i].missing;
		are_odd |= row->received == first->received && row->received_sum != first->received_sum;
		equal += row->received == stored && row->received_sum == stored_sum;
	}
	if (has_missed)
		return LINE_DIFFERING;
	if (full >= 2 && (is_unknown || are_odd))
		return LINE_UNVERIFIED;
	return full >= 2 && equal == full ? LINE_VERIFIED : LINE_COVERED;
}

static void find_lead(struct line_verdict *v, struct line_report *line)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct line_row *other = v->lines[i].row;

		if (other == line->row || !other->has_behind || !line->row->has_behind)
			continue;
		for (int k = 0; k < 2; k++) {
			int lead = other->behind[k] - line->row->behind[k];

			line->lead[k] = !line->has_lead || lead < line->lead[k] ? lead : line->lead[k];
		}
		line->has_lead = true;
	}
}

static uint64_t not_in(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

void line_verdict(struct line_verdict *v, const struct line_row *rows, size_t n, int from_ms, int to_ms)
{
	uint64_t stored = 0, stored_sum = 0;
	int open_ms;

	v->count = n;
	v->stored = find_all(rows, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t absent = not_in(v->stored, rows[i].received);
		int none[1][2] = {{0, 0}};

		stored += rows[i].stored;
		stored_sum += rows[i].stored_sum;
		find_open(&rows[i], 1, 0, to_ms, none, 1, &open_ms);
		v->lines[i] = (struct line_report){.row = &rows[i],
						   .is_full = is_full(&rows[i]),
						   .absent = absent,
						   .missing = not_in(absent, rows[i].unknown),
						   .connected_ms = to_ms - open_ms};
	}
	for (size_t i = 0; i < n; i++) {
		v->lines[i].alone = find_alone(v, i);
		find_lead(v, &v->lines[i]);
	}
	v->open_count = find_open(rows, n, from_ms, to_ms, v->open, sizeof(v->open) / sizeof(*v->open), &open_ms);
	v->state = v->open_count ? LINE_OPEN : compare(v, stored, stored_sum);
}

uint64_t line_holes(const struct line_report *line, uint64_t *rest)
{
	uint64_t holes = not_in(line->row->gap, line->absent + *rest);

	*rest = not_in(line->absent, line->row->gap);
	return holes;
}
