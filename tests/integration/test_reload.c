/* SIGHUP: what a listener reads again and applies, and that an error changes nothing. */
#include "support.h"
#include "bench.h"

#include <pty.h>
#include <sys/wait.h>

#define SOON_MS   20000
#define WHOLE_MS  60000
#define ACKS      "wsonce.ack.v1"
#define OLD_TOKEN "the-old-token-of-the-shop"
#define NEW_TOKEN "the-new-token-of-the-shop"

static struct receiver *receiver;
static char *settings;
static int reloads, failures;

static void set_up(void)
{
	db = database_new();
	settings = suite_path("settings.json");
}

TestSuite(reload, .init = set_up, .fini = bench_close, .timeout = 300);

/* --- a listener with a file of settings --- */

static void write_settings(const char *text)
{
	suite_file("settings.json.new", text);
	cr_assert_eq(rename(suite_path("settings.json.new"), settings), 0);
}

static void start(const char *flags)
{
	listener = listener_start(
		&(struct listener_options){.database = db,
					   .env = (const char *[]){"HOOK_SECRET=" RECEIVER_SECRET, NULL}},
		"--config %s %s", settings, flags);
}

/* Sends the signal and waits until the reload has succeeded or failed. */
static void reload(bool is_good)
{
	const char *name = is_good ? "wsonce_reloads_total" : "wsonce_reloads_failed_total";
	int *seen = is_good ? &reloads : &failures;

	process_signal(listener_process(listener), SIGHUP);
	await(listener_metric(listener, name) > *seen, SOON_MS, "%s", process_last_words(listener_process(listener)));
	*seen = (int)listener_metric(listener, name);
	cr_assert_eq(listener_metric(listener, "wsonce_reloads_total"), reloads);
	cr_assert_eq(listener_metric(listener, "wsonce_reloads_failed_total"), failures);
	cr_assert_eq(listener_metric(listener, "wsonce_reload_failed"), !is_good);
}

static void reload_as(const char *text)
{
	write_settings(text);
	reload(true);
}

static void expect_refused(const char *text, const char *why)
{
	write_settings(text);
	reload(false);
	cr_expect(listener_has_logged(listener, why), "%s is not in: %s", why,
		  process_last_words(listener_process(listener)));
}

static void expect_logged(const char *text)
{
	cr_expect(listener_has_logged(listener, text), "%s is not in: %s", text,
		  process_last_words(listener_process(listener)));
}

static int status_with(const char *token)
{
	int status;

	peer_free(peer_open(listener_ingest_port(listener), "/events", ACKS, token, &status));
	return status;
}

/* --- what is applied --- */

Test(reload, one_line_says_what_was_taken_and_what_needs_a_restart)
{
	write_settings("{\"ingest-token\": \"" OLD_TOKEN "\", \"batch-max\": 100, \"max-attempts\": 3}");
	start("");
	reload(true);
	expect_logged("event=reloaded tokens=1 certificates=0 webhooks=0\n");
	reload_as("{\"ingest-token\": \"" NEW_TOKEN "\", \"batch-max\": 200, \"log-level\": \"debug\"}");
	expect_logged("changed=\"ingest-token log-level\" tokens=1 certificates=0 webhooks=0 "
		      "needs_restart=\"batch-max max-attempts\"");
}

Test(reload, a_removed_token_ends_its_producer_and_the_new_one_opens_the_door)
{
	int status;

	write_settings("{\"ingest-token\": \"" OLD_TOKEN "\"}");
	start("");
	struct peer *old = peer_open(listener_ingest_port(listener), "/events", ACKS, OLD_TOKEN, &status);
	cr_assert(old);
	reload_as("{\"ingest-token\": \"" NEW_TOKEN "\"}");
	cr_expect_eq(peer_recv_close(old, SOON_MS), 1006);
	cr_expect_eq(status_with(OLD_TOKEN), 401);
	cr_expect_eq(status_with(NEW_TOKEN), 101);
	peer_free(old);
}

