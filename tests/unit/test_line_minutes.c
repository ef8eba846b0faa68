/* What lines received, and what `wsonce lines` prints about it: three listeners hear one feed. */
#include "base/hash.h"
#include "event/line_verdict.h"
#include "event/line_counts.h"
#include "event/line_minutes.h"
#include "unit.h"

#define LINES 3
#define START (INT64_C(28333141) * LINE_MINUTE_MS)

static struct line_minutes lines[LINES];
static struct line_row rows[LINES + 1];
static struct line_verdict verdict;
static uint64_t next_event;

static void connect(int i, bool is_open, int64_t ms)
{
	line_minutes_connect(&lines[i], "feed", 0, is_open, START + ms, ms);
}

static void tear_down(void)
{
	for (int i = 0; i < LINES; i++)
		line_minutes_free(&lines[i]);
}

static void set_up(void)
{
	for (int i = 0; i < LINES; i++)
		connect(i, true, 0);
}

TestSuite(line_minutes, .init = set_up, .fini = tear_down, .timeout = 60);

static void settle(int i, uint64_t event, int64_t won_ms, int64_t came_ms, bool is_stored)
{
	line_minutes_settle(&lines[i], &(struct line_copy){"feed", 1, hash_mix(event), won_ms < 0 ? 0 : START + won_ms,
							   START + came_ms, is_stored, NULL});
}

static int leader;

/* An event that the lines in this mask do not get; the first other one from the leader on stores it. Copies come within
 * a second. */
static void send(int64_t ms, unsigned int without)
{
	uint64_t event = ++next_event;
	bool is_stored = false;

	for (int k = 0; k < LINES; k++) {
		int i = (leader + k) % LINES;

		if (without & 1U << i)
			continue;
		settle(i, event, ms, ms + 400 * i, !is_stored);
		is_stored = true;
	}
}

static int64_t number(const json_t *row, size_t at)
{
	return json_integer_value(json_array_get(row, at));
}

static struct line_row read_row(const json_t *told)
{
	const json_t *up = json_array_get(told, 8);
	struct line_row row = {.received = (uint64_t)number(told, 2),
			       .received_sum = (uint64_t)number(told, 3),
			       .stored = (uint64_t)number(told, 4),
			       .stored_sum = (uint64_t)number(told, 5),
			       .unknown = (uint64_t)number(told, 6),
			       .reconnects = (unsigned int)number(told, 7),
			       .gap = (uint64_t)number(told, 9),
			       .silent_ms = (int)number(told, 10),
			       .behind = {(int)number(told, 12), (int)number(told, 13)},
			       .has_behind = json_is_integer(json_array_get(told, 12)),
			       .spans = (unsigned int)json_array_size(up) / 2};

	for (size_t i = 0; i < json_array_size(up); i++)
		row.up[i / 2][i % 2] = (int)number(up, i);
	return row;
}

/* What all lines have reported about a minute. */
static json_t *told[LINES];

static void tell_by(int64_t wall_ms, int64_t loop_ms)
{
	for (int i = 0; i < LINES; i++) {
		json_decref(told[i]);
		told[i] = line_minutes_describe(&lines[i], true, INT64_MAX, START + wall_ms, loop_ms);
		line_minutes_told(&lines[i], true);
	}
}

static void tell(int64_t ms)
{
	tell_by(ms, ms);
}

/* Judges this many minutes together. A second report of a minute by a line is from another process. */
static void judge_all(int64_t first, int64_t minutes)
{
	size_t n = 0, k;
	json_t *row;

	memset(rows, 0, sizeof(rows));
	for (int i = 0; i < LINES; i++) {
		int64_t before = -1;
		int process = 0;

		json_array_foreach(told[i], k, row)
		{
			struct line_row one = read_row(row);
			int64_t minute = number(row, 0) - START / LINE_MINUTE_MS;
			char name[40];

			process += minute <= before;
			before = minute;
			if (minute < first || minute >= first + minutes)
				continue;
			snprintf(name, sizeof(name), "line-%d.%016d", i, process);
			line_row_place(&one, name, minute - first, minutes);
			n = line_row_add(rows, n, &one);
		}
	}
	line_verdict(&verdict, rows, line_row_end(rows, n), 0, (int)minutes * LINE_MINUTE_MS);
}

static void judge(int64_t minute)
{
	judge_all(minute, 1);
}

static void expect(int64_t minute, enum line_state state)
{
	judge(minute);
	cr_assert_eq(verdict.state, state, "minute %lld is %s", (long long)minute, line_state_name(verdict.state));
}

Test(line_minutes, lines_that_agree_are_verified)
{
	for (int64_t ms = 0; ms < 120000; ms += 100)
		send(ms, 0);
	tell(130000);
	expect(0, LINE_VERIFIED);
	cr_assert_eq(verdict.stored, 600);
	expect(1, LINE_VERIFIED);
	expect(2, LINE_OPEN);
	cr_assert_eq(verdict.open[0][0], 10000, "connected as far as it was told");
}

