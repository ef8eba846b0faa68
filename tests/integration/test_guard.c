/* Databases that cannot guarantee "at most one row", or belong to another program: wsonce checks before it creates or
 * stores anything. */
#include "support.h"
#include "bench.h"

#include <libpq-fe.h>

#define WAIT_MS 20000
#define COLUMNS \
	"id bigserial, event_type varchar NOT NULL, payload jsonb NOT NULL, " \
	"processed_at timestamptz NOT NULL DEFAULT now(), event_id varchar NOT NULL"

static void set_up(void)
{
	db = database_empty_new();
}

TestSuite(guard, .init = set_up, .timeout = 120);

static void must_be_refused(const char *conninfo, const char *why)
{
	struct listener_options options = {.postgres = conninfo, .redis = "none", .without_waiting = true};
	struct listener *l = listener_start(&options, NULL);
	struct process *p = listener_process(l);

	cr_assert_eq(process_wait(p, WAIT_MS), 2, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), why), "no \"%s\" in: %s", why, process_last_words(p));
	listener_free(l);
}

/* Expects a listener to be ready and to store with this table events. */
static void must_be_used(const char *sql)
{
	struct listener_options options = {.postgres = database_conninfo(db), .redis = "none"};
	char *ack;

	database_exec(db, "%s", sql);
	struct listener *l = listener_start(&options, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	for (int i = 0; i < 2; i++) {
		cr_assert(peer_send_text(p, "{\"event_id\":\"a\",\"event_type\":\"t\",\"payload\":{}}"));
		ack = peer_recv(p, WAIT_MS);
		cr_assert(ack && strstr(ack, i ? "\"duplicate\"" : "\"persisted\""), "%s", ack);
	}
	peer_free(p);
	cr_assert_eq(listener_stop(l), 0);
}

Test(guard, a_table_without_the_unique_key_is_refused)
{
	static const char *const tables[] = {
		"CREATE TABLE events (" COLUMNS ")",
		"CREATE TABLE events (" COLUMNS ", UNIQUE (event_id) DEFERRABLE)",
		"CREATE TABLE events (" COLUMNS "); CREATE UNIQUE INDEX ON events (event_id) WHERE event_type <> ''",
		"CREATE TABLE events (" COLUMNS "); CREATE UNIQUE INDEX ON events (lower(event_id))",
		"CREATE TABLE events (" COLUMNS ", UNIQUE (event_id, processed_at)) PARTITION BY RANGE (processed_at)",
		"CREATE TABLE events (" COLUMNS ", UNIQUE (event_id)) PARTITION BY HASH (event_id);"
		"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_event_id_key'::regclass",
		"CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);"
		"CREATE TABLE events (" COLUMNS " COLLATE blind UNIQUE)",
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		database_exec(db, "DROP TABLE IF EXISTS events; %s", tables[i]);
		must_be_refused(database_conninfo(db), "no valid unique index on event_id alone");
	}
	cr_assert_eq(bench_count("pg_class WHERE relname = 'wsonce_schema'"), 0);
	run_expect_error(db, 1, "no valid unique index on event_id alone", "dead-letters list");
}

/* Its rows also appear in events, but the unique key does not cover them. */
Test(guard, a_table_that_others_inherit_from_is_refused)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "CREATE TABLE old () INHERITS (events)");
	must_be_refused(database_conninfo(db), "does not cover the rows of old, which inherits from it");
}

Test(guard, a_server_that_quotes_all_names_is_used)
{
	database_exec(db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET quote_all_identifiers = on', "
			  "current_database()); END $$");
	must_be_used("CREATE TABLE events (" COLUMNS ", UNIQUE (event_id))");
}

/* Without jit = off, Postgres would compile the inspection for seconds, and not notice that it is cancelled. */
Test(guard, a_role_whose_settings_make_plans_seem_dear_is_used)
{
	static const char *const settings[] = {"jit = on", "jit_above_cost = 0", "enable_seqscan = off",
					       "enable_indexscan = off",
					       "default_transaction_isolation = serializable"};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		database_exec(db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s', current_database()); END $$",
			      settings[i]);
	int64_t began_ms = wait_now_ms();
	must_be_used("SELECT 1");
	run_expect(db, 0, NULL, "dead-letters list");
	cr_expect_lt(wait_now_ms() - began_ms, wait_stretch_ms(6000));
}