Test(reload, of_many_producers_whose_token_is_gone_twenty_are_named)
{
	struct peer *all[25];
	int status;

	write_settings("{\"ingest-token\": \"" OLD_TOKEN "\"}");
	start("");
	for (int i = 0; i < 25; i++)
		cr_assert(all[i] = peer_open(listener_ingest_port(listener), "/events", ACKS, OLD_TOKEN, &status));
	reload_as("{\"ingest-token\": \"" NEW_TOKEN "\"}");
	for (int i = 0; i < 25; i++) {
		cr_expect_eq(peer_recv_close(all[i], SOON_MS), 1006);
		peer_free(all[i]);
	}
	expect_logged("setting=--ingest count=5");
	cr_expect_eq(listener_count_logged(listener, "disconnecting a producer"), 20);
}

Test(reload, where_a_token_is_needed_now_who_came_without_has_to_go)
{
	write_settings("{}");
	start("");
	struct peer *p = peer_open_events(listener_ingest_port(listener), ACKS);
	reload_as("{\"ingest-token\": \"" NEW_TOKEN "\"}");
	cr_expect_eq(peer_recv_close(p, SOON_MS), 1006);
	cr_expect_eq(status_with(NULL), 401);
	reload_as("{}");
	cr_expect_eq(status_with(NULL), 101);
	peer_free(p);
}

/* The address changes at a restart only, and tokens at once. */
Test(reload, an_address_does_not_lose_its_token_before_it_is_moved_or_closed)
{
	static const char *const hosts[] = {"0.0.0.0", "127.0.0.1"};

	for (int i = 0; i < 2; i++) {
		int port = port_reserve();

		reloads = failures = 0;
		write_settings(
			suite_text("{\"ingest\": \"%s:%d\", \"ingest-token\": \"" OLD_TOKEN "\"}", hosts[i], port));
		listener = listener_start(
			&(struct listener_options){.database = db, .without_ingest = true, .ingest_port = port},
			"--config %s", settings);
		expect_refused("{\"ingest\": \"127.0.0.1:1\"}", "restart instead, or keep the token");
		expect_refused("{\"source\": \"ws://127.0.0.1:1\"}", "restart instead, or keep the token");
		cr_expect_eq(status_with(NULL), 401);
		reload_as("{\"ingest\": \"127.0.0.1:1\", \"ingest-token\": \"" NEW_TOKEN "\"}");
		cr_expect_eq(status_with(NULL), 401);
		cr_expect_eq(status_with(NEW_TOKEN), 101);
		cr_expect_eq(listener_stop(listener), 0);
		listener = NULL;
	}
}

Test(reload, another_file_of_tokens_takes_the_place_of_the_first)
{
	char *one = suite_file("one", "shop " OLD_TOKEN "\ntill till-till-till-till\n");
	char *two = suite_file("two", "shop " NEW_TOKEN "\ntill till-till-till-till\n");
	int status;

	write_settings(suite_text("{\"ingest-token-file\": \"%s\"}", one));
	start("");
	struct peer *kept = peer_open(listener_ingest_port(listener), "/events", ACKS, "till-till-till-till", &status);
	cr_assert(kept);
	reload_as(suite_text("{\"ingest-token-file\": \"%s\"}", two));
	expect_logged("changed=ingest-token-file tokens=2");
	cr_expect_eq(status_with(OLD_TOKEN), 401);
	cr_expect_eq(status_with(NEW_TOKEN), 101);
	peer_send_text(kept, "{\"event_id\":\"kept\"}");
	ack_expect(kept, "kept", "persisted");
	cr_expect_eq(listener_metric(listener, "wsonce_token_connections{token=\"till\"}"), 1);
	peer_free(kept);
}

