/* A master with two replicas and three sentinels, which fail over while three listeners work: no event is lost or
 * doubled, and claims go to the new master. */
#include "support.h"

#define WHOLE_MS    30000
#define FAILOVER_MS 20000
#define BACK_MS     10000 /* after the new master is there */
#define SERVERS     3
#define PASSWORD    "a-password-of-the-fleet"
#define RIGHTS      "-@all " REDISD_RIGHTS " +role"

static struct redisd *redis[SERVERS];
static int sentinels[SERVERS];
static struct fleet fleet;

/* TLS options; NULL: no TLS */
static struct certificate *authority, *certificate;
static const char *host = "127.0.0.1"; /* host of all servers, as sentinels announce it */
static int tls_ports[SERVERS], tls_sentinels[SERVERS];

/* The --redis of listeners. A test may have replaced the first server. */
static int port_of(const struct redisd *r)
{
	for (int i = SERVERS - 1; i > 0 && certificate; i--)
		if (redis[i] == r)
			return tls_ports[i];
	return certificate ? tls_ports[0] : redisd_port(r);
}

static char *tls_lines(int i)
{
	tls_sentinels[i] = port_reserve();
	return suite_text("tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients no\n"
			  "tls-replication yes\n",
			  tls_sentinels[i], certificate->cert, certificate->key, authority->cert);
}

static void start_sentinel(int i)
{
	sentinels[i] = port_reserve();
	char *file = suite_file(suite_text("sentinel%d.conf", i),
				suite_text("port %d\nbind 127.0.0.1 -::1\ndir %s\n%s"
					   "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
					   "sentinel monitor wsonce %s %d 2\n"
					   "sentinel down-after-milliseconds wsonce 1000\n"
					   "sentinel failover-timeout wsonce 4000\n"
					   "user fleet on >" PASSWORD " -@all +sentinel|master "
					   "+sentinel|get-master-addr-by-name\n",
					   sentinels[i], suite_directory(), certificate ? tls_lines(i) : "", host,
					   port_of(redis[0])));
	const char *argv[] = {redisd_program(), file, "--sentinel", NULL};

	process_start_argv(argv, NULL);
}

/* Uses its own connection, because sentinels close those of clients when they reconfigure a server. */
static bool says(const struct redisd *r, const char *what)
{
	const char *argv[] = {
		"sh", "-c", suite_text("redis-cli -p %d info replication | grep -q '^%s'", redisd_port(r), what), NULL};

	return process_run(argv, 5000) == 0;
}

/* Returns the master as this sentinel sees it. */
static bool has_seen_all(int i)
{
	static const char *argv[] = {"redis-cli", "-p", NULL, "sentinel", "ckquorum", "wsonce", NULL};

	argv[2] = suite_text("%d", sentinels[i]);
	return process_run(argv, 5000) == 0;
}

static bool is_in_sync(const struct redisd *r)
{
	return says(r, "master_link_status:up");
}

static bool have_seen_all(void)
{
	return is_in_sync(redis[1]) && is_in_sync(redis[2]) && has_seen_all(0) && has_seen_all(1) && has_seen_all(2);
}

static void add(const char **options, const char *name, const char *value)
{
	while (*options)
		options += 2;
	options[0] = name;
	options[1] = value;
}

static void add_tls(const char **options, int i)
{
	tls_ports[i] = port_reserve();
	add(options, "--tls-port", suite_text("%d", tls_ports[i]));
	add(options, "--tls-cert-file", certificate->cert);
	add(options, "--tls-key-file", certificate->key);
	add(options, "--tls-ca-cert-file", authority->cert);
	add(options, "--tls-auth-clients", "no");
	add(options, "--tls-replication", "yes");
}

