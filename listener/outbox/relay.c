/* relay.c owns the outbox: which rows this listener takes, and what is recorded of each attempt. Requests are
 * delivery.c's business, the meaning of answers target.c's, the connection postgres.c's.
 *
 *     outbox ── lease ──▶ waiting ──▶ sending ── answer ──▶ ended ── recorded ──▶ gone
 *                            └───── given back ────────────▶ ▲ └──▶ recording ──┘
 *                                                            └──────── trouble
 *
 * A lease is committed before its request begins and ends by itself, so that the rows of a listener that dies
 * come due for the others. One statement, a round, both records attempts and leases rows: while it is at work
 * attempts end and wait for the next one, so rounds get larger under load. */
#include "outbox/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres/array.h"
#include "backlog.sql.h"
#include "base/backoff.h"
#include "outbox/delivery.h"
#include "base/list.h"
#include "base/log.h"
#include "postgres/postgres.h"
#include "relay.sql.h"
#include "outbox/signature.h"
#include "base/stats.h"

#define POLL_MS         400   /* between looks for rows when nobody wakes us, and up to as much as */
#define POLL_JITTER_MS  200   /* this longer */
#define LEASE_MARGIN_MS 10000 /* a lease lasts for the timeout of a request and this */
#define SPARE_MS        1000  /* of the margin, for the end of the request */
#define UNSENT_WAIT_MS  1000  /* before another try where memory was out */
#define LOOK_MS         15000 /* between looks at the backlog */
#define RECORD_MS       1000  /* for the last records when draining is over */
#define FOREVER_MS      INT64_C(1000000000000)

#define COLUMNS 10

enum job { JOB_NONE, JOB_ROUND, JOB_LOOK };

/* A target, and its rows that are leased and not yet at work. */
struct lane {
	struct target target; /* first, so that one is the other */
	struct list waiting;
	size_t rows;  /* that the last round brought, */
	size_t bytes; /* and so much to send */
};

/* A row that is leased, until what became of it is recorded. */
struct attempt {
	struct list node;
	struct relay *relay;
	struct lane *lane;
	struct delivery *delivery; /* while it is sending */
	int64_t leased_ms;         /* real time, not the loop's: before the lease was asked for */
	char *body;
	int number;
	enum target_outcome outcome;
	int status;
	int64_t wait_ms; /* until the next attempt */
	char *answer;    /* of the target, or why there was none; NULL: nothing to record */
	char row[24];
	char id[SIGNATURE_ID_SIZE];
	char timestamp[24];
};

struct relay {
	uv_loop_t *loop;
	const struct config *config;
	struct postgres *postgres;
	struct deliveries *deliveries;
	struct lane *lanes;
	struct list sending;
	struct list ended;
	struct list recording;
	struct array columns[COLUMNS];
	enum job job;
	bool is_woken;
	bool is_ascii;          /* answers are recorded without anything else */
	int64_t asked_ms;       /* real time: the round at hand was sent */
	int64_t poll_ms;        /* loop clock: the next round without a reason, */
	int64_t look_ms;        /* the next look at the backlog, */
	int64_t resume_ms;      /* and nothing before this, after trouble */
	struct backoff backoff; /* of trouble */
	bool has_trouble_logged;
	struct backlog backlog;
	uv_timer_t timer; /* the next of the above */
	uv_timer_t deadline;
	void (*drained)(void *arg); /* NULL: not draining */
	void *drained_arg;
	bool is_drained;
	int open; /* parts left to close */
	void (*done)(void *arg);
	void *done_arg;
};

static void go_on(struct relay *r);

static int64_t now_ms(const struct relay *r)
{
	return (int64_t)uv_now(r->loop);
}

static int64_t real_ms(void)
{
	return (int64_t)(uv_hrtime() / 1000000);
}

static void on_timer(uv_timer_t *timer)
{
	go_on(timer->data);
}

static void wake_at(struct relay *r, int64_t ms)
{
	uv_timer_start(&r->timer, on_timer, ms > now_ms(r) ? (uint64_t)(ms - now_ms(r)) : 0, 0);
}

static void attempt_free(struct attempt *a)
{
	list_remove(&a->node);
	free(a->body);
	free(a->answer);
	free(a);
}

