/* Failovers: hosts that hang, primaries that become standbys, masters that become replicas, and migrations of tables in
 * use. */
#include "support.h"
#include "bench.h"

#include <arpa/inet.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#define WAIT_MS 20000

static struct postgres *servers[2];

static void tear_down(void)
{
	peer_free(producer);
}

TestSuite(failover, .init = bench_open, .fini = tear_down, .timeout = 120);

static void send_event(const char *id)
{
	cr_assert(peer_sendf(producer, "{\"event_id\":\"%s\",\"event_type\":\"t\",\"payload\":{}}", id));
}

static void must_be_acked(const char *status)
{
	char *ack = peer_recv(producer, WAIT_MS);

	cr_assert(ack && strstr(ack, status), "no \"%s\": %s: %s", status, ack,
		  process_last_words(listener_process(listener)));
}

/* --- hosts --- */

static const char *const *slow_names(void)
{
	static const char *env[] = {NULL, "ASAN_OPTIONS=verify_asan_link_order=0", NULL};
	char program[PATH_MAX] = "";

	cr_assert_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
	env[0] = suite_text("LD_PRELOAD=%s/slow_names.so", dirname(program));
	return env;
}

/* Meanwhile feeds are read, and the next host is tried. */
Test(failover, a_name_server_that_hangs_does_not_stop_the_listener)
{
	char *folder = database_text(db, "SHOW unix_socket_directories");
	char *conninfo = suite_text("%s host=db.test,%s port=5432", database_conninfo(db), folder);

	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none", .env = slow_names()},
		    "--postgres-timeout 1");
	cr_assert(listener_has_logged(listener, "the name server did not answer for db.test within"));
	send_event("a");
	must_be_acked("persisted");
}

/* Here both hosts have a first address that hangs, the second host is away, and the third refuses. The next address
 * comes in the next round: the first one is not tried again before. */
Test(failover, an_address_that_hangs_does_not_hide_the_next_one)
{
	int port = port_reserve(), away = port_reserve(), ends[] = {port_listen(port), port_listen(away)};
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct pollfd next = {.events = POLLIN};

	inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
	for (int i = 0; i < 2; i++) {
		address.sin_port = htons((uint16_t)(i ? port : away));
		next.fd = socket(AF_INET, SOCK_STREAM, 0);
		cr_assert_eq(bind(next.fd, (struct sockaddr *)&address, sizeof(address)), 0);
		cr_assert_eq(listen(next.fd, 1), 0);
	}
	listener = listener_start(
		&(struct listener_options){.postgres = suite_text("host=two.test,two.test,127.0.0.1 port=%d,%d,%d",
								  port, away, port_reserve()),
					   .redis = "none",
					   .env = slow_names(),
					   .without_waiting = true},
		"--postgres-timeout 1");
	await(poll(&next, 1, 0) == 1, WAIT_MS);
	close(accept(ends[0], NULL, NULL));
	cr_assert_eq(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0), 0, "twice to a mute address");
	close(ends[0]);
	close(ends[1]);
	close(next.fd);
}

Test(failover, a_host_that_refuses_is_named)
{
	char *folder = database_text(db, "SHOW unix_socket_directories");

	bench_serve((struct listener_options){.redis = "none",
					      .postgres = suite_text("%s host=localhost,%s port=%d,5432",
								     database_conninfo(db), folder, port_reserve())},
		    "--postgres-timeout 5");
	cr_assert(listener_has_logged(listener, "localhost: connection to server at"));
}

Test(failover, a_host_that_hangs_does_not_hide_the_next_one)
{
	int port = port_reserve(), fd = port_listen(port); /* takes connections, and never answers */
	char *conninfo, *folder = database_text(db, "SHOW unix_socket_directories");

	conninfo = suite_text("%s host=127.0.0.1,%s port=%d,5432", database_conninfo(db), folder, port);
	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none"}, "--postgres-timeout 1");
	cr_assert(listener_has_logged(listener, "no connection to 127.0.0.1 within"));
	send_event("a");
	must_be_acked("\"persisted\"");
	close(fd);
}

