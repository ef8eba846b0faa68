/* What roster.c knows about listeners from their reports, and which one it makes the leader of a source. */
#include "base/hash.h"
#include "fleet/roster.h"
#include "unit.h"

#define LISTENERS 5
#define SOURCES   10000

static struct roster roster;
static const char *const names[LISTENERS] = {"a.1@", "b.1@", "c.1@", "d.1@", "e.1@"};

static void tear_down(void)
{
	roster_free(&roster);
}

TestSuite(roster, .fini = tear_down);

static uint16_t find(const char *name, int64_t now_ms)
{
	return roster_find(&roster, name, strlen(name), now_ms);
}

static struct peer *peer(const char *name)
{
	return roster_peer(&roster, find(name, 1));
}

static void note(const char *name, const char *said)
{
	roster_note(&roster, name, strlen(name), said, strlen(said), 1);
}

static uint64_t seed(const char *name)
{
	return hash_text(name, strlen(name));
}

/* --- numbers --- */

Test(roster, each_listener_keeps_its_number)
{
	uint16_t a = find("a.1@", 1), b = find("b.1@", 1);

	cr_assert(a && b && a != b);
	cr_assert_eq(find("a.1@", 2), a);
	cr_assert_eq(find("b.1@", 2), b);
	cr_assert_neq(find("a.2@", 2), a);
	cr_assert_eq(find("a.1@", 3), a);
	cr_assert_str_eq(roster_peer(&roster, a)->name, "a.1@");
}

Test(roster, other_numbers_are_of_nobody)
{
	cr_assert_null(roster_peer(&roster, 1));
	find("a.1@", 1);
	cr_assert_null(roster_peer(&roster, 0));
	cr_assert_not_null(roster_peer(&roster, 1));
	cr_assert_null(roster_peer(&roster, 2));
}

Test(roster, what_cannot_be_a_name_has_no_number)
{
	char name[ROSTER_NAME_MAX + 1];

	memset(name, 'x', sizeof(name));
	cr_assert_eq(roster_find(&roster, name, sizeof(name), 1), 0);
	cr_assert_eq(roster_find(&roster, "", 0, 1), 0);
	cr_assert_eq(roster_find(&roster, "a\0b", 3, 1), 0);
	roster_note(&roster, "a\0b", 3, "2 - w - 0.1.0 \n", 15, 1);
	cr_assert_eq(roster.count, 0);
	cr_assert_eq(roster_find(&roster, name, ROSTER_NAME_MAX, 1), 1);
}

Test(roster, the_257th_takes_the_place_of_the_one_met_longest_ago)
{
	char name[20];

	note("0@", "2 89abcdef.1 w - 0.1.0 0000000003_1000001zzz\n");
	uint16_t second = find("1@", 2);
	for (int i = 2; i < ROSTER_MAX; i++) {
		snprintf(name, sizeof(name), "%d@", i);
		cr_assert_eq(find(name, 3), i + 1);
	}
	cr_assert_eq(find("0@", 4), 1);
	cr_assert_eq(find("new@", 5), second);
	cr_assert_eq(roster_alive(&roster), 1);
	for (int i = 2; i < ROSTER_MAX; i++)
		snprintf(name, sizeof(name), "%d@", i), find(name, 6);
	cr_assert_eq(find("newer@", 7), 1);
	cr_assert_eq(roster_alive(&roster), 0, "what was known was not forgotten");
	cr_assert_eq(peer("newer@")->source_count, 0);
	cr_assert_str_eq(peer("newer@")->client, "");
}

/* --- what they say --- */

