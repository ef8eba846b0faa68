/* The acks that a profile describes: when they are sent, which, and in which order. */
#include "base/bytes.h"
#include "intake/ledger.h"
#include "unit.h"

static struct list ledgers;
static struct ledger *ledger;
static struct bytes said; /* all acks, each followed by a blank */
static long charged;
static int answered;

static void on_say(void *arg, struct slice text, int64_t came_ms)
{
	cr_assert_eq(came_ms, 1000);
	bytes_add(&said, text.at, text.len);
	bytes_add_byte(&said, ' ');
}

static void on_answer(void *arg, const struct event *ev, enum outcome outcome, uint64_t n)
{
	answered++;
}

static void on_charge(void *arg, long bytes)
{
	charged += bytes;
}

static void open_ledger(bool is_cumulative)
{
	list_init(&ledgers);
	ledger = ledger_new(&(struct ledger_settings){.is_cumulative = is_cumulative,
						      .ledgers = &ledgers,
						      .name = "till",
						      .charge = on_charge,
						      .on_ack = on_say,
						      .on_answer = on_answer});
}

static void init(void)
{
	open_ledger(false);
}

static void fini(void)
{
	ledger_leave(ledger);
	cr_expect_eq(charged, 0);
	cr_expect(list_is_empty(&ledgers));
	bytes_free(&said);
}

TestSuite(producer_acks, .init = init, .fini = fini, .timeout = 60);

#define WORDS(text) ((struct slice){text, sizeof(text) - 1})

/* Adds a frame of n events whose acks end in its letter. All have the same sender. */
static struct sender *add(char letter, int events)
{
	char stored[] = "ok?", again[] = "again?", error[] = "\"" LEDGER_REASON "\"?";
	struct ledger_acks words = {WORDS(stored), WORDS(again), WORDS(error)};
	struct sender *sender = NULL;

	stored[2] = again[5] = error[sizeof error - 2] = letter;
	ledger_tick(ledger, (uint64_t)letter, 1000);
	while (events-- > 0)
		sender = ledger_expect(ledger);
	ledger_owe_acks(ledger, &words);
	return sender;
}

static void settle(struct sender *sender, enum outcome outcome)
{
	char why[] = "a \"bad\" one";
	struct event ev = {.reason = outcome == OUTCOME_REJECTED ? why : NULL};

	sender->answer(sender, &ev, outcome);
}

static void expect(const char *words)
{
	cr_assert_str_eq(bytes_text(&said), words);
	said.len = 0;
}

Test(producer_acks, words_wait_for_the_last_event_of_the_frame)
{
	struct sender *a = add('a', 3);

	cr_assert_str_eq(a->name, "till");
	cr_assert_eq(a->n, 'a');
	cr_assert_gt(charged, 0);
	settle(a, OUTCOME_DUPLICATE);
	settle(a, OUTCOME_PERSISTED);
	expect("");
	settle(a, OUTCOME_DUPLICATE);
	expect("oka ");
	cr_assert_eq(answered, 3);
}

Test(producer_acks, words_tell_new_from_known_from_bad)
{
	settle(add('a', 1), OUTCOME_DUPLICATE);
	expect("againa ");
	settle(add('b', 1), OUTCOME_REJECTED);
	expect("\"a \\\"bad\\\" one\"b ");
	struct sender *c = add('c', 2);
	settle(c, OUTCOME_REJECTED);
	settle(c, OUTCOME_PERSISTED);
	expect("\"a \\\"bad\\\" one\"c ");
	add('d', 0);
	expect("okd ");
}

Test(producer_acks, frames_settle_in_any_order)
{
	struct sender *a = add('a', 1), *b = add('b', 1);

	settle(b, OUTCOME_PERSISTED);
	settle(a, OUTCOME_PERSISTED);
	expect("okb oka ");
}

Test(producer_acks, cumulative_words_are_the_last_of_a_run_and_errors_are_all_said)
{
	ledger_leave(ledger);
	open_ledger(true);
	struct sender *a = add('a', 1), *b = add('b', 1), *c = add('c', 1), *d = add('d', 1), *e = add('e', 1);
	add('f', 0);
	settle(c, OUTCOME_REJECTED);
	settle(b, OUTCOME_PERSISTED);
	settle(d, OUTCOME_DUPLICATE);
	expect("");
	settle(a, OUTCOME_PERSISTED);
	expect("okb \"a \\\"bad\\\" one\"c againd ");
	settle(e, OUTCOME_PERSISTED);
	expect("okf ");
}

Test(producer_acks, a_frame_without_words_takes_none_from_those_before_it)
{
	ledger_leave(ledger);
	open_ledger(true);
	struct sender *a = add('a', 1), *b = ledger_expect(ledger);
	ledger_owe_acks(ledger, &(struct ledger_acks){.stored = {NULL, 0}});
	settle(b, OUTCOME_PERSISTED);
	settle(a, OUTCOME_PERSISTED);
	expect("oka ");
}

Test(producer_acks, nothing_is_said_to_who_has_left)
{
	struct sender *a = add('a', 2);

	settle(a, OUTCOME_PERSISTED);
	ledger_leave(ledger);
	settle(a, OUTCOME_PERSISTED);
	expect("");
	open_ledger(false);
	cr_assert_eq(answered, 2);
}
