/* Effects in the transaction of an event: a handler, consumers, rows of the outbox. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 30000

static struct fleet fleet;

/* The handler of most tests: it adds a row to effects for each call, then runs body. */
static void make_handler(const char *name, const char *body)
{
	database_exec(db,
		      "CREATE TABLE IF NOT EXISTS effects (handler text, event_id text, n numeric);"
		      "CREATE OR REPLACE FUNCTION %s(event_id text, event_type text, payload jsonb) RETURNS void "
		      "LANGUAGE plpgsql AS $f$ BEGIN "
		      "INSERT INTO effects VALUES ('%s', $1, ($3->>'n')::numeric); %s END $f$",
		      name, name, body);
}

static void set_up(void)
{
	db = database_new();
	make_handler("public.handle", "");
}

TestSuite(effects, .init = set_up, .timeout = 300);

static long effects(const char *where)
{
	return bench_count("effects WHERE %s", where);
}

static long letters(void)
{
	return bench_count("dead_letters");
}

/* Each row of events has one effect, and there are no others. */
static void must_have_effects(long n)
{
	cr_assert_eq(fleet_rows(&fleet), n);
	cr_assert_eq(effects("true"), n, "%ld effects", effects("true"));
	cr_assert_eq(bench_count("events JOIN effects USING (event_id)"), n);
}

/* --- handler --- */

Test(effects, handler_is_called_once_for_each_event_of_a_fleet)
{
	fleet_start(&fleet, 3, db, NULL, "--handler public.handle");
	fleet_send(&fleet, 3000);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	must_have_effects(3000);
	cr_assert_eq(bench_count("effects WHERE 'e-' || n = event_id"), 3000);
}

Test(effects, handler_is_called_once_without_redis)
{
	fleet_start(&fleet, 3, db, &(struct listener_options){.redis = "none"}, "--handler public.handle");
	fleet_send(&fleet, 2000);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	must_have_effects(2000);
}

Test(effects, late_copies_have_no_effect)
{
	fleet_start(&fleet, 2, db, NULL, "--handler public.handle --dedup-window 1");
	fleet_send(&fleet, 500);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	await(redisd_count(redisd_shared(), redisd_prefix()) == 0, SETTLED_MS, "the marks stay");
	double batches = fleet_metric(&fleet, "wsonce_batches_total");
	fleet.sent = 0;
	fleet_send(&fleet, 500);
	await(fleet_metric(&fleet, "wsonce_received_total") == 2000, SETTLED_MS);
	await(fleet_metric(&fleet, "wsonce_batches_total") > batches, SETTLED_MS, "no row was looked for");
	fleet_must_be_whole(&fleet, SETTLED_MS);
	must_have_effects(500);
}

Test(effects, handler_that_raises_fails_only_its_own_event)
{
	make_handler("public.handle",
		     "IF ($3->>'n')::int % 100 = 7 THEN RAISE EXCEPTION 'order % is closed', $1; END IF;");
	fleet_start(&fleet, 2, db, NULL, "--handler public.handle --max-attempts 2");
	fleet_send(&fleet, 1000);
	fleet_wait_rows(&fleet, 990, SETTLED_MS);
	await(letters() == 10, SETTLED_MS, "%ld letters", letters());
	must_have_effects(990);
	cr_assert_eq(bench_count("dead_letters WHERE reason LIKE '%%order ' || event_id || ' is closed%%'"), 10);
}

Test(effects, handler_that_raises_for_a_while_is_tried_again)
{
	database_exec(db, "CREATE TABLE is_open (yes bool)");
	make_handler("public.handle", "IF NOT EXISTS (SELECT FROM is_open) THEN RAISE EXCEPTION 'closed'; END IF;");
	fleet_start(&fleet, 2, db, NULL, "--handler public.handle --max-attempts 1000");
	fleet_send(&fleet, 20);
	await(fleet_metric(&fleet, "wsonce_rows_refused_total") > 0, SETTLED_MS);
	cr_assert_eq(effects("true"), 0);
	database_exec(db, "INSERT INTO is_open VALUES (true)");
	fleet_must_be_whole(&fleet, SETTLED_MS);
	must_have_effects(20);
}

