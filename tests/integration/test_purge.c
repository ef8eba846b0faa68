/* wsonce purge: old rows are removed, whatever else runs, dies or purges at the same time, and no event is stored
 * twice. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 60000
#define GUARD      "--time-pointer /at --max-age 7d"

/* Adds the events e-1 to e-n, stored this many days ago by listeners without --max-age. */
static void store(const char *name, long n, int days)
{
	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload, processed_at) SELECT '%s-' || i, 't', "
		      "jsonb_build_object('n', i), now() - %d * interval '1 day' FROM generate_series(1, %ld) AS i",
		      name, days, n);
}

static long count(const char *condition)
{
	return bench_count("events WHERE %s", condition);
}

#define IS_PURGED "purged_at IS NOT NULL AND payload = 'null'"
#define IS_WHOLE  "purged_at IS NULL AND payload <> 'null'"

Test(purge, old_events_lose_their_payload_and_keep_their_id, .init = bench_open)
{
	store("old", 2500, 31);
	store("young", 100, 29);
	run_expect(db, 0, "payloads removed before", "purge --older-than 30d");
	cr_assert_eq(count("event_id LIKE 'old-%' AND event_type = 't' AND " IS_PURGED), 2500);
	cr_assert_eq(count("event_id LIKE 'young-%' AND " IS_WHOLE), 100);
	cr_assert_eq(count("true"), 2600);
}

Test(purge, what_is_purged_is_not_purged_again, .init = bench_open)
{
	store("old", 1500, 31);
	run_expect(db, 0, ": 1500\n", "purge --older-than 30d");
	char *first = database_text(db, "SELECT max(purged_at) FROM events");
	run_expect(db, 0, ": 0\n", "purge --older-than 30d");
	char *second = database_text(db, "SELECT max(purged_at) FROM events");
	cr_assert_str_eq(first, second);
}

Test(purge, dry_run_counts_and_changes_nothing, .init = bench_open)
{
	store("old", 1500, 31);
	store("young", 10, 1);
	run_expect(db, 0, "dry run: payloads removed", "purge --older-than 30d --dry-run");
	run_expect(db, 0, "\"done\":1500", "purge --older-than 30d --dry-run --json");
	cr_assert_eq(count(IS_WHOLE), 1510);
}

Test(purge, old_rows_between_young_ones_are_found, .init = bench_open)
{
	store("young", 60000, 1);
	database_exec(db, "UPDATE events SET processed_at = now() - interval '40 days' WHERE id %% 1000 = 7");
	run_expect(db, 0, ": 60\n", "purge --older-than 30d --batch 7");
	cr_assert_eq(count("id % 1000 = 7 AND " IS_PURGED), 60);
	cr_assert_eq(count(IS_WHOLE), 59940);
}

/* In this DateStyle, India's zone is written IST, which Postgres reads as Israel's. */
Test(purge, age_is_the_same_however_the_database_writes_times, .init = bench_open)
{
	store("young", 10, 0);
	database_exec(db, "UPDATE events SET processed_at = now() - interval '30 days' + interval '2 hours'");
	database_exec(db, "DO $$BEGIN EXECUTE format('ALTER DATABASE %%I SET DateStyle = ''SQL, DMY''', "
			  "current_database()); EXECUTE format('ALTER DATABASE %%I SET TimeZone = ''Asia/Kolkata''', "
			  "current_database()); END$$");
	run_expect(db, 0, ": 0 (0.0 MiB)\n", "purge --older-than 30d --dry-run");
	run_expect(db, 0, ": 0\n", "purge --older-than 30d");
	cr_assert_eq(count(IS_WHOLE), 10);
}

Test(purge, row_that_is_locked_is_left_and_told_of, .init = bench_open)
{
	struct database *other = database_open(database_conninfo(db));

	store("old", 10, 31);
	database_exec(other, "BEGIN");
	database_exec(other, "SELECT 1 FROM events WHERE event_id = 'old-3' FOR UPDATE");
	run_expect(db, 0, ": 9, and 1 left because others have locked them", "purge --older-than 30d");
	database_exec(other, "COMMIT");
	run_expect(db, 0, ": 1\n", "purge --older-than 30d");
	cr_assert_eq(count(IS_PURGED), 10);
}

