/* Presence in presence.c: when this listener reports that it is alive and what, which listener leads each source, and
 * whose claims are a dead listener's. */
#include "base/hash.h"
#include "clock.h"
#include "config/profile.h"
#include "loop.h"
#include "played_redis.h"
#include "fleet/presence.h"
#include "fleet/reading.h"
#include "unit.h"

#include <inttypes.h>
#include <uv.h>

#define OURS    "89abcdef.7"
#define SOURCES 20
#define DB      "0fab1cde-0000-4000-8000-000000000001"
#define OTHER   "0fab1cde-0000-4000-8000-000000000002"

/* What we say before the sources, in this state, while it is not known which database ours is. */
#define OURS_SAID(state) "2 " OURS " " state " - " WSONCE_VERSION " "

static uv_loop_t loop;
static struct redis *redis;
static struct presence *presence;
static char gone[400];
static int foreign;
static char sources[SOURCES][24];
static char others_hear[500]; /* all these sources */
static struct config config;

static void on_gone(void *arg, uint16_t listener)
{
	snprintf(gone + strlen(gone), sizeof(gone) - strlen(gone), "%s ", presence_name(presence, listener));
}

static void on_foreign(void *arg, const char *sentence)
{
	cr_assert(strstr(sentence, "--claim-prefix p:") && strstr(sentence, OTHER), "%s", sentence);
	foreign++;
}

static void on_state(void *owner, enum redis_state state)
{
	presence_set_redis(presence, state == REDIS_READY ? redis : NULL);
}

static void pass(int64_t ms)
{
	clock_pass(ms);
	uv_run(&loop, UV_RUN_NOWAIT);
}

static void expect_sent(const char *expected)
{
	cr_assert_str_eq(played_redis_next(), expected);
}

static void expect_gone(const char *expected)
{
	cr_assert_str_eq(gone, expected);
	*gone = '\0';
}

/* --- beats and their answers --- */

static const char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static const char *text(const char *fmt, ...)
{
	static char texts[32][600];
	static int turn;
	char *at = texts[turn++ % 32];
	va_list args;

	va_start(args, fmt);
	vsnprintf(at, sizeof(texts[0]), fmt, args);
	va_end(args);
	return at;
}

static void say(enum reply_type type, const char *what)
{
	played_redis_answer(&(struct redis_reply){.type = type, .str = (char *)what, .len = strlen(what)});
}

/* The words are names, each with what that listener says after it. */
static void say_words(size_t n, const char *const *words)
{
	struct redis_reply *replies = calloc(n + 1, sizeof(*replies));

	for (size_t i = 0; i < n; i++)
		replies[i] = (struct redis_reply){REPLY_STRING, .str = (char *)words[i], .len = strlen(words[i])};
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = n, .element = replies});
	free(replies);
}

static void say_all(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	say_words(n, words);
}

#define SAY(...) say_all((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* What is said of a source that may be led. */
static const char *led(uint64_t id)
{
	static char texts[8][ROSTER_HEARD_SIZE + 1];
	static int turn;
	char *at = texts[turn++ % 8];

	roster_write(at, &(struct heard){.id = id, .may_lead = true});
	return at;
}

static uint64_t id_of(const char *name)
{
	return hash_text(name, strlen(name));
}

/* A listener that hears all sources, from this connection. */
static const char *at_work(const char *client)
{
	return text("2 %s w - " WSONCE_VERSION " %s\n", client, others_hear);
}

static void expect_beat(void)
{
	const char *sent = played_redis_next();

	cr_assert(strncmp(sent, "EVAL presence 1 wsonce:{alive}:p: me@ 2 ", 40) == 0, "%s", sent);
}

static void expect_said(const char *said)
{
	expect_sent(text("EVAL presence 1 wsonce:{alive}:p: me@ %s 3000", said));
}

/* Each second a beat is sent, and nobody else is there. */
static void beat_for(int seconds)
{
	for (int i = 0; i < seconds; i++) {
		pass(1000);
		expect_beat();
		SAY();
	}
}

