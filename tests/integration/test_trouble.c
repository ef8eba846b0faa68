/* Problems with a single event: whatever the database, another transaction or a trigger does to it, other events are
 * not affected, and no event is wrongly taken for stored or for bad. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

static void start(const char *redis, const char *flags)
{
	bench_serve((struct listener_options){.redis = redis}, "%s", flags);
}

TestSuite(trouble, .init = bench_open, .fini = bench_close, .timeout = 120);

static void send_event(const char *id)
{
	peer_sendf(producer, "{\"event_id\":\"%s\",\"payload\":1}", id);
}

static long letters(void)
{
	return bench_count("dead_letters");
}

/* Only after the tables were created, which takes longer. */
static void set_for_role(const char *setting)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(db,
		      "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET ' || $x$%s$x$, current_database()); END $$",
		      setting);
}

/* --- waiting for another transaction --- */

static bool must_be_named(const char *words)
{
	return listener_page_has(listener, "/readyz", words) && listener_page_has(listener, "/api/status", words) &&
	       strstr(run_on(db, "status").output, words);
}

static void name_holder(const char *lock)
{
	struct database *holder = database_open(database_conninfo(db));

	start("none", "--consumer books --postgres-timeout 4");
	database_exec(holder, "SET application_name = 'report'; BEGIN; %s", lock);
	char *words = suite_text("session %ld of role", database_long(holder, "SELECT pg_backend_pid()"));
	send_event("a");
	await(must_be_named(words) && must_be_named("(report) locks"), WAIT_MS, "%s %s",
	      listener_http(listener, "/readyz", NULL), run_on(db, "status").output);
	cr_assert(listener_has_logged(listener, words));
	database_exec(holder, "COMMIT");
	ack_expect(producer, "a", "persisted");
	await(listener_status(listener, "/readyz") == 200, WAIT_MS);
	cr_assert(listener_page_has(listener, "/api/status", "\"holder\": \"\""));
	run_await(db, 0, NULL, WAIT_MS, "status");
	database_free(holder);
}

Test(trouble, whose_lock_keeps_rows_from_being_stored_is_told)
{
	name_holder("LOCK TABLE events IN SHARE MODE");
}

Test(trouble, whose_lock_keeps_effects_from_being_stored_is_told)
{
	name_holder("LOCK TABLE wsonce_epoch IN EXCLUSIVE MODE");
}

Test(trouble, a_lock_of_the_table_of_dead_letters_stops_no_event)
{
	struct database *holder = database_open(database_conninfo(db));

	start("none", "");
	database_exec(holder, "BEGIN; LOCK TABLE dead_letters IN EXCLUSIVE MODE");
	for (int i = 0; i < 200; i++)
		peer_sendf(producer, "garbage %d", i);
	await(must_be_named("dead letters cannot be written"), WAIT_MS);
	for (int i = 0; i < 3; i++) {
		send_event(suite_text("e-%d", i));
		cr_assert_str_eq(ack_read(producer, 3000)->status, "persisted");
	}
	database_free(holder);
	await(letters() == 200, WAIT_MS);
	await(!listener_page_has(listener, "/readyz", "dead letters"), WAIT_MS);
}

Test(trouble, a_locked_table_that_a_start_waits_for_is_told)
{
	struct database *holder = database_open(database_conninfo(db));

	start("none", "");
	cr_assert_eq(listener_stop(listener), 0);
	database_exec(holder, "BEGIN; LOCK TABLE wsonce_listeners");
	listener = listener_start(&(struct listener_options){.database = db, .redis = "none", .without_waiting = true},
				  "%s", "");
	await(listener_has_logged(listener, "due to lock timeout (55P03)"), 15000);
	database_exec(holder, "COMMIT");
	await(listener_status(listener, "/readyz") == 200, WAIT_MS);
	database_free(holder);
}

Test(trouble, a_dead_letter_that_a_drain_leaves_is_told)
{
	struct database *holder = database_open(database_conninfo(db));

	start("none", "--drain-timeout 1");
	database_exec(holder, "BEGIN; LOCK TABLE dead_letters IN EXCLUSIVE MODE");
	peer_sendf(producer, "garbage");
	await(must_be_named("dead letters cannot be written"), WAIT_MS);
	cr_assert_eq(listener_stop(listener), 1);
	cr_assert(listener_has_logged(listener, "reason=\"dead letters cannot be written"));
	listener = NULL; /* it has ended with 1, which is not for bench_close() */
	database_free(holder);
}

