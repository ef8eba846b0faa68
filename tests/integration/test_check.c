/* wsonce check, config print, config lint, and suggestions for misspelled commands and flags. */

#include "support.h"
#include "bench.h"

TestSuite(check, .init = bench_open, .timeout = 120);

static void expect(int status, const char *part, const char *const env[], const char *words)
{
	struct run run = run_in(env, words);

	cr_assert_eq(run.status, status, "%s: status %d: %s%s", words, run.status, run.output, run.errors);
	cr_assert(strstr(run.output, part) || strstr(run.errors, part), "%s: no \"%s\" in: %s%s", words, part,
		  run.output, run.errors);
}

static const char *const *servers(void)
{
	static const char *env[4];

	env[0] = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));
	env[1] = suite_text("WSONCE_REDIS=%s", redisd_url(redisd_shared()));
	env[2] = suite_text("WSONCE_CLAIM_PREFIX=%s", redisd_prefix());
	return env;
}

Test(check, everything_that_is_well_is_ok, .init = bench_open)
{
	static const char *const parts[] = {"ok       settings ", "ok       open files ",   "ok       postgres ",
					    "ok       schema ",   "ok       tables ",       "ok       clock ",
					    "ok       redis ",    "ok       redis rights ", "ok       feed "};
	struct feed *feed = feed_new();
	char *words = suite_text("listen --dry-run --source %s", feed_url(feed));
	struct run run = run_in(servers(), words);

	cr_assert_eq(run.status, 0, "%s%s", run.output, run.errors);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		cr_assert(strstr(run.output, parts[i]), "no \"%s\" in:\n%s", parts[i], run.output);
	cr_assert(strstr(run.output, " 0 wrong\n"), "%s", run.output);
}

Test(check, json_has_the_same_findings, .init = bench_open)
{
	struct run run = run_in(servers(), "check --json --ingest 127.0.0.1:0");
	json_t *root = json_loads(run.output, 0, NULL), *one;
	long counts[3] = {0};
	size_t i;

	cr_assert_not_null(root, "%s%s", run.output, run.errors);
	json_array_foreach(json_object_get(root, "findings"), i, one)
	{
		const char *how = json_string_value(json_object_get(one, "finding"));

		counts[strcmp(how, "ok") == 0 ? 0 : strcmp(how, "warning") == 0 ? 1 : 2]++;
		cr_assert_gt(strlen(json_string_value(json_object_get(one, "text"))), 0);
	}
	cr_assert_eq(json_integer_value(json_object_get(root, "ok")), counts[0]);
	cr_assert_eq(json_integer_value(json_object_get(root, "warnings")), counts[1]);
	cr_assert_eq(json_integer_value(json_object_get(root, "wrong")), counts[2]);
	cr_assert_gt(counts[0], 5);
	cr_assert_eq(run.status, counts[2] ? 1 : 0);
}

/* Creates a Redis user with only these rights. */
static void expect_rights(int status, const char *part, struct redisd *redis, const char *rights)
{
	const char *const env[] = {suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)),
				   suite_text("WSONCE_REDIS=redis://fleet:geheim@127.0.0.1:%d/0", redisd_port(redis)),
				   NULL};

	free(redisd_command(redis, "ACL SETUSER fleet reset on >geheim -@all " REDISD_RIGHTS));
	for (char *copy = suite_text("%s", rights), *one = strtok(copy, " "); one; one = strtok(NULL, " "))
		free(redisd_command(redis, "ACL SETUSER fleet %s", one));
	expect(status, part, env, "check --ingest 127.0.0.1:0");
}

Test(check, each_right_that_the_user_of_redis_lacks_is_named, .init = bench_open)
{
	static const char *const rights[] = {"get",  "set",     "del",       "eval", "time", "expire",      "pexpire",
					     "ping", "publish", "subscribe", "hget", "hset", "client|list", "hgetall"};
	struct redisd *redis = redisd_new();

	expect_rights(0, "ok       redis rights   the user may run", redis, "~dedup:* ~wsonce:*");
	expect_rights(1, "the user lacks ~wsonce:lease:* ~wsonce:{alive}:*: grant them", redis, "~dedup:*");
	expect_rights(1, "the user lacks ~wsonce:lease:*: grant", redis, "~dedup:* ~wsonce:[^l]* ~wsonce:{*");
	expect_rights(1, "the user lacks ~dedup:*: grant", redis, "~wsonce:*");
	expect_rights(1, "the user lacks &wsonce:done:*: grant", redis, "~dedup:* ~wsonce:* resetchannels");
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		expect_rights(1, suite_text("the user lacks +%s: grant", rights[i]), redis,
			      suite_text("~dedup:* ~wsonce:* -%s", rights[i]));
	cr_expect_str_eq(redisd_command(redis, "DBSIZE"), "0");
}

/* volatile-ttl drops claims before marks, which live longer. */
Test(check, each_policy_that_drops_claims_is_a_warning, .init = bench_open)
{
	struct redisd *redis = redisd_new();

	for (size_t i = 0; i < 2; i++) {
		const char *policy = (const char *const[]){"allkeys-lru", "volatile-ttl"}[i];

		free(redisd_command(redis, "CONFIG SET maxmemory-policy %s", policy));
		expect_rights(0, suite_text("warning  eviction       %s may drop claims", policy), redis,
			      "+@all ~* &*");
	}
}