static uint16_t find(const char *value)
{
	return presence_find(presence, value, strlen(value));
}

/* An event waits for the claim of this listener: a beat is sent as soon as it may. */
static void wait_for(const char *value)
{
	presence_wait_for(presence, find(value));
	pass(100);
	expect_beat();
}

/* How many of the sources another listener leads. */
static int left_to_others(void)
{
	int n = 0;

	for (int i = 0; i < SOURCES; i++)
		n += presence_has_other_leader(presence, sources[i]);
	return n;
}

static bool is_led_in_part(void)
{
	return left_to_others() > 0 && left_to_others() < SOURCES;
}

/* A source that another listener leads. */
static const char *other_source(void)
{
	for (int i = 0; i < SOURCES; i++)
		if (presence_has_other_leader(presence, sources[i]))
			return sources[i];
	cr_assert_fail("another listener leads nothing");
	return NULL;
}

/* --- before and after --- */

static void open_as(const char *client)
{
	const struct redis_settings settings = {.on_state = on_state};

	played_redis_start();
	played_redis_show_beats(client);
	clock_stop();
	uv_loop_init(&loop);
	config.claim_prefix = (char *)"p:";
	redis = redis_open(&loop, &settings);
	presence = presence_open(&loop, &config, "me@", on_gone, on_foreign, NULL);
	for (int i = 0; i < SOURCES; i++) {
		snprintf(sources[i], sizeof(sources[i]), "feed#%d", i);
		roster_write(others_hear + ROSTER_HEARD_SIZE * i,
			     &(struct heard){.id = id_of(sources[i]), .may_lead = true});
	}
	played_redis_set_state(REDIS_READY);
}

static void set_up(void)
{
	open_as(OURS);
	expect_said(OURS_SAID("w") "\n");
	SAY();
}

/* The second beat after connecting is over. */
static void set_up_later(void)
{
	set_up();
	pass(100);
	expect_beat();
	SAY();
}