static void free_all(struct list *l)
{
	list_each(node, after, l)
		attempt_free(list_entry(node, struct attempt, node));
}

/* --- attempts --- */

/* The row waits for the next round to be recorded. */
static void end(struct attempt *a, enum target_outcome outcome)
{
	free(a->body);
	a->body = NULL;
	a->delivery = NULL;
	a->outcome = outcome;
	a->lane->target.ended[outcome]++;
	list_remove(&a->node);
	list_append(&a->relay->ended, &a->node);
}

static void give_back(struct attempt *a, int64_t wait_ms)
{
	a->wait_ms = wait_ms;
	end(a, TARGET_UNSENT);
}

static void begin_waiting(struct lane *l);

static void on_answered(void *arg, const struct target_answer *answer)
{
	struct attempt *a = arg;
	struct relay *r = a->relay;
	enum target_outcome outcome;

	a->lane->target.at_work--;
	outcome = target_take(&a->lane->target, answer, a->row, a->number, now_ms(r), backoff_draw(), &a->wait_ms);
	a->status = answer->status;
	if (outcome != TARGET_DELIVERED)
		a->answer = strdup(answer->reason); /* if memory is out, it is not recorded */
	log_debug("attempt at a delivery has ended", "target=%s row=%s attempt=%d outcome=%s status=%d reason=%s",
		  a->lane->target.webhook->name, a->row, a->number, target_outcome_name(outcome), a->status, a->answer);
	begin_waiting(a->lane);
	end(a, outcome);
	go_on(r);
}

/* A request must end before its lease does, or two listeners would be at it as a matter of course. A process
 * that was stopped, or an answer that was late, leaves too little of the lease. */
static bool is_late(const struct attempt *a)
{
	return real_ms() - a->leased_ms > LEASE_MARGIN_MS - SPARE_MS;
}

static void begin(struct attempt *a)
{
	struct relay *r = a->relay;
	const struct webhook *webhook = a->lane->target.webhook;
	const struct delivery_request request = {webhook, a->id, a->timestamp, a->body, strlen(a->body)};

	a->lane->target.waiting--;
	if (r->drained || a->lane->target.state == TARGET_PAUSED || is_late(a)) {
		give_back(a, 0);
		return;
	}
	a->delivery = delivery_send(r->deliveries, &request, on_answered, a);
	if (!a->delivery) {
		give_back(a, UNSENT_WAIT_MS);
		return;
	}
	a->lane->target.at_work++;
	list_remove(&a->node);
	list_append(&r->sending, &a->node);
}

/* Those that may not begin any more are given back. */
static void begin_waiting(struct lane *l)
{
	list_each(node, after, &l->waiting) {
		struct attempt *a = list_entry(node, struct attempt, node);

		if (target_free_slots(&l->target) || l->target.state == TARGET_PAUSED || a->relay->drained)
			begin(a);
		else
			return;
	}
}

static struct lane *find_lane(const struct relay *r, const char *name)
{
	for (size_t i = 0; i < r->config->webhooks.count; i++)
		if (strcmp(r->lanes[i].target.webhook->name, name) == 0)
			return &r->lanes[i];
	return NULL;
}

/* A row of sql/queries/relay.sql's answer. If memory is out, the lease ends by itself. */
static void take_row(struct relay *r, const struct postgres_answer *answer, size_t row)
{
	struct attempt *a = calloc(1, sizeof(*a));
	const char *event_id;
	size_t len;

	if (!a)
		return;
	list_init(&a->node);
	a->relay = r;
	snprintf(a->row, sizeof(a->row), "%s", postgres_cell(answer, row, 0, &len));
	a->lane = find_lane(r, postgres_cell(answer, row, 1, &len));
	a->number = (int)strtol(postgres_cell(answer, row, 2, &len), NULL, 10);
	snprintf(a->timestamp, sizeof(a->timestamp), "%s", postgres_cell(answer, row, 3, &len));
	event_id = postgres_cell(answer, row, 4, &len);
	a->leased_ms = r->asked_ms;
	if (!a->lane || signature_id(a->id, a->lane->target.webhook->name, event_id, len) ||
	    !(a->body = strdup(postgres_cell(answer, row, 5, &len)))) {
		attempt_free(a);
		return;
	}
	a->lane->rows++;
	a->lane->bytes += len;
	a->lane->target.waiting++;
	list_append(&a->lane->waiting, &a->node);
}

