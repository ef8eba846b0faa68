/* wsonce dead-letters: what operators can do while a fleet runs. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 15000

static struct fleet fleet;

static void set_up_fleet(void)
{
	db = database_new();
	fleet_start(&fleet, 2, db, NULL, "--max-attempts 1");
}

/* Adds a dead letter as a listener would write it. Returns its id. raw is SQL for bytes. */
static long dead_letter(const char *event_id, const char *reason, const char *raw)
{
	return database_long(db,
			     "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) "
			     "SELECT sha256(r), %s, '%s', r, 'host-1' FROM (SELECT %s::bytea) AS v(r) RETURNING id",
			     event_id, reason, raw);
}

static long letters(const char *where)
{
	return bench_count("dead_letters WHERE %s", where);
}

static bool is_open(long id)
{
	return database_long(db, "SELECT resolved_at IS NULL FROM dead_letters WHERE id = %ld", id);
}

/* ---- list ---- */

static void dead_letter_three(void)
{
	dead_letter("NULL", "not JSON: \"a\" at 1", "'{\"event_type\":\"order\", \"n\":1}'");
	dead_letter("NULL", "not JSON: \"b\" at 22", "'{\"event_type\":\"order\", \"n\":2}'");
	dead_letter("'id-3'", "no room", "'{\"event_id\":\"id-3\",\"event_type\":\"stock\"}'");
	database_exec(db, "UPDATE dead_letters SET first_seen = '2026-01-01', last_seen = '2026-01-02' WHERE id = 3");
}

Test(letters, list_groups_them_by_reason_with_counts_and_examples, .init = bench_open)
{
	dead_letter_three();
	json_t *root = run_json(db, 0, "dead-letters list --json"),
	       *group = json_array_get(json_object_get(root, "groups"), 0);

	cr_assert_eq(json_integer_value(json_object_get(root, "letters")), 3);
	cr_assert_eq(json_integer_value(json_object_get(root, "reasons")), 2);
	cr_assert_eq(json_integer_value(json_object_get(group, "letters")), 2);
	cr_assert_eq(json_array_size(json_object_get(group, "examples")), 2);
	cr_assert_str_eq(json_string_value(json_object_get(group, "reason")), "not JSON: ... at ...");
	run_expect(db, 0, "       1  no room\n", "dead-letters list");
	run_expect(db, 0, "3  id-3\n", "dead-letters list");
	run_expect(db, 0, "and 1 more reasons", "dead-letters list --limit 1");
}

Test(letters, json_has_no_control_characters_that_a_terminal_obeys, .init = bench_open)
{
	dead_letter("NULL", "not \xc2\x9b\x32J a\x7f\xc3\xa4", "'{}'");
	run_expect(db, 0, "not \\u009b2J a\\u007f\xc3\xa4", "dead-letters list --json");
}

Test(letters, events_that_violate_a_check_are_one_group, .fini = bench_close)
{
	db = database_new();
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "ALTER TABLE events ADD CONSTRAINT no_bad CHECK (event_type <> 'bad')");
	bench_serve((struct listener_options){0}, "--max-attempts 1");
	for (int n = 1; n <= 2; n++)
		peer_sendf(producer, "{\"event_id\":\"%d\",\"event_type\":\"bad\"}", n);
	cr_assert(wait_until(letters("reason LIKE '%violates check constraint \"no_bad\" (23514)'") == 2, SETTLED_MS),
		  "%s", database_text(db, "SELECT string_agg(reason, ' ') FROM dead_letters"));
	cr_assert_eq(listener_metric(listener, "wsonce_postgres_connects_total"), 1, "a known check was looked up");
}

Test(letters, list_filters_by_time_type_reason_and_state, .init = bench_open)
{
	dead_letter_three();
	run_expect(db, 0, "dead letters: 2,", "dead-letters list --since 1h");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list --until 2026-02-01T00:00:00Z");
	run_expect(db, 0, "dead letters: 0,",
		   "dead-letters list --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list --type stock");
	run_expect(db, 0, "dead letters: 2,", "dead-letters list --type order --reason json");
	run_expect(db, 0, "dead letters: 0,", "dead-letters list --type order --reason room");
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --reason room");
	run_expect(db, 0, "dead letters: 2,", "dead-letters list");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list --state resolved");
	run_expect(db, 0, "dead letters: 3,", "dead-letters list --state all");
}

