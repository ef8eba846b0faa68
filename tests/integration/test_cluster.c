/* Redis Cluster, three masters with a replica each, under three listeners: no event is lost or doubled, and a failed
 * master affects only its own slots. */
#include "support.h"

#include <math.h>

#define SERVERS     6
#define WHOLE_MS    30000
#define FAILOVER_MS 20000
#define SETTLED_MS  20000

static struct redisd *redis[SERVERS];
static struct fleet fleet;

/* TLS options; NULL: no TLS */
static struct certificate *authority, *certificate;
static const char *host = "127.0.0.1"; /* host of all servers, as they announce it */
static int tls_ports[SERVERS];

static bool runs(const char *fmt, const char *more)
{
	const char *argv[] = {"sh", "-c", suite_text("redis-cli %s %s >/dev/null 2>&1", fmt, more), NULL};

	return process_run(argv, FAILOVER_MS) == 0;
}

static bool is_whole(void)
{
	for (int i = 0; i < SERVERS; i++) {
		char *info = redisd_command(redis[i], "CLUSTER INFO");

		if (!strstr(info, "cluster_state:ok") || !strstr(info, "cluster_known_nodes:6"))
			return false;
		if (i >= 3 && !strstr(redisd_command(redis[i], "INFO replication"), "master_link_status:up"))
			return false;
	}
	return true;
}

static void add_tls(const char **options, int i)
{
	tls_ports[i] = port_reserve();
	const char *const more[] = {"--tls-port",
				    suite_text("%d", tls_ports[i]),
				    "--tls-cert-file",
				    certificate->cert,
				    "--tls-key-file",
				    certificate->key,
				    "--tls-ca-cert-file",
				    authority->cert,
				    "--tls-auth-clients",
				    "no",
				    "--tls-replication",
				    "yes",
				    "--tls-cluster",
				    "yes",
				    "--cluster-announce-hostname",
				    host,
				    "--cluster-preferred-endpoint-type",
				    strcmp(host, "localhost") == 0 ? "hostname" : "ip",
				    NULL};

	while (*options)
		options++;
	memcpy(options, more, sizeof more);
}

static void start_servers(void)
{
	static const char *options[SERVERS][36];
	char *all = suite_text("%s", "");

	for (int i = 0; i < SERVERS; i++) {
		const char *const all_of_one[] = {"--cluster-enabled",
						  "yes",
						  "--cluster-node-timeout",
						  "1500",
						  "--cluster-require-full-coverage",
						  "no",
						  "--repl-diskless-sync-delay",
						  "0",
						  "--cluster-port",
						  suite_text("%d", port_reserve()),
						  NULL};

		memcpy(options[i], all_of_one, sizeof all_of_one);
		if (certificate)
			add_tls(options[i], i);
		redis[i] = redisd_new_with(options[i]);
		all = suite_text("%s 127.0.0.1:%d", all, redisd_port(redis[i]));
	}
	cr_assert(runs("--cluster create", suite_text("%s --cluster-replicas 1 --cluster-yes", all)));
	await(is_whole(), FAILOVER_MS, "the cluster does not come up");
}

static void start(void)
{
	struct listener_options options = {0};

	start_servers();
	options.redis = suite_text("redis://127.0.0.1:%d,127.0.0.1:%d/0", port_reserve(), redisd_port(redis[1]));
	fleet_start(&fleet, 3, NULL, &options, "--claim-ttl 5s");
}

static void start_with_tls(const char *names)
{
	struct listener_options options = {0};

	authority = certificate_authority_new();
	certificate = certificate_new(authority, names);
	start_servers();
	for (int i = 0; i < SERVERS; i++)
		free(redisd_command(redis[i],
				    "ACL SETUSER fleet on >a-password-of-the-fleet ~%s* ~wsonce:* -@all " REDISD_RIGHTS
				    " +role +cluster|slots +asking",
				    redisd_prefix()));
	options.redis = suite_text("rediss://fleet:a-password-of-the-fleet@%s:%d,%s:%d/0", host, tls_ports[0], host,
				   tls_ports[1]);
	fleet_start(&fleet, 3, NULL, &options, suite_text("--claim-ttl 5s --redis-ca %s", authority->cert));
}

static long marks(void)
{
	long n = 0;

	for (int i = 0; i < 3; i++)
		n += redisd_count(redis[i], redisd_prefix());
	return n;
}

Test(cluster, no_claim_is_skipped_and_masters_share_them, .timeout = 120)
{
	start();
	fleet_send(&fleet, 3000);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_expect_eq(fleet_metric(&fleet, "wsonce_claims_skipped_total"), 0);
	cr_expect_eq(fleet_metric(&fleet, "wsonce_claims_won_total"), 3000);
	await(marks() == 3000, SETTLED_MS, "%ld marks", marks());
	for (int i = 0; i < 3; i++) {
		cr_expect_gt(redisd_count(redis[i], redisd_prefix()), 700);
		cr_expect_lt(redisd_count(redis[i], redisd_prefix()), 1300);
	}
	fleet_end(&fleet);
}

