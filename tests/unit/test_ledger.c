/* What a ledger reports: stories of frames that arrive, events that settle, and the expected callbacks. */
#include "cursor_order.h"
#include "feed/cursor.h"
#include "intake/ledger.h"

#include <ctype.h>
#include <malloc.h>

#include "unit.h"

static struct list ledgers;
static struct ledger_settings settings;
static struct ledger *ledger, *older;
static struct sender *senders['z' - 'a' + 1]; /* of events whose names are letters */
static char cursors[200], acks[200];
static bool is_full;
static long charged;

static void on_cursor(void *arg, struct slice cursor)
{
	snprintf(cursors + strlen(cursors), sizeof(cursors) - strlen(cursors), "%s%.*s", *cursors ? " " : "",
		 (int)cursor.len, cursor.at);
}

static void on_ack(void *arg, struct slice ack, int64_t came_ms)
{
	cr_assert_eq(came_ms, 1000);
	snprintf(acks + strlen(acks), sizeof(acks) - strlen(acks), "%s%.*s", *acks ? " " : "", (int)ack.len, ack.at);
}

static void on_full(void *arg, bool full)
{
	cr_assert_neq(is_full, full, "the same twice");
	is_full = full;
}

static void on_charge(void *arg, long bytes)
{
	charged += bytes;
}

static void open_ledger(void)
{
	list_init(&ledgers);
	settings = (struct ledger_settings){
		.ledgers = &ledgers, .charge = on_charge, .on_cursor = on_cursor, .on_ack = on_ack, .on_full = on_full};
	ledger = ledger_new(&settings);
	ledger_tick(ledger, 0, 1000);
}

static void close_ledger(void)
{
	ledgers_free(&ledgers);
}

TestSuite(ledger, .init = open_ledger, .fini = close_ledger);

/* A feed chooses their length, so they must be charged. */
Test(ledger, memory_of_cursors_and_acks_counts_until_it_is_freed)
{
	struct slice cursor = {"12345", 5};
	const struct ledger_acks acks_of = {.stored = {"ack", 3}};

	ledger_note_cursor(ledger, cursor);
	struct sender *sender = ledger_expect(ledger);
	cr_assert_eq(charged, 5);
	ledger_owe_acks(ledger, &acks_of);
	cr_assert_gt(charged, 8 + 100, "%ld: a frame takes more than its ack", charged);
	sender->answer(sender, NULL, OUTCOME_PERSISTED);
	cr_assert_eq(charged, 0, "%ld", charged);
	cr_assert_str_eq(acks, "ack");
	ledger_leave(ledger);
}

/* --- stories --- */

static struct slice slice(const char *text)
{
	return (struct slice){text, strlen(text)};
}

/* A part of a frame: a letter, an event; @CURSOR; !ACK; ? for what cannot be read, which becomes the letter x; ^ for
 * the end of holding; | for another frame in the same message. */
static void take_part(const char *part)
{
	if (*part == '@')
		ledger_note_cursor(ledger, slice(part + 1));
	else if (*part == '!')
		ledger_owe_acks(ledger, &(struct ledger_acks){.stored = slice(part + 1)});
	else if (*part == '^')
		ledger_release(ledger);
	else if (*part == '|')
		ledger_begin_frame(ledger);
	else if (*part == '?')
		ledger_reject(ledger);
	if (*part == '?' || isalpha((unsigned char)*part))
		senders[*part == '?' ? 'x' - 'a' : *part - 'a'] = ledger_expect(ledger);
}

static void expect(const char *step, const char *what, char *found, const char *expected)
{
	cr_assert_str_eq(found, expected, "\"%s\": the %s are '%s'", step, what, found);
	*found = '\0';
}

static void set(const char *name)
{
	ledgers_free(&ledgers);
	if (strcmp(name, "last") == 0)
		settings.is_last = true;
	else if (strcmp(name, "lasting") == 0)
		settings.is_lasting = true;
	else if (strcmp(name, "held") == 0)
		settings.is_held = true;
	else if (strcmp(name, "cumulative") == 0)
		settings.is_cumulative = true;
	else if (strcmp(name, "at_once") == 0)
		settings.is_at_once = true;
	else
		settings.max_unacked = strtoul(name, NULL, 10);
	ledger = ledger_new(&settings);
	ledger_tick(ledger, 0, 1000);
}

