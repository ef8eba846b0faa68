/* test_members.c: when Postgres is asked who else is there without Redis, by which name, and who comes before whom. */
#include "road/members.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static char *sources[] = {(char *)"ws://one/", (char *)"ws://two/"};
static struct config config;
static struct members members;

static void init(void)
{
	config = (struct config){
		.claim_prefix = (char *)"p:", .consumer = (char *)"", .sources = {.items = sources, .count = 2}};
	members_init(&members, &config, "me");
}

TestSuite(members, .init = init, .timeout = 60);

/* One question and its answer: the names of listeners of this fleet. */
static void ask(int64_t now_ms, const char *const *others)
{
	char fleet[MEMBERS_NAME];

	cr_assert_eq(members_wait(&members, now_ms), 0);
	snprintf(fleet, sizeof(fleet), "%s", members_asked(&members, now_ms));
	cr_assert_eq(members_wait(&members, now_ms + 100000), -1, "there is no answer yet");
	for (; others && *others; others++) {
		struct members other;

		members_init(&other, &config, *others);
		cr_assert_eq(strncmp(other.name, fleet, 24), 0);
		members_found(&members, other.name, strlen(other.name));
	}
	members_answered(&members, true);
}

static const char *const two[] = {"a", "b", NULL};

Test(members, nobody_is_asked_for_until_a_message_has_come)
{
	cr_assert_eq(members_wait(&members, 100000), -1);
	cr_assert_not(members_are_told(&members));
	members_hear(&members, 100000);
	ask(100000, two);
	cr_assert(members_are_told(&members));
	cr_assert_eq(members_size(&members), 2);
}

Test(members, the_second_question_comes_soon_and_then_one_a_second)
{
	members_hear(&members, 100000);
	ask(100000, NULL);
	cr_assert_eq(members_size(&members), 0);
	cr_assert_eq(members_wait(&members, 100000), 100);
	ask(100100, two);
	cr_assert_eq(members_size(&members), 2);
	cr_assert_eq(members_wait(&members, 100100), 1000);
}

Test(members, questions_are_as_many_for_each_size_of_a_fleet_until_they_are_two_seconds_apart)
{
	members_hear(&members, 100000);
	ask(100000, two);
	ask(100100, two);
	members.count = 79;
	cr_assert_eq(members_wait(&members, 100100), 1600);
	members.count = 200;
	cr_assert_eq(members_wait(&members, 100100), 2000);
}

Test(members, all_can_have_told_that_they_are_there_after_six_answers)
{
	members_hear(&members, 100000);
	for (int i = 0; i < 6; i++) {
		cr_assert_not(members_are_all(&members));
		ask(100000 + 1000 * i, two);
		members_hear(&members, 100000 + 1000 * i);
	}
	cr_assert(members_are_all(&members));
	members_forget(&members);
	cr_assert_not(members_are_told(&members));
}

Test(members, who_hears_nothing_for_five_seconds_takes_its_name_away_once)
{
	members_hear(&members, 100000);
	ask(100000, two);
	ask(105000, two);
	cr_assert_str_eq(members_asked(&members, 106000), "wsonce");
	members_answered(&members, true);
	cr_assert_not(members_are_told(&members));
	cr_assert_eq(members_wait(&members, 200000), -1);
	members_hear(&members, 200000);
	ask(200000, two);
	cr_assert(members_are_told(&members));
}

Test(members, when_redis_is_back_the_name_is_taken_away)
{
	members_hear(&members, 100000);
	ask(100000, two);
	members_forget(&members);
	cr_assert_eq(members_wait(&members, 101000), 0);
	cr_assert_str_eq(members_asked(&members, 101000), "wsonce");
	members_answered(&members, true);
	cr_assert_eq(members_wait(&members, 110000), -1);
}

Test(members, an_answer_that_tells_nothing_leaves_nobody_known)
{
	members_hear(&members, 100000);
	ask(100000, two);
	members_asked(&members, 101000);
	members_answered(&members, false);
	cr_assert_not(members_are_told(&members));
	cr_assert_eq(members_size(&members), 0);
	cr_assert_eq(members_rank(&members, "x", 1), 0);
}

/* Of three listeners each event has one that comes first, one second and one third, by each one's own judgement. */
Test(members, all_agree_on_who_comes_first)
{
	static const char *const names[] = {"me", "a", "b"};
	struct members all[3];
	int firsts[3] = {0};

	for (int i = 0; i < 3; i++) {
		members_init(&all[i], &config, names[i]);
		members_hear(&all[i], 1);
	}
	for (int i = 0; i < 3; i++) {
		members_asked(&all[i], 1);
		for (int j = 0; j < 3; j++)
			if (i != j)
				members_found(&all[i], all[j].name, strlen(all[j].name));
		members_answered(&all[i], true);
	}
	for (char id = 'A'; id <= 'z'; id++) {
		size_t sum = 0;

		for (int i = 0; i < 3; i++) {
			size_t rank = members_rank(&all[i], &id, 1);

			sum += (size_t)1 << 4 * rank;
			firsts[i] += !rank;
		}
		cr_assert_eq(sum, 0x111, "of %c", id);
	}
	for (int i = 0; i < 3; i++)
		cr_assert_gt(firsts[i], 5);
}

static void differ(const char *what, const struct config *other, const char *database)
{
	struct members m;

	members_init(&m, other, "a");
	members_set_database(&m, database);
	members_hear(&members, 100000);
	members_asked(&members, 100000);
	members_found(&members, m.name, strlen(m.name));
	members_answered(&members, true);
	cr_assert_eq(members_size(&members), 0, "%s", what);
}

Test(members, those_of_other_feeds_prefixes_consumers_and_databases_are_another_fleet)
{
	struct config other = config;
	static struct profile feed = {.name = (char *)"kraken", .url = (char *)"wss://h/"};
	static struct profile *feeds[] = {&feed};

	other.sources.count = 1;
	differ("sources", &other, "");
	other = config;
	other.feeds = feeds;
	other.feed_count = 1;
	differ("feeds", &other, "");
	other = config;
	other.claim_prefix = (char *)"q:";
	differ("prefix", &other, "");
	other = config;
	other.consumer = (char *)"c";
	differ("consumer", &other, "");
	differ("database", &config, "5d5a3a4e-0000-4000-8000-000000000001");
}

Test(members, names_that_are_none_are_passed_over)
{
	char name[200];

	members_hear(&members, 100000);
	members_asked(&members, 100000);
	members_found(&members, "wsonce", 6);
	members_found(&members, "", 0);
	snprintf(name, sizeof(name), "%.24s%s", members.name, "0123456789abcdef0123456789abcdef0123456789");
	members_found(&members, name, strlen(name));
	members_found(&members, name, 40);
	members_answered(&members, true);
	cr_assert_eq(members_size(&members), 1);
}