Test(check, what_is_away_or_wrong_is_status_1)
{
	const char *const nothing[] = {"WSONCE_POSTGRES=host=127.0.0.1 port=1", "WSONCE_REDIS=redis://127.0.0.1:1/0",
				       NULL};
	int port = port_reserve();
	char *words = suite_text("check --source ws://127.0.0.1:%d/", port);

	expect(1,
	       "wrong    postgres       cannot reach postgres: connection to server at \"127.0.0.1\", port 1 failed: ",
	       nothing, words);
	expect(1, "wrong    redis ", nothing, words);
	cr_expect_str_eq(run_in(nothing, words).errors, "", "it is said twice");
	expect(1, suite_text("wrong    feed           127.0.0.1#1 (ws://127.0.0.1:%d/) cannot be connected to: ", port),
	       nothing, words);
	database_exec(db, "ALTER TABLE events DROP CONSTRAINT events_event_id_key");
	expect(1, "no valid unique index on event_id", servers(), "check --ingest 127.0.0.1:0");
	expect(2, "--claim-ttl: \"x\"", servers(), "check --ingest 127.0.0.1:0 --claim-ttl x");
}

/* Every command that uses Redis prints its error. */
Test(check, what_redis_refuses_is_said, .init = bench_open)
{
	static const struct {
		const char *login, *database, *said;
	} cases[] = {{"", "0", "NOAUTH Authentication required."},
		     {":geheim@", "0", "WRONGPASS "},
		     {":sesame99@", "77", "ERR DB index is out of range"}};
	struct redisd *redis = redisd_new();

	free(redisd_command(redis, "CONFIG SET requirepass sesame99"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const env[] = {suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)),
					   suite_text("WSONCE_REDIS=redis://%s127.0.0.1:%d/%s", cases[i].login,
						      redisd_port(redis), cases[i].database),
					   NULL};

		expect(1, suite_text("wrong    redis          cannot be used: %s", cases[i].said), env,
		       "check --ingest 127.0.0.1:0");
		expect(2, suite_text("! redis cannot be used from here: %s", cases[i].said), env, "status");
		expect(2, suite_text("127.0.0.1:%d", redisd_port(redis)), env, "status");
		expect(1, suite_text("not read: redis: %s", cases[i].said), env, "explain nothing");
	}
}

Test(check, an_empty_database_gets_its_tables_from_a_listener)
{
	const char *env[] = {NULL, "WSONCE_REDIS=none", NULL};

	db = database_empty_new();
	char *role = database_text(db, "SELECT current_database() || '_poor'");
	env[0] = suite_text("WSONCE_POSTGRES=%s user=%s", database_conninfo(db), role);
	expect(0, "ok       tables         there are none yet: the first listener, or wsonce migrate, creates them",
	       servers(), "check --ingest 127.0.0.1:0");
	cr_assert_eq(bench_count("pg_class WHERE relname = 'wsonce_schema'"), 0);
	database_exec(db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE \"%s\" LOGIN", role);
	expect(1, "may not create them: GRANT CREATE ON SCHEMA public TO ", env, "check --ingest 127.0.0.1:0");
	database_exec(db, "DROP ROLE \"%s\"", role);
}

Test(check, a_role_that_may_not_upgrade_the_tables_is_told, .init = bench_open)
{
	char *role = database_text(db, "SELECT current_database() || '_poor'");
	const char *env[] = {"WSONCE_REDIS=none", suite_text("WSONCE_POSTGRES=%s user=%s", database_conninfo(db), role),
			     NULL};

	database_exec(db,
		      "DELETE FROM wsonce_schema WHERE version = (SELECT max(version) FROM wsonce_schema);"
		      "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE \"%1$s\" LOGIN;"
		      "GRANT ALL ON ALL TABLES IN SCHEMA public TO \"%1$s\";"
		      "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \"%1$s\"",
		      role);
	expect(1, "may not upgrade it to ", env, "check --ingest 127.0.0.1:0");
	expect(0, "; the next listener, or wsonce migrate, upgrades it to ", servers(), "check --ingest 127.0.0.1:0");
	database_exec(db, "DROP OWNED BY \"%1$s\"; DROP ROLE \"%1$s\"", role);
}

Test(check, where_rows_were_deleted_a_listener_needs_an_age_limit, .init = bench_open)
{
	database_exec(db, "INSERT INTO wsonce_retention (rows_deleted_s) VALUES (864000)");
	expect(1, "and a --max-age of at most 9d\n", servers(), "check --ingest 127.0.0.1:0");
	expect(0, "0 wrong\n", servers(), "check --ingest 127.0.0.1:0 --time-pointer /at --max-age 9d");
}

