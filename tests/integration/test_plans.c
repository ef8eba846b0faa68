/* How many rows the program's statements read in large tables: WSONCE_TEST_ROWS of each, 100,000 by default. `make
 * plans ROWS=5000000` prints the figures of docs/webhooks.md. */
#include "support.h"
#include "bench.h"
#include "backlog.sql.h"
#include "dead_letters_list.sql.h"
#include "write_dead_letters.sql.h"
#include "checkin.sql.h"
#include "epoch.sql.h"
#include "explain.sql.h"
#include "export_letters.sql.h"
#include "export_rows.sql.h"
#include "find_present.sql.h"
#include "hazards.sql.h"
#include "identify.sql.h"
#include "insert.sql.h"
#include "lease.sql.h"
#include "peek.sql.h"
#include "commands/purge_tables.h"
#include "postgres/schema.h"
#include "put_cursors.sql.h"
#include "read_cursors.sql.h"
#include "record.sql.h"
#include "status.sql.h"
#include "webhooks_resend.sql.h"

static const char *const tables[] = {"events", "dead_letters", "outbox", "processed_events"};
static long rows;

static void init(void)
{
	const char *given = getenv("WSONCE_TEST_ROWS");

	rows = given ? strtol(given, NULL, 10) : 100000;
	db = database_new();
	run_expect(db, 0, NULL, "migrate");
}

/* --- many rows --- */

/* Runs a statement for the numbers i from first to last, in several steps. */
static void fill(const char *sql, long first, long last)
{
	for (long from = first; from <= last; from += 200000) {
		long to = from + 199999 < last ? from + 199999 : last;

		database_exec(db, "%s FROM generate_series(%ld, %ld) AS i", sql, from, to);
	}
}

/* Three fifths of the outbox are delivered, a fifth is dead and a fifth, of the last rows, pending for eight targets.
 * Half of the letters are resolved; a tenth belong to another consumer. */
static void fill_tables(long first, long last)
{
	fill("INSERT INTO events (event_id, event_type, payload, processed_at) SELECT 'e' || i, 'x', '{\"n\": 1}', "
	     "now() - interval '10 days' + i * interval '10 ms'",
	     first, last);
	fill("INSERT INTO processed_events (consumer, event_id, processed_at) SELECT 'c' || i % 3, 'e' || i, now() - "
	     "interval '10 days' + i * interval '10 ms'",
	     first, last);
	fill("INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, consumer, last_seen, resolved_at) "
	     "SELECT int8send(i), 'bad' || i, 'bad ' || i % 40, '', 'i', CASE i % 10 WHEN 0 THEN 'billing' ELSE '' "
	     "END, now() - interval '10 days' + i * interval '10 ms', CASE i % 2 WHEN 0 THEN now() END",
	     first, last);
	fill("INSERT INTO outbox (target, event_id, event_type, state, settled_at) SELECT 't' || i % 8, i, 'x', CASE "
	     "WHEN i % 4 = 0 THEN 'dead' ELSE 'delivered' END, now() - interval '10 days' + i * interval '10 ms'",
	     first, first + (last - first) * 4 / 5);
	fill("INSERT INTO outbox (target, event_id, event_type, payload, due_at) SELECT 't' || i % 8, i, 'x', '{\"n\": "
	     "1}', now() - i * interval '1 us'",
	     first + (last - first) * 4 / 5 + 1, last);
}

static void fill_actions(void)
{
	fill("INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, instance_id) SELECT i * "
	     "100, '', 'e' || i, 'retry', 'persisted', 'i'",
	     1, rows / 100);
	fill("INSERT INTO delivery_actions (delivery_id, target, event_id, action, instance_id) SELECT i * 100 + 1, "
	     "'t', 'e' || i, 'retry', 'i'",
	     1, rows / 100);
}

/* --- what a statement reads --- */

struct cost {
	double found; /* rows that it returns */
	double rows;  /* rows that it reads from tables */
	double pages;
	double ms;
	char *plan;
};

static double number(const json_t *plan, const char *name)
{
	return json_number_value(json_object_get(plan, name));
}