Test(purge, table_that_is_locked_ends_it_and_nothing_waits_for_long, .init = bench_open)
{
	store("old", 10, 31);
	struct database *lock = fleet_lock(db);
	run_expect_error(db, 1, "lock timeout", "purge --older-than 30d");
	fleet_unlock(lock);
	run_expect(db, 0, ": 10\n", "purge --older-than 30d");
}

/* ---- the fleet goes on ---- */

/* Sends the fleet's events from 1 to n again. */
static void send_again(struct fleet *f, long n)
{
	long sent = f->sent;

	f->sent = 0;
	fleet_send(f, n);
	f->sent = sent;
}

/* Returns how many events got past Redis: claimed, or without an answer in time. */
static double tried_to_store(struct fleet *f)
{
	return fleet_metric(f, "wsonce_claims_won_total") + fleet_metric(f, "wsonce_claims_skipped_total");
}

Test(purge, late_copies_of_purged_events_are_absorbed_while_the_fleet_goes_on)
{
	struct fleet fleet;
	struct process *purge;

	db = database_new();
	fleet_start(&fleet, 3, db, NULL, "--dedup-window 1");
	fleet_send(&fleet, 3000);
	fleet_wait_rows(&fleet, 3000, SETTLED_MS);
	database_exec(db, "UPDATE events SET processed_at = now() - interval '31 days'");
	purge = run_start_on(db, "purge --older-than 30d --batch 20");
	for (int i = 0; i < 10; i++) {
		fleet_send(&fleet, 500);
		send_again(&fleet, 3000);
	}
	cr_assert_eq(process_wait(purge, SETTLED_MS), 0, "%s", process_last_words(purge));
	await(redisd_count(redisd_shared(), redisd_prefix()) == 0, SETTLED_MS, "the marks stay");
	double tried = tried_to_store(&fleet);
	/* For some seconds each listener knows what the others have stored. */
	await((send_again(&fleet, 3000), tried_to_store(&fleet) >= tried + 3000), SETTLED_MS, "no row was looked for");
	await(fleet_rows(&fleet) == 8000 && fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS);
	cr_assert_eq(bench_count("dead_letters"), 0);
	cr_assert_eq(count("substring(event_id FROM 3)::int <= 3000 AND " IS_PURGED), 3000);
	cr_assert_eq(count("substring(event_id FROM 3)::int > 3000 AND " IS_WHOLE), 5000);
}

/* ---- interrupted, killed, two at once ---- */

#define SLOW_ROWS 3000
#define SLOW_MS   10 /* per row: half a minute for all, of which a test uses some hundred milliseconds */

/* Starts a purge and waits until some rows are done. */
static struct process *start_slow(void)
{
	struct process *purge;

	store("old", SLOW_ROWS, 31);
	database_slow_down(db, SLOW_MS);
	purge = run_start_on(db, "purge --older-than 30d --batch 1");
	await(count(IS_PURGED) > 10, SETTLED_MS, "%s", process_last_words(purge));
	return purge;
}

/* Expects no row to be purged only in part. */
static void expect_no_half(void)
{
	cr_assert_eq(count("(purged_at IS NULL) <> (payload <> 'null')"), 0);
}

Test(purge, killed_in_the_middle_it_goes_on_when_it_is_run_again, .init = bench_open)
{
	struct process *purge = start_slow();

	process_signal(purge, SIGKILL);
	process_wait(purge, SETTLED_MS);
	cr_assert_lt(count(IS_PURGED), SLOW_ROWS);
	expect_no_half();
	database_slow_down(db, 0);
	run_expect(db, 0, "payloads removed", "purge --older-than 30d");
	cr_assert_eq(count(IS_PURGED), SLOW_ROWS);
}

