/* Deliveries to a real receiver: what it gets, and the final state of the rows. */
#include "support.h"

#define SOON_MS  20000
#define LEASE_MS 60000 /* for a lease to run out, and what follows */

static struct database *db;
static struct receiver *receiver;
static json_t *hooks;
static struct listener *listeners[8]; /* those that were started; NULL: it was stopped */
static size_t count;

static void init(void)
{
	db = database_new();
	receiver = receiver_start(NULL);
	hooks = json_array();
}

/* Removes l from the list, because the test ends it itself. */
static void forget(struct listener *l)
{
	for (size_t i = 0; i < count; i++)
		if (listeners[i] == l)
			listeners[i] = NULL;
}

static void stop(struct listener *l)
{
	forget(l);
	cr_assert_eq(listener_stop(l), 0, "%s", process_last_words(listener_process(l)));
}

static void fini(void)
{
	for (size_t i = 0; i < count; i++)
		if (listeners[i])
			stop(listeners[i]);
}

TestSuite(webhooks, .init = init, .fini = fini, .timeout = 300);

/* --- listeners --- */

/* Adds a webhook for listeners that are started from now on. members are more of its settings, in the format of
 * json_pack(). */
static void add_hook(const char *name, const char *path, const char *members, ...)
{
	va_list args;

	va_start(args, members);
	json_t *hook = json_vpack_ex(NULL, 0, members, args);
	va_end(args);
	char *url = suite_text("http://127.0.0.1:%d%s", receiver_port(receiver), path);
	cr_assert(hook);
	json_object_set_new(hook, "name", json_string(name));
	json_object_set_new(hook, "secret-env", json_string("HOOK_SECRET"));
	if (!json_object_get(hook, "url"))
		json_object_set_new(hook, "url", json_string(url));
	json_array_append_new(hooks, hook);
}

/* conninfo: NULL for db. */
static struct listener *start_on(const char *conninfo, const char *flags)
{
	const char *const env[] = {"HOOK_SECRET=" RECEIVER_SECRET, NULL};
	json_t *settings = json_pack("{s:O}", "webhooks", hooks);
	char *text = json_dumps(settings, 0);
	char *name = suite_text("settings-%d.json", suite_number());
	char *path = suite_file(name, text);
	struct listener *l =
		listener_start(&(struct listener_options){.database = db, .postgres = conninfo, .env = env},
			       "--config %s %s", path, flags);
	cr_assert_lt(count, sizeof listeners / sizeof *listeners);
	listeners[count++] = l;
	return l;
}

static struct listener *start(const char *flags)
{
	return start_on(NULL, flags);
}

/* A listener makes the tables. */
static void make_tables(void)
{
	add_hook("nobody", "/ok", "{}");
	stop(start(""));
}

/* --- rows --- */

/* Rows for the target: events PREFIX-1 to PREFIX-n. */
static void add_rows(const char *target, const char *prefix, int n)
{
	database_exec(db,
		      "insert into outbox (target, event_id, event_type, payload) "
		      "select '%s', '%s-' || i, 'order.paid', jsonb_build_object('n', i) from generate_series(1, %d) i",
		      target, prefix, n);
}

static long count_rows(const char *where)
{
	return database_long(db, "select count(*) from outbox where %s", where);
}

static void wait_rows(const char *where, long n, int deadline_ms)
{
	if (wait_until(count_rows(where) == n, deadline_ms))
		return;
	char *rows = database_text(db, "select string_agg(o::text, e'\\n') from (select * from outbox limit 5) o");
	cr_assert_fail("%ld rows, not %ld, where %s: %s", count_rows(where), n, where, rows);
}

static const char *header(const json_t *request, const char *name)
{
	return json_string_value(json_object_get(json_object_get(request, "headers"), name));
}

/* --- traces --- */

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

Test(webhooks, traceparent_in_a_payload_goes_along_at_each_attempt_and_nothing_else_does)
{
	add_hook("shop", "/fail/500/1", "{s:f}", "backoff", 0.01);
	start("--traceparent-pointer /meta/traceparent");
	json_t *requests;
	size_t i;

	database_exec(db, "insert into outbox (target, event_id, event_type, payload) values "
			  "('shop', 'with', 'x', '{\"meta\": {\"traceparent\": \"" TRACE "\"}}'), "
			  "('shop', 'without', 'x', '{}'), ('shop', 'null', 'x', null), "
			  "('shop', 'bad', 'x', '{\"meta\": {\"traceparent\": \"00-x\\r\\ny: z\"}}')");
	wait_rows("state = 'delivered'", 4, SOON_MS);
	requests = receiver_requests(receiver, "/fail/500/1");
	cr_assert_eq(json_array_size(requests), 8);
	for (i = 0; i < 8; i++) {
		const json_t *request = json_array_get(requests, i);
		bool has_one = strstr(json_string_value(json_object_get(request, "body")), "\"with\"");

		cr_expect(has_one ? !strcmp(header(request, "traceparent"), TRACE) : !header(request, "traceparent"));
		cr_expect(!header(request, "y"));
	}
}

/* --- rows that stop nobody --- */