static double rows_read(const json_t *plan)
{
	const char *type = json_string_value(json_object_get(plan, "Node Type"));
	double n = 0;
	size_t i;
	json_t *part;

	if (strstr(type, "Scan") && json_object_get(plan, "Relation Name"))
		n = number(plan, "Actual Loops") *
		    (number(plan, "Actual Rows") + number(plan, "Rows Removed by Filter"));
	json_array_foreach(json_object_get(plan, "Plans"), i, part) n += rows_read(part);
	return n;
}

/* The top node does not count what a WITH changes after the rest is done. */
static double pages_read(const json_t *plan)
{
	double own = number(plan, "Shared Hit Blocks") + number(plan, "Shared Read Blocks"), parts = 0;
	size_t i;
	json_t *part;

	json_array_foreach(json_object_get(plan, "Plans"), i, part) parts += pages_read(part);
	return own > parts ? own : parts;
}

/* Runs a statement, prepared with these values, and rolls it back. */
static struct cost explain(const char *sql, const char *values)
{
	char *own = database_sql(sql);

	database_exec(db, "deallocate all");
	database_exec(db, "prepare question as %s", own);
	database_exec(db, "begin");
	char *text = database_text(db, "explain (analyze, buffers, timing off, format json) execute question%s%s%s",
				   *values ? "(" : "", values, *values ? ")" : "");
	json_t *plans = json_loads(text, 0, NULL), *first = json_array_get(plans, 0),
	       *plan = json_object_get(first, "Plan");

	database_exec(db, "rollback");
	cr_assert(plan, "%s", text);
	struct cost cost = {
		.found = number(plan, "Actual Rows"),
		.rows = rows_read(plan),
		.pages = pages_read(plan),
		.ms = number(first, "Execution Time"),
		.plan = text,
	};
	return cost;
}

static void print(const char *name, struct cost cost)
{
	if (getenv("WSONCE_TEST_ROWS"))
		fprintf(stderr, "%-24s %8.0f rows read %8.0f pages %8.1f ms\n", name, cost.rows, cost.pages, cost.ms);
}

static void must_cost(const char *name, struct cost cost, double most_rows, double most_pages)
{
	print(name, cost);
	if (cost.rows > most_rows || cost.pages > most_pages)
		fprintf(stderr, "%s: %s\n", name, cost.plan);
	cr_expect_leq(cost.rows, most_rows, "%s reads %.0f rows", name, cost.rows);
	cr_expect_leq(cost.pages, most_pages, "%s reads %.0f pages", name, cost.pages);
}

/* Values of a list, made by SQL of i. */
static char *list(const char *sql, int n)
{
	return database_text(db, "select quote_literal(array_agg(%s)::text) from generate_series(1, %d) as i", sql, n);
}

/* --- the statements --- */

/* Two targets want 100 rows each, and a third one a particular row. */
static void check_lease(void)
{
	char *probe = database_text(db, "select max(id) from outbox where target = 't2' and state = 'pending'");
	char values[300];

	snprintf(values, sizeof(values),
		 "'{t0,t1,t2}', '{100,100,1}', '{1000,1000,1000}', '{NULL,NULL,%s}', '{0,0,0}', '{0,0,0}', '1000000', "
		 "'4000000', '4000000'",
		 probe);
	struct cost cost = explain(SQL_LEASE, values);
	cr_expect_eq(cost.found, 201);
	must_cost("lease", cost, 800, 5200);
}

static void check_record(void)
{
	char *ids = database_text(db, "select quote_literal(array_agg(id)::text) || ', ' || "
				      "quote_literal(array_agg(concat(leases, '/', floor("
				      "extract(epoch from created_at) * 1000000)))::text) "
				      "from (select * from outbox where state = 'pending' limit 100) as o");
	char *values = suite_text("%s, array_fill('retry'::text, '{100}'), "
				  "array_fill('500'::text, '{100}'), array_fill('no'::text, '{100}'), "
				  "array_fill('5'::text, '{100}'), ",
				  ids);
	must_cost("record", explain(SQL_RECORD, suite_text("%s''", values)), 200, 2600);
	must_cost("record without locked rows", explain(SQL_RECORD, suite_text("%s'skip'", values)), 400, 2600);
}