Test(roster, what_a_listener_says_is_read)
{
	static const struct {
		const char *said;
		enum peer_state state;
		size_t sources;
	} cases[] = {
		{"2 89abcdef.7 w - 0.1.0 \n", PEER_WORKING, 0},
		{"2 89abcdef.7 w - 0.1.0 0000000003_1000001zzz\n", PEER_WORKING, 1},
		{"2 89abcdef.7 p - 0.1.0 F__________1000001zzz0000000003_1000001zzz\n", PEER_PASSIVE, 2},
		{"2 89abcdef.7 d - 0.1.0 0000000003_1000001zzz\nno 0123456789abcdef\n fedcba9876543210", PEER_DRAINING,
		 1},
		{"2 89abcdef.7 z - 0.1.0 0000000003_1000001zzz\n", PEER_WORKING, 1},
		{"2 89abcdef.7 w - 0.1.0 \n", PEER_WORKING, 0},
		{"2 89abcdef.7 p 0fab-1 0.1.0~rc1 0000000003_1000001zzz\nno postgres", PEER_PASSIVE, 1},
		{"2 89abcdef.7 d - 0.1.0 F__________1000001zzz0000000003_1000001zzz\n", PEER_DRAINING, 2},
		{"2 89abcdef.7 d - 0.1.0 0000000003_1000001zzz0000000003_1000001zz\n", PEER_DRAINING, 1},
	};
	const struct peer *p = peer("a.1@");

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		roster_begin(&roster);
		cr_assert_not(p->is_alive);
		note("a.1@", cases[i].said);
		cr_assert(p->is_alive, "%s", cases[i].said);
		cr_assert_str_eq(p->client, "89abcdef.7");
		cr_assert_eq(p->state, cases[i].state, "%s", cases[i].said);
		cr_assert_eq(p->source_count, cases[i].sources, "%s", cases[i].said);
		cr_assert(!p->source_count || p->sources[0].id == 0xff, "%s", cases[i].said);
	}
	note("a.1@", "2 - w - 0.1.0 \n");
	cr_assert_str_eq(p->client, "-");
}

Test(roster, other_texts_say_only_that_it_is_alive)
{
	static const char *const texts[] = {"",
					    "\n",
					    "1",
					    "1 \n",
					    "1 89abcdef.7\n",
					    "1 89abcdef.7 \n",
					    "1\n89abcdef.7 d 00000000000000ff\n",
					    "1 89abcdef.7\nd 00000000000000ff\n",
					    "1 89abcdef.7 d 00000000000000ff",
					    "2 89abcdef.7 d 00000000000000ff\n",
					    "2 89abcdef.7 d -\n",
					    "3 89abcdef.7 d - 0.1.0 0000000003_1000001zzz\n",
					    "89abcdef.7"};
	const struct peer *p = peer("a.1@");

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		note("a.1@", "2 89abcdef.7 p - 0.1.0 0000000003_1000001zzz\n");
		roster_begin(&roster);
		note("a.1@", texts[i]);
		cr_assert(p->is_alive, "%s", texts[i]);
		cr_assert_str_eq(p->client, "", "%s", texts[i]);
		cr_assert_eq(p->state, PEER_WORKING, "%s", texts[i]);
		cr_assert_eq(p->source_count, 0, "%s", texts[i]);
	}
}

/* Each text is a heap block of its own, so that sanitizers see a read behind its end. */
Test(roster, torn_and_garbled_texts_do_no_harm)
{
	static const char text[] = "2 89abcdef.7 d - 0.1.0 0000000003_1000001zzzF__________1000001zzz\nno postgres";
	static const char odd[] = "2 0123456789012345678901234567890123456789 w - 0.1.0 0000000003_1000001zzz\n";

	for (size_t len = 0; len < sizeof(text); len++)
		for (size_t at = 0; at <= len; at++) {
			char *copy = strndup(text, len);

			if (at < len)
				copy[at] = (char)(copy[at] == ' ' ? '\n' : ' ');
			roster_begin(&roster);
			roster_note(&roster, "a.1@", 4, copy, len, 1);
			free(copy);
			cr_assert(peer("a.1@")->is_alive);
			cr_assert_leq(peer("a.1@")->source_count, 2);
		}
	note("a.1@", odd);
	cr_assert_lt(strlen(peer("a.1@")->client), sizeof(peer("a.1@")->client));
}

Test(roster, only_those_noted_since_the_answer_began_are_alive)
{
	cr_assert_eq(roster_alive(&roster), 0);
	find("c.1@", 1);
	note("a.1@", "2 - w - 0.1.0 \n");
	note("b.1@", "");
	cr_assert_eq(roster_alive(&roster), 2);
	roster_begin(&roster);
	cr_assert_eq(roster_alive(&roster), 0);
	note("b.1@", "2 - p - 0.1.0 \n");
	cr_assert_eq(roster_alive(&roster), 1);
}

/* A stranger may write a long report under a new name each second. */
Test(roster, a_report_of_the_dead_takes_no_memory)
{
	note("a.1@", "2 - w - 0.1.0 00000000001700000000000\n");
	cr_assert_eq(peer("a.1@")->source_count, 1);
	roster_begin(&roster);
	cr_assert_eq(peer("a.1@")->source_count, 1, "it may still be alive");
	roster_begin(&roster);
	cr_assert_eq(peer("a.1@")->source_count, 0);
}

/* --- who leads --- */

static uint64_t source_id(int i)
{
	char name[20];

	snprintf(name, sizeof(name), "feed#%d", i);
	return hash_text(name, strlen(name));
}