/* 131,072 characters each when written out: too long for a Postgres text. */
Test(webhooks, row_whose_numbers_grow_too_long_is_dead_and_stops_no_other)
{
	add_hook("shop", "/ok", "{}");
	struct listener *l = start("");

	database_exec(db, "insert into outbox (target, event_id, event_type, payload) select 'shop', 'grows', 'x', "
			  "('[' || string_agg('1e131071', ',') || ']')::jsonb from generate_series(1, 9000)");
	database_exec(db, "insert into outbox (target, event_id, event_type, payload) values "
			  "('shop', 'long', 'x', '[1e400, -1e-400, 12345678901234567890.5]')");
	add_rows("shop", "e", 20);
	wait_rows("state = 'delivered'", 21, SOON_MS);
	wait_rows("event_id = 'grows' and state = 'dead' and answer like '%%numbers%%' and payload is not null", 1,
		  SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/ok"), 21);
	database_exec(
		db,
		"insert into outbox (target, event_id, event_type, payload) "
		"select target, 'g' || i, 'x', payload from outbox, generate_series(1, 20) i where event_id = 'grows'");
	wait_rows("event_id like 'g%%' and state = 'dead'", 21, SOON_MS);
	cr_assert_eq(listener_count_logged(l, "without an attempt"), 1);
}

static void refuse_updates(const char *event_id, const char *condition)
{
	database_exec(db,
		      "create function refuse() returns trigger language plpgsql as $$ begin "
		      "if new.event_id = '%s' and %s then raise 'not this one'; end if; return new; end $$",
		      event_id, condition);
	database_exec(db, "create trigger refuse before update on outbox for each row execute function refuse()");
}

Test(webhooks, row_that_cannot_be_leased_is_dead_and_stops_no_other)
{
	add_hook("shop", "/ok", "{}");
	add_hook("other", "/ok/", "{}");
	make_tables();
	refuse_updates("e-3", "new.attempts > old.attempts");
	add_rows("shop", "e", 20);
	add_rows("other", "o", 20);
	start("");

	wait_rows("state = 'delivered'", 39, SOON_MS);
	wait_rows("event_id = 'e-3' and state = 'dead' and answer like 'not this one%%'", 1, SOON_MS);
}

Test(webhooks, row_of_which_nothing_can_be_recorded_stops_no_other)
{
	add_hook("shop", "/ok", "{}");
	make_tables();
	refuse_updates("e-3", "new.state = 'delivered'");
	add_rows("shop", "e", 20);
	struct listener *l = start("");

	wait_rows("state = 'delivered'", 19, SOON_MS);
	add_rows("shop", "f", 20);
	wait_rows("state = 'delivered'", 39, SOON_MS);
	cr_assert(listener_has_logged(l, "cannot record the outcome"));
}

Test(webhooks, row_that_cannot_be_recorded_among_many_has_no_other_sent_again)
{
	add_hook("shop", "/ok", "{s:i}", "batch", 100);
	make_tables();
	refuse_updates("e-3", "new.state = 'delivered'");
	add_rows("shop", "e", 20000);
	start("");

	wait_rows("state = 'delivered'", 19999, SOON_MS);
}

/* As by a transaction that somebody forgot in psql. */
Test(webhooks, row_that_somebody_has_locked_stops_no_record)
{
	struct database *other = database_open(database_conninfo(db));

	add_hook("shop", "/hold/1", "{s:i}", "concurrency", 20);
	struct listener *l = start("");
	add_rows("shop", "e", 20);
	await(receiver_count(receiver, "/hold/1") == 20, SOON_MS);
	database_exec(other, "begin");
	database_exec(other, "select from outbox where event_id in ('e-3', 'e-4') for update");
	receiver_release(receiver);
	wait_rows("state = 'delivered'", 18, SOON_MS);
	add_rows("shop", "f", 20);
	wait_rows("state = 'delivered'", 38, SOON_MS);
	await(strstr(listener_http(l, "/readyz", NULL), "degraded: deliveries to webhooks wait"), SOON_MS);
	database_exec(other, "rollback");
	wait_rows("state = 'delivered'", 40, SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/hold/1"), 40);
}

Test(webhooks, pause_that_somebody_has_not_committed_stops_no_record)
{
	struct database *other = database_open(database_conninfo(db));

	add_hook("shop", "/ok", "{}");
	add_hook("gone", "/fail/410/9", "{}");
	start("");
	database_exec(other, "begin");
	database_exec(other, "insert into webhook_pauses (target, reason) values ('gone', 'by hand')");
	add_rows("gone", "g", 1);
	await(receiver_count(receiver, "/fail/410/9") == 1, SOON_MS);
	add_rows("shop", "e", 20);
	wait_rows("state = 'delivered'", 20, SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/ok"), 20);
	database_exec(other, "rollback");
	await(database_long(db, "select count(*) from webhook_pauses") == 1, SOON_MS);
	database_free(other);
}

/* As by VACUUM FULL. The query of the backlog, every 15 s, reads that table. */
Test(webhooks, locked_table_of_listeners_does_not_stop_deliveries)
{
	struct database *other = database_open(database_conninfo(db));

	add_hook("shop", "/ok", "{}");
	start("");
	add_rows("shop", "first", 1);
	await(receiver_count(receiver, "/ok") == 1, LEASE_MS);
	database_exec(other, "begin; lock table wsonce_listeners");
	await(database_long(db, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and "
				"query ilike '%%with recursive names%%'") == 1,
	      LEASE_MS);
	add_rows("shop", "e", 20);
	await(receiver_count(receiver, "/ok") == 21, 10000);
	database_free(other);
}

Test(webhooks, outcomes_that_cannot_be_recorded_do_not_fill_the_log)
{
	add_hook("shop", "/ok", "{}");
	make_tables();
	database_exec(db, "create function refuse() returns trigger language plpgsql as $$ begin "
			  "if new.state = 'delivered' then raise 'none'; end if; return new; end $$");
	database_exec(db, "create trigger refuse before update on outbox for each row execute function refuse()");
	add_rows("shop", "e", 100);
	struct listener *l = start("");

	await(receiver_count(receiver, "/ok") == 100, SOON_MS);
	await(listener_has_logged(l, "cannot record the outcome"), SOON_MS);
	wait_pause_ms(2000);
	cr_assert_leq(listener_count_logged(l, "cannot record"), 2);
}

/* --- what a name means --- */

/* The user and password of a URL are ignored. */
Test(webhooks, name_that_means_another_url_to_another_listener_is_told)
{
	add_hook("shop", "/ok", "{}");
	add_hook("other", "/ok", "{}");
	struct listener *first = start("");

	json_array_clear(hooks);
	add_hook("shop", "/ok?of=another", "{}");
	char *url = suite_text("http://user:pass@127.0.0.1:%d/ok", receiver_port(receiver));
	add_hook("other", "", "{s:s}", "url", url);
	struct listener *second = start("");

	await(listener_has_logged(second, "different URLs on different listeners") &&
		      listener_has_logged(first, "different URLs on different listeners"),
	      LEASE_MS);
	cr_assert(listener_has_logged(second, "targets=shop\n"));
}

/* --- one delivery --- */

Test(webhooks, delivery_comes_once_and_signed_and_its_row_is_settled)
{
	add_hook("shop", "/ok", "{}");
	add_hook("cloud", "/ok/", "{s:s}", "format", "cloudevents");
	struct listener *l = start("");

	add_rows("of-nobody", "o", 1);
	add_rows("cloud", "c", 1);
	database_exec(db, "insert into outbox (target, event_id, event_type, payload, created_at) values ('shop', "
			  "'a \"quoted\"\\ id', e'type\\n\u00e9', '{\"amount\": 12345678901234567890.50}', "
			  "'2026-03-01T12:00:00.000001+02:00')");
	wait_rows("state = 'delivered'", 2, SOON_MS);
	cr_assert_eq(count_rows("status = 200 and settled_at is not null and payload is null and answer is null "
				"and attempts = 1"),
		     2);
	cr_assert_eq(count_rows("target = 'of-nobody' and state = 'pending' and attempts = 0"), 1);
	json_t *cloud = receiver_requests(receiver, "/ok/");
	cr_assert_str_eq(header(json_array_get(cloud, 0), "content-type"), "application/cloudevents+json");
	cr_assert_eq(receiver_effects(receiver, "/ok"), 1);
	json_t *all = receiver_requests(receiver, "/ok"), *request = json_array_get(all, 0);
	cr_assert_eq(json_array_size(all), 1);
	cr_assert_str_eq(json_string_value(json_object_get(request, "body")),
			 "{\"type\":\"type\\n\u00e9\",\"timestamp\":\"2026-03-01T10:00:00.000001Z\","
			 "\"id\":\"a \\\"quoted\\\"\\\\ id\",\"data\":{\"amount\": 12345678901234567890.50}}");
	cr_assert_str_eq(header(request, "content-type"), "application/json");
	cr_assert_eq(strncmp(header(request, "user-agent"), "wsonce/", 7), 0);
	cr_assert_eq(strncmp(header(request, "webhook-id"), "msg_", 4), 0);
	cr_assert_eq(strlen(header(request, "webhook-id")), 36);
	cr_assert_str_eq(header(request, "webhook-id"), header(request, "idempotency-key"));
	cr_assert_leq(labs(strtol(header(request, "webhook-timestamp"), NULL, 10) - time(NULL)), 120);
	cr_assert_null(header(request, "expect"));
	cr_assert_eq(listener_metric(l, "wsonce_deliveries_total{target=\"shop\",outcome=\"delivered\"}"), 1);
}

/* A path that a receiver echoes, as many servers do, is masked: everybody who may read the outbox sees it. */
Test(webhooks, answers_decide_what_becomes_of_a_delivery)
{
	static const struct {
		const char *name, *path, *settings, *row;
		long requests; /* 0: not judged */
	} cases[] = {
		{"refuses", "/fail/422/99", "{}",
		 "state = 'dead' and attempts = 1 and status = 422 and answer = 'no, says ?the receiver ' and "
		 "settled_at is not null and payload = '{\"n\": 1}'",
		 1},
		{"fails", "/fail/503/99", "{\"backoff\": 0.05, \"attempts\": 3}",
		 "state = 'dead' and attempts = 3 and status = 503", 3},
		{"never-answers", "/hang/99", "{\"backoff\": 0.05, \"attempts\": 2, \"timeout\": 1.5}",
		 "state = 'dead' and attempts = 2 and status is null and answer ilike '%timed out%'", 2},
		{"hangs", "/hang/1", "{\"backoff\": 0.05, \"timeout\": 2}", "state = 'delivered' and attempts = 2", 2},
		{"resets", "/reset/2", "{\"backoff\": 0.05}", "state = 'delivered' and attempts >= 2", 0},
		{"redirects", "/redirect", "{\"backoff\": 0.05, \"attempts\": 2}",
		 "state = 'dead' and status = 302 and attempts = 2 and answer like 'redirects are not followed: set "
		 "the webhook''s url to where this one leads, http://127.0.0.1:%/***'",
		 2},
		{"echoes", "/echo/a-token-in-the-path?key=a-token-in-the-query", "{}",
		 "state = 'dead' and answer like 'Cannot POST **%?key=**%' and answer not like '%token%'", 0},
		{"asks-for-ages", "/later/2147483648", "{}",
		 "attempts = 1 and status = 429 and due_at between now() + interval '5 hours' and now() + interval '7 "
		 "hours'",
		 1},
	};
	size_t n = sizeof(cases) / sizeof(*cases);

	for (size_t i = 0; i < n; i++)
		add_hook(cases[i].name, cases[i].path, "O", json_loads(cases[i].settings, 0, NULL));
	start("");
	for (size_t i = 0; i < n; i++)
		add_rows(cases[i].name, "e", 1);
	for (size_t i = 0; i < n; i++) {
		wait_rows(suite_text("target = '%s' and %s", cases[i].name, cases[i].row), 1, SOON_MS);
		if (cases[i].requests)
			cr_expect_eq(receiver_count(receiver, cases[i].path), cases[i].requests, "%s", cases[i].name);
	}
	cr_assert_eq(receiver_effects(receiver, "/reset/2"), 1);
	cr_assert_eq(receiver_effects(receiver, "/hang/1"), 1);
	cr_assert_eq(receiver_count(receiver, "/redirected"), 0);
}

/* One after the other, so that later requests reuse the handle of an earlier one. */
Test(webhooks, request_knows_nothing_of_the_one_before)
{
	add_hook("shop", "/accents", "{s:i}", "concurrency", 1);
	start("");

	for (int i = 1; i <= 4; i++) {
		add_rows("shop", suite_text("e%d", i), 1);
		wait_rows("state = 'dead' and answer = 'x' || repeat('\u00e9', 511)", i, SOON_MS);
	}
	cr_assert_eq(receiver_effects(receiver, "/accents"), 4);
}

/* Milliseconds between the first two requests to path. */
static long gap_ms(const char *path)
{
	json_t *all = receiver_requests(receiver, path);
	long first = (long)json_integer_value(json_object_get(json_array_get(all, 0), "at_ms"));
	long second = (long)json_integer_value(json_object_get(json_array_get(all, 1), "at_ms"));

	return second - first;
}

Test(webhooks, next_attempt_waits_for_as_long_as_the_answer_asks)
{
	add_hook("seconds", "/later/3", "{s:f}", "backoff", 0.001);
	add_hook("date", "/date/4", "{s:f}", "backoff", 0.001);
	start("");

	add_rows("seconds", "e", 1);
	add_rows("date", "e", 1);
	wait_rows("state = 'delivered'", 2, SOON_MS);
	cr_assert_geq(gap_ms("/later/3"), 2900);
	cr_assert_geq(gap_ms("/date/4"), 2500); /* dates have whole seconds */
}

Test(webhooks, answer_of_any_length_is_read_to_an_end)
{
	add_hook("huge", "/huge", "{}");
	add_hook("endless", "/endless/200", "{s:f}", "timeout", 600.0);
	add_hook("endless-refusal", "/endless/400", "{s:f}", "timeout", 600.0);
	add_hook("heads", "/heads/200", "{s:f}", "timeout", 600.0);
	add_hook("trailers", "/trailers/200", "{s:f}", "timeout", 600.0);
	add_hook("extension", "/extension/200", "{s:f}", "timeout", 600.0);
	start("");

	add_rows("heads", "e", 1);
	add_rows("trailers", "e", 1);
	add_rows("extension", "e", 1);
	add_rows("huge", "e", 1);
	add_rows("endless", "e", 1);
	add_rows("endless-refusal", "e", 1);
	wait_rows("state = 'delivered' and status = 200", 5, SOON_MS);
	wait_rows("state = 'dead' and status = 400 and answer like 'and so on%%' and length(answer) <= 1024", 1,
		  SOON_MS);
	cr_assert_eq(
		database_long(db, "SELECT count(*) FROM outbox AS o, outbox AS e WHERE e.target = 'endless' "
				  "AND o.target IN ('heads', 'trailers', 'extension') AND o.settled_at < e.settled_at"),
		3, "they are read for as long as a body");
}

/* The listener stands still, so that it finds the answer and the reset at once. */
Test(webhooks, answer_before_a_reset_counts)
{
	add_hook("shop", "/last/422", "{s:i}", "attempts", 1);
	struct listener *l = start("");

	add_rows("shop", "e", 1);
	await(receiver_count(receiver, "/last/422") == 1, SOON_MS);
	process_signal(listener_process(l), SIGSTOP);
	receiver_release(receiver);
	await(receiver_extras(receiver) == 1, SOON_MS);
	process_signal(listener_process(l), SIGCONT);
	wait_rows("state = 'dead' and status = 422", 1, SOON_MS);
}

/* An unexpected answer is already in the connection when the next request is sent. */
static long count_answered(struct receiver *r, const char *path)
{
	json_t *all = receiver_requests(r, path), *request;
	size_t i;
	long n = 0;

	json_array_foreach(all, i, request) n += json_is_true(json_object_get(request, "is_answered"));
	return n;
}

Test(webhooks, answer_that_was_there_before_the_request_is_not_its_answer)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *good = certificate_new(authority, "IP:127.0.0.1");
	struct receiver *tls = receiver_start(good);
	char *url = suite_text("https://127.0.0.1:%d/extra/500", receiver_port(tls));
	add_hook("plain", "/extra/500", "{s:i, s:i}", "attempts", 1, "concurrency", 1);
	add_hook("tls", "", "{s:s, s:s, s:i, s:i}", "url", url, "ca", authority->cert, "attempts", 1, "concurrency", 1);
	start("");

	for (int i = 1; i <= 4; i++) {
		add_rows("plain", "e", 1);
		add_rows("tls", "e", 1);
		wait_rows("state <> 'pending'", 2 * i, SOON_MS);
		receiver_release(receiver);
		receiver_release(tls);
		await(receiver_extras(receiver) == i && receiver_extras(tls) == i, SOON_MS);
	}
	cr_assert_eq(count_rows("state = 'dead' and status = 500"), 8);
	cr_assert_eq(receiver_count(receiver, "/extra/500"), 4);
}

/* The socket is empty: OpenSSL has read the extra answer with the first. */
Test(webhooks, answer_in_the_same_tls_record_as_another_is_not_the_next_one)
{
	struct certificate *authority = certificate_authority_new();
	struct receiver *tls = receiver_start(certificate_new(authority, "IP:127.0.0.1"));
	char *url = suite_text("https://127.0.0.1:%d/record", receiver_port(tls));
	add_hook("tls", "", "{s:s, s:s, s:i, s:i}", "url", url, "ca", authority->cert, "attempts", 1, "concurrency", 1);
	start("");

	for (int i = 1; i <= 3; i++) {
		add_rows("tls", "e", 1);
		wait_rows("state <> 'pending'", i, SOON_MS);
	}
	cr_assert_eq(count_rows("state = 'delivered' and status = 200"), 3);
}

/* How many ports the requests to path came from. */
static size_t count_connections(const char *path)
{
	json_t *all = receiver_requests(receiver, path), *ports = json_object(), *request;
	size_t i;

	json_array_foreach(all, i, request)
	{
		char port[20];

		snprintf(port, sizeof port, "%lld", json_integer_value(json_object_get(request, "port")));
		json_object_set_new(ports, port, json_true());
	}
	size_t n = json_object_size(ports);
	json_decref(ports);
	json_decref(all);
	return n;
}

/* A failing receiver may send a second answer while the next request is in flight. */
Test(webhooks, connection_is_used_again_only_after_a_success)
{
	add_hook("ok", "/ok", "{s:i}", "concurrency", 1);
	add_hook("bad", "/fail/500/9", "{s:i, s:i}", "attempts", 1, "concurrency", 1);
	add_hook("moved", "/redirect", "{s:i, s:i}", "attempts", 1, "concurrency", 1);
	start("");

	for (int i = 1; i <= 3; i++) {
		add_rows("ok", "e", 1);
		wait_rows("state = 'delivered'", i, SOON_MS);
	}
	for (int i = 1; i <= 3; i++) {
		add_rows("bad", "e", 1);
		add_rows("moved", "e", 1);
		wait_rows("state = 'dead'", 2 * i, SOON_MS);
	}
	cr_assert_eq(count_connections("/ok"), 1);
	cr_assert_eq(count_connections("/fail/500/9"), 3);
	cr_assert_eq(count_connections("/redirect"), 3);
}

/* The process gets a limit below the number of its open files, so it cannot open a socket. */
Test(webhooks, want_of_files_is_no_attempt)
{
	add_hook("shop", "/ok", "{s:i}", "attempts", 1);
	struct listener *l = start("");

	process_limit_files(listener_process(l), 3);
	add_rows("shop", "e", 1);
	await(listener_has_logged(l, "pausing it\" target=shop reason=\"Too many open files\""), SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/ok"), 0);
	process_limit_files(listener_process(l), 1000);
	wait_rows("state = 'delivered' and attempts = 1", 1, SOON_MS);
}

Test(webhooks, fault_on_this_side_is_no_attempt)
{
	char *url = suite_text("https://127.0.0.1:%d/ok", receiver_port(receiver));
	add_hook("shop", "", "{s:s, s:s, s:i}", "url", url, "ca", "/nowhere/ca.pem", "attempts", 1);
	struct listener *l = start("");

	add_rows("shop", "e", 1);
	await(listener_has_logged(l, "cannot make requests"), SOON_MS);
	stop(l);
	cr_assert_eq(count_rows("state = 'pending' and attempts = 0"), 1);
}

Test(webhooks, certificate_is_verified_against_the_given_authority)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *good = certificate_new(authority, "IP:127.0.0.1");
	struct receiver *tls = receiver_start(good);
	char *url = suite_text("https://127.0.0.1:%d/ok", receiver_port(tls));
	add_hook("known", "", "{s:s, s:s}", "url", url, "ca", authority->cert);
	add_hook("unknown", "", "{s:s, s:i}", "url", url, "attempts", 1);
	start("");

	add_rows("known", "e", 1);
	add_rows("unknown", "e", 1);
	wait_rows("target = 'known' and state = 'delivered'", 1, SOON_MS);
	wait_rows("target = 'unknown' and state = 'dead' and answer ilike '%%certificate%%'", 1, SOON_MS);
}

Test(webhooks, common_name_of_a_certificate_is_no_host_name)
{
	struct certificate *authority = certificate_authority_new();
	const struct certificate_text texts[] = {{.subject = "/CN=127.0.0.1"},
						 {.subject = "/CN=127.0.0.1", .names = "email:a@b"}};
	start("");

	for (int i = 0; i < 2; i++) {
		struct receiver *tls = receiver_start(certificate_new_of(authority, &texts[i]));
		char *url = suite_text("https://127.0.0.1:%d/ok", receiver_port(tls)), *name = suite_text("h%d", i);
		add_hook(name, "", "{s:s, s:s, s:i}", "url", url, "ca", authority->cert, "attempts", 1);
	}
	stop(listeners[0]);
	start("");
	add_rows("h0", "e", 1);
	add_rows("h1", "e", 1);
	wait_rows("state = 'dead' and answer like '%%mismatch%%'", 2, SOON_MS);
}

Test(webhooks, certificate_is_shown_to_a_receiver_that_wants_one)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *client = certificate_new(authority, "DNS:client");
	struct receiver *tls = receiver_start_for(certificate_new(authority, "IP:127.0.0.1"), authority);
	char *url = suite_text("https://127.0.0.1:%d/ok", receiver_port(tls));
	add_hook("known", "", "{s:s, s:s, s:s, s:s}", "url", url, "ca", authority->cert, "cert", client->cert, "key",
		 client->key);
	add_hook("unknown", "", "{s:s, s:s, s:i}", "url", url, "ca", authority->cert, "attempts", 1);
	add_hook("broken", "", "{s:s, s:s, s:s, s:i}", "url", url, "ca", authority->cert, "cert", "/nowhere",
		 "attempts", 1);
	start("");

	add_rows("known", "e", 1);
	add_rows("unknown", "e", 1);
	add_rows("broken", "e", 1);
	wait_rows("target = 'known' and state = 'delivered'", 1, SOON_MS);
	wait_rows("target = 'unknown' and state = 'dead' and status is null", 1, SOON_MS);
	cr_assert_eq(count_rows("target = 'broken' and state = 'pending'"), 1);
}

Test(webhooks, headers_are_sent_and_masked_in_what_a_receiver_echoes)
{
	add_hook("shop", "/echo", "{s:{s:s, s:s}}", "headers", "X-Key", "a-long-token", "X-Plain", "plain words");
	start("");

	add_rows("shop", "e", 1);
	wait_rows("state = 'dead' and answer like '%%x-key: ************%%' and answer not like '%%a-long-token%%'", 1,
		  SOON_MS);
	json_t *all = receiver_requests(receiver, "/echo"), *request = json_array_get(all, 0);
	cr_assert_str_eq(header(request, "x-key"), "a-long-token");
	cr_assert_str_eq(header(request, "x-plain"), "plain words");
	cr_assert_str_eq(header(request, "content-type"), "application/json");
}

/* The first KiB of the answer ends inside the token. */
Test(webhooks, token_in_an_echo_that_is_cut_is_masked)
{
	char url[1012];

	memset(url, 'p', sizeof url);
	memcpy(url, "/echo?x=", 8);
	url[sizeof url - 14] = '\0';
	add_hook("shop", url, "{s:{s:s}}", "headers", "X-Key", "a-long-token");
	start("");

	add_rows("shop", "e", 1);
	wait_rows("state = 'dead' and length(answer) = 1024 and answer like '%%x-key: ******'", 1, SOON_MS);
}

/* --- targets --- */

static void wait_paused(const char *target, const char *reason)
{
	await(database_long(db, "select count(*) from webhook_pauses where target = '%s' and reason = '%s'", target,
			    reason) == 1,
	      SOON_MS, "%s is not paused", target);
}

/* Listeners report their webhooks at check-ins. */
static void wait_attended(const char *target)
{
	await(database_long(db, "select count(*) from wsonce_listeners where '%s' = any(targets)", target) > 0, SOON_MS,
	      "no listener has %s", target);
}

Test(webhooks, target_that_fails_is_paused_and_does_not_hold_up_another)
{
	add_hook("down", "/down/503/8", "{s:f, s:i}", "backoff", 0.01, "concurrency", 4);
	add_hook("up", "/ok", "{}");
	struct listener *l = start("");

	add_rows("down", "d", 20);
	await(count_rows("target = 'down' and attempts > 0") >= 4, SOON_MS);
	add_rows("up", "u", 50);
	wait_rows("target = 'up' and state = 'delivered'", 50, SOON_MS);
	wait_rows("target = 'down' and state = 'delivered'", 20, LEASE_MS);
	cr_assert(listener_has_logged(l, "webhook fails"));
	cr_assert_not(listener_has_logged(l, "reason=\"\""));
	await(listener_has_logged(l, "webhook accepts deliveries again"), LEASE_MS);
	cr_assert_eq(database_long(db, "select sum(attempts) from outbox where target = 'down'"), 28);
	cr_assert_eq(receiver_effects(receiver, "/down/503/8"), 20);
}

struct poison {
	const char *name, *path;
	double timeout;
	int concurrency;
};

/* Six deliveries that always fail. */
static void must_pass_poison(const struct poison *p)
{
	add_hook(p->name, p->path, "{s:f, s:f, s:f, s:i, s:i}", "backoff", 0.05, "backoff-cap", 0.1, "timeout",
		 p->timeout, "concurrency", p->concurrency, "attempts", 1000);
	struct listener *l = start("");

	database_exec(db,
		      "insert into outbox (target, event_id, event_type) select '%s', 'bad-' || i, 'bad' from "
		      "generate_series(1, 6) i",
		      p->name);
	wait_rows(suite_text("target = '%s' and answer is not null", p->name), 6, SOON_MS);
	add_rows(p->name, "good", 500);
	wait_rows(suite_text("target = '%s' and state = 'delivered' and attempts = 1", p->name), 500, SOON_MS);
	cr_assert_eq(count_rows(suite_text("target = '%s' and state = 'pending'", p->name)), 6, "%s", p->path);
	stop(l);
	json_array_clear(hooks);
}

/* The probes find the others, also if somebody has locked the newest one. */
Test(webhooks, hundred_deliveries_that_fail_first_stop_no_other)
{
	struct database *other = database_open(database_conninfo(db));

	add_hook("w", "/bad/500", "{s:i, s:i}", "concurrency", 8, "backoff", 60);
	database_exec(db, "insert into outbox (target, event_id, event_type) select 'w', 'bad-' || i, 'bad' from "
			  "generate_series(1, 100) i");
	add_rows("w", "good", 501);
	database_exec(other, "begin");
	database_exec(other, "select from outbox order by id desc limit 1 for update");
	start("");
	wait_rows("state = 'delivered'", 500, LEASE_MS);
	cr_assert_eq(count_rows("state = 'pending' and event_type = 'bad'"), 100);
}

Test(webhooks, six_deliveries_that_always_fail_stop_no_other)
{
	static const struct poison poisons[] = {
		{"refuses", "/bad/500", 5, 8},
		{"hangs", "/bad/0", 1, 8},
		{"one-by-one", "/bad/503", 5, 1},
		{"slots", "/bad/0", 5, 4},
	};

	for (size_t i = 0; i < sizeof(poisons) / sizeof(*poisons); i++)
		must_pass_poison(&poisons[i]);
}

Test(webhooks, webhook_that_fails_is_named_with_since_when_and_why)
{
	add_hook("good", "/ok", "{}");
	add_hook("shop", "/bad/500", "{s:f, s:f}", "backoff", 600.0, "backoff-cap", 600.0);
	struct listener *l = start("");

	cr_assert(strstr(listener_http(l, "/readyz", NULL), "ready\n"));
	database_exec(db, "insert into outbox (target, event_id, event_type) select 'shop', i, 'bad' from "
			  "generate_series(1, 5) i");
	static const char failed[] = "webhook shop has failed since 20";
	await(strstr(listener_http(l, "/readyz", NULL), failed), SOON_MS);
	cr_assert(strstr(listener_http(l, "/readyz", NULL), "Z: it answered 500\n"));
	cr_assert_eq(listener_status(l, "/readyz"), 200);
	cr_assert(strstr(listener_http(l, "/api/status", NULL), ": it answered 500\""));
	run_await(db, 1, failed, SOON_MS, "status");
	add_rows("shop", "e", 1);
	wait_rows("state = 'delivered'", 1, SOON_MS);
	await(strstr(listener_http(l, "/readyz", NULL), "ready\n"), SOON_MS);
}

/* A table was changed, or a right was revoked. */
Test(webhooks, outbox_that_cannot_be_used_is_told)
{
	add_hook("shop", "/ok", "{}");
	struct listener *l = start("");

	database_exec(db, "alter table outbox rename column leases to others");
	add_rows("shop", "e", 3);
	await(strstr(listener_http(l, "/readyz", NULL), "degraded: deliveries to webhooks wait"), SOON_MS);
	cr_assert_eq(listener_status(l, "/readyz"), 200);
	cr_assert(strstr(listener_http(l, "/api/status", NULL), "leases"));
	run_await(db, 1, "deliveries to webhooks wait: ", SOON_MS, "status");
	database_exec(db, "alter table outbox rename column others to leases");
	wait_rows("state = 'delivered'", 3, LEASE_MS);
	await(strstr(listener_http(l, "/readyz", NULL), "ready\n"), SOON_MS);
}

/* Paused once for the whole fleet, with no dead delivery, until an operator resumes it. */
Test(webhooks, receiver_that_is_gone_is_sent_nothing_until_it_is_resumed)
{
	add_hook("shop", "/down/410/1", "{s:i}", "concurrency", 1);
	struct listener *one = start("");

	add_rows("shop", "e", 20);
	wait_paused("shop", "its receiver answered 410 (Gone)");
	cr_assert(strstr(run_on(db, "status").output, "webhook shop has been paused since "));
	cr_assert_eq(count_rows("state = 'pending' and attempts = 0 and status is null"), 20);
	long requests = receiver_count(receiver, "/down/410/1");
	stop(one);
	struct listener *other = start("");
	await(listener_metric(other, "wsonce_webhook_paused") == 1, SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/down/410/1"), requests);
	run_expect(db, 0, "resumed shop\n", "webhooks resume shop");
	wait_rows("state = 'delivered' and attempts = 1", 20, SOON_MS);
	cr_assert_eq(receiver_effects(receiver, "/down/410/1"), 20);
}

Test(webhooks, webhook_that_an_operator_pauses_waits_and_is_named)
{
	add_hook("shop", "/ok", "{}");
	struct listener *l = start("");
	wait_attended("shop");

	run_expect(db, 0, "paused shop", "webhooks pause shop --note moving");
	static const char paused[] = "webhook shop has been paused since 20";
	run_await(db, 1, paused, SOON_MS, "status");
	run_await(db, 1, "Z: moving\n", SOON_MS, "status");
	await(strstr(listener_http(l, "/readyz", NULL), paused), SOON_MS);
	cr_assert(strstr(listener_http(l, "/readyz", NULL), "Z: moving\n"));
	cr_assert(strstr(listener_http(l, "/api/status", NULL), "\"reason\": \"moving\""));
	add_rows("shop", "e", 3);
	run_expect(db, 0, "shop                 paused     pending 3 (0 failing), dead 0: moving\n", "webhooks list");
	run_expect(db, 0, "\"paused_by\"", "webhooks show --json shop");
	cr_assert_eq(receiver_count(receiver, "/ok"), 0);
	run_expect(db, 0, "resumed shop\n", "webhooks resume shop");
	wait_rows("state = 'delivered'", 3, SOON_MS);
	run_expect(db, 0, "shop                 delivering pending 0 (0 failing), dead 0\n", "webhooks list");
	run_expect_error(db, 1, "not paused", "webhooks resume shop");
	/* A removed webhook is not reported once its deliveries have been discarded. */
	database_exec(
		db,
		"INSERT INTO webhook_pauses (target, reason) VALUES ('retired', 'its receiver answered 410 (Gone)')");
	cr_assert_null(strstr(run_on(db, "status").output, "paused since"));
	add_rows("retired", "r", 1);
	cr_assert(strstr(run_on(db, "status").output, "webhook retired has been paused since"));
	await(!strstr(listener_http(l, "/readyz", NULL), "paused since"), SOON_MS);
	run_expect_error(db, 1, "no running listener has a webhook shpo", "webhooks pause shpo");
}

static char *key_of(const char *id)
{
	json_t *all = receiver_requests(receiver, "/ok"), *request;
	size_t i;
	json_array_foreach(
		all, i, request) if (strstr(json_string_value(json_object_get(request, "body")),
					    id)) return suite_text("%s",
								   json_string_value(json_object_get(request, "key")));
	cr_assert_fail("no request of %s", id);
	return NULL;
}

/* The newest dead deliveries are counted, of all webhooks together. */
Test(webhooks, webhook_may_have_more_dead_deliveries_than_are_counted)
{
	make_tables();
	database_exec(db, "insert into outbox (target, event_id, event_type, state, settled_at) select case when i < 4 "
			  "then 'shop' else 'crm' end, i, 't', 'dead', now() from generate_series(1, 20000) as i");
	database_exec(db, "insert into webhook_pauses (target, reason) values ('shop', 'x')");
	run_expect(db, 0, "pending 0 (0 failing), dead 3: x\n", "webhooks list");
	database_exec(db, "insert into outbox (target, event_id, event_type, state, settled_at) select 'crm', i, 't', "
			  "'dead', now() from generate_series(1, 4) as i");
	run_expect(db, 0, "pending 0 (0 failing), dead 0 (or more): x\n", "webhooks list");
	run_expect(db, 0, "dead 20001 (or more)\n", "webhooks list");
	run_expect(db, 0, "dead_counted the newest 20001 of all webhooks\n", "webhooks show shop");
}

/* Also to a webhook that had none of them; a payload that was purged is not sent. */
Test(webhooks, stored_events_are_sent_again_under_their_first_keys)
{
	add_hook("shop", "/ok", "{s:[s]}", "types", "none");
	start("");
	wait_attended("shop");
	database_exec(db,
		      "insert into events (event_id, event_type, payload, processed_at) select 'e-' || i, 'type-' || "
		      "i %% 2, '{}', now() - i * interval '1 second' from generate_series(1, 2500) as i");
	database_exec(db, "update events set purged_at = now() where event_id = 'e-7'");

	run_expect(db, 0, "would queue 2499, left out 0", "webhooks resend shop --since 2h --dry-run");
	run_expect(db, 0, "queued 1, left out 0", "webhooks resend shop --event e-2500");
	wait_rows("state = 'delivered' and event_id = 'e-2500'", 1, SOON_MS);
	char *key = key_of("e-2500");
	run_expect(db, 0, "paused", "webhooks pause shop");
	run_expect(db, 0, "queued 1250, left out 0", "webhooks resend shop --since 2h --type type-0");
	run_expect_error(db, 0, "wsonce: shop is paused: its deliveries wait\n",
			 "webhooks resend shop --until 1h --since 2h");
	run_expect(db, 0, "queued 1249, left out 1250", "webhooks resend shop --since 2h");
	run_expect(db, 0, "queued 0, left out 0", "webhooks resend shop --since 2h --until 1h");
	run_expect_error(db, 2, "--since must be before --until", "webhooks resend shop --since 1h --until 2h");
	run_expect_error(db, 1, "no event \"it's\" is stored", "webhooks resend shop --event \"it's\"");
	run_expect_error(db, 1, "no event e-7 is stored, or its payload was purged",
			 "webhooks resend shop --event e-7");
	run_expect_error(db, 1, "no event e-2500 is stored in that time",
			 "webhooks resend shop --event e-2500 --since 40m");
	run_expect_error(db, 1, "in that time", "webhooks resend shop --event e-2500 --until 50m");
	run_expect_error(db, 2, "--since or --event", "webhooks resend shop");
	run_expect(db, 0, "resumed", "webhooks resume shop");
	wait_rows("state = 'delivered'", 2500, SOON_MS);
	cr_assert_eq(receiver_effects(receiver, "/ok"), 2499);
	cr_assert_eq(receiver_count(receiver, "/ok"), 2500);
	cr_assert_str_eq(key_of("e-2500"), key);
}

/* A rate below the size of a page ends pages early, but not those with few events of the type. */
Test(webhooks, few_events_among_many_are_resent_in_few_pages_at_any_rate)
{
	static const char commits[] = "select xact_commit from pg_stat_database where datname = current_database()";

	make_tables();
	database_exec(db, "insert into webhook_pauses (target, reason) values ('shop', '')");
	database_exec(
		db,
		"insert into events (event_id, event_type, payload, processed_at) select i, case when i in (7, "
		"8, 4000, 5000) then 'rare' else 't' end, '{}', now() - interval '1 minute' - (i / 100) * interval '1 "
		"second' from generate_series(1, 5000) as i");
	long before = database_long(db, commits);
	run_expect(db, 0, "queued 4, left out 0", "webhooks resend shop --since 2h --type rare --rate 2/s");
	cr_assert_lt(database_long(db, commits) - before, 100);
	cr_assert_eq(count_rows("event_id in ('7', '8', '4000', '5000')"), 4);
	run_expect(db, 0, "queued 4996, left out 4", "webhooks resend shop --since 2h --rate 3000/s");
	cr_assert_eq(count_rows("true"), 5000);
}

/* The trigger holds a page up after it has looked for deliveries and before it commits. */
Test(webhooks, of_two_that_resend_at_once_one_queues_an_event)
{
	make_tables();
	struct database *lock = database_open(database_conninfo(db));
	struct process *p[2];

	database_exec(db, "insert into webhook_pauses (target, reason) values ('shop', '')");
	database_exec(db, "insert into events (event_id, event_type, payload) select i, 't', '{}' from "
			  "generate_series(1, 10) as i");
	database_exec(db, "create function wait() returns trigger language plpgsql as $$ begin perform "
			  "pg_advisory_xact_lock_shared(1); return null; end $$");
	database_exec(db, "create trigger wait before insert on outbox execute function wait()");
	database_exec(lock, "select pg_advisory_lock(1)");
	for (int i = 0; i < 2; i++)
		p[i] = run_start_on(db, "webhooks resend shop --since 1h");
	await(database_long(db, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = "
				"current_database()") == 2,
	      SOON_MS);
	database_free(lock);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(process_wait(p[i], SOON_MS), 0, "%s", process_last_words(p[i]));
	cr_assert_eq(count_rows("target = 'shop'"), 10);
}

/* What it has queued may be delivered by then, and would be queued again. */
Test(webhooks, a_resend_that_is_interrupted_says_where_to_go_on)
{
	make_tables();
	database_exec(db, "insert into webhook_pauses (target, reason) values ('shop', '')");
	database_exec(db, "insert into events (event_id, event_type, payload, processed_at) select i, 't', '{}', "
			  "timestamptz '2026-03-01 00:00:00.000001Z' + i * interval '1 hour' from generate_series(1, "
			  "3) as i");
	for (int is_lost = 0; is_lost < 2; is_lost++) {
		struct process *p = run_start_on(db, "webhooks resend shop --since 2026-03-01T00:00:00Z --rate 1");

		await(count_rows("event_id = '1'") == 1, SOON_MS);
		if (is_lost)
			database_terminate_backends(db);
		else
			process_signal(p, SIGINT);
		cr_assert_eq(process_wait(p, SOON_MS), 1);
		cr_assert(strstr(process_last_words(p), "go on with --since 2026-03-01T01:00:00.000001Z"), "%s",
			  process_last_words(p));
		database_exec(db, "delete from outbox");
	}
}

/* An operator who retries it wants it sent, although it is as old as before. */
Test(webhooks, delivery_that_expired_is_sent_when_it_is_retried)
{
	add_hook("shop", "/ok", "{s:i}", "ttl_s", 60);
	start("");

	database_exec(db,
		      "insert into outbox (target, event_id, event_type, created_at) values ('shop', 'e', 't', now() - "
		      "interval '1 hour')");
	wait_rows("state = 'dead' and answer like '%%ttl_s%%'", 1, SOON_MS);
	run_expect(db, 0, "retried 1\n", "dead-letters retry --deliveries 1");
	wait_rows("state = 'delivered'", 1, SOON_MS);
}

Test(webhooks, deliveries_that_wait_for_long_are_warned_of)
{
	add_hook("shop", "/fail/500/99", "{s:f, s:f}", "backoff", 600.0, "backoff-cap", 600.0);
	struct listener *l = start("--unsettled-warning 1s");

	database_exec(db, "insert into outbox (target, event_id, event_type, payload, created_at) values "
			  "('shop', 'old-1', '', '{}', now() - interval '1 hour'), ('shop', 'new-1', '', '{}', now())");
	await(listener_has_logged(l, "deliveries are overdue"), LEASE_MS);
	cr_assert(listener_has_logged(l, "oldest=old-1 target=shop"));
	cr_assert_gt(listener_metric(l, "wsonce_outbox_oldest_seconds"), 3599);
	cr_assert_eq(listener_metric(l, "wsonce_oldest_unsettled_seconds"), 0, "a delivery is not an event");
	cr_assert_eq(listener_metric(l, "wsonce_outbox_pending"), 2);
	cr_assert_eq(listener_status(l, "/readyz"), 200);
}

/* Rows of the first target must not hide the oldest row of the last one. */
Test(webhooks, every_target_is_looked_at_for_the_oldest_and_those_of_nobody_are_told)
{
	add_hook("aaa", "/fail/500/99", "{s:f, s:f}", "backoff", 600.0, "backoff-cap", 600.0);
	make_tables();
	database_exec(db, "insert into outbox (target, event_id, event_type) select 'aaa', i, '' from "
			  "generate_series(1, 30000) as i");
	database_exec(db, "insert into outbox (target, event_id, event_type, created_at) values "
			  "('zzz', 'old', '', now() - interval '2 days')");
	struct listener *l = start("--unsettled-warning 1h");

	await(listener_has_logged(l, "oldest=old target=zzz"), LEASE_MS);
	cr_assert(listener_has_logged(l, "webhooks that no listener has"));
	cr_assert(listener_has_logged(l, "targets=zzz deliveries=1"));
	cr_assert_eq(listener_metric(l, "wsonce_outbox_pending"), 10001);
}

Test(webhooks, no_secret_is_told)
{
	add_hook("shop", "/fail/500/1?token=swordfish", "{s:f}", "backoff", 0.01);
	struct listener *l = start("--log-level debug");

	add_rows("shop", "e", 1);
	wait_rows("state = 'delivered'", 1, SOON_MS);
	char *page = listener_http(l, "/api/status", NULL), *metrics = listener_http(l, "/metrics", NULL);
	const char *key = RECEIVER_SECRET + strlen("whsec_");
	cr_assert(strstr(page, "\"name\": \"shop\"") && strstr(metrics, "target=\"shop\""));
	cr_assert(!strstr(page, key) && !strstr(metrics, key) && !listener_has_logged(l, key));
	cr_assert(!strstr(page, "swordfish") && !strstr(metrics, "swordfish") && !listener_has_logged(l, "swordfish"));
}

/* --- several listeners --- */

Test(webhooks, each_row_is_sent_once_by_many_listeners)
{
	add_hook("shop", "/ok", "{}");

	for (int i = 0; i < 3; i++)
		start("");
	add_rows("shop", "e", 1500);
	wait_rows("state = 'delivered' and attempts = 1", 1500, LEASE_MS);
	cr_assert_eq(receiver_count(receiver, "/ok"), 1500);
	cr_assert_eq(receiver_effects(receiver, "/ok"), 1500);
}

/* Longer than the claim TTL, and twice as long as a request may take: the receiver gets each event several
 * times, and its effect once. */
Test(webhooks, receiver_slower_than_every_timeout_sees_each_effect_once)
{
	add_hook("shop", "/slow/2/2", "{s:f, s:f, s:f}", "timeout", 1.0, "backoff", 0.1, "backoff-cap", 0.2);

	for (int i = 0; i < 2; i++)
		start("--claim-ttl 1");
	add_rows("shop", "e", 10);
	wait_rows("state = 'delivered'", 10, 2 * LEASE_MS);
	cr_assert_eq(receiver_effects(receiver, "/slow/2/2"), 10);
	cr_assert_geq(receiver_count(receiver, "/slow/2/2"), 30);
	cr_assert_eq(count_rows("attempts = 3"), 10);
}

Test(webhooks, what_a_killed_listener_was_sending_is_sent_by_another_under_the_same_key)
{
	add_hook("shop", "/hold/1", "{s:f}", "timeout", 6.0);
	struct listener *l = start("");

	add_rows("shop", "e", 10);
	await(receiver_count(receiver, "/hold/1") == 10, SOON_MS);
	forget(l);
	listener_kill(l);
	l = start("");
	wait_rows("state = 'delivered' and attempts = 2", 10, LEASE_MS);
	cr_assert_eq(receiver_count(receiver, "/hold/1"), 20);
	cr_assert_eq(receiver_effects(receiver, "/hold/1"), 10);
}

static struct database *lock_outbox(void)
{
	struct database *lock = database_open(database_conninfo(db));

	database_exec(lock, "begin");
	database_exec(lock, "lock table outbox in access exclusive mode");
	return lock;
}

static void unlock_outbox(struct database *lock)
{
	database_exec(lock, "commit");
	database_free(lock);
}

/* A record is in progress, so attempts that end now wait for the next one. */
static bool is_relay_waiting(void)
{
	return database_long(db, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and "
				 "datname = current_database() and query ~ '^-- (Leases|Records attempts)'");
}

/* The receiver has answered, and the record of its answer is in progress. */
Test(webhooks, what_a_killed_listener_had_not_recorded_is_sent_again_under_the_same_key)
{
	add_hook("shop", "/hold/1", "{s:f}", "timeout", 6.0);
	struct listener *l = start("--log-level debug");

	add_rows("shop", "e", 10);
	await(receiver_count(receiver, "/hold/1") == 10, SOON_MS);
	struct database *lock = lock_outbox();
	await(is_relay_waiting(), SOON_MS);
	receiver_release(receiver);
	await(count_answered(receiver, "/hold/1") == 10, SOON_MS);
	await(listener_count_logged(l, "delivery attempt ended") == 10, SOON_MS);
	forget(l);
	listener_kill(l);
	unlock_outbox(lock);
	l = start("");
	wait_rows("state = 'delivered' and attempts = 2", 10, LEASE_MS);
	cr_assert_eq(receiver_count(receiver, "/hold/1"), 20);
	cr_assert_eq(receiver_effects(receiver, "/hold/1"), 10);
}

/* --- batches --- */

/* Calls each for the events of the requests to path, in their order. Returns the number of requests, which are signed,
 * have this Content-Type, and contain at most `most` events. */
static size_t each_event(const char *path, const char *type, size_t most, void (*each)(const json_t *event))
{
	json_t *all = receiver_requests(receiver, path), *request, *event;
	size_t i, k, n = json_array_size(all);

	json_array_foreach(all, i, request)
	{
		json_t *body = json_loads(json_string_value(json_object_get(request, "body")), 0, NULL);

		cr_assert(json_is_true(json_object_get(request, "is_signed")), "a request is not signed");
		cr_assert_str_eq(header(request, "content-type"), type);
		cr_assert(json_array_size(body) && json_array_size(body) <= most, "%zu events", json_array_size(body));
		json_array_foreach(body, k, event) each(event);
		json_decref(body);
	}
	json_decref(all);
	return n;
}

static int events;

static void expect_next_event(const json_t *event)
{
	cr_assert_str_eq(json_string_value(json_object_get(event, "specversion")), "1.0");
	cr_assert_str_eq(json_string_value(json_object_get(event, "source")), "wsonce/shop");
	cr_assert_str_eq(json_string_value(json_object_get(event, "type")), "order.paid");
	cr_assert_eq(strlen(json_string_value(json_object_get(event, "time"))), strlen("2026-03-01T10:00:00.000001Z"));
	cr_assert_str_eq(json_string_value(json_object_get(event, "id")), suite_text("e-%d", ++events));
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(event, "data"), "n")), events);
}