/* Nothing listens on the ports of the others, before and behind it. */
Test(failover, hosts_that_refuse_do_not_hide_the_one_between_them)
{
	char *conninfo, *folder = database_text(db, "SHOW unix_socket_directories");

	conninfo = suite_text("%s host=127.0.0.1,%s,127.0.0.1 port=%d,5432,%d target_session_attrs=read-write",
			      database_conninfo(db), folder, port_reserve(), port_reserve());
	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none"}, NULL);
	send_event("a");
	must_be_acked("\"persisted\"");
}

static int lines_at(const char *level, const char *part)
{
	char *log = process_errors(listener_process(listener));
	int n = 0;

	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		n += strstr(line, level) && strstr(line, part);
	return n;
}

/* Each host has its own reason. */
Test(failover, hosts_that_all_refuse_are_four_lines_a_minute)
{
	int ports[4] = {port_reserve(), port_reserve(), port_reserve(), port_reserve()};
	char *conninfo = suite_text("host=127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1 port=%d,%d,%d,%d", ports[0], ports[1],
				    ports[2], ports[3]);

	listener = listener_start(
		&(struct listener_options){.postgres = conninfo, .redis = "none", .without_waiting = true},
		"--log-level debug");
	await(lines_at("level=debug", "cannot use postgres") >= 16, WAIT_MS);
	cr_assert_eq(lines_at("level=warn", "cannot use postgres"), 4);
}

static const char *folder_of(struct postgres *pg)
{
	return strchr(postgres_conninfo(pg), '=') + 1;
}

/* Two servers; the first is used, and has a row. */
static void start_with_two(const char *flags)
{
	for (int i = 0; i < 2; i++)
		servers[i] = postgres_new();
	char *conninfo =
		suite_text("user=postgres dbname=postgres host=%.*s,%.*s", (int)strcspn(folder_of(servers[0]), " "),
			   folder_of(servers[0]), (int)strcspn(folder_of(servers[1]), " "), folder_of(servers[1]));
	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none"}, "%s", flags);
	send_event("a");
	must_be_acked("\"persisted\"");
}

static long rows_of(struct postgres *pg)
{
	return database_long(postgres_database(pg), "SELECT count(*) FROM events");
}

static void set_read_only(struct postgres *pg, const char *value)
{
	database_exec(postgres_database(pg), "ALTER SYSTEM SET default_transaction_read_only = %s", value);
	database_exec(postgres_database(pg), "SELECT pg_reload_conf()");
	postgres_terminate_backends(pg);
}

Test(failover, a_server_that_takes_no_writes_any_more_is_left_for_the_next_host)
{
	start_with_two("");
	set_read_only(servers[0], "on");
	send_event("b");
	must_be_acked("\"persisted\"");
	cr_assert_eq(database_long(postgres_database(servers[0]), "SELECT count(*) FROM events"), 1);
	cr_assert_eq(database_long(postgres_database(servers[1]), "SELECT count(*) FROM events"), 1);
}

Test(failover, a_server_that_is_slow_is_waited_for)
{
	start_with_two("--postgres-timeout 10");
	postgres_pause(servers[0]);
	send_event("b");
	wait_pause_ms(500); /* so that it is slow */
	postgres_resume(servers[0]);
	must_be_acked("\"persisted\"");
	cr_assert_eq(rows_of(servers[0]), 2);
}

Test(failover, a_server_that_is_slower_than_the_timeout_is_left_for_the_next_host)
{
	start_with_two("--postgres-timeout 1");
	postgres_pause(servers[0]);
	send_event("b");
	must_be_acked("\"persisted\"");
	cr_assert_eq(rows_of(servers[1]), 1);
	postgres_resume(servers[0]);
}