/* A server that takes connections and never answers. */
Test(trouble, a_listener_that_still_connects_says_so)
{
	struct postgres *pg = postgres_new();
	struct feed *feed = feed_new();

	postgres_pause(pg);
	listener = listener_start(&(struct listener_options){.postgres = postgres_conninfo(pg),
							     .redis = "none",
							     .source = feed_url(feed),
							     .without_waiting = true},
				  NULL);
	cr_assert(feed_wait_clients(feed, 1, WAIT_MS));
	feed_send_text(feed, "{\"event_id\":\"a\"}");
	await(listener_has_logged(listener, "cannot store, leaving claims to other listeners"), WAIT_MS);
	cr_assert_not(listener_has_logged(listener, "reason=\"\""), "%s", process_errors(listener_process(listener)));
	cr_assert(listener_has_logged(listener, "reason=connecting"));
	postgres_resume(pg);
	listener_wait_ready(listener);
	await(database_long(postgres_database(pg), "SELECT count(*) FROM events") == 1, WAIT_MS);
	feed_free(feed);
}

Test(trouble, a_listener_without_events_says_that_postgres_does_not_answer)
{
	struct postgres *pg = postgres_new();

	bench_serve((struct listener_options){.postgres = postgres_conninfo(pg), .redis = "none"}, NULL);
	postgres_pause(pg);
	await(listener_page_has(listener, "/readyz", "not ready: postgres: "), 10000);
	postgres_resume(pg);
	await(!listener_page_has(listener, "/readyz", "not ready"), 5000);
}

/* Long before the first dead letter. */
Test(trouble, a_constraint_that_refuses_each_row_at_the_commit_is_told)
{
	start("none", "--max-attempts 10");
	database_exec(db, "CREATE TABLE kinds (kind text PRIMARY KEY); ALTER TABLE events ADD FOREIGN KEY (event_type) "
			  "REFERENCES kinds DEFERRABLE INITIALLY DEFERRED");
	for (int i = 0; i < 10; i++)
		send_event(suite_text("e-%d", i));
	await(must_be_named("messages were refused: insert or update on"), 10000, "%s",
	      listener_http(listener, "/readyz", NULL));
	cr_assert_eq(letters(), 0);
	database_exec(db, "INSERT INTO kinds VALUES ('')");
	for (int i = 0; i < 10; i++)
		cr_assert_str_eq(ack_read(producer, WAIT_MS)->status, "persisted");
}

/* Returns a session that has stored the event without committing; database_free ends it. */
static struct database *hold_row(const char *id)
{
	struct database *holder = database_open(database_conninfo(db));

