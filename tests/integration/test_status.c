/* wsonce status: the fleet as Postgres and Redis know it, and the exit status for cron. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000
#define SOON_MS 10000

TestSuite(status, .init = bench_open, .timeout = 120);

static struct listener *start(const char *name, const char *flags, const char *source)
{
	return listener_start(&(struct listener_options){.database = db, .source = source, .is_redis_away = true},
			      "--instance-id %s %s", name, flags);
}

/* Returns the state once the exit status is this one: a new listener may take a moment to report that it can store. */
static json_t *read_state(int status)
{
	run_await(db, status, NULL, WAIT_MS, "status");
	return run_json(db, status, "status --json");
}

static bool says(const char *part)
{
	struct run run = run_on(db, "status");

	return strstr(run.output, part);
}

static const json_t *find(const json_t *all, const char *name)
{
	size_t i;
	json_t *one;

	json_array_foreach(all, i,
			   one) if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0) return one;
	cr_assert(false, "no %s", name);
	return NULL;
}

/* As on a host of its own, with a spool and a token that systemd passes. */
static struct listener *start_on_host(const char *name, const char *flags, const char *source)
{
	char *folder = suite_path("%s", name);
	const char *const env[] = {suite_text("CREDENTIALS_DIRECTORY=%s", folder), NULL};

	cr_assert_eq(mkdir(folder, 0700), 0);
	suite_file(suite_text("%s/wsonce.ingest-token", name), "a-token-of-the-fleet");
	return listener_start(&(struct listener_options){.database = db,
							 .source = source,
							 .is_redis_away = true,
							 .spool = suite_path("%s/spool", name),
							 .env = env},
			      "--instance-id %s %s", name, flags);
}

Test(status, a_fleet_that_works_is_ok_and_each_listener_and_source_is_in_it)
{
	struct feed *feed = feed_new();
	struct listener *a = start_on_host("web-1", "", suite_text("feed.eu-%d=%s", feed_port(feed), feed_url(feed))),
			*b = start_on_host("web-2", "--claim-ttl 20", NULL);
	char *source = suite_text("feed.eu-%d", feed_port(feed));

	await(says(" open "), WAIT_MS, "%s", run_on(db, "status").output);
	json_t *state = read_state(0);
	cr_assert_str_eq(json_string_value(json_object_get(state, "status")), "ok");
	cr_assert_eq(json_array_size(json_object_get(state, "listeners")), 2);
	const json_t *one = find(json_object_get(state, "listeners"), "web-1");
	cr_assert(json_is_true(json_object_get(one, "is_alive")));
	cr_assert_str_eq(json_string_value(json_object_get(one, "version")), WSONCE_VERSION);
	one = find(json_object_get(state, "sources"), source);
	cr_assert_str_eq(json_string_value(json_object_get(one, "listener")), "web-1");
	const json_t *differing = json_object_get(state, "differing_settings");
	cr_assert_not_null(json_object_get(json_object_get(differing, "claim-ttl"), "20s"));
	cr_assert_eq(json_object_size(differing), 2, "%s", json_dumps(differing, 0)); /* and source */
	json_decref(state);
	cr_assert_eq(listener_stop(b), 0);
	feed_free(feed);
	/* A lost source is reported before the next minute. */
	run_await(db, 1, "! web-1: source feed.eu-", WAIT_MS, "status");
	cr_assert_eq(listener_stop(a), 0);
}

static int64_t silent_s(void)
{
	json_t *state = run_json(db, 0, "status --json");
	const json_t *source = json_array_get(json_object_get(state, "sources"), 0);
	const json_t *silent = json_object_get(source, "silent_s");
	int64_t s = silent ? (int64_t)json_integer_value(silent) : -1;

	cr_assert_null(json_object_get(source, "id"));
	json_decref(state);
	return s;
}

/* The last check-in was before the message. */
Test(status, the_silence_of_a_connection_is_as_it_is_now)
{
	struct feed *feed = feed_new();
	struct listener *l = start("web-1", "", feed_url(feed));

	cr_assert(feed_wait_clients(feed, 1, WAIT_MS));
	await(says(" open "), WAIT_MS, "%s", run_on(db, "status").output);
	run_await(db, 0, NULL, WAIT_MS, "status");
	cr_assert_eq(silent_s(), -1);
	feed_send_text(feed, "{\"event_id\":\"a\"}");
	await(silent_s() >= 0, WAIT_MS);
	await(silent_s() >= 6, WAIT_MS);
	await((feed_send_text(feed, "{\"event_id\":\"b\"}"), silent_s() < 6), WAIT_MS, "it is told a minute later");
	cr_assert_eq(listener_stop(l), 0);
}

/* A terminal would interpret them as commands. */
Test(status, control_characters_of_outside_are_not_printed)
{
	start("web-1", "", NULL);
	start("web-2", "--claim-ttl 20", NULL);

	await(says("--claim-ttl differs"), WAIT_MS);
	database_exec(db, "UPDATE wsonce_listeners SET listener = E'\\x1b[31m' || listener");
	await(says("[31mweb-2"), WAIT_MS);
	cr_assert(says("--claim-ttl differs") && !says("\x1b"), "%s", run_on(db, "status").output);
}

