/* wsonce dead-letters --deliveries: deliveries that failed, and what operators can do about them. */
#include "support.h"
#include "bench.h"

#define END_MS 60000

/* Deliveries of o-1 to o-n as a relay leaves them. settled is SQL for a time. */
static void deliver(const char *target, long n, const char *state, const char *status, const char *answer,
		    const char *settled)
{
	database_exec(db,
		      "INSERT INTO outbox (target, event_id, event_type, payload, state, attempts, due_at, settled_at, "
		      "status, answer) SELECT '%s', 'o-' || i, 'order', CASE '%s' WHEN 'delivered' THEN NULL ELSE "
		      "'{\"price\": 1.50}'::jsonb END, '%s', 7, now() + interval '1 day', %s, %s, '%s' "
		      "FROM generate_series(1, %ld) AS i",
		      target, state, state, settled, status, answer, n);
}

/* Three deliveries to crm are dead for one reason, one to erp for another, and two are in other states. */
static void prepare(void)
{
	deliver("crm", 3, "dead", "503", "", "now()");
	database_exec(db, "UPDATE outbox SET answer = 'no room in \"' || event_id || '\" for ' || id");
	deliver("erp", 1, "dead", "NULL", "connection refused", "'2026-01-02'");
	database_exec(db, "UPDATE outbox SET event_type = 'stock' WHERE target = 'erp'");
	deliver("crm", 1, "delivered", "200", "", "now()");
	deliver("crm", 1, "pending", "500", "later", "NULL");
}

static long count(const char *condition)
{
	return bench_count("outbox WHERE %s", condition);
}

static long actions(const char *condition)
{
	return bench_count("delivery_actions WHERE %s", condition);
}

/* ---- pending, without a listener ---- */

Test(deliveries, pending_ones_of_a_webhook_that_is_gone_are_discarded, .init = bench_open)
{
	deliver("gone", 2, "pending", "500", "later", "NULL");
	deliver("crm", 1, "pending", "500", "later", "NULL");
	run_expect_error(db, 2, "--target", "dead-letters discard --deliveries --pending");
	run_expect(db, 0, "discarded 2\n", "dead-letters discard --deliveries --pending --target gone");
	cr_assert_eq(count("state = 'discarded' AND target = 'gone'"), 2);
	cr_assert_eq(count("state = 'pending' AND target = 'crm'"), 1);
}

/* ---- list and show ---- */

Test(deliveries, list_groups_the_dead_ones_by_target_and_reason, .init = bench_open)
{
	prepare();
	run_expect(db, 0, "dead deliveries: 4, reasons: 2\n", "dead-letters list --deliveries");
	run_expect(db, 0, "       3  crm: 503 no room in ... for ...\n          tried 21 times, from ",
		   "dead-letters list --deliveries");
	run_expect(db, 0, "       1  erp: connection refused\n          tried 7 times, from 2026-01-02T00:00:00.000Z ",
		   "dead-letters list --deliveries");
	run_expect(db, 0, "\n          id 4  o-1\n", "dead-letters list --deliveries");
	run_expect(db, 0, "and 1 more reasons", "dead-letters list --deliveries --limit 1");
}

Test(deliveries, targets_with_the_same_reason_have_examples_of_their_own, .init = bench_open)
{
	deliver("a", 5, "dead", "500", "x", "now()");
	deliver("b", 4, "dead", "500", "x", "now()");
	run_expect(db, 0, "dead deliveries: 9, reasons: 2\n", "dead-letters list --deliveries");
	run_expect(db, 0, "\n          id 5  o-5\n          id 4  o-4\n          id 3  o-3\n\n",
		   "dead-letters list --deliveries");
	run_expect(db, 0, "\n          id 9  o-4\n          id 8  o-3\n          id 7  o-2\n",
		   "dead-letters list --deliveries");
}

/* A role or a database may be configured like this. */
Test(deliveries, backslashes_in_strings_may_be_escapes, .init = bench_open)
{
	prepare();
	database_exec(db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET standard_conforming_strings = off', "
			  "current_database()); END $$");
	run_expect(db, 0, "dead deliveries: 4, reasons: 2\n", "dead-letters list --deliveries");
	run_expect(db, 0, "msg_", "dead-letters show --deliveries --json 1");
	run_expect(db, 0, "dead letters: 0", "dead-letters list");
}