Test(webhooks, batches_hold_all_events_in_their_order)
{
	add_hook("shop", "/ok", "{s:i, s:s, s:i}", "batch", 50, "format", "cloudevents", "concurrency", 1);
	make_tables();
	add_rows("shop", "e", 220);
	struct listener *l = start("");

	wait_rows("state = 'delivered' and attempts = 1 and status = 200 and payload is null", 220, SOON_MS);
	cr_assert_leq(each_event("/ok", "application/cloudevents-batch+json", 50, expect_next_event), 10);
	cr_assert_eq(events, 220);
	cr_assert_eq(listener_metric(l, "wsonce_deliveries_total{target=\"shop\",outcome=\"delivered\"}"), 220);
}

static void count_bad(const json_t *event)
{
	events += strcmp(json_string_value(json_object_get(event, "type")), "bad") == 0;
}

/* Each of the three is sent once with up to 19 others, once with one other, and once alone. */
Test(webhooks, events_that_a_receiver_refuses_do_not_hold_up_the_others_of_their_batch)
{
	add_hook("shop", "/bad/422", "{s:i, s:f}", "batch", 20, "backoff", 0.01);
	make_tables();
	add_rows("shop", "e", 60);
	database_exec(db, "update outbox set event_type = 'bad' where event_id in ('e-7', 'e-30', 'e-60')");
	start("");

	wait_rows("state = 'delivered'", 57, SOON_MS);
	wait_rows("state = 'dead' and event_type = 'bad' and status = 422", 3, SOON_MS);
	cr_assert_leq(each_event("/bad/422", "application/json", 20, count_bad), 45);
	cr_assert_geq(events, 9);
}