Test(reload, the_level_of_the_log_changes_and_its_line_is_seen_with_the_louder_one)
{
	write_settings("{\"log-level\": \"error\"}");
	start("");
	reload(true);
	cr_expect(!listener_has_logged(listener, "event=reloaded"));
	reload_as("{\"log-level\": \"info\", \"log-format\": \"json\"}");
	expect_logged("\"event\":\"reloaded\"");
	reload_as("{\"log-level\": \"error\", \"log-format\": \"json\"}");
	expect_logged("\"changed\":\"log-level\"");
}

/* --- certificates --- */

/* Returns the subject of the certificate that a new connection gets. */
static char *subject_of(const struct certificate *authority)
{
	char *out = suite_path("subject-%d", suite_number());
	char *command = suite_text("openssl s_client -connect 127.0.0.1:%d -CAfile %s -verify_return_error </dev/null "
				   "2>/dev/null | openssl x509 -noout -subject -pubkey >%s 2>/dev/null; cat %s",
				   listener_ingest_port(listener), authority->cert, out, out);
	FILE *in = popen(command, "r");
	static char text[4000];

	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	pclose(in);
	return text;
}

static void copy(const char *from, const char *to)
{
	cr_assert_eq(process_run((const char *[]){"cp", from, to, NULL}, SOON_MS), 0);
}

Test(reload, a_new_certificate_with_another_kind_of_key_is_the_only_one_that_is_shown)
{
	struct certificate *authority = certificate_authority_new(), *first, *bad;
	char *cert = suite_path("cert.pem"), *key = suite_path("key.pem"), *rsa = suite_path("rsa");

	first = certificate_new_of(
		authority, &(struct certificate_text){.subject = "/CN=first", .names = "DNS:localhost,IP:127.0.0.1"});
	copy(first->cert, cert);
	copy(first->key, key);
	write_settings("{}");
	start(suite_text("--ingest-cert %s --ingest-key %s", cert, key));
	cr_expect(strstr(subject_of(authority), "first"));
	struct relay *relay = relay_new_as(listener_ingest_port(listener), authority, NULL);
	struct peer *open = peer_open_events(relay_port(relay), ACKS);
	cr_assert_eq(
		process_run((const char *[]){"sh", "-c",
					     suite_text("openssl req -newkey rsa:2048 -nodes -keyout %s.key -subj "
							"/CN=second -out %s.csr && "
							"echo subjectAltName=DNS:localhost,IP:127.0.0.1 >%s.ext && "
							"openssl x509 -req -in %s.csr -CA %s -CAkey %s "
							"-CAcreateserial -days 2 -extfile %s.ext -out %s.crt",
							rsa, rsa, rsa, rsa, authority->cert, authority->key, rsa, rsa),
					     NULL},
			    SOON_MS),
		0);
	copy(suite_text("%s.crt", rsa), cert);
	reload(false); /* the key is the old one */
	expect_logged("are not a certificate and its key");
	cr_expect(strstr(subject_of(authority), "first"));
	copy(suite_text("%s.key", rsa), key);
	reload(true);
	expect_logged("certificates=1");
	for (int i = 0; i < 3; i++)
		cr_expect(strstr(subject_of(authority), "second"), "%s", subject_of(authority));
	peer_send_text(open, "{\"event_id\":\"still\"}");
	ack_expect(open, "still", "persisted");
	bad = certificate_new(authority, "DNS:localhost,IP:127.0.0.1");
	copy(bad->cert, cert);
	copy(bad->key, key);
	reload(true);
	cr_expect(!strstr(subject_of(authority), "second"));
	peer_free(open);
	relay_free(relay);
}

static int status_of(const struct certificate *server_authority, const struct certificate *client)
{
	struct relay *relay = relay_new_as(listener_ingest_port(listener), server_authority, client);
	int status;

	peer_free(peer_open(relay_port(relay), "/events", ACKS, NULL, &status));
	relay_free(relay);
	return status;
}

