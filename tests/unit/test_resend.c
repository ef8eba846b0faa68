/* A statement that fails is sent again after waits that grow up to a cap. Postgres is a fake, and each random wait is
 * the longest possible. */
#include "clock.h"
#include "outbox/relay.h"
#include "played_postgres.h"
#include "store/batch.h"
#include "store/store.h"
#include "loop.h"
#include "unit.h"

#include <uv.h>

#define EVENTS 1024 /* enough for a batch to be halved ten times */
#define WAITS  12

static uv_loop_t loop;

/* --- the fake connection --- */

uint32_t __real_backoff_draw(void);
static bool is_played;

/* One less than a multiple of every bound used here, so that each draw is the longest. */
uint32_t __wrap_backoff_draw(void)
{
	return is_played ? 79999 : __real_backoff_draw();
}

/* --- failing --- */

static void set_up(void)
{
	is_played = true;
	played_postgres_start();
	clock_stop();
	uv_loop_init(&loop);
}

TestSuite(resend, .init = set_up, .timeout = 60);

static bool is_asked(void)
{
	return played_postgres.state == POSTGRES_BUSY;
}

static void become_ready(void)
{
	played_postgres_set_state(POSTGRES_READY);
}

static void close_loop(void)
{
	loop_end(&loop);
}

/* Gives the current statement this answer. Returns the time in ms until the next one. */
static int64_t answer_and_wait(struct postgres_answer answer)
{
	int64_t waited = 0;

	cr_assert(is_asked());
	played_postgres_answer(answer, POSTGRES_READY);
	while (!is_asked()) {
		int ms = uv_backend_timeout(&loop);

		cr_assert_geq(ms, 0, "nothing is waited for");
		clock_pass(ms);
		waited += ms;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	return waited;
}

static int64_t fail_and_wait(void)
{
	return answer_and_wait((struct postgres_answer){.result = POSTGRES_TROUBLE, .error = "no room (53100)"});
}

/* --- the store --- */

static void on_event(void *arg, struct event *ev, enum store_result result, const char *why)
{
}

static void on_epoch(void *arg, uint32_t epoch)
{
}

static void on_database(void *arg, const char *id)
{
}

static struct event events[EVENTS];
static struct batch batch;

static struct store *open_store(void)
{
	static const struct config config = {
		.batch_max = EVENTS, .instance_id = "i", .consumer = "", .postgres_timeout_ms = 30000};

	batch_init(&batch, EVENTS, 1 << 20);
	return store_open(
		&loop, &config,
		&(struct store_callbacks){.on_stored = on_event, .on_database = on_database, .on_epoch = on_epoch});
}

/* Claimed events, those with the last ids first. */
static void fill_batch(int count)
{
	static char ids[EVENTS][8];

	batch_clear(&batch);
	for (int i = 0; i < count; i++) {
		events[i] = (struct event){.id = ids[i], .message = "{}", .message_len = 2, .type = "t", .type_len = 1};
		events[i].id_len = (uint16_t)sprintf(ids[i], "%04d", count - i);
		events[i].payload = (struct slice){"{}", 2};
		events[i].is_claimed = true;
		cr_assert(batch_add(&batch, &events[i]));
	}
}

static void close_store(struct store *s)
{
	store_close(s, loop_on_closed, NULL);
	batch_free(&batch);
	close_loop();
}

Test(resend, of_the_store_comes_within_a_second)
{
	static const int64_t waits[WAITS] = {50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
	struct store *s = open_store();

	fill_batch(EVENTS);
	become_ready();
	store_insert(s, &batch);
	cr_assert_eq(fail_and_wait(), 0); /* after a COPY, it retries with INSERT at once */
	for (int i = 0; i < WAITS; i++) {
		int64_t waited = fail_and_wait();

		cr_assert_eq(waited, waits[i], "try %d: %lld ms", i, (long long)waited);
	}
	close_store(s);
}

Test(resend, of_claimed_events_is_in_the_order_of_ids_after_a_deadlock)
{
	const struct postgres_answer deadlock = {.result = POSTGRES_CONFLICT, .error = "deadlock detected (40P01)"};
	struct store *s = open_store();

	become_ready();
	fill_batch(3);
	store_insert(s, &batch);
	cr_assert_eq(batch.events[0], &events[0], "the order of arrival");
	answer_and_wait(deadlock);
	cr_assert_eq(batch.events[0], &events[2], "the order of ids");
	store_give_up(s);
	fill_batch(3);
	store_insert(s, &batch);
	cr_assert_eq(batch.events[0], &events[2], "and so is the next batch");
	close_store(s);
}

/* --- the relay --- */

static char name[] = "w", url[] = "http://127.0.0.1:1/";
static struct webhook webhook = {.name = name, .url = url, .timeout_ms = 1000, .concurrency = 1, .attempts = 3};
static const struct config relay_config = {.webhooks = {&webhook, 1}, .postgres_timeout_ms = 30000};

/* The relay looks for rows at least every 0.6 s. */
Test(resend, of_the_relay_comes_within_five_seconds)
{
	static const int64_t waits[WAITS] = {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000};
	struct relay *r = relay_open(&loop, &relay_config);

	become_ready();
	for (int i = 0; i < WAITS; i++) {
		int64_t waited = fail_and_wait();

		cr_assert(waited >= waits[i] && waited <= (waits[i] < 600 ? 600 : waits[i]), "try %d: %lld ms", i,
			  (long long)waited);
	}
	relay_close(r, loop_on_closed, NULL);
	close_loop();
}

/* Ends the current statement after this time, with this answer. */
static void answer_after(int64_t ms, struct postgres_answer answer)
{
	cr_assert(is_asked());
	clock_pass(ms);
	uv_update_time(&loop);
	played_postgres_answer(answer, POSTGRES_READY);
}

/* Runs until rows are leased, by the statement with nine values; answers all others at once. Returns the due_at from
 * which new rows are searched. */
static const char *next_lease(void)
{
	static char since[24];
	bool is_first; /* the lane of new rows */

	for (int turns = 0; !is_asked() || played_postgres.n != 9; turns++) {
		cr_assert_lt(turns, 10000);
		if (is_asked())
			answer_after(0, (struct postgres_answer){.result = POSTGRES_OK});
		else
			clock_pass(uv_backend_timeout(&loop));
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	is_first = *played_postgres_texts(5) == '0';
	sscanf(played_postgres_texts(4), is_first ? "%23s" : "%*s %23s", since);
	return since;
}

/* While an open transaction keeps delivered rows from being vacuumed, such a lease may take longer than a statement
 * may. */
Test(resend, a_look_at_all_rows_that_is_given_up_is_not_made_again_at_once)
{
	static const char *const row[] = {"1", "w", "1", "0", "e", "{}", "f", "5000000", "1", "0"};
	struct relay *r = relay_open(&loop, &relay_config);

	become_ready();
	cr_assert_str_eq(next_lease(), "0");
	played_postgres.cells = row; /* too late to be sent, so it is given back */
	answer_after(12000, (struct postgres_answer){.result = POSTGRES_OK, .rows = 1});
	played_postgres.cells = NULL;
	cr_assert_str_eq(next_lease(), "3000000");
	answer_after(300000, (struct postgres_answer){.result = POSTGRES_OK});
	cr_assert_str_eq(next_lease(), "0");
	answer_after(27000,
		     (struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .error = "late (57014)"});
	cr_assert_str_eq(next_lease(), "3000000");
	answer_after(0, (struct postgres_answer){.result = POSTGRES_OK});
	relay_close(r, loop_on_closed, NULL);
	close_loop();
}