/* 500 events a second for an hour; each loss is on one line, and each listener has losses in most minutes. */
Test(line_minutes, a_thousand_losses_are_reported_in_their_minutes_and_none_invented, .timeout = 300)
{
	static unsigned int lost[60][LINES], reported;
	unsigned int planted = 0;
	uint64_t dice = 1;

	for (int64_t ms = 0; ms < 60 * LINE_MINUTE_MS; ms += 2) {
		dice = hash_mix(dice + 1);
		unsigned int line = (unsigned int)(dice >> 32) % LINES;
		if (dice % 1500 || planted == 1000) {
			send(ms, 0);
			continue;
		}
		send(ms, 1U << line);
		lost[ms / LINE_MINUTE_MS][line]++;
		planted++;
	}
	cr_assert_eq(planted, 1000);
	tell(61 * LINE_MINUTE_MS);
	for (int64_t minute = 0; minute < 60; minute++) {
		bool is_clean = !lost[minute][0] && !lost[minute][1] && !lost[minute][2];

		expect(minute, is_clean ? LINE_VERIFIED : LINE_DIFFERING);
		cr_assert_eq(verdict.stored, 30000);
		for (int i = 0; i < LINES; i++) {
			cr_assert_eq(verdict.lines[i].missing, lost[minute][i]);
			reported += lost[minute][i];
		}
	}
	cr_assert_eq(reported, 1000);
}

/* Every five minutes the leader is killed: what it had not told for ten seconds is gone, it is back after five, and
 * another one leads. */
Test(line_minutes, losses_are_told_through_kills_and_changes_of_the_leader, .timeout = 300)
{
	static unsigned int lost[60][LINES];
	static json_t *before[LINES];
	unsigned int planted = 0, down = 0;
	int64_t back_ms = 0;
	uint64_t dice = 7;

	for (int64_t ms = 0; ms < 60 * LINE_MINUTE_MS; ms += 2) {
		int64_t in_five = ms % (5 * LINE_MINUTE_MS);
		unsigned int without = down;

		if (in_five == 20000) {
			json_t *rows_told = line_minutes_describe(&lines[leader], true, INT64_MAX, START + ms, ms);

			before[leader] = before[leader] ? before[leader] : json_array();
			json_array_extend(before[leader], rows_told);
			json_decref(rows_told);
			line_minutes_told(&lines[leader], true);
		} else if (in_five == 30000) {
			line_minutes_free(&lines[leader]);
			down = 1U << leader;
			back_ms = ms + 5000;
			leader = (leader + 1) % LINES;
		} else if (down && ms == back_ms) {
			connect((leader + LINES - 1) % LINES, true, ms);
			down = 0;
		}
		dice = hash_mix(dice + 1);
		if (!down && dice % 1500 == 0 && planted < 1000) {
			unsigned int line = (unsigned int)(dice >> 32) % LINES;

			without = 1U << line;
			lost[ms / LINE_MINUTE_MS][line]++;
			planted++;
		}
		send(ms, without);
	}
	cr_assert_eq(planted, 1000);
	tell(61 * LINE_MINUTE_MS);
	for (int i = 0; i < LINES; i++) {
		json_array_extend(told[i], before[i]);
		json_decref(before[i]);
	}
	for (int64_t minute = 0; minute < 60; minute++) {
		bool is_clean = !lost[minute][0] && !lost[minute][1] && !lost[minute][2];

		if (minute % 5) {
			expect(minute, is_clean ? LINE_VERIFIED : LINE_DIFFERING);
			for (int i = 0; i < LINES; i++)
				cr_assert_eq(verdict.lines[i].missing, lost[minute][i]);
			continue;
		}
		/* Two witnesses are left, and part of what was stored is known from them only. */
		judge(minute);
		cr_assert_eq(verdict.open_count, 0);
		cr_assert(verdict.state == LINE_COVERED || (!is_clean && verdict.state == LINE_DIFFERING),
			  "minute %lld is %s", (long long)minute, line_state_name(verdict.state));
		for (int i = 0; i < LINES; i++)
			if (verdict.lines[i].is_full)
				cr_assert_leq(verdict.lines[i].missing, lost[minute][i]);
	}
}

Test(line_minutes, a_copy_that_comes_again_does_not_count_and_neither_does_one_of_hours_ago)
{
	send(1000, 0);
	settle(1, next_event, 1000, 2000, false);
	settle(1, next_event, 1000, 250000, false);
	settle(1, next_event, 1000, 3 * 3600000, false);
	tell(4 * 3600000);
	expect(0, LINE_VERIFIED);
	cr_assert_eq(rows[1].received, 1);
}

Test(line_minutes, a_late_copy_counts_in_the_minute_of_the_first)
{
	send(59000, 4);
	settle(2, next_event, 59000, 61000, false);
	tell(130000);
	expect(0, LINE_VERIFIED);
	cr_assert_eq(rows[2].received, 1);
}

Test(line_minutes, the_first_copies_may_settle_in_any_order)
{
	for (int64_t ms = 1100; ms > 1000; ms -= 10)
		send(ms, 0);
	for (int64_t ms = 1101; ms < 2000; ms += 10)
		send(ms, 0);
	tell(130000);
	expect(0, LINE_VERIFIED);
	cr_assert_eq(rows[0].unknown, 0);
}

/* As while Redis is away. */
Test(line_minutes, copies_of_an_unknown_minute_prevent_that_it_is_verified)
{
	send(1000, 2);
	settle(1, next_event, -1, 1400, false);
	tell(130000);
	expect(1, LINE_VERIFIED);
	expect(0, LINE_UNVERIFIED);
	cr_assert_eq(verdict.lines[1].missing, 0, "it may be the unknown one");
	cr_assert_eq(verdict.lines[0].alone, 0);
	rows[1].gap = 1;
	cr_assert_eq(line_holes(&verdict.lines[1], &(uint64_t){0}), 0, "others had it");
}