Test(letters, type_is_that_of_the_event_and_no_other_text_in_the_message, .init = bench_open)
{
	dead_letter("NULL", "a", "'{\"event_type\":\"\\\\u006frder\"}'");
	dead_letter("NULL", "b", "'{\"event_type\":\"stock\",\"of\":\"order\"}'");
	dead_letter("NULL", "c", "'order'");
	dead_letter("NULL", "d", "'{}'");
	database_exec(db, "UPDATE dead_letters SET event_type = 'order' WHERE id = 4");
	json_t *root = run_json(db, 0, "dead-letters list --type order --json"),
	       *groups = json_object_get(root, "groups");

	cr_assert_eq(json_array_size(groups), 2);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(groups, 0), "reason")), "a");
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(groups, 1), "reason")), "d");
}

/* A page of letters has a thousand messages, or fewer if they are large. */
Test(letters, those_of_a_type_are_found_on_all_pages, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO dead_letters (digest, reason, raw, instance_id) SELECT int8send(i), 'bad', "
		      "convert_to('{\"event_type\":\"' || CASE i %% 3 WHEN 0 THEN 'a' ELSE 'b' END || '\",\"n\":\"' || "
		      "repeat(i::text, 2000) || '\"}', 'UTF8'), 'i' FROM generate_series(1, 3600) AS i");
	run_expect(db, 0, "dead letters: 2400, reasons: 1\n", "dead-letters list --type b");
	run_expect(db, 0, "dead letters: 1 of the newest 3, reasons: 1", "dead-letters list --type a --newest 3");
	run_expect(db, 0, "discarded 1100\n", "dead-letters discard --type a --limit 1100");
	run_expect(db, 0, "discarded 100\n", "dead-letters discard --type a");
	cr_assert_eq(letters("resolved_at IS NULL"), 2400);
}

/* With a type: only those of that type among the newest. */
Test(letters, list_looks_at_the_newest_and_says_so, .init = bench_open)
{
	dead_letter_three();
	run_expect(db, 0, "dead letters: 2 of the newest 2, reasons: 2 (--newest 0 looks at all)\n",
		   "dead-letters list --newest 2");
	run_expect(db, 0, "dead letters: 1 of the newest 2, reasons: 1", "dead-letters list --newest 2 --type stock");
	run_expect(db, 0, "dead letters: 3, reasons: 2\n", "dead-letters list --newest 3");
	run_expect(db, 0, "dead letters: 3, reasons: 2\n", "dead-letters list --newest 0");
	json_t *root = run_json(db, 0, "dead-letters list --newest 1 --json");
	cr_assert_eq(json_integer_value(json_object_get(root, "newest")), 1);
	cr_assert_eq(json_integer_value(json_object_get(root, "letters")), 1);
}

/* ---- show ---- */

Test(letters, show_raw_prints_the_exact_bytes, .init = bench_open)
{
	dead_letter("NULL", "x", "'\\x7b22fe0a0d227d0a'");
	struct run run = run_on(db, "dead-letters show 1 --raw");

	cr_assert_eq(run.status, 0);
	cr_assert_str_eq(run.output, "{\"\xfe\n\r\"}\n");
	run_expect(db, 0, "{\"\\xfe\n\\x0d\"}\n", "dead-letters show 1");
	run_expect(db, 0, "\"raw_base64\":\"eyL+Cg0ifQo=\"", "dead-letters show 1 --json");
	run_expect(db, 1, NULL, "dead-letters show 2");
}

Test(letters, show_tells_what_was_done_and_by_whom, .init = bench_open)
{
	dead_letter("NULL", "x", "'garbage'");
	run_expect(db, 1, "rejected again 1", "dead-letters retry 1 --note first --instance-id desk-1");
	run_expect(db, 0, "discarded 1", "dead-letters discard 1 --note second --instance-id desk-2");
	json_t *root = run_json(db, 0, "dead-letters show 1 --json"), *actions = json_object_get(root, "actions"),
	       *last;

	cr_assert_eq(json_array_size(actions), 2);
	last = json_array_get(actions, 1);
	cr_assert_str_eq(json_string_value(json_object_get(last, "action")), "discard");
	cr_assert_str_eq(json_string_value(json_object_get(last, "note")), "second");
	cr_assert_str_eq(json_string_value(json_object_get(last, "instance_id")), "desk-2");
	cr_assert_str_eq(json_string_value(json_object_get(last, "db_user")), "postgres");
	cr_assert_str_eq(json_string_value(json_object_get(root, "raw")), "garbage");
	cr_assert_str_eq(json_string_value(json_object_get(root, "state")), "resolved");
	run_expect(db, 0, "retry: rejected, by postgres as desk-1: first: not JSON", "dead-letters show 1");
}