Test(reload, another_authority_of_clients_ends_those_that_the_old_one_signed)
{
	static const char request[] =
		"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
	struct certificate *authority = certificate_authority_new(), *other = certificate_authority_new();
	struct certificate *server = certificate_new(authority, "DNS:localhost");
	struct certificate *old = certificate_new_of(authority, &(struct certificate_text){.subject = "/CN=old"});
	struct certificate *new = certificate_new_of(other, &(struct certificate_text){.subject = "/CN=new"});
	char *ca = suite_path("clients.pem");

	copy(authority->cert, ca);
	write_settings("{}");
	start(suite_text("--ingest-cert %s --ingest-key %s --ingest-client-ca %s", server->cert, server->key, ca));
	cr_expect_eq(status_of(authority, new), 0);
	struct relay *relay = relay_new_as(listener_ingest_port(listener), authority, old);
	struct peer *open = peer_open_events(relay_port(relay), ACKS);
	reload(true);
	cr_expect_eq(status_of(authority, old), 101);
	peer_send_text(open, "{\"event_id\":\"still\"}");
	ack_expect(open, "still", "persisted");
	struct relay *slow_relay = relay_new_as(listener_ingest_port(listener), authority, old);
	struct peer *slow = peer_dial(relay_port(slow_relay));
	peer_send_raw(slow, request, sizeof(request) - 5); /* TLS is done, the upgrade has not come */
	cr_expect_eq(status_of(authority, old), 101);
	copy(other->cert, ca);
	reload(true);
	double refused = listener_metric(listener, "wsonce_ingest_refused_total");
	peer_send_raw(slow, request + sizeof(request) - 5, 4);
	cr_expect(wait_until(listener_metric(listener, "wsonce_ingest_refused_total") == refused + 1, SOON_MS));
	cr_expect_eq(peer_recv_close(open, SOON_MS), 1006);
	expect_logged("its certificate is no longer accepted");
	cr_expect_eq(status_of(authority, old), 0);
	cr_expect_eq(status_of(authority, NULL), 0);
	cr_expect_eq(status_of(authority, new), 101);
	peer_free(open);
	relay_free(relay);
	peer_free(slow);
	relay_free(slow_relay);
}

/* --- webhooks --- */

static char *hook(const char *name, const char *path, const char *more)
{
	return suite_text("{\"name\": \"%s\", \"url\": \"http://127.0.0.1:%d%s\", \"secret-env\": \"HOOK_SECRET\"%s}",
			  name, receiver_port(receiver), path, more);
}

static void send_events(struct peer *p, const char *prefix, int count)
{
	for (int i = 0; i < count; i++)
		peer_sendf(p, "{\"event_id\":\"%s-%d\",\"event_type\":\"sold\",\"payload\":{}}", prefix, i);
	for (int i = 0; i < count; i++)
		cr_assert(peer_recv(p, SOON_MS));
}

Test(reload, webhooks_come_and_go_while_requests_are_at_work)
{
	receiver = receiver_start(NULL);
	write_settings(
		suite_text("{\"webhooks\": [%s, %s]}", hook("stays", "/hold/1", ""), hook("goes", "/hold/2", "")));
	start("");
	struct peer *p = peer_open_events(listener_ingest_port(listener), ACKS);
	send_events(p, "old", 100);
	await(receiver_count(receiver, "/hold/1") >= 16 && receiver_count(receiver, "/hold/2") >= 16, SOON_MS);
	reload_as(suite_text("{\"webhooks\": [%s, %s]}", hook("comes", "/ok", ""),
			     hook("stays", "/hold/1", ", \"concurrency\": 4, \"timeout\": 20")));
	expect_logged("changed=webhooks tokens=0 certificates=0 webhooks=2");
	await(bench_count("wsonce_listeners WHERE targets = '{comes,stays}' AND cardinality(target_urls) = 2") == 1,
	      SOON_MS);
	send_events(p, "new", 100);
	await(receiver_effects(receiver, "/ok") == 100, SOON_MS, "%ld", receiver_effects(receiver, "/ok"));
	receiver_release(receiver);
	await(receiver_effects(receiver, "/hold/1") == 200, WHOLE_MS, "%ld", receiver_effects(receiver, "/hold/1"));
	await(bench_count("outbox where state = 'pending' and target <> 'goes'") == 0, WHOLE_MS);
	cr_expect_eq(bench_count("outbox where target = 'goes'"), 100);
	cr_expect_lt(receiver_effects(receiver, "/hold/2"), 100);
	peer_free(p);
}