Test(check, a_prefix_of_another_database_is_wrong, .init = bench_open)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);

	expect(0, "0 wrong\n", servers(), "check --ingest 127.0.0.1:0");
	db = database_new();
	/* A listener tells its database in its second beat. */
	await(strstr(run_in(servers(), "check --ingest 127.0.0.1:0").output,
		     "wrong    claim prefix   the listeners of another database, with the id "),
	      10000);
	/* Nor has a new database an id. */
	database_exec(db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
	expect(1, "wrong    claim prefix   ", servers(), "check --ingest 127.0.0.1:0");
	expect(1, "wrong    claim prefix   ", servers(),
	       suite_text("check --ingest 127.0.0.1:0 --store sqlite://%s --redis %s", suite_path("new.db"),
			  redisd_url(redisd_shared())));
	cr_assert_eq(listener_stop(l), 0);
	expect(0, "0 wrong\n", servers(), "check --ingest 127.0.0.1:0");
}

/* Returns the line about a feed that sends this as soon as the command connects. */
static char *line_of_feed(struct feed *feed, const char *message, int times, const char *flags)
{
	const char *bin = getenv("WSONCE_TEST_BIN");
	char *words =
		suite_text("exec %s check --postgres host=/nowhere --redis none %s", bin ? bin : "build/wsonce", flags);
	struct process *p = process_start_argv((const char *[]){"sh", "-c", words, NULL}, NULL);
	char *line;

	cr_assert(feed_wait_clients(feed, 1, 20000), "%s%s", process_output(p), process_errors(p));
	for (int i = 0; message && i < times; i++)
		feed_send_text(feed, message);
	cr_assert_eq(process_wait(p, 20000), 1); /* because of Postgres */
	line = strstr(process_output(p), " feed ");
	cr_assert(line, "%s%s", process_output(p), process_errors(p));
	process_free(p);
	return line - 8;
}

static void expect_line_with(struct feed *feed, const char *message, const char *flags, const char *how,
			     const char *says)
{
	char *line = line_of_feed(feed, message, 1, suite_text("--source %s?key=geheim%s", feed_url(feed), flags));

	cr_assert(strncmp(line, how, strlen(how)) == 0 && strstr(line, says), "%s", line);
	cr_assert(!strstr(line, "geheim"), "%s", line);
}

static void expect_line(struct feed *feed, const char *message, const char *how, const char *says)
{
	expect_line_with(feed, message, "", how, says);
}

Test(check, a_feed_is_judged_by_what_it_sends_first)
{
	struct feed *feed = feed_new();

	expect_line(feed, "{\"event_id\": \"1\", \"payload\": 1}", "ok ", "; its first message is an event\n");
	expect_line(feed, "{\"event_id\": \"1\", \"data\": {}}", "warning ",
		    "sent an event without a payload, so {} would be stored: --payload-pointer may not fit\n");
	expect_line_with(feed, "{\"event_id\": \"1\", \"payload\": 1, \"kind\": \"a\"}", " --type-pointer /type",
			 "warning ",
			 "sent an event without a type, so '' would be stored: --type-pointer may not fit\n");
	expect_line_with(feed, "{\"event_id\": \"1\", \"payload\": 1, \"kind\": \"a\"}", " --type-pointer /kind", "ok ",
			 "its first message is an event\n");
	expect_line_with(feed, suite_text("{\"event_id\": \"1\", \"payload\": \"%080d\"}", 1), " --max-message 64",
			 "warning ", "sent a message that would be a dead letter: it is longer than --max-message");
	expect_line(feed, "{\"hello\": 1}", "warning ", "sent a message that would be a dead letter: ");
	expect_line(feed, "{\"hello\": 1}", "warning ", "--id-pointer may not fit");
	expect_line(feed, NULL, "ok ", "; it sent nothing within 5 s\n");
	expect_line_with(feed, "{\"event_id\": \"1\"}", " --max-age 30d --time-pointer /at", "warning ",
			 "sent a message that would be a dead letter: no time: /at is missing");
	expect_line_with(feed, "{\"event_id\": \"1\", \"at\": \"2020-01-01T00:00:00Z\"}",
			 " --max-age 30d --time-pointer /at", "warning ", "is more than 30d ago: --time-pointer or");
	expect_line_with(feed, "{\"event_id\": \"1\", \"at\": 1795677028}", " --time-pointer /at", "warning ",
			 "would be stored without event_time: ");
	expect_line_with(feed, "{\"event_id\": \"1\", \"at\": 1795677028, \"payload\": 1}",
			 " --time-pointer /at --time-unit s", "ok ", "its first message is an event\n");
	expect_line_with(feed, "{\"event_id\": \"1\", \"at\": 1795677028, \"payload\": 1}",
			 " --time-pointer /at --time-unit ms", "warning ",
			 "sent an event from before the year 2000: --time-unit may not fit\n");
	char *line = line_of_feed(feed, "{\"event_id\": \"1\", \"payload\": 1}", 2,
				  suite_text("--source %s", feed_url(feed)));
	cr_assert(strstr(line, " sent two events with one id, of which only the first would be stored: --id-pointer "),
		  "%s", line);
	/* As one that does not know a symbol. */
	char *config = suite_file(
		"feed.json",
		suite_text(
			"{\"sources\": [{\"name\": \"feed\", \"url\": \"%s\", \"rules\": [{\"when\": {\"/id\": {"
			"\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/id\"]]}, {\"action\": \"reject\"}]}]}",
			feed_url(feed)));
	line = line_of_feed(feed, "{\"error\": \"no such symbol\"}", 1, suite_text("--config %s", config));
	cr_assert(strstr(line, " a rule of the profile rejects it: wsonce try shows it\n"), "%s", line);
	expect(1, "warning  idle timeout   none: a source that stays open and brings nothing is noticed only if", NULL,
	       suite_text("check --postgres host=/nowhere --redis none --source %s", feed_url(feed)));
	expect_line_with(feed, "{\"event_id\": \"1\", \"payload\": 1}", " --idle-timeout 60", "ok ",
			 "its first message is an event\n");
	feed_refuse(feed, 401);
	expect(1, "cannot be connected to: ", NULL,
	       suite_text("check --postgres host=/nowhere --redis none --source %s", feed_url(feed)));
	expect(1, "401", NULL, suite_text("check --postgres host=/nowhere --redis none --source %s", feed_url(feed)));
}