/* ---- retry ---- */

static void refuse_rows(void)
{
	database_exec(db,
		      "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
		      "'BEGIN IF new.event_id LIKE ''bad%%'' THEN RAISE EXCEPTION ''not %%'', new.event_id; END IF; "
		      "RETURN new; END'");
	database_exec(db, "CREATE TRIGGER no BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION no()");
}

/* The fleet has refused bad-1, and said so in Redis. */
static void dead_letter_by_fleet(void)
{
	refuse_rows();
	feed_send_text(fleet.feed, "{\"event_id\":\"bad-1\",\"event_type\":\"t\",\"payload\":{\"n\":1.50}}");
	await(letters("event_id = 'bad-1'") == 1, SETTLED_MS);
	await(claims_begins(redisd_shared(), "bad-1", "dead@"), SETTLED_MS);
	/* A listener that still held the event would store it, too, once a retry has deleted the mark. */
	await(fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS);
}

Test(letters, retry_stores_what_a_fleet_had_refused_although_its_dead_mark_is_there, .init = set_up_fleet)
{
	dead_letter_by_fleet();
	database_exec(db, "DROP TRIGGER no ON events");
	run_expect(db, 0, "retried 1: persisted 1, duplicates 0, rejected again 0", "dead-letters retry --all");
	cr_assert_eq(bench_count("events WHERE payload::text = '{\"n\": 1.50}'"), 1);
	cr_assert_eq(letters("resolution = 'persisted' AND resolved_at IS NOT NULL"), 1);
	cr_assert_eq(bench_count("dead_letter_actions WHERE action = 'retry' AND "
				 "outcome = 'persisted' AND event_id = 'bad-1' AND letter_id = 1"),
		     1);
	cr_assert(claims_begins(redisd_shared(), "bad-1", "done@"));
	run_expect(db, 0, "retried 0:", "dead-letters retry --all");
}

Test(letters, what_is_refused_again_stays_with_its_new_reason_and_count, .init = set_up_fleet)
{
	dead_letter_by_fleet();
	database_exec(db, "UPDATE dead_letters SET reason = 'an older reason', seen = 5");
	run_expect(db, 1, "letter 1 was rejected: not bad-1 (P0001)", "dead-letters retry 1 --max-attempts 1");
	cr_assert_eq(letters("resolved_at IS NULL AND reason = 'not bad-1 (P0001)' AND seen = 6"), 1);
	cr_assert_eq(letters("true"), 1);
	cr_assert_eq(bench_rows(), 0);
	cr_assert_eq(bench_count("dead_letter_actions WHERE outcome = 'rejected'"), 1);
}

/* --- what a profile has read --- */

#define LENGTH_OF(text) "int4send(octet_length(convert_to(" text ", 'UTF8')))"

/* The digest is of id, type and payload, each of the first two with its length before it. */
static void dead_letter_event(const char *id, const char *type, const char *payload)
{
	database_exec(
		db,
		"INSERT INTO dead_letters (digest, event_id, event_type, source, reason, raw, instance_id) SELECT "
		"sha256(" LENGTH_OF("id") " || " LENGTH_OF(
			"type") " || convert_to(id || type || payload, "
				"'UTF8')), id, type, 'kraken', 'no room', convert_to(payload, 'UTF8'), 'host-1' FROM "
				"(VALUES ('%s', '%s', '%s')) AS v (id, type, payload)",
		id, type, payload);
}