static void tear_down(void)
{
	presence_close(presence, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(presence, .init = set_up_later, .fini = tear_down, .timeout = 60);
TestSuite(presence_start, .fini = tear_down, .timeout = 60);

/* --- when it beats --- */

Test(presence_start, it_beats_at_once_then_soon_then_each_second)
{
	set_up();
	pass(99);
	expect_sent("");
	pass(1);
	expect_beat();
	SAY();
	for (int i = 0; i < 10; i++) {
		pass(999);
		expect_sent("");
		pass(1);
		expect_beat();
		SAY();
	}
	expect_gone("");
}

Test(presence_start, a_connection_without_a_number_is_said_to_be_unknown)
{
	open_as("");
	expect_said("2 - w - " WSONCE_VERSION " \n");
}

Test(presence, one_beat_at_a_time_and_after_a_late_answer_the_next_one_is_soon)
{
	pass(1000);
	expect_beat();
	pass(1000);
	presence_set_state(presence, PEER_PASSIVE);
	pass(0);
	expect_sent("");
	SAY();
	pass(100);
	expect_said(OURS_SAID("p") "\n");
}

Test(presence, only_an_error_is_a_refusal_and_not_a_pause_of_the_process)
{
	pass(14000);
	cr_assert_not(presence_is_refused(presence));
	for (int i = 0; i < 5; i++) {
		expect_beat();
		say(REPLY_ERROR, "OOM command not allowed");
		pass(1000);
	}
	cr_assert(presence_is_refused(presence));
}

Test(presence, a_lost_answer_does_not_end_the_beats)
{
	pass(1000);
	expect_beat();
	played_redis_answer(NULL);
	beat_for(2);
}

Test(presence, without_redis_it_is_silent_and_beats_at_once_when_it_is_back)
{
	played_redis_set_state(REDIS_DOWN);
	presence_wait_for(presence, find("a.1@5"));
	presence_hear(presence, sources[0]);
	presence_set_state(presence, PEER_PASSIVE);
	pass(2000);
	pass(2000);
	expect_sent("");
	played_redis_set_state(REDIS_READY);
	expect_said(text(OURS_SAID("p") "%s\n", led(id_of(sources[0]))));
}

/* --- what it says --- */

Test(presence, it_says_why_it_cannot_store)
{
	presence_say(presence, "postgres is away\nsince noon");
	pass(0);
	expect_sent("");
	pass(1000);
	expect_said(OURS_SAID("w") "\npostgres is away\nsince noon");
	SAY();
	presence_say(presence, "");
	pass(1000);
	expect_said(OURS_SAID("w") "\n");
}

Test(presence, a_new_state_is_told_at_once_and_who_drains_does_nothing_else)
{
	static const struct {
		enum peer_state state;
		const char *said;
	} steps[] = {{PEER_PASSIVE, OURS_SAID("p") "\n"},
		     {PEER_WORKING, OURS_SAID("w") "\n"},
		     {PEER_DRAINING, OURS_SAID("d") "\n"}};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		presence_set_state(presence, steps[i].state);
		pass(0);
		expect_said(steps[i].said);
		SAY();
	}
	presence_set_state(presence, PEER_WORKING);
	pass(1000);
	expect_said(OURS_SAID("d") "\n");
}

Test(presence, it_names_the_sources_of_the_last_five_seconds)
{
	const char *both = text(OURS_SAID("w") "%s%s\n", led(id_of(sources[0])), led(id_of(sources[1])));

	presence_hear(presence, sources[0]);
	presence_hear(presence, sources[1]);
	for (int i = 0; i < 5; i++) {
		pass(1000);
		expect_said(both);
		SAY();
	}
	presence_hear(presence, sources[1]);
	pass(1000);
	expect_said(text(OURS_SAID("w") "%s\n", led(id_of(sources[1]))));
	SAY();
	presence_hear(presence, sources[0]);
	pass(100);
	expect_said(both);
}

Test(presence, a_new_source_hastens_the_beat)
{
	pass(50);
	presence_hear(presence, sources[0]);
	pass(49);
	expect_sent("");
	pass(1);
	expect_beat();
	SAY();
	pass(500);
	presence_hear(presence, sources[0]);
	pass(0);
	expect_sent("");
	presence_hear(presence, sources[1]);
	pass(0);
	expect_beat();
	SAY();
	pass(999);
	expect_sent("");
}

Test(presence, source_is_known_by_its_address_whoever_the_feed_knows_us_as)
{
	const uint64_t id = readings_source_id("ws://a/x", "");

	cr_assert_eq(readings_source_id("ws://me:secret@a/x", ""), id);
	cr_assert_neq(readings_source_id("wss://a/x", ""), id);
	cr_assert_neq(readings_source_id("ws://a/y", ""), id);
	cr_assert_neq(readings_source_id("ws://a/x@b", ""), readings_source_id("ws://b", ""));
	cr_assert_neq(readings_source_id("ws://a/x", "profile"), id);
	cr_assert_neq(readings_source_id("wss://feed.example.com/1", "feed-1"),
		      readings_source_id("wss://feed.example.com/2", "feed-2"));
}

/* Whose names may be another fleet's names of other feeds. */
Test(presence_start, sources_of_the_settings_are_told_by_their_addresses)
{
	char *urls[] = {(char *)"ws://a/x", (char *)"b=ws://me@b/y"};
	struct profile profile = {.name = "feed", .url = "wss://c/z", .lines = 1}, *feeds[] = {&profile};

	config.sources.items = urls;
	config.sources.count = 2;
	config.feeds = feeds;
	config.feed_count = 1;
	set_up_later();
	presence_hear(presence, "ws://a/***");
	presence_hear(presence, "b");
	presence_hear(presence, "feed");
	pass(1000);
	expect_said(text(OURS_SAID("w") "%s%s%s\n", led(readings_source_id("ws://a/x", "")),
			 led(readings_source_id("ws://b/y", "")), led(readings_source_id("wss://c/z", "feed"))));
}

/* --- databases --- */

static void answer_next(const char *name, const char *said)
{
	pass(1000);
	expect_beat();
	SAY(name, said);
}

#define OF_DATABASE(id) "2 89abcdef.8 w " id " 0.1.0 \n"

Test(presence, it_says_its_database_when_it_knows_that_no_other_uses_the_prefix)
{
	presence_set_database(presence, DB);
	pass(0);
	expect_said(OURS_SAID("w") "\n");
	SAY("you@", OF_DATABASE(DB), "old@", "2 89abcdef.9 w - 0.1.0 \n", "new@", OF_DATABASE("-"));
	pass(100);
	expect_said("2 " OURS " w " DB " " WSONCE_VERSION " \n");
	SAY();
	cr_assert_not(presence_is_foreign(presence));
	cr_assert_eq(foreign, 0);
}

Test(presence, another_databases_prefix_ends_a_listener_that_starts_and_it_is_not_told)
{
	presence_set_database(presence, DB);
	pass(0);
	expect_said(OURS_SAID("w") "\n");
	SAY("you@", OF_DATABASE(OTHER));
	cr_assert_eq(foreign, 1);
	cr_assert(presence_is_foreign(presence));
	pass(1000);
	expect_said(OURS_SAID("w") "\n");
	SAY("you@", OF_DATABASE(OTHER));
	cr_assert_eq(foreign, 1);
}

Test(presence, one_that_works_only_warns_until_the_other_is_gone)
{
	presence_set_database(presence, DB);
	pass(0);
	expect_beat();
	SAY();
	answer_next("you@", OF_DATABASE(OTHER));
	cr_assert(presence_is_foreign(presence));
	pass(1000);
	expect_beat();
	SAY();
	cr_assert_not(presence_is_foreign(presence));
	cr_assert_eq(foreign, 0);
}

Test(presence, without_a_database_of_its_own_it_minds_no_other)
{
	answer_next("you@", OF_DATABASE(OTHER));
	cr_assert_not(presence_is_foreign(presence));
}

/* Of two such prefixes one id each may make the same key. */
Test(presence_start, a_prefix_may_not_begin_with_that_of_another_database)
{
	open_as(OURS);
	presence_close(presence, loop_on_closed, NULL);
	config.claim_prefix = (char *)"p:q:r:";
	presence = presence_open(&loop, &config, "me@", on_gone, on_foreign, NULL);
	played_redis_set_state(REDIS_READY);
	played_redis_next();
	expect_sent("EVAL presence 3 wsonce:{alive}:p:q:r: wsonce:{alive}:p: wsonce:{alive}:p:q: me@ " OURS_SAID(
		"w") "\n 3000");
	presence_set_database(presence, DB);
	played_redis_answer(NULL);
	SAY("", OF_DATABASE(OTHER));
	cr_assert_eq(foreign, 1);
	cr_assert_eq(find(""), 0);
}

/* --- who leads --- */

/* The beat is due, and its answer names another listener. */
static void meet_another(void)
{
	pass(1000);
	expect_beat();
	SAY("you@", at_work("89abcdef.8"));
}

Test(presence, it_shares_the_sources_with_others_that_hear_them)
{
	cr_assert_eq(left_to_others(), 0);
	pass(1000);
	SAY("you@", "2 89abcdef.8 w - 0.1.0 \n");
	cr_assert_eq(left_to_others(), 0);
	meet_another();
	cr_assert(is_led_in_part());
	pass(1000);
	SAY();
	cr_assert_eq(left_to_others(), 0);
}

Test(presence, an_answer_counts_at_once)
{
	pass(500);
	cr_assert_eq(left_to_others(), 0);
	pass(500);
	expect_beat();
	SAY("you@", at_work("89abcdef.8"));
	cr_assert(is_led_in_part());
}

Test(presence, who_cannot_store_sees_no_other_leader)
{
	meet_another();
	presence_set_state(presence, PEER_PASSIVE);
	cr_assert_eq(left_to_others(), 0);
	presence_set_state(presence, PEER_WORKING);
	cr_assert(is_led_in_part());
	presence_set_state(presence, PEER_DRAINING);
	cr_assert_eq(left_to_others(), 0);
}

Test(presence, what_is_known_stays_while_redis_is_away)
{
	meet_another();
	int others = left_to_others();
	pass(1000);
	played_redis_set_state(REDIS_DOWN);
	played_redis_answer(NULL);
	pass(10000);
	cr_assert_gt(others, 0);
	cr_assert_eq(left_to_others(), others);
}

Test(presence, after_an_error_nobody_is_known)
{
	meet_another();
	pass(1000);
	say(REPLY_ERROR, "OOM");
	cr_assert_eq(left_to_others(), 0);
	meet_another();
	cr_assert(is_led_in_part());
	pass(1000);
	say(REPLY_STATUS, "OK");
	cr_assert_eq(left_to_others(), 0);
	expect_gone("");
}

Test(presence, odd_answers_do_no_harm)
{
	struct redis_reply nil = {.type = REPLY_NIL}, name = {.type = REPLY_STRING, .str = (char *)"a@", .len = 2},
			   elements[] = {name, nil, nil, name, name};

	pass(1000);
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY, .elements = 5, .element = elements});
	pass(1000);
	played_redis_answer(&(struct redis_reply){.type = REPLY_ARRAY});
	pass(1000);
	say_words(4, (const char *const[]){"", "2 - w - 0.1.0 \n", "you@", ""});
	cr_assert_eq(left_to_others(), 0);
	meet_another();
	cr_assert(is_led_in_part());
}