Test(reload, webhooks_that_change_during_a_check_in_are_in_the_next_one)
{
	receiver = receiver_start(NULL);
	write_settings(suite_text("{\"webhooks\": [%s]}", hook("zero", "/ok", "")));
	start("");
	await(bench_count("wsonce_listeners") == 1, SOON_MS);
	struct database *lock = database_open(database_conninfo(db));
	database_exec(lock, "BEGIN; LOCK wsonce_listeners IN SHARE MODE");
	reload_as(suite_text("{\"webhooks\": [%s]}", hook("one", "/ok", "")));
	await(bench_count("pg_locks WHERE NOT granted") == 1, SOON_MS);
	reload_as(suite_text("{\"webhooks\": [%s]}", hook("two", "/ok", "")));
	database_exec(lock, "COMMIT");
	await(bench_count("wsonce_listeners WHERE targets = '{two}'") == 1, SOON_MS);
	database_free(lock);
}

Test(reload, a_webhook_with_another_url_and_secret_gets_what_waits_there)
{
	receiver = receiver_start(NULL);
	write_settings(suite_text("{\"webhooks\": [%s]}", hook("shop", "/hold/1", ", \"concurrency\": 2")));
	start("");
	struct peer *p = peer_open_events(listener_ingest_port(listener), ACKS);
	send_events(p, "e", 50);
	await(receiver_count(receiver, "/hold/1") == 2, SOON_MS);
	reload_as(suite_text("{\"webhooks\": [%s]}", hook("shop", "/ok", "")));
	await(receiver_effects(receiver, "/ok") == 48, SOON_MS, "%ld", receiver_effects(receiver, "/ok"));
	receiver_release(receiver);
	await(bench_count("outbox where state = 'pending'") == 0, SOON_MS);
	cr_expect_eq(receiver_count(receiver, "/hold/1") + receiver_count(receiver, "/ok"), 50);
	peer_free(p);
}

/* The rest of its URL is the same, so the rows that wait there go on. */
Test(reload, a_webhook_whose_password_changed_uses_the_new_one)
{
	static const char *const words[] = {"user:old", "user:new"};
	static const char *const encoded[] = {"Basic dXNlcjpvbGQ=", "Basic dXNlcjpuZXc="};

	receiver = receiver_start(NULL);
	for (int i = 0; i < 2; i++) {
		char *text = suite_text("{\"webhooks\": [{\"name\": \"shop\", \"url\": \"http://%s@127.0.0.1:%d/ok\", "
					"\"concurrency\": 1, \"secret-env\": \"HOOK_SECRET\"}]}",
					words[i], receiver_port(receiver));

		if (i == 0) {
			write_settings(text);
			start("");
		} else {
			reload_as(text);
		}
		struct peer *p = peer_open_events(listener_ingest_port(listener), ACKS);
		send_events(p, words[i], 5);
		await(receiver_effects(receiver, "/ok") == 5 * (i + 1), SOON_MS);
		json_t *requests = receiver_requests(receiver, "/ok");
		const json_t *last = json_array_get(requests, json_array_size(requests) - 1);
		cr_expect_str_eq(json_string_value(json_object_get(json_object_get(last, "headers"), "authorization")),
				 encoded[i]);
		json_decref(requests);
		peer_free(p);
	}
}