static void await_all(int64_t ms)
{
	for (int i = 0; i < LINES; i++)
		line_minutes_await(&lines[i], "feed", 1, START + ms);
}

/* It may never be stored. */
Test(line_minutes, a_minute_with_an_event_that_waits_is_not_verified)
{
	send(1000, 0);
	await_all(2000);
	tell(130000);
	expect(0, LINE_UNVERIFIED);
	expect(1, LINE_VERIFIED);
	await_all(2000);
	tell(190000);
	cr_assert_eq(json_array_size(told[0]), 2, "nothing new is known of the first minute");
	next_event++;
	for (int i = 0; i < LINES; i++)
		settle(i, next_event, 2000, 2000, i == 0);
	tell(250000);
	expect(0, LINE_VERIFIED);
	cr_assert_eq(verdict.stored, 2);
}

Test(line_minutes, a_minute_with_an_event_on_disk_is_not_verified)
{
	send(1000, 0);
	for (int i = 0; i < LINES; i++)
		line_minutes_put_away(&lines[i], "feed", START + 61000, true);
	tell(130000);
	expect(1, LINE_UNVERIFIED);
	for (int i = 0; i < LINES; i++) {
		line_minutes_put_away(&lines[i], "feed", START + 61000, false);
		line_minutes_put_away(&lines[i], "feed", START + 62000, false); /* of a process before this one */
	}
	tell(190000);
	expect(1, LINE_VERIFIED);
}

/* Else each row would be written twice. */
Test(line_minutes, a_minute_is_told_when_it_is_over_or_at_the_end)
{
	send(1000, 0);
	json_t *rows_told = line_minutes_describe(&lines[0], false, INT64_MAX, START + 59999, 59999);
	cr_assert_eq(json_array_size(rows_told), 0);
	json_decref(rows_told);
	rows_told = line_minutes_describe(&lines[0], false, INT64_MAX, START + 60000, 60000);
	cr_assert_eq(json_array_size(rows_told), 1);
	json_decref(rows_told);
	rows_told = line_minutes_describe(&lines[0], true, INT64_MAX, START + 61000, 61000);
	cr_assert_eq(json_array_size(rows_told), 1);
	json_decref(rows_told);
}

/* Marks and the channel are Redis's, and a host's clock may be wrong. Postgres would refuse such a minute. */
Test(line_minutes, a_time_that_postgres_does_not_know_is_in_no_minute)
{
	tell(1000);
	settle(1, 1, -1, -(INT64_C(1) << 54), false);
	settle(1, 2, -1, INT64_C(1) << 54, false);
	tell(3000);
	cr_assert_eq(json_array_size(told[1]), 1);
}

Test(line_minutes, a_minute_to_come_is_unknown)
{
	settle(1, 1, INT64_C(1) << 54, 1000, false);
	tell(120000);
	cr_assert_eq(json_array_size(told[1]), 2);
	judge(0);
	cr_assert_eq(verdict.state, LINE_UNVERIFIED);
}

Test(line_minutes, a_killed_listener_that_has_not_told_leaves_the_minute_covered)
{
	send(1000, 0);
	tell(130000);
	json_array_clear(told[0]);
	expect(0, LINE_COVERED);
	cr_assert_eq(verdict.stored, 1);
	cr_assert_eq(verdict.lines[0].missing, 0);
}

Test(line_minutes, an_open_span_is_told_to_the_millisecond)
{
	for (int i = 0; i < LINES; i++) {
		connect(i, false, 20000 + i);
		connect(i, true, 30000 - i);
	}
	tell(130000);
	expect(0, LINE_OPEN);
	cr_assert_eq(verdict.open_count, 1);
	cr_assert_eq(verdict.open[0][0], 20002);
	cr_assert_eq(verdict.open[0][1], 29998);
	cr_assert_eq(verdict.lines[0].connected_ms, 50000);
	cr_assert_eq(rows[0].reconnects, 1);
}

Test(line_minutes, one_line_that_was_there_throughout_covers_the_others)
{
	connect(0, false, 20000);
	connect(1, false, 20000);
	send(25000, 3);
	tell(130000);
	expect(0, LINE_COVERED);
	cr_assert_eq(verdict.lines[0].missing, 1);
	cr_assert_eq(verdict.lines[2].alone, 1);
}

/* Minutes that were told of are told again. */
Test(line_minutes, a_connection_that_was_given_up_is_open_since_its_last_sign_of_life)
{
	tell(61000);
	for (int i = 0; i < LINES; i++) {
		line_minutes_lose(&lines[i], "feed", 0, 20000, START + 70000, 70000);
		connect(i, false, 70000);
		connect(i, true, 71000);
		line_minutes_lose(&lines[i], "feed", 0, 0, START + 80000, 80000); /* it ended by itself */
		line_minutes_lose(&lines[i], "none", 0, 1, START + 80000, 80000);
	}
	tell(130000);
	expect(0, LINE_OPEN);
	cr_assert_eq(verdict.open[0][0], 50000);
	cr_assert_eq(verdict.open[0][1], 60000);
	expect(1, LINE_OPEN);
	cr_assert_eq(verdict.open[0][0], 0);
	cr_assert_eq(verdict.open[0][1], 11000);
	cr_assert_eq(verdict.open_count, 1);
}

