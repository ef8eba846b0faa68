/* The statements of the relay and its reactions to their answers. Postgres and the requests are fakes. */
#include "backlog.sql.h"
#include "clock.h"
#include "lease.sql.h"
#include "outbox/delivery.h"
#include "outbox/relay.h"
#include "peek.sql.h"
#include "played_postgres.h"
#include "record.sql.h"
#include "loop.h"
#include "unit.h"

#include <uv.h>

static uv_loop_t loop;
static struct relay *relay;
static bool is_played, is_drained;
static delivery_cb *answer_request; /* callback of the last request; NULL: none is in progress */
static void *answer_arg;
static char requested[200];
static const struct webhook *requested_of;

struct delivery *__real_delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
				      void *arg);
struct delivery *__wrap_delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
				      void *arg);
void __real_delivery_cancel(struct delivery *d);
void __wrap_delivery_cancel(struct delivery *d);

struct delivery *__wrap_delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
				      void *arg)
{
	if (!is_played)
		return __real_delivery_send(all, request, cb, arg);
	snprintf(requested, sizeof(requested), "%s %s %.*s", request->webhook->name, request->timestamp,
		 (int)request->len, request->body);
	requested_of = request->webhook;
	answer_request = cb;
	answer_arg = arg;
	return arg;
}

void __wrap_delivery_cancel(struct delivery *d)
{
	if (is_played)
		answer_request = NULL;
	else
		__real_delivery_cancel(d);
}

static char name[] = "w", url[] = "http://127.0.0.1:1/";
static struct webhook webhook = {.name = name,
				 .url = url,
				 .timeout_ms = 1000,
				 .concurrency = 1,
				 .attempts = 3,
				 .backoff_ms = 100,
				 .backoff_cap_ms = 5000};
static struct config config = {
	.webhooks = {&webhook, 1}, .postgres_timeout_ms = 30000, .message_bytes = 1000, .drain_timeout_ms = 5000};

static void set_up(void)
{
	played_postgres_start();
	is_played = true;
	clock_stop();
	uv_loop_init(&loop);
	relay = relay_open(&loop, &config);
	played_postgres_set_state(POSTGRES_READY);
}

static void tear_down(void)
{
	relay_close(relay, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(relay, .init = set_up, .fini = tear_down, .timeout = 60);

static void say(struct postgres_answer answer, const char *const *cells)
{
	played_postgres.cells = cells;
	answer.error = answer.error ? answer.error : answer.result ? "no (42501)" : NULL;
	answer.rows = cells ? 1 : 0;
	played_postgres_answer(answer, POSTGRES_READY);
	played_postgres.cells = NULL;
}

/* Runs until the relay sends this statement. Others get empty answers. */
static void wait_for(const char *sql)
{
	for (int turns = 0; played_postgres.state != POSTGRES_BUSY || strcmp(played_postgres.sql, sql) != 0; turns++) {
		cr_assert_lt(turns, 1000, "it is never asked");
		if (played_postgres.state == POSTGRES_BUSY)
			say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
		else
			clock_pass(uv_backend_timeout(&loop));
		uv_run(&loop, UV_RUN_NOWAIT);
	}
}

/* Returns the texts of the first n columns, each in brackets. */
static void expect_columns(int n, const char *expected)
{
	char text[300] = "";

	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "[%s]", played_postgres_texts(i));
	cr_assert_str_eq(text, expected);
}

static const char *const row[] = {"7", "w", "1", "1700000000", "e", "{}", "f", "5000000", "70", "0", "5000"};

static void lease_row(void)
{
	wait_for(SQL_LEASE);
	say((struct postgres_answer){.result = POSTGRES_OK}, row);
}

/* Leases n rows, which are the same. */
static void lease_times(size_t n)
{
	wait_for(SQL_LEASE);
	played_postgres.cells = row;
	played_postgres_answer((struct postgres_answer){.result = POSTGRES_OK, .rows = n}, POSTGRES_READY);
	played_postgres.cells = NULL;
}

/* Its text is "" if the request has no headers of its own. */
static const char *header_sent(void)
{
	const struct bytes *lines = &requested_of->header_lines;

	return lines->len ? lines->at : "";
}

static void answer(int status)
{
	delivery_cb *cb = answer_request;

	cr_assert(cb);
	answer_request = NULL;
	cb(answer_arg, &(const struct target_answer){status, 0, "its words", false});
}

Test(relay, rows_are_asked_for_with_their_leases)
{
	wait_for(SQL_LEASE);
	expect_columns(6, "[w w][1 1][11000 11000][- -][0 0][0 1]");
	cr_assert_str_eq(played_postgres.values[6], "2097152");
	cr_assert_str_eq(played_postgres.values[7], "4194304");
	cr_assert_str_eq(played_postgres.values[8], "4000");
}

Test(relay, each_lease_begins_with_another_lane)
{
	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres_texts(5), "0 1");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres_texts(5), "1 0");
}

