/* The road of an event, with stages that the test plays: which stage comes next, what the fleet is
 * told and when, and who is answered what. After every turn of the loop each received message is in
 * exactly one place. */
#include "road/pipeline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "failing_alloc.h"
#include "clock.h"
#include "fake_stages.h"
#include "base/counters.h"
#include "view.h"

#define TTL_MS      30000
#define BACKOFF_MS  200  /* of a row refused once; twice that each time */
#define GIVE_WAY_MS 1600 /* from a release to our own next look */

static uv_loop_t loop;
static struct pipeline *pipeline;
static struct config config;
static int pressure_calls;
static bool is_pressed;
static enum pressure pressed;
static long left = -1; /* on_drained's; -1: not called */
static char unusable[100];

/* --- what the pipeline calls --- */

static void on_pressure(void *arg, enum pressure pressure)
{
	(void)arg;
	cr_assert_neq(pressure, pressed, "the same pressure twice");
	pressed = pressure;
	is_pressed = pressure == PRESSURE_ALL;
	pressure_calls++;
}

static void on_drained(void *arg, size_t n)
{
	(void)arg;
	cr_assert_eq(left, -1, "drained twice");
	left = (long)n;
}

static void on_posted(void *arg)
{
	(void)arg;
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	(void)arg, (void)status;
	snprintf(unusable, sizeof(unusable), "%s", sentence);
}

/* A producer: its answers as letters, p(ersisted), d(uplicate), r(ejected), and the last reason. */
struct producer {
	struct sender sender;
	char answers[20];
	char reason[200];
};

static void on_answer(struct sender *s, const struct event *ev, enum outcome outcome)
{
	struct producer *p = (struct producer *)s;

	p->answers[strlen(p->answers)] = "pdr"[outcome];
	snprintf(p->reason, sizeof(p->reason), "%s", ev->reason ? ev->reason : "");
}

#define PRODUCER \
	{ \
		.sender = { on_answer } \
	}

/* --- the loop --- */

static void assert_nothing_is_lost(void)
{
	const struct events *events = pipeline_events(pipeline);

	cr_assert_eq(counters.received,
		     counters.persisted + counters.duplicates + counters.dead_lettered + events->messages,
		     "%lu received = %lu persisted + %lu duplicates + %lu dead-lettered + %zu in flight",
		     (unsigned long)counters.received, (unsigned long)counters.persisted,
		     (unsigned long)counters.duplicates, (unsigned long)counters.dead_lettered, events->messages);
	cr_assert(events->messages || !events->bytes, "%zu bytes of nothing", events->bytes);
}

static void turn(void)
{
	for (int i = 0; i < 3; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		assert_nothing_is_lost();
	}
}

static void pass(int64_t ms)
{
	clock_pass(ms);
	turn();
}

/* Long work: time passes in the small steps of a busy loop. */
static void pass_slowly(int64_t ms)
{
	for (; ms > 0; ms -= 500)
		pass(500);
}

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

static void reopen_pipeline(void)
{
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, NULL};
	char error[200];

	uv_loop_init(&loop);
	pipeline = pipeline_open(&loop, &config, &on, error, sizeof(error));
	cr_assert_not_null(pipeline, "%s", error);
	turn();
}

static void open_pipeline(void)
{
	static char *ids[] = {"/event_id"};

	config = (struct config){
		.consumer = "",
		.claim_ttl_s = TTL_MS / 1000,
		.batch_max = 100,
		.inflight_bytes = 100000,
		.max_attempts = 3,
		.drain_timeout_ms = 5000,
		.id_pointers = {ids, 1},
		.type_pointer = "/event_type",
		.payload_pointer = "/payload",
	};
	clock_stop();
	reopen_pipeline();
}

/* A forgotten handle fails the test. */
static void close_pipeline(void)
{
	bool is_closed = false;

	pipeline_close(pipeline, on_closed, &is_closed);
	for (int i = 0; i < 10; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	cr_assert(is_closed);
	cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(pipeline, .init = open_pipeline, .fini = close_pipeline, .timeout = 60);

/* --- steps --- */

static void receive_from(const char *id, struct producer *p)
{
	char message[700];

	snprintf(message, sizeof(message), "{\"event_id\":\"%s\"}", id);
	cr_assert_eq(pipeline_receive(pipeline, message, strlen(message), p ? &p->sender : NULL), 0);
	assert_nothing_is_lost();
}

static void receive(const char *id)
{
	receive_from(id, NULL);
}

/* Other bytes for the same id. */
static void receive_variant(const char *id, int number, struct producer *p)
{
	char message[700];

	snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"payload\":%d}", id, number);
	cr_assert_eq(pipeline_receive(pipeline, message, strlen(message), p ? &p->sender : NULL), 0);
	assert_nothing_is_lost();
}

static void assert_journal(const char *expected)
{
	const char *journal = fake_journal();

	cr_assert_str_eq(journal, expected, "'%s', not '%s'", journal, expected);
}

static void answer_take(const char *id, enum claim_result result)
{
	fake_answer_take(id, result);
	turn();
}

static void answer_look(const char *id, enum claim_result result)
{
	fake_answer_look(id, result);
	turn();
}

static void answer_count(const char *id, long attempts)
{
	fake_answer_count(id, attempts);
	turn();
}

static void answer_insert(const char *id, enum store_result result)
{
	fake_answer_insert(id, result);
	turn();
}

static void answer_bury(const char *id)
{
	fake_answer_bury(id, STORE_BURIED);
	turn();
}

static size_t in_state(enum event_state state)
{
	return pipeline_events(pipeline)->counts[state];
}

static size_t in_flight(void)
{
	return pipeline_events(pipeline)->messages;
}

/* Received, claimed by us, and sent to the store. */
static void bring_to_store(const char *id, struct producer *p)
{
	receive_from(id, p);
	answer_take(id, CLAIM_MINE);
	fake_journal();
	cr_assert_eq(find_event(pipeline_events(pipeline), id)->state, EV_STORING);
}

/* Received, claimed by another instance, and held. */
static void bring_to_hold(const char *id, struct producer *p)
{
	receive_from(id, p);
	answer_take(id, CLAIM_OTHER);
	fake_journal();
	cr_assert_eq(find_event(pipeline_events(pipeline), id)->state, EV_HELD);
}

/* --- claimed: mine --- */

Test(pipeline, event_is_claimed_stored_marked_and_answered)
{
	struct producer p = PRODUCER;

	receive_from("a", &p);
	turn();
	assert_journal("take(a)");
	answer_take("a", CLAIM_MINE);
	assert_journal("insert(a)");
	cr_assert_str_eq(p.answers, "");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "p");
	cr_assert_eq(in_flight(), 0);
	cr_assert_eq(counters.persisted, 1);
	cr_assert_eq(counters.claims_won, 1);
	cr_assert_eq(commit_latency.count, 1);
}

Test(pipeline, row_that_was_there_is_a_duplicate_and_is_marked)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_PRESENT);
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(counters.duplicates, 1);
	cr_assert_eq(counters.persisted, 0);
}

Test(pipeline, nothing_is_settled_or_marked_while_the_store_is_at_work)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	pass(1000);
	receive_from("a", &p);
	pass(60000);
	cr_assert_null(strstr(fake_journal(), "done("));
	cr_assert_str_eq(p.answers, "");
	cr_assert_eq(in_flight(), 2);
}

Test(pipeline, next_batch_fills_while_one_is_at_work_and_is_sorted)
{
	bring_to_store("m", NULL);
	receive("c");
	receive("a");
	receive("b");
	answer_take("c", CLAIM_MINE);
	answer_take("a", CLAIM_MINE);
	answer_take("b", CLAIM_MINE);
	assert_journal("take(c) take(a) take(b)");
	answer_insert("m", STORE_INSERTED);
	assert_journal("done(m) insert(a,b,c)");
}