/* A listener's statements for 500 events, half of which exist. */
static void check_storing(void)
{
	char *ids = list("'e' || (i * 2 + 1)", 500), *fresh = list("'new' || i", 500),
	     *digests = list("int8send(i)", 100);
	char *values = suite_text("%s, array_fill('x'::text, '{500}'), array_fill('{}'::jsonb, '{500}'), "
				  "array_fill('shop'::text, '{500}'), array_fill(now(), '{500}'), "
				  "array_fill(now(), '{500}'), 'here'",
				  fresh);
	must_cost("insert", explain(SQL_INSERT, values), 10, 20000);
	/* The settings of postgres_find_by_key(). */
	database_exec(db, "set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off");
	values = suite_text("%s, ''", ids);
	/* Pages of a WITH are counted twice. */
	must_cost("find_present", explain(SQL_FIND_PRESENT, values), 600, 5200);
	values = suite_text("%s, 'c1'", ids);
	must_cost("find_present, consumer", explain(SQL_FIND_PRESENT, values), 600, 5200);
	values = suite_text("%s, array_fill('id'::text, '{100}'), array_fill('bad'::text, '{100}'), "
			    "array_fill(''::bytea, '{100}'), array_fill(NULL::text, '{100}'), array_fill(NULL::text, "
			    "'{100}'), array_fill(NULL::text, '{100}'), 'i', '', true",
			    digests);
	must_cost("dead_letter", explain(SQL_WRITE_DEAD_LETTERS, values), 200, 6000);
	must_cost("checkin",
		  explain(SCHEMA_WITH_HAZARDS(SQL_CHECKIN),
			  "'{\"listener\": \"i\", \"max_age_s\": null, \"dedup_window_s\": 300, "
			  "\"is_leaving\": false, \"consumer\": \"\", \"handler\": null, \"targets\": [], "
			  "\"target_urls\": {\"crm\": \"d\"}, \"events\": 1, \"copies\": [0, 0, 0], "
			  "\"late\": [[\"e1\", 5], [\"e2\", 6]], \"late_weight\": 1}'"),
		  20, 200);
	database_exec(db, "reset enable_hashjoin; reset enable_mergejoin; reset enable_seqscan");
	must_cost("put_cursors",
		  explain(SQL_PUT_CURSORS, "'{kraken,nostr}', '{\"\",h}', '{max,last}', '{5,\"7\"}', '{NULL,NULL}', "
					   "'00000000', 'i'"),
		  20, 200);
	must_cost("read_cursors", explain(SQL_READ_CURSORS, "'{kraken,nostr}'"), 10, 50);
	must_cost("epoch", explain(SQL_EPOCH, ""), 5, 50);
	must_cost("identify", explain(SCHEMA_WITH_HAZARDS(SQL_IDENTIFY), ""), 40, 100); /* a row for each migration */
}

/* The worst case of a step that finds as many rows as it changes: they are in random order of their other keys. */
static void check_purge_step(const struct pass *pass)
{
	struct pass_sql sql = purge_sql(pass, false, false);
	bool is_id = strcmp(pass->first, PASS_FIRST_ID) == 0;
	char *old = suite_text("'%s', now() - interval '9 days', 1000, 20000, true", is_id ? "0" : pass->first),
	     *none = suite_text("'%s', '-infinity', 1000, 20000, true", is_id ? "0" : pass->first),
	     *dry = suite_text("'%s', now() - interval '9 days', 20000, 20000, false", is_id ? "0" : pass->first);

	must_cost(pass->name, explain(sql.step, old), 7000, 92000);
	must_cost(pass->name, explain(sql.step, none), 21000, 42000);
	must_cost(pass->name, explain(sql.step, dry), 21000, 42000);
}

/* Begins a transaction like purge. An index counts the rows to keep. */
static void check_purge(void)
{
	database_exec(db, "set enable_seqscan = off; set enable_bitmapscan = off");
	for (size_t i = 0; i < PURGE_TABLES; i++) {
		check_purge_step(&purge_tables[i]);
		if (purge_tables[i].table != PASS_ACTIONS && purge_tables[i].table != PASS_EVENTS)
			must_cost(purge_tables[i].name,
				  explain(purge_sql(&purge_tables[i], false, false).cutoff, "NULL, '1000'"), 1000,
				  2200);
	}
	database_exec(db, "reset enable_seqscan; reset enable_bitmapscan");
}