Test(status, a_source_that_fails_after_the_first_check_in_is_told_with_its_reason, .init = bench_open)
{
	int silent = port_reserve(), fd = port_listen(silent);

	struct listener *a = listener_start(
		&(struct listener_options){
			.database = db, .source = suite_text("ws://127.0.0.1:%d/", silent), .without_waiting = true},
		"--instance-id web-1");

	await(says("is connecting"), WAIT_MS, "%s", run_on(db, "status").output);
	/* The handshake fails after ten seconds. The next regular check-in is a minute away, which a stretched WAIT_MS
	 * may be, too. */
	await(says("the handshake was not answered in time"), 17000, "%s", run_on(db, "status").output);
	cr_assert_eq(listener_stop(a), 0);
	close(fd);
}

/* Makes the database read-only. */
static void refuse_writes(void)
{
	database_exec(db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_read_only = on', "
			  "current_database()); END $$");
	database_terminate_backends(db);
}

/* It cannot check in meanwhile, so its heartbeat tells. */
Test(status, what_a_listener_that_cannot_store_is_connected_to_is_as_it_is_now, .init = bench_open)
{
	struct feed *feed = feed_new();
	struct redisd *redis = redisd_new();
	const char *const env[] = {suite_text("WSONCE_REDIS=%s", redisd_url(redis)),
				   suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)), NULL};
	struct listener *a = listener_start(
		&(struct listener_options){.database = db, .source = feed_url(feed), .redis = redisd_url(redis)},
		"--instance-id web-1");
	struct run run;

	feed_refuse(feed, 503);
	feed_drop_all(feed);
	redisd_stop(redis);
	await((run = run_in(env, "status"), strstr(run.output, "! web-1: source 127.0.0.1#1 is down") &&
						    strstr(run.output, "! web-1: redis is down")),
	      WAIT_MS, "%s", run.output);
	refuse_writes();
	feed_refuse(feed, 0);
	redisd_start(redis);
	await((run = run_in(env, "status"),
	       strstr(run.output, "! web-1 cannot store") && !strstr(run.output, "! web-1: ")),
	      WAIT_MS, "%s", run.output);
	feed_refuse(feed, 503);
	feed_drop_all(feed);
	await((run = run_in(env, "status"), strstr(run.output, "! web-1: source 127.0.0.1#1 is down")), WAIT_MS, "%s",
	      run.output);
	cr_assert_eq(listener_stop(a), 0);
	feed_free(feed);
}

/* Its last check-in says that the source is open. */
Test(status, a_source_that_fails_while_nothing_can_be_stored_is_told, .init = bench_open)
{
	struct feed *feed = feed_new();
	const char *const env[] = {suite_text("WSONCE_REDIS=%s", redisd_url(redisd_shared())),
				   suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)), NULL};
	struct listener *a = listener_start(&(struct listener_options){.database = db, .source = feed_url(feed)},
					    "--instance-id web-1");
	struct run run;

	await((run = run_in(env, "status"), strstr(run.output, "open") && !strstr(run.output, "! web-1")), WAIT_MS,
	      "%s", run.output);
	refuse_writes();
	await((run = run_in(env, "status"), strstr(run.output, "! web-1 cannot store")), WAIT_MS, "%s", run.output);
	feed_refuse(feed, 503);
	feed_drop_all(feed);
	await((run = run_in(env, "status"), strstr(run.output, "! web-1: source 127.0.0.1#1 is down")), WAIT_MS, "%s",
	      run.output);
	cr_assert_eq(listener_stop(a), 0);
	feed_free(feed);
}

/* The first check-in is made while its cursor is read. */
Test(status, a_source_that_fails_at_the_start_is_told_with_its_reason, .init = bench_open)
{
	const char *file = suite_file(
		"cursor.json", suite_text("{\"sources\": [{\"name\": \"alone\", \"url\": \"ws://127.0.0.1:%d/\", "
					  "\"cursor\": {\"kind\": \"max\", \"scope\": \"source\"}, \"rules\": "
					  "[{\"action\": \"event\", \"id\": [[\"/n\"]], \"cursor\": \"/n\"}]}]}",
					  port_reserve()));
	struct listener *a = listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = true},
		"--instance-id web-1 --config %s", file);

	await(says("! web-1: source alone is"), WAIT_MS, "%s", run_on(db, "status").output);
	await(says("refused"), 17000, "%s", run_on(db, "status").output);
	cr_assert_not(says("cursor"));
	cr_assert_eq(listener_stop(a), 0);
}

Test(status, a_listener_that_stores_nothing_but_dead_letters_is_told_with_the_reason, .fini = bench_close)
{
	listener = start("web-1", "--id-pointer /wrong", NULL);
	producer = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	for (int i = 0; i < 9; i++)
		peer_sendf(producer, "{\"event_id\":\"e-%d\"}", i);
	await(bench_count("dead_letters") == 9, WAIT_MS);
	json_decref(read_state(0)); /* a few bad messages are not a problem */
	peer_sendf(producer, "{\"event_id\":\"e-9\"}");
	await(says("! web-1: the last 10 messages were refused: /wrong is missing"), WAIT_MS, "%s",
	      run_on(db, "status").output);
	json_decref(read_state(1));
	cr_assert(listener_page_has(listener, "/readyz", "degraded: the last 10 messages were refused: /wrong"));
	peer_sendf(producer, "{\"wrong\":\"e-10\"}");
	run_await(db, 0, NULL, WAIT_MS, "status");
}