/* The receiver has answered, and nothing of that is recorded. */
Test(webhooks, batch_of_a_killed_listener_is_sent_again_under_the_same_key)
{
	add_hook("shop", "/hold/1", "{s:i}", "batch", 100);
	make_tables();
	add_rows("shop", "e", 80);
	struct listener *l = start("--log-level debug");

	await(receiver_count(receiver, "/hold/1") == 1, SOON_MS);
	struct database *lock = lock_outbox();
	await(is_relay_waiting(), SOON_MS);
	receiver_release(receiver);
	await(listener_count_logged(l, "delivery attempt ended") == 80, SOON_MS);
	forget(l);
	listener_kill(l);
	unlock_outbox(lock);
	await(!is_relay_waiting(), SOON_MS);
	database_exec(db, "update outbox set due_at = created_at"); /* as if the leases had ended */
	start("");
	wait_rows("state = 'delivered' and attempts = 2", 80, SOON_MS);
	json_t *all = receiver_requests(receiver, "/hold/1"), *first = json_array_get(all, 0);
	json_t *second = json_array_get(all, 1);
	cr_assert_eq(json_array_size(all), 2);
	cr_assert(json_equal(json_object_get(first, "key"), json_object_get(second, "key")));
	cr_assert(json_equal(json_object_get(first, "body"), json_object_get(second, "body")));
}

