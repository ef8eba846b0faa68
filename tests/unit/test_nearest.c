/* Which name is suggested for a misspelled one. */
#include "base/nearest.h"

#include "unit.h"

static const char *find(const char *word)
{
	static const char *const names[] = {"claim-ttl", "source", "source-ca", "status", "stats"};
	struct nearest n;

	nearest_init(&n, word, strlen(word));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_offer(&n, names[i]);
	return n.best ? n.best : "";
}

Test(nearest, a_letter_that_is_wrong_missing_added_or_exchanged_is_forgiven)
{
	cr_assert_str_eq(find("claim-tll"), "claim-ttl");
	cr_assert_str_eq(find("claimttl"), "claim-ttl");
	cr_assert_str_eq(find("claim--ttl"), "claim-ttl");
	cr_assert_str_eq(find("claim-tlt"), "claim-ttl");
	cr_assert_str_eq(find("soruce"), "source");
	cr_assert_str_eq(find("statsu"), "status");
}

Test(nearest, the_beginning_of_a_name_is_near_it)
{
	cr_assert_str_eq(find("clai"), "claim-ttl");
	cr_assert_str_eq(find("stat"), "stats", "one mistake is nearer");
	cr_assert_str_eq(find("cla"), "");
}

Test(nearest, a_name_with_further_words_is_near_the_longest_such_name)
{
	static const char *const names[] = {"redis", "redis-file", "redis-timeout", "ingest", "ingest-cert"};
	static const char *const pairs[][2] = {{"redis-url", "redis"},
					       {"redis-timeout-ms", "redis-timeout"},
					       {"redis-timeout-f", "redis-timeout"},
					       {"redis-fil", "redis-file"},
					       {"redis-f", "redis-file"},
					       {"ingest-port", "ingest"}};

	for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
		struct nearest n;

		nearest_init(&n, pairs[p][0], strlen(pairs[p][0]));
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			nearest_offer(&n, names[i]);
		cr_assert_str_eq(n.best, pairs[p][1], "%s: %s", pairs[p][0], n.best);
	}
}

Test(nearest, what_is_far_from_all_is_none_of_them)
{
	static char longer[200];

	cr_assert_str_eq(find("postgres"), "");
	cr_assert_str_eq(find(""), "");
	cr_assert_str_eq(find("x"), "");
	memset(longer, 'a', sizeof(longer) - 1);
	cr_assert_str_eq(find(longer), "");
}

Test(nearest, it_is_asked_for_only_if_there_is_one)
{
	struct nearest n;
	char text[60];

	nearest_init(&n, "lst", 3);
	cr_assert_str_eq(nearest_ask(&n, "", text, sizeof(text)), "");
	nearest_offer(&n, "list");
	cr_assert_str_eq(nearest_ask(&n, "--", text, sizeof(text)), "; did you mean --list?");
}