Test(reload, the_first_webhook_and_the_last_need_a_restart)
{
	receiver = receiver_start(NULL);
	write_settings("{}");
	start("");
	reload_as(suite_text("{\"webhooks\": [%s]}", hook("shop", "/ok", "")));
	expect_logged("webhooks=0 needs_restart=webhooks");
}

Test(reload, a_list_in_feed_needs_no_restart)
{
	struct feed *feed = feed_new();
	const char *path = suite_file(
		"many.json", suite_text("{\"name\": \"many\", \"url\": \"%s\", \"vars\": {\"items\": [\"z\"]}, "
					"\"shard\": {\"var\": \"items\", \"per_connection\": 1}, \"rules\": "
					"[{\"action\": \"event\", \"id\": [[\"/id\"]]}]}",
					feed_url(feed)));

	write_settings(suite_text("{\"feed\": \"%s?items=a,b\"}", path));
	start("");
	reload_as(suite_text("{\"feed\": \"%s?items=a,b,c\"}", path));
	expect_logged("event=reloaded changed=profile:many tokens=0 certificates=0 webhooks=0\n");
	reload_as("{}");
	expect_logged("webhooks=0 needs_restart=profile:many\n");
}

/* --- errors change nothing --- */

Test(reload, an_error_anywhere_changes_nothing)
{
	char *good = "{\"ingest-token\": \"" OLD_TOKEN "\"";

	receiver = receiver_start(NULL);
	write_settings(suite_text("%s}", good));
	start("");
	expect_refused(suite_text("{\"ingest-token\": \"" NEW_TOKEN "\", "), "line 1, column");
	expect_refused("{\"ingest-token\": \"" NEW_TOKEN "\", \"log-level\": \"loud\"}", "log-level in ");
	expect_refused("{\"ingest-token\": \"" NEW_TOKEN "\", \"batch-maxx\": 1}", "did you mean batch-max?");
	expect_refused(suite_text("{\"ingest-token\": \"" NEW_TOKEN "\", \"webhooks\": [%s]}",
				  "{\"name\": \"shop\", \"url\": \"http://127.0.0.1/\", \"secret-env\": \"NOT_SET\"}"),
		       "the variable NOT_SET is not set");
	expect_refused("{\"ingest-token-file\": \"/nowhere\"}", "cannot read /nowhere: No such file or directory");
	expect_refused("{\"ingest-token-file\": \"/tmp\"}", "cannot read /tmp: Is a directory");
	cr_expect_eq(status_with(NEW_TOKEN), 401);
	cr_expect_eq(status_with(OLD_TOKEN), 101);
	cr_assert_eq(unlink(settings), 0);
	reload(false);
	expect_logged("settings.json cannot be read: No such file or directory");
	cr_expect_eq(status_with(OLD_TOKEN), 101);
}