/* The answers are kept while Postgres is away, and recorded when it is back: nothing is sent again. */
Test(webhooks, answers_outlive_an_outage_of_postgres)
{
	add_hook("shop", "/hold/1", "{}");
	struct listener *l = start("--postgres-timeout 1");

	add_rows("shop", "e", 10);
	await(receiver_count(receiver, "/hold/1") == 10, SOON_MS);
	struct database *lock = lock_outbox();
	receiver_release(receiver);
	await(count_answered(receiver, "/hold/1") == 10, SOON_MS);
	/* The first statement may have begun before the answers came; the second one has them. */
	double tries = listener_metric(l, "wsonce_relay_retries_total");
	await(listener_metric(l, "wsonce_relay_retries_total") >= tries + 2, SOON_MS);
	cr_assert(listener_has_logged(l, "cannot record delivery outcomes"));
	database_terminate_backends(db); /* the lock's, and those that would still record */
	database_free(lock);
	wait_rows("state = 'delivered' and attempts = 1", 10, SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/hold/1"), 10);
}

/* Rows of a standby that lacked the last commits have numbers of lost rows, whose answers say nothing about them. */
Test(webhooks, answers_for_lost_rows_are_not_recorded_for_those_that_follow)
{
	struct postgres *primary = postgres_new(), *standby;

	add_hook("shop", "/hold/1", "{s:i}", "concurrency", 5);
	stop(start_on(postgres_conninfo(primary), "")); /* it has created the schema */
	standby = postgres_standby_new(primary);
	db = postgres_database(primary);
	start_on(suite_text("host=%s,%s port=5432 user=postgres dbname=postgres", postgres_directory(primary),
			    postgres_directory(standby)),
		 "");
	add_rows("shop", "lost", 5);
	await(receiver_count(receiver, "/hold/1") == 5, SOON_MS);
	postgres_stop(primary);
	postgres_promote(standby);
	db = postgres_database(standby);
	add_rows("shop", "next", 5);
	cr_assert_eq(count_rows("id <= 5"), 5);
	receiver_release(receiver);
	wait_rows("state = 'delivered'", 5, SOON_MS);
	cr_assert_eq(receiver_effects(receiver, "/hold/1"), 10);
}

/* An operator had the rows tried again, and somebody else has leased them: it is their first attempt, too. */
Test(webhooks, late_failure_is_not_recorded_and_a_late_delivery_is)
{
	add_hook("delivers", "/hold/1", "{}");
	add_hook("fails", "/hang/1", "{s:f}", "timeout", 4.0);
	struct listener *l = start("");

	add_rows("delivers", "e", 1);
	add_rows("fails", "e", 1);
	await(receiver_count(receiver, "/hold/1") && receiver_count(receiver, "/hang/1"), SOON_MS);
	database_exec(db, "update outbox set leases = leases + 1, due_at = now() + interval '1 hour'");
	database_exec(db, "update outbox set state = 'dead', settled_at = now() where target = 'delivers'");
	receiver_release(receiver);
	wait_rows("target = 'delivers' and state = 'delivered'", 1, SOON_MS);
	await(listener_metric(l, "wsonce_deliveries_total{target=\"fails\",outcome=\"retry\"}") == 1, SOON_MS);
	stop(l);
	cr_assert_eq(count_rows("target = 'fails' and state = 'pending' and attempts = 1 and answer is null and "
				"due_at > now() + interval '30 minutes'"),
		     1);
}

/* The lock takes so much of the lease (timeout plus ten seconds) that too little is left. */
Test(webhooks, row_whose_lease_came_late_is_given_back_and_sent_under_another)
{
	add_hook("shop", "/ok", "{s:f}", "timeout", 5.0);
	struct listener *l = start("--postgres-timeout 60");

	add_rows("shop", "e", 3);
	wait_rows("state = 'delivered'", 3, SOON_MS);
	struct database *lock = lock_outbox();
	database_exec(lock, "insert into outbox (target, event_id, event_type) values ('shop', 'late', '')");
	await(is_relay_waiting(), SOON_MS);
	wait_pause_ms(11000);
	unlock_outbox(lock);
	wait_rows("state = 'delivered' and attempts = 1", 4, SOON_MS);
	cr_assert_eq(listener_metric(l, "wsonce_deliveries_total{target=\"shop\",outcome=\"unsent\"}"), 1);
	stop(l);
	cr_assert_eq(receiver_count(receiver, "/ok"), 4);
}

/* --- from the event to the receiver --- */

Test(webhooks, stored_event_is_told_to_each_webhook_that_wants_its_type)
{
	add_hook("all", "/ok?all", "{}");
	add_hook("paid", "/ok/?paid", "{s:[s, s]}", "types", "order.paid", "order.lost");
	struct listener *l = start("");
	struct peer *producer = peer_open_events(listener_ingest_port(l), NULL);

	for (int copy = 0; copy < 2; copy++) {
		peer_send_text(producer,
			       "{\"event_id\":\"e-1\",\"event_type\":\"order.paid\",\"payload\":{\"n\":0.10}}");
		peer_send_text(producer, "{\"event_id\":\"e-2\",\"event_type\":\"order.made\",\"payload\":{}}");
	}
	wait_rows("state = 'delivered'", 3, SOON_MS);
	cr_assert_eq(receiver_count(receiver, "/ok"), 2);
	cr_assert_eq(receiver_effects(receiver, "/ok"), 2);
	json_t *all = receiver_requests(receiver, "/ok/"), *one = json_array_get(all, 0);
	cr_assert_eq(json_array_size(all), 1);
	cr_assert(strstr(json_string_value(json_object_get(one, "body")), "\"id\":\"e-1\",\"data\":{\"n\": 0.10}}"));
}

/* Each webhook gets the events whose numbers it lists. */
Test(webhooks, events_are_chosen_by_their_payloads)
{
	static const char *const payloads[] = {"{\"kind\":\"a/b\",\"n\":5,\"list\":[1,{\"x~y\":true}]}",
					       "{\"kind\":\"b\",\"n\":\"5\"}",
					       "{\"n\":4.5,\"gone\":null}",
					       "{\"kind\":\"ab\",\"n\":5.0,\"list\":[]}",
					       "[7]",
					       "null",
					       "{\"p\":0.1,\"-1\":8,\"list\":[[3]]}"};
	static const struct {
		const char *when, *events;
	} hooks_of[] = {
		{"{\"/kind\": \"a/b\"}", "0"},
		{"{\"/kind\": [\"b\", \"ab\"]}", "13"},
		{"{\"/kind\": {\"prefix\": \"a\"}}", "03"},
		{"{\"/kind\": {\"exists\": false}}", "2456"},
		{"{\"/kind\": {\"not\": [\"b\", \"ab\"]}}", "02456"},
		{"{\"/n\": 5}", "0"},
		{"{\"/n\": 5.0}", "3"},
		{"{\"/n\": {\"gte\": 4.5, \"lt\": 5}}", "2"},
		{"{\"/n\": {\"type\": \"integer\"}, \"/list\": {\"exists\": true}}", "0"},
		{"{\"/list/1/x~0y\": true}", "0"},
		{"{\"/list/0\": {\"type\": \"integer\"}}", "0"},
		{"{\"/gone\": null}", "2"},
		{"{\"/0\": 7}", "4"},
		{"{\"\": {\"type\": \"array\"}}", "4"},
		{"{\"/p\": 0.1}", "6"},
		{"{\"/p\": {\"gte\": 0.1}}", "6"},
		{"{\"/p\": {\"lt\": 0.1}}", ""},
		{"{\"/-1\": 8}", "6"},
		{"{\"/list/-1\": {\"exists\": true}}", ""},
		{"{\"/list/+0\": {\"exists\": true}}", ""},
		{"{\"/list/00\": {\"exists\": true}}", ""},
		{"{\"/list/0/-1\": 3}", ""},
		{"{\"/list/0/0\": 3}", "6"},
		{"{}", "0123456"},
	};
	size_t n = sizeof hooks_of / sizeof *hooks_of;
	for (size_t i = 0; i < n; i++)
		add_hook(suite_text("h%02zu", i), "/ok", "{s:o}", "when", json_loads(hooks_of[i].when, 0, NULL));
	struct listener *l = start("");
	struct peer *producer = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
		peer_sendf(producer, "{\"event_id\":\"%zu\",\"event_type\":\"t\",\"payload\":%s}", i, payloads[i]);
		char *ack = peer_recv(producer, SOON_MS);
		cr_assert(ack && strstr(ack, "persisted"), "%s", ack ? ack : "no ack");
	}
	for (size_t i = 0; i < n; i++)
		cr_expect_str_eq(database_text(db,
					       "select coalesce(string_agg(event_id, '' order by event_id), '') from "
					       "outbox where target = 'h%02zu'",
					       i),
				 hooks_of[i].events, "%s", hooks_of[i].when);
}