static void start_servers(void)
{
	static const char *options[SERVERS][24];

	for (int i = 0; i < SERVERS; i++) {
		add(options[i], "--repl-diskless-sync-delay", "0");
		add(options[i], "--replica-announce-ip", host);
		if (certificate)
			add_tls(options[i], i);
		if (i)
			add(options[i], "--replicaof", suite_text("%s %d", host, port_of(redis[0])));
		redis[i] = redisd_new_with(options[i]);
		free(redisd_command(redis[i], "ACL SETUSER fleet on >" PASSWORD " ~%s* ~wsonce:* " RIGHTS,
				    redisd_prefix()));
	}
	for (int i = 0; i < SERVERS; i++)
		start_sentinel(i);
}

static void start(void)
{
	const int *ports = certificate ? tls_sentinels : sentinels;
	struct listener_options options = {0};

	start_servers();
	await(have_seen_all(), FAILOVER_MS, "the sentinels do not find each other");
	/* The first sentinel of the list does not exist. */
	options.redis = suite_text("%s://fleet:" PASSWORD "@%s:%d,%s:%d,%s:%d,%s:%d/wsonce/0",
				   certificate ? "rediss-sentinel" : "redis-sentinel", host, port_reserve(), host,
				   ports[0], host, ports[1], host, ports[2]);
	fleet_start(&fleet, 3, NULL, &options,
		    certificate ? suite_text("--claim-ttl 5s --redis-ca %s", authority->cert) : "--claim-ttl 5s");
}

static struct redisd *other_master(const struct redisd *old)
{
	for (int i = 0; i < SERVERS; i++)
		if (redis[i] != old && says(redis[i], "role:master"))
			return redis[i];
	return NULL;
}

/* Waits until it is the master and all sentinels know. */
static bool is_named(struct redisd *r)
{
	char *port = suite_text("\"%d\"", port_of(r));

	for (int i = 0; i < 3; i++) {
		const char *argv[] = {
			"sh", "-c",
			suite_text("redis-cli --json -p %d sentinel get-master-addr-by-name wsonce | grep -q '%s'",
				   sentinels[i], port),
			NULL};

		if (process_run(argv, 5000) != 0)
			return false;
	}
	return true;
}

/* Sends a few events at a time until there is another master. */
static struct redisd *await_master(const struct redisd *old)
{
	struct redisd *found = NULL;

	await((fleet_send(&fleet, 20), (found = other_master(old)) && is_named(found)), FAILOVER_MS, "no other master");
	return found;
}

static void must_use(struct redisd *master)
{
	await((fleet_send(&fleet, 5),
	       fleet_metric(&fleet, "wsonce_redis_up") == 3 && redisd_count(master, redisd_prefix()) > 0),
	      BACK_MS, "claims are not used again in time");
	fleet_must_be_whole(&fleet, WHOLE_MS);
	fleet_must_claim(&fleet, master, WHOLE_MS);
}

Test(sentinel, names_the_master_and_replicas_are_left_alone, .timeout = 120)
{
	start();
	fleet_send(&fleet, 1000);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_expect_eq(fleet_metric(&fleet, "wsonce_claims_skipped_total"), 0);
	fleet_must_claim(&fleet, redis[0], WHOLE_MS);
	cr_expect_not(listener_has_logged(fleet.listeners[0], PASSWORD));
	fleet_end(&fleet);
}

/* --- by TLS --- */

static void start_with_tls(const char *names)
{
	authority = certificate_authority_new();
	certificate = certificate_new(authority, names);
	start();
}

static void must_survive_the_master(void)
{
	fleet_send(&fleet, 500);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	redisd_kill(redis[0]);
	redis[0] = redis[1];
	must_use(await_master(NULL));
	fleet_end(&fleet);
}

/* Sentinels announce addresses, and the certificates contain them. */
Test(sentinel, tls_and_the_least_rights_are_enough, .timeout = 120)
{
	start_with_tls("IP:127.0.0.1");
	must_survive_the_master();
}

Test(sentinel, tls_goes_by_names_where_sentinels_tell_them, .timeout = 120)
{
	host = "localhost";
	start_with_tls("DNS:localhost");
	must_survive_the_master();
}
