/* wsonce explain: what is known about one event, in order of time, and what could not be read. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

TestSuite(explain, .init = bench_open, .fini = bench_close, .timeout = 120);

static void start(const char *flags)
{
	bench_serve((struct listener_options){0}, "--instance-id here --time-pointer /at --time-unit s %s", flags);
}

/* These follow each other in text. */
static void expect_order(const char *text, const char *const *parts)
{
	const char *at = text;

	for (; *parts; parts++) {
		at = strstr(at, *parts);
		cr_assert(at, "no \"%s\" where it belongs in:\n%s", *parts, text);
	}
}

Test(explain, a_stored_event_has_happened_was_received_stored_and_marked)
{
	static const char *const parts[] = {"event one: stored\n",
					    "2023-11-14T22:13:20.000000Z  happened",
					    "Z  received",
					    "source=ingest",
					    "Z  stored",
					    "row=1",
					    NULL};
	struct run run;

	start("");
	peer_send_text(producer, "{\"event_id\":\"one\",\"at\":1700000000,\"payload\":1}");
	ack_expect(producer, "one", "persisted");
	await(redisd_count(redisd_shared(), redisd_prefix()) > 0, WAIT_MS);
	run = run_on(db, "explain one");
	cr_assert_eq(run.status, 0, "%s", run.errors);
	expect_order(run.output, parts);
	cr_assert(strstr(run.output, "Z  marked done"), "by another clock: %s", run.output);
	cr_assert(strstr(run.output, "listener=here"), "%s", run.output);
	cr_assert(!strstr(run.output, "not read"), "%s", run.output);
}

Test(explain, what_nobody_knows_is_status_1, .init = bench_open)
{
	run_expect(db, 1, "event nothing: not stored\n", "explain nothing");
	run_expect_error(db, 2, "takes EVENT_ID", "explain");
}

Test(explain, long_numbers_are_not_printed_to_be_measured, .init = bench_open)
{
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) SELECT 'long', 't', "
			  "jsonb_agg('1e-16383'::numeric) FROM generate_series(1, 2000)");
	struct run run = run_on(db, "explain long");
	cr_assert_eq(run.status, 0, "%s", run.errors);
	cr_assert(strstr(run.output, "type=t") && !strstr(run.output, "bytes="), "%s", run.output);
}

/* Anyone who can write to Redis can put any time into a claim. */
Test(explain, a_claim_without_a_time_that_can_be, .init = bench_open)
{
	redisd_command(redisd_shared(), "SET %sodd x@9223372036854775807", redisd_prefix());
	cr_assert(strstr(run_on(db, "explain odd").output, "1970-01-01T00:00:00.000000Z  claimed"), "%s",
		  run_on(db, "explain odd").output);
}

Test(explain, a_letter_and_what_was_done_to_it)
{
	static const char *const parts[] = {"event bad: not stored; a dead letter has it\n",
					    "  dead letter ",
					    "letter=1",
					    "listener=here",
					    "reason=",
					    "dead letter again",
					    "seen=2",
					    "action discard",
					    "note=never mind",
					    NULL};
	struct run run;

	start("--dedup-window 1");
	peer_send_text(producer, "{\"event_id\":\"bad\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(producer, "bad", "");
	redisd_command(redisd_shared(), "DEL %sbad", redisd_prefix());
	peer_send_text(producer, "{\"event_id\":\"bad\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(producer, "bad", "");
	run_expect(db, 0, NULL, "dead-letters discard 1");
	database_exec(db, "UPDATE dead_letter_actions SET note = 'never mind'");
	run = run_on(db, "explain bad");
	cr_assert_eq(run.status, 0, "%s", run.errors);
	expect_order(run.output, parts);
}

Test(explain, deliveries_and_consumers_as_json, .init = bench_open)
{
	json_t *root, *item = NULL;
	size_t i;
	int seen = 0;

	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload) VALUES ('o', 't', '{}');"
		      "INSERT INTO processed_events (consumer, event_id) VALUES ('a', 'x'), ('b', 'o'), ('c', 'o');"
		      "INSERT INTO outbox (target, event_id, event_type, state, attempts, status, answer, settled_at) "
		      "VALUES ('shop', 'o', 't', 'dead', 20, 500, 'no', now() + interval '1 s');"
		      "INSERT INTO delivery_actions (delivery_id, target, event_id, action, instance_id, done_at) "
		      "VALUES (1, 'shop', 'o', 'retry', 'me', now() + interval '2 s')");
	root = run_json(db, 0, "explain --json o");
	cr_assert(json_is_true(json_object_get(root, "is_stored")));
	cr_assert_eq(json_array_size(json_object_get(root, "unread")), 0);
	json_array_foreach(json_object_get(root, "history"), i, item)
	{
		const char *what = json_string_value(json_object_get(item, "what"));
		const char *consumer = json_string_value(json_object_get(item, "consumer"));

		cr_assert(json_is_string(json_object_get(item, "at")));
		seen += strcmp(what, "processed") == 0 && consumer && strchr("bc", *consumer);
		if (strcmp(what, "delivery dead") == 0)
			cr_assert_eq(json_integer_value(json_object_get(item, "attempts")), 20);
	}
	cr_assert_eq(seen, 2);
	cr_assert_eq(json_array_size(json_object_get(root, "history")), 6);
	cr_assert_str_eq(json_string_value(json_object_get(item, "what")), "action retry");
}