/* Events of another source do not hide it. */
Test(status, a_source_whose_messages_all_become_dead_letters_is_named)
{
	struct feed *feeds[2] = {feed_new(), feed_new()};

	struct listener *a = start("web-1", suite_text("--source bad=%s", feed_url(feeds[1])), feed_url(feeds[0]));

	for (int i = 0; i < 2; i++)
		cr_assert(feed_wait_clients(feeds[i], 1, WAIT_MS));
	for (int i = 0; i < 10; i++) {
		feed_send_text(feeds[1], suite_text("{\"hello\": %d}", i));
		feed_send_text(feeds[0], suite_text("{\"event_id\": \"e-%d\"}", i));
		await(bench_rows() == i + 1, WAIT_MS);
	}
	run_await(db, 1, "! web-1: source bad: the last 10 messages became dead letters\n", WAIT_MS, "status");
	cr_assert(listener_page_has(a, "/readyz", "degraded: source bad: the last 10 messages became dead letters"));
	cr_assert(listener_has_logged(a, " source=bad reason=\"/event_id is missing: "), "%s",
		  process_errors(listener_process(a)));
	feed_send_text(feeds[1], "{\"event_id\": \"b-1\"}");
	await(!says("became dead letters"), WAIT_MS);
	for (int i = 0; i < 2; i++)
		feed_free(feeds[i]);
}

/* Each consumer has its own keys in Redis. */
Test(status, fleets_of_several_consumers_are_ok)
{
	const char *const consumers[] = {"", "--consumer billing", "--consumer stock --claim-ttl 20s"};

	for (int i = 0; i < 3; i++)
		listener_start(&(struct listener_options){.database = db}, "%s", consumers[i]);
	run_await(db, 0, NULL, WAIT_MS, "status");
	cr_assert(!says("disappeared") && !says("differs"), "%s", run_on(db, "status").output);
	run_expect(db, 0, NULL, "status --consumer stock");
	run_expect(db, 2, "! no listener is running", "status --consumer gone");
	run_expect(db, 0, NULL, "status --claim-prefix another");
}

/* The fleet without a consumer calls its handler only for the events that it is the first to store. */
Test(status, effects_without_a_consumer_beside_one_are_told)
{
	struct feed *feed = feed_new();
	char *source = suite_text("feed=%s", feed_url(feed));

	database_exec(db, "CREATE FUNCTION handle(text, text, jsonb) RETURNS void LANGUAGE sql AS 'SELECT'");
	start("web-1", "--handler public.handle", source);
	start("stock-1", "--consumer stock", suite_text("other=%s", feed_url(feed)));
	await(says("\nother ") && says("\nfeed "), WAIT_MS);
	run_await(db, 0, NULL, WAIT_MS, "status");
	start("stock-2", "--consumer stock", source);
	run_await(db, 1, "! web-1 has effects but no --consumer", WAIT_MS, "status");
	feed_free(feed);
}

Test(status, without_redis_a_listener_that_is_back_has_one_state)
{
	database_exec(db,
		      "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, started_at, seen_at, report) "
		      "VALUES ('web-1.0123456789abcdef', 300, '', now() - interval '1 h', now() - interval '5 s', "
		      "'{\"version\": \"1\", \"redis\": \"none\", \"trouble\": \"killed\"}')");
	run_await(db, 2, "! web-1 cannot store: killed\n", WAIT_MS, "status --redis none");
	listener_start(&(struct listener_options){.database = db, .redis = "none"}, "--instance-id web-1");
	run_await(db, 0, NULL, WAIT_MS, "status --redis none");
	/* The clock was an hour ahead when it started. */
	database_exec(db, "UPDATE wsonce_listeners SET started_at = now() + interval '1 h' WHERE started_at > now() - "
			  "interval '1 m'");
	cr_assert_eq(run_on(db, "status --redis none").status, 0);
}

/* Redis knows it. */
Test(status, a_listener_that_cannot_log_in_to_postgres_is_told)
{
	start("web-1", "", NULL);
	run_await(db, 0, NULL, WAIT_MS, "status");
	listener_start(&(struct listener_options){.postgres = suite_text("%s user=nobody", database_conninfo(db)),
						  .without_waiting = true},
		       "--instance-id web-2");
	run_await(db, 1, "! web-2 has not checked in, and cannot store: ", WAIT_MS, "status");
	run_await(db, 1, "! web-2 has not checked in, and cannot store: ", WAIT_MS, "status --claim-prefix another");
}

/* As after a SIGHUP or a restart that one of them did not get. Other feeds of the host do not count. */
Test(status, listeners_of_a_fleet_with_other_effects_are_told)
{
	struct feed *feed = feed_new();
	char *source = suite_text("feed=%s", feed_url(feed));

	database_exec(db, "CREATE FUNCTION handle(text, text, jsonb) RETURNS void LANGUAGE sql AS 'SELECT'");
	start("web-1", "--handler public.handle", source);
	start("web-2", "", suite_text("feed=%s/of/another/name", feed_url(feed)));
	await(says("\nfeed                         web-1 ") && says("\nfeed                         web-2 "), WAIT_MS);
	run_await(db, 0, "--handler differs:\n  not set (1: web-2)\n  public.handle (1: web-1)\n", WAIT_MS, "status");
	start("web-3", "", source);
	run_await(db, 1, "! web-1 has other handlers or webhooks than web-3 for source feed: ", WAIT_MS, "status");
	database_exec(db, "INSERT INTO wsonce_listeners SELECT 'web-1.0123456789abcdef', max_age_s, dedup_window_s, "
			  "now() - interval '1 h', now(), consumer, 'public.old', targets, target_urls, report "
			  "FROM wsonce_listeners WHERE listener LIKE 'web-1%%'");
	database_exec(
		db,
		"UPDATE wsonce_listeners SET handler = NULL WHERE listener LIKE 'web-1%%' AND handler <> 'public.old'");
	cr_assert(!says("other handlers"), "%s", run_on(db, "status").output);
	database_exec(db, "DELETE FROM wsonce_listeners WHERE handler = 'public.old'");
	database_exec(
		db,
		"UPDATE wsonce_listeners SET handler = 'public.handle', targets = '{shop}', target_urls = '{abcde}' "
		"WHERE listener LIKE 'web-3%%'");
	cr_assert(says("--webhooks differs:\n  not set (2: web-1, ...)\n  shop abcd (1: web-3)\n"), "%s",
		  run_on(db, "status").output);
	feed_free(feed);
}

