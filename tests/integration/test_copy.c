/* Batches that go to Postgres by COPY. A row that exists, is bad, or is suppressed by a trigger does not affect the
 * others of its batch, and each gets the right outcome. */
#include "support.h"
#include "bench.h"

#define EVENTS  300
#define WAIT_MS 20000
#define FAT     20000 /* bytes: a batch of such rows is more than the kernel takes at once */

static const char *ordinary = "1"; /* payload of all rows but one */

static const char *event_type;

static void set_up(void)
{
	event_type = "t";
	bench_serve((struct listener_options){0}, "--batch-max 1000");
}

TestSuite(copy_in, .init = set_up, .fini = bench_close, .timeout = 120);

static void send_event(char kind, int i, const char *payload)
{
	peer_sendf(producer, "{\"event_id\":\"%c-%03d\",\"event_type\":\"%s\",\"payload\":%s}", kind, i, event_type,
		   i == EVENTS / 2 ? payload : ordinary);
}

/* The first event waits for the table in its own statement. The others are sent only then, so that they become one
 * batch however the listener reads them. payload is that of the middle one. */
static void send_batch_of(char kind, const char *payload)
{
	struct database *lock = fleet_lock(db);

	send_event(kind, 0, payload);
	await(listener_metric(listener, "wsonce_events{state=\"storing\"}") == 1, WAIT_MS);
	for (int i = 1; i < EVENTS; i++)
		send_event(kind, i, payload);
	await(listener_metric(listener, "wsonce_events{state=\"batched\"}") == EVENTS - 1, WAIT_MS);
	fleet_unlock(lock);
}

static void send_batch(const char *payload)
{
	send_batch_of('e', payload);
}

static void expect_acks(int persisted, int duplicate, int rejected)
{
	int counts[3] = {0};

	for (int i = 0; i < EVENTS; i++) {
		char *ack = peer_recv(producer, WAIT_MS);

		cr_assert_not_null(ack, "%d acks", i);
		counts[0] += strstr(ack, "persisted") != NULL;
		counts[1] += strstr(ack, "duplicate") != NULL;
		counts[2] += strstr(ack, "rejected") != NULL;
	}
	cr_assert(counts[0] == persisted && counts[1] == duplicate && counts[2] == rejected, "%d, %d, %d", counts[0],
		  counts[1], counts[2]);
}

static double stored_before, refused_before; /* by set_up_effects */

static void expect_copies(double stored, double refused)
{
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_total") - stored_before, stored);
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total") - refused_before, refused);
}

/* This takes time. If the first row's statement ends meanwhile, the others come in several batches. */
static void send_fat_rows(void)
{
	static char fat[FAT + 3];
	struct database *lock = fleet_lock(db);

	memset(fat, 'x', FAT + 2);
	fat[0] = fat[FAT + 1] = '"';
	ordinary = fat;
	for (int i = 0; i < EVENTS; i++)
		send_event('e', i, "1");
	await(listener_metric(listener, "wsonce_received_total") == EVENTS, WAIT_MS);
	fleet_unlock(lock);
}

Test(copy_in, rows_that_the_kernel_does_not_take_at_once_are_copied_in_pieces)
{
	send_fat_rows();
	expect_acks(EVENTS, 0, 0);
	cr_assert_geq(listener_metric(listener, "wsonce_copy_statements_total"), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 0);
	cr_assert_eq(bench_count("events WHERE length(payload #>> '{}') = 20000"), EVENTS - 1);
}

/* Postgres refuses a row before the last one is sent. */
Test(copy_in, a_refusal_is_read_when_all_pieces_are_sent)
{
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('e-050', '', '7')");
	send_fat_rows();
	expect_acks(EVENTS - 1, 1, 0);
	cr_assert_geq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 1);
	cr_assert_eq(bench_rows(), EVENTS);
}

Test(copy_in, after_a_refusal_the_rows_that_are_there_are_looked_up_and_the_others_copied)
{
	database_exec(
		db, "INSERT INTO events (event_id, event_type, payload) VALUES ('e-150', '', '7'), ('f-150', '', '7')");
	send_batch("1");
	expect_acks(EVENTS - 1, 1, 0);
	send_batch_of('f', "1");
	expect_acks(EVENTS - 1, 1, 0);
	expect_copies(1, 1);
	cr_assert_eq(bench_rows(), 2 * EVENTS);
	cr_assert_eq(bench_count("events WHERE payload = '7'"), 2);
}

Test(copy_in, a_payload_that_postgres_refuses_is_a_dead_letter_and_the_others_of_its_batch_are_stored)
{
	send_batch("\"\\u0000\"");
	expect_acks(EVENTS - 1, 0, 1);
	expect_copies(0, 1);
	cr_assert_eq(bench_rows(), EVENTS - 1);
	cr_assert_eq(bench_count("dead_letters WHERE event_id = 'e-150'"), 1);
}