/* Rows as large as these are stored by COPY. */
Test(webhooks, events_stored_by_copy_are_chosen_by_their_payloads)
{
	static const char *const ids[] = {"o'\xc3\xa9,1", "2", "a:2"};
	char *pad = suite_text("%300000d", 1);

	add_hook("all", "/ok", "{}");
	add_hook("dear", "/ok", "{s:{s:{s:i}}}", "when", "/price", "gte", 100);
	add_hook("cheap", "/ok", "{s:{s:{s:i}}, s:[s]}", "when", "/price", "lt", 100, "types", "order");
	struct listener *l = start("--consumer billing");
	struct peer *producer = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	for (int i = 0; i < 3; i++) {
		peer_sendf(producer,
			   "{\"event_id\":\"%s\",\"event_type\":\"order\",\"payload\":{\"price\":%d,\"pad\":\"%s\"}}",
			   ids[i], 99 + i, pad);
		char *ack = peer_recv(producer, SOON_MS);
		cr_assert(ack && strstr(ack, "persisted"), "%s", ack ? ack : "no ack");
	}
	cr_assert_eq(listener_metric(l, "wsonce_copy_statements_total"), 3);
	cr_assert_str_eq(database_text(db, "select string_agg(target || event_id, ' ' order by id) from outbox where "
					   "target <> 'all'"),
			 "cheapo'\xc3\xa9,1 dear2 deara:2");
	cr_assert_eq(count_rows("target = 'all'"), 3);
	free(pad);
}