/* As after an upgrade of a profile that one of them did not get. */
Test(status, profiles_of_one_name_that_differ_are_told)
{
	struct feed *feed = feed_new();

	for (int i = 1; i <= 2; i++) {
		static const char *const names[] = {"orders-of-shops-in-the-north", "feed"};
		const char *files[2];

		for (int k = 0; k < 2; k++)
			files[k] = suite_file(names[k], suite_text("{\"name\": \"%s\", \"url\": \"%s\", \"rules\": "
								   "[{\"action\": \"event\", \"id\": [[\"/%d\"]]}]}",
								   names[k], feed_url(feed), k * i));
		start(suite_text("web-%d", i), suite_text("--feed %s --feed %s", files[0], files[1]), NULL);
	}
	await(says("--feed feed differs:\n  "), WAIT_MS, "%s", run_on(db, "status").output);
	cr_assert_not(says("--feed orders"));
	feed_free(feed);
}

Test(status, a_listener_that_is_back_within_a_second_has_not_disappeared, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, started_at, seen_at, report) "
		      "VALUES ('web-1.0123456789abcdea', 300, '', now() - interval '1 h', now() - interval '10.5 s', "
		      "'{\"version\": \"1\", \"redis\": \"up\", \"owner\": \"o\"}'), "
		      "('web-1.0123456789abcdeb', 300, '', now() - interval '10.4 s', now(), "
		      "'{\"version\": \"1\", \"redis\": \"none\"}')");
	run_await(db, 0, NULL, WAIT_MS, "status");
}

/* When a feed changes its format, nothing is stored and no dead letter is written. One that waits for acks stops. */
Test(status, a_source_whose_messages_match_no_rule_is_named)
{
	struct feed *feed = feed_new(), *acked = feed_new();
	struct listener *a = start(
		"web-1",
		suite_text(
			"--config %s",
			suite_file(
				"odd.json",
				suite_text("{\"sources\": [{\"name\": \"odd\", \"url\": \"%s\", \"rules\": [{\"when\": "
					   "{\"/id\": {\"exists\": true}}, \"action\": \"event\", \"id\": "
					   "[[\"/id\"]]}]}, {\"name\": \"acked\", \"url\": \"%s\", \"ack_mode\": "
					   "\"each\", \"rules\": [{\"action\": \"event\", \"explode\": \"/l/*\", "
					   "\"id\": [[\"/i\"]], \"ack\": \"${/n}\"}]}]}",
					   feed_url(feed), feed_url(acked)))),
		NULL);

	cr_assert(feed_wait_clients(feed, 1, WAIT_MS) && feed_wait_clients(acked, 1, WAIT_MS));
	for (int i = 0; i < 12; i++)
		feed_sendf(acked, "{\"n\":%d,\"m\":[{\"i\":1}]}", i);
	await((feed_send_text(feed, "{\"key\":1}"),
	       listener_page_has(a, "/readyz", "messages match no rule, and no event came")),
	      90000);
	run_await(db, 1, "messages match no rule, and no event came\n", WAIT_MS, "status");
	feed_send_text(feed, "{\"id\":1}");
	await(!says("source odd: "), WAIT_MS);
	await(says("source acked: 12 messages match no rule"), WAIT_MS, "%s", run_on(db, "status").output);
	feed_send_text(acked, "{\"n\":12,\"l\":[{\"i\":2}]}");
	await(!says("match no rule"), WAIT_MS);
	feed_free(feed);
	feed_free(acked);
}

/* A session that waits for a row locks it. A session that stores many rows locks the end of the table. */
Test(status, who_waits_for_a_row_does_not_lock_its_table)
{
	struct database *holder = database_open(database_conninfo(db));
	const char *const waiter[] = {
		"psql", "-qX", "-c", "UPDATE events SET payload = '1' WHERE event_id = 'held'", database_conninfo(db),
		NULL};

	start("web-1", "", NULL);
	run_await(db, 0, NULL, WAIT_MS, "status");
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('held', '', '0')");
	database_exec(holder, "BEGIN; UPDATE events SET payload = '2'");
	process_start_argv(waiter, NULL);
	await(bench_count("pg_locks WHERE locktype = 'tuple' AND granted AND relation = 'events'::regclass"), WAIT_MS);
	cr_assert_not(says(" locks events"), "%s", run_on(db, "status").output);
	database_exec(holder, "ROLLBACK");
	database_free(holder);
}