Test(pipeline, batch_has_at_most_batch_max_rows)
{
	char id[20];

	for (int i = 0; i < 150; i++) {
		snprintf(id, sizeof(id), "%03d", i);
		receive(id);
		fake_answer_take(id, CLAIM_MINE);
	}
	turn();
	cr_assert_eq(in_state(EV_STORING), 100);
	cr_assert_eq(in_state(EV_BATCHED), 50);
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "%03d", i);
		fake_answer_insert(id, STORE_INSERTED);
	}
	turn();
	cr_assert_eq(in_state(EV_STORING), 50);
	cr_assert_eq(counters.persisted, 100);
}

Test(pipeline, events_wait_while_postgres_is_away)
{
	fake.is_postgres_away = true;
	receive("a");
	answer_take("a", CLAIM_MINE);
	pass(5000);
	cr_assert_eq(in_state(EV_BATCHED), 1);
	assert_journal("take(a)");
	fake.is_postgres_away = false;
	turn();
	assert_journal("insert(a)");
}

/* --- claimed: not mine --- */

Test(pipeline, event_with_a_done_mark_is_a_duplicate)
{
	struct producer p = PRODUCER;

	receive_from("a", &p);
	answer_take("a", CLAIM_DONE);
	assert_journal("take(a)");
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(in_flight(), 0);
}

Test(pipeline, event_with_a_dead_mark_is_rejected)
{
	struct producer p = PRODUCER;

	receive_from("a", &p);
	answer_take("a", CLAIM_DEAD);
	assert_journal("take(a)");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_eq(counters.dead_lettered, 1);
}

Test(pipeline, event_of_another_owner_is_held_and_not_answered)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	pass(49);
	assert_journal("");
	pass(1);
	assert_journal("look(a)");
	cr_assert_str_eq(p.answers, "");
	cr_assert_eq(counters.holds, 1);
	cr_assert_eq(counters.claims_lost, 1);
}

Test(pipeline, held_event_settles_when_its_done_mark_is_seen)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	pass(50);
	answer_look("a", CLAIM_DONE);
	assert_journal("look(a)");
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(in_flight(), 0);
}

Test(pipeline, held_event_is_rejected_when_its_dead_mark_is_seen)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	pass(50);
	answer_look("a", CLAIM_DEAD);
	cr_assert_str_eq(p.answers, "r");
}

Test(pipeline, held_event_whose_claim_is_gone_is_claimed_again)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	pass(50);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) take(a)");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	assert_journal("insert(a) done(a)");
	cr_assert_str_eq(p.answers, "p");
	cr_assert_eq(counters.claims_taken_over, 1);
}

Test(pipeline, held_event_that_another_takes_over_is_held_on)
{
	bring_to_hold("a", NULL);
	pass(50);
	answer_look("a", CLAIM_ABSENT);
	answer_take("a", CLAIM_OTHER);
	cr_assert_eq(in_state(EV_HELD), 1);
	cr_assert_eq(counters.holds, 1, "held once, counted twice");
	fake_journal();
	pass(50);
	assert_journal("look(a)");
}

/* Another instance is preferred for it, so this one asks later. */
static void bring_to_wait(const char *id)
{
	fake.is_other_preferred = true;
	receive(id);
	fake.is_other_preferred = false;
	turn();
	assert_journal("");
	cr_assert_eq(in_state(EV_HELD), 1);
}

Test(pipeline, event_of_the_preferred_instance_is_looked_at_once_and_settled)
{
	bring_to_wait("a");
	pass(49);
	assert_journal("");
	pass(1);
	assert_journal("look(a)");
	answer_look("a", CLAIM_DONE);
	cr_assert_eq(in_flight(), 0);
	cr_assert_eq(counters.deferred, 1);
	cr_assert_eq(counters.deferred_in_vain + counters.claims_taken_over, 0);
}

Test(pipeline, event_that_the_preferred_instance_does_not_claim_in_350_ms_is_claimed)
{
	bring_to_wait("a");
	pass(50);
	answer_look("a", CLAIM_ABSENT);
	pass(100);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) look(a)");
	pass(200);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) take(a)");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_eq(counters.persisted, 1);
	cr_assert_eq(counters.deferred_in_vain, 1);
	cr_assert_eq(counters.claims_taken_over, 0);
}

Test(pipeline, event_whose_preferred_instance_dies_after_its_claim_is_taken_over)
{
	bring_to_wait("a");
	pass(50);
	answer_look("a", CLAIM_OTHER);
	pass(100);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) look(a) take(a)");
	cr_assert_eq(counters.claims_taken_over, 1);
	cr_assert_eq(counters.deferred_in_vain, 0);
}

Test(pipeline, reading_stops_when_too_many_events_are_left_to_others_and_goes_on_when_they_were_looked_at)
{
	char id[20];

	config.inflight_bytes = 100000000;
	fake.is_other_preferred = true;
	for (int i = 0; i < 4096; i++) {
		cr_assert_not(is_pressed, "after %d", i);
		sprintf(id, "e-%d", i);
		receive(id);
	}
	cr_assert(is_pressed);
	pass(50);
	for (int i = 0; i < 2100; i++) {
		sprintf(id, "e-%d", i);
		fake_answer_look(id, CLAIM_DONE);
	}
	turn();
	cr_assert_not(is_pressed);
	fake_journal();
}

Test(pipeline, event_that_a_producer_waits_for_is_never_left_to_another)
{
	struct producer p = PRODUCER;

	fake.is_other_preferred = true;
	receive_from("a", &p);
	assert_journal("take(a)");
}

Test(pipeline, event_left_to_another_goes_to_the_store_when_draining)
{
	bring_to_wait("a");
	pipeline_drain(pipeline);
	turn();
	assert_journal("insert(a)");
}

Test(pipeline, event_left_to_another_goes_to_the_store_when_redis_does_not_answer)
{
	bring_to_wait("a");
	pass(50);
	answer_look("a", CLAIM_UNKNOWN);
	assert_journal("look(a) insert(a)");
}

Test(pipeline, held_event_whose_claim_turns_out_to_be_ours_is_stored)
{
	bring_to_hold("a", NULL);
	pass(50);
	answer_look("a", CLAIM_MINE);
	assert_journal("look(a) insert(a)");
}

Test(pipeline, looks_back_off_while_another_owner_is_at_work)
{
	bring_to_hold("a", NULL);
	pass(50);
	answer_look("a", CLAIM_OTHER);
	fake_journal();
	pass(99);
	assert_journal("");
	pass(1);
	assert_journal("look(a)");
	answer_look("a", CLAIM_OTHER);
	pass(199);
	assert_journal("");
	pass(1);
	assert_journal("look(a)");
}

Test(pipeline, held_events_are_looked_up_together)
{
	bring_to_hold("a", NULL);
	bring_to_hold("b", NULL);
	bring_to_hold("c", NULL);
	pass(50);
	assert_journal("look(a,b,c)");
	answer_look("b", CLAIM_DONE);
	cr_assert_eq(in_state(EV_LOOKING), 2);
}

Test(pipeline, event_held_for_twice_the_ttl_goes_to_the_store)
{
	int looks = 0;

	bring_to_hold("a", NULL);
	while (in_state(EV_HELD) || in_state(EV_LOOKING)) {
		pass(50);
		if (in_state(EV_LOOKING)) {
			fake_answer_look("a", CLAIM_OTHER);
			looks++;
		}
		cr_assert_lt(looks, 1000, "held for ever");
	}
	cr_assert_geq((int64_t)uv_now(&loop), 1000000 + 2 * TTL_MS);
	cr_assert_leq((int64_t)uv_now(&loop), 1000000 + 2 * TTL_MS + 1000);
	cr_assert_not_null(strstr(fake_journal(), " insert(a)"));
	cr_assert_eq(counters.hold_timeouts, 1);
}

/* --- marks of a database that was not asked of late --- */

