/* lines.c owns `wsonce lines`: what listeners recorded about each source, minute by minute, and what that proves. The
 * rules are in line_verdict.c. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/timestamp.h"
#include "commands/colour.h"
#include "commands/table.h"
#include "commands/json_out.h"
#include "commands/lines.h"
#include "commands/progress.h"
#include "event/line_verdict.h"
#include "commands/session.h"
#include "lines.sql.h"
#include "lines_sources.sql.h"
#include "store/checkin.h"
#include "event/line_minutes.h"

#define HOUR_US     INT64_C(3600000000)
#define SETTLED_MS  (CHECKIN_PERIOD_MS + 15000) /* after this time, all listeners have reported a minute */
#define STRIP_WIDTH 60
#define SHOWN       10                            /* disagreements of a source, printed as text */
#define DIFFER_MAX  10000                         /* in JSON */
#define UNTOLD      2                             /* exit status: it is unknown whether something is missing */
#define LENGTH_MOST 5                             /* minutes of the longest row */
#define ROWS_A_TIME 50000                         /* about how many rows are read at a time: 25 MB */
#define UNTOLD_MS   (INT64_C(2) * LINE_MINUTE_MS) /* how long a killed listener may have lived after its last report */

enum source_column { SOURCE, FIRST, LENGTH, ROWS };
enum column {
	NAME,
	MINUTE,
	LISTENER,
	RECEIVED,
	RECEIVED_SUM,
	STORED,
	STORED_SUM,
	UNKNOWN,
	RECONNECTS,
	UP,
	GAP,
	SILENT,
	FILLED,
	BEHIND_P50,
	BEHIND_P99,
	DISAGREE,
	DISAGREEMENTS
};

/* Totals of an instance. */
struct line_total {
	char instance[256];
	uint64_t received, missing, alone, reconnects, connected_ms;
	uint64_t rest; /* rest from line_holes() of the previous minute */
	int64_t rest_minute;
	struct lags leads[2]; /* p50 and p99 of its minutes, by events */
};

static const char marks[] = "=-?!O"; /* signs for minutes, by enum line_state */

/* A source while its rows are read. */
struct summary {
	const char *name;
	uint64_t minutes, states[LINE_STATES];
	int64_t open_ms, first, holes; /* holes: -1 if the feed has no numbers */
	int64_t from, end, length;     /* minutes from `from` to before `end`; how many are judged together */
	int64_t rows;                  /* about how many rows the table has */
	uint64_t disagree;
	struct json_out *out; /* where its minutes are printed; NULL: nowhere */
	json_t *open;         /* spans */
	json_t *differ;       /* disagreements, or NULL */
	char *strip;          /* a character per minute */
	struct line_total *lines;
	size_t count;
};

/* --- one minute --- */

static void read_up(struct line_row *row, const char *text)
{
	for (; *text && row->spans < LINE_UP_MAX; row->spans++)
		for (int i = 0; i < 2 && *text; i++) {
			char *end;

			row->up[row->spans][i] = (int)strtol(text, &end, 10);
			text = *end == ',' ? end + 1 : end;
		}
}

static void read_row(struct line_row *row, const struct pg_result *rows, size_t at, int64_t minute, int64_t length)
{
	*row = (struct line_row){
		.received = (uint64_t)session_number(rows, at, RECEIVED),
		.received_sum = (uint64_t)session_number(rows, at, RECEIVED_SUM),
		.stored = (uint64_t)session_number(rows, at, STORED),
		.stored_sum = (uint64_t)session_number(rows, at, STORED_SUM),
		.unknown = (uint64_t)session_number(rows, at, UNKNOWN),
		.gap = (uint64_t)session_number(rows, at, GAP),
		.filled = (uint64_t)session_number(rows, at, FILLED),
		.disagree = (uint64_t)session_number(rows, at, DISAGREE),
		.has_numbers = !session_is_null(rows, at, GAP),
		.silent_ms = (int)session_number(rows, at, SILENT),
		.reconnects = (unsigned int)session_number(rows, at, RECONNECTS),
		.behind = {(int)session_number(rows, at, BEHIND_P50), (int)session_number(rows, at, BEHIND_P99)},
		.has_behind = !session_is_null(rows, at, BEHIND_P50)};
	if (session_is_null(rows, at, UP))
		row->up[row->spans++][1] = LINE_MINUTE_MS;
	read_up(row, session_text(rows, at, UP));
	line_row_place(row, session_text(rows, at, LISTENER), session_number(rows, at, MINUTE) - minute, length);
}