/* Answers this lease. Returns after how long the next one searches all rows. */
static int64_t wait_for_all(void)
{
	uint64_t from = uv_now(&loop);

	do {
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
		wait_for(SQL_LEASE);
	} while (strcmp(played_postgres_texts(4), "0 0") != 0);
	return (int64_t)(uv_now(&loop) - from);
}

Test(relay, all_rows_are_searched_after_ten_seconds_and_for_a_twentieth_of_the_time)
{
	int64_t ms;

	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres_texts(4), "0 0");
	ms = wait_for_all();
	cr_assert(ms >= 10000 && ms < 11000, "%lld", (long long)ms);
	clock_pass(3000);
	uv_run(&loop, UV_RUN_NOWAIT);
	ms = wait_for_all();
	cr_assert(ms >= 60000 && ms < 61000, "%lld", (long long)ms);
}

Test(relay, a_lane_without_rows_is_searched_from_its_last_search)
{
	wait_for(SQL_LEASE);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	long us = strtol(played_postgres_texts(4), NULL, 10);
	cr_assert(us <= -2400000 && us >= -2600000, "%ld", us);
	say((struct postgres_answer){.result = POSTGRES_OK}, row);
	answer(204);
	wait_for(SQL_RECORD);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_not_null(strstr(played_postgres_texts(4), "3000000"));
	wait_for_all();
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_null(strstr(played_postgres_texts(4), "3000000"), "others may have delivered millions since then");
}

/* It may read millions of dead entries of the index, and leases wait meanwhile. */
Test(relay, the_backlog_is_queried_for_a_twentieth_of_the_time)
{
	const enum postgres_result results[] = {POSTGRES_UNKNOWN, POSTGRES_TROUBLE, POSTGRES_OK};
	uint64_t from;

	for (int i = 0; i < 3; i++) {
		wait_for(SQL_BACKLOG);
		clock_pass(5000);
		uv_update_time(&loop);
		say((struct postgres_answer){.result = results[i], .is_locked = i == 1}, NULL);
		from = uv_now(&loop);
		wait_for(SQL_BACKLOG);
		cr_assert(uv_now(&loop) - from < 30000 || i == 2, "it did not run");
	}
	cr_assert_geq(uv_now(&loop) - from, 100000);
}

/* Otherwise each lease may read millions of dead entries of the index. */
Test(relay, a_lane_without_rows_is_not_searched_as_a_whole_while_others_have_rows)
{
	lease_times(2);
	answer(204);
	wait_for(SQL_LEASE);
	cr_assert_not_null(strchr(played_postgres_texts(4), '-'), "%s", played_postgres_texts(4));
}

Test(relay, a_delivery_is_recorded)
{
	lease_row();
	cr_assert_str_eq(requested, "w 1700000000 {}");
	answer(204);
	wait_for(SQL_RECORD);
	expect_columns(6, "[7][70][delivered][204][-][0]");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	expect_columns(1, "[w w]");
	cr_assert_str_eq(played_postgres_texts(4), "0 3000000", "%s, not two seconds before the last one that was due",
			 played_postgres_texts(4));
}