Test(pipeline, mark_that_is_in_doubt_waits_for_the_epoch)
{
	struct producer p = PRODUCER;

	fake.is_unsure = fake.is_epoch_silent = true;
	receive_from("a", &p);
	answer_take("a", CLAIM_DONE);
	cr_assert(fake.is_epoch_asked);
	assert_journal("take(a)");
	cr_assert(in_state(EV_HELD));
	fake.is_unsure = false;
	pass(50);
	answer_look("a", CLAIM_DONE);
	assert_journal("look(a)");
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, mark_that_stays_in_doubt_leaves_it_to_the_store)
{
	fake.is_unsure = fake.is_epoch_silent = true;
	receive("a");
	answer_take("a", CLAIM_DEAD);
	pass(50);
	answer_look("a", CLAIM_DEAD);
	assert_journal("take(a) look(a) insert(a)");
}

Test(pipeline, epoch_is_asked_for_as_soon_as_a_mark_may_be_read)
{
	fake.is_unsure = true;
	turn();
	cr_assert_not(fake.is_epoch_asked, "nothing is at work");
	receive("a");
	turn();
	cr_assert(fake.is_epoch_asked);
	answer_take("a", CLAIM_DONE);
	assert_journal("take(a)");
	cr_assert_eq(pipeline_events(pipeline)->messages, 0);
}

/* --- Redis cannot be asked --- */

Test(pipeline, event_goes_to_the_store_when_redis_is_away)
{
	struct producer p = PRODUCER;

	fake.is_redis_away = true;
	receive_from("a", &p);
	turn();
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "p");
	cr_assert_eq(counters.claims_skipped, 1);
}

Test(pipeline, event_whose_claim_has_no_answer_goes_to_the_store)
{
	receive("a");
	answer_take("a", CLAIM_UNKNOWN);
	assert_journal("take(a) insert(a)");
	cr_assert_eq(counters.claims_skipped, 1);
}

Test(pipeline, held_event_whose_look_has_no_answer_goes_to_the_store)
{
	bring_to_hold("a", NULL);
	pass(50);
	answer_look("a", CLAIM_UNKNOWN);
	assert_journal("look(a) insert(a)");
}

Test(pipeline, held_event_that_cannot_be_looked_up_goes_to_the_store)
{
	bring_to_hold("a", NULL);
	fake.is_redis_away = true;
	pass(50);
	assert_journal("insert(a)");
}

Test(pipeline, taken_over_event_goes_to_the_store_when_redis_is_away_by_then)
{
	bring_to_hold("a", NULL);
	pass(50);
	fake.is_redis_away = true;
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) insert(a)");
}

/* --- copies --- */

Test(pipeline, second_copy_joins_the_first_without_asking_redis)
{
	struct producer p = PRODUCER, q = PRODUCER;

	receive_from("a", &p);
	receive_from("a", &q);
	turn();
	assert_journal("take(a)");
	answer_take("a", CLAIM_MINE);
	receive_from("a", &q);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "p");
	cr_assert_str_eq(q.answers, "dd");
	cr_assert_eq(counters.coalesced, 2);
	cr_assert_eq(counters.persisted, 1);
	cr_assert_eq(counters.duplicates, 2);
}

Test(pipeline, copies_join_a_held_event_too)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	receive_from("a", &p);
	pass(50);
	assert_journal("look(a)");
	answer_look("a", CLAIM_DONE);
	cr_assert_str_eq(p.answers, "dd");
	cr_assert_eq(counters.duplicates, 2);
}

Test(pipeline, copies_of_a_dead_letter_are_all_rejected)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_HOPELESS);
	receive_from("a", &p);
	answer_bury("a");
	cr_assert_str_eq(p.answers, "rr");
	cr_assert_eq(counters.dead_lettered, 2);
}

Test(pipeline, event_that_is_put_off_keeps_its_claim_and_comes_again)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_LATER);
	receive("b");
	fake_journal();
	answer_take("b", CLAIM_MINE);
	answer_insert("b", STORE_INSERTED);
	assert_journal("insert(b) done(b)");
	pass(200);
	assert_journal("insert(a)");
	answer_insert("a", STORE_LATER);
	pass(399);
	assert_journal("");
	pass(1);
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "p");
}

Test(pipeline, event_that_is_put_off_without_a_claim_learns_what_became_of_it)
{
	struct producer p = PRODUCER;

	fake.is_redis_away = true;
	receive_from("a", &p);
	turn();
	fake.is_redis_away = false;
	answer_insert("a", STORE_LATER);
	fake_journal();
	pass(200);
	assert_journal("release(a)"); /* of which there is none */
	pass(2000);
	assert_journal("look(a)");
	answer_look("a", CLAIM_DONE);
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, event_that_is_put_off_does_not_wait_at_the_end)
{
	bring_to_store("a", NULL);
	for (int i = 0; i < 2; i++) {
		answer_insert("a", STORE_LATER);
		pass(400);
	}
	answer_insert("a", STORE_LATER);
	fake_journal();
	pipeline_drain(pipeline);
	turn();
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
}

Test(pipeline, dead_letter_that_cannot_be_written_waits_beside_the_events)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_HOPELESS);
	fake_answer_bury("a", STORE_UNBURIED);
	turn();
	fake_journal();
	bring_to_store("b", NULL);
	answer_insert("b", STORE_INSERTED);
	assert_journal("done(b)");
	pass(999);
	assert_journal("");
	pass(1);
	assert_journal("bury(a:the server's words)");
	answer_bury("a");
	assert_journal("dead(a)");
	cr_assert_str_eq(p.answers, "r");
}

Test(pipeline, event_that_turns_out_to_be_stored_when_it_is_buried_is_a_duplicate)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_HOPELESS);
	fake_journal();
	fake_answer_bury("a", STORE_HAS_ROW);
	turn();
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(counters.dead_lettered, 0);
}

Test(pipeline, copy_that_comes_after_the_end_is_a_new_event)
{
	bring_to_store("a", NULL);
	answer_insert("a", STORE_INSERTED);
	fake_journal();
	receive("a");
	assert_journal("take(a)");
}

Test(pipeline, copies_without_a_sender_count_too)
{
	bring_to_store("a", NULL);
	receive("a");
	receive("a");
	answer_insert("a", STORE_PRESENT);
	cr_assert_eq(counters.duplicates, 3);
}

/* --- messages that share an id --- */

Test(pipeline, other_message_with_the_id_of_a_row_is_a_duplicate)
{
	struct producer p = PRODUCER, q = PRODUCER;

	bring_to_store("a", &p);
	receive_variant("a", 1, &q);
	receive_variant("a", 1, &q);
	receive_variant("a", 2, &q);
	cr_assert_eq(in_state(EV_BEHIND), 2);
	cr_assert_eq(counters.coalesced, 1);
	cr_assert_eq(counters.variants, 2);
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "p");
	cr_assert_str_eq(q.answers, "ddd");
	cr_assert_eq(in_flight(), 0);
}

Test(pipeline, other_message_with_the_id_of_a_dead_letter_is_tried_itself)
{
	struct producer p = PRODUCER, q = PRODUCER;

	bring_to_store("a", &p);
	receive_variant("a", 1, &q);
	answer_insert("a", STORE_HOPELESS);
	answer_bury("a");
	assert_journal("bury(a:the server's words) dead(a) take(a)");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_str_eq(q.answers, "");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	assert_journal("insert(a) done(a)");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_str_eq(q.answers, "p");
}

Test(pipeline, other_message_is_tried_when_a_dead_mark_settles_the_first)
{
	struct producer p = PRODUCER, q = PRODUCER;

	receive_from("a", &p);
	receive_variant("a", 1, &q);
	answer_take("a", CLAIM_DEAD);
	cr_assert_str_eq(p.answers, "r");
	assert_journal("take(a) take(a)");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(q.answers, "p");
}