Test(presence, a_leader_that_does_not_store_is_suspected_for_four_seconds)
{
	meet_another();
	presence_suspect_leader(presence, other_source());
	cr_assert_eq(left_to_others(), 0);
	clock_pass(3999);
	uv_update_time(&loop);
	cr_assert_eq(left_to_others(), 0);
	clock_pass(1000); /* for so long it is not judged again */
	uv_update_time(&loop);
	cr_assert(is_led_in_part());
}

Test(presence, nobody_suspects_itself)
{
	meet_another();
	for (int i = 0; i < SOURCES; i++)
		if (!presence_has_other_leader(presence, sources[i]))
			presence_suspect_leader(presence, sources[i]);
	cr_assert(is_led_in_part());
}

/* --- owners of claims --- */

Test(presence, each_has_a_number_by_what_its_claims_begin_with)
{
	uint16_t a = find("a.1@5"), b = find("b.1@5");

	cr_assert(a && b && a != b);
	cr_assert_eq(find("a.1@6"), a);
	cr_assert_eq(find("b.1@"), b);
	cr_assert_neq(find("a.2@5"), a);
	cr_assert_str_eq(presence_name(presence, a), "a.1@");
	cr_assert_neq(find("a.1@x@5"), a);
	cr_assert_eq(find("no owner"), 0);
	cr_assert_str_eq(presence_name(presence, 0), "");
	cr_assert_str_eq(presence_name(presence, 99), "");
}