/* The wall clock of a host says nothing about the time that it skips. */
Test(line_minutes, a_step_of_the_clock_is_not_time_on_the_line)
{
	line_minutes_connect(&lines[0], "feed", 0, false, START + 40000, 10000);
	connect(1, false, 0);
	connect(2, false, 0);
	tell(130000);
	judge(0);
	cr_assert_eq(verdict.open[0][0], 0);
	cr_assert_eq(verdict.open[0][1], 30000);
	cr_assert_eq(verdict.open[1][0], 40000);
}

/* Nobody was connected in some of them when they came first. */
Test(line_minutes, minutes_that_the_clock_goes_through_again_are_not_verified)
{
	for (int i = 0; i < LINES; i++) {
		connect(i, false, 20000);
		connect(i, true, 30000);
	}
	tell(130000);
	expect(0, LINE_OPEN);
	tell(600000);
	tell_by(0, 600000);
	tell_by(600500, 1200500);
	expect(0, LINE_UNVERIFIED);
	expect(9, LINE_UNVERIFIED);
	tell_by(720000, 1320000);
	expect(11, LINE_VERIFIED);
}

Test(line_minutes, what_may_not_be_committed_is_told_again)
{
	send(1000, 0);
	json_t *first = line_minutes_describe(&lines[0], true, INT64_MAX, START + 2000, 2000);
	line_minutes_told(&lines[0], false);
	json_t *second = line_minutes_describe(&lines[0], true, INT64_MAX, START + 2000, 2000);
	cr_assert(json_equal(first, second));
	line_minutes_told(&lines[0], true);
	json_decref(first);
	first = line_minutes_describe(&lines[0], true, INT64_MAX, START + 2000, 2000);
	cr_assert_eq(json_array_size(first), 0);
	json_decref(first);
	json_decref(second);
}

/* As when Postgres was away for a day. */
Test(line_minutes, a_long_backlog_is_told_in_parts_and_the_last_minutes_at_once)
{
	static const char *const names[] = {"0", "1", "2", "3"};
	const int64_t minutes = 1400, end_ms = minutes * LINE_MINUTE_MS;
	struct line_minutes many = {.count = 0};
	size_t all = 0, last = 0, n;

	for (int i = 0; i < 4; i++)
		line_minutes_connect(&many, names[i], 0, true, START, 0);
	for (int part = 0; part < 2; part++) {
		json_t *part_of_it = line_minutes_describe(&many, true, INT64_MAX, START + end_ms, end_ms), *row;

		json_array_foreach(part_of_it, n, row) last += number(row, 0) == START / LINE_MINUTE_MS + minutes - 1;
		cr_assert_leq(n, LINE_ROWS + 4 * 11);
		cr_assert_eq(last, 4, "of all lines in the first part");
		line_minutes_told(&many, true);
		all += n;
		json_decref(part_of_it);
	}
	cr_assert_eq(all, 4 * minutes);
	line_minutes_free(&many);
}

Test(line_minutes, more_copies_than_can_be_remembered_make_older_ones_unknown)
{
	send(0, 0);
	for (int i = 0; i < 2 * LINE_SEEN_MAX + 1; i++)
		settle(0, ++next_event, 1000, 1000, true);
	settle(0, ++next_event, 500, 1500, false);
	tell(130000);
	judge(0);
	cr_assert_eq(rows[0].unknown, 1);
	cr_assert_leq(lines[0].young.size, 2 * LINE_SEEN_MAX);
}

Test(line_minutes, producers_are_no_lines)
{
	line_minutes_settle(&lines[0], &(struct line_copy){"", 1, 1, START, START, true, NULL});
	line_minutes_settle(&lines[0], &(struct line_copy){"shop", 1, 2, START, START, true, NULL});
	cr_assert_eq(lines[0].count, 1);
}

/* The first process of line 0 is connected until 40 s, and the next one, which receives 50 of the 60 events, again or
 * not, from from_ms on. Line 1 has them all. */
static void restart_at(int from_ms)
{
	static struct line_row two[2];

	for (int64_t ms = 0; ms < 60000; ms += 1000)
		send(ms, 0);
	tell(130000);
	judge(0);
	memcpy(two, rows, sizeof(two));
	two[0].up[0][1] = 40000;
	line_row_merge(&two[0], &(struct line_row){.length_ms = LINE_MINUTE_MS,
						   .received = 50,
						   .received_sum = 7,
						   .spans = 1,
						   .up = {{from_ms, 60000}}});
	line_verdict(&verdict, two, 2, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_COVERED, "%s", line_state_name(verdict.state));
	cr_assert_eq(verdict.lines[1].missing, 0);
}

/* After a restart a feed sends again what came since its cursor. */
Test(line_minutes, what_a_restarted_listener_receives_again_is_nobodys_loss)
{
	restart_at(41000);
	cr_assert_eq(verdict.stored, 60);
	cr_assert_eq(verdict.lines[0].missing, 0);
	cr_assert_eq(verdict.lines[0].connected_ms, 59000);
}

/* Otherwise a source that all listeners have dialled in vain for longer than `wsonce lines` looks back would be
 * unknown. */