Test(pipeline, corrected_message_does_not_wait_for_the_backoff_of_the_refused_one)
{
	struct producer p = PRODUCER, q = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	assert_journal("count(a)");
	receive_variant("a", 1, &q);
	turn();
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(q.answers, "p");
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, message_that_comes_while_another_is_put_off_is_tried_at_once)
{
	struct producer p = PRODUCER, q = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_LATER);
	fake_journal();
	receive_variant("a", 1, &q);
	turn();
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(q.answers, "p");
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, messages_with_one_id_that_are_put_off_take_turns)
{
	struct producer p = PRODUCER, q = PRODUCER;

	bring_to_store("a", &p);
	receive_variant("a", 1, &q);
	answer_insert("a", STORE_LATER);
	fake_journal();
	pass(200);
	assert_journal("insert(a)");
	answer_insert("a", STORE_LATER);
	pass(200);
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert(strcmp(p.answers, q.answers) != 0);
}

Test(pipeline, message_that_waits_is_tried_under_the_claim_of_the_refused_one)
{
	bring_to_store("a", NULL);
	receive_variant("a", 1, NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	assert_journal("count(a) insert(a)");
	cr_assert(find_event(pipeline_events(pipeline), "a")->is_claimed);
	pass_slowly(TTL_MS / 2);
	assert_journal("rest renew(a)");
}

Test(pipeline, corrected_message_claims_when_the_refused_one_has_given_its_claim_back)
{
	struct producer q = PRODUCER;

	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	pass(BACKOFF_MS);
	assert_journal("count(a) release(a)");
	receive_variant("a", 1, &q);
	assert_journal("take(a)");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(q.answers, "p");
	pass(60000);
	assert_journal("insert(a) done(a)");
}

/* Each in its turn, with one backoff for all of them. */
Test(pipeline, bad_messages_with_one_id_are_tried_in_turns_and_all_become_dead_letters)
{
	struct producer p = PRODUCER, q = PRODUCER;

	config.max_attempts = 2;
	bring_to_store("a", &p);
	receive_variant("a", 1, &q);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	assert_journal("count(a) insert(a) count(a)");
	cr_assert_eq(in_state(EV_BACKING_OFF), 1);
	pass(BACKOFF_MS);
	pass(GIVE_WAY_MS);
	answer_look("a", CLAIM_ABSENT);
	answer_take("a", CLAIM_MINE);
	assert_journal("release(a) look(a) take(a) insert(a)");
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 2);
	answer_bury("a");
	cr_assert_str_eq(q.answers, "r");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 2);
	answer_bury("a");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_eq(in_flight(), 0);
}

Test(pipeline, oldest_of_too_many_messages_with_one_id_becomes_a_dead_letter)
{
	struct producer p = PRODUCER, q[10] = {PRODUCER};

	bring_to_store("a", &p);
	for (int i = 0; i < 10; i++) {
		q[i].sender.answer = on_answer;
		receive_variant("a", i, &q[i]);
	}
	cr_assert_eq(in_state(EV_BEHIND), 8);
	cr_assert_eq(in_state(EV_REFUSED), 2);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "p");
	cr_assert_str_eq(q[2].answers, "d");
	cr_assert_str_eq(q[9].answers, "d");
	answer_bury("a");
	answer_bury("a");
	cr_assert_str_eq(q[0].answers, "r");
	cr_assert_str_eq(q[1].answers, "r");
	assert_journal("done(a) bury(a:newer messages with this event_id came before this one could be stored,"
		       "a:newer messages with this event_id came before this one could be stored)");
}

Test(pipeline, newest_of_the_messages_that_wait_is_tried_first)
{
	struct producer q = PRODUCER, r = PRODUCER;

	bring_to_store("a", NULL);
	receive_variant("a", 1, &q);
	receive_variant("a", 2, &r);
	answer_insert("a", STORE_HOPELESS);
	answer_bury("a");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(r.answers, "p");
	cr_assert_str_eq(q.answers, "d");
}

Test(pipeline, messages_with_one_id_do_not_wait_for_redis)
{
	struct producer p = PRODUCER, q = PRODUCER;

	fake.is_redis_away = true;
	receive_from("a", &p);
	receive_variant("a", 1, &q);
	turn();
	answer_insert("a", STORE_REFUSED);
	assert_journal("insert(a) insert(a)");
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "d");
	cr_assert_str_eq(q.answers, "p");
}

/* --- a refused row --- */

Test(pipeline, refused_row_is_counted_waits_is_released_and_tried_again)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_REFUSED);
	assert_journal("count(a)");
	answer_count("a", 1);
	cr_assert_eq(in_state(EV_BACKING_OFF), 1);
	pass(BACKOFF_MS - 1);
	assert_journal("");
	pass(1);
	assert_journal("release(a)");
	cr_assert_eq(in_state(EV_HELD), 1);
	pass(GIVE_WAY_MS - 1);
	assert_journal("");
	pass(1);
	assert_journal("look(a)");
	answer_look("a", CLAIM_ABSENT);
	answer_take("a", CLAIM_MINE);
	assert_journal("take(a) insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a)");
	cr_assert_str_eq(p.answers, "p");
	cr_assert_str_eq(p.reason, "the server's words");
}

Test(pipeline, backoff_of_a_refused_row_doubles)
{
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 2);
	fake_journal();
	pass(2 * BACKOFF_MS - 1);
	assert_journal("");
	pass(1);
	assert_journal("release(a)");
}

Test(pipeline, other_instance_may_store_what_was_refused_here)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	pass(BACKOFF_MS);
	pass(GIVE_WAY_MS);
	answer_look("a", CLAIM_OTHER);
	pass(100);
	answer_look("a", CLAIM_DONE);
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, good_rows_of_a_batch_settle_and_the_refused_one_does_not)
{
	struct producer p = PRODUCER, q = PRODUCER;

	fake.is_postgres_away = true;
	receive_from("a", &p);
	receive_from("b", &q);
	answer_take("a", CLAIM_MINE);
	answer_take("b", CLAIM_MINE);
	fake.is_postgres_away = false;
	turn();
	assert_journal("take(a) take(b) insert(a,b)");
	answer_insert("a", STORE_REFUSED);
	answer_insert("b", STORE_INSERTED);
	assert_journal("count(a) done(b)");
	cr_assert_str_eq(p.answers, "");
	cr_assert_str_eq(q.answers, "p");
}

Test(pipeline, row_that_was_refused_does_not_share_a_batch_with_others)
{
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	pass(BACKOFF_MS);
	pass(GIVE_WAY_MS);
	bring_to_store("x", NULL);
	answer_look("a", CLAIM_ABSENT);
	answer_take("a", CLAIM_MINE);
	receive("b");
	answer_take("b", CLAIM_MINE);
	fake_journal();
	answer_insert("x", STORE_INSERTED);
	assert_journal("done(x) insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a) insert(b)");
}

Test(pipeline, refused_row_becomes_a_dead_letter_after_max_attempts)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 3);
	assert_journal("count(a) bury(a:the server's words)");
	cr_assert_str_eq(p.answers, "");
	answer_bury("a");
	assert_journal("dead(a)");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_str_eq(p.reason, "the server's words");
	cr_assert_eq(counters.dead_lettered, 1);
	cr_assert_eq(in_flight(), 0);
}

/* Refuses the row and brings it back to the store, while nobody counts for the fleet. */
static void refuse_once_alone(const char *id, int64_t backoff_ms)
{
	answer_insert(id, STORE_REFUSED);
	pass(backoff_ms);
	cr_assert_eq(in_state(EV_STORING), 1);
}

Test(pipeline, attempts_are_counted_here_when_redis_is_away)
{
	fake.is_redis_away = true;
	receive("a");
	turn();
	refuse_once_alone("a", BACKOFF_MS);
	refuse_once_alone("a", 2 * BACKOFF_MS);
	fake_journal();
	answer_insert("a", STORE_REFUSED);
	assert_journal("bury(a:the server's words)");
}