Test(letters, retry_stores_what_a_profile_had_read_with_its_id_and_type, .init = bench_open)
{
	dead_letter_event("BTC/USD|7", "trade", "{\"price\":1.50,\"event_id\":\"not this\"}");
	dead_letter_event("BTC/USD|8", "trade", "{\"price\":1.50,\"event_id\":\"not this\"}");
	run_expect(db, 0, "dead letters: 2,", "dead-letters list --type trade");
	run_expect(db, 0, "event_type   trade\n", "dead-letters show 1");
	run_expect(db, 0, "source       kraken\n", "dead-letters show 1");
	run_expect(db, 0, "persisted 2, duplicates 0, rejected again 0", "dead-letters retry --all");
	cr_assert_eq(bench_count("events WHERE event_id IN ('BTC/USD|7', 'BTC/USD|8') AND "
				 "event_type = 'trade' AND payload->>'price' = '1.50'"),
		     2);
}

Test(letters, edited_payload_of_a_profiles_event_keeps_its_id_and_type, .init = bench_open)
{
	dead_letter_event("7", "trade", "[\"\\u0000\"]");
	suite_file("edited", "[1]\n");
	run_expect(db, 1, "rejected again 1", "dead-letters retry 1");
	cr_assert_eq(letters("seen = 2"), 1, "refused again it is another letter");
	run_expect(db, 0, "persisted 1", "dead-letters retry --id 1 --raw-file %s", suite_path("edited"));
	cr_assert_eq(bench_count("events WHERE event_id = '7' AND event_type = 'trade' AND payload = '[1]'"), 1);
}

Test(letters, frame_that_its_profile_cannot_read_is_not_fed_by_the_pointers, .init = bench_open)
{
	dead_letter("NULL", "x", "'{\"event_id\":\"of another feed\"}'");
	database_exec(db, "UPDATE dead_letters SET source = 'kraken'");
	run_expect(db, 1, "letter 1 was skipped: it is a frame of a feed that its profile could not read",
		   "dead-letters retry 1");
	cr_assert(is_open(1));
	cr_assert_eq(bench_rows(), 0);
}

Test(letters, retry_of_what_was_stored_meanwhile_is_a_duplicate_and_off_the_list, .init = set_up_fleet)
{
	dead_letter("'e-1'", "x", "'{\"event_id\":\"e-1\",\"payload\":\"of the letter\"}'");
	fleet_send(&fleet, 1);
	fleet_wait_rows(&fleet, 1, SETTLED_MS);
	json_t *root = run_json(db, 0, "dead-letters retry 1 --json");

	cr_assert_eq(json_integer_value(json_object_get(root, "duplicates")), 1);
	cr_assert_eq(letters("resolution = 'duplicate'"), 1);
	cr_assert_eq(bench_count("events WHERE payload->>'n' = '1'"), 1);
}

Test(letters, each_letter_of_an_id_has_an_outcome_of_its_own, .init = bench_open)
{
	dead_letter("'twice'", "x", "'{\"event_id\":\"twice\",\"payload\":\"\\\\u0000\"}'");
	dead_letter("'twice'", "x", "'{\"event_id\":\"twice\",\"payload\":\"fine\"}'");
	run_expect(db, 1, "persisted 1, duplicates 0, rejected again 1", "dead-letters retry --all");
	cr_assert(is_open(1) && !is_open(2));
}