/* One key's events wait for the one that fails; those of the others go on. */
Test(effects, a_handler_that_fails_for_one_key_keeps_only_that_key_waiting)
{
	database_exec(db, "CREATE TABLE is_open (yes bool)");
	make_handler("public.handle", "IF $1 = 'e-1' AND NOT EXISTS (SELECT FROM is_open) THEN RAISE EXCEPTION "
				      "'closed'; END IF;");
	fleet_start(&fleet, 2, db, NULL, "--handler public.handle --max-attempts 1000 --order-pointer /payload/key");
	for (int n = 0; n < 300; n++)
		feed_sendf(fleet.feed, "{\"event_id\":\"e-%d\",\"payload\":{\"n\":%d,\"key\":%d}}", n, n, n % 3);
	fleet.sent = 300;
	fleet_wait_rows(&fleet, 200, SETTLED_MS);
	await(fleet_metric(&fleet, "wsonce_rows_refused_total") > 2, SETTLED_MS);
	cr_assert_eq(effects("n % 3 = 1"), 0, "one has overtaken the event that fails");
	cr_assert_eq(fleet_rows(&fleet), 200);
	database_exec(db, "INSERT INTO is_open VALUES (true)");
	fleet_wait_rows(&fleet, 300, SETTLED_MS);
	must_have_effects(300);
	cr_assert_eq(bench_count("(SELECT n, lag(n) OVER (PARTITION BY n %% 3 ORDER BY ctid) AS "
				 "before FROM effects) AS e WHERE before > n"),
		     0);
}

Test(effects, errors_of_any_class_inside_a_handler_are_its_events_own)
{
	static const char *const states[] = {"08006", "0A000", "22012", "23505", "38000", "42703",
					     "54000", "55000", "F0000", "P0001", "XX000"};
	char body[200];

	make_handler("public.handle", "IF $2 <> 't' THEN RAISE EXCEPTION 'as told' USING ERRCODE = $2; END IF;");
	fleet_start(&fleet, 1, db, NULL, "--handler public.handle --max-attempts 1");
	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		snprintf(body, sizeof(body), "{\"event_id\":\"bad-%zu\",\"event_type\":\"%s\",\"payload\":{}}", i,
			 states[i]);
		feed_send_text(fleet.feed, body);
		fleet_send(&fleet, 3);
	}
	fleet_wait_rows(&fleet, fleet.sent, SETTLED_MS);
	await(letters() == sizeof(states) / sizeof(*states), SETTLED_MS, "%ld letters", letters());
	must_have_effects(fleet.sent);
}

/* Without a statement timeout, the listener would drop the connection and send the whole batch again, for ever. */
Test(effects, handler_that_hangs_fails_only_its_own_event)
{
	make_handler("public.handle", "IF ($3->>'n')::int = 5 THEN PERFORM pg_sleep(600); END IF;");
	fleet_start(&fleet, 1, db, NULL, "--handler public.handle --max-attempts 1 --postgres-timeout 3");
	fleet_send(&fleet, 10);
	fleet_wait_rows(&fleet, 9, SETTLED_MS);
	await(letters() == 1, SETTLED_MS);
	must_have_effects(9);
	cr_assert_eq(bench_count("dead_letters WHERE event_id = 'e-5' AND reason LIKE '%%timeout%%'"), 1);
}

