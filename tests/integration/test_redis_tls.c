/* Redis with TLS, and with a user that has few rights. */
#include "support.h"
#include "bench.h"

#define READY_MS   15000
#define SETTLED_MS 20000

static struct certificate *authority, *server;
static int tls_port;

static void set_up(void)
{
	db = database_new();
	authority = certificate_authority_new();
	server = certificate_new(authority, "DNS:localhost");
	tls_port = port_reserve();
}

TestSuite(redis_tls, .init = set_up);

/* A server that asks its clients for certificates ("yes") or does not ("no"). */
static struct redisd *start_redis(const char *asks)
{
	static const char *options[20];
	const char *const all[] = {
		"--tls-port", suite_text("%d", tls_port), "--tls-cert-file", server->cert,         "--tls-key-file",
		server->key,  "--tls-ca-cert-file",       authority->cert,   "--tls-auth-clients", asks,
		NULL};

	memcpy(options, all, sizeof all);
	return redisd_new_with(options);
}

static struct listener *start_listener(const char *host, const char *flags)
{
	return listener_start(&(struct listener_options){.database = db,
							 .redis = suite_text("rediss://%s:%d/0", host, tls_port),
							 .is_redis_away = true},
			      "%s", flags);
}

static void must_claim(struct listener *l, struct redisd *redis)
{
	struct peer *p = peer_open_events(listener_ingest_port(l), NULL);

	await(listener_metric(l, "wsonce_redis_up") == 1, READY_MS);
	peer_send_text(p, "{\"event_id\":\"e-1\"}");
	await(claims_begins(redis, "e-1", "done@"), SETTLED_MS, "no mark");
	cr_expect_eq(listener_metric(l, "wsonce_claims_won_total"), 1);
	peer_free(p);
}

Test(redis_tls, claims_go_to_a_server_whose_certificate_is_right)
{
	struct redisd *redis = start_redis("no");
	struct listener *l = start_listener("localhost", suite_text("--redis-ca %s", authority->cert));

	must_claim(l, redis);
	redisd_restart(redis);
	await(listener_metric(l, "wsonce_redis_connects_total") == 2, READY_MS, "not back");
	cr_expect_eq(listener_stop(l), 0);
}

Test(redis_tls, a_large_look_and_its_answer_take_several_records)
{
	struct fleet fleet;
	struct redisd *redis = start_redis("no");
	struct listener_options options = {.redis = suite_text("rediss://localhost:%d/0", tls_port)};

	fleet_start(&fleet, 3, db, &options, suite_text("--redis-ca %s", authority->cert));
	fleet_send(&fleet, 20000);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	fleet_must_claim(&fleet, redis, SETTLED_MS);
	fleet_end(&fleet);
}

Test(redis_tls, a_server_that_is_not_who_it_should_be_gets_no_password)
{
	struct certificate *stranger = certificate_authority_new();
	struct redisd *redis = start_redis("no");
	struct listener *other = start_listener("localhost", suite_text("--redis-ca %s", stranger->cert));
	struct listener *name = start_listener("u:planted@127.0.0.1", suite_text("--redis-ca %s", authority->cert));

	await(listener_has_logged(other, "the certificate is not trusted"), READY_MS);
	await(listener_has_logged(name, "the certificate is not trusted: "), READY_MS);
	cr_expect_not(listener_has_logged(name, "planted"));
	cr_expect_eq(listener_metric(other, "wsonce_redis_up"), 0);
	cr_expect_null(strstr(redisd_command(redis, "INFO commandstats"), "cmdstat_auth"));
	cr_expect_eq(listener_stop(other), 0);
	cr_expect_eq(listener_stop(name), 0);
}

Test(redis_tls, a_server_may_ask_for_a_certificate)
{
	struct redisd *redis = start_redis("yes");
	struct certificate *client = certificate_new_of(authority, &(struct certificate_text){.subject = "/CN=w"});
	struct listener *without = start_listener("localhost", suite_text("--redis-ca %s", authority->cert));
	struct listener *with = start_listener("localhost", suite_text("--redis-ca %s --redis-cert %s --redis-key %s",
								       authority->cert, client->cert, client->key));

	must_claim(with, redis);
	cr_expect_eq(listener_metric(without, "wsonce_redis_up"), 0);
	cr_expect_eq(listener_stop(with), 0);
	cr_expect_eq(listener_stop(without), 0);
}

/* Redis 7.0 reads the handshake as an unfinished command; Redis 8 answers with an error. */
Test(redis_tls, a_server_without_tls_is_left)
{
	struct redisd *redis = start_redis("no");

	tls_port = redisd_port(redis);
	struct listener *l = start_listener("localhost", suite_text("--redis-ca %s", authority->cert));
	await(listener_has_logged(l, "no answer while connecting") ||
		      listener_has_logged(l, "TLS failed: wrong version number"),
	      READY_MS);
	cr_expect_eq(listener_stop(l), 0);
}

Test(redis_tls, commands_ask_by_tls_too)
{
	struct redisd *redis = start_redis("no");
	const char *url = suite_text("rediss://localhost:%d/0", tls_port);
	struct listener *l = start_listener("localhost", suite_text("--redis-ca %s", authority->cert));
	const char *argv[] = {suite_env("WSONCE_TEST_BIN"),
			      "explain",
			      "x",
			      "--postgres",
			      database_conninfo(db),
			      "--redis",
			      url,
			      "--redis-ca",
			      authority->cert,
			      "--claim-prefix",
			      redisd_prefix(),
			      NULL};

	must_claim(l, redis);
	cr_expect_eq(process_run(argv, READY_MS), 1, "nothing is known about x");
	cr_expect(strstr(redisd_command(redis, "INFO commandstats"), "cmdstat_pttl:"), "it has not asked");
	cr_expect_eq(listener_stop(l), 0);
}