	database_exec(holder, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('%s', '', '0')", id);
	return holder;
}

/* With a lock timeout: an_event_whose_id_another_transaction_holds_stops_nobody. */
Test(trouble, a_statement_timeout_while_another_transaction_holds_the_id_is_no_fault_of_the_row)
{
	set_for_role("statement_timeout = '100ms'");
	start("none", "--max-attempts 1");
	struct database *holder = hold_row("held");
	send_event("held");
	await(listener_metric(listener, "wsonce_rows_put_off_total") > 1, WAIT_MS, "it is not retried");
	cr_assert_eq(letters(), 0);
	database_exec(holder, "COMMIT");
	ack_expect(producer, "held", "duplicate");
	cr_assert_eq(letters(), 0);
	database_free(holder);
}

static void expect_letter(const char *id, const char *reason)
{
	cr_assert_eq(bench_count("dead_letters WHERE event_id = '%s' AND reason LIKE '%%%s%%'", id, reason), 1);
}

/* --- what a trigger keeps back --- */

static void make_trigger(const char *table, const char *body)
{
	database_exec(db,
		      "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN %s RETURN NEW; END $f$",
		      body);
	database_exec(db, "CREATE TRIGGER watch BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION watch()", table);
}

static void keep_back(const char *table)
{
	make_trigger(table, "IF NEW.event_id = 'kept' THEN RETURN NULL; END IF;");
}

Test(trouble, what_a_trigger_keeps_back_is_refused_and_no_duplicate)
{
	start(NULL, "--max-attempts 2");
	keep_back("events");
	send_event("kept");
	ack_expect_rejected(producer, "kept", "suppressed");
	send_event("other");
	ack_expect(producer, "other", "persisted");
	expect_letter("kept", "suppressed");
	cr_assert(claims_begins(redisd_shared(), "kept", "dead@"));
}

Test(trouble, what_a_trigger_keeps_back_is_refused_by_a_consumer)
{
	start("none", "--max-attempts 1 --consumer shop");
	keep_back("processed_events");
	send_event("kept");
	ack_expect_rejected(producer, "kept", "suppressed");
	send_event("other");
	ack_expect(producer, "other", "persisted");
}

/* Its row does not exist, so it must have no effects. */
Test(trouble, what_a_trigger_keeps_back_of_events_is_not_processed_by_a_consumer)
{
	start("none", "--max-attempts 1 --consumer shop");
	keep_back("events");
	send_event("kept");
	ack_expect_rejected(producer, "kept", "suppressed");
	send_event("other");
	ack_expect(producer, "other", "persisted");
	cr_assert_eq(bench_count("processed_events WHERE event_id = 'kept'"), 0);
	cr_assert_eq(bench_count("processed_events WHERE event_id = 'other'"), 1);
}

/* The consumer's statement began earlier, so it cannot see the row that it waited for. */
Test(trouble, what_another_transaction_stores_meanwhile_is_processed_by_a_consumer)
{
	start("none", "--max-attempts 1 --consumer shop");
	keep_back("events");
	struct database *holder = hold_row("held");
	send_event("held");
	await(bench_count("pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'") == 1,
	      WAIT_MS);
	database_exec(holder, "COMMIT");
	ack_expect(producer, "held", "persisted");
	cr_assert_eq(bench_count("processed_events"), 1);
}

static struct database *hold_back_batch(int n)
{
	struct database *lock = fleet_lock(db);

	send_event("first");
	await(listener_metric(listener, "wsonce_events{state=\"storing\"}") == 1, WAIT_MS);
	for (int i = 0; i < n; i++)
		peer_sendf(producer, "{\"event_id\":\"e-%03d\",\"payload\":1}", i);
	return lock;
}

/* In a batch that goes by COPY. */
Test(trouble, what_a_trigger_keeps_back_of_a_copy_is_refused)
{
	start(NULL, "--max-attempts 1");
	keep_back("events");
	struct database *lock = hold_back_batch(200);
	send_event("kept");
	await(listener_metric(listener, "wsonce_events{state=\"batched\"}") == 201, WAIT_MS);
	fleet_unlock(lock);
	ack_expect(producer, "first", "persisted");
	for (int i = 0; i < 200; i++) {
		struct ack *ack = ack_read(producer, WAIT_MS);

		cr_assert_str_neq(ack->status, "rejected");
	}
	ack_expect_rejected(producer, "kept", "suppressed");
	cr_assert_eq(bench_rows(), 201);
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_store_retries_total"), 0, "there was no trouble");
}

static void make_changer(void)
{
	make_trigger("events", "IF NEW.event_id = 'changed' THEN NEW.event_id := 'another'; END IF;");
}

static void send_changed(void)
{
	struct database *lock = hold_back_batch(200);

	send_event("changed");
	await(listener_metric(listener, "wsonce_events{state=\"batched\"}") == 201, WAIT_MS);
	fleet_unlock(lock);
	ack_expect(producer, "first", "persisted");
	for (int i = 0; i < 200; i++)
		cr_assert_str_eq(ack_read(producer, WAIT_MS)->status, "persisted");
	ack_expect_rejected(producer, "changed", "suppressed");
}

/* The ids, not the number of rows, say which are new. COPY reports only the number, so it is not used. */
Test(trouble, what_a_trigger_stores_under_another_id_is_refused)
{
	run_expect(db, 0, NULL, "migrate");
	make_changer();
	start(NULL, "--max-attempts 1");
	send_changed();
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 0);
}

Test(trouble, what_a_new_trigger_stores_under_another_id_is_refused)
{
	start(NULL, "--max-attempts 1");
	make_changer();
	send_changed();
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 1);
}

/* --- one event that fails, whatever it says --- */

static void send_events(int n)
{
	for (int i = 0; i < n; i++)
		peer_sendf(producer, "{\"event_id\":\"e-%03d\",\"payload\":1}", i);
}