/* Returns the statement that follows a line that begins with this. */
static char *part_of(const char *sql, const char *head)
{
	const char *at = strchr(strstr(sql, head), '\n') + 1, *end = strstr(at, suite_text("%.8s", head));

	return suite_text("%.*s", end ? (int)(end - at) : (int)strlen(at), at);
}

static void check_questions(void)
{
	static const char *const event_tables[] = {"events", "processed_events",    "dead_letters",
						   "outbox", "dead_letter_actions", "delivery_actions"};

	must_cost("status, letters", explain(part_of(SQL_STATUS, "-- part letters"), ""), 10000, 11000);
	database_exec(db,
		      "INSERT INTO webhook_pauses (target, reason) VALUES ('retired', 'gone') ON CONFLICT DO NOTHING");
	must_cost("status, pauses", explain(part_of(SQL_STATUS, "-- part pauses"), ""), 10, 20);
	must_cost("status, outbox", explain(part_of(SQL_STATUS, "-- part outbox"), ""), 32000, 45000);
	for (size_t i = 0; i < sizeof(event_tables) / sizeof(*event_tables); i++)
		must_cost(event_tables[i],
			  explain(part_of(SQL_EXPLAIN, suite_text("-- table %s\n", event_tables[i])), "'e77'"), 20, 60);
}

/* With the settings of commands/export.c. */
static void check_export(void)
{
	database_exec(db, "set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off");
	must_cost("export_rows", explain(SQL_EXPORT_ROWS, list("1 + (i * 37) % 20000", 1000)), 1000, 4200);
	must_cost("export_letters",
		  explain(SQL_EXPORT_LETTERS, "'billing', '0', '-infinity', 'infinity', NULL, NULL, '9999999'"), 400,
		  900);
	database_exec(db, "reset enable_hashjoin; reset enable_mergejoin; reset enable_seqscan");
}

/* A page of events of which most have no delivery that waits, with the settings of commands/webhooks.c. */
static void check_resend(void)
{
	database_exec(db, "set enable_seqscan = off");
	must_cost("webhooks_resend",
		  explain(SQL_WEBHOOKS_RESEND, "'t1', 4102444800000000, NULL, 1, 0, 1000, NULL, 1, 1000"), 4100, 25000);
	database_exec(db, "reset enable_seqscan");
}

static void check_all(void)
{
	check_lease();
	check_record();
	must_cost("peek", explain(SQL_PEEK, "'t0', '0', '0'"), 2, 50);
	must_cost("backlog", explain(SQL_BACKLOG, "'60000', '{t0}', '{u0}'"), 24000, 80000);
	must_cost("dead_letters_list", explain(SQL_DEAD_LETTERS_LIST, "'{}', '10', '3', '0', ''"), 210000, 300000);
	check_storing();
	check_purge();
	check_resend();
	check_questions();
	check_export();
}

/* At first the statistics are from a time when tables were nearly empty and nothing was pending; then they are current.
 */
Test(plans, statements_read_no_more_than_what_they_want_among_many_rows, .init = init, .timeout = 6000)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		database_stop_autovacuum(db, tables[i]);
	fill_tables(1, 100);
	database_exec(db, "delete from outbox where state = 'pending'");
	database_exec(db, "analyze");
	fill_tables(101, rows);
	fill_actions();
	check_all();
	database_exec(db, "analyze");
	check_all();
}

/* Twenty rows of a quarter of a million incompressible bytes, and twenty small ones. */
static double leased_within(const char *bytes, const char *all_bytes)
{
	char values[300];

	snprintf(values, sizeof(values),
		 "'{large,small}', '{20,20}', '{1000,1000}', '{NULL,NULL}', '{0,0}', '{0,0}', '%s', '%s', '4000000'",
		 bytes, all_bytes);
	return explain(SQL_LEASE, values).found;
}