Test(cluster, ids_with_braces_are_spread, .timeout = 120)
{
	struct database *rows = database_new();

	start_servers();
	struct listener *l =
		listener_start(&(struct listener_options){.database = rows, .redis = redisd_url(redis[2])}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), NULL);
	for (int i = 0; i < 300; i++)
		peer_sendf(p, "{\"event_id\":\"{a}%d{}{\"}", i);
	await(marks() == 300, SETTLED_MS, "%ld marks", marks());
	for (int i = 0; i < 3; i++)
		cr_expect_gt(redisd_count(redis[i], redisd_prefix()), 50);
	cr_expect_eq(listener_metric(l, "wsonce_claims_skipped_total"), 0);
	peer_free(p);
	cr_expect_eq(listener_stop(l), 0);
}

/* A master has a third of the slots; the others' events must not be skipped. Allows three standard deviations of a
 * random draw of this many ids. */
static void must_skip_a_third(double skipped, long sent)
{
	double share = (fleet_metric(&fleet, "wsonce_claims_skipped_total") - skipped) / (3. * (double)sent);
	double most = 1. / 3 + 3 * sqrt(0.23 / (double)sent);

	cr_expect_leq(share, most, "%.2f of the claims are skipped, %.2f are allowed", share, most);
}

static struct redisd *promoted(void)
{
	for (int i = 3; i < SERVERS; i++)
		if (strstr(redisd_command(redis[i], "INFO replication"), "role:master"))
			return redis[i];
	return NULL;
}

static void must_fail_over(void)
{
	double skipped = fleet_metric(&fleet, "wsonce_claims_skipped_total"), before;
	long sent = fleet.sent;

	await((fleet_send(&fleet, 20), promoted()), FAILOVER_MS, "no replica is promoted");
	must_skip_a_third(skipped, fleet.sent - sent);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	await((before = fleet_metric(&fleet, "wsonce_claims_skipped_total"), fleet_send(&fleet, 200),
	       fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS), fleet_must_be_whole(&fleet, WHOLE_MS),
	       fleet_metric(&fleet, "wsonce_claims_skipped_total") == before),
	      SETTLED_MS, "claims are skipped after the failover");
}

Test(cluster, slots_that_move_under_load_skip_nothing, .timeout = 120)
{
	start();
	char *from = redisd_command(redis[0], "CLUSTER MYID");
	char *to = redisd_command(redis[1], "CLUSTER MYID");
	fleet_send(&fleet, 1000);
	double skipped = fleet_metric(&fleet, "wsonce_claims_skipped_total");
	const char *argv[] = {
		"redis-cli",       "--cluster", "reshard",       suite_text("127.0.0.1:%d", redisd_port(redis[0])),
		"--cluster-from",  from,        "--cluster-to",  to,
		"--cluster-slots", "500",       "--cluster-yes", NULL};
	struct process *reshard = process_start_argv(argv, NULL);

	while (process_wait(reshard, 20) == -1)
		fleet_send(&fleet, 20);
	cr_expect_eq(process_wait(reshard, 0), 0);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_expect_eq(fleet_metric(&fleet, "wsonce_claims_skipped_total"), skipped);
	fleet_end(&fleet);
}

static void must_survive_a_master(void)
{
	fleet_send(&fleet, 1000);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_expect_eq(fleet_metric(&fleet, "wsonce_claims_skipped_total"), 0);
	redisd_kill(redis[0]);
	must_fail_over();
	fleet_end(&fleet);
}

/* Servers announce addresses, and the certificates contain them. */
Test(cluster, tls_and_the_least_rights_are_enough, .timeout = 120)
{
	start_with_tls("IP:127.0.0.1");
	must_survive_a_master();
}

Test(cluster, tls_goes_by_names_where_servers_tell_them, .timeout = 120)
{
	host = "localhost";
	start_with_tls("DNS:localhost");
	must_survive_a_master();
}

/* Some slots have no master. */
Test(cluster, slots_without_a_master_are_done_without, .timeout = 120)
{
	start();
	redisd_kill(redis[0]);
	for (int i = 3; i < SERVERS; i++)
		redisd_kill(redis[i]);
	for (int i = 0; i < 20; i++) {
		fleet_send(&fleet, 100);
		fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	}
	cr_expect_eq(fleet_metric(&fleet, "wsonce_redis_up"), 0, "nobody is told");
	must_skip_a_third(0, fleet.sent);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	fleet_end(&fleet);
}

Test(cluster, commands_know_the_keys, .timeout = 120)
{
	struct database *rows = database_new();

	start_servers();
	const char *url = redisd_url(redis[1]);
	struct listener *l = listener_start(&(struct listener_options){.database = rows, .redis = url}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), NULL);
	peer_send_text(p, "{\"event_id\":\"e-1\"}");
	const char *argv[] = {
		"sh", "-c",
		suite_text("%s explain e-1 --postgres '%s' --redis %s --claim-prefix %s | grep -q \"marked done\"",
			   suite_env("WSONCE_TEST_BIN"), database_conninfo(rows), url, redisd_prefix()),
		NULL};
	cr_expect(wait_until(process_run(argv, SETTLED_MS) == 0, SETTLED_MS), "explain does not find the mark");
	peer_free(p);
	cr_expect_eq(listener_stop(l), 0);
}