Test(presence, who_is_not_waited_for_is_not_asked_for)
{
	find("a.1@5");
	pass(1000);
	expect_beat();
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	presence_wait_for(presence, 0);
	pass(999);
	expect_sent("");
	pass(1);
	expect_beat();
}

Test(presence, who_has_lost_its_connection_is_gone)
{
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	expect_sent("CLIENT LIST ID 12");
	say(REPLY_STRING, "id=112 addr=id=12 name=\nid=121 addr=x\n");
	expect_gone("a.1@ ");
}

/* Otherwise it leads for up to three seconds, and a listener that has just started leaves its events to it. */
Test(presence, the_process_that_it_takes_the_place_of_is_asked_for_at_once)
{
	pass(1000);
	expect_beat();
	SAY("me@.0123456789abcdef@", at_work("89abcdef.12"), "a.1@",
	    at_work("89abcdef.13")); /* the name without its nonce is ours */
	expect_sent("CLIENT LIST ID 12");
	say(REPLY_STRING, "id=13 addr=x\n");
	expect_gone("me@.0123456789abcdef@ ");
}

Test(presence, who_has_its_connection_lives)
{
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	say(REPLY_STRING, "id=1 addr=x\nid=12 addr=y\n");
	expect_gone("");
}

Test(presence, no_list_says_nothing)
{
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	expect_sent("CLIENT LIST ID 12");
	played_redis_answer(NULL);
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	expect_sent("CLIENT LIST ID 12");
	say(REPLY_NIL, "");
	expect_gone("");
}

