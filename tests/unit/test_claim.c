/* What is asked of Redis for claims and marks, and what each answer means. */
#include "base/counters.h"
#include "base/hash.h"
#include "clock.h"
#include "played_redis.h"
#include "claim/claim.h"
#include "fleet/presence.h"
#include "loop.h"
#include "unit.h"

#include <uv.h>

static uv_loop_t loop;
static struct claim *claim;
static struct event events[3]; /* a, b, c */
static char became[400];
static struct config config;
static const uint8_t digest[32] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

static void note(const char *word, const struct event *ev)
{
	size_t len = strlen(became);

	snprintf(became + len, sizeof(became) - len, "%.*s %s, ", ev ? 1 : 0, ev ? ev->id : "", word);
}

static const char *const results[] = {"mine", "another's", "done", "dead", "absent", "unknown"};

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	note(results[result], ev);
}

static void on_owner_gone(void *arg, uint16_t owner)
{
	note("gone", NULL);
}

static size_t on_done(void *arg, struct done *of, size_t n)
{
	return n;
}

static void on_foreign(void *arg, const char *sentence)
{
	cr_assert(strstr(sentence, "use --claim-prefix dedup: or its beginning"));
	note("foreign", NULL);
}

static struct claim *open_claim(void)
{
	const struct claim_callbacks on = {on_claimed, on_owner_gone, on_done, on_foreign, NULL};

	return claim_open(&loop, &config, &on);
}

static void set_up(void)
{
	played_redis_start();
	clock_stop();
	uv_loop_init(&loop);
	config = (struct config){.redis = (char *)"unix:///redis",
				 .instance_id = (char *)"i",
				 .claim_prefix = (char *)"dedup:",
				 .claim_ttl_s = 30,
				 .dedup_window_s = 300};
	claim = open_claim();
	for (int i = 0; i < 3; i++) {
		static char ids[] = "abc";

		events[i] = (struct event){.id = &ids[i], .id_len = 1, .message = "{}", .message_len = 2};
		events[i].digest = digest;
	}
	played_redis_set_state(REDIS_READY);
	claim_set_epoch(claim, 0xab);
}