Test(purge, interrupted_it_tells_what_is_done, .init = bench_open)
{
	struct process *purge = start_slow();

	process_signal(purge, SIGTERM);
	cr_assert_eq(process_wait(purge, SETTLED_MS), 1, "%s", process_last_words(purge));
	char *output = process_output(purge);
	cr_assert_not_null(strstr(process_last_words(purge), "interrupted"));
	long done = strtol(strrchr(output, ' '), NULL, 10);
	cr_assert_eq(count(IS_PURGED), done, "%s", output);
	cr_assert_lt(done, SLOW_ROWS);
	expect_no_half();
}

Test(purge, interrupted_twice_it_ends_though_the_database_hangs)
{
	struct postgres *pg = postgres_new();

	db = postgres_database(pg);
	run_expect(db, 0, NULL, "migrate");
	struct process *purge = start_slow();
	postgres_pause(pg);
	await((process_signal(purge, SIGTERM), !process_is_alive(purge)), SETTLED_MS);
	postgres_resume(pg);
	expect_no_half();
}

Test(purge, several_at_once_share_the_work, .init = bench_open)
{
	struct process *purges[3];
	long done = 0;

	store("old", 20000, 31);
	database_exec(db, "analyze events"); /* without statistics, each step reads all rows of a partitioned table */
	for (int i = 0; i < 3; i++)
		purges[i] = run_start_on(db, "purge --older-than 30d --batch 50");
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(process_wait(purges[i], SETTLED_MS), 0, "%s", process_last_words(purges[i]));
		char *output = process_output(purges[i]);
		done += strtol(strstr(output, "00: ") ? strstr(output, "00: ") + 4 : "0", NULL, 10);
		process_free(purges[i]);
	}
	cr_assert_eq(done, 20000, "%ld", done);
	cr_assert_eq(count(IS_PURGED), 20000);
}

/* ---- rows that go ---- */

Test(purge, rows_are_not_deleted_without_a_guard, .init = bench_open)
{
	store("old", 10, 31);
	run_expect_error(db, 2, "no listener ran within the last hour", "purge --older-than 30d --delete-rows");
	run_expect_error(db, 2, "--older-than has to be more than a day", "purge --older-than 24h --delete-rows");
	run_expect_error(db, 2, "--max-age is 30d",
			 "purge --older-than 30d --delete-rows --time-pointer /at --max-age 30d");
	listener = listener_start(&(struct listener_options){.database = db}, "--instance-id open");
	await(bench_count("wsonce_listeners"), SETTLED_MS);
	run_expect_error(db, 2, "the listener open.", "purge --older-than 30d --delete-rows " GUARD);
	run_expect_error(db, 2, "without --max-age", "purge --older-than 30d --delete-rows --dry-run");
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert_eq(count("true"), 10);
	cr_assert_eq(bench_count("wsonce_retention"), 0);
	cr_assert_eq(bench_count("wsonce_listeners"), 0);
}

Test(purge, greatest_age_of_the_listeners_is_a_day_below_that_of_the_rows, .init = bench_open)
{
	listener = listener_start(&(struct listener_options){.database = db}, GUARD);
	await(bench_count("wsonce_listeners"), SETTLED_MS);
	store("old", 10, 9);
	run_expect_error(db, 2, "--max-age 7d", "purge --older-than 7d --delete-rows");
	run_expect_error(db, 2, "--max-age 7d", "purge --older-than 191h --delete-rows");
	cr_assert_eq(count("true"), 10);
	run_expect(db, 0, "rows deleted", "purge --older-than 192h --delete-rows");
	cr_assert_eq(count("true"), 0);
	cr_assert_eq(listener_stop(listener), 0);
}

Test(purge, late_copy_of_a_deleted_row_is_a_stale_dead_letter_and_no_row, .init = bench_open)
{
	store("old", 1200, 31);
	bench_serve((struct listener_options){0}, GUARD);
	run_expect(db, 0, "rows deleted", "purge --older-than 30d --delete-rows");
	cr_assert_eq(count("true"), 0);
	peer_send_text(producer, "{\"event_id\":\"old-7\",\"at\":\"2020-01-01T00:00:00Z\"}");
	ack_expect_rejected(producer, "old-7", "stale");
	cr_assert_eq(count("true"), 0);
	cr_assert_eq(bench_count("dead_letters WHERE event_id = 'old-7'"), 1);
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
}