Test(pipeline, attempts_are_counted_here_when_the_count_has_no_answer)
{
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", -1);
	cr_assert_eq(in_state(EV_BACKING_OFF), 1);
	pass(BACKOFF_MS);
	cr_assert_eq(in_state(EV_HELD), 1);
}

Test(pipeline, limit_of_attempts_may_be_above_65535)
{
	config.max_attempts = 100000;
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 100000);
	assert_journal("count(a) bury(a:the server's words)");
}

Test(pipeline, hopeless_row_becomes_a_dead_letter_at_once)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_HOPELESS);
	assert_journal("bury(a:the server's words)");
	answer_bury("a");
	assert_journal("dead(a)");
	cr_assert_str_eq(p.answers, "r");
}

Test(pipeline, nothing_is_rejected_before_its_dead_letter_is_recorded)
{
	struct producer p = PRODUCER;

	bring_to_store("a", &p);
	answer_insert("a", STORE_HOPELESS);
	pass(60000);
	cr_assert_null(strstr(fake_journal(), "dead("));
	cr_assert_str_eq(p.answers, "");
	cr_assert_eq(in_flight(), 1);
}

/* --- messages that are no events --- */

Test(pipeline, message_that_is_no_event_is_recorded_and_never_claimed)
{
	struct producer p = PRODUCER;

	cr_assert_eq(pipeline_receive(pipeline, "{}", 2, &p.sender), 0);
	turn();
	assert_journal("bury(-:/event_id is missing: the event has no id)");
	answer_bury("-");
	assert_journal("");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_eq(counters.received, 1);
	cr_assert_eq(counters.dead_lettered, 1);
}

Test(pipeline, head_of_a_long_message_keeps_the_digest_and_length_of_the_whole)
{
	static const char reason[] = "the message has 70000 bytes, more than --max-message allows";
	const uint8_t digest[32] = {7};
	struct producer p = PRODUCER;
	const struct list *refused = &pipeline_events(pipeline)->lists[EV_REFUSED];
	const struct event *ev;

	cr_assert_eq(pipeline_refuse_long(pipeline, "head", 4, digest, 70000, &p.sender), 0);
	ev = list_entry(refused->next, struct event, link);
	cr_assert_eq(memcmp(ev->digest, digest, 32), 0);
	cr_assert_eq(memcmp(ev->message, "head", 4), 0);
	turn();
	assert_journal("bury(-:the message has 70000 bytes, more than --max-message allows)");
	answer_bury("-");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_str_eq(p.reason, reason);
}

/* --- events that are too old --- */

/* After the suite's own. */
static void open_guarded_pipeline(void)
{
	close_pipeline();
	config.time_pointer = "/time";
	config.time_unit = "s";
	config.max_age_s = 60;
	reopen_pipeline();
}

static void receive_aged(const char *id, long age_s, struct producer *p)
{
	char message[100];

	snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"time\":%ld}", id, (long)time(NULL) - age_s);
	cr_assert_eq(pipeline_receive(pipeline, message, strlen(message), p ? &p->sender : NULL), 0);
	assert_nothing_is_lost();
}

Test(pipeline, stale_event_is_a_dead_letter_and_neither_claimed_nor_marked, .init = open_guarded_pipeline)
{
	struct producer p = PRODUCER;

	receive_aged("old", 100, &p);
	receive_aged("young", 10, NULL);
	turn();
	assert_journal("take(young) bury(old:stale: /time is more than 1m ago)");
	answer_bury("old");
	assert_journal("");
	cr_assert_str_eq(p.answers, "r");
	cr_assert_str_eq(p.reason, "stale: /time is more than 1m ago");
	cr_assert_eq(counters.stale, 1);
	cr_assert_eq(counters.dead_lettered, 1);
}

Test(pipeline, event_without_a_time_is_a_dead_letter_when_ages_count, .init = open_guarded_pipeline)
{
	receive("timeless");
	turn();
	assert_journal("bury(timeless:no time: /time is missing, or no string or number)");
	cr_assert_eq(counters.stale, 1);
}

Test(pipeline, stale_message_is_rejected_with_the_one_at_work, .init = open_guarded_pipeline)
{
	struct producer p = PRODUCER, q = PRODUCER;

	receive_aged("a", 10, &p);
	receive_aged("a", 100, &q);
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_HOPELESS);
	answer_bury("a");
	cr_assert_str_eq(p.answers, "r");
	answer_bury("a");
	cr_assert_str_eq(q.answers, "r");
	cr_assert_str_eq(q.reason, "stale: /time is more than 1m ago");
	cr_assert_eq(counters.stale, 1);
}

/* The message at work was taken in time; its row, when it is there, is of both. */
Test(pipeline, stale_copy_of_an_event_at_work_joins_it, .init = open_guarded_pipeline)
{
	struct producer p = PRODUCER;

	receive_aged("a", 10, NULL);
	receive_aged("a", 100, &p);
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(counters.stale, 0);
}

Test(pipeline, copy_with_a_good_time_is_not_lost_with_a_stale_one, .init = open_guarded_pipeline)
{
	struct producer p = PRODUCER;

	receive_aged("a", 100, NULL);
	receive_aged("a", 10, &p);
	turn();
	answer_take("a", CLAIM_MINE);
	answer_bury("a");
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "p");
}

Test(pipeline, dead_letters_and_events_take_turns)
{
	bring_to_store("x", NULL);
	pipeline_refuse(pipeline, "1", 1, "r1", NULL);
	receive("a");
	answer_take("a", CLAIM_MINE);
	fake_journal();
	answer_insert("x", STORE_INSERTED);
	assert_journal("done(x) bury(-:r1)");
	pipeline_refuse(pipeline, "2", 1, "r2", NULL);
	answer_bury("-");
	assert_journal("insert(a)");
	receive("b");
	answer_take("b", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	assert_journal("take(b) done(a) bury(-:r2)");
}

static void bring_to_batch(const char *id)
{
	receive(id);
	answer_take(id, CLAIM_MINE);
}

/* One client that sends garbage would halve what all others can store. */
Test(pipeline, few_dead_letters_do_not_take_every_second_statement)
{
	static const char *const batches[][2] = {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}, {"i", "j"}};
	unsigned int inserts = 0;

	bring_to_store("x", NULL);
	pipeline_refuse(pipeline, "1", 1, "r1", NULL);
	answer_insert("x", STORE_INSERTED);
	assert_journal("done(x) bury(-:r1)");
	pipeline_refuse(pipeline, "2", 1, "r2", NULL);
	bring_to_batch("a");
	bring_to_batch("b");
	answer_bury("-");
	while (strstr(fake_journal(), "insert(") && ++inserts < 5) {
		bring_to_batch(batches[inserts][0]);
		bring_to_batch(batches[inserts][1]);
		fake_journal();
		answer_insert(batches[inserts - 1][0], STORE_INSERTED);
		answer_insert(batches[inserts - 1][1], STORE_INSERTED);
	}
	cr_assert_eq(inserts, 4);
	cr_assert_eq(in_state(EV_BURYING), 1);
}

Test(pipeline, empty_message_is_recorded)
{
	cr_assert_eq(pipeline_receive(pipeline, "", 0, NULL), 0);
	turn();
	cr_assert_eq(in_state(EV_BURYING), 1);
	answer_bury("-");
	cr_assert_eq(counters.dead_lettered, 1);
}

/* --- leases --- */

/* Milliseconds, in steps of 100, until the journal says "renew(a)" and nothing else. */
static int64_t wait_for_renewal(void)
{
	for (int64_t ms = 100; ms <= TTL_MS; ms += 100) {
		const char *journal;

		pass(100);
		journal = fake_journal();
		if (strcmp(journal, "renew(a)") == 0)
			return ms;
		if (strcmp(journal, "rest") == 0)
			continue;
		cr_assert_str_eq(journal, "");
	}
	return -1;
}