/* This listener hears these sources. */
static void hear(struct roster *r, const char *name, int from, int to)
{
	char *said = malloc((size_t)(to - from) * ROSTER_HEARD_SIZE + 100);
	int len = sprintf(said, "2 - w - 0.1.0 ");

	for (int i = from; i < to; i++, len += ROSTER_HEARD_SIZE)
		roster_write(said + len, &(struct heard){.id = source_id(i), .may_lead = true});
	said[len++] = '\n';
	roster_note(r, name, strlen(name), said, (size_t)len, 1);
	free(said);
}

/* All hear all but the first, which we are. */
static void hear_all(void)
{
	for (int i = 1; i < LISTENERS; i++)
		hear(&roster, names[i], 0, SOURCES);
}

/* As the first sees it. */
static const char *leader(int source, int64_t now_ms)
{
	const struct peer *p = roster_leader(&roster, source_id(source), seed(names[0]), now_ms);

	return p ? p->name : names[0];
}

Test(roster, who_knows_nobody_leads)
{
	cr_assert_null(roster_leader(&roster, 1, seed("a.1@"), 1));
	find("b.1@", 1);
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_null(roster_leader(&roster, i, seed("a.1@"), 1));
}

Test(roster, all_choose_the_same_leader)
{
	struct roster views[LISTENERS] = {0};

	for (int i = 0; i < LISTENERS; i++)
		for (int k = 0; k < LISTENERS; k++) /* in another order each time */
			if (names[(i + k) % LISTENERS] != names[i])
				hear(&views[i], names[(i + k) % LISTENERS], 0, 200);
	for (int i = 0; i < 200; i++)
		for (int k = 0; k < LISTENERS; k++) {
			const struct peer *p = roster_leader(&views[k], source_id(i), seed(names[k]), 1), *first;

			first = roster_leader(&views[0], source_id(i), seed(names[0]), 1);
			cr_assert_str_eq(p ? p->name : names[k], first ? first->name : names[0]);
		}
	for (int i = 0; i < LISTENERS; i++)
		roster_free(&views[i]);
}

Test(roster, each_has_its_share)
{
	int share[LISTENERS] = {0};

	hear_all();
	for (int i = 0; i < SOURCES; i++)
		for (int k = 0; k < LISTENERS; k++)
			share[k] += strcmp(leader(i, 1), names[k]) == 0;
	for (int k = 0; k < LISTENERS; k++)
		cr_assert(share[k] > SOURCES / LISTENERS * 9 / 10 && share[k] < SOURCES / LISTENERS * 11 / 10,
			  "%s: %d of %d", names[k], share[k], SOURCES);
}

/* The sources that b led are spread over the others, and no others move. */
static void expect_led_by_others(int64_t now_ms, const char *const *before)
{
	int share[LISTENERS] = {0}, moved = 0;

	for (int i = 0; i < SOURCES; i++) {
		const char *now = leader(i, now_ms);

		cr_assert_str_neq(now, "b.1@");
		if (strcmp(before[i], "b.1@") != 0) {
			cr_assert_str_eq(now, before[i]);
			continue;
		}
		moved++;
		for (int k = 0; k < LISTENERS; k++)
			share[k] += strcmp(now, names[k]) == 0;
	}
	for (int k = 0; k < LISTENERS; k++)
		cr_assert(k == 1 || share[k] > moved / (LISTENERS - 1) * 8 / 10, "%s: %d of %d", names[k], share[k],
			  moved);
}

Test(roster, the_sources_of_one_that_cannot_lead_are_spread_over_the_others)
{
	static const char *before[SOURCES];
	struct peer *b;

	hear_all();
	b = peer("b.1@");
	for (int i = 0; i < SOURCES; i++)
		before[i] = leader(i, 1);

	b->is_alive = false;
	expect_led_by_others(1, before);
	b->is_alive = true;
	b->state = PEER_PASSIVE;
	expect_led_by_others(1, before);
	b->state = PEER_DRAINING;
	expect_led_by_others(1, before);
	b->state = PEER_WORKING;
	b->suspect_ms = 10;
	expect_led_by_others(10 + ROSTER_SUSPECT_MS - 1, before);
	for (int i = 0; i < SOURCES; i++)
		cr_assert_str_eq(leader(i, 10 + ROSTER_SUSPECT_MS), before[i]);
	b->suspect_ms = 0;
	note("b.1@", "2 - w - 0.1.0 \n");
	expect_led_by_others(1, before);
}