/* --- rounds --- */

static void add_number(struct array *column, int64_t number)
{
	char text[24];

	array_add(column, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)number));
}

static void add_text(struct array *column, const char *text, bool is_ascii)
{
	if (text)
		array_add_text(column, text, strlen(text), is_ascii);
	else
		array_add_null(column);
}

static size_t list_length(const struct list *l)
{
	size_t n = 0;

	for (const struct list *node = l->next; node != l; node = node->next)
		n++;
	return n;
}

/* $1 to $6. */
static void fill_ended(struct relay *r)
{
	size_t n = list_length(&r->ended);
	struct array *c = r->columns;

	for (int i = 0; i < 6; i++)
		array_start(&c[i], ARRAY_TEXT, n);
	list_each(node, after, &r->ended) {
		struct attempt *a = list_entry(node, struct attempt, node);

		add_text(&c[0], a->row, false);
		add_number(&c[1], a->number);
		add_text(&c[2], target_outcome_name(a->outcome), false);
		if (a->status)
			add_number(&c[3], a->status);
		else
			array_add_null(&c[3]);
		add_text(&c[4], a->answer, r->is_ascii);
		add_number(&c[5], a->wait_ms);
	}
}

/* $7 to $10. */
static void fill_targets(struct relay *r)
{
	size_t n = r->drained ? 0 : r->config->webhooks.count;
	struct array *c = r->columns + 6;

	for (int i = 0; i < 4; i++)
		array_start(&c[i], ARRAY_TEXT, n);
	for (size_t i = 0; i < n; i++) {
		struct target *t = &r->lanes[i].target;
		size_t wanted = target_want(t, now_ms(r));

		add_text(&c[0], t->webhook->name, false);
		add_number(&c[1], (int64_t)wanted);
		add_number(&c[2], t->webhook->timeout_ms + LEASE_MARGIN_MS);
		add_text(&c[3], wanted ? target_take_probe(t, now_ms(r)) : NULL, false);
	}
}

/* What has ended is kept and recorded by a later round. */
static void wait_out(struct relay *r, const char *why)
{
	stats.relay_retries++;
	log_write(r->has_trouble_logged ? LOG_DEBUG : LOG_WARN, "postgres cannot relay now: what is known is kept",
		  "attempts=%zu reason=%s", list_length(&r->ended), why);
	r->has_trouble_logged = true;
	r->resume_ms = now_ms(r) + backoff_next(&r->backoff, backoff_draw());
}

static void keep(struct relay *r)
{
	list_each(node, after, &r->recording) {
		list_remove(node);
		list_append(&r->ended, node);
	}
}

static void start_round(struct relay *r)
{
	struct postgres_value values[COLUMNS];

	fill_ended(r);
	fill_targets(r);
	for (int i = 0; i < COLUMNS; i++) {
		if (!r->columns[i].len) {
			wait_out(r, "out of memory for the statement");
			wake_at(r, r->resume_ms);
			return;
		}
		values[i] = (struct postgres_value){ARRAY_TEXT, r->columns[i].bytes, r->columns[i].len};
	}
	r->asked_ms = real_ms();
	if (postgres_query(r->postgres, SQL_RELAY, values, COLUMNS))
		return; /* the connection is lost; it goes on when it is back */
	stats.relay_rounds++;
	r->job = JOB_ROUND;
	r->is_woken = false;
	r->poll_ms = now_ms(r) + POLL_MS + backoff_draw() % POLL_JITTER_MS;
	list_each(node, after, &r->ended) {
		list_remove(node);
		list_append(&r->recording, node);
	}
}

static void on_round(struct relay *r, const struct postgres_answer *answer)
{
	size_t lanes = r->config->webhooks.count;

	free_all(&r->recording);
	for (size_t i = 0; i < lanes; i++)
		r->lanes[i].rows = r->lanes[i].bytes = 0;
	for (size_t row = 0; row < answer->rows; row++)
		take_row(r, answer, row);
	for (size_t i = 0; i < lanes; i++) {
		target_supply(&r->lanes[i].target, r->lanes[i].rows, r->lanes[i].bytes);
		begin_waiting(&r->lanes[i]);
	}
}

