/* line_minutes.c records what the lines of this listener received in each minute, until checkin.c has reported it. */
#include "event/line_minutes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define STEP_MS     1000 /* ms: a smaller difference between wall clock and loop clock is not a step */
#define FIRST_SLOTS 1024
#define MANY        4096 /* copies per minute whose lag is recorded; further ones: one in SAMPLE */
#define SAMPLE      8

#define YEAR_10000_MS INT64_C(253402300800000)

struct line_minutes line_minutes;

/* --- lines and minutes --- */

struct line *line_minutes_find(struct line_minutes *all, const char *source, unsigned int number)
{
	if (all->count && all->lines[all->last].name == source && all->lines[all->last].number == number)
		return &all->lines[all->last];
	for (size_t i = 0; i < all->count; i++)
		if (all->lines[i].name == source && all->lines[i].number == number)
			return &all->lines[all->last = i];
	for (size_t i = 0; i < all->count; i++)
		if (strcmp(all->lines[i].source, source) == 0 && all->lines[i].number == number)
			return &all->lines[i];
	return NULL;
}

static struct line *add_line(struct line_minutes *all, const char *source, unsigned int number)
{
	struct line *line = line_minutes_find(all, source, number);

	if (line)
		line->name = source;
	if (line || all->count == LINES_MAX)
		return line;
	all->lines = memory_realloc(all->lines, (all->count + 1) * sizeof(*all->lines));
	line = &all->lines[all->count++];
	*line = (struct line){.source = memory_strdup(source),
			      .name = source,
			      .number = number,
			      .lags = memory_calloc(2, sizeof(*line->lags))};
	return line;
}

static void remove_minute(struct line *line, size_t at)
{
	line->records -= json_array_size(line->minutes[at].records);
	json_decref(line->minutes[at].records);
	line->count--;
	memmove(line->minutes + at, line->minutes + at + 1, (line->count - at) * sizeof(*line->minutes));
}

static int row_length(const struct line_minutes *all)
{
	return all->count > LINES_SHORT ? LINE_LONG : 1;
}

/* Returns the minute in which the row for wall_ms begins. */
static int64_t row_minute(const struct line_minutes *all, int64_t wall_ms)
{
	int64_t minute = wall_ms / LINE_MINUTE_MS;

	return minute - minute % row_length(all);
}

/* Finds or adds a minute. Searches from the newest, which is usually the right one. Returns NULL for a time outside
 * Postgres's range, which a forged spool record may have. */
static struct line_minute *minute_of(const struct line_minutes *all, struct line *line, int64_t wall_ms)
{
	int64_t minute = row_minute(all, wall_ms);
	int length = row_length(all);
	size_t at = line->count;

	if (wall_ms < 0 || wall_ms > YEAR_10000_MS)
		return NULL;
	while (at && line->minutes[at - 1].minute > minute)
		at--;
	if (at && line->minutes[at - 1].minute == minute) {
		line->minutes[at - 1].length = length;
		return &line->minutes[at - 1];
	}
	if (line->count >= LINE_MINUTES_MAX / (size_t)length) {
		if (!at)
			return NULL;
		remove_minute(line, 0);
		at--;
	}
	if (line->count == line->size) {
		line->size = line->size ? 2 * line->size : 8;
		line->minutes = memory_realloc(line->minutes, line->size * sizeof(*line->minutes));
	}
	memmove(line->minutes + at + 1, line->minutes + at, (line->count - at) * sizeof(*line->minutes));
	line->minutes[at] = (struct line_minute){
		.minute = minute, .length = length, .unknown = minute * LINE_MINUTE_MS < line->again_ms};
	line->count++;
	return &line->minutes[at];
}

/* --- connections --- */

static void add_span(struct line_minute *m, uint32_t from, uint32_t to)
{
	uint32_t *last = m->spans ? m->up[m->spans - 1] : NULL;

	if (last && from >= last[0] && from <= last[1]) {
		last[1] = to > last[1] ? to : last[1];
	} else if (m->spans < LINE_SPANS) {
		m->up[m->spans][0] = from;
		m->up[m->spans++][1] = to;
	}
	m->is_changed = true;
}

static void add_silence(struct line_minute *m, uint32_t from, uint32_t to)
{
	m->silent_ms += to - from;
	m->is_changed = true;
}