static void tell_step(char *step)
{
	char *verb = strtok(step, " "), *rest = strtok(NULL, "");

	if (strcmp(verb, "frame") == 0) {
		for (char *part = strtok(rest, " "); part; part = strtok(NULL, " "))
			take_part(part);
		ledger_end(ledger);
	} else if (strcmp(verb, "settle") == 0) {
		for (; *rest; rest++)
			senders[*rest - 'a']->answer(senders[*rest - 'a'], NULL, OUTCOME_PERSISTED);
	} else if (strcmp(verb, "cursors") == 0) {
		expect(verb, verb, cursors, rest ? rest : "");
	} else if (strcmp(verb, "acks") == 0) {
		expect(verb, verb, acks, rest ? rest : "");
	} else if (strcmp(verb, "full") == 0 || strcmp(verb, "free") == 0) {
		cr_assert_eq(is_full, verb[1] == 'u', "it is not %s", verb);
	} else if (strcmp(verb, "leave") == 0) {
		ledger_leave(ledger);
	} else if (strcmp(verb, "forget") == 0) {
		ledgers_forget_cursors(&ledgers, rest ? ledger : NULL);
	} else if (strcmp(verb, "next") == 0) {
		older = ledger;
		ledger = ledger_new(&settings);
	} else if (strcmp(verb, "old") == 0) {
		ledger = older;
	} else if (strcmp(verb, "gone") == 0) {
		cr_assert(list_is_empty(&ledgers), "it is still there");
	} else {
		cr_assert_str_eq(verb, "set", "no step: %s", verb);
		set(rest);
	}
}

static void tell(const char *story)
{
	char *text = strdup(story), *step = text;

	while (step) {
		char *end = strstr(step, "; ");

		if (end)
			*end = '\0';
		tell_step(step);
		step = end ? end + 2 : NULL;
	}
	free(text);
}

#define STORY(name, text) \
	Test(ledger, name) \
	{ \
		tell(text); \
	}

/* --- cursors --- */

STORY(cursor_waits_until_all_events_of_its_frame_are_durable,
      "frame a b @5; cursors; settle a; cursors; settle b; cursors 5")
STORY(cursor_covers_only_what_is_durable_from_the_beginning_on,
      "frame a @5; frame b @6; frame c @7; settle b; settle c; cursors; settle a; cursors 7")
STORY(cursor_stands_before_the_first_event_that_is_not_durable,
      "frame a @5; frame b @6; frame c @7; settle a; cursors 5; settle c; cursors; settle b; cursors 7")
STORY(cursor_of_a_control_frame_waits_for_what_came_before_it,
      "frame @1; cursors 1; frame a; frame @9; cursors; settle a; cursors 9")
STORY(frame_that_says_nothing_is_nothing, "frame; frame a @1; frame; settle a; cursors 1")
STORY(largest_cursor_of_what_is_durable_counts,
      "frame a @10; frame b @9; frame c @101; frame d @99; settle bcda; cursors 101")
STORY(last_cursor_counts_where_the_kind_says_so,
      "set last; frame a @10; frame b @9; frame c; settle bca; cursors 9; frame d @1; settle d; cursors 1")
STORY(last_cursor_of_a_frame_with_many_events_counts, "set last; frame a @1 b @2; settle ba; cursors 2")
STORY(frame_that_cannot_be_read_holds_the_cursor_until_its_letter_is_written,
      "frame ? @1; frame a @2; settle a; cursors; settle x; cursors 2")
STORY(strings_and_numbers_are_cursors, "frame a @\"abd\"; frame b @\"abc\"; settle ba; cursors \"abd\"")

/* --- holding --- */

STORY(cursors_do_not_count_before_the_release,
      "set held; frame a @100; settle a; cursors; frame b @90; frame ^; cursors; settle b; cursors 100; "
      "frame c @110; settle c; cursors 110")
STORY(release_waits_for_what_came_before_it_and_not_after,
      "set held; frame a @100; frame b @90; frame ^; frame c @120; settle ac; cursors; settle b; cursors 120")
STORY(release_is_kept_behind_an_event_that_is_stuck,
      "set held; frame a @3; frame b @1; frame ^; settle b; cursors; settle a; cursors 3")
STORY(without_a_release_nothing_is_told, "set held; frame a @1; frame b @2; settle ab; leave; gone; cursors")

/* --- acks --- */

STORY(ack_waits_for_all_events_of_its_frame, "frame a b !A; acks; settle b; acks; settle a; acks A; acks")
STORY(each_ack_is_its_own_frames, "frame a !A; frame b !B; settle b; acks B; settle a; acks A")
STORY(cumulative_ack_is_for_the_durable_ones_at_the_beginning,
      "set cumulative; frame a !A; frame b !B; frame c !C; settle b; acks; settle a; acks B; settle c; acks C")
