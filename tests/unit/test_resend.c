/* A statement that fails is sent again after waits that grow up to a cap. Postgres is played, and each wait is the
 * longest that may be drawn. */
#include "clock.h"
#include "outbox/relay.h"
#include "postgres/connection.h"
#include "road/batch.h"
#include "road/store.h"
#include "unit.h"

#include <uv.h>

#define EVENTS 1024 /* so many that a batch is halved ten times */
#define WAITS  12

static uv_loop_t loop;
static bool is_played;
static struct postgres_settings played;
static enum postgres_state state;
static char since[24]; /* of the lease at hand; "": it is another statement */
static const char *const *cells;

/* --- the played connection --- */

struct postgres *__real_postgres_open(uv_loop_t *l, const struct postgres_settings *settings);
enum postgres_state __real_postgres_state(const struct postgres *p);
const struct postgres_identity *__real_postgres_identity(const struct postgres *p);
void __real_postgres_set_patience(struct postgres *p, int64_t lock_ms);
int __real_postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n);
const char *__real_postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len);
int __real_postgres_copy(struct postgres *p, const char *sql, const char *bytes, size_t len);
void __real_postgres_close(struct postgres *p, void (*done)(void *arg), void *arg);
uint32_t __real_backoff_draw(void);

struct postgres *__wrap_postgres_open(uv_loop_t *l, const struct postgres_settings *settings)
{
	if (!is_played)
		return __real_postgres_open(l, settings);
	played = *settings;
	return (struct postgres *)&played;
}

enum postgres_state __wrap_postgres_state(const struct postgres *p)
{
	return is_played ? state : __real_postgres_state(p);
}

const struct postgres_identity *__wrap_postgres_identity(const struct postgres *p)
{
	static const struct postgres_identity identity = {.epoch = 1};

	return is_played ? &identity : __real_postgres_identity(p);
}

void __wrap_postgres_set_patience(struct postgres *p, int64_t lock_ms)
{
	if (!is_played)
		__real_postgres_set_patience(p, lock_ms);
}

int __wrap_postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n)
{
	if (!is_played)
		return __real_postgres_query(p, sql, values, n);
	state = POSTGRES_BUSY;
	/* A lease has eight values, of which the fifth is an array of one text: 24 bytes are before it. */
	snprintf(since, sizeof(since), "%.*s", n == 8 ? (int)values[4].len - 24 : 0,
		 n == 8 ? values[4].bytes + 24 : "");
	return 0;
}

const char *__wrap_postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len)
{
	if (!is_played)
		return __real_postgres_cell(answer, row, column, len);
	*len = cells ? strlen(cells[column]) : 0;
	return cells ? cells[column] : "";
}

int __wrap_postgres_copy(struct postgres *p, const char *sql, const char *bytes, size_t len)
{
	if (!is_played)
		return __real_postgres_copy(p, sql, bytes, len);
	state = POSTGRES_BUSY;
	return 0;
}

void __wrap_postgres_close(struct postgres *p, void (*done)(void *arg), void *arg)
{
	if (is_played)
		done(arg);
	else
		__real_postgres_close(p, done, arg);
}

/* One less than a multiple of every bound here. */
uint32_t __wrap_backoff_draw(void)
{
	return is_played ? 79999 : __real_backoff_draw();
}

/* --- failing --- */

static void set_up(void)
{
	is_played = true;
	clock_stop();
	uv_loop_init(&loop);
}

TestSuite(resend, .init = set_up, .timeout = 60);

static void become_ready(void)
{
	state = POSTGRES_READY;
	played.on_state(played.owner, state);
}

static void on_closed(void *arg)
{
	(void)arg;
}

static void close_loop(void)
{
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
}