static json_t *moment(int64_t ms)
{
	char text[TIMESTAMP_SIZE];

	return json_string(timestamp_print_to(ms * 1000, 3, text));
}

/* Adds a span, and joins it with one that it touches. */
static void add_open(struct summary *s, int64_t from_ms, int64_t to_ms)
{
	json_t *last = json_array_get(s->open, json_array_size(s->open) - 1), *from = moment(from_ms);

	s->open_ms += to_ms - from_ms;
	if (last && json_equal(json_object_get(last, "to"), from)) {
		double seconds = member_real(last, "seconds") + (double)(to_ms - from_ms) / 1000;

		json_object_set_new(last, "to", moment(to_ms));
		json_object_set_new(last, "seconds", json_real(seconds));
		json_decref(from);
	} else {
		json_array_append_new(s->open, json_pack("{s:o, s:o, s:f}", "from", from, "to", moment(to_ms),
							 "seconds", (double)(to_ms - from_ms) / 1000));
	}
}

static struct line_total *total_of(struct summary *s, const char *instance)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->lines[i].instance, instance) == 0)
			return &s->lines[i];
	s->lines = memory_realloc(s->lines, (s->count + 1) * sizeof(*s->lines));
	s->lines[s->count] = (struct line_total){.received = 0};
	snprintf(s->lines[s->count].instance, sizeof(s->lines[s->count].instance), "%s", instance);
	return &s->lines[s->count++];
}

/* Returns the holes of the line that has the most, or -1 if the feed has no numbers. Numbers that only other lines had
 * are not holes. */
static int64_t find_holes(struct summary *s, const struct line_verdict *v, int64_t minute)
{
	int64_t most = -1, holes;

	for (size_t i = 0; i < v->count; i++) {
		struct line_total *total = total_of(s, v->lines[i].row->instance);

		if (!v->lines[i].row->has_numbers)
			continue;
		if (total->rest_minute != minute - s->length)
			total->rest = 0;
		holes = (int64_t)line_holes(&v->lines[i], &total->rest);
		total->rest_minute = minute;
		most = holes > most ? holes : most;
	}
	return most;
}

/* The filled numbers were holes of this minute or earlier ones, which may be before the first minute of the report. */
static void fill_holes(struct summary *s, const struct line_verdict *v)
{
	for (size_t i = 0; i < v->count && s->holes > 0; i++) {
		int64_t filled = (int64_t)v->lines[i].row->filled;

		s->holes = s->holes > filled ? s->holes - filled : 0;
	}
}

static void add_totals(struct summary *s, const struct line_verdict *v)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct line_report *line = &v->lines[i];
		struct line_total *total = total_of(s, line->row->instance);

		s->disagree += line->row->disagree;
		total->received += line->row->received;
		total->missing += line->missing;
		total->alone += line->alone > 0 ? (uint64_t)line->alone : 0;
		total->reconnects += line->row->reconnects;
		total->connected_ms += (uint64_t)line->connected_ms;
		for (int k = 0; k < 2 && line->has_lead; k++)
			lags_add(&total->leads[k], line->lead[k], line->row->received);
	}
}

/* Returns false if there was no other line to compare it with. */
static bool read_leads(const struct line_total *line, int lead[2])
{
	return lags_percentile(&line->leads[0], 50, &lead[0]) && lags_percentile(&line->leads[1], 50, &lead[1]);
}

static json_t *maybe(int64_t number)
{
	return number < 0 ? json_null() : json_integer(number);
}