static void each_minute(const struct line_minutes *all, struct line *line, int64_t from_ms, int64_t to_ms,
			void (*add)(struct line_minute *m, uint32_t from, uint32_t to))
{
	while (from_ms < to_ms) {
		struct line_minute *m = minute_of(all, line, from_ms);
		int64_t start_ms = row_minute(all, from_ms) * LINE_MINUTE_MS;
		int64_t end_ms = start_ms + (int64_t)row_length(all) * LINE_MINUTE_MS;

		end_ms = end_ms < to_ms ? end_ms : to_ms;
		if (m)
			add(m, (uint32_t)(from_ms - start_ms), (uint32_t)(end_ms - start_ms));
		from_ms = end_ms;
	}
}

static void doubt(struct line_minute *m)
{
	m->unknown++;
	m->is_changed = true;
}

/* The wall clock was set back, so some minutes come again: their new counts replace those that were reported. */
static void come_again(struct line *line, int64_t from_ms)
{
	line->again_ms = line->wall_ms > line->again_ms ? line->wall_ms : line->again_ms;
	for (size_t i = line->count; i && (line->minutes[i - 1].minute + LINE_LONG) * LINE_MINUTE_MS > from_ms; i--)
		doubt(&line->minutes[i - 1]);
}

/* Records that the line was connected until now. Time that a step of the wall clock skips counts as not connected. */
static void advance(const struct line_minutes *all, struct line *line, int64_t wall_ms, int64_t loop_ms)
{
	int64_t from_ms = wall_ms - (loop_ms - line->loop_ms), differ_ms = from_ms - line->wall_ms;

	if (differ_ms < STEP_MS && differ_ms > -STEP_MS)
		from_ms = line->wall_ms;
	else if (differ_ms < 0)
		come_again(line, from_ms);
	line->wall_ms = wall_ms;
	line->loop_ms = loop_ms;
	if (line->is_open)
		each_minute(all, line, from_ms, wall_ms, add_span);
	if (line->is_silent)
		each_minute(all, line, from_ms, wall_ms, add_silence);
}

void line_minutes_connect(struct line_minutes *all, const char *source, unsigned int number, bool is_open,
			  int64_t wall_ms, int64_t loop_ms)
{
	struct line *line = add_line(all, source, number);
	struct line_minute *m;

	if (!line || line->is_open == is_open)
		return;
	advance(all, line, wall_ms, loop_ms);
	line->is_open = is_open;
	if (is_open && line->was_open && (m = minute_of(all, line, wall_ms))) {
		m->reconnects++;
		m->is_changed = true;
	}
	line->was_open |= is_open;
}

static void cut_spans(struct line_minute *m, int64_t from)
{
	while (m->spans && m->up[m->spans - 1][0] >= from)
		m->spans--;
	if (m->spans && m->up[m->spans - 1][1] > from)
		m->up[m->spans - 1][1] = (uint32_t)from;
	m->is_changed = true;
}

void line_minutes_lose(struct line_minutes *all, const char *source, unsigned int number, int64_t unheard_ms,
		       int64_t wall_ms, int64_t loop_ms)
{
	struct line *line = line_minutes_find(all, source, number);
	int64_t since_ms = wall_ms - unheard_ms;

	if (!line || !line->is_open || !unheard_ms)
		return;
	advance(all, line, wall_ms, loop_ms);
	for (size_t i = line->count; i--;) {
		struct line_minute *m = &line->minutes[i];

		if ((m->minute + m->length) * LINE_MINUTE_MS > since_ms)
			cut_spans(m, since_ms - m->minute * LINE_MINUTE_MS);
	}
}

void line_minutes_doubt(struct line_minutes *all, const char *source, unsigned int number, int64_t wall_ms)
{
	struct line *line = line_minutes_find(all, source, number);
	struct line_minute *m = line ? minute_of(all, line, wall_ms) : NULL;

	if (m)
		doubt(m);
}

void line_minutes_want(struct line_minutes *all, const char *source, unsigned int number, bool is_wanted)
{
	struct line *line = add_line(all, source, number);

	if (line)
		line->is_wanted = is_wanted;
}

void line_minutes_silence(struct line_minutes *all, const char *source, unsigned int number, int64_t since_ms,
			  int64_t wall_ms, int64_t loop_ms)
{
	struct line *line = line_minutes_find(all, source, number);

	if (!line)
		return;
	advance(all, line, wall_ms, loop_ms);
	if (since_ms && !line->is_silent)
		each_minute(all, line, since_ms, wall_ms, add_silence);
	line->is_silent = since_ms;
}

void line_minutes_number(struct line_minutes *all, const char *source, unsigned int number)
{
	struct line *line = add_line(all, source, number);

	if (line)
		line->has_numbers = true;
}

/* A row with zeros shows that the source could not be reached. */
static void record_closed(const struct line_minutes *all, struct line *line, int64_t wall_ms)
{
	struct line_minute *m = line->is_wanted && !line->is_open ? minute_of(all, line, wall_ms) : NULL;

	if (m && !m->spans && m->minute != line->closed_minute) {
		line->closed_minute = m->minute;
		m->is_changed = true;
	}
}

