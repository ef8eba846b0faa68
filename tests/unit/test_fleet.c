/* Heartbeats of fleet.c: when they are sent, what they say, and when there are no more. */
#include "loop.h"
#include "unit.h"
#include <uv.h>

#include "clock.h"
#include "road/fleet.h"
#include "redis/reply.h"

#define BEAT_MS  1000
#define ALIVE_MS 3000 /* what one beat is worth to the others: two of them may be lost */

static uv_loop_t loop;
static struct fleet *fleet;
static char sent[1000]; /* the last command */
static int count;       /* of them */
static redis_cb *answer;
static void *answer_arg;

/* --- Redis, as far as fleet.c asks it --- */

int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	(void)r;
	cr_assert_lt(len, sizeof(sent));
	memcpy(sent, bytes, len);
	sent[len] = '\0';
	count++;
	answer = cb;
	answer_arg = arg;
	return 0;
}

const char *redis_script_sha(const struct redis *r, enum redis_script script)
{
	(void)r;
	return script == REDIS_HEARTBEAT ? "heartbeat" : "another";
}

void redis_load_scripts(struct redis *r)
{
	(void)r;
}

/* Redis names two instances that are alive: ours, and another. */
static void answer_with_another(void)
{
	struct redis_reply names[2] = {{.type = REPLY_STRING, .str = "me", .len = 2},
				       {.type = REPLY_STRING, .str = "you", .len = 3}};
	struct redis_reply *elements[2] = {&names[0], &names[1]};

	answer(NULL, answer_arg, &(struct redis_reply){.type = REPLY_ARRAY, .elements = 2, .element = elements});
}

/* Of a hundred sources. */
static int left_to_others(void)
{
	char id[20];
	int n = 0;

	for (int i = 0; i < 100; i++)
		n += (snprintf(id, sizeof(id), "feed#%d", i), fleet_has_other_leader(fleet, id));
	return n;
}

static bool is_another_preferred_for_some(void)
{
	return left_to_others() > 0 && left_to_others() < 100;
}

static void set_up(void)
{
	static struct config config = {.claim_prefix = "p:"};

	clock_stop();
	uv_loop_init(&loop);
	fleet = fleet_open(&loop, &config, NULL, "me");
	fleet_set_redis(fleet, (struct redis *)&loop);
}