Test(letters, a_claim_of_somebody_who_is_at_work_is_waited_for, .init = bench_open)
{
	dead_letter("'held'", "x", "'{\"event_id\":\"held\"}'");
	claims_put(redisd_shared(), "held", "somebody.else@1", 0);
	struct process *p = run_start_on(db, "dead-letters retry 1");

	cr_assert_eq(process_wait(p, 1000), -1, "it does not wait: %s", process_last_words(p));
	cr_assert_eq(bench_rows(), 0);
	cr_assert(claims_is(redisd_shared(), "held", "somebody.else@1"));
	claims_put(redisd_shared(), "held", "somebody.else@1", 1);
	cr_assert_eq(process_wait(p, SETTLED_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(bench_rows(), 1);
}

/* The server takes leave of the command's idle connection by a warning, and the next write to it fails. */
Test(letters, a_retry_whose_connection_crashed_while_it_waited_ends, .timeout = 300)
{
	struct postgres *pg = postgres_new();

	db = postgres_database(pg);
	run_expect(db, 0, NULL, "migrate");
	dead_letter("'held'", "x", "'{\"event_id\":\"held\"}'");
	claims_put(redisd_shared(), "held", "somebody.else@1", 0);
	struct process *p = run_start_on(db, "dead-letters retry 1");

	await(letters("retried_at IS NOT NULL") == 1, SETTLED_MS, "%s", process_last_words(p));
	postgres_kill(pg);
	postgres_start(pg);
	claims_put(redisd_shared(), "held", "somebody.else@1", 1);
	cr_assert_eq(process_wait(p, SETTLED_MS), 1, "%s", process_last_words(p));
	cr_assert_eq(bench_rows(), 1);
}

/* The first waits for the claim and the second for the first; the other pages have not begun. */
Test(letters, what_is_discarded_while_a_retry_runs_is_not_stored_by_it, .init = bench_open)
{
	char raw[60];

	claims_put(redisd_shared(), "x", "somebody@1", 60000);
	for (int i = 1; i <= 20; i++) {
		snprintf(raw, sizeof raw, "'{\"event_id\":\"%s\",\"n\":%d}'", i > 18 ? "y" : "x", i);
		dead_letter(i > 18 ? "'y'" : "'x'", "why", raw);
	}
	struct process *p = run_start_on(db, "dead-letters retry --all");
	await(letters("retried_at IS NOT NULL") == 16, SETTLED_MS);
	run_expect(db, 1, "discarded 2\n", "dead-letters discard 2 19 20 77");
	claims_put(redisd_shared(), "x", "somebody@1", 1);
	cr_assert_eq(process_wait(p, 2 * SETTLED_MS), 1, "%s", process_last_words(p));
	char *output = process_output(p);
	cr_assert(strstr(output, "letter 20 was skipped: it is no longer open"), "%s", output);
	cr_assert(strstr(output, "persisted 1, duplicates 17, rejected again 0, skipped 2\n"), "%s", output);
	cr_assert_eq(bench_count("events WHERE event_id = 'y'"), 0);
	cr_assert_eq(letters("resolution = 'discarded'"), 2);
}

/* Dead letters are read a thousand at a time; those at the end of the first thousand cannot be retried. */
Test(letters, skipped_ones_at_the_end_of_a_page_end_no_retry, .init = bench_open)
{
	database_exec(
		db, "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) SELECT CASE WHEN i BETWEEN "
		    "901 AND 1000 THEN int8send(i) ELSE sha256(r) END, 'id-' || i, 'bad', r, 'i' FROM "
		    "generate_series(1, 2500) AS i, LATERAL (SELECT convert_to('{\"event_id\":\"id-' || i || "
		    "'\",\"event_type\":\"t\"}', 'UTF8')) AS v (r)");
	run_expect(db, 1, "retried 2500: persisted 2400, duplicates 0, rejected again 0, skipped 100\n",
		   "dead-letters retry --type t");
	cr_assert_eq(letters("resolved_at IS NULL"), 100);
}

Test(letters, a_retry_that_is_interrupted_tells_what_is_done_and_can_be_run_again, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) SELECT sha256(r), 'id-' "
		      "|| i, 'bad', r, 'i' FROM generate_series(1, 3000) AS i, LATERAL (SELECT "
		      "convert_to('{\"event_id\":\"id-' || i || '\"}', 'UTF8')) AS v (r)");
	database_slow_down(db, 2);
	struct process *p =
		run_start_on(db, "dead-letters retry --all --batch-max 50 --max-inflight-bytes 64KiB --json");
	await(letters("resolved_at IS NOT NULL") > 0, SETTLED_MS, "%s", process_last_words(p));
	process_signal(p, SIGINT);
	cr_assert_eq(process_wait(p, SETTLED_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), "run again for the rest"), "%s", process_last_words(p));
	char *output = process_output(p);
	json_t *root = json_loads(output, 0, NULL);
	long persisted = json_integer_value(json_object_get(root, "persisted"));
	cr_assert(json_is_true(json_object_get(root, "interrupted")), "%s", output);
	cr_assert_eq(persisted, letters("resolved_at IS NOT NULL"), "%s", output);
	cr_assert_eq(persisted, bench_rows());
	cr_assert_lt(persisted, 3000);
	json_decref(root);
	free(output);
	database_slow_down(db, 0);
	run_expect(db, 0, "rejected again 0, skipped 0", "dead-letters retry --all");
	cr_assert_eq(letters("resolved_at IS NULL"), 0);
	cr_assert_eq(bench_rows(), 3000);
}