Test(relay, a_failure_is_recorded_with_its_words_and_the_wait)
{
	lease_row();
	answer(503);
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres_texts(2), "retry");
	cr_assert_str_eq(played_postgres_texts(3), "503");
	cr_assert_str_eq(played_postgres_texts(4), "its words");
	cr_assert_gt(atoi(played_postgres_texts(5)), 0);
}

Test(relay, a_url_that_is_gone_does_not_pause_the_one_that_took_its_place)
{
	lease_row();
	snprintf(webhook.digest, sizeof(webhook.digest), "another");
	relay_change(relay);
	answer(410);
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres_texts(2), "unsent");
}

/* Its lease could end before its request does. */
Test(relay, a_row_that_was_leased_for_a_shorter_timeout_is_given_back)
{
	lease_times(2);
	webhook.timeout_ms = 60000;
	relay_change(relay);
	answer(204);
	cr_assert_null(answer_request);
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres_texts(2), "delivered unsent");
}

/* Eight attempts were made where three are allowed, because listeners died. The next row gets the slot. */
Test(relay, a_row_that_is_given_up_keeps_no_place)
{
	static const char *const lost[] = {"7", "w", "9", "1700000000", "e", "{}", "f", "5000000", "70", "0"};

	for (int i = 0; i < 3; i++) {
		wait_for(SQL_LEASE);
		expect_columns(1, "[w w]");
		say((struct postgres_answer){.result = POSTGRES_OK}, lost);
		cr_assert_null(answer_request);
		wait_for(SQL_RECORD);
		cr_assert_str_eq(played_postgres_texts(2), "dead");
		cr_assert(strstr(played_postgres_texts(4), "lost"), "%s", played_postgres_texts(4));
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	}
	cr_assert_eq(relay_target(relay, 0)->waiting, 0);
}

static void set_token(const char *path, const char *token)
{
	FILE *out = fopen(path, "w");

	cr_assert(out);
	fputs(token, out);
	fclose(out);
}

/* Delivers a row, so much later, and expects this header. */
static void deliver_after(uint64_t ms, const char *header)
{
	clock_pass(ms);
	if (played_postgres.state == POSTGRES_BUSY) /* a lease that was answered so late would be given back */
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	uv_run(&loop, UV_RUN_NOWAIT);
	lease_row();
	cr_assert_str_eq(header_sent(), header);
	answer(204);
	wait_for(SQL_RECORD);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
}

/* Runs everything due by then. Returns true if a statement is in progress. */
static bool is_asked_after(uint64_t ms)
{
	clock_pass(ms);
	uv_run(&loop, UV_RUN_NOWAIT);
	return played_postgres.state == POSTGRES_BUSY;
}

Test(relay, records_wait_for_others_while_there_is_enough_to_send)
{
	lease_times(3);
	answer(204);
	cr_assert_not(is_asked_after(19), "one waits to be sent");
	cr_assert(is_asked_after(1));
	cr_assert_str_eq(played_postgres.sql, SQL_RECORD);
	expect_columns(1, "[7]");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	answer(204);
	cr_assert(is_asked_after(0), "nothing waits to be sent");
	cr_assert_str_eq(played_postgres.sql, SQL_RECORD);
}

Test(relay, many_records_do_not_wait)
{
	lease_times(60);
	for (int i = 0; i < 49; i++)
		answer(204);
	cr_assert_not(is_asked_after(0));
	answer(204);
	cr_assert(is_asked_after(0));
	cr_assert_str_eq(played_postgres.sql, SQL_RECORD);
}

/* A database that is not UTF8 may be unable to store the answer. */
Test(relay, a_record_that_is_refused_is_tried_in_ascii_and_dropped)
{
	lease_row();
	answer(204);
	for (int i = 0; i < 2; i++) {
		wait_for(SQL_RECORD);
		say((struct postgres_answer){.result = i == 1 ? POSTGRES_BAD_ROW : POSTGRES_BAD_VALUE}, NULL);
	}
	wait_for(SQL_LEASE);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_BACKLOG);
}