Test(plans, lease_has_a_budget_of_bytes_that_no_target_uses_up, .init = init)
{
	database_exec(db,
		      "insert into outbox (target, event_id, event_type, payload) select 'large', i, 'x', to_jsonb(("
		      "select string_agg(md5(random()::text || j || i), '') from generate_series(1, 8000) as j)) "
		      "from generate_series(1, 20) as i");
	database_exec(db, "insert into outbox (target, event_id, event_type, payload) select 'small', i, 'x', '{}' "
			  "from generate_series(1, 20) as i");
	cr_assert_eq(leased_within("1100000", "2200000"), 4 + 20);
	cr_assert_eq(leased_within("10000", "2200000"), 1 + 20);
	cr_assert_eq(leased_within("10000", "10000"), 1);
}

/* --- a transaction that stays open --- */

/* Two targets want 100 rows each, due not before since. */
static struct cost lease_since(const char *since)
{
	char values[200];

	snprintf(values, sizeof(values),
		 "'{t0,t1}', '{100,100}', '{1000,1000}', '{NULL,NULL}', '{%s,%s}', '{0,0}', '1000000', '4000000', "
		 "'4000000'",
		 since, since);
	return explain(SQL_LEASE, values);
}

/* Rows that it might see stay in the table and its indexes: here one delivery per row, of which an hour has some
 * millions. Leases look for rows from where the last one was found. */
Test(plans, transaction_that_stays_open_does_not_make_leases_dear, .init = init, .timeout = 6000)
{
	struct database *reader = database_open(database_conninfo(db));

	database_stop_autovacuum(db, "outbox");
	fill("INSERT INTO outbox (target, event_id, event_type, payload, due_at) SELECT 't' || i % 2, i, 'x', '{}', "
	     "now() - interval '1 day' + i * interval '1 us'",
	     1, rows);
	struct cost before = lease_since("0");
	database_exec(reader, "begin isolation level repeatable read");
	database_long(reader, "select count(*) from wsonce_schema");
	for (long from = 1; from <= rows - 2000; from += 200000)
		database_exec(db,
			      "update outbox set state = 'delivered', settled_at = now(), leases = 2 "
			      "where id >= %ld and id < %ld and id <= %ld",
			      from, from + 200000, rows - 2000);
	char *since =
		database_text(db, "select floor(extract(epoch from min(due_at)) * 1000000) from outbox where state = "
				  "'pending'");
	struct cost all = lease_since("0"), late = lease_since(since);
	print("lease, before", before);
	print("lease, all rows", all);
	print("lease, late rows", late);
	cr_expect_eq(late.found, 200);
	cr_expect_leq(late.pages, 2 * before.pages + 100, "%.0f pages, before %.0f", late.pages, before.pages);
	/* A relay that keeps up looks back for two seconds, in which 10,000 rows came, 200 at a time, and as many
	 * leases ended. */
	database_exec(db, "delete from outbox where state = 'pending'");
	fill("INSERT INTO outbox (target, event_id, event_type, payload, due_at) SELECT 't' || i % 2, 'l' || i, 'x', "
	     "'{}', now() - interval '2 s' + i / 200 * interval '40 ms'",
	     1, 10000);
	database_exec(db, "update outbox set due_at = due_at + interval '20 ms' where state = 'pending'");
	database_exec(db, "update outbox set state = 'delivered', settled_at = now() where state = 'pending'");
	fill("INSERT INTO outbox (target, event_id, event_type, payload) SELECT 't' || i % 2, 'n' || i, 'x', '{}'", 1,
	     200);
	free(since);
	since = database_text(db,
			      "select floor(extract(epoch from max(due_at) - interval '2 s') * 1000000) from outbox "
			      "where state = 'pending'");
	struct cost live = lease_since(since);
	print("lease, a live feed", live);
	cr_expect_eq(live.found, 200);
	cr_expect_leq(live.pages, 2 * before.pages + 100, "%.0f pages, before %.0f", live.pages, before.pages);
	database_exec(reader, "rollback");
}

/* --- commands --- */

/* Backends report what they read when they end. */
static bool is_alone(void)
{
	return database_long(db,
			     "select count(*) = 0 from pg_stat_activity where datname = current_database() and pid <> "
			     "pg_backend_pid()");
}

static long pages_of_database(void)
{
	database_exec(db, "select pg_stat_force_next_flush()");
	return database_long(db,
			     "select blks_hit + blks_read from pg_stat_database where datname = current_database()");
}

#define PAGES_MOST 8000