static json_t *describe_lines(const struct line_verdict *v)
{
	json_t *lines = json_array();

	for (size_t i = 0; i < v->count; i++) {
		const struct line_report *line = &v->lines[i];

		json_array_append_new(
			lines,
			json_pack("{s:o, s:I, s:I, s:o, s:i, s:i, s:I, s:I}", "instance",
				  json_out_string(line->row->instance), "received", (json_int_t)line->row->received,
				  "missing", (json_int_t)line->missing, "alone", maybe(line->alone), "connected_ms",
				  line->connected_ms, "silent_ms", line->row->silent_ms, "reconnects",
				  (json_int_t)line->row->reconnects, "disagree", (json_int_t)line->row->disagree));
	}
	return lines;
}

static json_t *describe_totals(const struct summary *s)
{
	json_t *lines = json_array();

	for (size_t i = 0; i < s->count; i++) {
		const struct line_total *line = &s->lines[i];
		int lead[2];

		json_array_append_new(
			lines,
			json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "instance", json_out_string(line->instance),
				  "received", (json_int_t)line->received, "missing", (json_int_t)line->missing, "alone",
				  (json_int_t)line->alone, "reconnects", (json_int_t)line->reconnects, "connected_ms",
				  (json_int_t)line->connected_ms, "lead_ms",
				  read_leads(line, lead) ? json_pack("{s:i, s:i}", "p50", lead[0], "p99", lead[1])
							 : json_null()));
	}
	return lines;
}

/* Returns the moment of a source's very first connection, before which nothing can be missing. */
static int first_moment(const struct line_row *rows, size_t n)
{
	int first = INT_MAX;

	for (size_t i = 0; i < n; i++)
		if (rows[i].spans && rows[i].up[0][0] < first)
			first = rows[i].up[0][0];
	return first < INT_MAX ? first : 0;
}

/* is_untold: a listener that was killed may have stored events that no line here had. */
static void add_minute(struct summary *s, int64_t minute, const struct line_row *rows, size_t n, bool is_untold)
{
	static _Thread_local struct line_verdict v;
	size_t length = (size_t)s->length;
	int length_ms = (int)length * LINE_MINUTE_MS;
	int64_t holes;

	line_verdict(&v, rows, n, minute == s->first ? first_moment(rows, n) : 0, length_ms);
	if (is_untold && v.state == LINE_VERIFIED)
		v.state = LINE_COVERED;
	for (size_t i = 0; i < v.open_count; i++)
		add_open(s, minute * LINE_MINUTE_MS + v.open[i][0], minute * LINE_MINUTE_MS + v.open[i][1]);
	memset(s->strip + s->minutes, marks[v.state], length);
	s->minutes += length;
	s->states[v.state] += length;
	holes = find_holes(s, &v, minute);
	if (holes >= 0)
		s->holes = holes + (s->holes < 0 ? 0 : s->holes);
	fill_holes(s, &v);
	add_totals(s, &v);
	if (s->out)
		json_out_item(s->out,
			      json_pack("{s:o, s:i, s:s, s:I, s:o, s:o}", "minute", moment(minute * LINE_MINUTE_MS),
					"length_ms", length_ms, "state", line_state_name(v.state), "stored",
					(json_int_t)v.stored, "holes", maybe(holes), "lines", describe_lines(&v)));
}

/* --- one source --- */

static void add_differ(struct summary *s, const struct pg_result *rows, size_t at, const char *instance)
{
	json_t *list = json_loads(session_text(rows, at, DISAGREEMENTS), 0, NULL), *one;

	if (list && !s->differ)
		s->differ = json_array();
	for (size_t i = 0; i < json_array_size(list) && json_array_size(s->differ) < DIFFER_MAX; i++) {
		one = json_array_get(list, i);
		json_array_append_new(s->differ,
				      json_pack("{s:o, s:o, s:O*, s:O*, s:O*}", "minute",
						moment(session_number(rows, at, MINUTE) * LINE_MINUTE_MS), "instance",
						json_out_string(instance), "event_id", json_array_get(one, 0), "first",
						json_array_get(one, 1), "other", json_array_get(one, 2)));
	}
	json_decref(list);
}

/* The sort key of a row: rows of a source that are judged together are adjacent, and so are an instance's. */
struct place {
	const struct summary *source;
	int64_t minute;
	const char *listener;
	size_t row;
};