Test(deliveries, list_in_json_has_status_and_examples, .init = bench_open)
{
	const char *target, *reason;
	int all, reasons, status, n, attempts;
	json_t *examples;

	prepare();
	json_t *root = run_json(db, 0, "dead-letters list --deliveries --json");
	cr_assert_eq(json_unpack(root, "{s:i, s:i, s:[{s:s, s:i, s:s, s:i, s:i, s:o}]}", "deliveries", &all, "reasons",
				 &reasons, "groups", "target", &target, "status", &status, "reason", &reason,
				 "deliveries", &n, "attempts", &attempts, "examples", &examples),
		     0);
	cr_expect_eq(all, 4);
	cr_expect_eq(reasons, 2);
	cr_expect_str_eq(target, "crm");
	cr_expect_eq(status, 503);
	cr_expect_str_eq(reason, "503 no room in ... for ...");
	cr_expect_eq(n, 3);
	cr_expect_eq(attempts, 21);
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(examples, 0), "reason")),
			 "503 no room in \"o-3\" for 3");
}

Test(deliveries, list_filters_by_time_type_reason_target_and_state, .init = bench_open)
{
	prepare();
	run_expect(db, 0, "dead deliveries: 3,", "dead-letters list --deliveries --since 1h");
	run_expect(db, 0, "dead deliveries: 1,", "dead-letters list --deliveries --until 2026-02-01T00:00:00Z");
	run_expect(db, 0, "dead deliveries: 1,", "dead-letters list --deliveries --type stock");
	run_expect(db, 0, "dead deliveries: 3,", "dead-letters list --deliveries --reason ROOM");
	run_expect(db, 0, "dead deliveries: 3,", "dead-letters list --deliveries --reason 503");
	run_expect(db, 0, "dead deliveries: 3,", "dead-letters list --deliveries --target crm");
	run_expect(db, 0, "dead deliveries: 0,", "dead-letters list --deliveries --target cr");
	run_expect(db, 0, "dead deliveries: 0,", "dead-letters list --deliveries --target erp --reason 503");
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --deliveries --target erp");
	run_expect(db, 0, "retried 1\n", "dead-letters retry --deliveries 1");
	run_expect(db, 0, "dead deliveries: 2,", "dead-letters list --deliveries");
	run_expect(db, 0, "dead deliveries: 2,", "dead-letters list --deliveries --state resolved");
	run_expect(db, 0, "dead deliveries: 4,", "dead-letters list --deliveries --state all");
}

Test(deliveries, list_of_letters_tells_of_dead_deliveries, .init = bench_open)
{
	prepare();
	run_expect(db, 0, "dead letters: 0, reasons: 0\n\ndead deliveries: 4 (--deliveries lists them)\n",
		   "dead-letters list");
	json_t *root = run_json(db, 0, "dead-letters list --json");
	cr_expect_eq(json_integer_value(json_object_get(root, "dead_deliveries")), 4);
}

Test(deliveries, show_tells_everything_and_the_payload_as_it_is, .init = bench_open)
{
	prepare();
	run_expect(db, 0, "retried 1\n", "dead-letters retry --deliveries 3 --note again --instance-id desk-1");
	run_expect(db, 0, "state        pending\nstatus       503\n", "dead-letters show --deliveries 3");
	run_expect(db, 0, "retry, by postgres as desk-1: again\n\n{\"price\": 1.50}\n",
		   "dead-letters show --deliveries 3");
	run_expect(db, 0, "\"webhook_id\":\"msg_5c3b86d10f50714f71b2c2d6c27168ee\"",
		   "dead-letters show --deliveries 3 --json");
	run_expect(db, 0, "\"payload\":{\"price\": 1.50}\n}\n", "dead-letters show --deliveries 3 --json");
	run_expect(db, 0, "\"payload\":null", "dead-letters show --deliveries 5 --json");
	struct run run = run_on(db, "dead-letters show --deliveries --raw 3");
	cr_assert_str_eq(run.output, "{\"price\": 1.50}");
	run_expect_error(db, 1, "no delivery 77", "dead-letters show --deliveries 77");
}

/* ---- retry and discard ---- */

