/* Exclusive sources: one listener reads them, and another takes over when it is gone, with Redis and without. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS  20000
#define TAKEOVER_MS 10000

static struct feed *feed;
static struct listener *both[3];
static bool is_pooled; /* through PgBouncer in transaction mode */
static char *store;    /* conninfo or sqlite://PATH, if it is not db */
static const char *more = "";

static struct listener *start_at(const char *url, const char *redis, int i)
{
	char *config =
		suite_file(suite_text("exclusive-%d.json", i),
			   suite_text("{\"sources\": [{\"name\": \"alone\", \"fleet\": \"exclusive\", \"url\": \"%s\", "
				      "\"rules\": [{\"when\": {\"/id\": {\"exists\": true}}, \"action\": \"event\", "
				      "\"id\": [[\"/id\"]]}]}]}",
				      url));

	return both[i] = listener_start(&(struct listener_options){.database = db,
								   .postgres = store,
								   .redis = redis,
								   .without_ingest = true,
								   .without_waiting = true},
					"--log-level debug %s --config %s", more, config);
}

static struct listener *start(const char *redis, int i)
{
	return start_at(feed_url(feed), redis, i);
}

static void start_both(const char *redis)
{
	feed = feed_new();
	db = database_new();
	if (is_pooled)
		store = bouncer_conninfo(bouncer_new(6), db);
	start(redis, 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(both[0])));
	start(redis, 1);
	listener_wait_ready(both[1]);
	wait_pause_ms(1000);
	cr_assert_eq(feed_connections(feed), 1, "one is enough");
	cr_assert(listener_page_has(both[1], "/api/status", "\"standby\""));
}

static void tear_down(void)
{
	listener_free(both[0]);
	listener_free(both[1]);
	listener_free(both[2]);
	feed_free(feed);
	database_free(db);
}

TestSuite(lease, .fini = tear_down, .timeout = 120);

static void expect_takeover(void (*end)(struct listener *l))
{
	end(both[0]);
	await(feed_connections(feed) == 2, TAKEOVER_MS, "nobody took over in time");
	feed_send_text(feed, "{\"id\":\"one\"}");
	await(bench_rows() == 1, SETTLED_MS);
}

static void stop(struct listener *l)
{
	cr_assert_eq(listener_stop(l), 0);
}

Test(lease, another_takes_over_from_one_that_was_killed)
{
	start_both(NULL);
	expect_takeover(listener_kill);
}

Test(lease, another_takes_over_from_one_that_stopped)
{
	start_both(NULL);
	expect_takeover(stop);
}

/* Any role that can connect may take an advisory lock. */
Test(lease, without_redis_a_row_of_a_table_has_it)
{
	start_both("none");
	cr_assert_eq(bench_count("pg_locks WHERE locktype = 'advisory'"), 0);
	expect_takeover(listener_kill);
}

Test(lease, without_redis_one_that_stops_gives_it_back)
{
	start_both("none");
	expect_takeover(stop);
	cr_assert_eq(bench_count("wsonce_leases"), 1);
}

/* Postgres empties the table when it recovers from a crash. */
Test(lease, without_redis_one_whose_row_is_gone_has_it_all_the_same)
{
	start_both("none");
	database_exec(db, "TRUNCATE wsonce_leases");
	await(bench_count("wsonce_leases") == 1, SETTLED_MS);
	await(feed_clients(feed) == 1 && database_long(db, "SELECT min(turn) FROM wsonce_leases") > 8, SETTLED_MS);
}