/* Has the statement at hand fail; returns the ms until the next one. */
static int64_t fail_and_wait(void)
{
	const struct postgres_answer answer = {.result = POSTGRES_TROUBLE, .error = "no room (53100)"};
	int64_t waited = 0;

	cr_assert_eq(state, POSTGRES_BUSY);
	state = POSTGRES_READY;
	played.on_answer(played.owner, &answer);
	while (state != POSTGRES_BUSY) {
		int ms = uv_backend_timeout(&loop);

		cr_assert_geq(ms, 0, "nothing is waited for");
		clock_pass(ms);
		waited += ms;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	return waited;
}

/* --- the store --- */

static void on_event(void *arg, struct event *ev, enum store_result result, const char *why)
{
	(void)arg, (void)ev, (void)result, (void)why;
}

static void on_epoch(void *arg, uint32_t epoch)
{
	(void)arg, (void)epoch;
}

static void on_database(void *arg, const char *id)
{
	(void)arg, (void)id;
}

Test(resend, of_the_store_comes_within_a_second)
{
	static const int64_t waits[WAITS] = {50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
	static struct event events[EVENTS];
	static char ids[EVENTS][8];
	const struct config config = {
		.batch_max = EVENTS, .instance_id = "i", .consumer = "", .postgres_timeout_ms = 30000};
	struct store *s = store_open(
		&loop, &config,
		&(struct store_callbacks){.on_stored = on_event, .on_database = on_database, .on_epoch = on_epoch});
	struct batch batch;

	batch_init(&batch, EVENTS, 1 << 20);
	for (int i = 0; i < EVENTS; i++) {
		events[i] = (struct event){.id = ids[i], .message = "{}", .message_len = 2, .type = "t", .type_len = 1};
		events[i].id_len = (uint16_t)sprintf(ids[i], "%04d", i);
		events[i].payload = (struct slice){"{}", 2};
		cr_assert(batch_add(&batch, &events[i]));
	}
	batch_sort(&batch);
	become_ready();
	store_insert(s, &batch);
	cr_assert_eq(fail_and_wait(), 0); /* of a COPY, after which it inserts */
	for (int i = 0; i < WAITS; i++) {
		int64_t waited = fail_and_wait();

		cr_assert_eq(waited, waits[i], "try %d: %lld ms", i, (long long)waited);
	}
	store_close(s, on_closed, NULL);
	batch_free(&batch);
	close_loop();
}

/* --- the relay --- */

static char name[] = "w", url[] = "http://127.0.0.1:1/";
static struct webhook webhook = {.name = name, .url = url, .timeout_ms = 1000, .concurrency = 1, .attempts = 3};
static const struct config relay_config = {.webhooks = {&webhook, 1}, .postgres_timeout_ms = 30000};

/* It looks for rows at every 0.6 s at least. */
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
	relay_close(r, on_closed, NULL);
	close_loop();
}

/* The statement at hand takes so long, and has this answer. */
static void answer_after(int64_t ms, struct postgres_answer answer)
{
	cr_assert_eq(state, POSTGRES_BUSY);
	clock_pass(ms);
	uv_update_time(&loop);
	state = POSTGRES_READY;
	played.on_answer(played.owner, &answer);
}

/* Goes on until rows are leased; everything else is done at once. */
static const char *next_lease(void)
{
	for (int turns = 0; state != POSTGRES_BUSY || !*since; turns++) {
		cr_assert_lt(turns, 10000);
		if (state == POSTGRES_BUSY)
			answer_after(0, (struct postgres_answer){.result = POSTGRES_OK});
		else
			clock_pass(uv_backend_timeout(&loop));
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	return since;
}

/* While a transaction keeps what was delivered from being removed, such a look may take longer than a statement may. */
Test(resend, a_look_at_all_rows_that_is_given_up_is_not_made_again_at_once)
{
	static const char *const row[] = {"1", "w", "1", "0", "e", "{}", "f", "5000000", "1"};
	struct relay *r = relay_open(&loop, &relay_config);

	become_ready();
	cr_assert_str_eq(next_lease(), "0");
	cells = row; /* too late to be sent, so that it is given back */
	answer_after(12000, (struct postgres_answer){.result = POSTGRES_OK, .rows = 1});
	cells = NULL;
	cr_assert_str_eq(next_lease(), "3000000");
	answer_after(300000, (struct postgres_answer){.result = POSTGRES_OK});
	cr_assert_str_eq(next_lease(), "0");
	answer_after(27000,
		     (struct postgres_answer){.result = POSTGRES_TROUBLE, .is_late = true, .error = "late (57014)"});
	cr_assert_str_eq(next_lease(), "3000000");
	answer_after(0, (struct postgres_answer){.result = POSTGRES_OK});
	relay_close(r, on_closed, NULL);
	close_loop();
}