/* The listener has the only copy of an event, so it does not exit. */
Test(effects, handler_that_is_missing_is_named_while_events_wait)
{
	struct postgres *postgres = postgres_new();
	struct run run;

	db = postgres_database(postgres);
	run_expect(db, 0, NULL, "migrate");
	postgres_stop(postgres);
	listener = listener_start(
		&(struct listener_options){.postgres = postgres_conninfo(postgres), .without_waiting = true},
		"--handler public.nosuch");
	await(producer = peer_open(listener_ingest_port(listener), "/events", "wsonce.ack.v1", NULL, NULL), SETTLED_MS);
	peer_send_text(producer, "{\"event_id\":\"e-1\"}");
	await(listener_metric(listener, "wsonce_received_total") == 1, SETTLED_MS);
	postgres_start(postgres);
	await(listener_has_logged(listener, "reason=\"--handler public.nosuch: "), SETTLED_MS);
	cr_assert_eq(listener_status(listener, "/readyz"), 503);
	await((run = run_on(db, "status"), strstr(run.output, ": --handler public.nosuch")), SETTLED_MS, "%s",
	      run.output);
	cr_assert(!listener_has_logged(listener, "nothing was stored"));
	run_expect(db, 0, NULL, "dead-letters retry --all"); /* a listener that stores nothing is not compared with */
	make_handler("public.nosuch", "");
	ack_expect(producer, "e-1", "persisted");
	cr_assert_eq(effects("true"), 1);
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
}

/* All in one statement would take five times the timeout. */
Test(effects, batches_of_a_slow_handler_stay_within_the_timeout)
{
	make_handler("public.handle", "PERFORM pg_sleep(0.05);");
	fleet_start(&fleet, 1, db, NULL, "--handler public.handle --postgres-timeout 3");
	fleet_send(&fleet, 240);
	fleet_wait_rows(&fleet, 240, SETTLED_MS);
	must_have_effects(240);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_store_retries_total"), 0);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_batch_splits_total"), 0);
}

/* Its statements are short enough not to look like a Postgres that does not answer. */
Test(effects, a_handler_slower_than_its_feed_is_told_and_goes_on)
{
	make_handler("public.handle", "PERFORM pg_sleep(0.05);");
	fleet_start(&fleet, 1, db, NULL, "--handler public.handle");
	fleet_send(&fleet, 400);
	await(listener_has_logged(fleet.listeners[0], "the store is slow, events wait"), SETTLED_MS);
	fleet_wait_rows(&fleet, 400, 2 * SETTLED_MS);
	must_have_effects(400);
	cr_assert_not(listener_has_logged(fleet.listeners[0], "cannot store"));
}