/* Halving would take two statements per event, while all other events wait. */
Test(copy_in, a_batch_full_of_payloads_that_postgres_refuses_is_not_halved)
{
	ordinary = "\"\\u0000\"";
	send_batch("1");
	expect_acks(1, 0, EVENTS - 1);
	cr_assert_eq(listener_metric(listener, "wsonce_batch_splits_total"), 0);
	cr_assert_eq(bench_count("dead_letters WHERE event_id LIKE 'e-%%'"), EVENTS - 1);
}

/* Row-level security does not apply to the owner, so this listener has another role. */
static void become_ordinary_user(void)
{
	database_exec(db, "DO $$ BEGIN CREATE ROLE ordinary LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
	database_exec(db, "GRANT ALL ON ALL TABLES IN SCHEMA public TO ordinary");
	database_exec(db, "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ordinary");
	char *conninfo = suite_text("%s user=ordinary", database_conninfo(db));
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
	bench_serve((struct listener_options){.postgres = conninfo}, "--batch-max 1000");
}

Test(copy_in, where_row_level_security_forbids_copy_insert_does_it)
{
	become_ordinary_user();
	database_exec(db, "ALTER TABLE events ENABLE ROW LEVEL SECURITY");
	database_exec(db, "CREATE POLICY anything ON events USING (true) WITH CHECK (true)");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(0, 1);
	cr_assert_eq(bench_rows(), EVENTS);
}

/* COPY would store the bytes of a jsonb as text. */
Test(copy_in, a_column_whose_type_was_changed_is_not_copied_into)
{
	database_exec(db, "ALTER TABLE events ALTER COLUMN payload TYPE text");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(0, 1);
	cr_assert_eq(bench_count("events WHERE payload = '1'"), EVENTS);
}

/* While Postgres waits for rows, it ignores its own timeouts. */
Test(copy_in, postgres_is_told_to_ask_whether_our_host_is_there)
{
	database_exec(db, "CREATE TABLE sources (source text)");
	database_exec(db, "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO sources "
			  "SELECT source FROM pg_settings WHERE name LIKE 'tcp_keepalives_i%%'; RETURN NULL; END $$");
	database_exec(db, "CREATE TRIGGER note BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION note()");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(1, 0);
	cr_assert_eq(bench_rows(), EVENTS);
	cr_assert_eq(bench_count("sources WHERE source = 'session'"), 2);
	cr_assert_eq(bench_count("sources WHERE source = 'default'"), 2);
}

/* --- into partitions --- */

TestSuite(copy_into_partitions, .fini = bench_close, .timeout = 120);

static void send_batch_to_partitions(const char *redis)
{
	struct run run = run_in(NULL, "schema --layout partitioned=4");

	event_type = "t";
	db = database_empty_new();
	database_exec(db, "%s", run.output);
	bench_serve((struct listener_options){.redis = redis}, "--batch-max 1000");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	cr_assert_eq(bench_rows(), EVENTS);
}

Test(copy_into_partitions, goes_what_is_claimed)
{
	send_batch_to_partitions(NULL);
	expect_copies(1, 0);
}

/* Another listener may store the same events in another order, and each would wait for the other's rows: a deadlock. */
Test(copy_into_partitions, does_not_go_what_nobody_claims)
{
	send_batch_to_partitions("none");
	expect_copies(0, 0);
}

/* --- with effects --- */

#define TYPE  "it's \\u00e9"
#define FLAGS "--batch-max 1000 --handler public.handle --consumer one --max-attempts 1 --config %s"

/* The first statements with effects have few rows. After these, one has as many as EVENTS. */
static void learn(void)
{
	for (char letter = 'v'; letter <= 'w'; letter++) {
		send_batch_of(letter, "1");
		expect_acks(EVENTS, 0, 0);
	}
	database_exec(db,
		      "TRUNCATE effects, outbox, processed_events, events"); /* webhooks lock rows in another order */
	stored_before = listener_metric(listener, "wsonce_copy_statements_total");
	refused_before = listener_metric(listener, "wsonce_copy_statements_refused_total");
}

/* A handler that writes a row per call, a consumer, and three webhooks, of which the last is for other types. */
static void set_up_effects(void)
{
	char *path = suite_file(
		"webhooks.json",
		"{\"webhooks\": [{\"name\": \"all\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": \"HOOK\"},"
		"{\"name\": \"some\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": \"HOOK\", "
		"\"types\": [\"u\", \"" TYPE "\"]},"
		"{\"name\": \"none\", \"url\": \"http://127.0.0.1:9\", \"secret-env\": \"HOOK\", \"types\": "
		"[\"v\"]}]}");

	db = database_new();
	database_exec(db, "CREATE TABLE effects (place serial, event_id text, n int);"
			  "CREATE FUNCTION public.handle(event_id text, event_type text, payload jsonb) RETURNS void "
			  "LANGUAGE plpgsql AS $f$ BEGIN "
			  "IF NOT EXISTS (SELECT FROM events AS e WHERE e.event_id = $1) OR $3 = '666' THEN "
			  "RAISE EXCEPTION 'not this one'; END IF; "
			  "INSERT INTO effects (event_id, n) VALUES ($1, $3::int); END $f$");
	setenv("HOOK", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", 1);
	bench_serve((struct listener_options){0}, FLAGS, path);
	free(path);
	event_type = TYPE;
	learn();
}

TestSuite(copy_effects, .init = set_up_effects, .fini = bench_close, .timeout = 120);

/* Each of these events has all effects once, and no other event has any. */
static void expect_effects(long n)
{
	const char *const counts[] = {
		"SELECT count(*) FROM effects",
		"SELECT count(DISTINCT event_id) FROM effects JOIN events USING (event_id)",
		"SELECT count(*) FROM processed_events JOIN effects USING (event_id) WHERE consumer = 'one'",
		"SELECT count(*) FROM processed_events",
		"SELECT count(*) FROM outbox JOIN events USING (event_id, event_type) WHERE target = 'all'",
		"SELECT count(*) FROM outbox AS o JOIN events AS e USING (event_id, event_type) WHERE target = 'some' "
		"AND o.payload = e.payload",
		"SELECT count(*) / 2 FROM outbox",
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		cr_expect_eq(database_long(db, "%s", counts[i]), n, "%s: %ld", counts[i],
			     database_long(db, "%s", counts[i]));
}

Test(copy_effects, what_follows_from_a_copied_batch_comes_with_it_in_the_order_of_ids)
{
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(1, 0);
	expect_effects(EVENTS);
	cr_assert_eq(bench_count("effects AS a JOIN effects AS b ON b.place = a.place + 1 "
				 "WHERE b.event_id < a.event_id"),
		     0);
}

Test(copy_effects, an_event_whose_handler_raises_has_none_and_the_others_of_its_batch_have_theirs)
{
	send_batch("666");
	expect_acks(EVENTS - 1, 0, 1);
	expect_copies(0, 1);
	expect_effects(EVENTS - 1);
	cr_assert_eq(bench_rows(), EVENTS - 1);
}

Test(copy_effects, an_event_whose_row_another_fleet_stored_has_them)
{
	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload) VALUES ('e-150', 'it''s ' || chr(233), '1')");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(0, 1);
	expect_effects(EVENTS);
}

Test(copy_effects, an_event_that_bears_the_mark_of_its_consumer_has_none_again)
{
	database_exec(db, "INSERT INTO processed_events (consumer, event_id) VALUES ('one', 'e-150')");
	send_batch("1");
	expect_acks(EVENTS - 1, 1, 0);
	expect_copies(0, 1);
	database_exec(db, "DELETE FROM events WHERE event_id = 'e-150';"
			  "DELETE FROM processed_events WHERE event_id = 'e-150'");
	expect_effects(EVENTS - 1);
}

Test(copy_effects, a_row_that_a_trigger_keeps_back_has_none)
{
	database_exec(db, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$;"
			  "CREATE TRIGGER keep BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.payload = '13') "
			  "EXECUTE FUNCTION keep()");
	send_batch("13");
	expect_acks(EVENTS - 1, 0, 1);
	expect_copies(0, 1);
	expect_effects(EVENTS - 1);
}

Test(copy_effects, a_mark_that_a_trigger_keeps_back_is_refused)
{
	database_exec(db, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$;"
			  "CREATE TRIGGER keep BEFORE INSERT ON processed_events FOR EACH ROW "
			  "WHEN (NEW.event_id = 'e-150') EXECUTE FUNCTION keep()");
	send_batch("1");
	expect_acks(EVENTS - 1, 0, 1);
	expect_copies(0, 1);
	expect_effects(EVENTS - 1);
}

/* The statement finds stored rows by their numbers, which do not grow here. */
Test(copy_effects, rows_whose_numbers_are_below_those_that_are_there_have_them_all_the_same)
{
	database_exec(db, "INSERT INTO events (id, event_id, event_type, payload) VALUES (1000000, 'z', '', '1')");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(0, 1);
	database_exec(db, "DELETE FROM events WHERE event_id = 'z'");
	expect_effects(EVENTS);
}

Test(copy_effects, what_triggers_of_the_table_do_comes_behind_the_handler)
{
	database_exec(db, "ALTER TABLE effects ADD stamped boolean;"
			  "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
			  "UPDATE effects SET stamped = true WHERE event_id = NEW.event_id; RETURN NULL; END $f$;"
			  "CREATE TRIGGER stamp AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION stamp()");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(0, 1);
	expect_effects(EVENTS);
	cr_assert_eq(bench_count("effects WHERE stamped"), EVENTS);
}

Test(copy_effects, a_handler_sees_the_mark_of_its_event)
{
	database_exec(db, "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
			  "IF NOT EXISTS (SELECT FROM processed_events WHERE event_id = NEW.event_id) THEN "
			  "RAISE 'there is no mark'; END IF; RETURN NEW; END $f$;"
			  "CREATE TRIGGER look BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION look()");
	send_batch("1");
	expect_acks(EVENTS, 0, 0);
	expect_copies(1, 0);
	expect_effects(EVENTS);
}