static void tear_down(void)
{
	fleet_close(fleet, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(fleet, .init = set_up, .fini = tear_down);

/* Lets so much time pass in steps of a tenth of a second. Returns how many commands were sent. */
static int pass(int ms)
{
	int before = count;

	for (; ms > 0; ms -= 100) {
		clock_pass(100);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	return count - before;
}

Test(fleet, beat_says_for_how_long_it_counts)
{
	fleet_hear(fleet);
	cr_assert_eq(count, 1);
	cr_assert(strstr(sent, "\r\nheartbeat\r\n") && strstr(sent, "\r\nme\r\n"), "%s", sent);
	cr_assert(strstr(sent, "\r\n3000\r\n"), "%s", sent);
	cr_assert_eq(ALIVE_MS, 3 * BEAT_MS);
}

Test(fleet, it_beats_each_second_while_something_is_heard)
{
	fleet_hear(fleet);
	cr_assert_eq(pass(100), 1, "the second one is soon");
	for (int i = 0; i < 20; i++) {
		fleet_hear(fleet);
		cr_assert_eq(pass(BEAT_MS), 1);
	}
}

Test(fleet, who_hears_nothing_for_five_seconds_is_silent_and_claims_all)
{
	fleet_hear(fleet);
	answer_with_another();
	cr_assert(is_another_preferred_for_some());
	cr_assert_eq(pass(60 * BEAT_MS), 5);
	cr_assert_not(is_another_preferred_for_some(), "it waits for who may be gone by now");
	fleet_hear(fleet);
	cr_assert_eq(pass(100), 1);
}

Test(fleet, each_has_its_share)
{
	struct redis_reply names[5];
	struct redis_reply *elements[5];

	for (int i = 0; i < 5; i++) {
		names[i] = (struct redis_reply){.type = REPLY_STRING, .str = (char *)"me\0a\0\0b\0\0c\0\0d" + 3 * i};
		names[i].len = strlen(names[i].str);
		elements[i] = &names[i];
	}
	fleet_hear(fleet);
	answer(NULL, answer_arg, &(struct redis_reply){.type = REPLY_ARRAY, .elements = 5, .element = elements});
	cr_assert(left_to_others() > 70 && left_to_others() < 90, "%d of 100", left_to_others());
}

Test(fleet, those_that_were_there_lead_on_when_redis_has_gone)
{
	int others;

	fleet_hear(fleet);
	answer_with_another();
	others = left_to_others();
	cr_assert_gt(others, 0);
	fleet_set_redis(fleet, NULL);
	cr_assert_eq(left_to_others(), others);
}

Test(fleet, who_does_not_lead_is_suspected_until_its_heartbeat_has_expired)
{
	fleet_hear(fleet);
	answer_with_another();
	cr_assert(is_another_preferred_for_some());
	fleet_suspect(fleet, "you", 3);
	cr_assert_eq(left_to_others(), 0);
	clock_pass(3999);
	uv_update_time(&loop);
	cr_assert_eq(left_to_others(), 0);
	clock_pass(1);
	uv_update_time(&loop);
	cr_assert(is_another_preferred_for_some());
}

Test(fleet, the_leader_of_a_source_is_suspected_and_oneself_never)
{
	char id[20];
	int n = 0;

	fleet_hear(fleet);
	answer_with_another();
	while (snprintf(id, sizeof(id), "feed#%d", n), !fleet_has_other_leader(fleet, id))
		n++;
	fleet_suspect(fleet, "me", 2);
	cr_assert(fleet_has_other_leader(fleet, id));
	fleet_suspect_leader(fleet, id);
	cr_assert_not(fleet_has_other_leader(fleet, id));
	fleet_suspect_leader(fleet, id);
	cr_assert_not(fleet_has_other_leader(fleet, id));
}

Test(fleet, who_has_left_is_silent)
{
	fleet_hear(fleet);
	answer_with_another();
	fleet_leave(fleet);
	cr_assert(strstr(sent, "ZREM") && strstr(sent, "\r\nme\r\n"), "%s", sent);
	cr_assert_not(is_another_preferred_for_some());
	fleet_hear(fleet);
	cr_assert_eq(pass(10 * BEAT_MS), 0);
}

Test(fleet, who_rests_is_silent_until_it_hears_something_again)
{
	fleet_hear(fleet);
	fleet_rest(fleet, true);
	cr_assert(strstr(sent, "ZREM"), "%s", sent);
	cr_assert_eq(pass(10 * BEAT_MS), 0);
	fleet_rest(fleet, false);
	fleet_hear(fleet);
	cr_assert_eq(pass(100), 1);
}

/* The key of the listeners that hear these feeds. */
static const char *key_of(const char *const *sources, size_t n)
{
	static char keys[2][100];
	static int turn;
	const struct config config = {.claim_prefix = (char *)"p:", .sources = {(char **)sources, n}};
	char *key = keys[turn ^= 1];
	struct fleet *f = fleet_open(&loop, &config, NULL, "me");

	fleet_set_redis(f, (struct redis *)&loop);
	fleet_leave(f);
	fleet_close(f, loop_on_closed, NULL);
	cr_assert_eq(sscanf(strstr(sent, "wsonce:fleet:"), "%99s", key), 1);
	return key;
}

Test(fleet, those_that_hear_other_feeds_are_another_one)
{
	static const char *const sources[] = {"ws://a/x", "wss://b/y", "ws://a/x", "ws://me:secret@a/x", "wss://a/x"};

	cr_assert_str_eq(key_of(sources, 2), key_of(sources + 1, 2), "the order does not matter");
	cr_assert_str_neq(key_of(sources, 1), key_of(sources + 1, 1));
	cr_assert_str_eq(key_of(sources, 1), key_of(sources + 3, 1), "nor does who it is known as");
	cr_assert_str_neq(key_of(sources, 1), key_of(sources + 4, 1));
}