/* --- looks at the backlog --- */

static void start_look(struct relay *r)
{
	int64_t limit_ms = r->config->unsettled_warning_s ? r->config->unsettled_warning_s * 1000 : FOREVER_MS;
	char text[24];
	const struct postgres_value value = {25, text,
					     (size_t)snprintf(text, sizeof(text), "%lld", (long long)limit_ms)};

	if (postgres_query(r->postgres, SQL_BACKLOG, &value, 1))
		return;
	r->job = JOB_LOOK;
	r->look_ms = now_ms(r) + LOOK_MS;
}

static void on_look(struct relay *r, const struct postgres_answer *answer)
{
	const char *cells[5];
	size_t len;

	for (int i = 0; i < 5; i++)
		cells[i] = postgres_cell(answer, 0, i, &len);
	backlog_read(&r->backlog, cells);
	backlog_watch(&r->backlog, now_ms(r), r->config->unsettled_warning_s * 1000);
}

/* --- what is next --- */

static void tell_drained(struct relay *r)
{
	uv_timer_stop(&r->timer);
	uv_timer_stop(&r->deadline);
	r->is_drained = true;
	r->drained(r->drained_arg);
}

/* Could any target take a row? */
static bool is_wanting(struct relay *r)
{
	for (size_t i = 0; i < r->config->webhooks.count; i++)
		if (target_want(&r->lanes[i].target, now_ms(r)))
			return true;
	return false;
}

/* Called whenever something has changed. */
static void go_on(struct relay *r)
{
	bool has_ended = !list_is_empty(&r->ended);

	if (r->job != JOB_NONE || r->is_drained)
		return;
	if (r->drained && !has_ended && list_is_empty(&r->sending))
		tell_drained(r);
	else if (postgres_state(r->postgres) != POSTGRES_READY)
		uv_timer_stop(&r->timer); /* on_postgres_state goes on */
	else if (now_ms(r) < r->resume_ms)
		wake_at(r, r->resume_ms);
	else if (!r->drained && now_ms(r) >= r->look_ms)
		start_look(r);
	else if (has_ended || (!r->drained && (now_ms(r) >= r->poll_ms || (r->is_woken && is_wanting(r)))))
		start_round(r);
	else if (!r->drained)
		wake_at(r, r->poll_ms);
}

static void on_answer(void *owner, const struct postgres_answer *answer)
{
	struct relay *r = owner;
	enum job job = r->job;

	r->job = JOB_NONE;
	if (answer->result == POSTGRES_OK) {
		r->has_trouble_logged = r->is_ascii = false;
		backoff_reset(&r->backoff);
		if (job == JOB_ROUND)
			on_round(r, answer);
		else
			on_look(r, answer);
	} else {
		/* A database that is not UTF8 may be unable to hold an answer. A record that was committed
		 * all the same is harmless to repeat. */
		keep(r);
		r->is_ascii = answer->result == POSTGRES_BAD_VALUE || answer->result == POSTGRES_BAD_ROW;
		wait_out(r, answer->error);
	}
	go_on(r);
}

static void on_postgres_state(void *owner, enum postgres_state state)
{
	if (state == POSTGRES_READY)
		go_on(owner);
}

/* The store has the same database, and ends the listener. */
static void on_unusable(void *owner, const char *sentence, int status)
{
	(void)owner, (void)sentence, (void)status;
}

void relay_wake(struct relay *r)
{
	r->is_woken = true;
	go_on(r);
}

/* --- draining --- */

static void on_record_deadline(uv_timer_t *timer)
{
	struct relay *r = timer->data;

	log_warn("what became of some deliveries is not recorded: they will be made again", "attempts=%zu",
		 list_length(&r->ended) + list_length(&r->recording));
	tell_drained(r);
}

