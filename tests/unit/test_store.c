/* The statements of the store, one after the other, and its reactions to their answers. */
#include "clock.h"
#include "copied.sql.h"
#include "copy.sql.h"
#include "write_dead_letters.sql.h"
#include "checkin.sql.h"
#include "epoch.sql.h"
#include "find_present.sql.h"
#include "hazards.sql.h"
#include "holder.sql.h"
#include "insert.sql.h"
#include "played_postgres.h"
#include "postgres/schema.h"
#include "store/batch.h"
#include "store/store.h"
#include "loop.h"
#include "unit.h"

#include <uv.h>

#define LONG_MS 501 /* longer than a batch may take before the store counts as stalled */

static uv_loop_t loop;
static struct store *store;
static struct event events[26]; /* a to z */
static struct batch batch;
static const char *next_ids;     /* ids of a batch to give when the store is idle; NULL: none */
static const char *next_checkin; /* check-in to send in the next pause; NULL: none */
static struct batch next_batch;
static bool is_lost_by_next; /* sending next_ids fails, because the connection is lost */
static char became[400];     /* what was reported, in order */
static char digest[32];
static struct config config = {
	.batch_max = 400, .instance_id = (char *)"i", .consumer = (char *)"", .postgres_timeout_ms = 30000};

static void note(const char *format, ...)
{
	size_t len = strlen(became);
	va_list ap;

	va_start(ap, format);
	vsnprintf(became + len, sizeof(became) - len, format, ap);
	va_end(ap);
}

static void on_stored(void *arg, struct event *ev, enum store_result result, const char *why)
{
	static const char *const words[] = {"inserted", "present",  "later",  "blocked",
					    "refused",  "hopeless", "unknown"};

	cr_assert_eq(why != NULL, result > STORE_PRESENT);
	note("%.*s %s, ", (int)ev->id_len, ev->id, words[result]);
	ev->put_offs += result == STORE_LATER || result == STORE_BLOCKED;
}

static void on_dead_lettered(void *arg, struct event *ev, enum store_dead_letter dead_letter)
{
	static const char *const words[] = {"dead_lettered", "not_dead_lettered", "has a row"};

	note("%.*s %s, ", (int)ev->id_len, ev->id, words[dead_letter]);
}

static void on_lines(void *arg, const char *rows, size_t len)
{
	if (*rows == '[')
		note("lines %.*s, ", (int)len, rows);
}

static void on_checked_in(void *arg, bool is_told, const char *answer)
{
	note("%s %s, ", is_told ? "told" : "lost", answer ? answer : "nothing");
}

static void on_database(void *arg, const char *id)
{
}

static void on_epoch(void *arg, uint32_t epoch)
{
	note("epoch %u, ", epoch);
}

static void on_pause(void *arg)
{
	if (next_checkin)
		cr_assert_eq(store_checkin(store, next_checkin), 0);
	next_checkin = NULL;
}

static void on_idle(void *arg)
{
	if (!next_ids)
		return;
	for (; *next_ids; next_ids++)
		cr_assert(batch_add(&next_batch, &events[*next_ids - 'a']));
	next_ids = NULL;
	store_insert(store, &next_batch);
	note("next, ");
	if (is_lost_by_next)
		played_postgres_set_state(POSTGRES_DOWN);
}

static void set_up(void)
{
	const struct store_callbacks on = {.on_idle = on_idle,
					   .on_pause = on_pause,
					   .on_stored = on_stored,
					   .on_dead_lettered = on_dead_lettered,
					   .on_lines = on_lines,
					   .on_checked_in = on_checked_in,
					   .on_database = on_database,
					   .on_epoch = on_epoch};

	played_postgres_start();
	clock_stop();
	uv_loop_init(&loop);
	store = store_open(&loop, &config, &on);
	batch_init(&batch, (size_t)config.batch_max, 1 << 20);
	batch_init(&next_batch, (size_t)config.batch_max, 1 << 20);
	played_postgres_set_state(POSTGRES_PREPARING);
	played_postgres_set_state(POSTGRES_READY);
	*became = '\0';
	for (int i = 0; i < 26; i++) {
		static char ids[26];

		ids[i] = (char)('a' + i);
		events[i] = (struct event){.id = &ids[i], .id_len = 1, .message = "{}", .message_len = 2};
		events[i].type = "t";
		events[i].type_len = 1;
		events[i].payload = (struct slice){"{}", 2};
		events[i].digest = (const uint8_t *)digest;
		events[i].reason = (char *)"no";
	}
}