/* The outcomes of other rows are recorded, and that of the locked one later. */
Test(relay, a_record_that_waits_for_a_lock_leaves_locked_rows_out)
{
	static const char *const locked[] = {"7"};

	lease_row();
	answer(204);
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres.values[6], "");
	cr_assert_eq(played_postgres.lock_timeout_ms, 2000);
	say((struct postgres_answer){.result = POSTGRES_TROUBLE, .is_locked = true}, NULL);
	for (int i = 0; i < 3; i++) {
		wait_for(SQL_RECORD);
		expect_columns(3, "[7][70][delivered]");
		cr_assert_str_eq(played_postgres.values[6], "skip");
		if (i == 1) /* another row is refused: the locked one would hold up the next record again */
			say((struct postgres_answer){.result = POSTGRES_BAD_VALUE}, NULL);
		else
			say((struct postgres_answer){.result = POSTGRES_OK}, i < 2 ? locked : NULL);
	}
	lease_row();
	answer(204);
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres.values[6], "");
}

Test(relay, a_record_that_cannot_be_made_now_is_kept)
{
	lease_times(3);
	answer(204);
	answer(204);
	for (int i = 0; i < 5; i++) {
		wait_for(SQL_RECORD);
		expect_columns(3, "[7 7][70 70][delivered delivered]");
		say((struct postgres_answer){.result = POSTGRES_TROUBLE}, NULL);
	}
	wait_for(SQL_RECORD);
}

/* Runs until a lease asks for a row to probe a receiver that fails. */
static void fail_until_probe(void)
{
	for (int i = 0; i < 5; i++) {
		lease_row();
		answer(503);
		wait_for(SQL_RECORD);
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	}
	wait_for(SQL_LEASE);
	/* The lanes take turns in being the first. */
	for (int leases = 0; !strstr(played_postgres_texts(3), "newest"); leases++) {
		cr_assert_lt(leases, 10, "it takes %s", played_postgres_texts(3));
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
		wait_for(SQL_LEASE);
	}
}

/* So a lane whose oldest rows fail finds others. The rows that were not sent keep their place. */
Test(relay, probe_takes_the_newest_row)
{
	fail_until_probe();
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres_texts(3), "- -", "it reads all dead entries of the index again");
}

/* Otherwise nothing is sent to a receiver that works again until all rows that have expired are dead, one by one. */
Test(relay, probe_that_finds_an_expired_row_takes_the_newest_next)
{
	fail_until_probe();
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	webhook.ttl_ms = 4999;
	relay_change(relay);
	lease_row();
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres_texts(2), "dead");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_not_null(strstr(played_postgres_texts(3), "newest"), "%s", played_postgres_texts(3));
}

/* --- rows that cannot be leased --- */

/* A row of the retry lane. */
static const char *const peeked[] = {"9", "4", "6000000", "90"};

static void peek_row(void)
{
	wait_for(SQL_PEEK);
	cr_assert_str_eq(played_postgres.values[0], "w");
	say((struct postgres_answer){.result = POSTGRES_OK}, peeked);
	cr_assert_str_eq(played_postgres.sql, SQL_LEASE);
	expect_columns(5, "[w][1][11000][9][0]");
}

Test(relay, what_fails_twice_is_leased_row_by_row)
{
	for (int i = 0; i < 2; i++) {
		wait_for(SQL_LEASE);
		say((struct postgres_answer){.result = POSTGRES_TROUBLE}, NULL);
	}
	peek_row();
	say((struct postgres_answer){.result = POSTGRES_TROUBLE}, NULL);
	wait_for(SQL_RECORD);
	expect_columns(6, "[9][90][retry][-][no (42501)][60000]");
}

