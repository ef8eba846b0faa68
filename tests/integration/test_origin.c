/* Schema 10: the columns that say where an event came from, and the migration of an older table in use. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000
#define COPIED  200 /* rows that go by COPY */

TestSuite(origin, .init = bench_open, .fini = bench_close, .timeout = 120);

/* As a listener of schema 9 left it. */
#define BACK_TO_9 \
	"ALTER TABLE events DROP source, DROP instance, DROP received_at, DROP event_time; " \
	"DELETE FROM wsonce_schema WHERE version > 9"

static void start_with(const char *const *env, const char *flags)
{
	bench_serve((struct listener_options){.env = env}, "--instance-id here --time-pointer /at --time-unit s %s",
		    flags);
}

static void start(const char *flags)
{
	start_with(NULL, flags);
}

static void send_event(const char *id, const char *at)
{
	cr_assert(peer_sendf(producer, "{\"event_id\":\"%s\"%s%s,\"payload\":1}", id, at ? ",\"at\":" : "",
			     at ? at : ""));
}

static void send_and_wait(const char *id, const char *at)
{
	send_event(id, at);
	ack_expect(producer, id, "persisted");
}

static char *origin_of(const char *id)
{
	return database_text(db,
			     "SELECT concat_ws(' ', source, instance, extract(epoch FROM event_time)::bigint, "
			     "received_at BETWEEN processed_at - interval '5 s' AND clock_timestamp()) FROM events "
			     "WHERE event_id = '%s'",
			     id);
}

static void expect_origin(const char *id, const char *wanted)
{
	cr_assert_str_eq(origin_of(id), wanted, "%s: %s", id, origin_of(id));
}

Test(origin, a_row_says_who_sent_its_event_who_stored_it_and_when)
{
	start("");
	send_and_wait("timed", "1700000000");
	send_and_wait("timeless", NULL);
	send_and_wait("mistimed", "\"soon\"");
	expect_origin("timed", "ingest here 1700000000 t");
	expect_origin("timeless", "ingest here t");
	expect_origin("mistimed", "ingest here t");
	cr_assert_eq(listener_metric(listener, "wsonce_times_unread_total"), 1);
	cr_assert(listener_has_logged(listener, "events are stored without their time"));
	cr_assert(listener_has_logged(listener, "source=ingest time=soon unit=s events=1"));
	send_and_wait("split", "1700000000.5");
	expect_origin("split", "ingest here 1700000001 t");
}

/* The event's own time is when it was sent. */
Test(origin, events_are_received_after_they_were_sent_and_one_after_another)
{
	struct timespec now;

	start("");
	for (int i = 0; i < 500; i++) {
		clock_gettime(CLOCK_REALTIME, &now);
		send_event(suite_text("s-%03d", i), suite_text("%ld.%06ld", now.tv_sec, now.tv_nsec / 1000));
	}
	for (int i = 0; i < 500; i++)
		cr_assert_not_null(peer_recv(producer, WAIT_MS));
	cr_assert_eq(bench_count("events WHERE received_at >= event_time"), 500);
	cr_assert_eq(bench_count("(SELECT received_at > lag(received_at) OVER "
				 "(ORDER BY event_id) AS is_later FROM events) AS e WHERE is_later"),
		     499);
}

Test(origin, so_do_the_rows_of_a_copy)
{
	start("");
	struct database *lock = fleet_lock(db);
	send_event("first", NULL);
	await(listener_metric(listener, "wsonce_events{state=\"storing\"}") == 1, WAIT_MS);
	for (int i = 0; i < COPIED; i++)
		send_event(suite_text("c-%03d", i), i % 2 ? "1700000000" : NULL);
	await(listener_metric(listener, "wsonce_events{state=\"batched\"}") == COPIED, WAIT_MS);
	fleet_unlock(lock);
	for (int i = 0; i < COPIED + 1; i++)
		cr_assert_not_null(peer_recv(producer, WAIT_MS));
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_total"), 1);
	expect_origin("c-100", "ingest here t");
	expect_origin("c-101", "ingest here 1700000000 t");
	cr_assert_eq(bench_count("events WHERE source = 'ingest' AND instance = 'here'"), COPIED + 1);
}

Test(origin, so_do_those_of_a_consumer_and_of_webhooks)
{
	static const char settings[] = "{\"webhooks\": [{\"name\": \"all\", \"url\": \"http://127.0.0.1:1/\", "
				       "\"secret-env\": \"HOOK\"}]}";
	const char *const env[] = {"HOOK=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", NULL};

	start_with(env, suite_text("--consumer billing --config %s", suite_file("origin.json", settings)));
	send_and_wait("timed", "1700000000");
	expect_origin("timed", "ingest here 1700000000 t");
	cr_assert_eq(bench_count("outbox WHERE target = 'all'"), 1);
	cr_assert_eq(bench_count("processed_events WHERE consumer = 'billing'"), 1);
}

