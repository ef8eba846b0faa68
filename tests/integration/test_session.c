/* Code of others that changes the session or hides names: handlers and triggers that change settings, and functions
 * planted in public. Rows must go to the schema that was found at connect. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

static void set_up(void)
{
	db = database_new();
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "CREATE SCHEMA shop; CREATE TABLE shop.events (LIKE public.events INCLUDING ALL);"
			  "CREATE TABLE effects (event_id text)");
}

static void tear_down(void)
{
	peer_free(producer);
}

TestSuite(session, .init = set_up, .fini = tear_down, .timeout = 120);

static void must_store(const char *id)
{
	cr_assert(peer_sendf(producer, "{\"event_id\":\"%s\",\"event_type\":\"t\",\"payload\":{}}", id));
	ack_expect(producer, id, "persisted");
}

/* --- what a handler sets --- */

static void make_handler(const char *does)
{
	database_exec(
		db,
		"CREATE OR REPLACE FUNCTION public.handle(event_id text, event_type text, payload jsonb) RETURNS void "
		"LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO public.effects VALUES ($1); %s END $f$",
		does);
}

static void must_be_in_public(long n)
{
	cr_assert_eq(bench_count("public.events"), n);
	cr_assert_eq(bench_count("shop.events"), 0);
	cr_assert_eq(bench_count("effects"), n);
	cr_assert_eq(listener_metric(listener, "wsonce_postgres_connects_total"), 1);
}

Test(session, a_handler_that_sets_the_role_or_makes_the_session_read_only_stops_nothing)
{
	char *role = database_text(db, "SELECT current_database() || '_guest'");

	database_exec(db, "CREATE ROLE \"%s\"", role);
	char *does = suite_text("PERFORM set_config('role', '%s', false), set_config('default_transaction_read_only', "
				"'on', false), set_config('statement_timeout', '1', false);",
				role);
	make_handler(does);
	bench_serve((struct listener_options){0}, "--handler public.handle");
	must_store("a");
	must_store("b");
	must_be_in_public(2);
	database_exec(db, "DROP ROLE \"%s\"", role);
}

/* Settings that could affect how answers are read or values are sent. */
static const char *const settings[][2] = {
	{"client_encoding", "LATIN1"},
	{"client_encoding", "SQL_ASCII"},
	{"client_encoding", "EUC_JP"},
	{"client_min_messages", "error"},
	{"client_min_messages", "debug5"},
	{"standard_conforming_strings", "off"},
	{"backslash_quote", "off"},
	{"quote_all_identifiers", "on"},
	{"DateStyle", "German"},
	{"IntervalStyle", "iso_8601"},
	{"TimeZone", "Asia/Kolkata"},
	{"bytea_output", "escape"},
	{"extra_float_digits", "-15"},
	{"array_nulls", "off"},
	{"transform_null_equals", "on"},
	{"search_path", "shop"},
	{"row_security", "off"},
	{"synchronous_commit", "off"},
	{"plan_cache_mode", "force_generic_plan"},
	{"default_transaction_isolation", "serializable"},
	{"default_transaction_deferrable", "on"},
	{"lc_messages", "C"},
};

/* Sends one event alone, which goes by INSERT, and enough for a COPY. */
static void must_store_round(int round)
{
	must_store(suite_text("\xc3\xa9-%d", round));
	for (int i = 0; i < 120; i++)
		cr_assert(peer_sendf(producer, "{\"event_id\":\"%d-\xc3\xa9-%d\"}", round, i));
	for (int i = 0; i < 120; i++) {
		char *ack = peer_recv(producer, WAIT_MS);

		cr_assert(ack && strstr(ack, "\"persisted\""), "round %d: %s", round, ack);
	}
}

static void set_each(const char *flags, void (*make)(const char *does))
{
	long rounds = 0;

	make("");
	bench_serve((struct listener_options){0}, "%s", flags);
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		for (int is_local = 0; is_local < 2; is_local++) {
			make(suite_text("PERFORM set_config('%s', '%s', %s);", settings[i][0], settings[i][1],
					is_local ? "true" : "false"));
			must_store_round((int)rounds++);
		}
	}
	must_be_in_public(rounds * 121);
	cr_assert_eq(bench_count("public.events WHERE event_id LIKE '%%\xc3\xa9%%'"), rounds * 121);
	cr_assert_eq(bench_count("dead_letters"), 0);
	cr_assert_gt(listener_metric(listener, "wsonce_copy_statements_total"), 0);
}