Test(status, a_listener_that_was_killed_is_missed_and_without_any_the_fleet_is_down)
{
	struct listener *a = start("web-1", "", NULL), *b = start("web-2", "", NULL);

	json_decref(read_state(0));
	listener_kill(b);
	run_await(db, 1, NULL, WAIT_MS, "status");
	cr_assert(says("! web-2 has disappeared: killed, or stopped while Postgres was away"));
	/* Neither a command nor a listener of another consumer is the one that has that name. */
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, report) VALUES "
			  "('web-2.0123456789abcdef', 300, '', '{\"settled_us\": 0}'), "
			  "('web-2.0123456789abcdee', 300, 'stock', '{\"version\": \"1\"}')");
	cr_assert(says("! web-2 has disappeared"), "%s", run_on(db, "status").output);
	database_exec(db, "DELETE FROM wsonce_listeners WHERE listener LIKE 'web-2.0123456789abcde_'");
	b = start("web-2", "", NULL);
	await(!says("web-2 has disappeared"), WAIT_MS, "%s", run_on(db, "status").output);
	cr_assert(!says("crashed"));
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, seen_at, report) SELECT "
			  "'web-2.0123456789abcde' || n, 300, '', now() - n * interval '4 min', '{\"version\": \"1\"}' "
			  "FROM generate_series(1, 3) AS n");
	database_exec(db, "UPDATE wsonce_listeners SET report = jsonb_set(report, '{redis}', '\"up\"') WHERE seen_at < "
			  "now() - interval '1 min'");
	run_await(db, 1, "! web-2 was killed or crashed 3 times or more within ten minutes\n", WAIT_MS, "status");
	database_exec(db, "DELETE FROM wsonce_listeners WHERE listener LIKE 'web-2.0123456789abcde_'");
	listener_kill(b);
	run_await(db, 1, NULL, WAIT_MS, "status");
	/* After a long time it is no longer a problem. */
	database_exec(db,
		      "UPDATE wsonce_listeners SET seen_at = now() - interval '11 min' WHERE listener LIKE 'web-2%%'");
	/* Killing a command is not a problem of the fleet. */
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, seen_at, report) VALUES "
			  "('killed.0123456789abcdef', 300, now() - interval '160 s', '{\"settled_us\": 0}')");
	json_decref(read_state(0));
	cr_assert_eq(listener_stop(a), 0);
	/* A command that stores, such as replay, does not count as a listener. */
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, report) VALUES "
			  "('command.0123456789abcdef', 300, '{\"settled_us\": 0}')");
	json_decref(read_state(2));
	cr_assert(says("! no listener is running on this redis, or none could check in: see their logs\n"));
}

/* As while Redis moves to another server behind the same name, and listeners still have connections to the old one. */
Test(status, listeners_may_use_another_redis)
{
	struct listener *a = start("web-1", "", NULL);
	const char *other = redisd_url(redisd_new());

	json_decref(read_state(0));
	run_expect(db, 2,
		   "\"web-1 has disappeared: killed, or stopped while Postgres was away, or it uses another redis\"",
		   "status --json --redis %s", other);
	run_expect(db, 2, "\n! no listener is running on this redis, or none could check in", "status --redis %s",
		   other);
	run_expect(db, 0, "web-1", "status --redis none");
	cr_assert_eq(listener_stop(a), 0);
}

Test(status, servers_that_are_away_are_said, .init = bench_open)
{
	const char *const env[] = {"WSONCE_POSTGRES=host=127.0.0.1 port=1", "WSONCE_REDIS=redis://127.0.0.1:1/0", NULL};
	struct run run = run_in(env, "status");

	cr_assert_eq(run.status, 2);
	cr_assert(strstr(run.output, "postgres  down\n") && strstr(run.output, "redis     down\n"), "%s", run.output);
	cr_assert(strstr(run.output, "! cannot reach postgres: connection to server at \"127.0.0.1\""), "%s",
		  run.output);
	cr_assert_null(strstr(run.errors, "cannot reach"), "it is said twice: %s", run.errors);
	cr_assert(strstr(run.output, "\nrates, dead letters and the outbox are unknown\n"), "nothing is 0: %s",
		  run.output);
	cr_assert(strstr(run.output, "\n  Connection refused. "), "lines are broken, not cut off: %s", run.output);
	run = run_in(NULL, "status --store sqlite:///nowhere/x.db");
	cr_assert(run.status == 2 && strstr(run.output, "\nsqlite    down\n"), "%s", run.output);
	cr_assert(strstr(run.output, "! sqlite: there is no file /nowhere/x.db: check --store;"), "%s", run.output);
}

Test(status, a_redis_that_tells_nothing_of_itself_is_up, .init = bench_open)
{
	struct redisd *redis = redisd_new();
	const char *const env[] = {suite_text("WSONCE_REDIS=redis://fleet:geheim@127.0.0.1:%d/0", redisd_port(redis)),
				   suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)), NULL};
	struct run run;

	free(redisd_command(redis, "ACL SETUSER fleet reset on >geheim ~* &* +@all -info"));
	run = run_in(env, "status");
	cr_assert(strstr(run.output, "\nredis     up, but INFO was not answered\n"), "%s", run.output);
}

Test(status, a_postgres_that_does_not_answer_is_down_within_ten_seconds)
{
	int port = port_reserve(), fd = port_listen(port);
	const char *const env[] = {suite_text("WSONCE_POSTGRES=host=127.0.0.1 port=%d", port),
				   suite_text("WSONCE_REDIS=%s", redisd_url(redisd_shared())), NULL};
	int64_t began_ms = wait_now_ms();
	struct run run = run_in(env, "status");

	cr_assert_eq(run.status, 2);
	cr_assert_leq(wait_now_ms() - began_ms, 20000); /* --postgres-timeout is 30 s */
	cr_assert(strstr(run.output, "timeout expired"), "%s", run.output);
	cr_assert(strstr(run.output, " master, ") && !strstr(run.output, "redis answers slowly"), "Redis is blamed: %s",
		  run.output);
	close(fd);
}