Test(line_minutes, a_source_that_is_dialled_in_vain_is_recorded)
{
	line_minutes_want(&lines[0], "feed", 0, true);
	connect(0, false, 1000);
	tell(130000);
	cr_assert_eq(json_array_size(told[0]), 2, "minutes 0 and 2");
	cr_assert_eq(number(json_array_get(told[0], 1), 0), START / LINE_MINUTE_MS + 2);
	cr_assert_eq(json_array_size(json_array_get(json_array_get(told[0], 1), 8)), 0);
	tell(140000);
	cr_assert_eq(json_array_size(told[0]), 0, "once a minute");
	tell(190000);
	cr_assert_eq(json_array_size(told[0]), 1);
	line_minutes_want(&lines[0], "feed", 0, false);
	tell(250000);
	cr_assert_eq(json_array_size(told[0]), 0, "it is left to others");
	line_minutes_want(&lines[0], "other", 0, true);
	tell(310000);
	cr_assert_eq(json_array_size(told[0]), 1, "it has never been connected");
}

/* A new process with the same name starts before the old one has ended, and its feed sends again what the old one had.
 */
Test(line_minutes, processes_that_overlap_prove_nothing_about_others)
{
	restart_at(39000);
	cr_assert_eq(verdict.lines[0].connected_ms, 60000);
}

/* Of more lines than a verdict has room for, one may have missed something. */
Test(line_minutes, lines_that_are_left_out_verify_nothing)
{
	static struct line_row many[LINES_A_TIME];

	for (size_t i = 0; i < LINES_A_TIME; i++)
		many[i] = (struct line_row){.length_ms = LINE_MINUTE_MS, .spans = 1, .up = {{0, 60000}}};
	line_verdict(&verdict, many, LINES_A_TIME - 1, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_VERIFIED);
	line_verdict(&verdict, many, LINES_A_TIME, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_UNVERIFIED);
}

/* What was under way when it stopped, it receives again after the start. */
Test(line_minutes, what_a_line_receives_after_a_restart_may_be_what_it_seems_to_miss)
{
	struct line_row two[2];

	for (int64_t ms = 0; ms < 60000; ms += 1000)
		send(ms, 0);
	send(59900, 2);
	tell(130000);
	judge(0);
	memcpy(two, rows, sizeof(two));
	line_verdict(&verdict, two, 2, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_DIFFERING, "%s", line_state_name(verdict.state));
	line_row_merge(&two[1], &(struct line_row){.length_ms = LINE_MINUTE_MS, .received = 9, .received_sum = 7});
	line_verdict(&verdict, two, 2, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_UNVERIFIED, "%s", line_state_name(verdict.state));
	two[1].received = two[0].received;
	two[1].received_sum = two[0].received_sum;
	line_verdict(&verdict, two, 2, 0, LINE_MINUTE_MS);
	cr_assert_eq(verdict.state, LINE_VERIFIED, "%s", line_state_name(verdict.state));
}

/* --- leads --- */

static void expect_lead(size_t at, int p50, int p99)
{
	const struct line_report *line = &verdict.lines[at];

	cr_assert(line->has_lead, "line %zu", at);
	cr_assert_leq(abs(line->lead[0] - p50), abs(p50) / 8, "line %zu: %d", at, line->lead[0]);
	cr_assert_leq(abs(line->lead[1] - p99), abs(p99) / 8, "line %zu: %d", at, line->lead[1]);
}

/* Each copy comes 400 ms after the line before; of the last one, two in a hundred two seconds later. */
Test(line_minutes, a_lead_is_how_long_copies_come_before_those_of_the_next_line)
{
	for (int64_t ms = 0; ms < 50000; ms += 100) {
		send(ms, ms % 5000 ? 0 : 4);
		if (ms % 5000 == 0)
			settle(2, next_event, ms, ms + 2800, false);
	}
	tell(130000);
	judge(0);
	expect_lead(0, 400, 400);
	expect_lead(1, -400, -400);
	expect_lead(2, -800, -2800);
	judge(1);
	cr_assert_not(verdict.lines[0].has_lead, "no events");
}

/* The leader's line may be the slower one. */
Test(line_minutes, a_copy_that_comes_before_the_stored_one_leads)
{
	for (int64_t ms = 1001; ms < 50000; ms += 100) {
		settle(0, ++next_event, ms, ms, true);
		settle(1, next_event, ms, ms - 5, false);
		settle(1, next_event, ms, ms + 5000, false);
	}
	tell(130000);
	judge(0);
	expect_lead(0, -5, -5);
	expect_lead(1, 5, 5);
	cr_assert_not(verdict.lines[2].has_lead, "it heard nothing");
}

Test(line_minutes, a_mark_says_nothing_of_the_lead)
{
	settle(0, ++next_event, 60000, 60000, true);
	settle(1, next_event, 60000, 61000, false);
	settle(0, ++next_event, -1, 62000, false);
	tell(130000);
	judge(1);
	cr_assert_eq(rows[1].received, 1);
	for (int i = 0; i < LINES; i++)
		cr_assert_not(rows[i].has_behind);
}

/* The report of a minute stays the same when there are two later minutes. */
Test(line_minutes, late_copies_leave_the_lead_as_it_was_told)
{
	for (int64_t minute = 0; minute < 4; minute++) {
		send(minute * 60000 + 59000, 0);
		tell(minute * 60000 + 60500);
	}
	settle(1, ++next_event, 100, 190000, false);
	tell(240000);
	judge(0);
	cr_assert_eq(rows[0].received, 2, "only line 1 has something to tell");
	cr_assert_leq(rows[0].behind[1], 450);
}

