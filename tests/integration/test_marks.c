/* Marks of events whose commits were lost: Redis still has marks of events that Postgres has lost, and an event that is
 * sent again must be stored again. A mark counts in the epoch of the database in which it was written, and in no
 * other. */
#include "support.h"
#include "bench.h"

#define ACK_MS 20000
#define COUNT  20
#define LAST   "e-19"

TestSuite(marks, .timeout = 120);

static struct peer *open_producer(struct listener *l)
{
	return peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
}

/* Sends an event and waits for the status in its ack. */
static void expect(struct peer *p, const char *id, const char *status)
{
	cr_assert(peer_sendf(p, "{\"event_id\":\"%s\",\"payload\":{\"n\":1}}", id));
	ack_expect(p, id, status);
}

static void expect_all(struct listener *l, const char *status)
{
	struct peer *p = open_producer(l);
	char id[20];

	for (int i = 0; i < COUNT; i++) {
		snprintf(id, sizeof id, "e-%d", i);
		expect(p, id, status);
	}
	peer_free(p);
}

static bool is_marked(const char *id)
{
	return claims_begins(redisd_shared(), id, "done@");
}

static struct listener *start(const char *conninfo)
{
	return listener_start(&(struct listener_options){.postgres = conninfo}, "--postgres-timeout 5");
}

/* A listener on the suite's Postgres, and a producer for it. */
static void begin(void)
{
	db = database_new();
	listener = start(database_conninfo(db));
	producer = open_producer(listener);
}

static long rows(struct database *in)
{
	return database_long(in, "select count(*) from events");
}

/* Deletes the last rows, as a crash with synchronous_commit = off may do. */
static void forget_rows(struct database *in)
{
	database_exec(in, "delete from events");
}

/* --- the history goes another way --- */

Test(marks, events_whose_commits_a_crash_undid_are_stored_again)
{
	struct postgres *pg = postgres_new();
	struct listener *l = start(postgres_conninfo(pg));

	expect_all(l, "persisted");
	await(is_marked(LAST), ACK_MS);
	expect_all(l, "duplicate");
	postgres_kill(pg);
	postgres_start(pg);
	forget_rows(postgres_database(pg));
	listener_wait_ready(l);
	expect_all(l, "persisted");
	cr_assert_eq(rows(postgres_database(pg)), COUNT);
	expect_all(l, "duplicate");
	cr_assert_geq(listener_metric(l, "wsonce_marks_past_total"), COUNT);
}

Test(marks, events_that_a_promoted_standby_has_not_are_stored_again)
{
	struct postgres *primary = postgres_new(), *standby;
	struct listener *l = start(postgres_conninfo(primary));

	listener_stop(l); /* it has created the schema */
	standby = postgres_standby_new(primary);
	char *either = suite_text("host=%s,%s port=5432 user=postgres dbname=postgres", postgres_directory(primary),
				  postgres_directory(standby));
	l = start(either);
	expect_all(l, "persisted");
	await(is_marked(LAST), ACK_MS);
	cr_assert_eq(rows(postgres_database(standby)), 0);
	postgres_stop(primary);
	postgres_promote(standby);
	listener_wait_ready(l);
	expect_all(l, "persisted");
	cr_assert_eq(rows(postgres_database(standby)), COUNT);
}

/* An orderly restart loses nothing, so marks stay valid. */
Test(marks, an_orderly_restart_keeps_the_epoch)
{
	struct postgres *pg = postgres_new();
	struct listener *l = start(postgres_conninfo(pg));

	expect_all(l, "persisted");
	await(is_marked(LAST), ACK_MS);
	postgres_restart(pg);
	forget_rows(postgres_database(pg));
	listener_wait_ready(l);
	await(listener_metric(l, "wsonce_postgres_connects_total") >= 2, ACK_MS);
	expect_all(l, "duplicate");
	cr_assert_eq(rows(postgres_database(pg)), 0);
	cr_assert_not(listener_has_logged(l, "it may lack rows"));
}

/* The server seems to have been shut down since an hour ago, as one whose directory was copied then. */
static void look_old(struct database *in)
{
	database_exec(in, "update wsonce_listeners set seen_at = seen_at - interval '1 hour'; delete from events");
}

Test(marks, events_that_a_copied_directory_has_not_are_stored_again)
{
	struct postgres *pg = postgres_new();
	struct listener *l = start(postgres_conninfo(pg)), *other;

	expect_all(l, "persisted");
	await(is_marked(LAST), ACK_MS);
	listener_kill(l);
	look_old(postgres_database(pg));
	postgres_restart(pg);
	database_exec(postgres_database(pg), "checkpoint");
	l = start(postgres_conninfo(pg));
	expect_all(l, "persisted");
	cr_assert_eq(rows(postgres_database(pg)), COUNT);
	forget_rows(postgres_database(pg));
	other = start(postgres_conninfo(pg)); /* it finds that epoch */
	expect_all(other, "duplicate");
}