Test(letters, retry_without_redis_goes_by_the_unique_key, .init = bench_open)
{
	dead_letter("'a'", "x", "'{\"event_id\":\"a\"}'");
	run_expect(db, 0, "persisted 1", "dead-letters retry 1 --redis none");
	dead_letter("'b'", "x", "'{\"event_id\":\"b\"}'");
	run_expect(db, 0, "persisted 1", "dead-letters retry 2 --redis redis://127.0.0.1:1/0 --redis-timeout 0.3");
}

Test(letters, an_edited_message_settles_its_letter_when_it_is_stored, .init = bench_open)
{
	char *path = suite_file("edited.json", "{\"event_id\":\"mended\",\"payload\":[0.10]}\n");

	dead_letter("NULL", "x", "'{\"payload\":[0.10]}'");
	run_expect(db, 0, "persisted 1", "dead-letters retry --id 1 --raw-file %s", path);
	cr_assert(!is_open(1));
	cr_assert_eq(bench_count("events WHERE event_id = 'mended' AND payload::text = '[0.10]'"), 1);
	cr_assert_eq(bench_count("dead_letter_actions WHERE action = 'retry-edited'"), 1);
}

Test(letters, an_edited_message_that_is_refused_leaves_its_letter_open, .init = bench_open)
{
	char *path = suite_file("edited.json", "still garbage");

	dead_letter("NULL", "x", "'garbage'");
	run_expect(db, 1, "rejected again 1", "dead-letters retry --id 1 --raw-file %s", path);
	cr_assert(is_open(1));
	cr_assert_eq(letters("raw = 'still garbage'"), 1);
}

Test(letters, the_head_of_a_message_is_not_fed_as_if_it_were_the_whole, .init = bench_open)
{
	dead_letter("NULL", "too long", "'{\"event_id\":\"head\"}'");
	database_exec(db, "UPDATE dead_letters SET digest = sha256('the whole')");
	run_expect(db, 1, "skipped 1", "dead-letters retry 1");
	cr_assert(is_open(1));
	cr_assert_eq(letters("true"), 1);
	cr_assert_eq(bench_rows(), 0);
	run_expect(db, 0, "discarded 1", "dead-letters discard 1");
}

Test(letters, many_are_retried_at_once_beside_a_fleet_that_gets_them_too, .init = set_up_fleet)
{
	database_exec(db, "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) "
			  "SELECT sha256(r), 'e-' || i, 'x', r, 'host-1' FROM generate_series(1, 3000) AS i, "
			  "convert_to('{\"event_id\":\"e-' || i || '\",\"payload\":0}', 'UTF8') AS r");
	struct process *p = run_start_on(db, "dead-letters retry --all --json");

	fleet_send(&fleet, 3000);
	cr_assert_eq(process_wait(p, 60000), 0, "%s", process_last_words(p));
	fleet_wait_rows(&fleet, 3000, SETTLED_MS);
	await(fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS);
	cr_assert_eq(letters("resolved_at IS NULL"), 0);
	json_t *root = json_loads(process_output(p), 0, NULL);
	cr_assert_eq((long)(fleet_metric(&fleet, "wsonce_persisted_total") +
			    (double)json_integer_value(json_object_get(root, "persisted"))),
		     3000, "an event was stored by two");
}

/* ---- discarding, and repeated messages ---- */

Test(letters, a_discard_is_taken_back_and_nothing_else_is, .init = bench_open)
{
	dead_letter("'a'", "x", "'1'");
	dead_letter("'b'", "x", "'2'");
	database_exec(db, "UPDATE dead_letters SET resolved_at = now(), resolution = 'persisted' WHERE event_id = 'b'");
	run_expect_error(db, 2, "--reason", "dead-letters discard --reason=");
	cr_assert(is_open(1));
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --all");
	run_expect(db, 0, "reopened 1\n", "dead-letters reopen --all --note again");
	cr_assert(is_open(1) && !is_open(2));
	cr_assert_eq(bench_count("dead_letter_actions WHERE action = 'reopen'"), 1);
}