STORY(of_cumulative_acks_the_last_is_sent, "set cumulative; frame a !A; frame b !B; settle b; settle a; acks B; acks")
STORY(ack_without_events_is_due_at_once,
      "frame !A; acks A; set cumulative; frame a !A; frame !B; acks; settle a; acks B")
STORY(ack_at_receipt_waits_for_nothing, "set at_once; frame a !A; acks A; settle a; acks")
STORY(frame_with_a_part_that_cannot_be_read_is_never_acked,
      "frame a ? !A; frame b !B; settle axb; acks B; set at_once; frame ? !C; acks; settle x; acks")
STORY(cumulative_ack_passes_over_a_frame_that_is_never_acked,
      "set cumulative; frame ? !A; frame b !B; settle b; acks; settle x; acks B")
STORY(frame_of_a_message_that_cannot_be_read_takes_no_ack_from_the_next,
      "frame a !A | ? | b !B; settle ab; acks A B; settle x; acks")
STORY(acks_of_one_message_are_for_what_came_before_each, "frame a !A b !B; settle a; acks A; settle b; acks B")

/* --- too many --- */

STORY(reading_stops_at_the_most_that_may_be_unacked,
      "set 4; frame a !A; frame b !B; frame c !C; free; frame d !D; full; settle a; acks A; free; "
      "frame e !E; full; settle bc; acks B C; free")
STORY(cumulative_ack_takes_all_before_it_off_the_count,
      "set 2; set cumulative; frame a !A; frame b !B; full; settle ba; acks B; free; frame c !C; free")
STORY(cumulative_acks_behind_an_event_that_is_stuck_count_each,
      "set 3; set cumulative; frame a !A; frame b !B; frame c !C; full; settle bca; acks C; free; frame d !D; "
      "frame e !E; free")
STORY(frame_that_is_never_acked_does_not_count, "set 1; frame a ? !A; free; frame b !B; full; settle b; acks B; free")

/* --- the end --- */

STORY(ledger_goes_when_its_last_event_has_settled,
      "frame a @1 !A; frame b @2 !B; leave; settle b; settle a; gone; cursors")
STORY(cursor_of_all_connections_goes_on_after_one_is_gone,
      "set lasting; frame a @1; frame b @2; leave; settle b; cursors; settle a; gone; cursors 2")
STORY(cursors_of_before_are_forgotten,
      "frame a @1; frame b @2; settle b; forget; frame c @1; settle a; cursors; settle c; cursors 1")

STORY(cursors_of_connections_that_are_gone_are_forgotten_too,
      "set lasting; frame a @1; leave; forget; settle a; gone; cursors")
STORY(connection_older_than_the_one_that_forgets_brings_no_cursor,
      "frame a @1; next; frame b @2; forget older; frame c @3; old; frame d @9; settle abcd; cursors 3")

Test(ledger, is_freed_with_events_that_never_settle)
{
	tell("frame a @1 !A; frame b @2 !B; settle b; acks B; leave");
}

/* An hour of frames after one event that cannot be stored. */
Test(ledger, frames_behind_one_that_is_stuck_become_one)
{
	size_t before = mallinfo2().uordblks;
	char last[40];

	tell("frame a @1");
	for (int i = 0; i < 100000; i++) {
		snprintf(last, sizeof(last), "frame b @%d !%d", i, i);
		tell(last);
		tell("settle b");
		snprintf(last, sizeof(last), "acks %d", i);
		tell(last);
	}
	cr_assert_lt(mallinfo2().uordblks, before + 10000);
	tell("cursors; settle a; cursors 99999");
}

/* --- which of two is ahead --- */

static bool is_ahead_hex(const char *a, const char *b)
{
	return cursor_is_ahead(slice(a), slice(b), true);
}

/* A cursor of another kind replaces the previous one. */
Test(ledger, cursor_is_ahead_as_in_the_stores)
{
	for (size_t i = 0; i < CURSORS_IN_ORDER; i++)
		for (size_t j = 0; j < CURSORS_IN_ORDER; j++)
			cr_expect_eq(cursor_is_ahead(slice(cursor_in_order(i)), slice(cursor_in_order(j)), false),
				     cursor_is_beyond(i, j), "%s after %s", cursor_in_order(j), cursor_in_order(i));
}

Test(ledger, hexadecimal_cursors_are_ahead_by_their_size)
{
	cr_assert(is_ahead_hex("\"0x9\"", "\"0x1b4\"") && !is_ahead_hex("\"0x00001B4\"", "\"0x1b4\""));
	cr_assert(is_ahead_hex("\"ff\"", "\"100\"") && is_ahead_hex("\"x\"", "\"1\""));
}