/* Returns what the database's backends read while a command runs, once the statistics have it. */
static long pages_during(const char *words, const char *part)
{
	await(is_alone(), 10000);
	long before = pages_of_database();
	run_expect(db, 0, part, "%s", words);
	await(is_alone(), 10000);
	return pages_of_database() - before;
}

/* Connecting reads some 2,300 pages of catalogues. Autovacuum may come to a catalogue in between, but not each time. */
static void must_read_little(const char *words, const char *part)
{
	long pages = pages_during(words, part);

	for (int again = 0; again < 2 && pages > PAGES_MOST; again++)
		pages = pages_during(words, part);
	if (getenv("WSONCE_TEST_ROWS"))
		fprintf(stderr, "%-50.50s %8ld pages\n", words, pages);
	cr_expect_leq(pages, PAGES_MOST, "%s reads %ld pages", words, pages);
}

Test(plans, commands_with_nothing_to_do_do_not_read_the_tables, .init = init, .timeout = 6000)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		database_stop_autovacuum(db, tables[i]);
	fill_tables(1, rows);
	must_read_little("purge --older-than 60d", ": 0\n");
	must_read_little("purge --older-than 60d --delete-rows --time-pointer /at --max-age 7d", ": 0\n");
	must_read_little("purge --dead-letters-older-than 60d", ": 0\n");
	must_read_little("purge --outbox-older-than 60d", ": 0\n");
	must_read_little("purge --processed-older-than 60d --time-pointer /at --max-age 7d", ": 0\n");
	must_read_little("dead-letters list --newest 1000", "dead letters: 1000 of the newest 1000,");
	must_read_little("dead-letters list --deliveries --newest 1000", "dead deliveries: 1000 of the newest 1000,");
}

/* --- a page of many rows --- */

static long rows_read_of(const char *table)
{
	await(is_alone(), 10000);
	database_exec(db, "select pg_stat_force_next_flush()");
	return database_long(db,
			     "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from "
			     "pg_stat_user_tables where relname = '%s'",
			     table);
}

static void must_read_rows(const char *table, long most, const char *part, const char *words)
{
	long before = rows_read_of(table);

	run_expect(db, 0, part, "%s", words);
	long read = rows_read_of(table) - before;
	cr_expect_leq(read, most, "%s reads %ld rows of %s", words, read, table);
}

/* Seconds from the time of the first row. */
static char *moment(int seconds)
{
	return database_text(db,
			     "select to_char((min(last_seen) + interval '%d s') at time zone 'UTC', "
			     "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from dead_letters",
			     seconds);
}

/* A row is read several times: to find the page, its ids, and what to print. */
static void check_pages(void)
{
	char *span = suite_text("--since %s --until %s", moment(5), moment(6));

	must_read_rows("outbox", 2000, "dead deliveries: 200 of the newest 200,",
		       "dead-letters list --deliveries --state resolved --newest 200");
	must_read_rows("outbox", 2000, "dead deliveries: 200 of the newest 200,",
		       "dead-letters list --deliveries --state all --newest 200");
	must_read_rows("outbox", 1000, "dead deliveries: 1,",
		       suite_text("dead-letters list --deliveries --state all %s", span));
	must_read_rows("dead_letters", 1000, "dead letters: 100,",
		       suite_text("dead-letters list --state all %s", span));
	must_read_rows("dead_letters", 1000, "dead letters: 100,",
		       suite_text("dead-letters list --state resolved %s", span));
}

/* All has been settled, and one delivery in a hundred after an operator's action. */
Test(plans, page_of_letters_or_deliveries_reads_no_more_than_it_shows, .init = init, .timeout = 6000)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		database_stop_autovacuum(db, tables[i]);
	fill("INSERT INTO outbox (target, event_id, event_type, state, settled_at) SELECT 't', i, 'x', 'delivered', "
	     "date_trunc('day', now()) - interval '10 days' + i * interval '10 ms'",
	     1, rows);
	fill("INSERT INTO dead_letters (digest, reason, raw, instance_id, last_seen, resolved_at) SELECT int8send(i), "
	     "'bad', '', 'i', date_trunc('day', now()) - interval '10 days' + i * interval '10 ms', now()",
	     1, rows);
	fill_actions();
	check_pages();
	database_exec(db, "analyze");
	check_pages();
}