/* Of an instance with two processes, the one with more events. */
Test(line_minutes, a_restarted_line_has_the_lead_of_its_longer_part)
{
	struct line_row row = {.received = 5, .behind = {1, 2}, .has_behind = true};

	line_row_merge(&row, &(struct line_row){.received = 9, .behind = {3, 4}, .has_behind = true});
	line_row_merge(&row, &(struct line_row){.received = 9});
	line_row_merge(&row, &(struct line_row){.received = 2, .behind = {5, 6}, .has_behind = true});
	cr_assert_eq(row.behind[0], 3);
	cr_assert_eq(row.behind[1], 4);
}

Test(line_minutes, lags_are_exact_below_eight_and_within_an_eighth_beyond)
{
	for (int ms = -LAGS_MOST_MS - 9; ms < LAGS_MOST_MS + 9;
	     ms = ms < -8 || ms > 8 ? ms + 1 + abs(ms) / 9 : ms + 1) {
		static struct lags lags;
		int most = abs(ms) < LAGS_MOST_MS ? abs(ms) : LAGS_MOST_MS, got;

		lags = (struct lags){{0}};
		cr_assert_not(lags_percentile(&lags, 50, &got));
		lags_add(&lags, ms, 1000000);
		cr_assert(lags_percentile(&lags, 99, &got));
		cr_assert_leq(abs(abs(got) - most), abs(ms) < 8 ? 0 : most / 8, "%d is %d", ms, got);
		cr_assert_eq(got < 0, ms < 0);
	}
}

/* --- five minutes together --- */

static void add_lines(int i)
{
	static char names[LINES_SHORT][16];

	for (int k = 0; k < LINES_SHORT; k++) {
		snprintf(names[k], sizeof(names[k]), "x-%d", k);
		line_minutes_want(&lines[i], names[k], 0, false);
	}
}

#define LONG_MINUTE 4 /* START is a minute after a multiple of five */

Test(line_minutes, of_more_than_200_lines_a_row_is_of_five_minutes)
{
	for (int i = 0; i < LINES; i++)
		add_lines(i);
	connect(0, false, 300000);
	connect(0, true, 301500);
	for (int64_t ms = 240000; ms < 840000; ms += 1000)
		send(ms, ms == 300000 || ms == 301000 ? 1 : ms == 777000 ? 2 : 0);
	tell(900000);
	for (int i = 0; i < LINES; i++)
		cr_assert_eq(json_array_size(told[i]), 4, "the first one, two whole ones and the last one");
	cr_assert_eq(number(json_array_get(told[0], 1), 15), LINE_LONG);
	judge_all(LONG_MINUTE, LINE_LONG);
	cr_assert_eq(verdict.state, LINE_VERIFIED, "%s", line_state_name(verdict.state));
	cr_assert_eq(verdict.stored, 300);
	cr_assert_eq(verdict.lines[0].missing, 2);
	cr_assert_eq(verdict.lines[0].connected_ms, 298500);
	cr_assert(verdict.lines[1].has_lead);
	judge_all(LONG_MINUTE + LINE_LONG, LINE_LONG);
	cr_assert_eq(verdict.state, LINE_DIFFERING);
	cr_assert_eq(verdict.lines[1].missing, 1);
}

/* What the table has after more is told, in order of the minutes. */
static void upsert(json_t *table, const json_t *more)
{
	json_t *row;
	size_t i, k;

	json_array_foreach(more, k, row)
	{
		for (i = 0; number(json_array_get(table, i), 0) < number(row, 0) && i < json_array_size(table); i++)
			;
		if (number(json_array_get(table, i), 0) == number(row, 0))
			json_array_set(table, i, row);
		else
			json_array_insert(table, i, row);
	}
}

/* Listener 0 gets more sources in the third of the five minutes, listener 1 has had more all the time, and listener 2
 * has few. */
Test(line_minutes, listeners_may_change_to_five_minutes_at_any_time)
{
	static json_t *table[LINES];

	add_lines(1);
	for (int64_t ms = 240000; ms < 540000; ms += 1000) {
		if (ms == 400000) {
			tell(ms);
			for (int i = 0; i < LINES; i++)
				upsert(table[i] = json_array(), told[i]);
			add_lines(0);
		}
		send(ms, ms == 410000 ? 4 : 0);
	}
	tell(600000);
	for (int i = 0; i < LINES; i++) {
		upsert(table[i], told[i]);
		json_decref(told[i]);
		told[i] = table[i];
	}
	for (size_t k = 0; k < json_array_size(table[0]); k++) {
		const json_t *row = json_array_get(table[0], k);
		int64_t minute = number(row, 0) - START / LINE_MINUTE_MS;

		cr_assert_eq(number(row, 15), minute % LINE_LONG == LONG_MINUTE && minute > 0 ? LINE_LONG : 1,
			     "minute %lld", (long long)minute);
	}
	judge_all(LONG_MINUTE, LINE_LONG);
	cr_assert_eq(verdict.stored, 300);
	cr_assert_eq(verdict.state, LINE_DIFFERING, "%s", line_state_name(verdict.state));
	for (int i = 0; i < LINES; i++) {
		cr_assert_eq(verdict.lines[i].missing, i == 2, "line %d", i);
		cr_assert_eq(verdict.lines[i].connected_ms, 300000, "line %d", i);
	}
}