/* Only the lease's own connection fails, as when the role has no connections left. */
Test(lease, without_redis_that_postgres_gives_none_is_told)
{
	feed = feed_new();
	db = database_new();
	start("none", 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	database_exec(db, "ALTER TABLE wsonce_leases RENAME TO gone");
	await(listener_page_has(both[0], "/readyz", "no lease of the source: "), SETTLED_MS);
	database_exec(db, "ALTER TABLE gone RENAME TO wsonce_leases");
	await(listener_status(both[0], "/readyz") == 200 && feed_clients(feed) == 1, SETTLED_MS);
}

/* Its sessions are lent to others between two statements. */
Test(lease, without_redis_a_pooler_may_stand_between)
{
	is_pooled = true;
	start_both("none");
	expect_takeover(listener_kill);
}

static void expect_frozen_one_to_give_way(void)
{
	process_signal(listener_process(both[0]), SIGSTOP);
	await(feed_connections(feed) == 2, SETTLED_MS);
	process_signal(listener_process(both[0]), SIGCONT);
	await(feed_clients(feed) == 1, SETTLED_MS, "both have it");
	await(listener_page_has(both[0], "/api/status", "\"standby\""), SETTLED_MS);
}

/* The row that the first lease left does not prevent the second. */
static void expect_it_to_be_regained(void)
{
	listener_kill(both[1]);
	await(feed_connections(feed) == 3, SETTLED_MS, "nobody has it");
	feed_send_text(feed, "{\"id\":\"regained\"}");
	await(bench_count("events WHERE event_id = 'regained'") == 1, SETTLED_MS);
}

/* It cannot know if another listener has the lease, so its connection ends before the lease does. */
Test(lease, one_that_stands_still_for_too_long_gives_way)
{
	start_both(NULL);
	expect_frozen_one_to_give_way();
	expect_it_to_be_regained();
}

/* Its row does not change for too long. */
Test(lease, without_redis_one_that_stands_still_gives_way)
{
	start_both("none");
	expect_frozen_one_to_give_way();
	expect_it_to_be_regained();
}

Test(lease, behind_a_pooler_one_that_stands_still_gives_way)
{
	is_pooled = true;
	start_both("none");
	expect_frozen_one_to_give_way();
	expect_it_to_be_regained();
}

/* A process that is killed leaves its lock, and a deleted file has none. */
Test(lease, beside_an_sqlite_file_the_kernel_has_it)
{
	char *file = suite_path("alone.db");

	store = suite_text("sqlite://%s", file);
	start_both("none");
	listener_kill(both[0]);
	await(feed_connections(feed) == 2, TAKEOVER_MS, "nobody took over in time");
	start("none", 0);
	listener_wait_ready(both[0]);
	cr_assert_eq(unlink(suite_text("%s-leases", file)), 0);
	await(listener_has_logged(both[1], "the lock file was deleted"), SETTLED_MS);
	await(feed_connections(feed) == 3 && feed_clients(feed) == 1, SETTLED_MS, "both have it, or nobody");
}

/* --- a key that no listener wrote --- */

Test(lease, a_key_without_an_end_or_that_lasts_for_an_hour_is_no_lease)
{
	static const char *const ends[] = {"", " PX 3600000"};

	feed = feed_new();
	db = database_new();
	for (int i = 0; i < 2; i++) {
		redisd_command(redisd_shared(), "SET wsonce:lease:%salone stranger%s", redisd_prefix(), ends[i]);
		start(NULL, i);
		cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(both[i])));
		listener_kill(both[i]);
	}
}

/* Another listener asks for more if Redis answers it slowly. */
Test(lease, a_longer_one_is_left_to_its_owner)
{
	feed = feed_new();
	db = database_new();
	redisd_command(redisd_shared(), "SET wsonce:lease:%salone another PX 4000", redisd_prefix());
	long long began = wait_now_ms();
	start(NULL, 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(both[0])));
	cr_assert_geq(wait_now_ms() - began, 3900);
}

/* An answer that never comes is a slow one, too: the next lease lasts longer. */
Test(lease, one_is_lost_once_if_redis_often_stands_still)
{
	struct redisd *redis = redisd_new();

	feed = feed_new();
	db = database_new();
	start(redisd_url(redis), 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(both[0])));
	for (int i = 0; i < 4; i++) {
		redisd_pause(redis);
		wait_pause_ms(1300);
		redisd_resume(redis);
		wait_pause_ms(1500);
	}
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	cr_assert_leq(feed_connections(feed), 2);
}

static int count_lines(const char *part)
{
	int n = 0;

	for (const char *at = process_errors(listener_process(both[0])); (at = strstr(at, part)); at++)
		n++;
	return n;
}