/* The loop would block until something writes to the file. */
Test(reload, files_that_could_be_waited_for_are_refused)
{
	char *pipe = suite_path("pipe"), *large = suite_path("large");
	int fd = open(large, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	cr_assert_eq(mkfifo(pipe, 0600), 0);
	cr_assert_eq(ftruncate(fd, 1 << 30), 0);
	close(fd);
	write_settings("{\"ingest-token\": \"" OLD_TOKEN "\"}");
	start("");
	expect_refused(suite_text("{\"ingest-token-file\": \"%s\"}", pipe), "Operation not supported");
	expect_refused(suite_text("{\"ingest-token-file\": \"%s\"}", large), "File too large");
	expect_refused(suite_text("{\"redis-file\": \"%s\"}", pipe), "Operation not supported");
	expect_refused(suite_text("{\"redis-file\": \"%s\"}", large), "File too large");
	cr_assert_eq(unlink(settings), 0);
	cr_assert_eq(mkfifo(settings, 0600), 0);
	reload(false);
	cr_expect_eq(status_with(OLD_TOKEN), 101);
}

/* --- timing --- */

Test(reload, a_thousand_signals_under_load_lose_nothing)
{
	static struct fleet fleet;

	write_settings("{\"log-level\": \"info\"}");
	fleet_start(&fleet, 1, db, NULL, suite_text("--config %s", settings));
	for (int i = 0; i < 1000; i++) {
		process_signal(listener_process(fleet.listeners[0]), SIGHUP);
		fleet_send(&fleet, 10);
		if (i % 100 == 0)
			write_settings(i % 200 ? "{}" : "{\"log-level\": \"debug\"}");
	}
	write_settings("{\"log-level\": \"warn\"}");
	process_signal(listener_process(fleet.listeners[0]), SIGHUP);
	await(listener_has_logged(fleet.listeners[0], "changed=log-level"), SOON_MS);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_expect_lt(listener_metric(fleet.listeners[0], "wsonce_reloads_total"), 100);
	cr_expect_eq(listener_metric(fleet.listeners[0], "wsonce_reloads_failed_total"), 0);
}

static bool is_catching(int number)
{
	char *at = strstr(suite_read(suite_text("/proc/%d/status", (int)process_id(listener_process(listener)))),
			  "SigBlk:");
	return at && strtoull(at + 7, NULL, 16) >> (number - 1) & 1;
}

Test(reload, a_signal_while_it_starts_is_obeyed_when_it_has_started)
{
	write_settings("{}");
	listener = listener_start(&(struct listener_options){.database = db, .without_waiting = true}, "--config %s",
				  settings);
	await(is_catching(SIGHUP) || listener_has_logged(listener, "starting"), SOON_MS);
	for (int i = 0; i < 20; i++)
		process_signal(listener_process(listener), SIGHUP);
	listener_wait_ready(listener);
	await(listener_metric(listener, "wsonce_reloads_total") >= 1, SOON_MS);
}

Test(reload, a_signal_while_it_drains_changes_nothing)
{
	write_settings("{}");
	start("--drain-timeout 60");
	struct peer *p = peer_open_events(listener_ingest_port(listener), ACKS);
	struct database *lock = fleet_lock(db);
	peer_send_text(p, "{\"event_id\":\"id\"}");
	await(listener_metric(listener, "wsonce_in_flight") == 1, SOON_MS);
	process_signal(listener_process(listener), SIGTERM);
	await(listener_has_logged(listener, "event=draining signal=15"), SOON_MS);
	process_signal(listener_process(listener), SIGHUP);
	await(listener_has_logged(listener, "already draining, not reloading"), SOON_MS);
	fleet_unlock(lock);
	ack_expect(p, "id", "persisted");
	cr_expect_eq(process_wait(listener_process(listener), SOON_MS), 0);
	peer_free(p);
}

/* --- a terminal that is gone --- */

Test(reload, a_listener_leaves_with_its_terminal_and_loses_nothing)
{
	const char *bin = getenv("WSONCE_TEST_BIN");
	char *port = suite_text("127.0.0.1:%d", port_reserve()), *log = suite_path("terminal.log");
	int master, status;
	suite_file("terminal.log", ""); /* it is there before anybody writes to it */
	pid_t pid = forkpty(&master, NULL, NULL, NULL);

	if (pid == 0) {
		int fd = open(log, O_CREAT | O_WRONLY, 0600);

		dup2(fd, 2);
		signal(SIGHUP, SIG_DFL);
		execl(bin ? bin : "build/wsonce", "wsonce", "listen", "--ingest", port, "--redis", "none", "--postgres",
		      database_conninfo(db), (char *)NULL);
		_exit(99);
	}
	await(strstr(suite_read(log), "ingest is open"), SOON_MS);
	kill(pid, SIGHUP);
	await(strstr(suite_read(log), "event=reloaded"), SOON_MS, "%s", suite_read(log));
	close(master);
	await(waitpid(pid, &status, WNOHANG) == pid, SOON_MS, "it stays without its terminal");
	cr_expect_eq(status, 0);
	cr_expect(strstr(suite_read(log), "event=draining signal=1"));
}