/* CREATE DATABASE copies the rows of all tables as they are, also of wsonce_epoch. */
Test(marks, events_that_a_copied_database_has_not_are_stored_again)
{
	struct database *admin = database_open(suite_env("WSONCE_TEST_POSTGRES"));

	db = database_new();
	listener_stop(start(database_conninfo(db)));
	char *name = database_text(db, "select current_database()"), *copy = suite_text("%s_copy", name);
	database_free(db);
	database_exec(admin, "create database \"%s\" template \"%s\"", copy, name);
	listener = start(database_conninfo(db));
	expect_all(listener, "persisted");
	await(is_marked(LAST), ACK_MS);
	listener_kill(listener);
	database_exec(admin, "drop database \"%s\" with (force)", name);
	database_exec(admin, "alter database \"%s\" rename to \"%s\"", copy, name);
	database_free(admin);
	listener = start(database_conninfo(db));
	expect_all(listener, "persisted");
	cr_assert_eq(rows(db), COUNT);
}

/* --- under a connection that stays, as behind a pooler --- */

/* From now on another server answers, which has neither the rows nor the epoch. */
static void exchange_server(struct database *in)
{
	database_exec(in, "begin; delete from events; delete from wsonce_epoch; commit");
}

Test(marks, a_statement_that_stores_finds_out_that_the_server_is_another)
{
	begin();
	expect(producer, "old", "persisted");
	await(is_marked("old"), ACK_MS);
	exchange_server(db);
	expect(producer, "new", "persisted");
	await(listener_metric(listener, "wsonce_postgres_connects_total") == 2, ACK_MS);
	listener_wait_ready(listener);
	expect(producer, "old", "persisted");
	expect(producer, "old", "duplicate");
	cr_assert_eq(rows(db), 2);
	char *log = process_errors(listener_process(listener));
	char *said = strstr(log, "was restored or stopped for minutes: it may lack rows\" since=");
	cr_assert(said && !strstr(strchr(said, '='), "it may lack rows"), "%s", log);
}

Test(marks, a_statement_that_stores_finds_out_that_the_server_is_an_old_copy)
{
	begin();
	expect(producer, "old", "persisted");
	await(is_marked("old"), ACK_MS);
	look_old(db);
	database_exec(db, "update wsonce_epoch set run = run - interval '1 s', home = pg_current_xact_id()::xid");
	expect(producer, "new", "persisted");
	await(listener_metric(listener, "wsonce_postgres_connects_total") == 2, ACK_MS);
	listener_wait_ready(listener);
	expect(producer, "old", "persisted");
	cr_assert_eq(rows(db), 2);
}

/* The server seems to have been restarted, without its rows, a second after a check-in. */
static void look_restarted(void)
{
	begin();
	expect(producer, "old", "persisted");
	await(is_marked("old"), ACK_MS);
	database_exec(db, "insert into wsonce_listeners (listener, dedup_window_s, seen_at) values ('before', 300, "
			  "pg_postmaster_start_time() - interval '1 s'); delete from events;"
			  "update wsonce_epoch set run = run - interval '1 s', home = pg_current_xact_id()::xid");
}

/* It may reach a server that was restarted before anybody asks for the epoch. */
Test(marks, a_check_in_after_the_start_does_not_end_the_epoch)
{
	look_restarted();
	listener_kill(listener);
	listener = start(database_conninfo(db));
	expect_all(listener, "persisted");
	expect(open_producer(listener), "old", "duplicate");
}

/* The row of the epoch names a run of the server before the one that the listener knows. */
Test(marks, a_directory_put_back_within_two_minutes_is_an_old_copy)
{
	look_restarted();
	expect(producer, "new", "persisted");
	await(listener_metric(listener, "wsonce_postgres_connects_total") == 2, ACK_MS);
	listener_wait_ready(listener);
	expect(producer, "old", "persisted");
	cr_assert(listener_has_logged(listener, "it may lack rows"));
}

/* If nothing was stored for a while, a mark makes the listener query the epoch. */
Test(marks, a_mark_is_not_believed_of_a_server_that_was_silent_for_a_second)
{
	begin();
	expect(producer, "id", "persisted");
	await(is_marked("id"), ACK_MS);
	exchange_server(db);
	wait_pause_ms(1100);
	expect(producer, "id", "persisted");
	cr_assert_eq(rows(db), 1);
	wait_pause_ms(1100);
	expect(producer, "id", "duplicate");
}

Test(marks, a_copy_stored_by_another_way_tells_the_epoch_as_well)
{
	begin();
	expect(producer, "old", "persisted");
	await(is_marked("old"), ACK_MS);
	exchange_server(db);
	for (int i = 0; i < 400; i++)
		cr_assert(peer_sendf(producer, "{\"event_id\":\"c-%d\",\"payload\":{}}", i));
	for (int i = 0; i < 400; i++)
		peer_recv(producer, ACK_MS);
	cr_assert_gt(listener_metric(listener, "wsonce_copy_statements_total"), 0);
	await(listener_metric(listener, "wsonce_postgres_connects_total") == 2, ACK_MS);
	cr_assert_eq(rows(db), 400);
}