static void tear_down(void)
{
	store_close(store, loop_on_closed, NULL);
	batch_free(&batch);
	batch_free(&next_batch);
	loop_end(&loop);
}

TestSuite(store, .init = set_up, .fini = tear_down, .timeout = 60);

static void pass(int64_t ms)
{
	clock_pass(ms);
	uv_update_time(&loop);
}

static void fill(const char *ids)
{
	batch_clear(&batch);
	for (; *ids; ids++)
		cr_assert(batch_add(&batch, &events[*ids - 'a']));
}

static void insert(const char *ids)
{
	fill(ids);
	store_insert(store, &batch);
}

static void dead_letter(const char *ids)
{
	fill(ids);
	store_dead_letter(store, &batch);
}

/* Returns the statement that waits for its answer. */
static void expect_asked(const char *expected)
{
	const char *sql = played_postgres.sql;
	char text[200];

	if (!expected) {
		cr_assert_neq(played_postgres.state, POSTGRES_BUSY);
		return;
	}
	cr_assert_eq(played_postgres.state, POSTGRES_BUSY, "nothing is asked, not %s", expected);
	if (strcmp(sql, SQL_COPY "; " SQL_COPIED) == 0)
		snprintf(text, sizeof(text), "copy");
	else if (strcmp(sql, SQL_EPOCH) == 0)
		snprintf(text, sizeof(text), "epoch");
	else if (strcmp(sql, SQL_HOLDER) == 0)
		snprintf(text, sizeof(text), "holder");
	else if (strcmp(sql, SCHEMA_WITH_HAZARDS(SQL_CHECKIN)) == 0)
		snprintf(text, sizeof(text), "check in %s", played_postgres.values[0]);
	else if (strcmp(sql, SQL_WRITE_DEAD_LETTERS) == 0)
		snprintf(text, sizeof(text), "dead_letter %s", played_postgres_texts(1));
	else
		snprintf(text, sizeof(text), "%s %s",
			 strcmp(sql, SQL_INSERT) == 0         ? "insert"
			 : strcmp(sql, SQL_FIND_PRESENT) == 0 ? "find"
							      : "another",
			 played_postgres_texts(0));
	cr_assert_str_eq(text, expected);
}

static void expect_became(const char *expected)
{
	cr_assert_str_eq(became, expected);
	*became = '\0';
}

/* Answers with rows whose first column is an id. */
static void say_rows(const char *ids)
{
	played_postgres.ids = ids;
	played_postgres_answer((struct postgres_answer){.rows = strlen(ids)}, POSTGRES_READY);
	played_postgres.ids = NULL;
}

static void say_copied(size_t rows)
{
	played_postgres_answer((struct postgres_answer){.rows = rows}, POSTGRES_READY);
}

static void say(struct postgres_answer answer)
{
	answer.error = "no";
	played_postgres_answer(answer, answer.result == POSTGRES_UNKNOWN ? POSTGRES_DOWN : POSTGRES_READY);
}