static void start_many(const char *redis)
{
	static const char source[] = "{\"name\": \"n%d\", \"fleet\": \"exclusive\", \"url\": \"ws://127.0.0.1:1/\", "
				     "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}";
	char *all = "";

	db = db ? db : database_new();
	for (int i = 0; i < 3; i++)
		all = suite_text("%s%s%s", all, i ? ", " : "", suite_text(source, i));
	both[0] = listener_start(&(struct listener_options){.database = db,
							    .postgres = store,
							    .redis = redis,
							    .without_ingest = true,
							    .without_waiting = true},
				 "--config %s", suite_file("many.json", suite_text("{\"sources\": [%s]}", all)));
}

/* They fail together, for one reason. */
Test(lease, that_redis_refuses_those_of_many_sources_is_told_once)
{
	struct redisd *redis = redisd_new();

	redisd_command(redis, "ACL SETUSER default -eval");
	start_many(redisd_url(redis));
	await(listener_has_logged(both[0], "nobody may read it"), SETTLED_MS);
	wait_pause_ms(1000);
	cr_assert_eq(count_lines("nobody may read it"), 1);
	cr_assert_leq(count_lines("missing=eval"), 1);
	redisd_command(redis, "ACL SETUSER default +eval");
	await(listener_has_logged(both[0], "grants leases of exclusive sources again"), SETTLED_MS);
	wait_pause_ms(1000);
	cr_assert_eq(count_lines("grants leases of exclusive sources again"), 1);
}

Test(lease, without_redis_the_loss_of_postgres_is_told_once_for_many_sources)
{
	struct postgres *pg = postgres_new();

	store = suite_text("%s", postgres_conninfo(pg));
	db = postgres_database(pg);
	start_many("none");
	await(listener_has_logged(both[0], "admin is open"), SETTLED_MS);
	await(listener_metric(both[0], "wsonce_postgres_connects_total") >= 4, SETTLED_MS);
	postgres_stop(pg);
	await(listener_has_logged(both[0], "cannot use postgres, will retry"), SETTLED_MS);
	wait_pause_ms(1000);
	postgres_start(pg);
	await(listener_metric(both[0], "wsonce_postgres_connects_total") >= 8, SETTLED_MS);
	cr_assert_eq(count_lines("postgres connection is lost"), 1);
	cr_assert_leq(count_lines("cannot use postgres, will retry"), 5);
}

Test(lease, a_key_of_the_wrong_type_is_told)
{
	feed = feed_new();
	db = database_new();
	redisd_command(redisd_shared(), "HSET wsonce:lease:%salone a b", redisd_prefix());
	start(NULL, 0);
	cr_assert(wait_until(
		listener_page_has(both[0], "/readyz", "redis refuses the lease of this exclusive source: WRONGTYPE"),
		SETTLED_MS));
	cr_assert(listener_has_logged(both[0], "nobody may read it"));
	cr_assert(wait_until(strstr(run_on(db, "status").output, "! no listener reads source alone"), SETTLED_MS));
	redisd_command(redisd_shared(), "DEL wsonce:lease:%salone", redisd_prefix());
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	cr_assert(wait_until(listener_status(both[0], "/readyz") == 200, SETTLED_MS));
	cr_assert(wait_until(run_on(db, "status").status == 0, SETTLED_MS), "%s", run_on(db, "status").output);
}

/* The network of one host fails, or its proxy. The one that cannot connect tries again if nobody else has the lease. */
static void expect_that_the_other_connects(const char *redis)
{
	char *nowhere = suite_text("ws://127.0.0.1:%d/", port_reserve());

	feed = feed_new();
	db = database_new();
	start_at(nowhere, redis, 0);
	await(listener_has_logged(both[0], "acquired an exclusive source"), SETTLED_MS);
	await(listener_has_logged(both[0], "gave up an exclusive source"), SETTLED_MS);
	cr_assert(listener_page_has(both[0], "/readyz", "not ready: source alone: standby: the connection failed"));
	await(listener_page_has(both[0], "/api/status", "\"connecting\"") ||
		      listener_page_has(both[0], "/api/status", "\"down\""),
	      SETTLED_MS, "it does not try again");
	start(redis, 1);
	cr_assert(feed_wait_clients(feed, 1, 2 * SETTLED_MS), "the other one does not connect");
	listener_wait_ready(both[0]);
	cr_assert_eq(feed_connections(feed), 1);
}