Test(relay, a_refusal_is_a_rows_at_once_and_what_its_value_is_to_blame_for_is_dead)
{
	static const char *const errors[] = {"no (22003)", "no (54000)", "no (XX001)"};

	wait_for(SQL_LEASE);
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW}, NULL);
	for (int i = 0; i < 3; i++) {
		peek_row();
		say((struct postgres_answer){.result = POSTGRES_TROUBLE, .error = errors[i]}, NULL);
		wait_for(SQL_RECORD);
		cr_assert_str_eq(played_postgres_texts(2), "dead");
		cr_assert_str_eq(played_postgres_texts(4), errors[i]);
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	}
}

Test(relay, slow_leases_are_halved_and_quick_ones_doubled)
{
	wait_for(SQL_LEASE);
	clock_pass(2501);
	uv_update_time(&loop);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres.values[7], "2097152");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	wait_for(SQL_LEASE);
	cr_assert_str_eq(played_postgres.values[7], "4194304");
}

/* For example, because the role lost its right to change the outbox. */
static void refuse_all(int64_t ms)
{
	uint64_t until = uv_now(&loop) + (uint64_t)ms;

	while (uv_now(&loop) < until) {
		if (played_postgres.state != POSTGRES_BUSY)
			clock_pass(uv_backend_timeout(&loop));
		else if (strcmp(played_postgres.sql, SQL_PEEK) == 0)
			say((struct postgres_answer){.result = POSTGRES_OK}, peeked);
		else
			say((struct postgres_answer){.result = POSTGRES_TROUBLE}, NULL);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
}

Test(relay, a_row_that_can_be_neither_leased_nor_recorded_is_kept_once)
{
	refuse_all(100000);
	wait_for(SQL_RECORD);
	expect_columns(2, "[9][90]");
}

Test(relay, what_keeps_it_from_working_is_told_until_it_has_worked_for_ten_seconds)
{
	int64_t worked = 0;

	cr_assert_str_eq(relay_error(relay), "");
	refuse_all(1000);
	cr_assert_str_eq(relay_error(relay), "", "that may be a connection that breaks");
	refuse_all(9000);
	cr_assert_str_eq(relay_error(relay), "no (42501)");
	for (uint64_t from = uv_now(&loop); *relay_error(relay); worked = (int64_t)(uv_now(&loop) - from)) {
		cr_assert_lt(worked, 20000);
		wait_for(SQL_LEASE);
		say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	}
	cr_assert_gt(worked, 5000);
	wait_for(SQL_LEASE);
	clock_pass(10000); /* as while somebody has locked the table */
	uv_update_time(&loop);
	cr_assert_str_eq(relay_error(relay), "a statement has had no answer for ten seconds");
	say((struct postgres_answer){.result = POSTGRES_TROUBLE}, NULL);
	cr_assert_str_eq(relay_error(relay), "no (42501)");
	refuse_all(9000);
	peek_row();
	clock_pass(9999);
	uv_update_time(&loop);
	cr_assert_str_eq(relay_error(relay), "no (42501)", "that a row can be found proves nothing");
	played_postgres_set_state(POSTGRES_DOWN);
	cr_assert_str_eq(relay_error(relay), postgres_error(NULL));
}

/* --- draining --- */

static void on_drained(void *arg)
{
	is_drained = true;
}

Test(relay, what_is_at_work_when_the_time_is_over_is_cut_off_and_recorded)
{
	lease_row();
	relay_drain(relay, on_drained, NULL);
	for (int i = 0; i < 50; i++) {
		clock_pass(100);
		uv_run(&loop, UV_RUN_NOWAIT);
		cr_assert_not(is_drained);
	}
	cr_assert_null(answer_request);
	wait_for(SQL_RECORD);
	expect_columns(6, "[7][70][retry][-][the listener was stopped before the answer came][0]");
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	cr_assert(is_drained);
}

Test(relay, what_ends_in_time_is_recorded_before_it_leaves)
{
	lease_row();
	relay_drain(relay, on_drained, NULL);
	answer(204);
	wait_for(SQL_RECORD);
	cr_assert_not(is_drained);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
	cr_assert(is_drained);
}

Test(relay, of_a_statement_without_an_answer_no_outcome_is_missed)
{
	wait_for(SQL_LEASE);
	capture_begin();
	relay_drain(relay, on_drained, NULL);
	for (int turns = 0; !is_drained; turns++) {
		cr_assert_lt(turns, 1000);
		clock_pass(uv_backend_timeout(&loop));
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	const char *text = capture_end();
	cr_assert_null(strstr(text, "outcomes of deliveries"), "%s", text);
}

/* A token that is renewed in its file is sent within ten seconds; if the file is gone, the last one is. */
Test(relay, token_in_a_file_is_read_again)
{
	char path[] = "/tmp/wsonce-secret-XXXXXX";

	close(mkstemp(path));
	set_token(path, "first");
	webhook.bearer_file = path;
	relay_change(relay);
	deliver_after(10000, "authorization: Bearer first");
	set_token(path, "second");
	deliver_after(9000, "authorization: Bearer first");
	deliver_after(1000, "authorization: Bearer second");
	unlink(path);
	deliver_after(10000, "authorization: Bearer second");
}

Test(relay, delivery_older_than_its_ttl_is_dead_without_an_attempt)
{
	webhook.ttl_ms = 4999;
	relay_change(relay);
	lease_row();
	cr_assert_null(answer_request);
	wait_for(SQL_RECORD);
	expect_columns(5, "[7][70][dead][-][it waited for longer than ttl_s]");
	cr_assert_eq(relay_target(relay, 0)->waiting, 0);
}

Test(relay, delivery_as_old_as_its_ttl_is_sent)
{
	webhook.ttl_ms = 5000;
	relay_change(relay);
	lease_row();
	cr_assert(answer_request);
}

/* --- batches --- */

/* Answers the lease with n rows, new ones or retries, with these bytes as their bodies. */
static void lease_rows(int n, const char *attempt, const char *body)
{
	static const char *cells[11];

	memcpy(cells, row, sizeof(cells));
	cells[2] = attempt;
	cells[9] = strcmp(attempt, "1") == 0 ? "0" : "1";
	cells[5] = body;
	wait_for(SQL_LEASE);
	played_postgres.cells = cells;
	played_postgres_answer((struct postgres_answer){.result = POSTGRES_OK, .rows = (size_t)n}, POSTGRES_READY);
	played_postgres.cells = NULL;
}

static void set_batch(int rows, int64_t bytes, enum webhook_format format)
{
	webhook.batch = rows;
	webhook.batch_bytes = bytes;
	webhook.format = format;
	relay_change(relay);
}

static void expect_outcomes(const char *expected)
{
	wait_for(SQL_RECORD);
	cr_assert_str_eq(played_postgres_texts(2), expected);
	say((struct postgres_answer){.result = POSTGRES_OK}, NULL);
}

Test(relay, what_waits_goes_in_one_request_and_has_its_answer)
{
	set_batch(20, 1000, WEBHOOK_JSON);
	lease_rows(2, "1", "{}");
	cr_assert_str_eq(requested, "w 1700000000 [{},{}]");
	answer(204);
	expect_outcomes("delivered delivered");
	lease_rows(1, "1", "{}");
	cr_assert_str_eq(requested, "w 1700000000 [{}]");
	answer(500);
	expect_outcomes("retry");
}

/* Or outcomes would come faster than they are recorded, and leases end before. */
Test(relay, outcomes_beside_a_refused_one_are_recorded_before_more_is_leased)
{
	static const char *const records[] = {"7 7 7 7", "7 7", "7", "7", "7 7"};

	set_batch(4, 1000, WEBHOOK_JSON);
	lease_rows(4, "1", "{}");
	answer(204);
	wait_for(SQL_RECORD);
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW}, NULL);
	wait_for(SQL_RECORD);
	for (int i = 0; i < 5; i++) {
		cr_assert_str_eq(played_postgres.sql, SQL_RECORD);
		cr_assert_str_eq(played_postgres_texts(0), records[i]);
		say((struct postgres_answer){.result = i < 3 ? POSTGRES_BAD_ROW : POSTGRES_OK}, NULL);
	}
	cr_assert_str_neq(played_postgres.sql, SQL_RECORD);
}