Test(roster, it_leads_what_it_hears_and_nothing_else)
{
	int led = 0;

	hear(&roster, "b.1@", 50, 100);
	for (int i = 0; i < 200; i++) {
		bool is_led = strcmp(leader(i, 1), "b.1@") == 0;

		cr_assert(!is_led || (i >= 50 && i < 100), "%d", i);
		led += is_led;
	}
	cr_assert(led > 10 && led < 40, "%d", led);
}

Test(roster, what_is_known_of_oneself_does_not_matter)
{
	for (int i = 0; i < 100; i++)
		cr_assert_str_eq(leader(i, 1), "a.1@");
	hear(&roster, "a.1@", 0, 100);
	for (int i = 0; i < 100; i++)
		cr_assert_null(roster_leader(&roster, source_id(i), seed("a.1@"), 1));
}

/* --- silence --- */

#define LINES 3
#define LAG   4096 /* most ms that a listener is behind the feed */

/* Three listeners of one feed, each millisecond: how much each has heard, and what it knows about the others. */
static struct line {
	struct roster roster;
	struct vigil vigil;
	int64_t open_ms, last_ms, beat_ms;
	uint32_t messages;
	int lag_ms;
	bool is_deaf;
	char said[100];
	size_t len;
} lines[LINES];
static uint32_t sent[LAG]; /* by the feed, at each ms */
static uint64_t chance;
static int64_t now;

static uint64_t draw(void)
{
	return hash_mix(chance += UINT64_C(0x9e3779b97f4a7c15));
}

static void hear_line(struct line *l)
{
	uint32_t so_far = sent[(size_t)(now - l->lag_ms) % LAG];

	if (now < l->lag_ms || l->is_deaf || so_far == l->messages)
		return;
	l->messages = so_far;
	l->last_ms = now;
}

static bool beat_line(struct line *l)
{
	struct heard heard = {.id = 7, .is_dialled = true, .is_open = true, .open_s = 60, .messages = l->messages};

	l->len = (size_t)sprintf(l->said, "2 - w - 1 ");
	roster_write(l->said + l->len, &heard);
	l->len += ROSTER_HEARD_SIZE;
	l->said[l->len++] = '\n';
	l->beat_ms = now + 1000 + (int64_t)(draw() % 50);
	roster_begin(&l->roster);
	for (int i = 0; i < LINES; i++)
		if (&lines[i] != l && lines[i].len)
			roster_note(&l->roster, names[i], strlen(names[i]), lines[i].said, lines[i].len, now);
	return roster_is_silent(&l->roster, 7, &l->vigil, l->open_ms, l->last_ms, l->messages, now);
}

/* The feed sends this many messages per hour, with exponential gaps. Returns when a connection was found silent, -1 if
 * none was until end_ms. */
static int64_t run_feed(uint64_t per_hour, int64_t end_ms)
{
	for (; now < end_ms; now++) {
		sent[(size_t)now % LAG] = sent[(size_t)(now + LAG - 1) % LAG] + (draw() % 3600000 < per_hour);
		for (int i = 0; i < LINES; i++) {
			hear_line(&lines[i]);
			if (now >= lines[i].beat_ms && beat_line(&lines[i]))
				return now;
		}
	}
	return -1;
}

static void open_lines(uint64_t seed_of_feed)
{
	static const int lags[LINES] = {3, 90, 700};

	memset(lines, 0, sizeof(lines));
	memset(sent, 0, sizeof(sent));
	chance = seed_of_feed;
	now = 1;
	for (int i = 0; i < LINES; i++) {
		lines[i].open_ms = 1;
		lines[i].beat_ms = 100 + 300 * i;
		lines[i].lag_ms = lags[i];
	}
}

static void close_lines(void)
{
	for (int i = 0; i < LINES; i++)
		roster_free(&lines[i].roster);
}

Test(silence, nobody_is_silent_in_an_hour_of_exponential_gaps, .timeout = 120)
{
	static const uint64_t per_hour[] = {20, 360, 1800, 3600, 18000, 72000, 720000};

	for (size_t i = 0; i < sizeof(per_hour) / sizeof(*per_hour); i++) {
		open_lines(i);
		cr_assert_eq(run_feed(per_hour[i], 3600000), -1, "%d per hour, at %d", (int)per_hour[i], (int)now);
		close_lines();
	}
}