static void await_rows(long n)
{
	await(bench_rows() == n, WAIT_MS, "%ld rows", bench_rows());
}

Test(trouble, an_event_whose_trigger_raises_what_only_a_server_raises_stops_nobody)
{
	static const char *const states[] = {"40001", "53100", "53200", "58030", "57P04"};

	start(NULL, "--max-attempts 2");
	make_trigger("events", "IF NEW.event_type <> '' THEN RAISE 'as told' USING ERRCODE = NEW.event_type; END IF;");
	for (int i = 0; i < 5; i++)
		peer_sendf(producer, "{\"event_id\":\"bad-%d\",\"event_type\":\"%s\",\"payload\":1}", i, states[i]);
	send_events(200);
	await_rows(200);
	await(letters() == 4, WAIT_MS, "%ld letters", letters());
	database_exec(db, "DROP TRIGGER watch ON events");
	await_rows(201); /* a server that stops is never an event's doing */
}

/* For example, by a bug in a trigger written in C. */
Test(trouble, an_event_that_ends_its_backend_stops_nobody)
{
	start(NULL, "--max-attempts 2");
	make_trigger("events",
		     "IF NEW.event_id = 'e-007' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;");
	struct database *lock = hold_back_batch(50);
	await(listener_metric(listener, "wsonce_events{state=\"batched\"}") == 50, WAIT_MS);
	fleet_unlock(lock);
	await(bench_rows() == 50, 3 * WAIT_MS, "%ld rows", bench_rows());
	database_exec(db, "DROP TRIGGER watch ON events");
	await_rows(51);
}

Test(trouble, a_handler_that_raises_serialization_failures_for_one_event_stops_no_fleet)
{
	struct fleet fleet;

	database_exec(db,
		      "CREATE FUNCTION public.handle(text, text, p jsonb) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN "
		      "IF p->>'n' = '77' THEN RAISE 'as told' USING ERRCODE = '40001'; END IF; END $f$");
	fleet_start(&fleet, 3, db, NULL, "--handler public.handle --max-attempts 2");
	fleet_send(&fleet, 700);
	fleet_wait_rows(&fleet, 699, WAIT_MS);
	await(letters() == 1, WAIT_MS);
	for (int i = 0; i < fleet.size; i++)
		cr_assert_eq(listener_stop(fleet.listeners[i]), 0, "it leaves events behind");
}

/* Outside functions, the event is blamed only because others are stored. */
Test(trouble, an_event_that_alone_meets_trouble_while_others_pass_is_a_dead_letter)
{
	start("none", "--max-attempts 1");
	database_exec(db,
		      "ALTER TABLE events ADD CHECK (event_id <> 'odd' OR length(pg_read_file('/nowhere')) IS NULL)");
	send_event("odd");
	await(listener_metric(listener, "wsonce_rows_put_off_total") > 0, WAIT_MS);
	cr_assert_eq(letters(), 0);
	send_events(20);
	await_rows(20);
	await(letters() == 1, WAIT_MS);
	expect_letter("odd", "/nowhere");
}

Test(trouble, who_holds_the_row_that_an_event_waits_for_is_told)
{
	start(NULL, "--max-attempts 1");
	struct database *holder = hold_row("held");
	database_exec(holder, "SET application_name = 'report'");
	char *words = suite_text("session %ld of role", database_long(holder, "SELECT pg_backend_pid()"));
	send_event("held");
	for (int i = 0; i < 20; i++) {
		send_event(suite_text("other-%d", i));
		ack_expect(producer, suite_text("other-%d", i), "persisted");
	}
	await(must_be_named(words) && must_be_named("(report) has written to events since"), WAIT_MS, "%s %s",
	      listener_http(listener, "/readyz", NULL), run_on(db, "status").output);
	cr_assert_eq(listener_status(listener, "/readyz"), 200);
	database_exec(holder, "COMMIT");
	ack_expect(producer, "held", "duplicate");
	await(listener_page_has(listener, "/readyz", "ready\n"), WAIT_MS);
	run_await(db, 0, NULL, WAIT_MS, "status");
	database_free(holder);
}