Test(purge, where_rows_were_deleted_a_listener_without_the_guard_does_not_start, .init = bench_open)
{
	const struct listener_options options = {.database = db, .without_waiting = true};

	run_expect(db, 0, "rows deleted", "purge --older-than 30d --delete-rows " GUARD);
	struct listener *open = listener_start(&options, NULL);
	cr_assert_eq(process_wait(listener_process(open), SETTLED_MS), 1);
	cr_assert_not_null(strstr(process_last_words(listener_process(open)), "--max-age of at most 29d"));
	struct listener *guarded =
		listener_start(&(struct listener_options){.database = db}, "--time-pointer /at --max-age 29d");
	cr_assert_eq(listener_stop(guarded), 0);
}

/* ---- dead letters ---- */

static void dead_letter(int days, int n)
{
	database_exec(db,
		      "INSERT INTO dead_letters (digest, reason, raw, instance_id, first_seen, last_seen) SELECT "
		      "decode(md5(%d || '-' || i), 'hex'), 'reason', 'raw', 'me', now() - interval '99 days', "
		      "now() - %d * interval '1 day' - i * interval '1 second' FROM generate_series(1, %d) AS i",
		      days, days, n);
}

static long letters(const char *condition)
{
	return bench_count("dead_letters WHERE %s", condition);
}

Test(purge, what_nobody_has_dealt_with_stays_unless_it_is_asked_for, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, last_seen, resolved_at) "
		      "SELECT i::text::bytea, i, 'x', '', 'i', now() - interval '9 days', "
		      "CASE i WHEN 1 THEN now() END FROM generate_series(1, 3) AS i");
	database_exec(db, "INSERT INTO outbox (target, event_id, event_type, state, settled_at) SELECT 't', s, '', s, "
			  "now() - interval '9 days' FROM unnest('{dead,delivered,discarded}'::text[]) AS s");
	run_expect(db, 0, "deleted before", "purge --dry-run --dead-letters-older-than 1d --outbox-older-than 1d");
	run_expect(db, 0, ": 0\n", "purge --dead-letters-keep 1");
	run_expect(db, 0, ": 2\n", "purge --dead-letters-older-than 1d --outbox-older-than 1d");
	cr_assert_eq(letters("true"), 2);
	cr_assert_eq(bench_count("outbox WHERE state = 'dead'"), 1);
	run_expect(db, 0, ": 2\n", "purge --dead-letters-older-than 1d --open-too");
	cr_assert_eq(letters("true"), 0);
}

Test(purge, dead_letters_go_by_when_they_were_last_seen, .init = bench_open)
{
	dead_letter(91, 1500);
	dead_letter(89, 20);
	run_expect(db, 0, "dead letters deleted before", "purge --open-too --dead-letters-older-than 90d");
	cr_assert_eq(letters("true"), 20);
}

/* The mark is removed with the dead letter, so a copy is tried again and gets its own answer. */
static void reject_again(const char *flags)
{
	bench_serve((struct listener_options){0}, "--max-attempts 1 %s", flags);
	database_exec(db, "ALTER TABLE events ADD CONSTRAINT no_bad CHECK (event_type <> 'bad')");
	for (int i = 0; i < 2; i++) {
		peer_sendf(producer, "{\"event_id\":\"b\",\"event_type\":\"bad\"}");
		ack_expect(producer, "b", "rejected");
		cr_assert_eq(letters("event_id = 'b'"), 1);
		run_expect(db, 0, ": 1\n", "purge --open-too --dead-letters-keep 0");
	}
	database_exec(db, "ALTER TABLE events DROP CONSTRAINT no_bad");
	peer_sendf(producer, "{\"event_id\":\"b\",\"event_type\":\"bad\"}");
	ack_expect(producer, "b", "persisted");
}

Test(purge, message_whose_letter_is_gone_has_one_again_if_it_is_rejected_again, .init = bench_open)
{
	reject_again("");
}

/* Purge removes the letters of all consumers. */
Test(purge, message_of_any_consumer_whose_letter_is_gone_has_one_again, .init = bench_open)
{
	reject_again("--consumer shop");
}