/* Feeds ban addresses for an hour. */
Test(lease, another_gets_it_from_one_that_is_told_to_wait)
{
	feed = feed_new();
	db = database_new();
	feed_answer(feed, "/banned",
		    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n");
	start_at(suite_text("ws://127.0.0.1:%d/banned", feed_port(feed)), NULL, 0);
	await(listener_has_logged(both[0], "cannot connect to source"), SETTLED_MS);
	start(NULL, 1);
	cr_assert(feed_wait_clients(feed, 1, 2 * SETTLED_MS), "the other one does not connect");
}

/* One host loses its way to Postgres: its listener reads on only until another one can store. */
Test(lease, another_gets_it_from_one_that_cannot_store)
{
	char *way = suite_path("way"), *host, *conninfo;

	db = database_new();
	cr_assert(sscanf(strstr(database_conninfo(db), "host="), "host=%ms", &host) == 1 && *host == '/');
	cr_assert_eq(symlink(host, way), 0);
	conninfo = suite_text("%s host=%s application_name=lost", database_conninfo(db), way);
	feed = feed_new();
	store = conninfo;
	more = "--postgres-timeout 2";
	start(NULL, 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	store = NULL;
	start(NULL, 1);
	listener_wait_ready(both[1]);
	unlink(way);
	database_long(
		db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
		    "AND application_name = 'lost'");
	await(listener_has_logged(both[0], "this listener cannot store, but another one can"), SETTLED_MS);
	await(feed_connections(feed) == 2, TAKEOVER_MS);
	feed_send_text(feed, "{\"id\":\"one\"}");
	await(bench_rows() == 1, SETTLED_MS);
	wait_pause_ms(6000);
	cr_assert_eq(feed_connections(feed), 2, "it came back, though it cannot store");
	free(host);
}

/* The host of the holder and of Postgres fails. For three seconds the dead one counts as one that can store, and when
 * Postgres is back, one of the others is the first that can. */
Test(lease, it_is_kept_while_postgres_is_away_for_all)
{
	struct postgres *pg = postgres_new();
	char *way = suite_path("way");

	cr_assert_eq(symlink(postgres_directory(pg), way), 0);
	db = postgres_database(pg);
	feed = feed_new();
	more = "--postgres-timeout 1";
	store = suite_text("%s", postgres_conninfo(pg));
	start(NULL, 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	store = suite_text("%s host=%s", postgres_conninfo(pg), way);
	start(NULL, 1);
	listener_wait_ready(both[1]);
	wait_pause_ms(12000);
	listener_kill(both[0]);
	postgres_kill(pg);
	unlink(way);
	await(feed_connections(feed) == 2, TAKEOVER_MS);
	wait_pause_ms(12000);
	postgres_start(pg);
	store = suite_text("%s", postgres_conninfo(pg));
	start(NULL, 0);
	listener_wait_ready(both[0]);
	wait_pause_ms(2000);
	cr_assert_eq(symlink(postgres_directory(pg), way), 0);
	listener_wait_ready(both[1]);
	cr_assert_not(listener_has_logged(both[1], "gave up an exclusive source"));
}

/* A table was locked for longer than the holder's patience, which the other, with nothing to store, did not notice. */
Test(lease, it_is_kept_when_postgres_restarts_after_trouble)
{
	struct postgres *pg = postgres_new();
	struct database *locker;

	db = postgres_database(pg);
	feed = feed_new();
	store = suite_text("%s", postgres_conninfo(pg));
	more = "--postgres-timeout 3";
	start(NULL, 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	start(NULL, 1);
	listener_wait_ready(both[1]);
	locker = database_open(postgres_conninfo(pg));
	database_exec(locker, "BEGIN; LOCK TABLE events");
	feed_send_text(feed, "{\"id\":\"one\"}");
	wait_pause_ms(20000);
	postgres_kill(pg);
	wait_pause_ms(2000);
	postgres_start(pg);
	await(bench_rows() == 1, SETTLED_MS);
	cr_assert_not(listener_has_logged(both[0], "gave up an exclusive source"));
	database_free(locker);
}

Test(lease, another_gets_it_from_one_that_cannot_connect)
{
	expect_that_the_other_connects(NULL);
}

Test(lease, without_redis_another_gets_it_from_one_that_cannot_connect)
{
	expect_that_the_other_connects("none");
}

Test(lease, beside_an_sqlite_file_another_gets_it_from_one_that_cannot_connect)
{
	store = suite_text("sqlite://%s", suite_path("events.db"));
	expect_that_the_other_connects("none");
}

/* Requests of these two are sent at nearly the same times, so each would take the lease that the other one leaves. */
Test(lease, two_that_cannot_connect_do_not_keep_it_from_a_third)
{
	char *nowhere = suite_text("ws://127.0.0.1:%d/", port_reserve());

	feed = feed_new();
	db = database_new();
	start_at(nowhere, NULL, 0);
	start_at(nowhere, NULL, 1);
	await(listener_has_logged(both[0], "gave up an exclusive source") &&
		      listener_has_logged(both[1], "gave up an exclusive source"),
	      4 * SETTLED_MS);
	start(NULL, 2);
	cr_assert(feed_wait_clients(feed, 1, 4 * SETTLED_MS));
}

/* A feed may ban those that dial too often. */
Test(lease, one_that_gets_it_back_waits_as_long_as_its_profile_says)
{
	db = database_new();
	both[0] = listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = true},
		"--log-level debug --config %s",
		suite_file("waits.json",
			   suite_text("{\"sources\": [{\"name\": \"alone\", \"fleet\": \"exclusive\", \"url\": "
				      "\"ws://127.0.0.1:%d/\", \"backoff\": {\"min_ms\": 60000, \"max_ms\": 60000, "
				      "\"jitter\": false}, \"rules\": [{\"when\": {\"/id\": {\"exists\": true}}, "
				      "\"action\": \"event\", \"id\": [[\"/id\"]]}]}]}",
				      port_reserve())));
	await(listener_has_logged(both[0], "gave up an exclusive source"), SETTLED_MS);
	wait_pause_ms(6000);
	cr_assert(listener_page_has(both[0], "/api/status", "\"down\""));
	cr_assert_not(listener_has_logged(both[0], "failures=2"));
}

/* Each other listener would have the same cursor. */
Test(lease, it_is_kept_while_the_feed_seems_to_refuse_the_cursor)
{
	const char *url;

	feed = feed_new();
	db = database_new();
	url = suite_text("ws://127.0.0.1:%d/feed", feed_port(feed));
	both[0] = listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = true},
		"--config %s",
		suite_file("cursor.json",
			   suite_text("{\"sources\": [{\"name\": \"alone\", \"fleet\": \"exclusive\", \"url\": \"%s\", "
				      "\"url_resume\": \"%s?cursor=${cursor}\", \"cursor\": {\"kind\": \"max\"}, "
				      "\"backoff\": {\"min_ms\": 3000, \"max_ms\": 3000, \"jitter\": false}, "
				      "\"rules\": [{\"when\": {\"/id\": {\"exists\": true}}, \"action\": \"event\", "
				      "\"id\": [[\"/id\"]], \"cursor\": \"/id\"}]}]}",
				      url, url)));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(both[0])));
	feed_send_text(feed, "{\"id\":9}");
	await(database_long(db, "SELECT count(*) FROM cursors WHERE value = '9'") == 1, SETTLED_MS);
	feed_answer(feed, "/feed?cursor=", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
	feed_drop_all(feed);
	await(listener_has_logged(both[0], "answered 400"), SETTLED_MS);
	cr_assert(feed_wait_clients(feed, 1, 3 * SETTLED_MS));
	feed_send_text(feed, "{\"id\":10}");
	await(listener_has_logged(both[0], "source refused the cursor"), SETTLED_MS);
	cr_assert_not(listener_has_logged(both[0], "gave up an exclusive source"));
}