Test(status, sources_that_fail_together_are_counted)
{
	char flags[1200] = "";
	struct listener *l;

	for (int i = 0; i < 25; i++)
		snprintf(flags + strlen(flags), sizeof(flags) - strlen(flags), "--source ws://127.0.0.1:1/%d ", i);
	l = listener_start(&(struct listener_options){.database = db, .without_waiting = true},
			   "--instance-id web-1 %s", flags);
	run_await(db, 1, "! web-1: source 127.0.0.1#10 is down: ", WAIT_MS, "status");
	run_await(db, 1, "! web-1: 15 more sources have problems\n", WAIT_MS, "status");
	cr_assert(!says("! web-1: source 127.0.0.1#11 "));
	cr_assert_eq(listener_count_logged(l, "event=\"cannot connect to source, will retry\""), 20);
}

/* The next check-in may be a minute away. */
Test(status, what_waits_for_too_long_and_what_fills_memory_is_told_soon, .init = bench_open, .fini = bench_close)
{
	struct database *lock;

	bench_serve((struct listener_options){0}, "--max-message 8K --max-inflight-bytes 64K --unsettled-warning 8s");
	run_await(db, 0, NULL, WAIT_MS, "status");
	lock = fleet_lock(db);
	peer_sendf(producer, "{\"event_id\":\"stuck\"}");
	run_await(db, 2, "! no listener can store\n", WAIT_MS, "status");
	for (int i = 0; i < 100; i++)
		peer_sendf(producer, "{\"event_id\":\"e-%d\",\"payload\":\"%01000d\"}", i, i);
	run_await(db, 2, " does not read: it has reached its memory limit\n", WAIT_MS, "status");
	run_expect(db, 2, "! no listener can store\n", "status --claim-prefix another");
	run_await(db, 2, " has an event that has been unsettled for ", WAIT_MS, "status --unsettled-warning 8s");
	fleet_unlock(lock);
	run_await(db, 0, NULL, WAIT_MS, "status --unsettled-warning 8s");
}

/* As behind a PgBouncer whose connections to Postgres are all in use: it connects, and no statement is answered. */
Test(status, a_statement_without_an_answer_is_told_within_ten_seconds, .init = bench_open)
{
	struct bouncer *b = bouncer_new(1);
	char *conninfo = bouncer_conninfo(b, db);
	struct database *holder = database_open(conninfo);
	int64_t began_ms;
	struct run run;

	run_expect(db, 0, NULL, "migrate");
	database_exec(holder, "BEGIN; SELECT 1");
	began_ms = wait_now_ms();
	run = run_in((const char *[]){suite_text("WSONCE_POSTGRES=%s", conninfo), NULL}, "status --redis none");
	cr_assert_lt(wait_now_ms() - began_ms, 9800, "%lld ms", (long long)(wait_now_ms() - began_ms));
	cr_assert(run.status == 2 && strstr(run.output, "! postgres: it does not answer\n"), "%s", run.output);
	database_free(holder);
}

/* Each would be waited for until the deadline, and then Redis could not be asked. */
Test(status, locked_tables_hide_nothing_else, .init = bench_open)
{
	struct database *holder = database_open(database_conninfo(db));
	int64_t began_ms;
	struct run run;

	run_expect(db, 0, NULL, "migrate");
	database_exec(holder, "BEGIN; LOCK TABLE dead_letters, outbox, webhook_pauses, wsonce_listeners");
	began_ms = wait_now_ms();
	run = run_on(db, "status");
	cr_assert_lt(wait_now_ms() - began_ms, 12000, "%lld ms", (long long)(wait_now_ms() - began_ms));
	cr_assert_eq(run.status, 1);
	cr_assert(strstr(run.output, "! cannot read outbox: ") && strstr(run.output, "locks ") &&
			  strstr(run.output, " master, ") && !strstr(run.output, "redis answers slowly"),
		  "%s", run.output);
	run = run_on(db, "explain e-1");
	cr_assert(strstr(run.output, "not read: dead_letters: "), "%s", run.output);
	database_free(holder);
}

Test(status, names_do_a_terminal_no_harm_and_lines_fit_eighty_columns)
{
	static const char *const env[] = {"WSONCE_INSTANCE_ID=a\x1b[2Jvery-long-name-of-a-listener-that-never-ends",
					  NULL};
	struct run run;
	char *at;

	listener_start(&(struct listener_options){.database = db, .env = env, .without_waiting = true},
		       "--source ws://127.0.0.1:1/%0100d", 0);
	run_await(db, 1, NULL, WAIT_MS, "status");
	run = run_on(db, "status");
	cr_assert(!strchr(run.output, '\x1b'), "%s", run.output);
	for (char *line = strtok_r(run.output, "\n", &at); line; line = strtok_r(NULL, "\n", &at))
		cr_assert_leq(strlen(line), 80, "%s", line);
}

Test(status, watching_ends_at_an_interrupt)
{
	run_expect(db, 0, NULL, "migrate");
	struct process *p = run_start_on(db, "status --watch --json --every 50ms");
	await(strstr(process_output(p), "}\n{"), WAIT_MS, "%s", process_output(p));
	process_signal(p, SIGINT);
	cr_assert_eq(process_wait(p, WAIT_MS), 2);
}