Test(session, a_handler_may_set_what_it_likes)
{
	set_each("--handler public.handle --batch-max 1000", make_handler);
}

static void make_function(const char *does)
{
	database_exec(db,
		      "CREATE OR REPLACE FUNCTION stray() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
		      "INSERT INTO public.effects VALUES (NEW.event_id); %s RETURN NULL; END $$",
		      does);
}

static void make_trigger(const char *does)
{
	make_function(does);
	database_exec(db, "CREATE OR REPLACE TRIGGER stray AFTER INSERT ON events FOR EACH ROW "
			  "EXECUTE FUNCTION stray()");
}

Test(session, a_trigger_may_set_what_it_likes)
{
	set_each("--batch-max 1000", make_trigger);
}

Test(session, a_trigger_that_is_deferred_may_set_what_it_likes)
{
	make_function("");
	database_exec(db, "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON events "
			  "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stray()");
	set_each("--batch-max 1000", make_function);
}

/* Nobody reads what it would hear, which would fill the memory. */
Test(session, a_handler_that_listens_is_deaf_when_it_is_over)
{
	database_exec(db, "CREATE TABLE ears (channel text)");
	make_handler("INSERT INTO ears SELECT * FROM pg_catalog.pg_listening_channels(); LISTEN shop;");
	bench_serve((struct listener_options){0}, "--handler public.handle --batch-max 1000");
	must_store_round(1);
	must_store_round(2);
	must_be_in_public(242);
	cr_assert_eq(bench_count("ears"), 0);
}

/* Its error comes in that encoding. */
Test(session, a_handler_that_raises_in_another_encoding_has_a_dead_letter)
{
	make_handler("PERFORM set_config('client_encoding', 'LATIN1', true); RAISE '\xc3\xa9';");
	bench_serve((struct listener_options){0}, "--handler public.handle --max-attempts 1");
	cr_assert(peer_sendf(producer, "{\"event_id\":\"a\"}"));
	await(bench_count("dead_letters") == 1, WAIT_MS, "%s", process_last_words(listener_process(listener)));
}

/* --- names --- */

Test(session, tables_live_in_the_schema_of_the_search_path)
{
	database_exec(db, "CREATE SCHEMA \"My \"\"Own\"");
	char *conninfo = suite_text("%s options='-c search_path=\"My\\\\ \"\"Own\"'", database_conninfo(db));
	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none"}, NULL);
	must_store("a");
	cr_assert_eq(bench_count("\"My \"\"Own\".events"), 1);
	cr_assert_eq(bench_count("public.events"), 0);
}

/* A planted function whose arguments fit better than the catalogue's would run with the listener's rights. */
Test(session, functions_planted_in_public_are_not_called)
{
	static const char *const names[] = {"to_json", "count", "length", "min", "lower", "quote_ident"};
	struct receiver *receiver = receiver_start(NULL);
	const char *const env[] = {"HOOK_SECRET=" RECEIVER_SECRET, NULL};
	char *text;

	database_exec(db, "CREATE TABLE planted (what text)");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		database_exec(db,
			      "CREATE FUNCTION public.%s(varchar) RETURNS text LANGUAGE sql AS $$ "
			      "INSERT INTO public.planted VALUES ('%s'); SELECT '1' $$",
			      names[i], names[i]);
	text = suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"http://127.0.0.1:%d/ok\", "
			  "\"secret-env\": \"HOOK_SECRET\"}]}",
			  receiver_port(receiver));
	char *path = suite_file("session.json", text);
	bench_serve((struct listener_options){.redis = "none", .env = env}, "--config %s", path);
	must_store("a");
	await(receiver_count(receiver, "/ok") == 1, WAIT_MS);
	await(bench_count("outbox WHERE state = 'delivered'") == 1, WAIT_MS);
	run_expect(db, 0, NULL, "dead-letters list");
	run_expect(db, 0, NULL, "stats duplicates");
	run_expect(db, 0, NULL, "purge --older-than 1d --dry-run");
	cr_assert_eq(bench_count("planted"), 0);
}