Test(check, a_feed_whose_list_comes_by_http_is_not_wrong)
{
	char *config = suite_file("list.json",
				  "{\"sources\": [{\"name\": \"listed\", \"url\": \"ws://127.0.0.1:9/\", "
				  "\"vars\": {\"s\": []}, \"shard\": {\"var\": \"s\", \"per_connection\": 1}, "
				  "\"var_http\": {\"s\": {\"url\": \"http://127.0.0.1:9/\"}}, \"on_open\": [\"$s\"], "
				  "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}]}");

	expect(1,
	       "warning  feed           listed was not tried: its list comes by HTTP, which only a listener asks for",
	       NULL, suite_text("check --postgres host=/nowhere --redis none --config %s", config));
}

Test(check, a_secret_that_is_not_set_is_named)
{
	expect(1,
	       "cannot be connected to: header Authorization cannot be sent: the variable MASTODON_TOKEN is not set\n",
	       NULL, "check --postgres host=/nowhere --redis none --feed mastodon");
	expect(1,
	       "the HTTP call before connecting: header Authorization cannot be sent: the variable SLACK_APP_TOKEN is "
	       "not",
	       NULL, "try --feed slack --seconds 1");
	expect(1, "wrong    secret         the variable SLACK_APP_TOKEN is not set\n", NULL,
	       "config lint --feed slack");
}

static char *token_config(const char *file)
{
	return suite_file("token.json",
			  suite_text("{\"sources\": [{\"name\": \"tide\", \"url\": \"ws://127.0.0.1/\", "
				     "\"headers\": {\"T\": \"${file:%s}\"}, \"rules\": [{\"name\": \"r\", "
				     "\"action\": \"event\", \"id\": [[\"/id\"]]}]}]}",
				     file));
}

Test(check, a_secret_in_a_file_is_read_and_its_mode_is_looked_at)
{
	char *file = suite_file("token", "geheim\n");

	cr_assert_eq(chmod(file, 0644), 0);
	expect(0, "warning  secret         /", NULL, suite_text("config lint --config %s", token_config(file)));
	expect(1, "wrong    secret         /nowhere cannot be read, or its first line is empty\n", NULL,
	       suite_text("config lint --config %s", token_config("/nowhere")));
}

Test(check, a_handler_is_looked_up, .init = bench_open)
{
	database_exec(db, "CREATE FUNCTION public.handle(text, text, jsonb) RETURNS void LANGUAGE sql AS ''");
	expect(0, "ok       handler        public.handle\n", servers(),
	       "check --ingest 127.0.0.1:0 --handler public.handle");
	expect(1, "wrong    handler        public.handel: there is no such function", servers(),
	       "check --ingest 127.0.0.1:0 --handler public.handel");
}