/* Or they would be tried together again after each wait for the lock, and be delivered again before. */
Test(relay, outcomes_beside_a_refused_and_a_locked_one_are_recorded)
{
	static const struct {
		const char *rows, *locks;
		enum postgres_result result;
	} records[] = {{"7 7 7 7", "", POSTGRES_BAD_ROW},
		       {"7 7 7 7", "", POSTGRES_BAD_ROW},
		       {"7 7", "", POSTGRES_TROUBLE},
		       {"7 7", "skip", POSTGRES_OK},
		       {"7 7", "skip", POSTGRES_OK}};

	set_batch(4, 1000, WEBHOOK_JSON);
	lease_rows(4, "1", "{}");
	answer(204);
	for (int i = 0; i < 5; i++) {
		wait_for(SQL_RECORD);
		cr_assert_str_eq(played_postgres_texts(0), records[i].rows);
		cr_assert_str_eq(played_postgres.values[6], records[i].locks);
		say((struct postgres_answer){records[i].result, .is_locked = i == 2}, NULL);
	}
}

Test(relay, batch_has_as_many_rows_as_its_limits_allow)
{
	set_batch(20, 12, WEBHOOK_JSON);
	lease_rows(7, "1", "\"a\"");
	cr_assert_str_eq(requested, "w 1700000000 [\"a\",\"a\"]", "and a comma, a third and the end are too much");
	answer(204);
	cr_assert_str_eq(requested, "w 1700000000 [\"a\",\"a\"]");
	set_batch(2, 1000, WEBHOOK_JSON);
	answer(204);
	cr_assert_str_eq(requested, "w 1700000000 [\"a\",\"a\"]");
	answer(204);
	cr_assert_str_eq(requested, "w 1700000000 [\"a\"]");
}