Test(trouble, an_event_whose_id_another_transaction_holds_stops_nobody)
{
	set_for_role("lock_timeout = '100ms'");
	start("none", "--max-attempts 1");
	struct database *holder = hold_row("e-100");
	send_events(200);
	await_rows(199);
	cr_assert_eq(letters(), 0);
	database_exec(holder, "COMMIT");
	database_free(holder);
	await_rows(200);
	await(listener_metric(listener, "wsonce_in_flight") == 0, WAIT_MS);
	cr_assert_eq(letters(), 0);
}

/* Much sooner than three quarters of the default --postgres-timeout, 22 s. */
Test(trouble, an_event_whose_id_another_transaction_holds_is_soon_found)
{
	start("none", "--max-attempts 1");
	struct database *holder = hold_row("e-100");
	send_events(200);
	await(bench_rows() == 199, 6000, "%ld rows", bench_rows());
	cr_assert_not(listener_has_logged(listener, "cannot store, leaving claims"), "it was unready");
	database_free(holder);
	await_rows(200);
	cr_assert_eq(letters(), 0);
}

/* For example, after a machine dies during a COPY: each of its rows would make the others wait. */
Test(trouble, many_events_whose_ids_another_transaction_holds_stop_nobody)
{
	start("none", "--max-attempts 1 --postgres-timeout 600"); /* three quarters may pass for each event */
	struct database *holder = hold_row("e-000");
	database_exec(holder, "INSERT INTO events (event_id, event_type, payload) "
			      "SELECT 'e-' || lpad(n::text, 3, '0'), '', '0' FROM generate_series(1, 99) AS n");
	send_events(200);
	await(bench_rows() >= 100, 3 * WAIT_MS, "%ld rows", bench_rows());
	for (int i = 0; i < 5; i++) {
		peer_sendf(producer, "{\"event_id\":\"later-%d\"}", i);
		await(bench_rows() == 101 + i, 3 * WAIT_MS, "%d: %ld rows", i, bench_rows());
	}
	database_exec(holder, "COMMIT");
	database_free(holder);
	await(listener_metric(listener, "wsonce_in_flight") == 0, WAIT_MS);
	await_rows(205);
	cr_assert_eq(letters(), 0);
}

static bool is_unready(void)
{
	return listener_status(listener, "/readyz") == 503;
}

/* No other event is sent that could show that Postgres works. */
static void expect_ready_while(const char *metric)
{
	send_event("held");
	cr_assert_not(wait_until(is_unready() || listener_metric(listener, metric) >= 3, WAIT_MS) && is_unready(),
		      "it is unready");
	cr_assert_geq(listener_metric(listener, metric), 3);
}

Test(trouble, a_quiet_listener_is_ready_though_another_transaction_holds_an_id)
{
	start("none", "--max-attempts 1");
	struct database *holder = hold_row("held");
	expect_ready_while("wsonce_rows_put_off_total");
	database_free(holder);
	ack_expect(producer, "held", "persisted");
}

Test(trouble, a_quiet_listener_is_ready_though_a_trigger_fails_as_only_servers_do)
{
	start("none", "--max-attempts 1");
	make_trigger("events", "RAISE 'as told' USING ERRCODE = '55P03';");
	expect_ready_while("wsonce_rows_put_off_total");
	database_exec(db, "DROP TRIGGER watch ON events");
	ack_expect(producer, "held", "persisted");
}

#define UNFILLED(table, column) "the table public." table " has a column " column " that wsonce does not fill"