Test(explain, ids_of_odd_bytes_are_shown_so_that_a_terminal_is_not_harmed, .init = bench_open)
{
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES (E'\\x1b[2J', E'\\x1b]0;', '{}')");
	database_exec(
		db,
		"INSERT INTO outbox (target, event_id, event_type, state, settled_at) VALUES ('t', E'\\x1b[2J', 't', "
		"E'\\x1b[2J', now())");
	struct run run = run_on(db, "explain \x1b[2J");
	cr_assert(strstr(run.output, "event \\x1b[2J: stored\n") && strstr(run.output, "  delivery ?[2J"), "%s",
		  run.output);
	run = run_on(db, "explain \xff\xfe");
	cr_assert_eq(run.status, 1);
	cr_assert(strstr(run.output, "event \\xff\\xfe: not found in what could be read\n"), "%s", run.output);
	cr_assert(strstr(run.output, "not read: events: the id is not UTF-8"), "%s", run.output);
	json_t *root = run_json(db, 1, "explain --json \xff");
	json_decref(root);
	run_expect(db, 1, "event -h: not stored", "explain -- -h");
}

Test(explain, what_cannot_be_read_is_named_and_the_rest_is_shown, .init = bench_open)
{
	char *role = database_text(db, "SELECT current_database() || '_reader'");
	const char *const env[] = {suite_text("WSONCE_POSTGRES=%s user=%s", database_conninfo(db), role),
				   "WSONCE_REDIS=redis://127.0.0.1:1/0", NULL};
	struct run run;

	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('one', 't', '{}')");
	database_exec(db, "CREATE ROLE \"%s\" LOGIN; GRANT SELECT ON events, wsonce_schema TO \"%s\"", role, role);
	run = run_in(env, "explain one");
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
	cr_assert_eq(run.status, 0, "%s%s", run.output, run.errors);
	cr_assert(strstr(run.output, "  stored "), "%s", run.output);
	cr_assert(strstr(run.output, "not read: outbox: ") && strstr(run.output, "permission denied"), "%s",
		  run.output);
	cr_assert(strstr(run.output, "not read: redis: Connection refused"), "%s", run.output);
}

Test(explain, further_copies_are_told_by_the_day)
{
	start("");
	for (int i = 0; i < 3; i++) {
		peer_send_text(producer, "{\"event_id\":\"often\",\"at\":1700000000}");
		ack_expect(producer, "often", i ? "duplicate" : "persisted");
	}
	peer_send_text(producer, "{\"event_id\":\"once\",\"at\":1700000000}");
	ack_expect(producer, "once", "persisted");
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert(strstr(run_on(db, "explain often").output, "T00:00:00.000000Z  copies of that day  copies=2\n"), "%s",
		  run_on(db, "explain often").output);
	cr_assert(!strstr(run_on(db, "explain once").output, "copies"));
	listener_free(listener);
	listener = NULL;
}