Test(letters, a_discarded_one_is_open_again_when_it_comes_again, .init = set_up_fleet)
{
	feed_send_text(fleet.feed, "garbage");
	await(letters("seen = 2") == 1, SETTLED_MS);
	long id = database_long(db, "SELECT id FROM dead_letters"); /* the other listener may have used up a number */
	run_expect(db, 1, "discarded 1", "dead-letters discard %ld 77", id);
	cr_assert(!is_open(id));
	run_expect(db, 0, "dead letters: 0,", "dead-letters list");
	feed_send_text(fleet.feed, "garbage");
	await(letters("seen = 4 AND resolved_at IS NULL AND resolution IS NULL") == 1, SETTLED_MS);
	run_expect(db, 0, "dead letters: 1,", "dead-letters list");
	cr_assert_eq(bench_count("dead_letter_actions"), 1);
}

/* The statement of a listener of schema 1, which does not know resolved_at. */
Test(letters, one_that_an_older_listener_sees_again_is_open_again, .init = bench_open)
{
	dead_letter("NULL", "x", "'garbage'");
	run_expect(db, 0, "discarded 1", "dead-letters discard 1");
	database_exec(db, "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, seen) VALUES "
			  "(sha256('garbage'), NULL, 'x', 'garbage', 'old', 1) ON CONFLICT (digest) DO UPDATE SET seen "
			  "= dead_letters.seen + excluded.seen, last_seen = greatest(dead_letters.last_seen, now())");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list");
	run_expect(db, 0, "discarded 1", "dead-letters discard 1");
	run_expect(db, 0, "dead letters: 0,", "dead-letters list");
}

Test(letters, those_of_an_older_schema_are_open_after_its_migration, .init = bench_open)
{
	dead_letter("NULL", "x", "'garbage'");
	database_exec(db, "ALTER TABLE dead_letters DROP COLUMN resolved_at, DROP COLUMN resolution");
	database_exec(db, "DROP TABLE dead_letter_actions");
	database_exec(db, "DELETE FROM wsonce_schema WHERE version > 1");
	struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);

	run_expect(db, 0, "dead letters: 1,", "dead-letters list");
	run_expect(db, 0, "discarded 1", "dead-letters discard 1");
	cr_assert_eq(listener_stop(l), 0);
}

/* ---- consumers ---- */

/* Adds a dead letter of a consumer, whose digest differs from the message's. */
static long dead_letter_of(const char *consumer, const char *event_id, const char *raw)
{
	return database_long(
		db,
		"INSERT INTO dead_letters (consumer, digest, event_id, reason, raw, instance_id) SELECT '%s', "
		"sha256(sha256(r) || '%s'::bytea), %s, 'x', r, 'host-1' FROM (SELECT %s::bytea) AS v(r) RETURNING id",
		consumer, consumer, event_id, raw);
}

/* Adds dead letters of one message that three fleets could not store. */
static void dead_letter_for_three(void)
{
	dead_letter("'same'", "x", "'{\"event_id\":\"same\"}'");
	dead_letter_of("billing", "'same'", "'{\"event_id\":\"same\"}'");
	dead_letter_of("search", "'same'", "'{\"event_id\":\"same\"}'");
}

Test(letters, list_has_those_of_its_consumer_and_tells_of_the_others, .init = bench_open)
{
	dead_letter_for_three();
	dead_letter_of("search", "NULL", "'other'");
	run_expect(db, 0, "dead letters: 1,", "dead-letters list");
	run_expect(db, 0, "\nof other fleets: 1 of billing, 2 of search (--consumer NAME lists them)\n",
		   "dead-letters list");
	run_expect(db, 0, "dead letters: 2,", "dead-letters list --consumer search");
	run_expect(db, 0, "\nof other fleets: 1 without a consumer, 1 of billing (",
		   "dead-letters list --consumer search");
	run_expect(db, 0, "dead letters: 0,", "dead-letters list --consumer nobody");
	json_t *root = run_json(db, 0, "dead-letters list --json --consumer billing"),
	       *others = json_object_get(root, "of_other_consumers"), *last = json_array_get(others, 1);
	cr_assert_eq(json_integer_value(json_object_get(root, "letters")), 1);
	cr_assert_eq(json_array_size(others), 2);
	cr_assert_str_eq(json_string_value(json_object_get(last, "consumer")), "search");
	cr_assert_eq(json_integer_value(json_object_get(last, "letters")), 2);
}