/* The table is at fault: that is told, no event becomes a dead letter, and all is stored when it is mended. */
Test(trouble, what_is_wrong_with_a_table_is_no_events_fault)
{
	static const struct {
		const char *fault, *told, *mend;
	} faults[] = {
		/* a column was added with a default, which was then dropped */
		{"ALTER TABLE events ADD COLUMN tenant text NOT NULL DEFAULT 'x'; "
		 "ALTER TABLE events ALTER COLUMN tenant DROP DEFAULT",
		 UNFILLED("events", "tenant"), "ALTER TABLE events DROP COLUMN tenant"},
		{"ALTER TABLE events ALTER COLUMN id DROP DEFAULT", UNFILLED("events", "id"),
		 "ALTER TABLE events ALTER COLUMN id SET DEFAULT nextval('events_id_seq')"},
		{"ALTER TABLE events ALTER COLUMN processed_at DROP DEFAULT", UNFILLED("events", "processed_at"),
		 "ALTER TABLE events ALTER COLUMN processed_at SET DEFAULT now()"},
		/* a table of another origin whose ids are integers */
		{"ALTER SEQUENCE events_id_seq MAXVALUE 50; SELECT setval('events_id_seq', 50)", "events_id_seq",
		 "ALTER SEQUENCE events_id_seq NO MAXVALUE"},
		/* after a copy of the table without its sequence, which then gives numbers that exist */
		{"INSERT INTO events (id, event_id, event_type, payload) SELECT n, 'old' || n, 't', '{}' FROM "
		 "generate_series(1, 5) n ON CONFLICT DO NOTHING; ALTER SEQUENCE events_id_seq MAXVALUE 5 RESTART 5 "
		 "CYCLE; SELECT setval('events_id_seq', 5)",
		 "(id)=(", "ALTER SEQUENCE events_id_seq NO MAXVALUE NO CYCLE; SELECT setval('events_id_seq', 100)"},
		/* before Postgres 10, serial made the sequence of an integer a bigint */
		{"ALTER TABLE events ALTER id TYPE integer; SELECT setval('events_id_seq', 2147483647)",
		 "the next id of the table public.events is greater than an integer",
		 "ALTER TABLE events ALTER id TYPE bigint"},
		/* by a consumer */
		{"ALTER TABLE processed_events ALTER COLUMN processed_at DROP DEFAULT",
		 UNFILLED("processed_events", "processed_at"),
		 "ALTER TABLE processed_events ALTER COLUMN processed_at SET DEFAULT now()"},
		/* of a table that is to become the partition of another */
		{"ALTER TABLE events ADD CONSTRAINT past CHECK (received_at < '2026-01-01') NOT VALID",
		 "violates check constraint", "ALTER TABLE events DROP CONSTRAINT past, ADD CHECK (event_id <> 'odd')"},
		/* an operator's own columns, whose defaults stopped fitting */
		{"ALTER TABLE events ADD COLUMN region text DEFAULT 'eu'; ALTER TABLE events ADD CONSTRAINT known "
		 "CHECK (region <> 'eu') NOT VALID",
		 "\\\"known\\\"", "ALTER TABLE events DROP COLUMN region"},
		{"ALTER TABLE events ADD COLUMN tenant text NOT NULL DEFAULT 'x'; ALTER TABLE events ALTER tenant SET "
		 "DEFAULT current_setting('app.tenant', true)",
		 "column \\\"tenant\\\"", "ALTER TABLE events DROP COLUMN tenant"},
		{"CREATE TABLE shops (name text PRIMARY KEY); ALTER TABLE events ADD COLUMN shop text DEFAULT 'a', ADD "
		 "CONSTRAINT of_shop FOREIGN KEY (shop) REFERENCES shops NOT VALID",
		 "\\\"of_shop\\\"", "ALTER TABLE events DROP COLUMN shop"},
	};

	set_for_role("log_parameter_max_length_on_error = 100"); /* adds a line to the context of each error */
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		char *early = suite_text("early-%zu", i), *late = suite_text("late-%zu", i);
		bool is_of_consumer = strstr(faults[i].fault, "processed_events");

		/* What is found by an inspection may be found again, shortly afterwards. */
		if (i == 0 || is_of_consumer || !strstr(faults[i].told, "does not fill")) {
			if (i)
				bench_close();
			start("none", is_of_consumer ? "--max-attempts 1 --consumer books" : "--max-attempts 1");
		}
		send_event(early);
		ack_expect(producer, early, "persisted");
		database_exec(db, "%s", faults[i].fault);
		send_event(late);
		await(listener_has_logged(listener, faults[i].told) && is_unready(), WAIT_MS, "nobody is told: %s",
		      faults[i].fault);
		await(!strchr(faults[i].told, '"') || letters() ||
			      listener_metric(listener, "wsonce_store_retries_total") > 2,
		      WAIT_MS);
		cr_assert_eq(letters(), 0, "%s", faults[i].fault);
		database_exec(db, "%s", faults[i].mend);
		ack_expect(producer, late, "persisted");
		cr_assert_eq(letters(), 0);
	}
	send_event("odd");
	await(letters() == 1, WAIT_MS);
}