/* --- copies --- */

static uint64_t *slot_of(const struct line_seen *g, uint64_t hash)
{
	size_t i = hash & (g->size - 1);

	while (g->slots[i] && g->slots[i] != hash)
		i = (i + 1) & (g->size - 1);
	return &g->slots[i];
}

static bool has(const struct line_seen *g, uint64_t hash)
{
	return g->count && *slot_of(g, hash);
}

static void grow(struct line_seen *g)
{
	struct line_seen more = {
		.size = g->size ? 2 * g->size : FIRST_SLOTS, .count = g->count, .since_ms = g->since_ms};

	more.slots = memory_calloc(more.size, sizeof(*more.slots));
	for (size_t i = 0; i < g->size; i++)
		if (g->slots[i])
			*slot_of(&more, g->slots[i]) = g->slots[i];
	free(g->slots);
	*g = more;
}

/* If a generation fills early, duplicates are remembered for a shorter time: since sure_from_ms. */
static void turn_over(struct line_minutes *all, int64_t now_ms)
{
	struct line_seen *g = &all->young;
	int64_t age_ms = now_ms - g->since_ms;
	bool is_old = age_ms > LINE_SEEN_MS || age_ms < -STEP_MS; /* copies do not settle in order of arrival */
	struct line_seen forgotten;

	if (g->count < LINE_SEEN_MAX && !(g->count && is_old))
		return;
	if (all->old.count && now_ms - g->since_ms < LINE_LATE_MS)
		all->sure_from_ms = g->since_ms;
	forgotten = all->old;
	all->old = *g;
	/* The memory is already mapped. */
	*g = (struct line_seen){.slots = forgotten.slots, .size = forgotten.size};
	if (g->size)
		memset(g->slots, 0, g->size * sizeof(*g->slots));
}

/* Remembers the copy. Returns false if this line has had it before. */
static bool is_first(struct line_minutes *all, const struct line *line, const struct line_copy *copy)
{
	uint64_t hash = copy->hash ^ (uint64_t)(line - all->lines + 1) << 48; /* the low bits select the slot */
	struct line_seen *g = &all->young;

	hash += !hash;
	if (has(&all->young, hash) || has(&all->old, hash))
		return false;
	turn_over(all, copy->came_ms);
	if (!g->count)
		g->since_ms = copy->came_ms;
	if (2 * g->count >= g->size)
		grow(g);
	*slot_of(g, hash) = hash;
	g->count++;
	return true;
}

static void add_gap(const struct line_minutes *all, struct line *line, uint64_t numbers, int64_t wall_ms)
{
	struct line_minute *m = minute_of(all, line, wall_ms);

	if (!m)
		return;
	m->gap += numbers;
	m->is_changed = true;
}

/* Counts the gap in the minute of won_ms, or if that is 0, in the minute in which its event arrived. */
static void end_gap(struct line_minutes *all, size_t at, int64_t won_ms)
{
	struct line_gap gap = all->gaps[at];

	all->gap_count--;
	memmove(all->gaps + at, all->gaps + at + 1, (all->gap_count - at) * sizeof(gap));
	add_gap(all, &all->lines[gap.line], gap.numbers, won_ms ? won_ms : gap.came_ms);
}

void line_minutes_gap(struct line_minutes *all, const char *source, unsigned int number, uint64_t hash,
		      uint64_t numbers, int64_t came_ms)
{
	struct line *line = line_minutes_find(all, source, number);

	if (!line)
		return;
	if (all->gap_count == LINE_GAPS)
		end_gap(all, 0, 0);
	all->gaps[all->gap_count++] = (struct line_gap){(size_t)(line - all->lines), hash, numbers, came_ms};
}

void line_minutes_fill(struct line_minutes *all, const char *source, int64_t wall_ms)
{
	size_t len = strcspn(source, "#");
	struct line_minute *m = NULL;

	while (source[len] && strcmp(source + len, "#fill") != 0)
		len += 1 + strcspn(source + len + 1, "#");
	for (size_t i = 0; i < all->count && !m; i++)
		if (strlen(all->lines[i].source) == len && memcmp(all->lines[i].source, source, len) == 0)
			m = minute_of(all, &all->lines[i], wall_ms);
	if (!m)
		return;
	m->filled++;
	m->is_changed = true;
}

void line_minutes_end_gaps(struct line_minutes *all)
{
	while (all->gap_count)
		end_gap(all, 0, 0);
}