Test(letters, others_are_told_of_only_while_they_are_open, .init = bench_open)
{
	dead_letter_of("billing", "NULL", "'x'");
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --consumer billing --all");
	struct run run = run_on(db, "dead-letters list");
	cr_assert_str_eq(run.output, "dead letters: 0, reasons: 0\n");
}

Test(letters, those_of_another_consumer_are_neither_retried_nor_discarded, .init = bench_open)
{
	char *path = suite_file("edited.json", "{\"event_id\":\"same\"}");

	dead_letter_for_three();
	run_expect_error(db, 1, "2: this fleet (see --consumer) has no such open dead letter",
			 "dead-letters retry 2 --redis none");
	run_expect_error(db, 1, "1: this fleet (see --consumer) has no such resolved dead letter",
			 "dead-letters reopen 1");
	run_expect_error(db, 1, "2: this fleet", "dead-letters retry --id 2 --raw-file %s", path);
	run_expect_error(db, 1, "1: this fleet", "dead-letters discard 1 --consumer billing");
	run_expect(db, 0, "retried 1:", "dead-letters retry --all");
	cr_assert(!is_open(1) && is_open(2) && is_open(3));
	run_expect(db, 0, "discarded 1\n", "dead-letters discard --all --consumer search");
	cr_assert(is_open(2) && !is_open(3));
}

Test(letters, one_of_a_consumer_is_whole_and_can_be_retried, .init = bench_open)
{
	dead_letter_of("billing", "'a'", "'{\"event_id\":\"a\"}'");
	run_expect(db, 0, "id           1\nconsumer     billing\nevent_id     a\n", "dead-letters show 1");
	json_t *root = run_json(db, 0, "dead-letters show 1 --json");
	cr_assert(json_is_true(json_object_get(root, "is_whole")));
	char *digest = database_text(db, "SELECT encode(sha256('{\"event_id\":\"a\"}'), 'hex')");
	cr_assert_str_eq(json_string_value(json_object_get(root, "sha256")), digest, "not the message's");
	run_expect(db, 0, "persisted 1, duplicates 0, rejected again 0, skipped 0",
		   "dead-letters retry 1 --consumer billing");
	cr_assert(!is_open(1));
}

Test(letters, one_of_a_consumer_that_is_refused_again_stays_its_own, .init = bench_open)
{
	dead_letter_of("billing", "NULL", "'garbage'");
	dead_letter("NULL", "x", "'garbage'");
	run_expect(db, 1, "rejected again 1", "dead-letters retry --all --consumer billing");
	cr_assert_eq(letters("consumer = 'billing' AND seen = 2 AND reason LIKE 'not JSON%%'"), 1);
	cr_assert_eq(letters("consumer = '' AND seen = 1"), 1);
	cr_assert_eq(letters("true"), 2);
}

Test(letters, one_that_a_consumer_retries_is_processed_by_it_although_the_row_is_there, .init = bench_open)
{
	dead_letter_for_three();
	run_expect(db, 0, "persisted 1, duplicates 0", "dead-letters retry --all");
	run_expect(db, 0, "persisted 1, duplicates 0", "dead-letters retry --all --consumer billing");
	cr_assert_eq(bench_rows(), 1);
	cr_assert_eq(bench_count("processed_events WHERE consumer = 'billing'"), 1);
	cr_assert(!is_open(1) && !is_open(2) && is_open(3));
}

Test(letters, the_head_of_a_consumers_message_is_known_for_one, .init = bench_open)
{
	dead_letter_of("billing", "NULL", "'{\"event_id\":\"head\"}'");
	database_exec(db, "UPDATE dead_letters SET digest = sha256(raw)");
	json_t *root = run_json(db, 0, "dead-letters show 1 --json");
	cr_assert(json_is_false(json_object_get(root, "is_whole")));
	cr_assert(json_is_null(json_object_get(root, "sha256")));
	run_expect(db, 1, "skipped 1", "dead-letters retry 1 --consumer billing");
	cr_assert(is_open(1));
}

Test(letters, the_fleet_without_a_name_has_no_consumer_in_its_letters, .init = bench_open)
{
	dead_letter("NULL", "x", "'garbage'");
	run_expect(db, 0, "id           1\nreason       x\n", "dead-letters show 1");
	run_expect(db, 0, "\"consumer\":\"\"", "dead-letters show 1 --json");
}