/* A column generated from the payload is the event's fault. */
Test(trouble, a_generated_column_without_a_value_or_against_a_check_is_the_events_fault)
{
	start("none", "--max-attempts 1");
	database_exec(db, "ALTER TABLE events ADD COLUMN n text NOT NULL "
			  "GENERATED ALWAYS AS (nullif(event_id, 'bad')) STORED");
	database_exec(db,
		      "ALTER TABLE events ADD COLUMN m text GENERATED ALWAYS AS (event_id) STORED CHECK (m <> 'odd')");
	send_event("bad");
	ack_expect(producer, "bad", "rejected");
	send_event("odd");
	ack_expect(producer, "odd", "rejected");
	send_event("fine");
	ack_expect(producer, "fine", "persisted");
}

static char *long_text(const char *begin, size_t len)
{
	char *text = malloc(len + 1);

	memset(text, 'x', len);
	text[len] = '\0';
	memcpy(text, begin, strlen(begin));
	return text;
}

/* Sends an event that is tried again and again, with an error that has this text, and becomes no dead letter. */
static void send_what_waits(const char *error)
{
	send_event("early");
	await(listener_has_logged(listener, error) && is_unready(), WAIT_MS, "nobody is told");
	await(listener_metric(listener, "wsonce_rows_put_off_total") > 1, WAIT_MS);
	cr_assert_eq(letters(), 0);
}

/* As when it runs out of transaction ids: a check raises the same SQLSTATE for every event. */
Test(trouble, a_limit_of_the_server_is_no_events_fault)
{
	start("none", "--max-attempts 1");
	database_exec(db, "ALTER TABLE events ADD CONSTRAINT limited CHECK (repeat(event_id, 2000000000) <> '')");
	send_what_waits("(54000)");
	database_exec(db, "ALTER TABLE events DROP CONSTRAINT limited");
	ack_expect(producer, "early", "persisted");
	await(!is_unready(), WAIT_MS, "it is not ready again");
	cr_assert_eq(letters(), 0);
}

Test(trouble, a_disk_that_is_full_for_a_trigger_is_no_events_fault)
{
	start("none", "--max-attempts 1");
	make_trigger("events", "RAISE 'could not extend file' USING ERRCODE = '53100';");
	send_what_waits("(53100)");
	database_exec(db, "DROP TRIGGER watch ON events");
	ack_expect(producer, "early", "persisted");
}

/* An index cannot hold the second one's type, and others pass. */
Test(trouble, a_limit_that_only_one_row_meets_is_its_own)
{
	start("none", "--max-attempts 1");
	database_exec(db,
		      "ALTER TABLE events ADD CHECK (event_id <> 'odd' OR repeat(event_id, 2000000000) <> '');"
		      "ALTER TABLE events ALTER event_type SET STORAGE EXTERNAL; CREATE INDEX ON events (event_type)");
	peer_sendf(producer, "{\"event_id\":\"long\",\"event_type\":\"%s\"}", long_text("t", 5000));
	ack_expect(producer, "long", "rejected");
	send_event("odd");
	await(listener_metric(listener, "wsonce_rows_put_off_total") > 0, WAIT_MS);
	send_events(20);
	await_rows(20);
	await(letters() == 2, WAIT_MS);
	expect_letter("odd", "54000");
}

static void start_in_partitions(void)
{
	struct run run = run_in(NULL, "schema --layout partitioned=2");

	peer_free(producer);
	database_free(db);
	db = database_empty_new();
	database_exec(db, "%s", run.output);
	start("none", "--max-attempts 1 --unsettled-warning 1s");
}

/* Sends an event each time. */
static bool is_degraded(void)
{
	static int n;

	peer_sendf(producer, "{\"event_id\":\"more-%d\"}", n++);
	return listener_page_has(listener, "/readyz", "degraded: an event has been unsettled for ");
}

/* For example, while an operator rewrites it. Events of the other partition are stored. */
Test(trouble, a_partition_that_is_detached_is_no_events_fault)
{
	start_in_partitions();
	database_exec(db, "ALTER TABLE events DETACH PARTITION events_0");
	send_events(30);
	await(listener_has_logged(listener, "(23514)") && is_unready(), WAIT_MS, "nobody is told");
	await(listener_metric(listener, "wsonce_rows_put_off_total") > 5, WAIT_MS);
	await(bench_rows() > 0, WAIT_MS);
	await(is_degraded(), WAIT_MS, "it is ready");
	cr_assert_eq(letters(), 0);
	database_exec(db, "ALTER TABLE events ATTACH PARTITION events_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0)");
	await(bench_count("events WHERE starts_with(event_id, 'e-')") == 30, WAIT_MS);
	await(!is_unready(), WAIT_MS, "it is not ready again");
	cr_assert_eq(letters(), 0);
}

