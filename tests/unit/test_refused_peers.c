/* What is logged about refused producers. */
#include "net/refused_peers.h"
#include "unit.h"

static struct refused_peers refusals;
static int kept_stderr, capture;
static char lines[10000];

static void init(void)
{
	capture = memfd_create("log", 0);
	kept_stderr = dup(STDERR_FILENO);
	dup2(capture, STDERR_FILENO);
}

static void fini(void)
{
	dup2(kept_stderr, STDERR_FILENO);
}

TestSuite(refused_peers, .init = init, .fini = fini, .timeout = 60);

/* Returns how often text appears in the log so far. */
static int logged(const char *text)
{
	ssize_t size = pread(capture, lines, sizeof(lines) - 1, 0);
	int n = 0;

	cr_assert_geq(size, 0);
	lines[size] = '\0';
	for (const char *at = lines; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void refuse(const char *peer, unsigned int status, int64_t now_ms)
{
	refused_peers_log(&refusals, &(struct refusal){.peer = peer, .status = status}, now_ms);
}

Test(refused_peers, first_refusal_of_a_peer_is_logged_with_its_status)
{
	refuse("10.0.0.1", 401, 5);
	cr_assert_eq(logged("event=\"producer refused\" peer=10.0.0.1 status=401\n"), 1, "%s", lines);
}

Test(refused_peers, name_of_a_token_and_the_reason_of_tls_are_logged)
{
	refused_peers_log(&refusals, &(struct refusal){.peer = "10.0.0.1", .status = 503, .token = "shop"}, 5);
	refused_peers_log(&refusals, &(struct refusal){.peer = "10.0.0.2", .reason = "no certificate"}, 5);
	cr_assert_eq(logged("peer=10.0.0.1 status=503 token=shop\n"), 1, "%s", lines);
	cr_assert_eq(logged("peer=10.0.0.2 reason=\"no certificate\"\n"), 1, "%s", lines);
}

Test(refused_peers, peer_is_named_once_a_minute)
{
	for (int i = 0; i < 100; i++)
		refuse("10.0.0.1", 401, 100000 + i);
	refuse("10.0.0.1", 401, 100000 + 59999);
	cr_assert_eq(logged("producer refused"), 1);
	refuse("10.0.0.1", 401, 100000 + 60000);
	cr_assert_eq(logged("producer refused"), 2);
}

Test(refused_peers, at_most_twenty_peers_are_named_and_the_others_are_counted)
{
	char peer[20];

	for (int i = 0; i < 50; i++) {
		snprintf(peer, sizeof(peer), "10.0.0.%d", i);
		refuse(peer, 429, 100000);
	}
	cr_assert_eq(logged("producer refused"), 20);
	refuse("10.0.0.1", 429, 160000);
	cr_assert_eq(logged("event=\"more producers refused\" count=30\n"), 1, "%s", lines);
	cr_assert_eq(logged("producer refused"), 21);
}

Test(refused_peers, nothing_is_counted_twice)
{
	refuse("10.0.0.1", 401, 100000);
	refuse("10.0.0.1", 401, 100001);
	refuse("10.0.0.1", 401, 160000);
	refuse("10.0.0.1", 401, 220000);
	cr_assert_eq(logged("count=1\n"), 1, "%s", lines);
	cr_assert_eq(logged("more producers"), 1, "%s", lines);
}