/* A row that is alone is dead by 400. */
Test(relay, rows_of_a_batch_that_is_refused_are_sent_in_smaller_ones)
{
	set_batch(20, 1000, WEBHOOK_JSON);
	lease_rows(3, "1", "0");
	answer(400);
	expect_outcomes("retry retry retry");
	lease_rows(3, "2", "0");
	cr_assert_str_eq(requested, "w 1700000000 [0,0]");
	answer(400);
	cr_assert_str_eq(requested, "w 1700000000 [0]");
	expect_outcomes("retry retry");
	answer(400);
	expect_outcomes("dead");
	lease_rows(2, "3", "0");
	cr_assert_str_eq(requested, "w 1700000000 [0]");
}

Test(relay, batch_is_cut_off_as_a_whole)
{
	set_batch(20, 1000, WEBHOOK_JSON);
	lease_rows(2, "1", "{}");
	relay_drain(relay, on_drained, NULL);
	for (int i = 0; i < 50; i++) {
		clock_pass(100);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	cr_assert_null(answer_request);
	expect_outcomes("retry retry");
	cr_assert(is_drained);
}

/* The type holds the words that are replaced. */
Test(relay, cloudevent_has_its_attributes)
{
	set_batch(0, 1000, WEBHOOK_CLOUDEVENTS);
	lease_rows(1, "1",
		   "{\"type\":\",\\\"timestamp\\\":,\",\"timestamp\":\"T\",\"id\":\"e\",\"data\":{\"timestamp\":1}}");
	cr_assert_str_eq(requested, "w 1700000000 {\"specversion\":\"1.0\",\"source\":\"wsonce/w\",\"type\":\""
				    ",\\\"timestamp\\\":,\",\"time\":\"T\",\"id\":\"e\",\"data\":{\"timestamp\":1}}");
}