/* All names of processes have the same length (line_row_place). */
static int compare_listeners(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b), least = a_len < b_len ? a_len : b_len;
	int order = memcmp(a, b, least > 17 ? least - 17 : 0);

	return order ? order : a_len != b_len ? (a_len > b_len) - (a_len < b_len) : strcmp(a, b);
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int64_t length = x->source->length, x_block = x->minute / length, y_block = y->minute / length;
	int order;

	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	if (x_block != y_block)
		return x_block < y_block ? -1 : 1;
	order = compare_listeners(x->listener, y->listener);
	return order ? order : (x->minute > y->minute) - (x->minute < y->minute);
}

static int compare_name(const void *name, const void *source)
{
	return strcmp(name, ((const struct summary *)source)->name);
}

/* Returns the places of rows in order, and how many there are. Leaves out rows long before the source's first minute.
 */
static struct place *sort_rows(const struct pg_result *rows, const struct summary *all, size_t n, size_t *count)
{
	struct place *places = memory_calloc(session_count(rows) + 1, sizeof(*places));
	const struct summary *source = NULL;

	*count = 0;
	for (size_t at = 0; at < session_count(rows); at++) {
		const char *name = session_text(rows, at, NAME);
		int64_t minute = session_number(rows, at, MINUTE);

		if (!source || strcmp(name, source->name) != 0)
			source = bsearch(name, all, n, sizeof(*all), compare_name);
		if (source && minute >= source->from - LENGTH_MOST)
			places[(*count)++] = (struct place){source, minute, session_text(rows, at, LISTENER), at};
	}
	qsort(places, *count, sizeof(*places), compare_places);
	return places;
}

/* Adds the unknown copies of the next minute: a copy comes up to a minute after the stored one, so they may belong to
 * this minute. at: the next minute's first row. */
static void add_unknown(struct line_row *all, size_t n, const struct pg_result *rows, const struct place *at,
			const struct place *last, int64_t end)
{
	for (; at < last && at->minute < end; at++) {
		struct line_row row;

		if (!session_number(rows, at->row, UNKNOWN))
			continue;
		read_row(&row, rows, at->row, 0, 1);
		for (size_t i = 0; i < n; i++)
			if (strcmp(all[i].instance, row.instance) == 0)
				all[i].unknown += row.unknown;
	}
}

/* The listeners of a source, and the end of the last connection that each has reported. */
struct tellers {
	struct {
		uint64_t process;
		int64_t end_ms;
	} items[LINES_A_TIME];
	size_t count;
};

/* Adds a row. Forgets listeners whose last report ended long before from_ms. */
static void note_teller(struct tellers *all, const struct line_row *row, int64_t start_ms, int64_t from_ms)
{
	int64_t end_ms = row->spans ? start_ms + row->up[row->spans - 1][1] : 0;
	size_t left = 0, at = SIZE_MAX;

	for (size_t i = 0; i < all->count; i++) {
		if (all->items[i].end_ms + UNTOLD_MS <= from_ms)
			continue;
		all->items[left] = all->items[i];
		at = all->items[left].process == row->process ? left : at;
		left++;
	}
	all->count = left;
	if (at == SIZE_MAX && left < LINES_A_TIME && end_ms) {
		all->items[all->count++].process = row->process;
		all->items[at = left].end_ms = end_ms;
	}
	if (at != SIZE_MAX && end_ms > all->items[at].end_ms)
		all->items[at].end_ms = end_ms;
}

/* True if a listener that was connected at a minute's end reported nothing more. A listener that stops says when. */
static bool is_untold(const struct tellers *all, int64_t from_ms, int64_t to_ms)
{
	for (size_t i = 0; i < all->count; i++) {
		int64_t end_ms = all->items[i].end_ms;

		if (end_ms % LINE_MINUTE_MS == 0 && end_ms < to_ms && end_ms + UNTOLD_MS > from_ms)
			return true;
	}
	return false;
}

