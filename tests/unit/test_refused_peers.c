/* What is logged about refused producers. */
#include "net/refused_peers.h"
#include "unit.h"

static struct refused_peers refusals;

static void fini(void)
{
	capture_end();
}

TestSuite(refused_peers, .init = capture_begin, .fini = fini, .timeout = 60);

static void refuse(const char *peer, unsigned int status, int64_t now_ms)
{
	refused_peers_log(&refusals, &(struct refusal){.peer = peer, .status = status}, now_ms);
}

Test(refused_peers, first_refusal_of_a_peer_is_logged_with_its_status)
{
	refuse("10.0.0.1", 401, 5);
	cr_assert_eq(captured_times("event=\"producer refused\" peer=10.0.0.1 status=401\n"), 1, "%s", captured());
}

Test(refused_peers, name_of_a_token_and_the_reason_of_tls_are_logged)
{
	refused_peers_log(&refusals, &(struct refusal){.peer = "10.0.0.1", .status = 503, .token = "shop"}, 5);
	refused_peers_log(&refusals, &(struct refusal){.peer = "10.0.0.2", .reason = "no certificate"}, 5);
	cr_assert_eq(captured_times("peer=10.0.0.1 status=503 token=shop\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("peer=10.0.0.2 reason=\"no certificate\"\n"), 1, "%s", captured());
}

Test(refused_peers, peer_is_named_once_a_minute)
{
	for (int i = 0; i < 100; i++)
		refuse("10.0.0.1", 401, 100000 + i);
	refuse("10.0.0.1", 401, 100000 + 59999);
	cr_assert_eq(captured_times("producer refused"), 1);
	refuse("10.0.0.1", 401, 100000 + 60000);
	cr_assert_eq(captured_times("producer refused"), 2);
}

Test(refused_peers, at_most_twenty_peers_are_named_and_the_others_are_counted)
{
	char peer[20];

	for (int i = 0; i < 50; i++) {
		snprintf(peer, sizeof(peer), "10.0.0.%d", i);
		refuse(peer, 429, 100000);
	}
	cr_assert_eq(captured_times("producer refused"), 20);
	refuse("10.0.0.1", 429, 160000);
	cr_assert_eq(captured_times("event=\"more producers refused\" count=30\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("producer refused"), 21);
}

Test(refused_peers, nothing_is_counted_twice)
{
	refuse("10.0.0.1", 401, 100000);
	refuse("10.0.0.1", 401, 100001);
	refuse("10.0.0.1", 401, 160000);
	refuse("10.0.0.1", 401, 220000);
	cr_assert_eq(captured_times("count=1\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("more producers"), 1, "%s", captured());
}