/* --- marks as others left them --- */

Test(marks, marks_of_another_epoch_are_not_believed)
{
	static const char *const values[] = {"done@1700000000000",
					     "dead@1700000000000",
					     "done@1700000000000.00000001",
					     "dead@1700000000000.00000001/0123456789abcdef",
					     "done@",
					     "dead@x"};
	begin();
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char *id = suite_text("e-%zu", i);
		claims_put(redisd_shared(), id, values[i], 60000);
		expect(producer, id, "persisted");
		await(is_marked(id), ACK_MS);
		expect(producer, id, "duplicate");
	}
}

/* A dump also contains the row of wsonce_epoch. */
Test(marks, a_database_restored_from_a_dump_begins_an_epoch)
{
	begin();
	expect(producer, "id", "persisted");
	await(is_marked("id"), ACK_MS);
	peer_free(producer);
	listener_stop(listener);
	database_exec(
		db, "begin; delete from events; create table dump as select * from wsonce_epoch; truncate wsonce_epoch;"
		    "insert into wsonce_epoch select * from dump; commit");
	listener = start(database_conninfo(db));
	producer = open_producer(listener);
	expect(producer, "id", "persisted");
	cr_assert_eq(database_long(db, "select count(*) from wsonce_epoch join dump using (epoch)"), 0);
}

/* --- warnings --- */

Test(marks, settings_by_which_commits_may_vanish_are_warned_of)
{
	db = database_new();
	struct listener *l = start(suite_text("%s options='-c synchronous_commit=off'", database_conninfo(db)));

	cr_assert(listener_has_logged(l, "postgres may lose commits when it crashes"));
	cr_assert(listener_has_logged(l, "synchronous_commit = off"));
}

/* --- MACs of marks --- */

#define KEY "planted-key-of-the-fleet"

static struct listener *start_with_key(struct database *in, const char *key)
{
	return listener_start(&(struct listener_options){.database = in}, "--marks-key-file %s",
			      suite_file("key", key));
}

/* Forgeries by another user of Redis: an invented mark, the mark of another event, and one of another kind. */
static void forge(struct database *in)
{
	char *true_mark = claims_value(redisd_shared(), "true"), *dead = strdup(true_mark);

	memcpy(dead, "dead", 4);
	claims_put_mark(redisd_shared(), in, "made-up", "done@", "");
	claims_put_mark(redisd_shared(), in, "made-up-mac", "done@", "/0123456789abcdef0123456789abcdef");
	claims_put(redisd_shared(), "moved", true_mark, 60000);
	claims_put(redisd_shared(), "killed", dead, 60000);
}

Test(marks, without_a_key_a_mark_that_is_made_up_loses_the_event)
{
	begin();
	expect(producer, "true", "persisted");
	await(is_marked("true"), ACK_MS);
	forge(db);
	expect(producer, "made-up", "duplicate");
	expect(producer, "moved", "duplicate");
	cr_assert_eq(rows(db), 1);
}

Test(marks, with_a_key_marks_that_are_made_up_are_not_believed)
{
	static const char *const ids[] = {"made-up", "made-up-mac", "moved", "killed"};
	db = database_new();
	struct listener *l = start_with_key(db, KEY);
	struct peer *p = open_producer(l);

	expect(p, "true", "persisted");
	await(is_marked("true"), ACK_MS);
	forge(db);
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		expect(p, ids[i], "persisted");
	cr_assert_eq(rows(db), 5);
	cr_assert_eq(listener_metric(l, "wsonce_marks_unsealed_total"), 4);
	expect(p, "true", "duplicate");
	cr_assert_eq(listener_metric(l, "wsonce_marks_unsealed_total"), 4);
}

/* While the key is being distributed, each listener stores what it does not know, and no event is lost or doubled. */
Test(marks, listeners_with_and_without_the_key_are_one_fleet)
{
	db = database_new();
	struct listener *fleet[] = {start(database_conninfo(db)), start_with_key(db, KEY),
				    start_with_key(db, "planted-key-of-last-year")};
	struct peer *peers[] = {open_producer(fleet[0]), open_producer(fleet[1]), open_producer(fleet[2])};
	char id[32];

	for (int first = 0; first < 3; first++)
		for (int n = 0; n < COUNT; n++) {
			snprintf(id, sizeof id, "%d-%d", first, n);
			for (int i = 0; i < 3; i++)
				expect(peers[(first + i) % 3], id, i ? "duplicate" : "persisted");
		}
	cr_assert_eq(rows(db), 3 * COUNT);
	cr_assert_eq(listener_metric(fleet[0], "wsonce_marks_unsealed_total"), 0);
	for (int i = 0; i < 3; i++) {
		peer_free(peers[i]);
		listener_free(fleet[i]);
	}
}