/* Judges a source from minute `from` up to minute `end`. The rows begin some minutes before, for note_teller(). */
static void read_source(struct summary *s, const struct pg_result *rows, const struct place *at,
			const struct place *last, int64_t from, int64_t end)
{
	static _Thread_local struct line_row all[LINES_A_TIME];
	static _Thread_local struct tellers tellers;
	struct line_row row;

	tellers.count = 0;
	for (; at < last && at->minute < from; at++) {
		read_row(&row, rows, at->row, from, s->length);
		note_teller(&tellers, &row, from * LINE_MINUTE_MS, from * LINE_MINUTE_MS);
	}
	for (int64_t minute = from; minute < end; minute += s->length) {
		int64_t start_ms = minute * LINE_MINUTE_MS;
		size_t n = 0;

		for (; at < last && at->minute < minute + s->length; at++) {
			read_row(&row, rows, at->row, minute, s->length);
			note_teller(&tellers, &row, start_ms, start_ms);
			if (row.disagree)
				add_differ(s, rows, at->row, row.instance);
			n = line_row_add(all, n, &row);
		}
		n = line_row_end(all, n);
		add_unknown(all, n, rows, at, last, minute + 2 * s->length);
		add_minute(s, minute, all, n, is_untold(&tellers, start_ms, start_ms + s->length * LINE_MINUTE_MS));
	}
}

/* Judges n sources from minute `from` up to minute `end`, and reads some minutes more for add_unknown() and
 * note_teller(). Returns -1 if the database does not answer. */
static int read_sources(struct session *db, struct summary *all, size_t n, int64_t from, int64_t end)
{
	AUTO_ROWS *rows = session_query(db, SQL_LINES, NULL, "nns", from - LENGTH_MOST, end + LENGTH_MOST - 1,
					n == 1 ? all->name : "");
	struct place *places, *at, *last;
	size_t count;

	if (!rows)
		return -1;
	at = places = sort_rows(rows, all, n, &count);
	last = places + count;
	for (size_t i = 0; i < n; i++) {
		struct place *first = at;

		while (at < last && at->source == &all[i])
			at++;
		read_source(&all[i], rows, first, at, from > all[i].from ? from : all[i].from,
			    end < all[i].end ? end : all[i].end);
	}
	free(places);
	return 0;
}

static json_t *describe(const struct summary *s)
{
	json_t *object = json_object();

	for (int state = 0; state < LINE_OPEN; state++)
		json_object_set_new(object, line_state_name((enum line_state)state),
				    json_real(s->minutes ? (double)s->states[state] / (double)s->minutes : 0));
	json_object_set_new(object, "open_ms", json_integer(s->open_ms));
	json_object_set_new(object, "holes", maybe(s->holes));
	json_object_set(object, "open", s->open);
	json_object_set_new(object, "lines", describe_totals(s));
	json_object_set_new(object, "disagree", json_integer((json_int_t)s->disagree));
	json_object_set(object, "disagreements", s->differ);
	return object;
}

static const enum colour colours[LINE_STATES] = {COLOUR_GREEN, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED, COLOUR_RED};

/* Prints minutes of the strip, those of one state together. */
static void print_minutes(const char *at, size_t count)
{
	char run[STRIP_WIDTH + 1];

	for (size_t len; count; at += len, count -= len) {
		for (len = 1; len < count && at[len] == *at; len++)
			;
		memcpy(run, at, len);
		run[len] = '\0';
		colour_print(colours[strchr(marks, *at) - marks], 0, run);
	}
}

static void print_strip(const struct summary *s)
{
	size_t left;

	for (size_t at = 0; at < s->minutes; at += STRIP_WIDTH) {
		json_t *from = moment((s->from + (int64_t)at) * LINE_MINUTE_MS);

		left = s->minutes - at;
		printf("  %.16s ", json_string_value(from));
		print_minutes(s->strip + at, left < STRIP_WIDTH ? left : STRIP_WIDTH);
		putchar('\n');
		json_decref(from);
	}
}

static void print_line(const struct line_total *line, uint64_t minutes)
{
	char text[32] = "-";
	int lead[2];

	if (read_leads(line, lead))
		snprintf(text, sizeof(text), "%d/%d", lead[0], lead[1]);
	printf("  ");
	json_out_column(line->instance, 21);
	printf(" %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %7" PRIu64 " %7.2f %% %9s\n", line->received, line->missing,
	       line->alone, line->reconnects, 100 * (double)line->connected_ms / (double)(minutes * LINE_MINUTE_MS),
	       text);
}