Test(trouble, what_all_events_meet_is_no_events_fault)
{
	start("none", "--max-attempts 1");
	database_exec(db, "ALTER TABLE events RENAME TO hidden");
	send_events(30);
	await(listener_metric(listener, "wsonce_postgres_up") == 0, WAIT_MS);
	database_exec(db, "ALTER TABLE hidden RENAME TO events");
	await_rows(30);
	cr_assert_eq(letters(), 0);
}

/* --- statements that take too long --- */

static void wait_stored(int n)
{
	await(listener_metric(listener, "wsonce_persisted_total") == n, WAIT_MS, "%ld rows", bench_rows());
}

/* No function is involved here. */
Test(trouble, batches_that_take_too_long_get_smaller_and_stay_so)
{
	set_for_role("statement_timeout = '80ms'");
	start("none", "--max-attempts 1");
	database_exec(db, "ALTER TABLE events ADD CHECK (pg_sleep(0.002)::text IS NOT NULL)");
	process_signal(listener_process(listener), SIGSTOP); /* so that it reads all of them at once */
	send_events(300);
	process_signal(listener_process(listener), SIGCONT);
	wait_stored(300);
	double splits = listener_metric(listener, "wsonce_batch_splits_total");
	cr_assert_gt(splits, 0);
	database_exec(db, "DELETE FROM events");
	send_events(300);
	wait_stored(600);
	cr_assert_leq(listener_metric(listener, "wsonce_batch_splits_total") - splits, 5);
	cr_assert_eq(letters(), 0);
}

/* --- dead letters --- */

Test(trouble, a_bad_message_of_an_event_that_is_stored_gets_no_letter)
{
	start(NULL, "--dedup-window 1");
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('there', '', '0')");
	peer_send_text(producer, "{\"event_id\":\"there\",\"payload\":\"\\u0000\"}");
	ack_expect(producer, "there", "duplicate");
	cr_assert_eq(letters(), 0);
	cr_assert(claims_begins(redisd_shared(), "there", "done@"));
	peer_send_text(producer, "{\"event_id\":\"away\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(producer, "away", "");
	cr_assert_eq(letters(), 1);
}

Test(trouble, a_consumer_has_a_letter_though_the_event_has_a_row)
{
	start("none", "--consumer shop");
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('there', '', '0')");
	peer_send_text(producer, "{\"event_id\":\"there\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(producer, "there", "");
	cr_assert_eq(letters(), 1);
}

/* --- dead letters that cannot be written --- */

static void send_bad(const char *id)
{
	peer_sendf(producer, "{\"event_id\":\"%s\",\"payload\":\"\\u0000\"}", id);
}

Test(trouble, letters_that_cannot_be_written_wait_and_events_do_not)
{
	start("none", "--max-attempts 3");
	database_exec(db, "ALTER TABLE dead_letters RENAME TO hidden");
	send_bad("bad");
	await(listener_metric(listener, "wsonce_events{state=\"refused\"}") == 1, WAIT_MS);
	send_events(50);
	await_rows(50);
	for (int i = 0; i < 50; i++) {
		struct ack *ack = ack_read(producer, WAIT_MS);

		cr_assert_str_eq(ack->status, "persisted");
	}
	database_exec(db, "ALTER TABLE hidden RENAME TO dead_letters");
	ack_expect_rejected(producer, "bad", "");
	cr_assert_eq(letters(), 1);
}

/* It is not acked, either. */
Test(trouble, a_letter_that_a_trigger_suppresses_is_written_when_the_trigger_is_gone)
{
	start("none", "");
	make_trigger("dead_letters", "IF NEW.event_id = 'bad' THEN RETURN NULL; END IF;");
	send_bad("bad");
	await(listener_has_logged(listener, "a trigger suppressed one"), WAIT_MS);
	send_bad("other");
	ack_expect(producer, "other", "rejected");
	cr_assert_eq(letters(), 1);
	database_exec(db, "DROP TRIGGER watch ON dead_letters");
	ack_expect(producer, "bad", "rejected");
	cr_assert_eq(letters(), 2);
}