/* Returns the time in ms until the next statement. */
static int64_t wait_for_next(void)
{
	int64_t waited = 0;

	while (played_postgres.state != POSTGRES_BUSY) {
		int ms = uv_backend_timeout(&loop);

		cr_assert_geq(ms, 0, "nothing is waited for");
		clock_pass(ms);
		waited += ms;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	return waited;
}

static const struct postgres_answer trouble = {.result = POSTGRES_TROUBLE},
				    its_fault = {.result = POSTGRES_TROUBLE, .blame = POSTGRES_BLAME_ROW},
				    perhaps_its_fault = {.result = POSTGRES_TROUBLE, .blame = POSTGRES_BLAME_OPEN},
				    too_long = {.result = POSTGRES_TROUBLE, .is_late = true},
				    blocked = {.result = POSTGRES_TROUBLE,
					       .is_late = true,
					       .is_locked = true,
					       .is_blocked = true,
					       .is_local = true},
				    unknown = {.result = POSTGRES_UNKNOWN};

Test(store, rows_that_are_returned_are_new)
{
	insert("abc");
	expect_asked("insert a b c");
	say_rows("abc");
	expect_became("a inserted, b inserted, c inserted, ");
	cr_assert(store_view(store).is_idle);
}

Test(store, rows_that_are_not_returned_are_looked_up)
{
	insert("abcd");
	say_rows("bd");
	expect_became("");
	expect_asked("find a c");
	say_rows("c");
	expect_became("a refused, b inserted, c present, d inserted, ");
}

Test(store, what_does_not_pass_is_tried_four_times_and_then_halved)
{
	insert("abcd");
	for (int i = 0; i < 3; i++) {
		say(trouble);
		expect_asked(NULL);
		wait_for_next();
		expect_asked("insert a b c d");
	}
	say(trouble);
	cr_assert_gt(wait_for_next(), 0);
	expect_asked("insert a b");
	say_rows("ab");
	expect_asked("insert c d");
	say(trouble);
	wait_for_next();
	expect_asked("insert c");
	say_rows("c");
	expect_became("a inserted, b inserted, c inserted, ");
	say(trouble);
	expect_became("d later, ");
}

Test(store, one_whose_function_raised_it_is_found_at_once)
{
	insert("abcd");
	say(its_fault);
	expect_asked("insert a b");
	say(its_fault);
	expect_asked("insert a");
	say(its_fault);
	expect_became("a refused, ");
	expect_asked("insert b");
	say_rows("b");
	expect_asked("insert c d");
}

/* If no other row was stored since, the cause may be the server. */
Test(store, one_is_to_blame_if_others_are_stored_meanwhile)
{
	for (int turn = 0; turn < 2; turn++) {
		insert("a");
		for (int i = 0; i < 3 && !events[0].put_offs; i++) {
			say(perhaps_its_fault);
			wait_for_next();
		}
		say(perhaps_its_fault);
		expect_became("a later, ");
	}
	insert("b");
	say_rows("b");
	insert("a");
	say(perhaps_its_fault);
	expect_became("b inserted, a refused, ");
}

Test(store, a_server_in_trouble_is_nobodys_fault_however_often)
{
	events[0].put_offs = 5;
	insert("b");
	say_rows("b");
	insert("a");
	say(trouble);
	expect_became("b inserted, a later, ");
}

Test(store, a_value_that_cannot_be_is_hopeless)
{
	insert("ab");
	say((struct postgres_answer){.result = POSTGRES_BAD_VALUE});
	expect_asked("insert a");
	say((struct postgres_answer){.result = POSTGRES_BAD_VALUE});
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	expect_became("a hopeless, b refused, ");
}

/* --- statements that take too long, or wait --- */

Test(store, what_takes_too_long_is_halved_at_once_and_stays_small)
{
	insert("abcd");
	say(too_long);
	expect_asked("insert a b");
	say_rows("ab");
	expect_asked("insert c d");
	say_rows("cd");
	*became = '\0';
	insert("efgh");
	expect_asked("insert e f");
}

Test(store, statements_get_larger_again_after_a_while)
{
	insert("abcd");
	say(too_long);
	say_rows("ab");
	say_rows("cd");
	for (int i = 0; i < 32; i++) {
		*became = '\0';
		insert("ab");
		say_rows("ab");
	}
	insert("abcd");
	expect_asked("insert a b c d");
}

Test(store, a_function_that_takes_too_long_says_nothing_of_the_size)
{
	insert("abcd");
	say((struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .is_local = true});
	expect_asked("insert a b");
	say_rows("ab");
	say_rows("cd");
	*became = '\0';
	insert("efgh");
	expect_asked("insert e f g h");
}

Test(store, what_the_trouble_was_is_told_until_rows_are_stored)
{
	insert("ab");
	say(trouble);
	cr_assert_str_eq(store_view(store).trouble, "no");
	wait_for_next();
	cr_assert_str_eq(store_view(store).trouble, "postgres does not answer");
	say_rows("ab");
	cr_assert_str_eq(store_view(store).trouble, "not connected", "what the connection says");
}

Test(store, what_waits_for_a_lock_of_its_server_is_as_any_trouble)
{
	insert("abcd");
	say((struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .is_locked = true});
	expect_asked(NULL);
	wait_for_next();
	expect_asked("holder");
	say_rows("h");
	cr_assert(*store_view(store).holder);
	expect_asked("insert a b c d");
	say_rows("abcd");
	cr_assert_str_eq(store_view(store).holder, "");
	*became = '\0';
	insert("efgh");
	expect_asked("insert e f g h");
}

Test(store, the_row_that_another_transaction_has_is_found_in_haste)
{
	insert("abcd");
	cr_assert_eq(played_postgres.lock_timeout_ms, 750);
	cr_assert_not(store_view(store).is_searching);
	say(blocked);
	cr_assert(store_view(store).is_searching);
	expect_asked("insert a b");
	cr_assert_eq(played_postgres.lock_timeout_ms, 100);
	say(blocked);
	say(blocked);
	expect_became("a blocked, ");
	expect_asked("holder");
	say_rows("h");
	expect_asked("insert b");
	say_rows("b");
	expect_asked("insert c d");
	say_rows("cd");
	cr_assert_not(store_view(store).is_searching);
	cr_assert(*store_view(store).holder, "a still waits");
	events[0].put_offs = 1;
	insert("a");
	say_rows("a");
	cr_assert_str_eq(store_view(store).holder, "");
}

Test(store, one_that_was_blocked_waits_even_less)
{
	events[0].put_offs = 1;
	insert("a");
	cr_assert_eq(played_postgres.lock_timeout_ms, 50);
}

Test(store, a_slow_server_gets_a_longer_lock_timeout)
{
	insert("a");
	pass(300);
	say_rows("a");
	insert("b");
	cr_assert_eq(played_postgres.lock_timeout_ms, 750 + 2 * 300);
	pass(3000);
	say_rows("b");
	insert("c");
	cr_assert_eq(played_postgres.lock_timeout_ms, 2000);
}

/* If another transaction holds many rows, the remaining ones are not tried one by one. */
Test(store, not_every_row_that_another_transaction_has_is_searched_for)
{
	int statements = 0;

	insert("abcdefghijklmnopqrstuvwxyz");
	for (; played_postgres.state == POSTGRES_BUSY; statements++)
		say(blocked);
	cr_assert_lt(statements, 26, "%d", statements);
}

Test(store, a_deadlock_is_tried_again_as_it_is)
{
	insert("ab");
	say((struct postgres_answer){.result = POSTGRES_CONFLICT, .blame = POSTGRES_BLAME_ROW});
	expect_asked(NULL);
	wait_for_next();
	expect_asked("insert a b");
}

/* --- connections that end --- */

Test(store, an_unknown_outcome_is_sent_again)
{
	insert("ab");
	cr_assert(store_view(store).is_sent);
	say(unknown);
	cr_assert(store_view(store).is_sent);
	expect_asked(NULL);
	played_postgres_set_state(POSTGRES_READY);
	expect_asked("insert a b");
	say_rows("");
	expect_asked("find a b");
	cr_assert_not(store_view(store).is_idle);
	say_rows("ab");
	cr_assert_str_eq(strstr(became, "a "), "a present, b present, ");
}

/* Without an answer within the timeout, the next attempt, on a new connection, is smaller. */
Test(store, a_batch_that_is_late_is_halved_on_the_next_connection)
{
	insert("abcd");
	say((struct postgres_answer){.result = POSTGRES_UNKNOWN, .is_late = true});
	played_postgres_set_state(POSTGRES_READY);
	expect_asked("insert a b");
}

Test(store, one_that_is_late_alone_is_given_back)
{
	const struct postgres_answer late = {.result = POSTGRES_UNKNOWN, .is_late = true};

	insert("a");
	say(late);
	expect_became("a later, ");
	played_postgres_set_state(POSTGRES_READY);
	dead_letter("b");
	say(late);
	cr_assert_str_eq(strstr(became, "b "), "b not_dead_lettered, ");
}

Test(store, a_statement_that_cannot_be_sent_is_sent_on_the_next_connection)
{
	played_postgres.is_lost = true;
	insert("ab");
	expect_asked(NULL);
	played_postgres.is_lost = false;
	played_postgres_set_state(POSTGRES_READY);
	expect_asked("insert a b");
}

Test(store, a_retry_while_postgres_is_away_waits_for_it)
{
	insert("a");
	say(trouble);
	played_postgres_set_state(POSTGRES_DOWN);
	pass(5000);
	uv_run(&loop, UV_RUN_NOWAIT);
	cr_assert_not(uv_loop_alive(&loop));
	played_postgres_set_state(POSTGRES_READY);
	expect_asked("insert a");
}

/* Each new connection first checks the handler. */
Test(store, a_retry_is_sent_when_the_check_of_the_handler_is_over)
{
	static const char *handler = "=h";

	tear_down();
	config.handler = (char *)"h";
	set_up();
	played_postgres.cells = &handler;
	say((struct postgres_answer){.rows = 1});
	insert("a");
	say((struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .is_locked = true});
	played_postgres_set_state(POSTGRES_DOWN);
	played_postgres_set_state(POSTGRES_READY);
	pass(5000);
	uv_run(&loop, UV_RUN_NOWAIT);
	say((struct postgres_answer){.rows = 1});
	cr_assert_eq(played_postgres.state, POSTGRES_BUSY);
	cr_assert_str_eq(played_postgres_texts(0), "a");
	played_postgres.cells = NULL;
}

Test(store, nothing_is_sent_before_it_is_ready)
{
	played_postgres_set_state(POSTGRES_PREPARING);
	cr_assert_not(store_view(store).is_idle);
	played_postgres_set_state(POSTGRES_READY);
	expect_asked(NULL);
	cr_assert(store_view(store).is_idle);
}

Test(store, one_that_is_long_at_work_or_away_has_stalled)
{
	cr_assert_not(store_view(store).is_stalled);
	pass(LONG_MS);
	cr_assert_not(store_view(store).is_stalled, "it has nothing to do");
	insert("a");
	cr_assert_not(store_view(store).is_stalled);
	pass(LONG_MS);
	cr_assert(store_view(store).is_stalled);
	say_rows("a");
	store_checkin(store, "x");
	cr_assert_not(store_view(store).is_stalled);
	pass(LONG_MS);
	cr_assert(store_view(store).is_stalled);
	say_rows("k");
	played_postgres_set_state(POSTGRES_CONNECTING);
	cr_assert(store_view(store).is_stalled);
}

/* --- the epoch --- */

Test(store, an_epoch_is_beyond_doubt_for_a_second)
{
	cr_assert(store_is_sure(store));
	pass(1000);
	cr_assert(store_is_sure(store));
	pass(1);
	cr_assert_not(store_is_sure(store));
	cr_assert_eq(store_ask_epoch(store), 0);
	expect_asked("epoch");
	pass(7);
	played_postgres_answer((struct postgres_answer){.has_epoch = true, .epoch = 1}, POSTGRES_READY);
	pass(993);
	cr_assert(store_is_sure(store), "from when it was asked on");
	pass(1);
	cr_assert_not(store_is_sure(store));
	cr_assert(store_view(store).is_idle);
}

Test(store, an_epoch_that_is_not_known_cannot_be_in_doubt)
{
	played_postgres_set_state(POSTGRES_DOWN);
	expect_became("epoch 0, ");
	pass(5000);
	cr_assert(store_is_sure(store));
}

Test(store, the_epoch_is_not_asked_for_all_the_time)
{
	pass(49);
	cr_assert_eq(store_ask_epoch(store), 0);
	expect_asked(NULL);
	pass(1);
	cr_assert_eq(store_ask_epoch(store), 0);
	expect_asked("epoch");
}

/* Between the two statements the database lost commits that the first one saw. */
Test(store, two_statements_of_a_batch_are_of_one_epoch)
{
	insert("ab");
	played_postgres.ids = "a";
	played_postgres_answer((struct postgres_answer){.rows = 1, .has_epoch = true, .epoch = 1}, POSTGRES_READY);
	expect_asked("find b");
	played_postgres.ids = "b";
	played_postgres_answer((struct postgres_answer){.rows = 1, .has_epoch = true, .epoch = 2}, POSTGRES_READY);
	expect_became("epoch 2, ");
	expect_asked("insert a b");
}

Test(store, a_second_statement_without_an_epoch_is_no_other_epoch)
{
	insert("ab");
	played_postgres.ids = "a";
	played_postgres_answer((struct postgres_answer){.rows = 1, .has_epoch = true, .epoch = 1}, POSTGRES_READY);
	say_rows("b");
	expect_became("a inserted, b present, ");
}

Test(store, the_next_batch_is_sent_before_the_first_is_told_of)
{
	next_ids = "def";
	insert("abc");
	say_rows("ac");
	expect_asked("find b");
	say_rows("b");
	expect_asked("insert d e f");
	expect_became("next, a inserted, b present, c inserted, ");
	cr_assert_not(store_view(store).is_idle);
	say_rows("df");
	say_rows("");
	expect_became("d inserted, e refused, f inserted, ");
	cr_assert(store_view(store).is_idle);
}

/* Their marks in Redis are of that epoch. */
Test(store, the_epoch_is_told_of_after_the_events_that_were_stored_in_it)
{
	next_ids = "d";
	is_lost_by_next = true;
	insert("abc");
	say_rows("abc");
	expect_became("next, a inserted, b inserted, c inserted, epoch 0, ");
}

Test(store, what_is_given_up_is_unknown)
{
	insert("abcd");
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	expect_asked("insert a b");
	say_rows("ab");
	expect_became("a inserted, b inserted, ");
	played_postgres_set_state(POSTGRES_DOWN);
	expect_became("epoch 0, ");
	store_give_up(store);
	expect_became("c unknown, d unknown, ");
	played_postgres_answer((struct postgres_answer){.result = POSTGRES_UNKNOWN}, POSTGRES_DOWN);
	expect_became("");
	played_postgres_set_state(POSTGRES_PREPARING);
	played_postgres_set_state(POSTGRES_READY);
	expect_asked(NULL);
	cr_assert(store_view(store).is_idle);
	insert("e");
	expect_asked("insert e");
}

Test(store, who_waits_for_another_try_can_give_up)
{
	insert("a");
	say(trouble);
	played_postgres_set_state(POSTGRES_DOWN);
	store_give_up(store);
	expect_became("epoch 0, a unknown, ");
	cr_assert_eq(uv_backend_timeout(&loop), 0, "it is tried again");
}

Test(store, who_has_nothing_at_hand_gives_up_nothing)
{
	store_give_up(store);
	expect_became("");
	pass(50);
	cr_assert_eq(store_ask_epoch(store), 0);
	store_give_up(store);
	expect_became("");
	cr_assert_not(store_view(store).is_idle);
}

Test(store, a_batch_in_parts_is_over_when_the_last_one_is)
{
	next_ids = "ef";
	insert("abcd");
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	expect_asked("insert a b");
	say_rows("ab");
	expect_became("a inserted, b inserted, ");
	expect_asked("insert c d");
	say_rows("cd");
	expect_became("next, c inserted, d inserted, ");
	expect_asked("insert e f");
}

/* --- COPY --- */

/* Enough rows for a lookup before COPY: each event three times. */
static void insert_many(void)
{
	batch_clear(&batch);
	for (int i = 0; i < 78; i++)
		cr_assert(batch_add(&batch, &events[i / 3]));
	store_insert(store, &batch);
}

Test(store, many_rows_go_by_copy)
{
	insert_many();
	expect_asked("copy");
	say_copied(78);
	cr_assert(store_view(store).is_idle);
	*became = '\0';
	insert_many();
	expect_asked("copy");
}

Test(store, few_rows_with_many_bytes_go_by_copy)
{
	events[1].message_len = 255 << 10;
	insert("ab");
	expect_asked("insert a b");
	say_rows("ab");
	events[1].message_len = 256 << 10;
	insert("ab");
	expect_asked("copy");
	say_copied(2);
	events[0].attempts = 1;
	insert("ab");
	expect_asked("insert a b"); /* COPY would be refused again */
}

#define ENOUGH "abcdefghijklmnopqrstuvwx" /* rows for COPY */

static void expect_inserted(void)
{
	cr_assert_eq(strncmp(played_postgres.sql, SQL_INSERT, sizeof(SQL_INSERT)), 0);
}

Test(store, rows_that_failed_before_go_by_insert)
{
	for (int i = 0; i < 24; i++)
		events[i].attempts = 1;
	insert(ENOUGH);
	expect_inserted();
}

Test(store, few_rows_and_rows_kept_back_go_by_insert)
{
	insert(&ENOUGH[1]);
	expect_inserted();
	say_rows(&ENOUGH[1]);
	insert(ENOUGH);
	expect_asked("copy");
	say_copied(23);
	expect_inserted();
}

/* Looking up which of them exist would not pay. */
Test(store, rather_few_rows_go_by_insert_after_a_refused_copy)
{
	insert(ENOUGH);
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	for (int i = 0; i < 4; i++) {
		expect_inserted();
		say_rows(ENOUGH);
		insert(ENOUGH);
	}
	expect_asked("copy");
}

static void store_by_insert(void)
{
	char ids[78];

	for (int i = 0; i < 78; i++)
		ids[i] = (char)('a' + i / 3);
	expect_inserted();
	played_postgres.ids = ids;
	played_postgres_answer((struct postgres_answer){.rows = 78}, POSTGRES_READY);
	*became = '\0';
}

/* After a refused COPY, ids are looked up before the next four batches; if that does not help, INSERT is used. */
Test(store, a_refused_copy_is_followed_by_looks_and_then_by_inserts)
{
	insert_many();
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	store_by_insert();
	for (int i = 0; i < 3; i++) {
		insert_many();
		cr_assert_str_eq(played_postgres.sql, SQL_FIND_PRESENT);
		say_rows("");
		expect_asked("copy");
		say_copied(78);
	}
	insert_many();
	expect_asked("copy");
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	store_by_insert();
	insert_many();
	say_rows("");
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	store_by_insert();
	for (int i = 0; i < 3; i++) {
		insert_many();
		store_by_insert();
	}
	insert_many();
	cr_assert(strcmp(played_postgres.sql, SQL_INSERT), "it is tried again some time");
}

Test(store, rows_that_a_look_finds_are_not_copied)
{
	insert_many();
	say((struct postgres_answer){.result = POSTGRES_BAD_ROW});
	store_by_insert();
	insert_many();
	played_postgres.ids = "a";
	say_copied(1);
	played_postgres.ids = NULL;
	expect_asked("copy");
	say_copied(77);
	cr_assert_eq(strncmp(became, "a present, a inserted, ", 23), 0);
}

Test(store, a_copy_that_met_a_lock_becomes_an_insert_that_finds_the_row)
{
	insert_many();
	say(blocked);
	cr_assert(store_view(store).is_searching);
	cr_assert_eq(played_postgres.lock_timeout_ms, 100);
}

Test(store, a_copy_in_which_a_function_takes_too_long_becomes_an_insert_that_finds_the_row)
{
	insert_many();
	say((struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .is_local = true});
	cr_assert_eq(strncmp(played_postgres.sql, SQL_INSERT, sizeof(SQL_INSERT)), 0);
	cr_assert_eq(played_postgres.lock_timeout_ms, 100);
}

Test(store, a_copy_whose_outcome_is_unknown_becomes_an_insert)
{
	insert_many();
	say(unknown);
	played_postgres_set_state(POSTGRES_READY);
	cr_assert_eq(strncmp(played_postgres.sql, SQL_INSERT, sizeof(SQL_INSERT)), 0);
}

/* --- dead letters --- */

Test(store, letters_are_written_unless_there_is_a_row)
{
	events[1].id_len = 0;
	events[1].source = events[2].source = "feed"; /* of a profile, whose dead letters keep the type */
	dead_letter("abc");
	expect_asked("dead_letter a - c");
	cr_assert_str_eq(played_postgres_texts(2), "no no no");
	cr_assert_str_eq(played_postgres_texts(3), "{} {} {}");
	cr_assert_str_eq(played_postgres_texts(4), "- - -");
	cr_assert_str_eq(played_postgres_texts(5), "- - t");
	cr_assert_str_eq(played_postgres_texts(6), "- feed feed");
	cr_assert_str_eq(played_postgres.values[played_postgres.n - 3], "i");
	cr_assert_eq(*played_postgres.values[played_postgres.n - 1], 1);
	say_rows("3"); /* by its number */
	expect_became("a dead_lettered,  dead_lettered, c has a row, ");
	cr_assert(store_view(store).is_idle);
}

Test(store, a_letter_that_cannot_be_written_takes_no_other_with_it)
{
	dead_letter("ab");
	say(its_fault);
	expect_asked("dead_letter a");
	say(its_fault);
	expect_became("a not_dead_lettered, ");
	expect_asked("dead_letter b");
	cr_assert_eq(played_postgres.lock_timeout_ms, 100);
	say_rows("");
	expect_became("b dead_lettered, ");
	dead_letter("c");
	cr_assert_eq(played_postgres.lock_timeout_ms, 750);
}

Test(store, letters_that_take_too_long_are_halved)
{
	dead_letter("ab");
	say(too_long);
	expect_asked("dead_letter a");
	say_rows("");
	expect_asked("dead_letter b");
}

Test(store, letters_that_a_server_in_trouble_does_not_take_are_given_back)
{
	dead_letter("ab");
	say(trouble);
	expect_became("a not_dead_lettered, b not_dead_lettered, ");
	cr_assert(store_view(store).is_idle);
}

/* The database's encoding may lack characters of a dead letter. */
Test(store, a_letter_is_tried_in_ascii_before_it_is_given_back)
{
	dead_letter("a");
	say((struct postgres_answer){.result = POSTGRES_BAD_VALUE});
	expect_asked("dead_letter a");
	cr_assert_eq(*played_postgres.values[played_postgres.n - 1], 0);
	say((struct postgres_answer){.result = POSTGRES_BAD_VALUE});
	expect_became("a not_dead_lettered, ");
}

Test(store, only_the_head_is_kept_of_a_long_message_without_an_id)
{
	static char text[70000];

	for (int i = 0; i < 2; i++) {
		events[i].message = text;
		events[i].message_len = sizeof(text);
		events[i].id_len = (uint16_t)i;
	}
	dead_letter("a");
	cr_assert_eq(played_postgres.lens[3], 24 + 65536);
	say_rows("");
	dead_letter("b");
	cr_assert_eq(played_postgres.lens[3], 24 + sizeof(text));
}

/* --- check-ins --- */

Test(store, a_checkin_is_told_or_lost_and_not_repeated)
{
	cr_assert_eq(store_checkin(store, "x"), 0);
	expect_asked("check in x");
	cr_assert_eq(played_postgres.by_key, 1);
	cr_assert_not(store_view(store).is_idle);
	say_rows("k");
	expect_became("told k, ");
	cr_assert_eq(store_checkin(store, "y"), 0);
	say(unknown);
	played_postgres_set_state(POSTGRES_READY);
	expect_asked(NULL);
	expect_became("lost nothing, ");
}

/* Otherwise a full disk would not be reported. */
Test(store, a_checkin_may_come_between_two_tries_of_a_batch)
{
	insert("ab");
	say(trouble);
	next_checkin = "x";
	wait_for_next();
	expect_asked("check in x");
	say_rows("k");
	expect_became("told k, ");
	expect_asked("insert a b");
	say(trouble);
	next_checkin = "y";
	wait_for_next();
	expect_asked("check in y");
	say(trouble);
	expect_became("lost nothing, ");
	expect_asked("insert a b");
	say(trouble);
	next_checkin = "z";
	wait_for_next();
	say(unknown);
	expect_became("lost nothing, ");
	played_postgres_set_state(POSTGRES_READY);
	expect_asked("insert a b");
	say_rows("ab");
	expect_became("a inserted, b inserted, ");
	cr_assert(store_view(store).is_idle);
}

Test(store, a_checkin_learns_by_what_commits_may_vanish)
{
	static const char *const cells[] = {"", "[[1]]", "standbys"}, *const mended[] = {"3600", "", ""};

	cr_assert_str_eq(store_view(store).hazards, "");
	cr_assert_eq(store_checkin(store, "x"), 0);
	played_postgres.cells = cells;
	say_copied(1);
	cr_assert_str_eq(store_view(store).hazards, "standbys");
	expect_became("lines [[1]], told nothing, ");
	cr_assert_eq(store_checkin(store, "x"), 0);
	played_postgres.cells = mended;
	say_copied(1);
	cr_assert_str_eq(store_view(store).hazards, "");
	expect_became("told 3600, ");
}