Test(presence, those_of_several_that_are_gone_are_told_from_the_others)
{
	presence_wait_for(presence, find("a.1@5"));
	presence_wait_for(presence, find("b.1@5"));
	find("d.1@5");
	wait_for("c.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n", "b.1@", "2 00000000.13 w - 0.1.0 \n", "c.1@",
	    "2 89abcdef.14 p - 0.1.0 \n", "d.1@", "2 89abcdef.15 w - 0.1.0 \n");
	expect_sent("CLIENT LIST ID 12 14");
	say(REPLY_STRING, "id=12 addr=x\n");
	expect_gone("c.1@ ");
}

Test(presence, without_a_connection_that_we_can_see_it_is_gone_when_it_falls_silent)
{
	static const char *const said[] = {
		"2 00000000.12 w - 0.1.0 \n",  "2 - w - 0.1.0 \n",        "", "2 89abcdef. w - 0.1.0 \n",
		"2 89abcdef.12x w - 0.1.0 \n", "2 89abcdef w - 0.1.0 \n", "2"};

	beat_for(4);
	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		wait_for("a.1@5");
		SAY("a.1@", said[i]);
		expect_sent("");
		expect_gone("");
	}
	wait_for("a.1@5");
	SAY();
	expect_sent("");
	expect_gone("a.1@ ");
}

Test(presence_start, where_our_own_connection_has_no_number_nobody_is_asked_for)
{
	open_as("");
	expect_beat();
	SAY();
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n", "b.1@", "2 - w - 0.1.0 \n");
	expect_sent("");
}

Test(presence, silence_says_nothing_while_others_may_not_have_come_back)
{
	find("a.1@5");
	beat_for(3);
	pass(700);
	wait_for("a.1@5"); /* 3.9 s after connecting */
	SAY();
	expect_gone("");
	wait_for("a.1@5");
	SAY();
	expect_gone("a.1@ ");
	played_redis_set_state(REDIS_DOWN);
	played_redis_set_state(REDIS_READY);
	expect_beat();
	SAY();
	wait_for("a.1@5");
	SAY();
	expect_gone("");
}

Test(presence, silence_says_nothing_if_our_own_beats_are_refused)
{
	beat_for(5);
	wait_for("a.1@5");
	say(REPLY_ERROR, "OOM");
	wait_for("a.1@5");
	played_redis_answer(NULL);
	expect_gone("");
}

Test(presence, silence_of_one_that_is_not_waited_for_is_not_told)
{
	find("a.1@5");
	beat_for(6);
	expect_gone("");
	wait_for("a.1@5");
	pass(2001); /* then nobody waits */
	SAY();
	expect_gone("");
}

Test(presence, it_is_never_gone_itself)
{
	beat_for(5);
	wait_for("me@5");
	say_words(0, NULL);
	expect_gone("");
}

/* Until two seconds have passed since an event was last seen to wait. */
Test(presence, it_beats_each_tenth_of_a_second_while_a_listener_is_waited_for)
{
	wait_for("a.1@5");
	for (int i = 0; i < 20; i++) {
		SAY("a.1@", "");
		pass(99);
		expect_sent("");
		pass(1);
		expect_beat();
	}
	SAY("a.1@", "");
	pass(999);
	expect_sent("");
	pass(1);
	expect_beat();
}

static int time_to_beat(void)
{
	int ms = 0;

	for (; ms < 2000 && !*played_redis_next(); ms += 10)
		pass(10);
	return ms;
}