Test(deliveries, payload_of_long_numbers_is_not_printed, .init = bench_open)
{
	database_exec(db, "INSERT INTO outbox (target, event_id, event_type, payload) SELECT 'crm', 'big', 'x', "
			  "jsonb_agg('1e-16383'::numeric) FROM generate_series(1, 2000)");
	run_expect(db, 0, "\nThe payload is not printed: its numbers have more", "dead-letters show --deliveries 1");
	run_expect(db, 0, "\"payload\":null,\n\"payload_left_out\":\"its numbers have more",
		   "dead-letters show --deliveries 1 --json");
	run_expect_error(db, 1, "its numbers have more", "dead-letters show --deliveries --raw 1");
}

Test(deliveries, retry_makes_them_pending_and_due_from_the_first_attempt, .init = bench_open)
{
	prepare();
	run_expect(db, 0, "retried 3\n", "dead-letters retry --deliveries --target crm --note back");
	cr_assert_eq(count("id <= 3 AND state = 'pending' AND attempts = 0 AND due_at <= now() AND "
			   "settled_at IS NULL AND payload IS NOT NULL"),
		     3);
	cr_assert_eq(count("state = 'dead'"), 1);
	cr_assert_eq(count("id = 6 AND attempts = 7 AND due_at > now()"), 1, "one that was pending was changed");
	cr_assert_eq(count("id = 5 AND state = 'delivered'"), 1);
	cr_assert_eq(actions("delivery_id <= 3 AND action = 'retry' AND target = 'crm' AND event_id LIKE 'o-%' AND "
			     "note = 'back' AND db_user = 'postgres'"),
		     3);
	cr_assert_eq(actions("true"), 3);
}

static void listen_for(const char *targets, const char *seen)
{
	database_exec(db,
		      "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, targets, seen_at) "
		      "SELECT 'l-' || count(*), 300, 'billing', '%s', now() - interval '%s' FROM wsonce_listeners",
		      targets, seen);
}

/* Returns what retry --deliveries prints to standard error about these. They are dead again afterwards. */
static void expect_warning(const char *words, const char *wanted)
{
	struct run run = run_on(db, "dead-letters retry --deliveries %s", words);

	cr_assert_eq(run.status, 0, "%s%s", run.output, run.errors);
	cr_assert_str_eq(run.errors, wanted, "%s", run.errors);
	database_exec(db, "UPDATE outbox SET state = 'dead' WHERE id <= 4");
}

#define WAITS "; these deliveries wait until one does\n"

Test(deliveries, retry_tells_of_targets_that_no_listener_delivers_to, .init = bench_open)
{
	prepare();
	expect_warning("--all", "wsonce: no running listener delivers to crm, erp" WAITS);
	listen_for("{}", "1 second");
	listen_for("{erp,crm}", "4 minutes");
	expect_warning("4 --json", "wsonce: no running listener delivers to erp" WAITS);
	listen_for("{other,crm}", "30 seconds");
	expect_warning("--all", "wsonce: no running listener delivers to erp" WAITS);
	expect_warning("--target crm", "");
	expect_warning("--target nobody", "");
	listen_for("{erp}", "1 minute");
	expect_warning("--all", "");
	database_exec(db, "INSERT INTO webhook_pauses (target, reason) VALUES ('crm', 'gone'), ('other', 'x')");
	expect_warning("--all", "wsonce: paused: crm; these wait until wsonce webhooks resume\n");
	expect_warning("4", "");
}

Test(deliveries, only_dead_ones_are_changed_and_others_told_of, .init = bench_open)
{
	prepare();
	run_expect_error(db, 1, "5: there is no such dead delivery", "dead-letters retry --deliveries 5");
	run_expect_error(db, 1, "6: there is no such dead delivery", "dead-letters discard --deliveries 6 77");
	run_expect(db, 1, "discarded 1\n", "dead-letters discard --deliveries 4 5");
	run_expect(db, 0, "retried 0\n", "dead-letters retry --deliveries --target erp");
	cr_assert_eq(actions("true"), 1);
	cr_assert_eq(count("id = 4 AND state = 'discarded' AND settled_at = '2026-01-02'"), 1);
}

