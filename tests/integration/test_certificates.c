/* Certificates of producers, instead of tokens or in addition to them. */
#include "support.h"
#include "bench.h"

#define ACKS       "wsonce.ack.v1"
#define TOKEN      "the-token-of-the-shop"
#define SETTLED_MS 20000

static struct certificate *authority, *server;

static void set_up(void)
{
	db = database_new();
	authority = certificate_authority_new();
	server = certificate_new(authority, "DNS:localhost");
}

TestSuite(certificates, .init = set_up, .fini = bench_close);

static void start(const char *more)
{
	listener = listener_start(&(struct listener_options){.database = db},
				  "--ingest-cert %s --ingest-key %s --ingest-client-ca %s --log-level debug %s",
				  server->cert, server->key, authority->cert, more);
}

/* The status that a producer with this certificate (or NULL) and token (or NULL) gets; 0 if TLS fails. */
static int status_of(const struct certificate *client, const char *token)
{
	struct relay *relay = relay_new_as(listener_ingest_port(listener), authority, client);
	int status;

	peer_free(peer_open(relay_port(relay), "/events", ACKS, token, &status));
	relay_free(relay);
	return status;
}

static struct certificate *sign(const struct certificate_text *text)
{
	return certificate_new_of(authority, text);
}

Test(certificates, one_that_the_authority_signed_opens_the_door_and_nothing_else_does)
{
	struct certificate *stranger = certificate_authority_new();
	struct certificate *good = sign(&(struct certificate_text){.subject = "/CN=shop"});
	struct certificate *late = sign(&(struct certificate_text){.subject = "/CN=late", .is_expired = true});
	struct certificate *foreign = certificate_new_of(stranger, &(struct certificate_text){.subject = "/CN=shop"});
	struct certificate *other = sign(&(struct certificate_text){.subject = "/CN=web", .usage = "serverAuth"});

	start("--ingest-max-handshakes 100");
	cr_expect_eq(status_of(good, NULL), 101);
	cr_expect_eq(status_of(NULL, NULL), 0);
	cr_expect_eq(status_of(NULL, TOKEN), 0);
	cr_expect_eq(status_of(foreign, NULL), 0);
	cr_expect_eq(status_of(late, NULL), 0);
	cr_expect_eq(status_of(other, NULL), 0);
	cr_expect_eq(status_of(good, "no-token-is-asked-for"), 101);
	cr_expect(listener_has_logged(listener, "no certificate"), "the first refusal is not explained");
	cr_expect_geq(listener_metric(listener, "wsonce_ingest_refused_total"), 5);
}

Test(certificates, with_tokens_either_opens_the_door)
{
	struct certificate *stranger = certificate_authority_new();
	struct certificate *good = sign(&(struct certificate_text){.subject = "/CN=shop"});
	struct certificate *foreign = certificate_new_of(stranger, &(struct certificate_text){.subject = "/CN=shop"});

	start("--ingest-token " TOKEN);
	cr_expect_eq(status_of(NULL, NULL), 401);
	cr_expect_eq(status_of(NULL, "a-guess"), 401);
	cr_expect_eq(status_of(NULL, TOKEN), 101);
	cr_expect_eq(status_of(good, NULL), 101);
	cr_expect_eq(status_of(good, "a-guess"), 101);
	cr_expect_eq(status_of(foreign, TOKEN), 0);
}

static double count_of(const char *metric, const char *name)
{
	char *text = suite_text("wsonce_%s{token=\"%s\"}", metric, name);
	return listener_metric(listener, text);
}

/* Sends an event with this certificate, and expects the count of this name in the metrics. */
static void expect_name(const char *subject, const char *names, const char *wanted, int count)
{
	struct certificate *client = sign(&(struct certificate_text){.subject = subject, .names = names});
	struct relay *relay = relay_new_as(listener_ingest_port(listener), authority, client);
	struct peer *p = peer_open_events(relay_port(relay), ACKS);
	char *id = suite_text("name-%d", suite_number());
	peer_sendf(p, "{\"event_id\":\"%s\"}", id);
	ack_expect(p, id, "persisted");
	cr_expect_eq(count_of("token_messages_total", wanted), count, "%s %s", subject, names);
	cr_expect_eq(count_of("token_connections", wanted), 1, "%s", wanted);
	char *logged = suite_text("token=%s", wanted);
	cr_expect(listener_has_logged(listener, logged), "%s", logged);
	peer_free(p);
	relay_free(relay);
	cr_expect(wait_until(count_of("token_connections", wanted) == 0, SETTLED_MS));
}

Test(certificates, the_name_in_one_is_its_common_name_or_else_its_first_other_name)
{
	start("--ingest-token " TOKEN);
	expect_name("/O=example/CN=till.example", NULL, "till.example", 1);
	expect_name("/O=example/CN=till.example", "DNS:other.example", "till.example", 2);
	expect_name("/O=example", "DNS:shop.example,DNS:other.example", "shop.example", 1);
	expect_name("/O=example", "email:till@shop.example", "till@shop.example", 1);
	expect_name("/O=example", "URI:spiffe://shop/till", "spiffe://shop/till", 1);
	expect_name("/O=example", NULL, "unnamed", 1);
	expect_name("/O=example", "IP:127.0.0.1", "unnamed", 2);
	expect_name("/CN=a \"b\" \\\\c\ttür", NULL, "a__b___c_t__r", 1);
	expect_name("/CN=default", NULL, "default", 1);
}

Test(certificates, wrong_ones_are_warned_of_and_delay_nobody)
{
	struct certificate *good = sign(&(struct certificate_text){.subject = "/CN=shop"});

	start("--log-level info");
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(status_of(NULL, NULL), 0);
		cr_expect_eq(status_of(good, NULL), 101);
	}
	cr_expect(listener_has_logged(listener, "more wrong tokens get 429"));
}

Test(certificates, their_authority_is_read_before_anything_starts)
{
	char words[300];

	run_expect_refusal_in(NULL, "listen --ingest 127.0.0.1:0 --ingest-client-ca /dev/null", "--ingest-cert");
	snprintf(words, sizeof words,
		 "listen --ingest *:0 --ingest-cert %s --ingest-key %s --ingest-client-ca /nowhere/ca", server->cert,
		 server->key);
	run_expect_refusal_in(NULL, words, "--ingest-client-ca");
	snprintf(words, sizeof words,
		 "listen --ingest *:0 --ingest-cert %s --ingest-key %s --ingest-client-ca /dev/null", server->cert,
		 server->key);
	run_expect_refusal_in(NULL, words, "--ingest-client-ca");
}