/* Marks of a consumer are rows that wsonce itself writes with the handler's effects. */
Test(check, rights_on_the_tables_of_effects_are_looked_up, .init = bench_open)
{
	const char *env[] = {NULL, "WSONCE_REDIS=none", "HOOK=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", NULL};
	char *role = database_text(db, "SELECT current_database() || '_poor'");

	run_expect(db, 0, NULL, "migrate");
	env[0] = suite_text("WSONCE_POSTGRES=%s user=%s", database_conninfo(db), role);
	database_exec(db,
		      "CREATE ROLE \"%s\" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"%s\"; GRANT ALL ON ALL "
		      "SEQUENCES IN SCHEMA public TO \"%s\"; REVOKE INSERT ON processed_events FROM \"%s\"",
		      role, role, role, role);
	expect(0, "ok       tables ", env, "check --ingest 127.0.0.1:0");
	expect(1, "wrong    tables         the role", env, "check --ingest 127.0.0.1:0 --consumer books");
	expect(1, "lacks rights: GRANT INSERT ON public.processed_events", env,
	       "check --ingest 127.0.0.1:0 --consumer books");
	database_exec(db, "REVOKE SELECT ON processed_events FROM \"%s\"", role);
	expect(1, "lacks rights: GRANT SELECT ON public.processed_events", env, "check --ingest 127.0.0.1:0");
	database_exec(db, "GRANT SELECT ON processed_events TO \"%s\"", role);
	database_exec(db, "REVOKE INSERT ON webhook_pauses, wsonce_leases FROM \"%s\"", role);
	expect(0, "ok       tables ", env, "check --ingest 127.0.0.1:0");
	expect(1, "lacks rights: GRANT INSERT ON public.webhook_pauses", env,
	       suite_text("check --ingest 127.0.0.1:0 --config %s",
			  suite_file("pauses.json", "{\"webhooks\": [{\"name\": \"w\", \"url\": "
						    "\"https://127.0.0.1/\", \"secret-env\": \"HOOK\"}]}")));
	expect(1, "lacks rights: GRANT INSERT ON public.wsonce_leases", env,
	       suite_text("check --config %s",
			  suite_file("alone.json",
				     "{\"sources\": [{\"name\": \"alone\", \"fleet\": \"exclusive\", \"url\": "
				     "\"ws://127.0.0.1:1/\", \"rules\": [{\"name\": \"r\", \"action\": "
				     "\"event\", \"id\": [[\"/id\"]]}]}]}")));
	database_exec(
		db,
		"REVOKE SELECT, UPDATE ON dead_letters FROM \"%s\"; REVOKE ALL ON SEQUENCE events_id_seq FROM \"%s\"",
		role, role);
	expect(1,
	       suite_text(
		       "lacks rights: GRANT USAGE ON SEQUENCE public.events_id_seq TO \"%s\"; GRANT SELECT, UPDATE ON "
		       "public.dead_letters TO \"%s\"; GRANT INSERT ON public.processed_events TO \"%s\"\n",
		       role, role, role),
	       env, "check --ingest 127.0.0.1:0 --consumer books");
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}

Test(check, two_of_its_own_addresses_must_not_be_the_same)
{
	expect(2, "two of them have the same address", NULL,
	       "config lint --ingest 127.0.0.1:8080 --ingest-http 127.0.0.1:8080");
	expect(0, "0 wrong", NULL, "config lint --ingest 127.0.0.1:0 --admin 127.0.0.1:0");
}

Test(check, ports_are_tried_and_one_in_use_is_a_warning)
{
	const char *const nothing[] = {"WSONCE_POSTGRES=host=/nowhere", "WSONCE_REDIS=none", NULL};
	struct feed *feed = feed_new();

	expect(1, "ok       ingest         127.0.0.1:0 can be listened on", nothing, "check --ingest 127.0.0.1:0");
	expect(1, suite_text("warning  admin          127.0.0.1:%d is in use", feed_port(feed)), nothing,
	       suite_text("check --ingest 127.0.0.1:0 --admin 127.0.0.1:%d", feed_port(feed)));
	expect(1, "wrong    ingest         203.0.113.1:0 cannot be listened on", nothing,
	       "check --ingest-open --ingest 203.0.113.1:0");
}

Test(check, files_that_others_may_read_and_misspelt_variables_are_warned_of)
{
	const char *const env[] = {"WSONCE_CLAIM_TLT=5", NULL};
	char *file = suite_file("lint.json", "{\"ingest\": \"127.0.0.1:0\"}");

	cr_assert_eq(chmod(file, 0644), 0);
	expect(0, "WSONCE_CLAIM_TLT is not a setting; did you mean WSONCE_CLAIM_TTL?", env,
	       suite_text("config lint --config %s", file));
	expect(0, "has mode 644: other users may read it; chmod 640 /", env,
	       suite_text("config lint --config %s", file));
	cr_assert_eq(chmod(file, 0666), 0);
	expect(0, "has mode 666: other users may read and change it; chmod 640 /", env,
	       suite_text("config lint --config %s", file));
	cr_assert_eq(chmod(file, 0660), 0);
	expect(0, "has mode 660: other users may change it; chmod 640 /", env,
	       suite_text("config lint --config %s", file));
	cr_assert_eq(chmod(file, 0600), 0);
	expect(0, "ok       config         /", env, suite_text("config lint --config %s", file));
	file = suite_file("other.json", "{\"config\": \"lint.json\"}");
	expect(2, "a file cannot name another one", NULL, suite_text("config lint --config %s", file));
	file = suite_file("misspelt.json", "{\"ingets\": \"127.0.0.1:0\"}");
	expect(2, "no such setting; did you mean ingest? (see wsonce listen --help)", NULL,
	       suite_text("config lint --config %s", file));
}

/* A list of revoked certificates, which an authority publishes beside its certificate. */
static const char revoked[] = "-----BEGIN X509 CRL-----\n"
			      "MIGSMEYCAQEwBQYDK2VwMAwxCjAIBgNVBAMMAWEXDTI2MTEyOTE5MjA0NloXDTI2\n"
			      "MTEzMDE5MjA0NlqgDjAMMAoGA1UdFAQDAgEBMAUGAytlcANBAFFPwnvy5x1sBMYQ\n"
			      "j0cRhPTksIESqK6YWKirRLUlPiQ8Ua1WIQbfZ4zMboWGukqY0pvK/XvmC9AGqCqq\n"
			      "6EgX+wg=\n"
			      "-----END X509 CRL-----\n";