Test(purge, dead_letters_go_by_number_the_newest_stay, .init = bench_open)
{
	dead_letter(5, 30);
	dead_letter(1, 30);
	run_expect(db, 0, ": 0\n", "purge --open-too --dead-letters-keep 60");
	run_expect(db, 0, ": 25\n", "purge --open-too --dead-letters-keep 35");
	cr_assert_eq(letters("last_seen > now() - interval '2 days'"), 30);
	run_expect(db, 0, ": 5\n", "purge --open-too --dead-letters-keep 100 --dead-letters-older-than 4d");
	run_expect(db, 0, ": 30\n", "purge --open-too --dead-letters-keep 0");
	run_expect(db, 0, ": 0\n", "purge --open-too --dead-letters-keep 0");
	cr_assert_eq(letters("true"), 0);
}

/* ---- deliveries ---- */

static void deliver(const char *state, int days, int n)
{
	database_exec(
		db,
		"INSERT INTO outbox (target, event_id, event_type, payload, created_at, state, settled_at) SELECT "
		"'crm', 'e-' || i, 't', '1', now() - interval '99 days', '%s', CASE '%s' WHEN 'pending' THEN NULL "
		"ELSE now() - %d * interval '1 day' - i * interval '1 second' END FROM generate_series(1, %d) AS i",
		state, state, days, n);
}

static long deliveries(const char *condition)
{
	return bench_count("outbox WHERE %s", condition);
}

Test(purge, settled_deliveries_go_by_age_and_pending_ones_stay, .init = bench_open)
{
	deliver("delivered", 31, 1500);
	deliver("pending", 99, 20);
	deliver("dead", 31, 7);
	deliver("discarded", 31, 3);
	deliver("delivered", 29, 11);
	deliver("dead", 29, 13);
	run_expect(db, 0, "dry run: deliveries deleted before", "purge --open-too --outbox-older-than 30d --dry-run");
	cr_assert_eq(deliveries("true"), 1554);
	run_expect(db, 0, "deliveries deleted before", "purge --open-too --outbox-older-than 30d");
	cr_assert_eq(deliveries("state = 'pending'"), 20);
	cr_assert_eq(deliveries("state <> 'pending' AND settled_at > now() - interval '30 days'"), 24);
	cr_assert_eq(deliveries("true"), 44);
}

Test(purge, settled_deliveries_go_by_number_whatever_is_pending, .init = bench_open)
{
	deliver("delivered", 5, 30);
	deliver("pending", 5, 100);
	deliver("dead", 1, 30);
	run_expect(db, 0, "deliveries deleted: 0\n", "purge --open-too --outbox-keep 1000");
	run_expect(db, 0, ": 0\n", "purge --open-too --outbox-keep 60");
	run_expect(db, 0, ": 25\n", "purge --open-too --outbox-keep 35");
	cr_assert_eq(deliveries("state = 'dead'"), 30);
	run_expect(db, 0, ": 5\n", "purge --open-too --outbox-keep 100 --outbox-older-than 4d --batch 2");
	run_expect(db, 0, "\"outbox\":{\"before\":\"infinity\",\"done\":30,\"locked\":0}",
		   "purge --open-too --outbox-keep 0 --json");
	cr_assert_eq(deliveries("true"), 100);
}

/* An operator has made it pending again after the step read it: the step skips the locked row. */
Test(purge, delivery_that_is_retried_meanwhile_stays, .init = bench_open)
{
	struct database *other = database_open(database_conninfo(db));

	deliver("dead", 31, 10);
	database_exec(other, "BEGIN");
	database_exec(other, "UPDATE outbox SET state = 'pending', settled_at = NULL WHERE event_id = 'e-3'");
	run_expect(db, 0, ": 9, and 1 left because others have locked them",
		   "purge --open-too --outbox-older-than 30d");
	database_exec(other, "COMMIT");
	run_expect(db, 0, ": 0\n", "purge --open-too --outbox-older-than 30d");
	cr_assert_eq(deliveries("event_id = 'e-3' AND state = 'pending'"), 1);
}