Test(guard, a_table_of_another_program_is_refused_and_left_alone)
{
	database_exec(db, "CREATE TABLE events (id int, name text)");
	must_be_refused(database_conninfo(db), "the table public.events belongs to another program");
	cr_assert_eq(bench_count("pg_attribute WHERE attnum > 0 AND attrelid = 'events'::regclass"), 2);
	database_exec(db, "DROP TABLE events; CREATE TABLE outbox (id int, message text)");
	must_be_refused(database_conninfo(db), "the table public.outbox belongs to another program");
	database_exec(db, "DROP TABLE outbox; CREATE VIEW events AS SELECT 1 AS event_id");
	must_be_refused(database_conninfo(db), "public.events is not a table");
	database_exec(db, "DROP VIEW events; CREATE TABLE events (" COLUMNS " UNIQUE, shop int NOT NULL)");
	must_be_refused(database_conninfo(db), "a column shop that wsonce does not fill");
	cr_assert_eq(bench_count("pg_class WHERE relname = 'wsonce_schema'"), 0);
}

Test(guard, a_table_that_is_partitioned_by_its_key_is_used)
{
	must_be_used("CREATE TABLE events (" COLUMNS ", UNIQUE (event_id)) PARTITION BY HASH (event_id);"
		     "CREATE TABLE e0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
		     "CREATE TABLE e1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1)");
}

/* Its key cannot consist of event_id alone, so no statement could repair it. */
Test(guard, a_table_that_is_partitioned_by_time_is_led_to_the_command_that_makes_another)
{
	database_exec(db, "CREATE TABLE events (" COLUMNS
			  ", UNIQUE (event_id, processed_at)) PARTITION BY RANGE (processed_at)");
	must_be_refused(database_conninfo(db), "see wsonce schema --layout partitioned=N");
}

static void must_be_used_as_laid_out(const char *layout, int tables)
{
	char *words = suite_text("schema --layout %s", layout);

	struct run run = run_in(NULL, words);
	cr_assert_eq(run.status, 0, "%s", run.errors);
	must_be_used(run.output);
	cr_assert_eq(bench_count("pg_class WHERE relname LIKE 'events%%' AND relkind IN ('r', 'p')"), tables);
	cr_assert_eq(bench_count("wsonce_schema"), database_long(db, "SELECT max(version) FROM wsonce_schema"));
	run_expect(db, 0, NULL, "migrate");
}

Test(guard, a_database_is_laid_out_plain)
{
	must_be_used_as_laid_out("plain", 1);
}

Test(guard, a_database_is_laid_out_in_partitions)
{
	must_be_used_as_laid_out("partitioned=16", 17);
}

Test(guard, a_layout_is_for_a_new_database)
{
	struct run run = run_in(NULL, "schema --layout partitioned=4");
	PGresult *result;
	PGconn *conn;

	must_be_used("SELECT 1");
	char *conninfo = suite_text("%s", database_conninfo(db));
	conn = PQconnectdb(conninfo);
	result = PQexec(conn, run.output);
	cr_assert_eq(PQresultStatus(result), PGRES_FATAL_ERROR);
	PQclear(result);
	PQfinish(conn);
	cr_assert_eq(bench_rows(), 1);
}

Test(guard, a_layout_that_there_is_not_is_refused)
{
	static const char *const words[] = {"partitioned",
					    "partitioned=",
					    "partitioned=1",
					    "partitioned=0x10",
					    "partitioned=-4",
					    "partitioned=1025",
					    "partitioned=99999999999999999999",
					    "hash",
					    ""};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		char *line = suite_text("schema --layout=%s", words[i]);

		run_expect_refusal_in(NULL, line, "--layout: ");
	}
}