static void print_differ(const struct summary *s)
{
	const json_t *one;
	size_t i, shown = 0;

	json_array_foreach(s->differ, i, one)
	{
		if (shown == SHOWN)
			break;
		printf("  %.16s ", member_text(one, "minute"));
		json_out_column(member_text(one, "instance"), 20);
		printf(" %.8s, first %.8s: ", member_text(one, "other"), member_text(one, "first"));
		json_out_word(member_text(one, "event_id"), 14);
		putchar('\n');
		shown++;
	}
	if (s->disagree > shown)
		printf("  and %" PRIu64 " more: --json shows them\n", s->disagree - shown);
}

static void print_source(const struct summary *s)
{
	const char *between = s->minutes < 100 ? ", " : "\n  "; /* longer counts need a line each */
	json_t *span;
	size_t i;

	json_out_word(s->name, 78);
	printf("\n  of %" PRIu64 " minutes", s->minutes);
	for (int state = 0; state < LINE_STATES; state++)
		if (s->states[state]) {
			printf("%s%" PRIu64 " ", between, s->states[state]);
			colour_print(colours[state], 0, line_state_name((enum line_state)state));
			between = ", ";
		}
	if (s->holes > 0)
		printf("%s%" PRId64 " numbers of the feed are missing on all lines", between, s->holes);
	if (s->disagree)
		printf("\n  %" PRIu64 " copies came with other bytes than on another line", s->disagree);
	putchar('\n');
	print_strip(s);
	printf("  %-21s %10s %8s %8s %7s %9s %9s\n", "line", "received", "missing", "alone", "redials", "connected",
	       "lead, ms");
	for (i = 0; i < s->count; i++)
		print_line(&s->lines[i], s->minutes);
	json_array_foreach(s->open, i, span) printf("  open from %s to %s: %.3f s\n", member_text(span, "from"),
						    member_text(span, "to"), member_real(span, "seconds"));
	print_differ(s);
	putchar('\n');
}

/* --- the command --- */

static int status_of(const uint64_t *states, bool has_faults, bool has_any)
{
	if (states[LINE_DIFFERING] || states[LINE_OPEN] || has_faults)
		return STATUS_FAILED;
	return states[LINE_UNVERIFIED] || !has_any ? UNTOLD : STATUS_FINE;
}

static void begin_source(struct summary *s, const struct pg_result *sources, size_t i, int64_t from, int64_t end)
{
	int64_t first = session_number(sources, i, FIRST), length = session_number(sources, i, LENGTH);

	*s = (struct summary){.name = session_text(sources, i, SOURCE),
			      .first = first - first % length,
			      .end = end - end % length,
			      .length = length,
			      .rows = session_number(sources, i, ROWS),
			      .holes = -1,
			      .open = json_array()};
	from -= from % length;
	s->from = from > s->first ? from : s->first;
	s->strip = memory_calloc(s->end > s->from ? (size_t)(s->end - s->from) + 1 : 1, 1);
}

static struct summary *begin_sources(const struct pg_result *sources, int64_t from, int64_t end)
{
	size_t n = session_count(sources);
	struct summary *all = memory_calloc(n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++)
		begin_source(&all[i], sources, i, from, end);
	return all;
}

/* Reads n sources together, some minutes at a time: rows are stored in the order of time, so reading one source takes
 * nearly as long as all. Returns -1 if the database does not answer. */
static int judge(struct session *db, struct summary *all, size_t n, int64_t from, int64_t end)
{
	int64_t rows = 1, most;

	from -= from % LENGTH_MOST;
	for (size_t i = 0; i < n; i++)
		rows += all[i].rows;
	most = (end - from) * ROWS_A_TIME / rows / LENGTH_MOST * LENGTH_MOST + LENGTH_MOST;
	for (int64_t at = from; n && at < end; at += most) {
		if (!all->out)
			progress_show("reading: %3.0f %%", 100 * (double)(at - from) / (double)(end - from));
		if (read_sources(db, all, n, at, end - at < most ? end : at + most))
			return -1;
	}
	progress_clear();
	return 0;
}

static void free_summaries(struct summary *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_decref(all[i].open);
		json_decref(all[i].differ);
		free(all[i].strip);
		free(all[i].lines);
	}
	free(all);
}