Test(pipeline, claim_of_long_work_is_renewed_at_a_third_of_the_ttl)
{
	bring_to_store("a", NULL);
	for (int i = 0; i < 5; i++) {
		int64_t ms = wait_for_renewal();

		cr_assert(ms >= TTL_MS / 3 && ms < TTL_MS / 2, "renewed after %lld ms", (long long)ms);
	}
}

Test(pipeline, claims_are_renewed_wherever_an_event_waits)
{
	bring_to_store("a", NULL);
	pass_slowly(14000);
	assert_journal("rest renew(a)");
	answer_insert("a", STORE_HOPELESS);
	pass_slowly(14000);
	assert_journal("wake bury(a:the server's words) renew(a)");
}

Test(pipeline, lease_lasts_through_a_long_backoff)
{
	config.max_attempts = 1000;
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 900);
	fake_journal();
	pass_slowly(14000);
	assert_journal("renew(a)");
}

Test(pipeline, claim_that_is_not_ours_is_not_renewed)
{
	fake.is_redis_away = true;
	receive("a");
	turn();
	fake.is_redis_away = false;
	pass_slowly(30000);
	assert_journal("insert(a) rest");
}

Test(pipeline, nothing_is_renewed_while_redis_is_away)
{
	bring_to_store("a", NULL);
	fake.is_redis_away = true;
	pass_slowly(30000);
	assert_journal("rest");
}

/* --- a listener that cannot store --- */

Test(pipeline, what_waits_behind_a_batch_without_an_answer_is_given_back)
{
	bring_to_store("x", NULL);
	receive("a");
	answer_take("a", CLAIM_MINE);
	assert_journal("take(a)");
	pass_slowly(500);
	assert_journal("");
	pass_slowly(500);
	assert_journal("rest release(a)");
	cr_assert_eq(in_state(EV_HELD), 1);
	pass(50);
	answer_look("a", CLAIM_DONE);
	cr_assert_eq(counters.duplicates, 1);
	cr_assert_eq(in_state(EV_STORING), 1);
}

Test(pipeline, who_cannot_store_makes_no_claim_and_goes_on_when_it_can)
{
	struct producer p = PRODUCER;

	bring_to_store("x", NULL);
	pass_slowly(1000);
	assert_journal("rest");
	receive_from("a", &p);
	pass(50);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a)");
	pass(100);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a)");
	answer_insert("x", STORE_INSERTED);
	assert_journal("done(x) wake");
	pass(200);
	answer_look("a", CLAIM_ABSENT);
	assert_journal("look(a) take(a)");
	answer_take("a", CLAIM_MINE);
	answer_insert("a", STORE_INSERTED);
	cr_assert_str_eq(p.answers, "p");
}

Test(pipeline, claim_that_is_got_too_late_is_given_back)
{
	bring_to_store("x", NULL);
	receive("a");
	pass_slowly(1000);
	answer_take("a", CLAIM_MINE);
	assert_journal("take(a) rest release(a)");
	cr_assert_eq(in_state(EV_HELD), 1);
}

Test(pipeline, batch_that_postgres_cannot_store_is_left_to_others)
{
	struct producer p = PRODUCER;

	bring_to_store("x", &p);
	fake.is_postgres_failing = true;
	pass_slowly(1000);
	assert_journal("rest release(x)");
	answer_insert("x", STORE_PRESENT);
	assert_journal("done(x) wake");
	cr_assert_str_eq(p.answers, "d");
}

Test(pipeline, batch_that_may_be_committed_is_not_left_to_others)
{
	bring_to_store("x", NULL);
	fake.is_postgres_away = true;
	pass_slowly(1000);
	assert_journal("rest");
}

Test(pipeline, one_event_finds_out_whether_rows_can_be_stored_again)
{
	fake.is_postgres_away = true;
	receive("a");
	receive("b");
	answer_take("a", CLAIM_MINE);
	answer_take("b", CLAIM_MINE);
	pass_slowly(1000);
	assert_journal("take(a) take(b) rest release(a,b)");
	fake.is_postgres_away = false;
	for (int64_t ms = 50; ms <= 400; ms *= 2) {
		pass(ms);
		answer_look("a", CLAIM_ABSENT);
		answer_look("b", CLAIM_ABSENT);
		assert_journal("look(a,b)");
	}
	pass(300);
	assert_journal("insert(a)");
	answer_insert("a", STORE_INSERTED);
	assert_journal("done(a) wake");
}

Test(pipeline, who_could_not_store_and_has_nothing_to_try_claims_again_after_a_while)
{
	fake.is_postgres_away = true;
	receive("a");
	answer_take("a", CLAIM_MINE);
	pass_slowly(1000);
	assert_journal("take(a) rest release(a)");
	pass(50);
	answer_look("a", CLAIM_DONE);
	fake.is_postgres_away = false;
	pass_slowly(8000);
	assert_journal("look(a)");
	pass_slowly(2500);
	assert_journal("wake");
}

Test(pipeline, who_leaves_stores_what_it_can)
{
	fake.is_postgres_away = true;
	receive("a");
	answer_take("a", CLAIM_MINE);
	pass_slowly(1000);
	pipeline_drain(pipeline);
	turn();
	fake_journal();
	fake.is_postgres_away = false;
	turn();
	assert_journal("insert(a)");
}

Test(pipeline, without_redis_rows_wait_for_postgres)
{
	fake.is_redis_away = true;
	fake.is_postgres_away = true;
	receive("a");
	pass_slowly(2000);
	receive("b");
	cr_assert_eq(in_state(EV_BATCHED), 2);
	fake_journal();
	fake.is_postgres_away = false;
	turn();
	assert_journal("insert(a,b)");
}

/* --- pressure --- */

/* Events big0, big1, ... of some 10,000 bytes each, until reading is to stop. */
static int fill_memory(void)
{
	char message[10000], id[20];
	int n = 0;

	for (; !is_pressed; n++) {
		cr_assert_lt(n, 100, "no pressure");
		snprintf(id, sizeof(id), "big%d", n);
		snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"payload\":\"%09900d\"}", id, 0);
		pipeline_receive(pipeline, message, strlen(message), NULL);
	}
	return n;
}

static void finish_big(int i)
{
	char id[20];

	snprintf(id, sizeof(id), "big%d", i);
	answer_take(id, CLAIM_DONE);
}

Test(pipeline, reading_stops_at_the_budget_and_goes_on_below_seven_eighths)
{
	int n = fill_memory();

	cr_assert_geq(pipeline_bytes(pipeline), 100000);
	cr_assert_lt(pipeline_bytes(pipeline), 111000);
	cr_assert(pipeline_is_full(pipeline));
	cr_assert_eq(counters.pauses, 1);
	for (int i = 0; i < n && is_pressed; i++) {
		cr_assert_geq(pipeline_bytes(pipeline), 87500);
		finish_big(i);
	}
	cr_assert_not(is_pressed);
	cr_assert_lt(pipeline_bytes(pipeline), 87500);
	cr_assert_not(pipeline_is_full(pipeline));
	cr_assert_eq(pressure_calls, 2);
}

/* A pipeline of a listener that has feeds, too. */
static void give_feeds(void)
{
	close_pipeline();
	config.sources.count = 1;
	reopen_pipeline();
}