/* Each batch changes the two rows in the order of its events, which differs between the listeners. */
Test(effects, handlers_that_lock_each_other_out_all_get_through)
{
	struct database *lock;

	database_exec(db, "CREATE TABLE hot (k int PRIMARY KEY, n int); INSERT INTO hot SELECT g, 0 FROM "
			  "generate_series(0, 6) AS g");
	make_handler("public.handle", "UPDATE hot SET n = n + 1 WHERE k = hashtext($1) & 3;");
	database_exec(db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET deadlock_timeout = ''20ms''', "
			  "current_database()); END $$");
	fleet_start(&fleet, 4, db, NULL, "--handler public.handle --batch-max 50");
	fleet_send(&fleet, 20);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	for (int i = 0; i < 10 && !fleet_metric(&fleet, "wsonce_store_retries_total"); i++) {
		lock = fleet_lock(db); /* so that each has a large batch then */
		fleet_send(&fleet, 4000);
		await(fleet_metric(&fleet, "wsonce_received_total") == 4.0 * (double)fleet.sent, SETTLED_MS);
		fleet_unlock(lock);
		fleet_must_be_whole(&fleet, 2 * SETTLED_MS);
	}
	must_have_effects(fleet.sent);
	cr_assert_eq(database_long(db, "SELECT sum(n) FROM hot"), fleet.sent);
	cr_assert_gt(fleet_metric(&fleet, "wsonce_store_retries_total"), 0, "nobody was locked out");
}

Test(effects, events_wait_for_a_handler_that_was_dropped)
{
	fleet_start(&fleet, 2, db, NULL, "--handler public.handle");
	fleet_send(&fleet, 10);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	database_exec(db, "DROP FUNCTION public.handle");
	fleet_send(&fleet, 10);
	await(fleet_metric(&fleet, "wsonce_store_retries_total") > 0, SETTLED_MS);
	database_terminate_backends(db); /* a new connection asks for it again */
	await(fleet_metric(&fleet, "wsonce_postgres_connects_total") > 8, SETTLED_MS);
	cr_assert_eq(fleet_rows(&fleet), 10);
	for (int i = 0; i < 2; i++)
		cr_expect_leq(listener_count_logged(fleet.listeners[i], "handler changed since startup"), 1);
	make_handler("public.handle", "");
	fleet_must_be_whole(&fleet, SETTLED_MS);
	must_have_effects(20);
}

/* The role's statement_timeout is shorter than the wait. */
Test(effects, a_lock_of_the_table_that_they_share_is_waited_for_and_blames_no_event)
{
	char *conninfo = suite_text("%s options='-c statement_timeout=300'", database_conninfo(db));

	bench_serve((struct listener_options){.postgres = conninfo}, "--handler public.handle --max-attempts 1");
	struct database *lock = database_open(database_conninfo(db));
	database_exec(lock, "BEGIN; LOCK TABLE wsonce_epoch IN EXCLUSIVE MODE");
	for (int i = 0; i < 100; i++)
		cr_assert(peer_sendf(producer, "{\"event_id\":\"%d\"}", i));
	await(listener_has_logged(listener, "lock timeout (55P03)"), SETTLED_MS);
	await(listener_metric(listener, "wsonce_store_retries_total") > 4, SETTLED_MS);
	database_exec(lock, "COMMIT");
	await(effects("true") == 100, SETTLED_MS);
	cr_assert_eq(letters(), 0);
	cr_assert(!listener_has_logged(listener, "57014"));
}

static void must_be_refused(const char *handler, const char *why)
{
	struct run run = run_on(db, "listen --ingest 127.0.0.1:0 --handler %s", handler);

	cr_assert_eq(run.status, 2, "status %d: %s", run.status, run.errors);
	cr_assert(strstr(run.errors, why), "no \"%s\" in: %s", why, run.errors);
	cr_assert(strstr(run.errors, "(event_id text, event_type text, payload jsonb) RETURNS void"), "%s", run.errors);
}

Test(effects, handler_that_cannot_be_called_is_refused_at_the_start)
{
	database_exec(db, "CREATE FUNCTION others(text, jsonb) RETURNS void LANGUAGE sql AS '';"
			  "CREATE FUNCTION returns(text, text, jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1';"
			  "CREATE PROCEDURE does(text, text, jsonb) LANGUAGE sql AS '';");
	must_be_refused("public.nothing", "there is no such function");
	must_be_refused("nowhere.handle", "there is no such function");
	must_be_refused("public.others", "it takes (text, jsonb)");
	must_be_refused("public.returns", "it returns integer");
	must_be_refused("public.does", "it is no ordinary function");
	must_be_refused("public.\";DROP\"", "there is no such function");
	cr_assert_eq(effects("true"), 0);
}

Test(effects, handler_that_may_not_be_called_is_refused_at_the_start)
{
	static const char *const why[] = {"this user may not use its schema", "this user may not execute it"};

	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "DROP ROLE IF EXISTS guest; CREATE ROLE guest;"
			  "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest;"
			  "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO guest; CREATE SCHEMA closed");
	make_handler("closed.handle", "");
	database_exec(db, "REVOKE EXECUTE ON FUNCTION closed.handle FROM public");
	for (int i = 0; i < 2; i++) {
		setenv("PGOPTIONS", "-c role=guest", 1);
		struct run run = run_on(db, "listen --ingest 127.0.0.1:0 --redis none --handler closed.handle");

		unsetenv("PGOPTIONS");
		cr_assert_eq(run.status, 2, "status %d: %s", run.status, run.errors);
		cr_assert(strstr(run.errors, why[i]), "%s", run.errors);
		database_exec(db, "GRANT USAGE ON SCHEMA closed TO guest");
	}
	database_exec(db, "DROP OWNED BY guest; DROP ROLE guest");
}

/* --- commands that store events --- */

Test(effects, replay_does_what_the_fleet_does_or_is_refused)
{
	const char *path = suite_file("events", "{\"event_id\":\"r\",\"event_type\":\"t\",\"payload\":{\"n\":1}}\n");

	fleet_start(&fleet, 1, db, NULL, "--handler public.handle");
	fleet_send(&fleet, 1);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	run_expect_error(db, 2, "--handler public.handle", "replay %s", path);
	run_expect_error(db, 2, "--handler public.handle", "replay %s --handler public.handl", path);
	cr_assert_eq(fleet_rows(&fleet), 1);
	run_expect(db, 0, "persisted 1", "replay %s --handler public.handle", path);
	must_have_effects(2);
	run_expect(db, 0, "persisted 1", "replay %s --consumer another", path); /* which no listener has */
	database_exec(
		db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, report, seen_at) VALUES ('was killed', 1, "
		    "'{\"version\": \"1\"}', now() - interval '5 minutes')");
	run_expect(db, 0, "duplicates 1", "replay %s --handler public.handle", path);
	database_exec(db, "UPDATE wsonce_listeners SET seen_at = now() - interval '5 minutes'");
	run_expect_error(db, 2, "was killed", "replay %s --handler public.handle", path);
}

Test(effects, a_command_without_a_name_is_refused_beside_a_fleet_of_consumers)
{
	const char *path = suite_file("events", "{\"event_id\":\"r\",\"event_type\":\"t\",\"payload\":{\"n\":1}}\n");

	fleet_start(&fleet, 1, db, NULL, "--handler public.handle --consumer shop");
	fleet_send(&fleet, 1);
	fleet_wait_rows(&fleet, 1, SETTLED_MS);
	run_expect_error(db, 2, "has --consumer shop, --handler public.handle and", "replay %s", path);
	run_expect_error(db, 2, "has --consumer shop, ", "replay %s --handler public.handle", path);
	run_expect_error(db, 2, "has --consumer shop, ", "audit --expected %s --resubmit", path);
	cr_assert_eq(fleet_rows(&fleet), 1);
	run_expect(db, 0, "persisted 1", "replay %s --handler public.handle --consumer shop", path);
	must_have_effects(2);
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, report) VALUES ('another', 1, "
			  "'{\"version\": \"1\"}')");
	run_expect(db, 0, "duplicates 1", "replay %s", path);
}

Test(effects, what_is_resubmitted_or_retried_has_them_or_is_refused)
{
	const char *path = suite_file("events", "{\"event_id\":\"r\",\"event_type\":\"t\",\"payload\":{\"n\":1}}\n");

	fleet_start(&fleet, 1, db, NULL, "--handler public.handle");
	fleet_send(&fleet, 1);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	database_exec(db,
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) SELECT sha256(r), 's', "
		      "'x', r, 'i' FROM (SELECT '{\"event_id\":\"s\"}'::bytea) AS v (r)");
	run_expect_error(db, 2, "--handler public.handle", "audit --expected %s --resubmit", path);
	run_expect_error(db, 2, "--handler public.handle", "dead-letters retry 1");
	run_expect(db, 1, "missing                   1\n", "audit --expected %s", path);
	cr_assert_eq(fleet_rows(&fleet), 1);
	run_expect(db, 0, "resubmitted 1: persisted 1,", "audit --expected %s --resubmit --handler public.handle",
		   path);
	run_expect(db, 0, "persisted 1,", "dead-letters retry 1 --handler public.handle");
	must_have_effects(3);
}

/* --- consumers --- */

static void start_consumers(struct fleet *one, struct fleet *other)
{
	make_handler("public.one", "");
	make_handler("public.other", "IF ($3->>'n')::int = 3 THEN RAISE EXCEPTION 'not this one'; END IF;");
	fleet_start(one, 2, db, NULL, "--consumer one --handler public.one --max-attempts 1");
	fleet_start(other, 2, db, NULL, "--consumer other --handler public.other --max-attempts 1");
}

Test(effects, each_consumer_processes_each_event_once)
{
	static struct fleet other;

	start_consumers(&fleet, &other);
	fleet_send(&fleet, 1000);
	fleet_send(&other, 1000);
	await(effects("handler = 'public.one'") == 1000 && effects("handler = 'public.other'") == 999, SETTLED_MS,
	      "%ld and %ld", effects("handler = 'public.one'"), effects("handler = 'public.other'"));
	await(letters() == 1, SETTLED_MS);
	cr_assert_eq(fleet_rows(&fleet), 1000);
	cr_assert_eq(database_long(db, "SELECT count(DISTINCT (handler, event_id)) FROM effects"), 1999);
	cr_assert_eq(bench_count("processed_events WHERE consumer = 'one'"), 1000);
	cr_assert_eq(bench_count("processed_events WHERE consumer = 'other'"), 999);
	cr_assert_eq(bench_count("dead_letters WHERE consumer = 'other' AND event_id = 'e-3'"), 1);
}

Test(effects, handler_and_that_of_a_consumer_may_refer_to_the_row_of_their_event)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "ALTER TABLE effects ADD FOREIGN KEY (event_id) REFERENCES events (event_id)");
	make_handler(
		"public.handle",
		"IF NOT EXISTS (SELECT FROM events AS e WHERE e.event_id = $1) THEN RAISE EXCEPTION 'no row'; END IF;");
	fleet_start(&fleet, 1, db, NULL, "--handler public.handle --max-attempts 1");
	fleet_send(&fleet, 100);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	cr_assert_eq(effects("true"), 100);
	fleet_end(&fleet);
	fleet_start(&fleet, 1, db, NULL, "--consumer late --handler public.handle --max-attempts 1");
	fleet_send(&fleet, 200);
	await(effects("true") == 300, SETTLED_MS, "%ld", effects("true"));
	cr_assert_eq(letters(), 0);
}

Test(effects, two_consumers_have_a_letter_each_of_one_message)
{
	static struct fleet other;

	start_consumers(&fleet, &other);
	feed_send_text(fleet.feed, "{\"event_id\":1");
	feed_send_text(other.feed, "{\"event_id\":1");
	await(letters() == 2, SETTLED_MS, "%ld letters", letters());
	cr_assert_eq(bench_count("dead_letters WHERE digest = sha256(sha256(raw) || consumer::bytea)"), 2);
}

/* --- outbox --- */

Test(effects, event_and_its_outbox_rows_come_together_or_not_at_all)
{
	const char *path = suite_file("webhooks.json",
				      "{\"webhooks\": ["
				      "{\"name\": \"all\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": \"HOOK\"},"
				      "{\"name\": \"some\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": "
				      "\"HOOK\", \"types\": [\"u\", \"t\"]},"
				      "{\"name\": \"none\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": "
				      "\"HOOK\", \"types\": [\"v\"]}]}");

	make_handler("public.handle", "IF ($3->>'n')::int = 5 THEN RAISE EXCEPTION 'not this one'; END IF;");
	char *flags = suite_text("--handler public.handle --max-attempts 1 --config %s", path);
	setenv("HOOK", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", 1);
	fleet_start(&fleet, 2, db, NULL, flags);
	fleet_send(&fleet, 100);
	fleet_wait_rows(&fleet, 99, SETTLED_MS);
	await(letters() == 1, SETTLED_MS);
	must_have_effects(99);
	cr_assert_eq(bench_count("outbox JOIN events USING (event_id, event_type) WHERE target = 'all'"), 99);
	cr_assert_eq(bench_count("outbox WHERE target = 'some' AND payload->>'n' IS NOT NULL"), 99);
	cr_assert_eq(bench_count("outbox"), 198);
}