static void tear_down(void)
{
	claim_close(claim, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(claim, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_sent(const char *expected)
{
	cr_assert_str_eq(played_redis_next(), expected);
}

static void expect_became(const char *expected)
{
	cr_assert_str_eq(became, expected);
	*became = '\0';
}

static struct redis_reply text_of(enum reply_type type, const char *text)
{
	return (struct redis_reply){.type = type, .str = (char *)text, .len = strlen(text)};
}

static void say(enum reply_type type, const char *text)
{
	const struct redis_reply reply = text_of(type, text);

	played_redis_answer(&reply);
}

static void say_number(long long number)
{
	played_redis_answer(&(struct redis_reply){.type = REPLY_INTEGER, .integer = number});
}

/* A word for each element: "-" is nil. */
static void say_array(int n, const char *const *texts)
{
	struct redis_reply replies[4];

	for (int i = 0; i < n; i++)
		replies[i] = text_of(strcmp(texts[i], "-") == 0 ? REPLY_NIL : REPLY_STRING, texts[i]);
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = (size_t)n, .element = replies});
}

#define SAY_ARRAY(...) \
	say_array(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void take(int i)
{
	cr_assert_eq(claim_take(claim, &events[i]), 0);
	expect_sent((const char *[]){"SET dedup:a me@ NX GET EX 30", "SET dedup:b me@ NX GET EX 30",
				     "SET dedup:c me@ NX GET EX 30"}[i]);
}

static void take_and_hear(enum reply_type type, const char *text)
{
	take(0);
	say(type, text);
}

Test(claim, what_was_not_there_is_ours)
{
	take_and_hear(REPLY_NIL, "");
	expect_became("a mine, ");
	cr_assert(events[0].is_claimed);
}

Test(claim, what_another_has_is_not)
{
	take_and_hear(REPLY_STRING, "j.0123456789abcdef@17");
	expect_became("a another's, ");
	cr_assert_not(events[0].is_claimed);
	take_and_hear(REPLY_STRING, "i.0123456789abcdef@17");
	expect_became("a another's, ");
}

/* An earlier SET arrived, and its answer did not. */
Test(claim, what_has_our_own_value_is_ours_under_its_time)
{
	char value[60];

	take(0);
	snprintf(value, sizeof(value), "%.19s17", played_redis_own());
	say(REPLY_STRING, value);
	expect_became("a mine, ");
	cr_assert_eq(events[0].claim_ms, 17);
	take(0);
	snprintf(value, sizeof(value), "%.19s", played_redis_own());
	say(REPLY_STATUS, value);
	expect_became("a another's, ");
}

Test(claim, done_and_dead_marks_of_this_epoch_are_believed)
{
	take_and_hear(REPLY_STRING, "done@17.000000ab");
	expect_became("a done, ");
	take_and_hear(REPLY_STRING, "dead@99999999999999.000000ab/0123456789abcdef");
	expect_became("a dead, ");
	cr_assert_not(events[0].is_claimed);
}

/* Its letter may have been retried since the dump that Redis came back with. */
Test(claim, a_dead_mark_from_before_redis_came_back_is_taken_away)
{
	take_and_hear(REPLY_STRING, "dead@17.000000ab/0123456789abcdef");
	expect_became("");
	expect_sent("EVAL seize 1 dedup:a dead@T.000000ab/0123456789abcdef me@ 30");
}

/* A mark of a version that did not write the minute leaves it unknown. */
Test(claim, a_done_mark_tells_the_minute_of_the_row)
{
	take_and_hear(REPLY_STRING, "done@17.000000ab/m01b05455");
	cr_assert_eq(events[0].won_ms, INT64_C(28333141) * 60000);
	take_and_hear(REPLY_STRING, "done@17.000000ab");
	cr_assert_eq(events[0].won_ms, 0);
	take_and_hear(REPLY_STRING, "done@17.000000ac/m01b05455");
	cr_assert_eq(events[0].won_ms, 0, "of another epoch");
	events[1].won_ms = INT64_C(28333141) * 60000 + 59999;
	claim_mark(claim, &events[1], CLAIM_MARK_DONE);
	played_redis_next();
	expect_sent("SET dedup:b done@T.000000ab/m01b05455 EX 300");
}

Test(claim, without_an_epoch_marks_say_nothing)
{
	claim_set_epoch(claim, 0);
	take_and_hear(REPLY_STRING, "done@17.000000ab");
	expect_became("a unknown, ");
	cr_assert_not(events[0].is_claimed, "a mark is there");
}

static void expect_seized(const char *mark)
{
	char text[200];

	take_and_hear(REPLY_STRING, mark);
	expect_became("");
	snprintf(text, sizeof(text), "EVAL seize 1 dedup:a %s me@ 30",
		 strstr(mark, "dead") ? "dead@T.000000ab/0123456789abcdee" : "done@T.000000ac");
	expect_sent(text);
}

Test(claim, claims_of_a_dead_owner_are_taken_over_by_a_script)
{
	struct event *all[] = {&events[0], &events[1], &events[2]};

	take_and_hear(REPLY_STRING, "j.0123456789abcdef@17");
	expect_became("a another's, ");
	cr_assert(events[0].owner);
	claim_inherit(claim, events[0].owner, all, 3);
	expect_sent("EVAL inherit 3 dedup:a dedup:b dedup:c j.0123456789abcdef@ 30 me@ me@ me@");
	SAY_ARRAY("-", "k.0123456789abcdef@18", "done@17.000000ab");
	expect_became("a mine, b another's, c done, ");
	cr_assert(events[0].is_claimed && !events[0].owner);
	cr_assert(!events[1].is_claimed && events[1].owner);
	claim_inherit(claim, events[1].owner, all, 2);
	played_redis_answer(NULL);
	expect_became("a unknown, b unknown, ");
	cr_assert(events[0].is_claimed && events[1].is_claimed, "it may have arrived");
}

Test(claim, a_mark_that_says_nothing_is_taken_away)
{
	expect_seized("done@17.000000ac");
	say(REPLY_NIL, "");
	expect_became("a mine, ");
	expect_seized("dead@17.000000ab/0123456789abcdee");
	say(REPLY_STRING, "j.0123456789abcdef@17");
	expect_became("a another's, ");
	expect_seized("done@17.000000ac");
	say(REPLY_STRING, "done@18.000000ac");
	expect_became("a unknown, ");
	expect_seized("done@17.000000ac");
	played_redis_answer(NULL);
	expect_became("a unknown, ");
	cr_assert(events[0].is_claimed, "it may have arrived");
}

Test(claim, an_error_is_unknown_and_a_refusal_for_three_seconds)
{
	cr_assert_not(claim_is_refused(claim));
	take_and_hear(REPLY_ERROR, "OOM command not allowed");
	expect_became("a unknown, ");
	cr_assert(events[0].is_claimed, "it may be there all the same");
	cr_assert(claim_is_refused(claim));
	clock_pass(2999);
	uv_update_time(&loop);
	cr_assert(claim_is_refused(claim));
	clock_pass(1);
	uv_update_time(&loop);
	cr_assert_not(claim_is_refused(claim));
}

Test(claim, no_answer_is_unknown)
{
	take(0);
	cr_assert_eq(claim_unanswered(claim), 1);
	played_redis_answer(NULL);
	expect_became("a unknown, ");
	cr_assert(events[0].is_claimed);
	cr_assert_not(claim_is_refused(claim));
}

Test(claim, a_number_is_no_claim)
{
	take(0);
	say_number(1);
	expect_became("a unknown, ");
	cr_assert_not(events[0].is_claimed);
}

/* The nonce of a process, and a time that never comes again: see claim.c. */
Test(claim, values_are_never_the_same_twice)
{
	take(0);
	int64_t first = events[0].claim_ms;
	take(0);
	cr_assert_gt(events[0].claim_ms, first);
}

Test(claim, nobody_is_asked_while_redis_is_away)
{
	played_redis_set_state(REDIS_DOWN);
	cr_assert_not(claim_is_ready(claim));
	cr_assert_eq(claim_take(claim, &events[0]), -1);
	cr_assert_eq(claim_unanswered(claim), 0);
	cr_assert(claim_is_used(claim));
}

/* --- scripts --- */

Test(claim, claims_are_renewed_and_given_back_by_their_whole_value)
{
	struct event *all[] = {&events[0], &events[1]};

	events[0].is_claimed = true;
	claim_renew(claim, all, 2);
	expect_sent("EVAL renew 2 dedup:a dedup:b me@ me@ 30");
	cr_assert(events[0].is_claimed);
	cr_assert_eq(events[1].lease_ms, (int64_t)uv_now(&loop));
	say_number(1);
	cr_assert_eq(counters.claims_renewed, 1);
	cr_assert_eq(counters.claims_expired, 1);
	claim_release(claim, all, 1);
	expect_sent("EVAL release 1 dedup:a me@");
	cr_assert_not(events[0].is_claimed);
	say_number(1);
	cr_assert_eq(counters.claims_released, 1);
}

/* --- marks --- */

Test(claim, marks_say_the_epoch_and_a_dead_one_the_message)
{
	claim_mark(claim, &events[0], CLAIM_MARK_DONE);
	expect_sent("SET dedup:a done@T.000000ab EX 300");
	claim_mark(claim, &events[1], CLAIM_MARK_DEAD);
	expect_sent("SET dedup:b dead@T.000000ab/0123456789abcdef EX 60");
	expect_sent("");
}

/* A Redis that is full refuses the mark, too. */
Test(claim, after_a_refusal_the_claim_is_given_back_before_the_mark)
{
	take_and_hear(REPLY_ERROR, "OOM command not allowed");
	claim_mark(claim, &events[0], CLAIM_MARK_DONE);
	expect_sent("EVAL release 1 dedup:a me@");
	expect_sent("SET dedup:a done@T.000000ab EX 300");
	say_number(0);
	say(REPLY_STATUS, "OK");
	take_and_hear(REPLY_NIL, "");
	claim_mark(claim, &events[0], CLAIM_MARK_DONE);
	expect_sent("SET dedup:a done@T.000000ab EX 300");
}

Test(claim, marks_that_did_not_arrive_are_not_sent_again)
{
	claim_mark(claim, &events[0], CLAIM_MARK_DONE);
	expect_sent("SET dedup:a done@T.000000ab EX 300");
	played_redis_set_state(REDIS_DOWN);
	played_redis_answer(NULL);
	claim_mark(claim, &events[1], CLAIM_MARK_DONE);
	played_redis_set_state(REDIS_READY);
	expect_sent("");
}

/* A Redis that hung may carry out the claim when it goes on, after its connection was given up. */
Test(claim, a_claim_that_may_be_in_a_redis_that_was_away_gets_its_mark_or_is_released)
{
	take(0);
	played_redis_set_state(REDIS_DOWN);
	played_redis_answer(NULL);
	expect_became("a unknown, ");
	claim_mark(claim, &events[0], CLAIM_MARK_DONE);
	events[1].is_claimed = events[2].is_claimed = true;
	claim_mark(claim, &events[1], CLAIM_MARK_DEAD); /* its dead letter may be retried meanwhile */
	cr_assert_not(events[1].is_claimed);
	claim_release(claim, (struct event *[]){&events[1]}, 1); /* not claimed */
	claim_mark(claim, &events[2], CLAIM_MARK_DONE);
	expect_sent("");
	played_redis_set_state(REDIS_READY);
	expect_sent("SET dedup:a done@T.000000ab EX 300");
	expect_sent("EVAL release 1 dedup:b me@");
	expect_sent("SET dedup:c done@T.000000ab EX 300");
	played_redis_set_state(REDIS_DOWN);
	played_redis_set_state(REDIS_READY);
	expect_sent("");
}

/* --- the fleet --- */

static void reopen_with_beats(void)
{
	claim_close(claim, loop_on_closed, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	played_redis_show_beats("89abcdef.7");
	claim = open_claim();
	played_redis_set_state(REDIS_READY);
}

static void expect_beat(const char *said)
{
	char beat[200];

	uv_run(&loop, UV_RUN_NOWAIT);
	snprintf(beat, sizeof(beat), "EVAL presence 1 wsonce:{alive}:dedup: me@ %s 3000", said);
	expect_sent(beat);
	say_array(0, NULL);
}

Test(claim, others_hear_that_it_rests_or_leaves_and_why)
{
	reopen_with_beats();
	expect_beat("2 89abcdef.7 w - " WSONCE_VERSION " \n");
	presence_say(claim_presence(claim), "postgres is away");
	presence_set_state(claim_presence(claim), PEER_PASSIVE);
	expect_beat("2 89abcdef.7 p - " WSONCE_VERSION " \npostgres is away");
	presence_say(claim_presence(claim), "");
	presence_set_state(claim_presence(claim), PEER_WORKING);
	expect_beat("2 89abcdef.7 w - " WSONCE_VERSION " \n");
	presence_set_state(claim_presence(claim), PEER_DRAINING);
	expect_beat("2 89abcdef.7 d - " WSONCE_VERSION " \n");
	presence_set_state(claim_presence(claim), PEER_PASSIVE);
	expect_sent("");
}

Test(claim, others_hear_of_which_sources_messages_come)
{
	char said[100], source[ROSTER_HEARD_SIZE + 1] = "";

	reopen_with_beats();
	expect_beat("2 89abcdef.7 w - " WSONCE_VERSION " \n");
	cr_assert_not(claim_has_other_leader(claim, "feed"));
	clock_pass(100);
	roster_write(source, &(struct heard){.id = hash_text("feed", 4), .may_lead = true});
	snprintf(said, sizeof(said), "2 89abcdef.7 w - " WSONCE_VERSION " %s\n", source);
	expect_beat(said);
}

Test(claim, while_another_database_uses_the_prefix_redis_is_not_asked)
{
	reopen_with_beats();
	expect_beat("2 89abcdef.7 w - " WSONCE_VERSION " \n");
	claim_set_database(claim, "d");
	uv_run(&loop, UV_RUN_NOWAIT);
	played_redis_next();
	SAY_ARRAY("you@", "2 89abcdef.8 w e 0.1.0 \n");
	expect_became(" foreign, ");
	cr_assert_not(claim_is_ready(claim));
	cr_assert_not(claim_has_other_leader(claim, "feed"));
	clock_pass(1000);
	expect_beat("2 89abcdef.7 w - " WSONCE_VERSION " \n");
	cr_assert(claim_is_ready(claim));
}

/* --- MACs of marks --- */

Test(claim, with_a_key_marks_without_a_mac_by_it_say_nothing)
{
	claim_close(claim, loop_on_closed, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	config.marks_key = (char *)"0123456789abcdef0123456789abcdef";
	claim = open_claim();
	played_redis_set_state(REDIS_READY);
	claim_set_epoch(claim, 0xab);
	take_and_hear(REPLY_STRING, "done@17.000000ab");
	expect_became("");
	expect_sent("EVAL seize 1 dedup:a done@T.000000ab me@ 30");
	say(REPLY_NIL, "");
	expect_became("a mine, ");
}