Test(check, files_of_authorities_hold_certificates)
{
	char *file = suite_file("revoked.pem", revoked), *settings;

	expect(1, "revoked.pem holds no certificates (PEM)\n", NULL,
	       suite_text("config lint --ingest 127.0.0.1:0 --source-ca %s", file));
	settings =
		suite_file("hook.json", suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"https://127.0.0.1/\", "
						   "\"ca\": \"%s\", \"secret-env\": \"SECRET\"}]}",
						   file));
	expect(1, "wrong    webhook ca ", (const char *[]){"SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", NULL},
	       suite_text("config lint --ingest 127.0.0.1:0 --config %s", settings));
	expect(0, "ok       source-ca ", NULL,
	       suite_text("config lint --ingest 127.0.0.1:0 --source-ca %s", certificate_authority_new()->cert));
}

/* Opening a pipe to which nobody writes would take for ever. */
Test(check, a_pipe_instead_of_a_file_is_an_error, .timeout = 60)
{
	static const struct {
		const char *flag, *after;
	} cases[] = {
		{"--source-ca", ""},
		{"--source-cert", " --source-key "},
		{"--source-key", " --source-cert "},
		{"--ingest-cert", " --ingest-key "},
		{"--redis rediss://127.0.0.1:1 --redis-ca", ""},
		{"--redis rediss://127.0.0.1:1 --redis-cert", " --redis-key "},
		{"--feed", "?a=1"},
		{"--feed", ""},
		{"--ingest-profile", "?a=1"},
		{"--ingest-token-file", ""},
		{"--redis-file", ""},
		{"--source-file", ""},
		{"--config", ""},
	};
	static const char *const keys[] = {"ca", "cert", "secret-file", "bearer-file"};
	struct certificate *own = certificate_new(certificate_authority_new(), "DNS:x");
	const char *const env[] = {"SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", NULL};
	char *pipe = suite_path("pipe");

	cr_assert_eq(mkfifo(pipe, 0600), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *flag = cases[i].flag, *after = cases[i].after;
		char *words = suite_text("config lint --ingest 127.0.0.1:0 %s %s%s%s", flag, pipe, after,
					 *after == ' ' ? own->cert : "");
		struct run run = run_in(NULL, words);
		cr_expect(run.status == 1 || run.status == 2, "%s: %s%s", words, run.output, run.errors);
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		char *hook =
			suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"https://h/\", \"%s\": \"%s\"%s}]}",
				   keys[i], pipe, i == 2 ? "" : ", \"secret-env\": \"SECRET\"");
		struct run run = run_in(
			env, suite_text("config lint --ingest 127.0.0.1:0 --config %s", suite_file("pipe.json", hook)));
		cr_expect_eq(run.status, 2, "%s: %s%s", hook, run.output, run.errors);
	}
}

Test(check, certificates_are_valid_now_and_fit_their_keys)
{
	struct certificate *authority = certificate_authority_new(), *good = certificate_new(authority, "DNS:x");
	struct certificate *late = certificate_new_of(authority, &(struct certificate_text){.is_expired = true});
	static const char *const names[] = {"ingest", "source"};
	const char *const env[] = {"SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", NULL};
	char *settings = suite_file(
		"hook.json",
		suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"https://127.0.0.1/\", \"cert\": \"%s\", "
			   "\"key\": \"%s\", \"secret-env\": \"SECRET\"}]}",
			   late->cert, late->key));

	expect(0, suite_text("warning  ingest-cert    %s expires within a week: renew it", good->cert), NULL,
	       suite_text("config lint --ingest 127.0.0.1:0 --ingest-cert %s --ingest-key %s", good->cert, good->key));
	for (size_t i = 0; i < 2; i++) {
		expect(1, suite_text("wrong    %s-cert    %s has expired", names[i], late->cert), NULL,
		       suite_text("config lint --ingest 127.0.0.1:0 --%s-cert %s --%s-key %s", names[i], late->cert,
				  names[i], late->key));
		expect(2, suite_text("--%s-cert, --%s-key: the files are not", names[i], names[i]), NULL,
		       suite_text("config lint --ingest 127.0.0.1:0 --%s-cert %s --%s-key %s", names[i], good->cert,
				  names[i], late->key));
	}
	expect(1, "has expired: renew it", env, suite_text("config lint --ingest 127.0.0.1:0 --config %s", settings));
	settings = suite_file(
		"pair.json",
		suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"https://127.0.0.1/\", \"cert\": \"%s\", "
			   "\"key\": \"%s\", \"secret-env\": \"SECRET\"}]}",
			   good->cert, late->key));
	expect(1, "are not a certificate and its key", env,
	       suite_text("config lint --ingest 127.0.0.1:0 --config %s", settings));
	settings = suite_file("both.json", suite_text("{\"webhooks\": [{\"name\": \"w\", \"url\": \"https://h/\", "
						      "\"cert\": \"%s\", \"secret-env\": \"SECRET\"}]}",
						      suite_file("both.pem", "no key")));
	cr_assert_eq(chmod(suite_path("both.pem"), 0644), 0);
	expect(1, "warning  webhook cert ", env, suite_text("config lint --ingest 127.0.0.1:0 --config %s", settings));
}