/* --- numbers of the feed --- */

static void count(void)
{
	for (int i = 0; i < LINES; i++)
		line_minutes_number(&lines[i], "feed", 0);
}

/* Event n of a feed that counts: all lines but those in the mask get it, and find that `numbers` are missing before. */
static void send_after_gap(int64_t ms, unsigned int without, uint64_t numbers)
{
	for (int i = 0; i < LINES; i++)
		if (!(without & 1U << i))
			line_minutes_gap(&lines[i], "feed", 0, hash_mix(next_event + 1), numbers, START + ms + 400 * i);
	send(ms, without);
}

static uint64_t holes(size_t at, uint64_t *rest)
{
	return line_holes(&verdict.lines[at], rest);
}

Test(line_minutes, a_gap_counts_in_the_minute_of_the_event_that_shows_it)
{
	uint64_t rest = 0;

	send(1000, 0);
	tell(2000);
	cr_assert(json_is_null(json_array_get(json_array_get(told[0], 0), 9)), "the feed is not said to count");
	count();
	send_after_gap(59900, 0, 3);
	tell(130000);
	judge(0);
	for (size_t i = 0; i < LINES; i++) {
		cr_assert_eq(verdict.lines[i].row->gap, 3, "line %zu", i);
		rest = 0;
		cr_assert_eq(holes(i, &rest), 3, "no line had them");
	}
	judge(1);
	cr_assert_eq(verdict.lines[2].row->gap, 0);
}

Test(line_minutes, what_another_line_had_is_no_hole)
{
	uint64_t rest = 0;

	count();
	send(59000, 1);
	send(59500, 1);
	for (int i = 0; i < 2; i++) /* the gap of line 0 shows in the next minute; another number is missing on all */
		line_minutes_gap(&lines[0], "feed", 0, hash_mix(next_event + 1), 3, START + 60100);
	send(60100, 0);
	tell(130000);
	judge(0);
	cr_assert_eq(verdict.lines[0].missing, 2);
	cr_assert_eq(holes(0, &rest), 0);
	judge(1);
	cr_assert_eq(holes(0, &rest), 4);
	cr_assert_eq(rest, 0);
}

/* A dead letter is in no minute. */
Test(line_minutes, a_gap_before_an_event_that_does_not_settle_counts_when_it_was_found)
{
	count();
	line_minutes_gap(&lines[0], "feed", 0, 1234, 5, START + 2000);
	for (uint64_t i = 0; i < LINE_GAPS; i++)
		line_minutes_gap(&lines[1], "feed", 0, i, 1, START + 2000);
	line_minutes_gap(&lines[1], "feed", 0, 99, 1, START + 2000);
	tell(100000);
	judge(0);
	cr_assert_eq(rows[0].gap, 0, "it may settle");
	cr_assert_eq(rows[1].gap, 1, "there is no room for more");
	tell(303000);
	judge(0);
	cr_assert_eq(rows[0].gap, 5);
	cr_assert_eq(rows[1].gap, LINE_GAPS + 1);
}

/* --- silence --- */

Test(line_minutes, a_silence_is_recorded_from_its_first_moment)
{
	line_minutes_silence(&lines[0], "feed", 0, START + 50000, START + 62000, 62000);
	tell(70000);
	judge(0);
	cr_assert_eq(rows[0].silent_ms, 10000);
	line_minutes_silence(&lines[0], "feed", 0, START + 50000, START + 75000, 75000);
	line_minutes_silence(&lines[0], "feed", 0, 0, START + 80000, 80000);
	tell(130000);
	judge(1);
	cr_assert_eq(rows[0].silent_ms, 20000);
	cr_assert_eq(rows[1].silent_ms, 0);
	line_minutes_silence(&lines[0], "unknown", 0, START, START + 1, 1);
	line_minutes_silence(&lines[0], "feed", 0, START + 130000, START + 131000, 131000);
	line_minutes_connect(&lines[0], "feed", 0, false, 30 * START, 132000); /* the wall clock is set */
	tell(133000);
}

/* --- counts --- */

static struct line_counts counts;

/* One check-in of listener 0. */
static void check_in(int64_t minute, const char *answer, const char *expected)
{
	json_t *asked = line_counts_ask(&counts, minute * LINE_MINUTE_MS + 30000);
	char *text = json_dumps(asked, JSON_COMPACT);

	cr_assert_str_eq(text, expected, "minute %lld", (long long)minute);
	if (answer)
		line_counts_take(&lines[0], &counts, answer, strlen(answer));
	line_counts_told(&counts, answer != NULL);
	free(text);
	json_decref(asked);
}

Test(line_minutes, a_minute_is_counted_once_when_nobody_can_tell_more_of_it)
{
	counts = (struct line_counts){.instance = "a"};
	check_in(100, "", "[101,101]");
	for (int64_t minute = 101; minute < 109; minute++)
		check_in(minute, "", "[101,101]");
	check_in(109, "", "[101,102]");
	check_in(110, NULL, "[102,103]");
	line_counts_told(&counts, true); /* a short one, while Postgres has trouble */
	check_in(111, "", "[102,103]");
	check_in(140, "", "[103,105]");
	check_in(141, "", "[105,115]"); /* ten minutes at a time */
	check_in(141, "", "[115,125]");
}