Test(guard, a_schema_without_its_table_is_refused)
{
	must_be_used("SELECT 1");
	/* a system upgrade would corrupt the key of another collation */
	cr_assert_str_eq(database_text(db, "SELECT collation_name FROM information_schema.columns WHERE table_name = "
					   "'events' AND column_name = 'event_id'"),
			 "C");
	database_exec(db, "DROP TABLE events CASCADE");
	must_be_refused(database_conninfo(db), "public.events is missing");
}

Test(guard, a_right_that_is_missing_is_named)
{
	char *conninfo, *role = database_text(db, "SELECT current_database() || '_clerk'");

	must_be_used("SELECT 1");
	conninfo = suite_text("%s user=%s", database_conninfo(db), role);
	database_exec(db, "CREATE ROLE \"%s\" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"%s\"", role, role);
	database_exec(db, "REVOKE INSERT ON dead_letters FROM \"%s\"", role);
	must_be_refused(conninfo, "GRANT INSERT ON public.dead_letters TO");
	database_exec(db, "GRANT INSERT ON dead_letters TO \"%s\"", role);
	must_be_refused(conninfo, "GRANT USAGE ON SEQUENCE public.");
	database_exec(db,
		      "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \"%s\"; REVOKE UPDATE ON wsonce_epoch FROM "
		      "\"%s\"; GRANT UPDATE (epoch) ON wsonce_epoch TO \"%s\"",
		      role, role, role);
	must_be_refused(conninfo, "GRANT UPDATE ON public.wsonce_epoch TO");
	database_exec(db, "GRANT UPDATE ON wsonce_epoch TO \"%s\"; REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC", role);
	must_be_refused(conninfo, "GRANT USAGE ON LANGUAGE plpgsql TO");
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}

Test(guard, what_an_old_table_lacks_is_said_at_the_start)
{
	struct listener_options options = {.postgres = database_conninfo(db), .redis = "none"};

	database_exec(db, "CREATE UNLOGGED TABLE events (" COLUMNS " COLLATE \"und-x-icu\" UNIQUE)");
	struct listener *l = listener_start(&options, NULL);
	char *log = process_errors(listener_process(l));
	cr_assert(strstr(log, "ALTER COLUMN event_id TYPE varchar COLLATE"), "%s", log);
	cr_assert(strstr(log, "events is UNLOGGED"), "%s", log);
}

static void expect_warning(const char *part, bool is_wanted)
{
	struct listener_options options = {.postgres = database_conninfo(db), .redis = "none"};
	struct listener *l = listener_start(&options, NULL);
	char *log = process_errors(listener_process(l));

	cr_assert_eq(strstr(log, part) != NULL, is_wanted, "%s", log);
	listener_free(l);
}

/* A stranger's operator whose types fit better than the catalogue's would be used instead. */
Test(guard, a_schema_in_which_strangers_may_create_is_said_at_the_start)
{
	char *role = database_text(db, "SELECT current_database() || '_guest'");

	database_exec(db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
	expect_warning("CVE-2018-1058", false);
	database_exec(db, "GRANT CREATE ON SCHEMA public TO PUBLIC");
	expect_warning("PUBLIC may create functions and operators in public", true);
	database_exec(db,
		      "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE \"%s\"; "
		      "GRANT CREATE ON SCHEMA public TO \"%s\"",
		      role, role);
	expect_warning("REVOKE CREATE ON SCHEMA public FROM", true);
	database_exec(
		db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"; CREATE SCHEMA open; GRANT CREATE ON SCHEMA open TO PUBLIC",
		role, role);
	expect_warning("CVE-2018-1058", false); /* it is not in the search_path */
}

/* Rows would be compared by them, and events be taken for stored that are not. */
Test(guard, operators_and_types_that_hide_those_of_postgres_are_named)
{
	static const struct {
		const char *path, *sql, *why; /* NULL: the database is used */
	} cases[] = {
		{"public", "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = never)",
		 "the operator public.= (character varying, text) hides one of Postgres"},
		{"public",
		 "DROP OPERATOR public.= (varchar, text);"
		 "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)",
		 NULL},
		{"public,pg_catalog", "SELECT 1", "the operator public.= (text, text) hides one of Postgres"},
		{"public,pg_catalog",
		 "DROP OPERATOR public.= (text, text);" /* as of the extension intarray */
		 "CREATE OPERATOR public.@> (LEFTARG = int[], RIGHTARG = int[], FUNCTION = never)",
		 NULL},
		{"public", "CREATE DOMAIN public.timestamptz AS text", NULL},
		{"public,pg_catalog", "SELECT 1", "the type public.timestamptz hides one of Postgres"},
		{"public,pg_catalog", "DROP DOMAIN public.timestamptz; CREATE TYPE public.jsonb AS (a int)",
		 "the type public.jsonb hides one of Postgres"},
	};

	database_exec(db, "CREATE FUNCTION never(varchar, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
			  "CREATE FUNCTION never(int[], int[]) RETURNS boolean LANGUAGE sql AS 'SELECT false'");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *conninfo = suite_text("%s options='-c search_path=%s'", database_conninfo(db), cases[i].path);
		struct listener_options options = {.postgres = conninfo, .redis = "none"};

		database_exec(db, "%s", cases[i].sql);
		if (cases[i].why)
			must_be_refused(conninfo, cases[i].why);
		else
			cr_assert_eq(listener_stop(listener_start(&options, NULL)), 0);
	}
}