Test(check, a_file_with_a_secret_is_shown_by_its_path_and_its_mode_is_looked_at)
{
	char *folder = suite_path("credentials"), *file = suite_file("redis", "redis://:geheim@127.0.0.1:1/0\n");
	const char *const env[] = {suite_text("WSONCE_REDIS_FILE=%s", file),
				   suite_text("CREDENTIALS_DIRECTORY=%s", folder), NULL};
	struct run run;

	cr_assert_eq(mkdir(folder, 0700), 0);
	cr_assert_eq(rename(suite_file("given", "ws://h/?key=geheim\n"), suite_text("%s/wsonce.source", folder)), 0);
	cr_assert_eq(chmod(file, 0644), 0);
	expect(0, "warning  redis-file     ", env, "config lint");
	cr_assert_eq(chmod(file, 0600), 0);
	expect(0, "ok       redis-file     ", env, "config lint");
	run = run_in(env, "config print");
	cr_assert(strstr(run.output, suite_text("redis-file               environment  %s\n", file)), "%s", run.output);
	cr_assert(strstr(run.output, "redis                    environment  "), "%s", run.output);
	cr_assert(strstr(run.output, "source                   credential   "), "%s", run.output);
	cr_assert(!strstr(run.output, "geheim"), "%s", run.output);
	expect(2, "did you mean --redis-file?", NULL, "config lint --redis-flie x");
}

Test(check, settings_are_printed_with_where_they_come_from_and_without_secrets)
{
	const char *const env[] = {"WSONCE_CLAIM_TTL=40", "WSONCE_POSTGRES=postgres://app:geheim@db/x",
				   "WSONCE_INGEST_TOKEN=geheim-0123456789", NULL};
	char *file = suite_file("print.json", "{\"ingest\": \"127.0.0.1:0\", \"claim-ttl\": 50, \"batch-max\": 7}");
	char *words = suite_text("config print --config %s --redis redis://u:geheim@h/1 --batch-max 8 "
				 "--source wss://u:geheim@h/geheim?key=geheim --feed kraken",
				 file);
	struct run run = run_in(env, words);
	json_t *root, *one;

	cr_assert_eq(run.status, 0, "%s%s", run.output, run.errors);
	cr_assert(!strstr(run.output, "geheim"), "%s", run.output);
	cr_assert(strstr(run.output, "claim-ttl                environment  40s\n"), "%s", run.output);
	cr_assert(strstr(run.output, "ingest                   file         127.0.0.1:0\n"), "%s", run.output);
	cr_assert(strstr(run.output, "batch-max                flag         8\n"), "%s", run.output);
	cr_assert(strstr(run.output, "user=app password=***"), "%s", run.output);
	cr_assert(!strstr(run.output, "max-message"), "%s", run.output);
	run = run_in(env, suite_text("%s --json --all", words));
	cr_assert(!strstr(run.output, "geheim"), "%s", run.output);
	root = json_loads(run.output, 0, NULL);
	one = json_object_get(root, "ingest-token");
	cr_assert(json_is_true(json_object_get(one, "is_secret")) && json_is_null(json_object_get(one, "value")));
	one = json_object_get(root, "max-message");
	cr_assert_str_eq(json_string_value(json_object_get(one, "from")), "default");
}

Test(check, words_that_are_none_are_answered_by_the_nearest)
{
	expect(2, "unknown command \"statsu\"; did you mean status? (see wsonce --help)", NULL, "statsu");
	expect(2, "unknown command \"xyz\" (see wsonce --help)", NULL, "xyz");
	expect(2, "unknown action \"lst\" of dead-letters; did you mean list? (see wsonce dead-letters --help)", NULL,
	       "dead-letters lst");
	expect(2, "unknown option --jsn; did you mean --json? (see wsonce status --help)", NULL, "status --jsn");
	expect(2, "unknown option --redis-fiel; did you mean --redis-file? (see wsonce status --help)", NULL,
	       "status --redis-fiel=x");
	expect(2, "unknown option --sorce; did you mean --source? (see wsonce listen --help)", NULL,
	       "listen --sorce ws://h");
	expect(0, "usage: wsonce explain EVENT_ID", NULL, "help explain");
	expect(0, "usage: wsonce listen", NULL, "help listen");
	expect(0, "usage: wsonce dead-letters list", NULL, "dead-letters list -h");
	expect(0, "usage: wsonce COMMAND", NULL, "-h");
	expect(0, "wsonce " WSONCE_VERSION, NULL, "-V");
	expect(2, "unknown command \"explian\"; did you mean explain?", NULL, "help explian");
}

static int run_words(const char *command)
{
	const char *const argv[] = {"sh", "-c", command, NULL};
	struct process *p = process_start_argv(argv, NULL);
	int status = process_wait(p, 60000);

	cr_assert_eq(status, 0, "%s: %s%s", command, process_output(p), process_errors(p));
	return status;
}