void line_minutes_doubt_all(struct line_minutes *all)
{
	for (size_t i = 0; i < all->count; i++)
		for (size_t k = 0; k < all->lines[i].count; k++)
			doubt(&all->lines[i].minutes[k]);
}

static void settle_gaps(struct line_minutes *all, const struct line *line, uint64_t hash, int64_t won_ms)
{
	for (size_t i = all->gap_count; i--;)
		if (all->gaps[i].hash == hash && all->lines + all->gaps[i].line == line)
			end_gap(all, i, won_ms);
}

void line_minutes_fetch(const struct line_minutes *all, uint64_t hash)
{
	if (all->young.size)
		__builtin_prefetch(&all->young.slots[hash & (all->young.size - 1)]);
	if (all->old.size)
		__builtin_prefetch(&all->old.slots[hash & (all->old.size - 1)]);
}

/* Skips copies for which won_ms came from a mark, which has only the minute. */
static void add_lag(struct line *line, const struct line_minute *m, const struct line_copy *copy)
{
	struct line_lags *l = &line->lags[m->minute & 1];

	if (copy->won_ms % LINE_MINUTE_MS == 0 || l->minute > m->minute)
		return;
	if (l->minute < m->minute)
		*l = (struct line_lags){.minute = m->minute};
	lags_add(&l->lags, copy->came_ms - copy->won_ms, m->received < MANY ? 1 : SAMPLE);
}

static void settle(struct line_minutes *all, const struct line_copy *copy, unsigned int number)
{
	struct line *line = line_minutes_find(all, copy->source, number);
	bool is_known = copy->won_ms && copy->won_ms - copy->came_ms <= LINE_LATE_MS &&
			(copy->is_stored || copy->won_ms >= all->sure_from_ms);
	struct line_minute *m;

	if (line && all->gap_count)
		settle_gaps(all, line, copy->hash, is_known ? copy->won_ms : 0);
	if (!line || !is_first(all, line, copy) || (copy->won_ms && copy->came_ms - copy->won_ms > LINE_LATE_MS) ||
	    !(m = minute_of(all, line, is_known ? copy->won_ms : copy->came_ms)))
		return;
	m->is_changed = true;
	if (!is_known) {
		m->unknown++;
		return;
	}
	if (m->received < MANY || copy->hash % SAMPLE == 0)
		add_lag(line, m, copy);
	m->received++;
	m->received_sum += copy->hash;
	m->stored += copy->is_stored;
	m->stored_sum += copy->is_stored ? copy->hash : 0;
}

void line_minutes_settle(struct line_minutes *all, const struct line_copy *copy)
{
	struct line_copy one = *copy;

	for (unsigned int left = copy->lines; left; left &= left - 1) {
		unsigned int number = (unsigned int)__builtin_ctz(left);

		one.came_ms = copy->came_ms + (copy->after_ms ? copy->after_ms[number] : 0);
		settle(all, &one, number);
		one.is_stored = false; /* count it as stored on one line only */
	}
}

void line_minutes_await(struct line_minutes *all, const char *source, unsigned int lines, int64_t came_ms)
{
	for (unsigned int left = lines; left; left &= left - 1) {
		struct line *line = line_minutes_find(all, source, (unsigned int)__builtin_ctz(left));
		struct line_minute *m = line ? minute_of(all, line, came_ms) : NULL;

		if (m)
			m->waiting++;
	}
}

void line_minutes_put_away(struct line_minutes *all, const char *source, int64_t came_ms, bool is_away)
{
	struct line *line = line_minutes_find(all, source, 0);
	struct line_minute *m = line ? minute_of(all, line, came_ms) : NULL;

	if (m && (is_away || m->away))
		m->away += is_away ? 1 : -1;
}

void line_minutes_disagree(struct line_minutes *all, const char *source, unsigned int number, struct slice id,
			   const uint8_t *first, const uint8_t *other, int64_t wall_ms)
{
	struct line *line = line_minutes_find(all, source, number);
	struct line_minute *m = line ? minute_of(all, line, wall_ms) : NULL;
	char digests[2][2 * 32 + 1];

	if (!m)
		return;
	line->disagree++;
	m->is_changed = true;
	/* Postgres cannot store a NUL. */
	if (m->disagree++ >= LINE_RECORDS || line->records >= LINE_RECORDS_MAX || memchr(id.at, '\0', id.len))
		return;
	write_hex(digests[0], first, 32);
	write_hex(digests[1], other, 32);
	m->records = m->records ? m->records : json_array();
	json_array_append_new(m->records, json_pack("[o, s, s]", make_json(id.at, id.len), digests[0], digests[1]));
	line->records++;
}