Test(pipeline, where_there_are_feeds_producers_stop_at_three_quarters)
{
	give_feeds();
	pipeline_charge(pipeline, 74999);
	cr_assert_eq(pressed, PRESSURE_NONE);
	pipeline_charge(pipeline, 1);
	cr_assert_eq(pressed, PRESSURE_PRODUCERS);
	cr_assert(pipeline_is_full_for_producers(pipeline));
	cr_assert_not(pipeline_is_full(pipeline));
	cr_assert_eq(counters.pauses, 0);
	pipeline_charge(pipeline, 25000);
	cr_assert_eq(pressed, PRESSURE_ALL);
	cr_assert_eq(counters.pauses, 1);
	pipeline_charge(pipeline, -20000);
	turn();
	cr_assert_eq(pressed, PRESSURE_PRODUCERS);
	pipeline_charge(pipeline, -20000);
	turn();
	cr_assert_eq(pressed, PRESSURE_NONE);
	pipeline_charge(pipeline, -60000);
}

Test(pipeline, message_is_taken_over_the_budget_too)
{
	size_t before;

	fill_memory();
	before = in_flight();
	receive("one more");
	cr_assert_eq(in_flight(), before + 1);
	cr_assert_eq(pressure_calls, 1);
}

Test(pipeline, held_events_count_for_the_budget)
{
	int n = fill_memory();
	char id[20];

	for (int i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "big%d", i);
		answer_take(id, CLAIM_OTHER);
	}
	cr_assert(is_pressed);
}

Test(pipeline, messages_not_yet_complete_count_for_the_budget)
{
	pipeline_charge(pipeline, 99999);
	cr_assert_not(is_pressed);
	pipeline_charge(pipeline, 1);
	cr_assert(is_pressed);
	pipeline_charge(pipeline, -100000);
	turn();
	cr_assert_not(is_pressed);
	cr_assert_eq(pipeline_bytes(pipeline), 0);
}

Test(pipeline, copies_with_a_sender_count_for_the_budget)
{
	struct producer p = PRODUCER;
	size_t before;

	receive_from("a", &p);
	before = pipeline_bytes(pipeline);
	receive_from("a", &p);
	cr_assert_gt(pipeline_bytes(pipeline), before);
}

/* n events a0, a1, ... of which none has an answer. */
static void receive_many(int from, int to)
{
	char id[20];

	for (int i = from; i < to; i++) {
		snprintf(id, sizeof(id), "a%d", i);
		receive(id);
	}
}

static void answer_many(int from, int to, enum claim_result result)
{
	char id[20];

	for (int i = from; i < to; i++) {
		snprintf(id, sizeof(id), "a%d", i);
		fake_answer_take(id, result);
	}
	turn();
}

Test(pipeline, reading_stops_while_too_many_claims_have_no_answer)
{
	config.inflight_bytes = 1 << 30;
	receive_many(0, 8191);
	cr_assert_not(is_pressed);
	receive_many(8191, 8192);
	cr_assert(is_pressed);
	cr_assert_not(pipeline_is_full(pipeline));
	answer_many(0, 4096, CLAIM_DONE);
	cr_assert(is_pressed);
	answer_many(4096, 4097, CLAIM_DONE);
	cr_assert_not(is_pressed);
	cr_assert_eq(counters.pauses, 0);
}

Test(pipeline, where_there_are_feeds_producers_stop_before_the_claims_pile_up)
{
	give_feeds();
	config.inflight_bytes = 1 << 30;
	receive_many(0, 6143);
	cr_assert_eq(pressed, PRESSURE_NONE);
	receive_many(6143, 6144);
	cr_assert_eq(pressed, PRESSURE_PRODUCERS);
	receive_many(6144, 8192);
	cr_assert_eq(pressed, PRESSURE_ALL);
}

Test(pipeline, reading_stops_while_rows_pile_up_before_a_postgres_that_works)
{
	config.inflight_bytes = 1 << 30;
	bring_to_store("x", NULL);
	receive_many(0, 400);
	answer_many(0, 399, CLAIM_MINE);
	cr_assert_not(is_pressed);
	answer_many(399, 400, CLAIM_MINE);
	cr_assert(is_pressed);
	answer_many(0, 0, CLAIM_MINE);
	cr_assert_eq(pressure_calls, 1);
}

/* A message of 1 MiB. */
static void receive_mebibyte(const char *id)
{
	static char message[1 << 20];
	int head = snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"payload\":\"", id);

	memset(message + head, 'x', sizeof(message) - (size_t)head);
	memcpy(message + sizeof(message) - 2, "\"}", 2);
	cr_assert_eq(pipeline_receive(pipeline, message, sizeof(message), NULL), 0);
}

/* Four batches of 8 MiB each. */
Test(pipeline, reading_stops_while_bytes_pile_up_before_a_postgres_that_works)
{
	char id[20];

	config.inflight_bytes = 1 << 30;
	bring_to_store("x", NULL);
	for (int i = 0; i < 32; i++) {
		cr_assert_not(is_pressed, "after %d MiB", i);
		snprintf(id, sizeof(id), "a%d", i);
		receive_mebibyte(id);
		answer_take(id, CLAIM_MINE);
	}
	cr_assert(is_pressed);
	cr_assert_not(pipeline_is_full(pipeline));
}

Test(pipeline, rows_may_pile_up_before_a_postgres_that_stalls)
{
	config.inflight_bytes = 1 << 30;
	fake.is_postgres_away = true;
	receive_many(0, 1000);
	answer_many(0, 1000, CLAIM_MINE);
	cr_assert_not(is_pressed);
}

/* --- draining --- */

Test(pipeline, row_that_waits_for_its_backoff_goes_to_the_store_while_draining)
{
	bring_to_store("a", NULL);
	answer_insert("a", STORE_REFUSED);
	answer_count("a", 1);
	fake_journal();
	pipeline_drain(pipeline);
	pass(BACKOFF_MS);
	assert_journal("release(a) insert(a)");
}

Test(pipeline, idle_pipeline_is_drained_at_once)
{
	pipeline_drain(pipeline);
	turn();
	cr_assert_eq(left, 0);
}

Test(pipeline, drain_sends_held_events_to_the_store)
{
	struct producer p = PRODUCER;

	bring_to_hold("a", &p);
	pipeline_drain(pipeline);
	turn();
	assert_journal("insert(a)");
	cr_assert_eq(left, -1);
	answer_insert("a", STORE_PRESENT);
	cr_assert_str_eq(p.answers, "d");
	cr_assert_eq(left, 0);
	pass(60000);
	cr_assert_eq(left, 0);
}

Test(pipeline, event_that_would_be_held_while_draining_goes_to_the_store)
{
	receive("a");
	pipeline_drain(pipeline);
	answer_take("a", CLAIM_OTHER);
	assert_journal("take(a) insert(a)");
}

Test(pipeline, held_event_that_is_being_looked_up_goes_to_the_store_too)
{
	bring_to_hold("a", NULL);
	pass(50);
	pipeline_drain(pipeline);
	answer_look("a", CLAIM_OTHER);
	assert_journal("look(a) insert(a)");
}

Test(pipeline, drain_waits_for_the_answers_of_redis)
{
	fake.unanswered = 1;
	pipeline_drain(pipeline);
	turn();
	cr_assert_eq(left, -1);
	fake.unanswered = 0;
	turn();
	cr_assert_eq(left, 0);
}

/* --- notes --- */

static bool tells(const char *part)
{
	const char *text = fake_checkin();

	return text && strstr(text, part);
}

Test(pipeline, nothing_is_stored_before_the_first_note_is_answered)
{
	close_pipeline();
	fake.is_checkin_slow = true;
	reopen_pipeline();
	receive("a");
	answer_take("a", CLAIM_MINE);
	assert_journal("take(a)");
	cr_assert(tells("\"is_leaving\":false"));
	fake.is_checkin_slow = false;
	turn();
	assert_journal("insert(a)");
}

Test(pipeline, database_whose_rows_were_deleted_is_unusable_without_the_guard)
{
	close_pipeline();
	fake.note = "2592000";
	reopen_pipeline();
	cr_assert_not_null(strstr(unusable, "were deleted from this database"), "%s", unusable);
}