#define A "\"a.0123456789abcdef\""
#define B "\"b.0123456789abcdef\""

/* Of the five minutes from 95 on this process has seen a part. */
Test(line_minutes, counts_are_those_of_the_report)
{
	counts = (struct line_counts){.instance = "a"};
	check_in(100,
		 "[[101,\"feed\",7,70,0,0,0,0,[0,60000]," A ",0,1],[101,\"feed\",9,90,9,90,0,0,[0,60000]," B ",0,1],"
		 "[102,\"feed\",1,10,0,0,0,0,[0,20000]," A ",0,1],[102,\"feed\",2,20,2,20,0,0,[0,10000,30000,60000]," B
		 ",0,1],"
		 "[102,\"other\",0,0,0,0,0,0,[]," A ",0,1],[103,\"feed\",0,0,0,0,0,0,[0,30000]," A ",0,1],"
		 "[103,\"feed\",0,0,0,0,0,0,[30000,60000],\"a.0123456789abcdee\",0,1],"
		 "[95,\"feed\",7,0,0,0,0,0,[0,60000]," A ",0,5],[95,\"feed\",9,0,0,0,0,0,[0,60000]," B ",0,5],"
		 "[105,\"feed\",4,40,0,0,0,0,[0,240000]," A ",0,5],[105,\"feed\",3,30,0,0,0,0,[0,59000]," A ",4,5],"
		 "[105,\"feed\",9,90,9,90,0,0,[0,299000]," B ",0,5]]",
		 "[101,101]");
	cr_assert_eq(lines[0].lines[0].missing, 5);
	cr_assert_eq(lines[0].lines[0].open_ms, 11000);
	line_counts_take(&lines[0], &counts, "nonsense", 8);
}

/* --- several lines of a source --- */

/* One listener with two connections to the feed, of which the second one lost an event. */
Test(line_minutes, lines_of_one_listener_are_told_apart_and_what_it_stored_counts_once)
{
	struct line_counts n = {.instance = "i"};
	json_t *both;
	char text[400];

	line_minutes_connect(&lines[0], "feed", 1, true, START, 0);
	for (uint64_t event = 1; event <= 3; event++)
		line_minutes_settle(&lines[0],
				    &(struct line_copy){"feed", event == 2 ? 1 : 3, event, START, START, true, NULL});
	both = line_minutes_describe(&lines[0], true, INT64_MAX, START + 60000, 60000);
	cr_assert_eq(json_array_size(both), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *row = json_array_get(both, i);

		cr_assert_eq(number(row, 2), i ? 2 : 3, "received");
		cr_assert_eq(number(row, 4), i ? 0 : 3, "stored");
		cr_assert_str_eq(json_string_value(json_array_get(row, 14)), i ? "/2" : "");
	}
	snprintf(text, sizeof(text),
		 "[[9, \"feed\", 3, 6, 3, 6, 0, 0, [0, 60000], \"i.%1$s\", 0, 1], [9, \"feed\", 2, 4, 0, 0, 0, 0, "
		 "[0, 60000], \"i/2.%1$s\", 0, 1], [9, \"feed\", 1, 1, 0, 0, 0, 0, [0, 60000], \"i/22.%1$s\", 0, 1]]",
		 "0123456789abcdef");
	line_counts_take(&lines[0], &n, text, strlen(text));
	cr_assert_eq(line_minutes_find(&lines[0], "feed", 0)->missing, 0);
	cr_assert_eq(line_minutes_find(&lines[0], "feed", 1)->missing, 1);
	json_decref(both);
}

Test(line_minutes, disagreements_are_counted_and_the_first_hundred_described)
{
	static const uint8_t first[32] = {0xab}, other[32] = {0xcd};
	char id[20];
	json_t *row, *records;

	for (int n = 0; n < 150; n++) {
		int len = snprintf(id, sizeof(id), "id-%d", n);

		line_minutes_disagree(&lines[0], "feed", 0, (struct slice){id, (size_t)len}, first, other,
				      START + 1000);
	}
	line_minutes_disagree(&lines[0], "feed", 0, (struct slice){"a\0b", 3}, first, other, START + 61000);
	line_minutes_disagree(&lines[0], "other", 0, (struct slice){"a", 1}, first, other, START);
	for (int again = 0; again < 2; again++) {
		json_t *all = line_minutes_describe(&lines[0], true, INT64_MAX, START + 62000, 62000);

		row = json_array_get(all, 0);
		records = json_array_get(row, 17);
		cr_assert_eq(number(row, 16), 150);
		cr_assert_eq(json_array_size(records), 100);
		cr_assert_str_eq(json_string_value(json_array_get(json_array_get(records, 99), 0)), "id-99");
		cr_assert_eq(strncmp(json_string_value(json_array_get(json_array_get(records, 99), 2)), "cd00", 4), 0);
		row = json_array_get(all, 1);
		cr_assert_eq(number(row, 16), 1);
		cr_assert(json_is_null(json_array_get(row, 17)), "Postgres knows no such text");
		cr_assert_eq(lines[0].lines[0].disagree, 151);
		line_minutes_told(&lines[0], false);
		json_decref(all);
	}
}