static void store_one(struct peer *producer, const char *prefix, int i)
{
	peer_sendf(producer, "{\"event_id\":\"%s-%d\",\"event_type\":\"order.made\",\"payload\":{}}", prefix, i);
	char *ack = peer_recv(producer, SOON_MS);
	cr_assert(ack && strstr(ack, "persisted"), "%s", ack ? ack : "no ack");
}

/* Each is its own batch: if all woke the relay, there would be 200 leases; otherwise it looks at most every 400 ms. */
static void must_store_in_peace(struct listener *l)
{
	struct peer *producer = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	double rounds = listener_metric(l, "wsonce_relay_rounds_total");
	int64_t began_ms = wait_now_ms();

	for (int i = 0; i < 200; i++)
		store_one(producer, "e", i);
	rounds = listener_metric(l, "wsonce_relay_rounds_total") - rounds;
	cr_assert_leq(rounds, 10.0 + (double)(wait_now_ms() - began_ms) / 200, "%g rounds in %ld ms", rounds,
		      (long)(wait_now_ms() - began_ms));
	peer_free(producer);
}

Test(webhooks, events_that_no_webhook_wants_do_not_make_it_look)
{
	add_hook("shop", "/ok", "{s:[s]}", "types", "order.paid");
	struct listener *l = start("");

	must_store_in_peace(l);
	cr_assert_eq(count_rows("true"), 0);
}

