/* What is logged about refused producers. */
#include "net/refused_peers.h"

#include <arpa/inet.h>

#include "unit.h"

static struct refused_peers refusals;

static void fini(void)
{
	capture_end();
}

TestSuite(refused_peers, .init = capture_begin, .fini = fini, .timeout = 60);

/* The key of 10.0.0.n, as port_peer_key() makes it. */
static uint64_t address(unsigned int n)
{
	return UINT64_C(0xffff) << 32 | htonl(10u << 24 | n);
}

static void refuse(unsigned int n, unsigned int status, int64_t now_ms)
{
	refused_peers_log(&refusals, &(struct refusal){"--ingest", address(n), status, NULL, NULL}, now_ms);
}

Test(refused_peers, first_refusal_of_a_peer_is_logged_with_its_status)
{
	refuse(1, 401, 5);
	cr_assert_eq(captured_times("event=\"client refused\" setting=--ingest peer=10.0.0.1 status=401\n"), 1, "%s",
		     captured());
}

Test(refused_peers, name_of_a_token_and_the_reason_of_tls_are_logged)
{
	refused_peers_log(&refusals, &(struct refusal){"--ingest", address(1), 503, NULL, "shop"}, 5);
	refused_peers_log(&refusals, &(struct refusal){"--ingest", address(2), 0, "no certificate", NULL}, 5);
	cr_assert_eq(captured_times("peer=10.0.0.1 status=503 token=shop\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("peer=10.0.0.2 reason=\"no certificate\"\n"), 1, "%s", captured());
}

Test(refused_peers, peer_is_named_once_a_minute)
{
	for (int i = 0; i < 100; i++)
		refuse(1, 401, 100000 + i);
	refuse(1, 401, 100000 + 59999);
	cr_assert_eq(captured_times("client refused"), 1);
	refuse(1, 401, 100000 + 60000);
	cr_assert_eq(captured_times("client refused"), 2);
}

Test(refused_peers, at_most_twenty_peers_are_named_and_the_others_are_counted)
{
	for (unsigned int i = 0; i < 50; i++)
		refuse(i, 429, 100000);
	cr_assert_eq(captured_times("client refused"), 20);
	refuse(1, 429, 160000);
	cr_assert_eq(captured_times("event=\"more clients refused\" setting=--ingest count=30\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("client refused"), 21);
}

Test(refused_peers, nothing_is_counted_twice)
{
	refuse(1, 401, 100000);
	refuse(1, 401, 100001);
	refuse(1, 401, 160000);
	refuse(1, 401, 220000);
	cr_assert_eq(captured_times("count=1\n"), 1, "%s", captured());
	cr_assert_eq(captured_times("more clients"), 1, "%s", captured());
}