/* What is at work may arrive or not. It is no failure of the target, so it never is the last attempt. */
static void on_drain_deadline(uv_timer_t *timer)
{
	struct relay *r = timer->data;

	if (!list_is_empty(&r->sending))
		log_warn("draining is over: requests to webhooks are cut off, and will be made again", "requests=%zu",
			 list_length(&r->sending));
	list_each(node, after, &r->sending) {
		struct attempt *a = list_entry(node, struct attempt, node);

		delivery_cancel(a->delivery);
		a->lane->target.at_work--;
		a->answer = strdup("the listener was stopped before there was an answer");
		end(a, TARGET_RETRY);
	}
	uv_timer_start(&r->deadline, on_record_deadline, RECORD_MS, 0);
	go_on(r);
}

void relay_drain(struct relay *r, void (*done)(void *arg), void *arg)
{
	r->drained = done;
	r->drained_arg = arg;
	for (size_t i = 0; i < r->config->webhooks.count; i++)
		begin_waiting(&r->lanes[i]); /* that is, give back */
	uv_timer_start(&r->deadline, on_drain_deadline, (uint64_t)r->config->drain_timeout_ms, 0);
	wake_at(r, 0);
}

/* --- for operators --- */

size_t relay_targets(const struct relay *r)
{
	return r->config->webhooks.count;
}

const struct target *relay_target(const struct relay *r, size_t i)
{
	return &r->lanes[i].target;
}

const struct backlog *relay_backlog(const struct relay *r)
{
	return &r->backlog;
}

/* --- life --- */

static void relay_free(struct relay *r)
{
	for (int i = 0; i < COLUMNS; i++)
		array_free(&r->columns[i]);
	free(r->lanes);
	free(r);
}

static int open_lanes(struct relay *r)
{
	const struct webhooks *webhooks = &r->config->webhooks;

	r->lanes = calloc(webhooks->count, sizeof(*r->lanes));
	for (size_t i = 0; r->lanes && i < webhooks->count; i++) {
		r->lanes[i].target.webhook = &webhooks->items[i];
		list_init(&r->lanes[i].waiting);
	}
	return r->lanes ? 0 : -1;
}

static void on_ignored(void *arg)
{
	(void)arg;
}

struct relay *relay_open(uv_loop_t *loop, const struct config *config)
{
	struct relay *r = calloc(1, sizeof(*r));
	const struct postgres_settings settings = {
		.conninfo = config->postgres,
		.timeout_ms = config->postgres_timeout_ms,
		.tables = "{outbox}",
		.on_state = on_postgres_state,
		.on_answer = on_answer,
		.on_unusable = on_unusable,
		.owner = r,
	};

	if (!r)
		return NULL;
	r->loop = loop;
	r->config = config;
	r->backoff = (struct backoff){.base_ms = 50, .cap_ms = 5000};
	list_init(&r->sending);
	list_init(&r->ended);
	list_init(&r->recording);
	if (open_lanes(r) == 0)
		r->deliveries = deliveries_open(loop, webhooks_concurrency(&config->webhooks));
	r->postgres = r->deliveries ? postgres_open(loop, &settings) : NULL;
	if (!r->postgres) {
		if (r->deliveries)
			deliveries_close(r->deliveries, on_ignored, NULL);
		relay_free(r);
		return NULL;
	}
	uv_timer_init(loop, &r->timer);
	uv_timer_init(loop, &r->deadline);
	r->timer.data = r->deadline.data = r;
	log_info("webhooks are relayed", "targets=%zu", config->webhooks.count);
	return r;
}

static void on_part_closed(struct relay *r)
{
	if (--r->open)
		return;
	r->done(r->done_arg);
	relay_free(r);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static void on_other_closed(void *arg)
{
	on_part_closed(arg);
}

void relay_close(struct relay *r, void (*done)(void *arg), void *arg)
{
	r->open = 4;
	r->done = done;
	r->done_arg = arg;
	r->is_drained = true; /* nothing goes on */
	list_each(node, after, &r->sending) {
		struct attempt *a = list_entry(node, struct attempt, node);

		delivery_cancel(a->delivery);
		attempt_free(a);
	}
	for (size_t i = 0; i < r->config->webhooks.count; i++)
		free_all(&r->lanes[i].waiting);
	free_all(&r->ended);
	free_all(&r->recording);
	postgres_close(r->postgres, on_other_closed, r);
	deliveries_close(r->deliveries, on_other_closed, r);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
	uv_close((uv_handle_t *)&r->deadline, on_timer_closed);
}