/* Builds the files to install. Returns their folder. */
static char *make_pages(void)
{
	char *folder = suite_path("pages");

	run_words(suite_text("deploy/pages \"$WSONCE_TEST_BIN\" docs/feeds/profiles.md %s", folder));
	return folder;
}

Test(check, manual_pages_are_mdoc_without_a_fault)
{
	static const char *const said[] = {"^MEMBERS OF A RULE", "ack_mode, ack_on, max_unacked, ack_deadline_ms",
					   "wsonce try --profile readings.json --seconds 5",
					   "A message that matches no rule"};
	char *folder = make_pages();

	run_words(suite_text("mandoc -T lint -W warning %s/man/man*/*.[15]", folder));
	run_words(
		suite_text("for page in man1/wsonce.1 man1/wsonce-status.1 man1/wsonce-dead-letters-list.1; do test -s "
			   "%s/man/$page || exit 1; done",
			   folder));
	run_words(suite_text("grep -q claim.*ttl %s/man/man5/wsonce.conf.5", folder));
	run_words(suite_text("grep -q claim.*ttl %s/man/man1/wsonce-listen.1", folder));
	run_words(suite_text("mandoc -T ascii %s/man/man5/wsonce-profile.5 | col -b >%s/read", folder, folder));
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		run_words(suite_text("grep -q -e '%s' %s/read", said[i], folder));
	run_words(suite_text("! grep -e '`' -e '](' %s/read", folder));
}

Test(check, bash_completes_commands_actions_and_flags)
{
	char *folder = make_pages();

	run_words(
		suite_text("bash -c 'source %s/bash-completion/completions/wsonce; f() { COMP_WORDS=(\"$@\"); "
			   "COMP_CWORD=$(($#-1)); COMPREPLY=(); _wsonce; echo \"${COMPREPLY[*]}\"; }; "
			   "[ \"$(f wsonce sta)\" = \"status stats\" ] && [ \"$(f wsonce dead-letters l)\" = list ] && "
			   "[ \"$(f wsonce listen --claim)\" = \"--claim-prefix --claim-ttl\" ] && "
			   "[ \"$(f wsonce status --wa)\" = --watch ]'",
			   folder));
	run_words(suite_text("grep -q '^#compdef wsonce' %s/zsh/vendor-completions/_wsonce", folder));
	run_words(suite_text("grep -q -e '-l watch -d ' %s/fish/vendor_completions.d/wsonce.fish", folder));
}

Test(check, the_directory_of_a_spool_is_looked_at, .init = bench_open)
{
	char *dir = suite_path("spool"), *other = suite_path("nowhere/spool"), *file = suite_file("file", "");

	expect(0, suite_text("ok       spool          %s is not there yet: the first listener creates it\n", dir),
	       servers(), suite_text("check --ingest 127.0.0.1:0 --spool %s", dir));
	expect(1, suite_text("wrong    spool          %s: No such file", suite_path("nowhere")), servers(),
	       suite_text("check --ingest 127.0.0.1:0 --spool %s", other));
	expect(1, suite_text("wrong    spool          %s cannot be used: Not a directory\n", file), servers(),
	       suite_text("check --ingest 127.0.0.1:0 --spool %s", file));
	expect(0, "is in memory: use a disk\n", servers(), "check --ingest 127.0.0.1:0 --spool /dev/shm");
	expect(0, "/dev/shm/wsonce-nowhere is in memory: use a disk\n", servers(),
	       "check --ingest 127.0.0.1:0 --spool /dev/shm/wsonce-nowhere");
	expect(0, "GiB are free on its disk, and --spool-max is 1048576.0 GiB\n", servers(),
	       suite_text("check --ingest 127.0.0.1:0 --spool %s --spool-max 1048576GiB", dir));
	expect(0, "/dev/shm has mode 777: other users may change it; chmod 700 /dev/shm\n", servers(),
	       "check --ingest 127.0.0.1:0 --spool /dev/shm");

	struct listener *l = listener_start(&(struct listener_options){.database = db, .spool = dir}, NULL);
	expect(0, suite_text("warning  spool          %s is in use: fine if that is the running listener\n", dir),
	       servers(), suite_text("check --ingest 127.0.0.1:0 --spool %s", dir));
	cr_assert_eq(listener_stop(l), 0);
	expect(0, suite_text("ok       spool          %s can be written\n", dir), servers(),
	       suite_text("check --ingest 127.0.0.1:0 --spool %s --spool-max 1MiB", dir));
	expect(0, "GiB are free on its disk, and --spool-max is 1048576.0 GiB\n", servers(),
	       suite_text("check --ingest 127.0.0.1:0 --spool %s --spool-max 1048576GiB", dir));
	/* Root checks for the listener's user. */
	if (geteuid() == 0 && chown(dir, 65534, 65534) == 0)
		expect(0, suite_text("warning  spool          %s belongs to another user: fine", dir), servers(),
		       suite_text("check --ingest 127.0.0.1:0 --spool %s", dir));
}