/* It accepts the connection at once, but the login takes long. */
Test(failover, a_host_that_lets_in_late_is_waited_for_within_the_timeout)
{
	servers[0] = postgres_new();
	database_exec(postgres_database(servers[0]), "ALTER SYSTEM SET pre_auth_delay = 1");
	database_exec(postgres_database(servers[0]), "SELECT pg_reload_conf()");
	bench_serve((struct listener_options){.postgres = suite_text("%s target_session_attrs=read-write",
								     postgres_conninfo(servers[0])),
					      .redis = "none"},
		    "--postgres-timeout 10");
	send_event("a");
	must_be_acked("\"persisted\"");
}

static long sessions(void)
{
	return database_long(postgres_database(servers[0]), "SELECT sum(sessions) FROM pg_stat_database");
}

Test(failover, a_read_only_server_is_said_and_not_stormed)
{
	servers[0] = postgres_new();
	bench_serve((struct listener_options){.postgres = postgres_conninfo(servers[0]), .redis = "none"}, NULL);
	set_read_only(servers[0], "on");
	send_event("a");
	await(listener_has_logged(listener, "the server is read-only"), WAIT_MS);
	cr_assert_eq(listener_status(listener, "/readyz"), 503);
	long before = sessions();
	wait_pause_ms(3000); /* 50 of them once */
	cr_assert_leq(sessions() - before, 15, "%ld connections", sessions() - before);
	set_read_only(servers[0], "off");
	must_be_acked("\"persisted\"");
}

/* --- migrations --- */

Test(failover, a_migration_behind_a_reader_does_not_hold_up_inserts)
{
	struct listener_options options = {.database = db, .redis = "none"};
	struct database *reader = database_open(database_conninfo(db));

	listener = listener_start(&options, NULL);
	cr_assert_eq(listener_stop(listener), 0);
	database_exec(db, "DELETE FROM wsonce_schema WHERE version > 2");
	database_exec(reader, "BEGIN; SELECT FROM events"); /* as pg_dump does */
	options.without_waiting = true;
	listener = listener_start(&options, NULL);
	await(listener_has_logged(listener, "cannot migrate the schema"), WAIT_MS);
	database_exec(db, "SET lock_timeout = '3s'");
	for (int i = 0; i < 40; i++) {
		database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('x%d', 't', '{}')", i);
		wait_pause_ms(20);
	}
	database_exec(reader, "COMMIT");
	database_free(reader);
	listener_wait_ready(listener);
}

/* It builds an index of a large table. Neither --postgres-timeout nor the role's timeout ends it. */
Test(failover, a_migration_that_takes_long_is_made_once)
{
	struct listener_options options = {.database = db, .redis = "none"};

	listener = listener_start(&options, NULL);
	cr_assert_eq(listener_stop(listener), 0);
	database_exec(db, "DELETE FROM wsonce_schema WHERE version > 11; DROP INDEX outbox_lanes; "
			  "CREATE FUNCTION delay() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM "
			  "pg_sleep(2.5); END'; CREATE EVENT TRIGGER delay ON ddl_command_end WHEN TAG IN "
			  "('CREATE INDEX') EXECUTE FUNCTION delay()");
	listener = listener_start(&options, "--postgres-timeout 1s");
	cr_assert_eq(listener_count_logged(listener, "migrating the schema"), 1);
	database_exec(db, "DROP EVENT TRIGGER delay");
}

static void set(struct postgres *pg, const char *setting, const char *value)
{
	database_exec(postgres_database(pg), "ALTER SYSTEM SET %s = %s", setting, value);
}

static const char *trigger = "SELECT 1"; /* SQL that makes one */

/* Commits wait for a standby that is not there. */
static struct postgres *start_without_standby(struct postgres *pg, const char *flags)
{
	bench_serve((struct listener_options){.postgres = postgres_conninfo(pg), .redis = "none"}, "%s", flags);
	database_exec(postgres_database(pg), "%s", trigger);
	set(pg, "wal_level", "replica");
	set(pg, "max_wal_senders", "1");
	set(pg, "synchronous_standby_names", "nobody");
	postgres_restart(pg);
	send_event("a");
	return pg;
}