Test(status, a_role_that_may_not_read_a_table_is_told_so, .init = bench_open)
{
	char *role = database_text(db, "SELECT current_database() || '_reader'");
	const char *const env[] = {suite_text("WSONCE_POSTGRES=%s user=%s", database_conninfo(db), role),
				   "WSONCE_REDIS=none", NULL};
	struct run run;

	database_exec(db, "CREATE ROLE \"%s\" LOGIN; GRANT SELECT ON wsonce_listeners, wsonce_schema TO \"%s\"", role,
		      role);
	run = run_in(env, "status");
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
	cr_assert_eq(run.status, 2);
	cr_assert(strstr(run.output, "! cannot read outbox: ") && strstr(run.output, "permission denied"), "%s",
		  run.output);
}

/* A number with more digits than fit is JSON to Postgres. Unknown is not fine. */
Test(status, what_cannot_be_read_is_not_ok, .init = bench_open)
{
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, targets, target_urls, "
			  "report) VALUES ('a.0123456789abcdef', 1, '', '{}', '{}', '{\"uptime_s\": 1e300}')");
	run_expect(db, 1, "! cannot read listeners: ", "status");
}

static void add_hour(const char *name, long minute, int received, double p99)
{
	database_exec(
		db,
		"INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, targets, target_urls, report) "
		"VALUES ('%s.0123456789abcdef', 1, '', '{}', '{}', '{\"version\": \"1\", \"hour\": [[%ld, %d, 1, 2, 3, "
		"1.0, %f], [%ld, 9], 5, [\"no minute\"]]}')",
		name, minute, received, p99, minute - 500);
}

Test(status, the_hour_of_a_fleet_is_the_sum_and_the_slowest_of_its_listeners, .init = bench_open)
{
	long minute = (long)time(NULL) / 60 - 10;

	json_t *state = run_json(db, 2, "status --json");
	cr_assert_eq(json_array_size(json_object_get(state, "hour")), 0);
	json_decref(state);
	add_hour("a", minute, 60, 5);
	add_hour("b", minute, 120, 50);
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, consumer, targets, target_urls) "
			  "VALUES ('c.0123456789abcdef', 1, '', '{}', '{}')");
	state = run_json(db, 0, "status --json");
	json_t *all = json_object_get(state, "hour");
	cr_assert_eq(json_array_size(all), 1);
	json_t *one = json_array_get(all, 0);
	cr_assert_float_eq(json_number_value(json_object_get(one, "received_per_s")), 3, 1e-9);
	cr_assert_eq(json_integer_value(json_object_get(one, "dead_lettered")), 6);
	cr_assert_float_eq(json_number_value(json_object_get(one, "p99_ms")), 50, 1e-9);
	cr_assert(strstr(json_string_value(json_object_get(one, "at")), ":00.000000Z"));
}

/* --- problems that listeners report --- */

/* Events that no compression makes small. */
static void send_events(int n)
{
	for (int i = 0; i < n; i++) {
		char text[4001];

		for (size_t at = 0; at < sizeof(text) - 1; at++)
			text[at] = (char)('a' + rand() % 26);
		text[sizeof(text) - 1] = '\0';
		peer_sendf(producer, "{\"event_id\":\"e-%d\",\"payload\":\"%s\"}", suite_number(), text);
	}
}

static void start_on(struct postgres *pg, const char *redis)
{
	db = postgres_database(pg);
	bench_serve((struct listener_options){.postgres = postgres_conninfo(pg), .redis = redis},
		    "--instance-id web-1");
}

Test(status, a_handler_that_is_slow_is_not_taken_for_postgres, .init = bench_open)
{
	database_exec(db, "CREATE FUNCTION slow(text, text, jsonb) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(2)'");
	bench_serve((struct listener_options){.database = db}, "--instance-id web-1 --handler public.slow");
	send_events(10);
	await(says("! web-1 cannot store: postgres does not answer: the handler may be slow\n"), SOON_MS, "%s",
	      run_on(db, "status").output);
}

Test(status, who_locks_a_table_of_the_handler_is_named, .init = bench_open)
{
	struct database *holder = database_open(database_conninfo(db));

	database_exec(db, "CREATE TABLE stock (n int)");
	database_exec(
		db,
		"CREATE FUNCTION sell(text, text, jsonb) RETURNS void LANGUAGE sql AS 'INSERT INTO stock VALUES (1)'");
	bench_serve((struct listener_options){.database = db}, "--instance-id web-1 --handler public.sell");
	database_exec(holder, "BEGIN; ALTER TABLE stock ADD COLUMN note text");
	send_events(1);
	await(says(" (wsonce-test) locks stock"), SOON_MS, "%s", run_on(db, "status").output);
	database_exec(holder, "ROLLBACK");
	run_await(db, 0, NULL, WAIT_MS, "status");
	database_free(holder);
}

/* The check-in before the first batch knows of no event. */
Test(status, rates_are_told_soon_after_a_start, .init = bench_open)
{
	bench_serve((struct listener_options){.database = db}, "--instance-id web-1");
	send_events(100);
	await(bench_rows() == 100, WAIT_MS);
	await(says("\nstored ") && !says("\nstored 0.0/s"), SOON_MS, "%s", run_on(db, "status").output);
}

/* With exit status 2. */
static bool says_both(const char *one, const char *other)
{
	struct run run = run_on(db, "status");

	return run.status == 2 && strstr(run.output, one) && strstr(run.output, other);
}

static void expect_full_disk_told(const char *redis)
{
	struct postgres *pg = postgres_new_on_disk();

	start_on(pg, redis);
	send_events(100);
	await(bench_rows() == 100, WAIT_MS);
	json_decref(read_state(0));
	postgres_fill_disk(pg);
	send_events(300);
	/* Now and then a row fits into an existing page, and then the listener can store. */
	await(says_both("! web-1 cannot store: could not extend file ", "! no listener can store\n"), SOON_MS, "%s",
	      run_on(db, "status").output);
	postgres_empty_disk(pg);
	await(bench_rows() == 400, WAIT_MS);
	run_await(db, 0, NULL, WAIT_MS, "status");
}