/* ---- what consumers have processed ---- */

static void process(const char *consumer, int days, int n)
{
	database_exec(db,
		      "INSERT INTO processed_events (consumer, event_id, processed_at) SELECT '%s', 'e-%d-' || i, "
		      "now() - %d * interval '1 day' - i * interval '1 second' FROM generate_series(1, %d) AS i",
		      consumer, days, days, n);
}

static long processed(const char *condition)
{
	return bench_count("processed_events WHERE %s", condition);
}

Test(purge, what_consumers_processed_goes_by_age, .init = bench_open)
{
	process("billing", 31, 1500);
	process("billing", 29, 20);
	process("search", 40, 2500);
	process("search", 29, 20);
	database_exec(db, "INSERT INTO processed_events VALUES ('search', E'it''s \"\\\\\t日本\"', '2026-01-01')");
	run_expect(db, 0, "\"done\":4001", "purge --processed-older-than 30d --dry-run --json " GUARD);
	cr_assert_eq(processed("true"), 4041);
	cr_assert_eq(bench_count("wsonce_retention"), 0);
	run_expect(db, 0, "processed events forgotten before", "purge --processed-older-than 30d --batch 300 " GUARD);
	cr_assert_eq(processed("processed_at > now() - interval '30 days'"), 40);
	cr_assert_eq(processed("true"), 40);
	cr_assert_eq(database_long(db, "SELECT rows_deleted_s FROM wsonce_retention"), 30 * 86400);
}

Test(purge, what_consumers_processed_goes_by_number, .init = bench_open)
{
	process("billing", 40, 30);
	process("search", 31, 30);
	run_expect(db, 0, ": 0\n", "purge --processed-keep 61");
	run_expect(db, 0, ": 25\n", "purge --processed-keep 35 " GUARD);
	cr_assert_eq(processed("consumer = 'search'"), 30);
	run_expect(db, 0, "\"processed_events\":{\"before\":\"", "purge --processed-keep 35 --json " GUARD);
	run_expect(db, 0, ": 5\n", "purge --processed-keep 100 --processed-older-than 35d " GUARD);
}

Test(purge, row_of_a_consumer_that_is_locked_is_left_and_told_of, .init = bench_open)
{
	struct database *other = database_open(database_conninfo(db));

	process("billing", 31, 10);
	database_exec(other, "BEGIN");
	database_exec(other, "SELECT 1 FROM processed_events WHERE event_id = 'e-31-3' FOR UPDATE");
	run_expect(db, 0, ": 9, and 1 left because others have locked them", "purge --processed-older-than 30d " GUARD);
	database_exec(other, "COMMIT");
}

Test(purge, what_consumers_processed_is_not_forgotten_without_a_guard, .init = bench_open)
{
	store("old", 10, 31);
	process("billing", 31, 10);
	run_expect_error(db, 2, "no listener ran within the last hour", "purge --processed-older-than 30d");
	run_expect_error(db, 2,
			 "--processed-older-than or --processed-keep is refused: --max-age is 7d. A late copy of an "
			 "event that is no longer known to be processed would be processed again: run all listeners",
			 "purge --processed-older-than 7d " GUARD);
	run_expect_error(db, 2, "so the age of the youngest has to be more than a day",
			 "purge --processed-keep 0 " GUARD);
	run_expect_error(db, 2, "--processed-older-than",
			 "purge --older-than 30d --delete-rows --processed-older-than 7d " GUARD);
	cr_assert_eq(bench_count("wsonce_retention"), 0, "the other guard has left its age");
	listener = listener_start(&(struct listener_options){.database = db}, "--instance-id open");
	await(bench_count("wsonce_listeners"), SETTLED_MS);
	run_expect_error(db, 2, "without --max-age", "purge --processed-older-than 30d " GUARD);
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert_eq(processed("true"), 10);
	cr_assert_eq(count("true"), 10);
}

/* ---- what people did ---- */