static void must_wait_for_standby(struct postgres *pg, int tries)
{
	struct run run = run_in((const char *[]){suite_text("WSONCE_POSTGRES=%s", postgres_conninfo(pg)), NULL},
				"status --redis none");

	cr_assert(strstr(run.output, "! commits wait for a standby, but none of"), "%s", run.output);
	await(listener_metric(listener, "wsonce_store_retries_total") >= tries, WAIT_MS);
	cr_assert_eq(database_long(postgres_database(pg), "SELECT count(*) FROM events"), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_in_flight"), 1, "it was settled though it can still vanish");
	set(pg, "synchronous_standby_names", "''");
	database_exec(postgres_database(pg), "SELECT pg_reload_conf()");
	must_be_acked("\"event_id\":\"a\"");
}

/* The listener cancels a commit that waits for a standby; Postgres then keeps the commit locally. */
Test(failover, a_row_that_no_synchronous_standby_has_is_not_acked)
{
	struct postgres *pg = start_without_standby(postgres_new(), "--postgres-timeout 1");

	must_wait_for_standby(pg, 4);
}

/* Postgres then reports success, with a warning. */
static void must_not_be_acked_unreplicated(struct postgres *pg)
{
	await(database_long(postgres_database(pg), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
						   "WHERE wait_event = 'SyncRep'") == 1,
	      WAIT_MS);
	must_wait_for_standby(pg, 1);
}

Test(failover, a_commit_whose_wait_for_a_standby_an_operator_ends_is_not_acked)
{
	must_not_be_acked_unreplicated(start_without_standby(postgres_new(), ""));
}

Test(failover, it_is_not_acked_though_the_server_tells_clients_only_of_errors)
{
	struct postgres *pg = postgres_new();

	set(pg, "client_min_messages", "error");
	must_not_be_acked_unreplicated(start_without_standby(pg, ""));
}

/* It runs after the statement itself has ended. */
Test(failover, it_is_not_acked_though_a_deferred_trigger_asks_for_no_warnings)
{
	trigger = "CREATE FUNCTION hush() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
		  "SET client_min_messages = error; RETURN NULL; END $$;"
		  "CREATE CONSTRAINT TRIGGER hush AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED "
		  "FOR EACH ROW EXECUTE FUNCTION hush()";
	must_not_be_acked_unreplicated(start_without_standby(postgres_new(), ""));
}

static void must_warn(bool is_asynchronous)
{
	static const char words[] = "standbys that commits do not wait for";
	char *page = listener_http(listener, "/readyz", NULL), *status = listener_http(listener, "/api/status", NULL);
	struct run run = run_on(postgres_database(servers[0]), "check --ingest 127.0.0.1:0");

	cr_assert(strncmp(page, "ready\n", 6) == 0 && listener_status(listener, "/readyz") == 200, "%s", page);
	cr_expect_eq(strstr(page, words) != NULL, is_asynchronous, "%s", page);
	cr_expect_eq(strstr(status, words) != NULL, is_asynchronous, "%s", status);
	cr_expect_eq(strstr(run.output, words) != NULL, is_asynchronous, "%s", run.output);
	await((run = run_on(postgres_database(servers[0]), "status"),
	       (strstr(run.output, words) != NULL) == is_asynchronous),
	      WAIT_MS, "%s", run.output);
}

/* Starts pg_receivewal, which stands for a standby, and waits until it is connected. */
static struct process *start_standby(struct postgres *pg)
{
	const char *const argv[] = {"pg_receivewal",
				    "--synchronous",
				    "-D",
				    suite_directory(),
				    "-U",
				    "postgres",
				    "-h",
				    postgres_directory(pg),
				    NULL};
	struct process *standby = process_start_argv(argv, NULL);

	await(database_long(postgres_database(pg), "SELECT count(*) FROM pg_stat_replication") == 1, WAIT_MS);
	return standby;
}

Test(failover, standbys_that_commits_do_not_wait_for_are_warned_of_wherever_one_looks)
{
	struct postgres *pg = servers[0] = postgres_new();

	set(pg, "wal_level", "replica");
	set(pg, "max_wal_senders", "2");
	postgres_restart(pg);
	start_standby(pg);
	bench_serve((struct listener_options){.postgres = postgres_conninfo(pg), .redis = "none"}, NULL);
	cr_assert(listener_has_logged(listener, "standbys that commits do not wait for"));
	must_warn(true);
	set(pg, "synchronous_standby_names", "'*'");
	database_exec(postgres_database(pg), "SELECT pg_reload_conf()");
	long connects = (long)listener_metric(listener, "wsonce_postgres_connects_total");
	postgres_terminate_backends(pg);
	await(listener_metric(listener, "wsonce_postgres_connects_total") > connects &&
		      listener_status(listener, "/readyz") == 200,
	      WAIT_MS);
	must_warn(false);
}

/* The server holds it for connected until wal_sender_timeout, a minute. */
Test(failover, a_standby_that_hangs_is_told)
{
	struct postgres *pg = postgres_new();

	set(pg, "wal_level", "replica");
	set(pg, "max_wal_senders", "2");
	set(pg, "synchronous_standby_names", "'*'");
	postgres_restart(pg);
	struct process *standby = start_standby(pg);
	bench_serve((struct listener_options){.postgres = postgres_conninfo(pg), .redis = "none"}, NULL);
	process_signal(standby, SIGSTOP);
	send_event("a");
	await(strstr(run_on(postgres_database(pg), "status").output, "! commits wait for a standby, but too few of "),
	      WAIT_MS, "%s", run_on(postgres_database(pg), "status").output);
	process_signal(standby, SIGCONT);
	must_be_acked("\"persisted\"");
}

/* --- Redis --- */

/* Connections to it so far. */
static long connections(struct redisd *redis)
{
	return strtol(strstr(redisd_command(redis, "INFO stats"), "total_connections_received:") + 27, NULL, 10);
}

Test(failover, a_master_that_became_a_replica_is_left)
{
	struct redisd *redis = redisd_new();

	bench_serve((struct listener_options){.database = db, .redis = redisd_url(redis)}, NULL);
	redisd_command(redis, "REPLICAOF 127.0.0.1 1");
	send_event("a");
	must_be_acked("\"persisted\"");
	await(listener_has_logged(listener, "READONLY"), WAIT_MS);
	long before = connections(redis);
	await(connections(redis) >= before + 5, WAIT_MS);
	cr_assert_leq(listener_count_logged(listener, "event=\"redis connection\""), 3, "%s",
		      process_errors(listener_process(listener)));
	redisd_command(redis, "REPLICAOF NO ONE");
	await(listener_metric(listener, "wsonce_redis_connects_total") >= 2, WAIT_MS);
	for (int i = 0; listener_metric(listener, "wsonce_claims_won_total") < 1 && i < 500; i++) {
		char *id = suite_text("b%d", i);
		send_event(id);
		must_be_acked("\"persisted\"");
	}
	cr_assert_geq(listener_metric(listener, "wsonce_claims_won_total"), 1);
}

/* Sends an event, which makes the listener use Redis. */
static bool has_connected(int times)
{
	static int i;

	send_event(suite_text("a-%d", i++));
	must_be_acked("\"persisted\"");
	return listener_metric(listener, "wsonce_redis_connects_total") >= times;
}

/* For example, while it waits for its own failover. */
Test(failover, a_redis_that_answers_only_the_login_is_four_pairs_of_lines)
{
	struct redisd *redis = redisd_new();

	bench_serve((struct listener_options){.database = db, .redis = redisd_url(redis)}, "--redis-timeout 0.2");
	free(redisd_command(redis, "CLIENT PAUSE 100000 WRITE"));
	await(has_connected(9), WAIT_MS);
	cr_assert_leq(listener_count_logged(listener, "event=\"redis connection\""), 9, "%s",
		      process_errors(listener_process(listener)));
	free(redisd_command(redis, "CLIENT UNPAUSE"));
	await(listener_has_logged(listener, "redis connection is stable again"), WAIT_MS);
}

Test(failover, a_redis_that_wants_a_password_is_told_once)
{
	struct redisd *redis = redisd_new();

	redisd_command(redis, "CONFIG SET requirepass nobody-knows");
	bench_serve((struct listener_options){.database = db, .redis = redisd_url(redis), .is_redis_away = true}, "%s",
		    "");
	await(listener_has_logged(listener, "redis refused the login"), WAIT_MS);
	cr_assert(listener_has_logged(listener, "NOAUTH"));
	cr_assert_eq(listener_count_logged(listener, "rejected the script"), 0, "%s",
		     process_errors(listener_process(listener)));
	cr_assert(listener_page_has(listener, "/readyz", "redis is down"));
}

/* --- log lines --- */

Test(failover, what_keeps_the_first_connection_from_coming_up_is_a_warning)
{
	char *conninfo = suite_text("%s dbname=nowhere", database_conninfo(db));
	listener = listener_start(&(struct listener_options){.postgres = conninfo,
							     .redis = "redis://127.0.0.1:1/0",
							     .without_waiting = true},
				  NULL);
	await(listener_has_logged(listener, "database \\\"nowhere\\\" does not exist"), WAIT_MS, "%s",
	      process_last_words(listener_process(listener)));
	await(listener_has_logged(listener, "event=\"cannot connect to redis\""), WAIT_MS);
}

Test(failover, what_was_missing_when_events_are_left_is_named_at_the_end)
{
	servers[0] = postgres_new();
	bench_serve((struct listener_options){.postgres = postgres_conninfo(servers[0]), .redis = "none"},
		    "--drain-timeout 1");
	postgres_stop(servers[0]);
	send_event("a");
	await(listener_metric(listener, "wsonce_in_flight") == 1, WAIT_MS);
	await(listener_metric(listener, "wsonce_postgres_up") == 0, WAIT_MS);
	cr_assert_eq(listener_stop(listener), 1);
	cr_assert(listener_has_logged(listener, "missing=postgres reason=\"connection to server"), "%s",
		  process_last_words(listener_process(listener)));
}

Test(failover, a_name_server_that_hangs_does_not_hold_up_status)
{
	struct run run = run_in(slow_names(), "status --postgres postgresql://db.test/x --redis none");

	cr_assert_eq(run.status, 2, "%d: %s", run.status, run.errors);
	cr_assert(strstr(run.output, "the name server does not answer"), "%s", run.output);
}

/* Nothing listens at the first host. */
static void expect_status_by_the_second_host(const char *first)
{
	const char *const *slow = slow_names();
	char *folder = database_text(db, "SHOW unix_socket_directories");
	const char *env[] = {slow[0], slow[1],
			     suite_text("WSONCE_POSTGRES=%s host=%s,%s port=%d,5432", database_conninfo(db), first,
					folder, port_reserve()),
			     NULL};
	struct run run = run_in(env, "status --redis none");

	cr_assert(strstr(run.output, " primary, "), "%s%s", run.output, run.errors);
}

Test(failover, a_name_that_is_not_found_in_time_does_not_hide_the_next_host_from_status)
{
	expect_status_by_the_second_host("db.test");
}

Test(failover, status_looks_up_a_name_once)
{
	expect_status_by_the_second_host("once.test");
}

Test(failover, a_list_of_ports_that_is_too_short_is_told)
{
	listener = listener_start(&(struct listener_options){.postgres = "host=127.0.0.1,127.0.0.1,127.0.0.1 port=1,2",
							     .redis = "none",
							     .without_waiting = true},
				  NULL);
	await(listener_has_logged(listener, "could not match 2 port numbers to 3 hosts"), WAIT_MS);
	cr_assert_eq(listener_stop(listener), 0);
}