Test(webhooks, events_for_a_webhook_that_is_paused_do_not_make_it_look)
{
	add_hook("shop", "/fail/503/99", "{}");
	struct listener *l = start("");

	add_rows("shop", "d", 5);
	await(listener_metric(l, "wsonce_webhook_paused") == 1, SOON_MS);
	must_store_in_peace(l);
	cr_assert_eq(count_rows("event_id like 'e-%%'"), 200);
}

/* The fastest of ten is faster than any regular poll. */
Test(webhooks, event_makes_it_look_at_once)
{
	add_hook("shop", "/ok", "{}");
	struct listener *l = start("");
	struct peer *producer = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	int64_t least_ms = INT64_MAX;

	for (int i = 0; i < 10; i++) {
		store_one(producer, "e", i);
		int64_t began_ms = wait_now_ms();
		await(receiver_count(receiver, "/ok") == i + 1, SOON_MS);
		if (i && wait_now_ms() - began_ms < least_ms)
			least_ms = wait_now_ms() - began_ms;
	}
	cr_assert_lt(least_ms, 350);
}

/* --- draining --- */

Test(webhooks, listener_that_leaves_waits_for_the_answers_and_takes_no_more)
{
	add_hook("shop", "/hold/1", "{s:i}", "concurrency", 2);
	struct listener *l = start("--drain-timeout 60");

	add_rows("shop", "e", 10);
	await(receiver_count(receiver, "/hold/1") == 2, SOON_MS);
	process_signal(listener_process(l), SIGTERM);
	await(listener_status(l, "/readyz") == 503, SOON_MS);
	receiver_release(receiver);
	forget(l);
	cr_assert_eq(process_wait(listener_process(l), SOON_MS), 0, "%s", process_last_words(listener_process(l)));
	cr_assert_eq(count_rows("state = 'delivered' and attempts = 1"), 2);
	cr_assert_eq(count_rows("state = 'pending' and attempts = 0 and due_at <= now()"), 8);
	cr_assert_eq(receiver_count(receiver, "/hold/1"), 2);
}

Test(webhooks, what_has_no_answer_when_draining_is_over_is_due_at_once)
{
	add_hook("shop", "/hang/1", "{s:i}", "attempts", 1);
	struct listener *l = start("--drain-timeout 1");

	add_rows("shop", "e", 3);
	await(receiver_count(receiver, "/hang/1") == 3, SOON_MS);
	stop(l);
	cr_assert_eq(count_rows("state = 'pending' and attempts = 1 and due_at <= now() and answer like '%%stopped%%'"),
		     3);
	l = start("");
	wait_rows("state = 'delivered'", 3, SOON_MS);
	cr_assert_eq(receiver_effects(receiver, "/hang/1"), 3);
}