Test(status, a_full_disk_of_postgres_is_told_within_ten_seconds, .fini = bench_close)
{
	expect_full_disk_told(NULL);
}

/* The listener can report it only through Postgres. */
Test(status, a_full_disk_of_postgres_is_told_without_redis, .fini = bench_close)
{
	expect_full_disk_told("none");
}

/* Otherwise there would be 50 lines a minute. */
Test(status, a_full_disk_of_postgres_is_logged_when_it_begins_and_ends, .fini = bench_close)
{
	struct postgres *pg = postgres_new_on_disk();

	start_on(pg, NULL);
	send_events(1);
	await(bench_rows() == 1, WAIT_MS);
	int begun = listener_count_logged(listener, "\n");
	postgres_fill_disk(pg);
	send_events(300);
	await(listener_metric(listener, "wsonce_store_retries_total") >= 20, 3 * WAIT_MS);
	cr_assert_leq(listener_count_logged(listener, "\n") - begun, 8, "%s",
		      process_errors(listener_process(listener)));
	cr_assert_eq(listener_count_logged(listener, "event=\"postgres error, will retry the batch\""), 1);
	postgres_empty_disk(pg);
	await(bench_rows() == 301, WAIT_MS);
	await((send_events(1), listener_has_logged(listener, "event=\"postgres stores again\" times=")), WAIT_MS, "%s",
	      process_errors(listener_process(listener)));
}

Test(status, where_counting_ends_it_says_so, .init = bench_open)
{
	database_exec(db, "INSERT INTO dead_letters (digest, reason, raw, instance_id) SELECT int8send(i), '', '', '' "
			  "FROM generate_series(1, 9999) AS i;"
			  "INSERT INTO outbox (target, event_id, event_type) SELECT 't' || i %% 2, i, '' "
			  "FROM generate_series(1, 19998) AS i");
	cr_assert(says("9999 open\n") && says("outbox 19998 pending,") && says(" 0 dead\n"), "%s",
		  run_on(db, "status").output);
	database_exec(db, "INSERT INTO dead_letters (digest, reason, raw, instance_id) SELECT int8send(i), '', '', '' "
			  "FROM generate_series(10000, 12345) AS i;"
			  "INSERT INTO outbox (target, event_id, event_type) SELECT 't0', i, '' "
			  "FROM generate_series(1, 5000) AS i");
	cr_assert(says("10000 open (or more)\n") && says("outbox 19999 pending,") && says(" 0 dead (or more)\n"), "%s",
		  run_on(db, "status").output);
}

/* Each answer takes 0.7 s. */
Test(status, a_slow_redis_is_told_within_ten_seconds)
{
	struct redisd *redis = redisd_new();
	char *words = suite_text("exec redis-cli -p %d -r 1000 CLIENT PAUSE 700 ALL", redisd_port(redis));
	const char *const env[] = {suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)),
				   suite_text("WSONCE_REDIS=%s", redisd_url(redis)), NULL};
	struct listener *l = listener_start(&(struct listener_options){.database = db, .redis = redisd_url(redis)},
					    "--instance-id web-1");
	struct process *p;
	struct run run;
	int64_t began;

	await(bench_count("wsonce_listeners WHERE report IS NOT NULL") == 1, WAIT_MS);
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, report) SELECT 'x.' || to_char(i, "
			  "'FM0000000000000000'), 300, report FROM "
			  "wsonce_listeners, generate_series(1, 40) AS i WHERE report IS NOT NULL");
	p = process_start_argv((const char *[]){"sh", "-c", words, NULL}, NULL);
	await(listener_page_has(l, "/readyz", "degraded") || strstr(process_output(p), "OK"), WAIT_MS);
	began = wait_now_ms();
	run = run_in(env, "status");
	/* All of them would take 28 s. */
	cr_assert_lt(wait_now_ms() - began, 24000, "%lld ms", (long long)(wait_now_ms() - began));
	cr_assert(strstr(run.output, "redis answers slowly: some listeners were not looked up"), "%s%s", run.output,
		  run.errors);
}

/* The report of a command such as replay has no version, and older commands have no report. */
Test(status, a_command_that_was_killed_is_forgotten_within_minutes, .init = bench_open, .fini = bench_close)
{
	struct listener *l = start("web-1", "", NULL);

	await(bench_count("wsonce_listeners") == 1, WAIT_MS);
	cr_assert_eq(listener_stop(l), 0);
	database_exec(db, "INSERT INTO wsonce_listeners (listener, dedup_window_s, seen_at, report) VALUES "
			  "('command.0123456789abcdef', 300, now() - interval '4 min', NULL), "
			  "('command.1123456789abcdef', 300, now() - interval '4 min', '{\"settled_us\": 0}'), "
			  "('command.2123456789abcdef', 300, now() - interval '2 min', NULL), "
			  "('listener.0123456789abcdef', 300, now() - interval '4 min', '{\"version\": \"1\"}')");
	start("web-1", "", NULL);
	await(bench_count("wsonce_listeners WHERE report ? 'version'") == 2, WAIT_MS);
	cr_assert_eq(bench_count("wsonce_listeners"), 3);
	cr_assert_eq(bench_count("wsonce_listeners WHERE listener ~ '^command.[01]'"), 0);
}