/* A function whose types fit better is used even if its schema comes last. Postgres itself takes its own unnest() if
 * that has several arguments and no schema. */
Test(guard, functions_that_hide_those_of_postgres_are_not_used, .fini = bench_close)
{
	static const char *const commands[] = {"status",
					       "check --ingest 127.0.0.1:1",
					       "lines",
					       "stats duplicates",
					       "explain e-0",
					       "dead-letters list",
					       "dead-letters retry --all --consumer shop",
					       "dead-letters discard --type none",
					       "dead-letters list --deliveries",
					       "webhooks list",
					       "webhooks pause hook",
					       "webhooks resume hook",
					       "webhooks resend hook --since 1d",
					       "export --since 1d",
					       "purge --older-than 1d",
					       "audit --expected /dev/null",
					       "replay /dev/null --consumer shop",
					       "migrate"};
	struct receiver *r = receiver_start(NULL);
	char *config =
		suite_file("settings.json", suite_text("{\"webhooks\": [{\"name\": \"hook\", \"secret-env\": "
						       "\"HOOK_SECRET\", \"when\": {\"/x\": {\"exists\": false}}, "
						       "\"url\": \"http://127.0.0.1:%d/ok\"}]}",
						       receiver_port(r)));

	database_exec(
		db,
		"CREATE SCHEMA alike; DO $do$ DECLARE f RECORD; BEGIN FOR f IN SELECT proname, replace(replace("
		"pg_get_function_identity_arguments(oid), '\"any\"', 'anyelement'), 'ORDER BY', ',') AS args FROM "
		"pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace LOOP BEGIN EXECUTE format('CREATE FUNCTION "
		"alike.%%I(%%s) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RAISE ''alike %%s''; END $f$', f.proname, "
		"f.args, f.proname); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; "
		"EXECUTE format('ALTER DATABASE %%I SET search_path = public, alike, pg_catalog', current_database()); "
		"END $do$");
	setenv("HOOK_SECRET", RECEIVER_SECRET, 1);
	bench_serve((struct listener_options){.redis = "none"}, "--consumer shop --config %s", config);
	for (int i = 0; i < 200; i++)
		peer_sendf(producer, "{\"event_id\":\"e-%d\"}", i % 150);
	peer_sendf(producer, "{}");
	await(bench_rows() == 150 && bench_count("dead_letters") == 1 &&
		      bench_count("outbox WHERE state = 'delivered'") == 150,
	      WAIT_MS, "%ld %ld %s", bench_rows(), bench_count("outbox WHERE state = 'delivered'"),
	      process_errors(listener_process(listener)));
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct run run = run_on(db, "%s --config %s", commands[i], config);

		cr_expect(run.status < 2 || strstr(run.errors, "no listener has reported"), "%s: %s", commands[i],
			  run.errors);
		cr_expect(!strstr(run.output, "alike") && !strstr(run.errors, "alike"), "%s: %s%s", commands[i],
			  run.output, run.errors);
	}
}