Test(pipeline, note_is_told_each_minute)
{
	fake_checkin();
	pass(59000);
	cr_assert(!tells(""));
	pass(1000);
	cr_assert(tells("\"events\":0"));
}

Test(pipeline, copy_that_only_the_unique_key_finds_is_noted_by_its_id)
{
	bring_to_store("late", NULL);
	answer_insert("late", STORE_PRESENT);
	bring_to_store("new", NULL);
	answer_insert("new", STORE_INSERTED);
	pass(60000);
	cr_assert(tells("\"late\":[[\"late\",60000]]"));
}

Test(pipeline, last_note_is_told_before_the_end)
{
	bring_to_store("a", NULL);
	fake.is_checkin_slow = true;
	pipeline_drain(pipeline);
	answer_insert("a", STORE_INSERTED);
	turn();
	cr_assert(tells("\"is_leaving\":true"));
	cr_assert_eq(left, -1);
	fake.is_checkin_slow = false;
	turn();
	cr_assert_eq(left, 0);
}

Test(pipeline, last_note_that_has_no_answer_is_waited_for_a_second)
{
	fake.is_checkin_slow = true;
	pipeline_drain(pipeline);
	turn();
	pass(900);
	cr_assert_eq(left, -1);
	pass(200);
	cr_assert_eq(left, 0);
}

Test(pipeline, without_postgres_there_is_no_last_note)
{
	fake_checkin();
	fake.is_postgres_away = true;
	pipeline_drain(pipeline);
	turn();
	cr_assert_eq(left, 0);
	cr_assert(!tells(""));
}

Test(pipeline, drain_releases_and_reports_what_is_left_after_its_timeout)
{
	bring_to_store("a", NULL);
	receive("a");
	receive("b");
	answer_take("b", CLAIM_MINE);
	receive("c");
	fake_journal();
	pipeline_drain(pipeline);
	pass(4999);
	assert_journal("");
	pass(1);
	assert_journal("release(b) release(a)");
	cr_assert_eq(left, -1);
	pass(200);
	cr_assert_eq(left, 4);
}

Test(pipeline, event_that_settles_during_the_last_moment_is_not_left)
{
	bring_to_store("a", NULL);
	receive("b");
	pipeline_drain(pipeline);
	pass(5000);
	answer_insert("a", STORE_INSERTED);
	answer_take("b", CLAIM_DONE);
	cr_assert_eq(left, 0);
	pass(200);
	cr_assert_eq(left, 0);
}

/* --- life --- */

Test(pipeline, closing_answers_nobody)
{
	struct producer p = PRODUCER;

	receive_from("claiming", &p);
	bring_to_hold("held", &p);
	bring_to_store("storing", &p);
	pipeline_refuse(pipeline, "x", 1, "refused", &p.sender);
	close_pipeline();
	cr_assert_str_eq(p.answers, "");
	counters = (struct counters){0};
	open_pipeline();
}

Test(pipeline, unusable_database_is_reported)
{
	fake_answer_unusable("too old");
	cr_assert_str_eq(unusable, "too old");
}

Test(pipeline, stage_that_cannot_open_is_named)
{
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, NULL};
	char error[100] = "";

	fake.is_claim_broken = true;
	cr_assert_null(pipeline_open(&loop, &config, &on, error, sizeof(error)));
	cr_assert_str_eq(error, "the claim is broken");
}

/* --- everything at once --- */

static uint32_t seed = 1;

static int pick(int n)
{
	seed = seed * 1664525 + 1013904223;
	return (int)((seed >> 8) % (uint32_t)n);
}

static void move_one(struct event *ev, const char *id)
{
	static const enum claim_result takes[] = {CLAIM_MINE, CLAIM_MINE, CLAIM_OTHER,
						  CLAIM_DONE, CLAIM_DEAD, CLAIM_UNKNOWN};
	static const enum claim_result looks[] = {CLAIM_MINE, CLAIM_ABSENT, CLAIM_OTHER,
						  CLAIM_DONE, CLAIM_DEAD,   CLAIM_UNKNOWN};
	static const enum store_result rows[] = {STORE_INSERTED, STORE_INSERTED, STORE_PRESENT, STORE_REFUSED,
						 STORE_HOPELESS};

	switch (ev->state) {
	case EV_CLAIMING:
		fake_answer_take(id, takes[pick(6)]);
		return;
	case EV_LOOKING:
		fake_answer_look(id, looks[pick(6)]);
		return;
	case EV_STORING:
		fake_answer_insert(id, rows[pick(5)]);
		return;
	case EV_COUNTING:
		fake_answer_count(id, pick(5) - 1);
		return;
	case EV_BURYING:
		fake_answer_bury(id, STORE_BURIED);
		return;
	case EV_HELD:
	case EV_BEHIND:
	case EV_BATCHED:
	case EV_BACKING_OFF:
	case EV_REFUSED:
	case EV_DONE:
	case EVENT_STATES:
		return;
	}
}

/* Answers one call about one of these ids, if there is any. */
static void move_any(void)
{
	char id[20];
	const struct list *burials = &pipeline_events(pipeline)->lists[EV_BURYING];
	struct event *ev;

	snprintf(id, sizeof(id), "r%d", pick(30));
	ev = find_event(pipeline_events(pipeline), id);
	if (!list_is_empty(burials)) { /* of one that is in no table, too */
		ev = list_entry(burials->next, struct event, link);
		snprintf(id, sizeof(id), "%.*s", (int)ev->id_len, ev->id);
	}
	if (ev)
		move_one(ev, id);
}

Test(pipeline, whatever_the_stages_answer_nothing_is_lost_or_answered_twice)
{
	static struct producer producers[3000];
	int asked = 0;
	char id[20];

	for (int i = 0; i < 30000; i++) {
		if (i % 10 == 0 && asked < 3000) {
			snprintf(id, sizeof(id), "r%d", pick(30));
			producers[asked].sender.answer = on_answer;
			receive_variant(id, pick(12), &producers[asked++]);
		}
		move_any();
		fake.is_redis_away = pick(100) == 0;
		clock_pass(pick(100));
		uv_run(&loop, UV_RUN_NOWAIT);
		assert_nothing_is_lost();
		fake_journal();
	}
	fake.is_redis_away = false;
	pipeline_drain(pipeline);
	for (int i = 0; i < 100000 && left < 0; i++) {
		move_any();
		uv_run(&loop, UV_RUN_NOWAIT);
		clock_pass(pick(100) == 0);
		fake_journal();
	}
	cr_assert_eq(left, 0);
	cr_assert_eq(counters.received, 3000);
	for (int i = 0; i < asked; i++)
		cr_assert_eq(strlen(producers[i].answers), 1, "message %d: '%s'", i, producers[i].answers);
}

/* --- memory that is out --- */

/* One new event with a copy, and one message that is no event. */
static bool take_messages(void)
{
	static const char message[] = "{\"event_id\":\"a\",\"event_type\":\"caf\\u00e9\"}";
	struct producer p = PRODUCER;
	int taken = 0;

	for (int i = 0; i < 2; i++)
		taken += pipeline_receive(pipeline, message, strlen(message), &p.sender) == 0;
	if (taken)
		fake_answer_take("a", CLAIM_DONE);
	cr_assert_eq((int)strlen(p.answers), taken, "%d taken, answered %s", taken, p.answers);
	cr_assert_null(strchr(p.answers, 'r'), "an event became a dead letter");
	if (pipeline_receive(pipeline, "[", 1, &p.sender) == 0) {
		taken++;
		turn();
		fake_answer_bury("-", STORE_BURIED);
	}
	turn();
	cr_assert_eq((int)strlen(p.answers), taken);
	cr_assert_eq(pipeline_events(pipeline)->messages, 0);
	return taken == 3;
}

Test(pipeline, message_without_memory_is_not_taken_and_becomes_no_dead_letter)
{
	cr_assert_gt(failing_alloc_sweep(take_messages), 4);
}