Test(silence, who_hears_nothing_while_others_do_is_silent)
{
	static const struct {
		uint64_t per_hour;
		int64_t within_ms;
	} cases[] = {{72000, 8000}, {720000, 8000}, {18000, 9000}, {3600, 25000}, {360, 250000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		open_lines(i);
		cr_assert_eq(run_feed(cases[i].per_hour, 600000), -1);
		lines[1].is_deaf = true;
		int64_t at = run_feed(cases[i].per_hour, now + cases[i].within_ms);
		cr_assert_gt(at, 0, "%d per hour", (int)cases[i].per_hour);
		cr_assert_geq(lines[1].vigil.heard, 10);
		cr_assert_geq(at - lines[1].last_ms, 3000);
		close_lines();
	}
}

Test(silence, a_feed_that_falls_quiet_for_all_is_left_alone)
{
	open_lines(1);
	cr_assert_eq(run_feed(720000, 60000), -1);
	cr_assert_eq(run_feed(0, 3600000), -1);
	close_lines();
}

/* For how long the other has had its connection. */
static int64_t other_open_s = 60;

/* The others' messages since then; the connection was opened, and brought its last message, at these times. */
static bool judge(struct vigil *v, uint32_t others, int64_t open_ms, int64_t last_ms)
{
	char said[100] = "2 - w - 1 ";

	roster_write(said + 10,
		     &(struct heard){.id = 7, .is_dialled = true, .open_s = other_open_s, .messages = others});
	said[10 + ROSTER_HEARD_SIZE] = '\n';
	roster_begin(&roster);
	note("b.1@", said);
	now += 1000;
	return roster_is_silent(&roster, 7, v, open_ms, last_ms, 1, now);
}

Test(silence, what_another_is_sent_at_once_does_not_count)
{
	struct vigil v = {0};

	now = 10000;
	cr_assert_not(judge(&v, 0, 1, 0));
	cr_assert_not(judge(&v, 500, 1, 0));
	for (int i = 0; i < 100; i++)
		cr_assert_not(judge(&v, 500, 1, 0));
	cr_assert_not(judge(&v, 501, 1, 0));
	cr_assert(judge(&v, 502, 1, 0));
	roster_free(&roster);
}

/* Beats are that fast while events wait. */
Test(silence, what_another_is_sent_within_a_second_does_not_count)
{
	struct vigil v = {0};

	now = 10000;
	cr_assert_not(judge(&v, 0, 1, 0));
	for (uint32_t i = 0; i < 9; i++) {
		now -= 900;
		cr_assert_not(judge(&v, 10 * i, 1, 0));
	}
	now += 1000;
	cr_assert_not(judge(&v, 80, 1, 0));
	roster_free(&roster);
}

Test(silence, it_takes_five_usual_intervals)
{
	struct vigil v = {.usual_ms = 4000, .messages = 1};
	int rounds = 0;

	now = 10000;
	for (uint32_t i = 0; !judge(&v, i * 100, 1, 10000); i++)
		rounds++;
	cr_assert_eq(now, 30000, "%d", (int)now);
	roster_free(&roster);
}

Test(silence, a_message_or_another_connection_begins_it_anew)
{
	struct vigil v = {0};

	now = 10000;
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_not(judge(&v, i * 100, 1, 0));
	cr_assert_not(judge(&v, 300, 1, now));
	for (uint32_t i = 4; i < 9; i++)
		cr_assert_not(judge(&v, i * 100, now, 1), "a new connection each time");
	for (uint32_t i = 9; i < 99; i++)
		cr_assert_not(judge(&v, i * 100, 0, 1), "there is none, or it is not read");
	roster_free(&roster);
}

/* A feed that is quiet now sends it what it had sent before. */
Test(silence, what_another_is_sent_again_after_it_has_connected_does_not_count)
{
	struct vigil v = {0};
	uint32_t others = 0;

	now = 10000;
	for (other_open_s = 0; other_open_s < 5; other_open_s++)
		cr_assert_not(judge(&v, others += 100, 1, 0));
	for (; other_open_s < 60; other_open_s++)
		cr_assert_not(judge(&v, others, 1, 0));
	for (int i = 0; i < 2; i++)
		cr_assert_not(judge(&v, others += 5, 1, 0));
	cr_assert(judge(&v, others + 1, 1, 0));
	roster_free(&roster);
}

Test(silence, the_count_of_messages_may_begin_at_0_again)
{
	struct vigil v = {0};

	now = 10000;
	cr_assert_not(judge(&v, 0x3ffffff0, 1, 0));
	cr_assert_not(judge(&v, 0x3ffffffe, 1, 0));
	cr_assert_not(judge(&v, 1, 1, 0));
	cr_assert(judge(&v, 2, 1, 0));
	cr_assert_eq(v.heard, 18);
	cr_assert(judge(&v, 1, 1, 0), "it has gone back");
	cr_assert_eq(v.heard, 18);
	roster_free(&roster);
}