Test(deliveries, changes_are_counted_in_json, .init = bench_open)
{
	prepare();
	json_t *root = run_json(db, 0, "dead-letters retry --deliveries --reason room --limit 2 --json");
	cr_expect_eq(json_integer_value(json_object_get(root, "retried")), 2);
	cr_assert_eq(count("id <= 2 AND state = 'pending'"), 2);
	root = run_json(db, 0, "dead-letters discard --deliveries --all --json");
	cr_expect_eq(json_integer_value(json_object_get(root, "discarded")), 2);
	cr_assert_eq(count("state = 'dead'"), 0);
}

/* The second waits for the rows that the first has locked, and then finds them no longer dead. */
Test(deliveries, of_two_operators_one_changes_a_delivery, .init = bench_open)
{
	struct database *other = database_open(database_conninfo(db));

	prepare();
	database_exec(other, "BEGIN");
	database_exec(other, "UPDATE outbox SET state = 'pending', attempts = 0 WHERE id = 2");
	struct process *p = run_start_on(db, "dead-letters discard --deliveries --all");
	await(bench_count("pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"), END_MS);
	database_exec(other, "COMMIT");
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(count("id = 2 AND state = 'pending'"), 1);
	cr_assert_eq(count("state = 'discarded'"), 3);
	cr_assert_eq(actions("delivery_id = 2"), 0);
}

Test(deliveries, many_are_changed_once_by_several_at_once, .init = bench_open)
{
	struct process *p[3];
	long done = 0;

	deliver("crm", 5000, "dead", "500", "x", "now()");
	for (int i = 0; i < 3; i++)
		p[i] = run_start_on(db, "dead-letters retry --deliveries --all");
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(process_wait(p[i], END_MS), 0, "%s", process_last_words(p[i]));
		char *output = process_output(p[i]);
		done += strtol(strchr(output, ' '), NULL, 10);
		process_free(p[i]);
	}
	cr_assert_eq(done, 5000, "%ld", done);
	cr_assert_eq(actions("true"), 5000);
	cr_assert_eq(count("state = 'pending'"), 5000);
}

/* Makes 20,000 dead deliveries, discarded in slow pages, and waits until some are done. */
static struct process *start_slow_discard(void)
{
	deliver("crm", 20000, "dead", "500", "x", "now()");
	database_exec(db, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); "
			  "RETURN NULL; END $$;"
			  "CREATE TRIGGER slow AFTER UPDATE ON outbox EXECUTE FUNCTION slow()");
	struct process *p = run_start_on(db, "dead-letters discard --deliveries --all");
	await(count("state = 'discarded'") >= 2000, END_MS, "%s", process_last_words(p));
	return p;
}

static long counted(struct process *p)
{
	char *output = process_output(p);
	long n = strncmp(output, "discarded ", 10) == 0 ? strtol(output + 10, NULL, 10) : -1;

	cr_assert_geq(n, 2000, "%s%s", output, process_last_words(p));
	free(output);
	return n;
}

static void expect_rest(long done)
{
	database_exec(db, "DROP TRIGGER slow ON outbox");
	char *rest = suite_text("discarded %ld\n", 20000 - done);
	run_expect(db, 0, rest, "dead-letters discard --deliveries --all");
	cr_assert_eq(actions("true"), 20000);
	free(rest);
}

Test(deliveries, interrupted_in_the_middle_it_tells_what_is_done_and_can_be_run_again, .init = bench_open)
{
	struct process *p = start_slow_discard();

	process_signal(p, SIGINT);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), "interrupted; the count above is complete"), "%s",
		  process_last_words(p));
	cr_assert_eq(counted(p), count("state = 'discarded'"));
	cr_assert_lt(counted(p), 20000);
	expect_rest(counted(p));
}

Test(deliveries, cut_off_in_the_middle_it_tells_what_is_done_and_can_be_run_again, .init = bench_open)
{
	struct process *p = start_slow_discard();

	database_terminate_backends(db);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), "run again for the rest"), "%s", process_last_words(p));
	cr_assert_eq(counted(p), count("state = 'discarded'"));
	expect_rest(counted(p));
}

Test(deliveries, letters_are_no_deliveries_though_they_have_the_same_ids, .init = bench_open)
{
	prepare();
	database_exec(db, "INSERT INTO dead_letters (digest, reason, raw, instance_id) "
			  "VALUES (sha256('x'), 'no room', 'x', 'i')");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list --reason room");
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --all");
	cr_assert_eq(count("state = 'dead'"), 4);
}