/* Adds actions on the dead letters and deliveries from 1 to n, this many days ago. */
static void act(int days, int n)
{
	database_exec(db,
		      "INSERT INTO dead_letter_actions (letter_id, digest, action, outcome, instance_id, done_at) "
		      "SELECT i, 'd', 'retry', 'rejected', 'me', now() - %d * interval '1 day' "
		      "FROM generate_series(1, %d) AS i",
		      days, n);
	database_exec(db,
		      "INSERT INTO delivery_actions (delivery_id, target, event_id, action, instance_id, done_at) "
		      "SELECT i, 'crm', 'e', 'retry', 'me', now() - %d * interval '1 day' "
		      "FROM generate_series(1, %d) AS i",
		      days, n);
}

static long acts(const char *table, const char *condition)
{
	return bench_count("%s WHERE %s", table, condition);
}

static void expect_acts(const char *condition, long letters_of, long deliveries_of)
{
	cr_assert_eq(acts("dead_letter_actions", condition), letters_of);
	cr_assert_eq(acts("delivery_actions", condition), deliveries_of);
}

Test(purge, records_of_what_is_gone_go_by_age, .init = bench_open)
{
	dead_letter(1, 20);
	deliver("dead", 1, 20);
	deliver("pending", 1, 10);
	act(400, 1500);
	act(300, 100);
	run_expect(db, 0, "\"dead_letter_actions\":{", "purge --actions-older-than 365d --dry-run --json");
	run_expect(db, 0, "\"done\":1480,", "purge --actions-older-than 365d --dry-run --json");
	run_expect(db, 0, "\"done\":1470,", "purge --actions-older-than 365d --dry-run --json");
	expect_acts("true", 1600, 1600);
	run_expect(db, 0, "records of dead letters deleted before", "purge --actions-older-than 365d --batch 70");
	expect_acts("done_at > now() - interval '365 days'", 100, 100);
	expect_acts("done_at < now() - interval '365 days'", 20, 30);
	cr_assert_eq(acts("dead_letter_actions", "letter_id <= 20"), 40);
	cr_assert_eq(acts("delivery_actions", "delivery_id <= 30"), 60);
	run_expect(db, 0, "records of deliveries deleted before", "purge --actions-older-than 365d");
	expect_acts("true", 120, 130);
}

Test(purge, records_stay_unless_they_are_asked_for_and_go_after_their_rows, .init = bench_open)
{
	dead_letter(400, 20);
	deliver("dead", 400, 30);
	act(390, 30);
	run_expect(db, 0, ": 10\n", "purge --open-too --dead-letters-keep 10");
	run_expect(db, 0, ": 20\n", "purge --open-too --outbox-keep 10");
	expect_acts("true", 30, 30);
	run_expect(
		db, 0, ": 10\n",
		"purge --open-too --dead-letters-older-than 365d --outbox-older-than 365d --actions-older-than 365d");
	expect_acts("true", 0, 0);
}

Test(purge, all_tables_go_in_one_run, .init = bench_open)
{
	store("old", 10, 31);
	dead_letter(31, 11);
	deliver("dead", 31, 12);
	process("billing", 31, 13);
	json_t *root = run_json(
		db, 0,
		"purge --open-too --json --older-than 30d --dead-letters-older-than 30d --outbox-older-than 30d "
		"--processed-older-than 30d " GUARD);
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(root, "payloads"), "done")), 10);
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(root, "dead_letters"), "done")), 11);
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(root, "outbox"), "done")), 12);
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(root, "processed_events"), "done")), 13);
	cr_assert_null(json_object_get(root, "rows"));
}

Test(purge, it_needs_to_know_what, .init = bench_open)
{
	run_expect_error(db, 2, "nothing chosen to purge", "purge");
	run_expect_error(db, 2, "--older-than", "purge --older-than 30");
	run_expect_error(db, 2, "--older-than", "purge --open-too --delete-rows --dead-letters-keep 3");
	run_expect_error(db, 2, "--open-too goes with", "purge --open-too --older-than 30d");
	run_expect_error(db, 2, "takes no arguments", "purge 30d");
	run_expect_error(db, 2, "--batch", "purge --older-than 30d --batch 0");
	run_expect(db, 0, "usage: wsonce purge", "purge --help");
}