Test(origin, a_token_and_a_url_without_its_secrets_are_sources)
{
	struct feed *feed = feed_new();
	char *file = suite_file("tokens", "shop 0123456789abcdef0123456789abcdef\n");

	listener = listener_start(&(struct listener_options){.database = db, .redis = "none"},
				  "--instance-id caf\xc3\xa9 --ingest-token-file %s --source %s?token=secret", file,
				  feed_url(feed));
	producer = peer_open(listener_ingest_port(listener), "/events", "wsonce.ack.v1",
			     "0123456789abcdef0123456789abcdef", NULL);
	send_and_wait("mine", NULL);
	feed_send_text(feed, "{\"event_id\":\"theirs\"}");
	await(bench_rows() == 2, WAIT_MS);
	expect_origin("mine", "shop caf?? t");
	expect_origin("theirs", suite_text("ws://127.0.0.1:%d/***?*** caf?? t", feed_port(feed)));
	feed_free(feed);
}

/* The statements of the previous version. */
Test(origin, older_listeners_store_beside_it)
{
	static const char copy[] = "psql -qX -v ON_ERROR_STOP=1 -c \"COPY events (event_id, event_type, payload) FROM "
				   "STDIN\" \"$0\" <<'END'\nc\tt\t2\nEND\n";

	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "WITH fresh AS (INSERT INTO public.events (event_id, event_type, payload) SELECT * FROM "
			  "unnest('{a,b}'::text[], '{t,u}'::text[], '{1,2}'::jsonb[]) ON CONFLICT (event_id) DO "
			  "NOTHING RETURNING event_id) SELECT event_id FROM fresh");
	const char *const argv[] = {"sh", "-c", copy, database_conninfo(db), NULL};
	struct process *p = process_start_argv(argv, NULL);
	cr_assert_eq(process_wait(p, WAIT_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(bench_count("events WHERE source IS NULL AND received_at IS NULL"), 3);
}

Test(origin, a_table_in_use_is_altered_later_and_nobody_waits_for_that)
{
	long file, worst = 0;

	db = database_empty_new();
	struct database *reader = database_open(database_conninfo(db));
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "%s", BACK_TO_9);
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) SELECT 'o-' || i, '', '{}' FROM "
			  "generate_series(1, 10000) AS i");
	file = database_long(db, "SELECT pg_relation_filenode('events')");
	database_exec(reader, "BEGIN; SELECT count(*) FROM events");
	listener = listener_start(&(struct listener_options){.database = db, .redis = "none", .without_waiting = true},
				  NULL);
	await(listener_has_logged(listener, "cannot migrate the schema"), WAIT_MS);
	struct database *writer = database_open(database_conninfo(db));
	for (int64_t end = wait_end_ms(1500), n = 0; wait_now_ms() < end; n++) {
		int64_t began = wait_now_ms(), took;

		database_exec(writer, "INSERT INTO events (event_id, event_type, payload) VALUES ('w-%lld', '', '1')",
			      (long long)n);
		took = wait_now_ms() - began;
		worst = took > worst ? took : worst;
	}
	cr_assert_lt(worst, wait_stretch_ms(1000), "an insert took %ld ms", worst);
	database_exec(reader, "COMMIT");
	listener_wait_ready(listener);
	cr_assert_eq(database_long(db, "SELECT pg_relation_filenode('events')"), file, "the table was rewritten");
	cr_assert_eq(bench_count("wsonce_schema WHERE version = 10"), 1);
	database_free(reader);
	database_free(writer);
}

Test(origin, a_column_of_another_type_and_a_right_that_is_missing_are_told)
{
	struct listener_options options = {.database = db, .redis = "none", .without_waiting = true};

	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "%s; ALTER TABLE events ADD source JSONB", BACK_TO_9);
	struct listener *l = listener_start(&options, NULL);
	cr_assert_eq(process_wait(listener_process(l), WAIT_MS), 2);
	cr_assert(listener_has_logged(l, "has a column source of type jsonb, where wsonce keeps a text: rename it"),
		  "%s", process_last_words(listener_process(l)));
	listener_free(l);
	database_exec(db, "ALTER TABLE events DROP source");
	run_expect(db, 0, NULL, "migrate");
	char *role = database_text(db, "SELECT current_database() || '_user'");
	database_exec(db,
		      "CREATE ROLE \"%s\" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"%s\"; "
		      "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \"%s\"; REVOKE INSERT ON events FROM \"%s\"; "
		      "GRANT INSERT (event_id, event_type, payload) ON events TO \"%s\"",
		      role, role, role, role, role);
	options.postgres = suite_text("%s user=%s", database_conninfo(db), role);
	l = listener_start(&options, NULL);
	cr_assert_eq(process_wait(listener_process(l), WAIT_MS), 2);
	cr_assert(listener_has_logged(l, "GRANT INSERT ON public.events TO"), "%s",
		  process_last_words(listener_process(l)));
	listener_free(l);
	/* A listener that may not alter the table names the role that may. */
	database_exec(db, "GRANT INSERT ON events TO \"%s\"; %s", role, BACK_TO_9);
	l = listener_start(&options, NULL);
	await(listener_has_logged(l, "run wsonce migrate as the role that owns the tables"), WAIT_MS, "%s",
	      process_last_words(listener_process(l)));
	listener_free(l);
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}