/* With --json one source at a time, and its minutes as they are read, so that a month of a large fleet fits in memory.
 */
static int report(struct session *db, const struct given *o, const struct pg_result *sources, int64_t from, int64_t end)
{
	struct summary *all = begin_sources(sources, from, end);
	uint64_t states[LINE_STATES] = {0};
	size_t n = session_count(sources);
	struct json_out out, one;
	bool has_faults = false, has_any = false;
	int failed = 0;

	if (o->is_json) {
		json_out_open(&out);
		json_out_list(&out, "sources");
	} else {
		failed = judge(db, all, n, from, end);
	}
	for (size_t i = 0; i < n && !failed; i++) {
		struct summary *s = &all[i];

		if (o->is_json) {
			json_out_item_open(&out, &one);
			json_out_member(&one, "name", json_out_string(s->name));
			json_out_list(&one, "minutes");
			s->out = &one;
			failed = judge(db, s, 1, from, end);
			json_out_list_end(&one);
			if (!failed)
				json_out_members(&one, describe(s));
			json_out_close(&one);
		}
		for (int state = 0; state < LINE_STATES; state++)
			states[state] += s->states[state];
		has_faults |= s->holes > 0 || s->disagree;
		has_any |= s->minutes > 0;
		if (!failed && !o->is_json)
			print_source(s);
	}
	free_summaries(all, n);
	if (o->is_json) {
		json_out_list_end(&out);
		json_out_close(&out);
	} else if (n) {
		printf("= verified  - covered  ? unverified  ! differing  O open\n");
	}
	if (!n)
		dispatch_fail("no listener has reported these minutes%s%s; each reports once a minute",
			      o->source ? " of " : "", o->source ? o->source : "");
	return failed ? UNTOLD : status_of(states, has_faults, has_any);
}

int lines_command(const struct invocation *in)
{
	const struct given *o = in->options;
	int64_t now_us = clock_us(CLOCK_REALTIME), settled_us = now_us - SETTLED_MS * INT64_C(1000);
	int64_t until_us = o->until_us && o->until_us < settled_us ? o->until_us : settled_us;
	int64_t from = (o->since_us ? o->since_us : now_us - HOUR_US) / (LINE_MINUTE_MS * INT64_C(1000));
	int64_t end = until_us / (LINE_MINUTE_MS * INT64_C(1000));
	struct session *db = session_open(in->config, SESSION_READ);
	struct pg_result *sources = NULL;
	int status = UNTOLD;

	if (db)
		sources = session_query(db, SQL_LINES_SOURCES, NULL, "nns", from, end, o->source ? o->source : "");
	if (sources)
		status = report(db, o, sources, from, end);
	session_drop(sources);
	session_close(db);
	return status;
}

/* --- for audit --- */

/* A source says nothing about minutes before its first connection. */
static void keep_verified(char *minutes, int64_t from, int64_t end, const struct summary *s)
{
	for (int64_t at = from > s->from ? from : s->from; at < end; at++) {
		bool is_verified = at < s->from + (int64_t)s->minutes && s->strip[at - s->from] == '=';
		char *minute = &minutes[at - from];

		if (!is_verified || *minute == '?')
			*minute = is_verified ? '=' : '!';
	}
}

char *lines_verified(struct session *db, const char *consumer, int64_t from, int64_t end)
{
	AUTO_FREE char *scope = config_consumer_scope(consumer);
	AUTO_ROWS *sources = session_query(db, SQL_LINES_SOURCES, NULL, "nns", from, end, "");
	size_t n = sources ? session_count(sources) : 0;
	struct summary *all;
	char *minutes;

	if (!sources)
		return NULL;
	minutes = memory_calloc((size_t)(end - from) + 1, 1);
	memset(minutes, '?', (size_t)(end - from));
	all = begin_sources(sources, from, end);
	if (judge(db, all, n, from, end)) {
		free(minutes);
		minutes = NULL;
	}
	for (size_t i = 0; minutes && i < n; i++)
		if (strncmp(all[i].name, scope, strlen(scope)) == 0)
			keep_verified(minutes, from, end, &all[i]);
	free_summaries(all, n);
	return minutes;
}