/* --- reporting --- */

static void measure(const struct line *line, struct line_minute *m)
{
	const struct line_lags *l = &line->lags[m->minute & 1];

	if (l->minute == m->minute)
		m->has_behind =
			lags_percentile(&l->lags, 50, &m->behind[0]) && lags_percentile(&l->lags, 99, &m->behind[1]);
}

static uint64_t unknown_of(const struct line_minute *m)
{
	return m->unknown + m->waiting + m->away;
}

static json_t *maybe(bool is_known, int64_t number)
{
	return is_known ? json_integer(number) : json_null();
}

static json_t *describe(const struct line *line, struct line_minute *m)
{
	json_t *up = json_array();

	m->told_unknown = unknown_of(m);
	measure(line, m);
	for (unsigned int i = 0; i < m->spans; i++) {
		json_array_append_new(up, json_integer(m->up[i][0]));
		json_array_append_new(up, json_integer(m->up[i][1]));
	}
	return json_pack("[IsIIIIIIooiIoooioO]", (json_int_t)m->minute, line->source, (json_int_t)m->received,
			 (json_int_t)m->received_sum, (json_int_t)m->stored, (json_int_t)m->stored_sum,
			 (json_int_t)m->told_unknown, (json_int_t)m->reconnects, up,
			 maybe(line->has_numbers, (int64_t)m->gap), (int)m->silent_ms, (json_int_t)m->filled,
			 maybe(m->has_behind, m->behind[0]), maybe(m->has_behind, m->behind[1]),
			 line->number ? json_sprintf("/%u", line->number + 1) : json_string(""), m->length,
			 maybe(m->disagree, (int64_t)m->disagree), m->records ? m->records : json_null());
}

/* True if this check-in reports m: a row of a minute that is not over would be written twice. After an outage of hours,
 * one statement with all minutes of many lines would delay batches or exceed its timeout. So recent minutes, which are
 * judged next, are always sent, and older ones only up to LINE_ROWS. */
static bool may_tell(const struct line_minute *m, const json_t *out, bool is_last, int64_t wall_ms)
{
	int64_t end_ms = (m->minute + m->length) * LINE_MINUTE_MS;
	bool is_late = end_ms < wall_ms - (int64_t)2 * LINE_LATE_MS;

	return m->is_changed && (is_last || end_ms <= wall_ms) && (!is_late || json_array_size(out) < LINE_ROWS);
}

static void describe_line(struct line *line, json_t *out, bool is_last, int64_t needed_ms, int64_t wall_ms)
{
	for (size_t i = 0; i < line->count; i++) {
		struct line_minute *m = &line->minutes[i];

		m->is_changed |= unknown_of(m) != m->told_unknown;
		if (!m->is_changed && !m->is_sent &&
		    (m->minute + m->length) * LINE_MINUTE_MS + LINE_LATE_MS < needed_ms) {
			remove_minute(line, i--);
			continue;
		}
		if (may_tell(m, out, is_last, wall_ms)) {
			json_array_append_new(out, describe(line, m));
			m->is_changed = false;
			m->is_sent = true;
		}
		m->waiting = 0;
	}
}

json_t *line_minutes_describe(struct line_minutes *all, bool is_last, int64_t needed_ms, int64_t wall_ms,
			      int64_t loop_ms)
{
	json_t *out = json_array();

	while (all->gap_count && wall_ms - all->gaps[0].came_ms > LINE_LATE_MS)
		end_gap(all, 0, 0);
	for (size_t i = 0; i < all->count; i++) {
		advance(all, &all->lines[i], wall_ms, loop_ms);
		record_closed(all, &all->lines[i], wall_ms);
		describe_line(&all->lines[i], out, is_last, needed_ms < wall_ms ? needed_ms : wall_ms, wall_ms);
	}
	return out;
}

void line_minutes_told(struct line_minutes *all, bool is_told)
{
	for (size_t i = 0; i < all->count; i++)
		for (size_t k = 0; k < all->lines[i].count; k++) {
			struct line_minute *m = &all->lines[i].minutes[k];

			m->is_changed |= m->is_sent && !is_told;
			m->is_sent = false;
		}
}

void line_minutes_free(struct line_minutes *all)
{
	for (size_t i = 0; i < all->count; i++) {
		while (all->lines[i].count)
			remove_minute(&all->lines[i], all->lines[i].count - 1);
		free(all->lines[i].source);
		free(all->lines[i].minutes);
		free(all->lines[i].lags);
	}
	free(all->lines);
	free(all->young.slots);
	free(all->old.slots);
	*all = (struct line_minutes){.lines = NULL};
}