/* This many listeners are alive: how long is it between two beats while one of them is waited for? */
static int gap_among(size_t n)
{
	static char names[100][32];
	const char *words[200];

	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%zu.1@", i);
		words[2 * i] = names[i];
		words[2 * i + 1] = "";
	}
	pass(1000);
	expect_beat();
	say_words(2 * n, words);
	presence_wait_for(presence, find("0.1@5"));
	int first = time_to_beat();
	say_words(2 * n, words);
	int second = time_to_beat();
	cr_assert_eq(first, second);
	SAY();
	pass(2001); /* nobody waits now */
	expect_beat();
	SAY();
	return first;
}

Test(presence, in_a_large_fleet_it_beats_less_often)
{
	cr_assert_eq(gap_among(1), 100);
	cr_assert_eq(gap_among(10), 100);
	cr_assert_eq(gap_among(30), 300);
	cr_assert_eq(gap_among(100), 400);
}

Test(presence, sixteen_are_asked_for_at_a_time_in_turns)
{
	static char texts[40][48];
	const char *words[40];

	for (size_t i = 0; i < 20; i++) {
		snprintf(texts[2 * i], sizeof(texts[0]), "%zu.1@", i);
		snprintf(texts[2 * i + 1], sizeof(texts[0]), "2 89abcdef.%zu w - 0.1.0 \n", 100 + i);
		words[2 * i] = texts[2 * i];
		words[2 * i + 1] = texts[2 * i + 1];
		presence_wait_for(presence, find(words[2 * i]));
	}
	pass(100);
	expect_beat();
	say_words(40, words);
	expect_sent("CLIENT LIST ID 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115");
	say(REPLY_STRING, "id=100 \nid=101 \nid=102 \nid=103 \nid=104 \nid=105 \nid=106 \nid=107 \nid=108 \nid=109 \n"
			  "id=110 \nid=111 \nid=112 \nid=113 \nid=115 \n");
	expect_gone("14.1@ ");
	pass(200);
	expect_beat();
	say_words(40, words);
	expect_sent("CLIENT LIST ID 116 117 118 119 100 101 102 103 104 105 106 107 108 109 110 111");
}

/* --- a user that may not see clients --- */

static void be_forbidden(void)
{
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	expect_sent("CLIENT LIST ID 12");
	say(REPLY_ERROR, "NOPERM this user");
	expect_gone("");
	wait_for("a.1@5");
	SAY("a.1@", "2 89abcdef.12 w - 0.1.0 \n");
	expect_sent("");
}

Test(presence, a_user_that_may_not_list_clients_tries_once_for_each_connection_and_warns_once)
{
	capture_begin();
	be_forbidden();
	played_redis_set_state(REDIS_DOWN);
	played_redis_set_state(REDIS_READY);
	expect_beat();
	SAY();
	be_forbidden();
	cr_assert_eq(captured_times("CLIENT LIST"), 1);
	cr_assert_eq(captured_times("NOPERM this user"), 1);
	capture_end();
}

/* --- a leader that is gone --- */

Test(presence, a_leader_that_events_wait_for_is_asked_for_and_leads_no_more_when_gone)
{
	meet_another();
	presence_wait_for_leader(presence, other_source());
	pass(99);
	expect_sent("");
	pass(1);
	expect_beat();
	SAY("you@", at_work("89abcdef.8"));
	expect_sent("CLIENT LIST ID 8");
	say(REPLY_STRING, "id=8 addr=x\n");
	expect_gone("");
	cr_assert(is_led_in_part());
	pass(100);
	expect_beat();
	SAY("you@", at_work("89abcdef.8"));
	expect_sent("CLIENT LIST ID 8");
	say(REPLY_STRING, "");
	expect_gone("you@ ");
	cr_assert_eq(left_to_others(), 0);
}

Test(presence, nobody_waits_for_itself_as_the_leader)
{
	presence_wait_for_leader(presence, sources[0]);
	pass(999);
	expect_sent("");
}
