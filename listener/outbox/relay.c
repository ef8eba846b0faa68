/* relay.c owns the outbox: it leases rows and records each attempt. delivery.c makes the requests, target.c decides
 * what an answer means, postgres/connection.c owns the connection.
 *
 *     outbox ── lease ──▶ waiting ──▶ request ── answer ──▶ ended ── recorded ──▶ gone
 *                            └───── given back ────────────▶ ▲ └──▶ recording ──┘
 *                                                            └──────── trouble
 *
 * A lease is committed before the request begins, and it expires, so the rows of a listener that dies come due for the
 * others. Statements take turns: one records attempts, the next leases rows. Attempts that end meanwhile wait for the
 * next record, so statements grow under load. If one kind fails, the other is still tried; if leasing fails, rows are
 * leased one by one until the bad row is found. */
#include "outbox/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "postgres/array.h"
#include "backlog.sql.h"
#include "base/backoff.h"
#include "outbox/delivery.h"
#include "lease.sql.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "peek.sql.h"
#include "postgres/connection.h"
#include "record.sql.h"
#include "outbox/signature.h"
#include "outbox/traceparent.h"
#include "base/counters.h"

#define ROUND_MS        20    /* how long ended attempts wait to be recorded together while there is enough to send */
#define ENDED_LEAST     50    /* with fewer ended attempts, recording can always wait */
#define POLL_MS         400   /* least time between leases without relay_wake() */
#define POLL_JITTER_MS  200   /* random time added to it, up to this */
#define LEASE_MARGIN_MS 10000 /* a lease lasts for the timeout of a request plus this */
#define SPARE_MS        1000  /* part of the margin for ending the request */
#define UNSENT_WAIT_MS  1000  /* wait before retrying a request that could not begin */
#define HEADERS_MS      10000 /* time between readings of the headers' files */
#define LOOK_MS         15000 /* time between queries of the backlog */
#define LOCK_MS         2000  /* how long a record or a look waits for a lock: leases are not to end meanwhile */
#define RECORD_MS       1000  /* time for the last records after the drain timeout */
#define LASTING_MS      3000  /* relay_error() reports a statement that has failed for this long, */
#define OVER_MS         10000 /* until it has worked for this long */
#define FOREVER_MS      INT64_C(1000000000000)

#define OLD_PLACE     (-1)      /* wait_ms of a row that was not sent: it is due since it was made, as it was */
#define LEASE_BYTES   (4 << 20) /* limit of the bodies in a lease */
#define SLOW_MS       (LEASE_MARGIN_MS / 4) /* after a lease that took longer, the next one is half as large */
#define QUICK_MS      1000                  /* after a shorter one, it is twice as large */
#define DIVISOR_MAX   1024                  /* limit of divisor */
#define ALL_MS        10000                 /* time between leases that search all due rows, including old ones */
#define ALL_SHARE     20                    /* such leases and queries of the backlog take 1/20 of the time */
#define SINCE_LESS_US 2000000 /* every lease finds a row that was committed up to this long after its due_at */
#define CAREFUL       32      /* rows to lease one by one after leasing failed, plus one for each lane */
#define PUT_OFF_MS    60000   /* delay of a row that cannot be leased for a reason that may not be its own */
#define ATTEMPTS_LOST 5       /* attempts allowed beyond the limit, for those lost when listeners died */

#define LANES    2
#define COLUMNS  6
#define TEXT_OID 25

enum job { JOB_NONE, JOB_RECORD, JOB_PEEK, JOB_LEASE, JOB_BACKLOG };

/* The state of a kind of statement that fails. */
struct trouble {
	struct backoff backoff;
	int64_t resume_ms;     /* loop clock: not before this */
	unsigned int failures; /* in a row */
	struct log_spell spell;
	char reason[300];
};

/* The new rows of a webhook, or its retries. */
struct lane {
	struct target target;
	struct hook *hook;
	size_t attempts; /* number of its rows, in all lists */
	struct list waiting;
	size_t rows;      /* rows from the last lease */
	size_t bytes;     /* bytes of their bodies */
	int64_t since_us; /* due_at of the last leased row (the database's clock); 0: none since empty_ms */
	int64_t empty_ms; /* real_ms() of the last lease that searched all rows and found none; 0: none yet */
	int64_t all_ms;   /* loop clock: when a lease searches all rows next */
	bool is_all;      /* the lease in progress searches all rows */
	bool has_more;    /* the last lease returned rows for this lane */
};

struct hook {
	struct webhook webhook;
	struct lane lanes[LANES]; /* as sql/queries/lease.sql numbers them */
	int64_t headers_ms;       /* loop clock, when its headers were last read */
	struct log_spell stale;   /* failures to read them */
	struct log_spell unsent;  /* deliveries are dead without an attempt */
	struct list node;         /* in retired */
};

/* A leased row, until its outcome is recorded. */
struct attempt {
	struct list node;
	struct relay *relay;
	struct lane *lane;
	int64_t leased_ms; /* real_ms() before the lease was sent */
	int64_t lease_ms;  /* how long it lasts */
	char *body;        /* NULL: in a request, or no longer needed */
	size_t len;        /* length of the body; counted in target.bytes until the attempt has ended */
	int number;        /* number of the attempt, counted since an operator's last retry */
	char lease[48];    /* name of the lease */
	enum target_outcome outcome;
	int status;
	int64_t wait_ms; /* until the next attempt */
	char *answer;    /* the target's answer, or why there was none; NULL: nothing to record */
	char row[24];
	char id[SIGNATURE_ID_SIZE];
	char timestamp[24];
};

/* One HTTP request, with one attempt or, for a webhook with batch, several of one lane. */
struct request {
	struct list node; /* in sending */
	struct relay *relay;
	struct lane *lane;
	struct list attempts;
	size_t count; /* number of attempts */
	size_t most;  /* limit: the lowest that one of them allows */
	struct bytes body;
	struct bytes ids; /* ids of the attempts */
	struct delivery *delivery;
	bool is_probe;
};

struct relay {
	uv_loop_t *loop;
	const struct config *config;
	struct postgres *postgres;
	struct deliveries *deliveries;
	struct hook **hooks;
	size_t hook_count;
	struct list retired; /* hooks that are not in the settings, until their last request is recorded */
	struct list sending; /* requests */
	struct list ended;
	struct list recording;
	struct array columns[COLUMNS];
	enum job job;
	enum job last; /* JOB_RECORD or JOB_LEASE, whichever was sent last */
	bool is_woken;
	bool is_ascii;    /* answers are recorded as ASCII only */
	int skipping;     /* index of a word for $7 of record.sql: what others have locked is left out of a record */
	size_t most;      /* attempts in a record, after a refusal; 0: all */
	int64_t asked_ms; /* real_ms() when the current statement was sent */
	int64_t round_ms; /* loop clock: ended attempts are recorded by then */
	int64_t poll_ms;  /* loop clock: the next lease, if none is needed earlier */
	int64_t look_ms;  /* loop clock: the next query of the backlog */
	struct trouble recording_trouble;
	struct trouble leasing_trouble;
	struct log_spell refusals; /* outcomes that Postgres refuses */
	struct log_spell slowness; /* slow leases */
	size_t turn;               /* index of the first lane in the next lease */
	int64_t divisor;           /* leases ask for 1/divisor of the rows and bytes, because they were slow */
	size_t careful;            /* rows left to lease one by one; 0: lease many at once */
	struct lane *peeked;       /* lane whose row is being leased alone; NULL: none */
	char peeked_row[24];
	char blamed_row[24];
	int peeked_attempts;
	char peeked_lease[48];
	int64_t peeked_us; /* due_at of that row */
	struct backlog backlog;
	struct array names; /* names of the webhooks */
	struct array urls;  /* digests of their URLs */
	uv_timer_t timer;   /* calls go_on */
	uv_timer_t deadline;
	void (*drained)(void *arg); /* NULL: not draining */
	void *drained_arg;
	bool is_drained;
	struct ending ending;
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

static size_t count_lanes(const struct relay *r)
{
	return r->hook_count * LANES;
}

static struct lane *lane_at(const struct relay *r, size_t i)
{
	return &r->hooks[i / LANES]->lanes[i % LANES];
}

static void wake_at(struct relay *r, int64_t ms)
{
	uv_timer_start(&r->timer, on_timer, ms > now_ms(r) ? (uint64_t)(ms - now_ms(r)) : 0, 0);
}

static void drop_body(struct attempt *a)
{
	a->lane->target.bytes -= a->len;
	a->len = 0;
	free(a->body);
	a->body = NULL;
}

static void attempt_free(struct attempt *a)
{
	list_remove(&a->node);
	drop_body(a);
	a->lane->attempts--;
	free(a->answer);
	free(a);
}

static void free_all(struct list *l)
{
	list_each(node, after, l)
		attempt_free(list_entry(node, struct attempt, node));
}

/* --- attempts --- */

/* Moves the attempt to the list of the next record. */
static void end(struct attempt *a, enum target_outcome outcome)
{
	drop_body(a);
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

/* True if too little of the lease is left: a request must end before its lease does, or two listeners would deliver the
 * row. This happens after a SIGSTOP, if the answer to the lease was late, or if a reload made the timeout longer. */
static bool is_late(const struct attempt *a)
{
	return real_ms() - a->leased_ms + a->lane->hook->webhook.timeout_ms > a->lease_ms - SPARE_MS;
}

/* Tokens in files are renewed while the listener runs. */
static void refresh_headers(struct relay *r, struct hook *h)
{
	char fault[300];

	if (now_ms(r) - h->headers_ms < HEADERS_MS || (!h->webhook.headers && !h->webhook.bearer_file))
		return;
	h->headers_ms = now_ms(r);
	if (webhook_refresh_headers(&h->webhook, fault, sizeof(fault)))
		log_spell_on(&h->stale, now_ms(r), "cannot read the headers of a webhook again, using the last ones",
			     fault);
	else
		log_spell_off(&h->stale, now_ms(r), "the headers of a webhook can be read again");
}

/* --- requests --- */

static void request_free(struct request *q)
{
	list_remove(&q->node);
	free_all(&q->attempts);
	bytes_free(&q->body);
	bytes_free(&q->ids);
	free(q);
}

/* Returns how many attempts may share a request with this one. Lost outcomes are not failures: if a listener dies, the
 * next one sends the same batch under the same id. */
static size_t most_with(const struct attempt *a)
{
	return target_batch(&a->lane->hook->webhook, a->lane->target.is_retry ? a->number : 1);
}

/* True if attempt a may join the request. */
static bool has_room(const struct request *q, const struct attempt *a)
{
	size_t limit_bytes = (size_t)a->lane->hook->webhook.batch_bytes;

	return !q->count || (q->count < q->most && q->count < most_with(a) && !is_late(a) &&
			     q->body.len + a->len + 2 <= limit_bytes);
}

static void add_attempt(struct request *q, struct attempt *a)
{
	if (!q->count++ || most_with(a) < q->most)
		q->most = most_with(a);
	list_remove(&a->node);
	list_append(&q->attempts, &a->node);
	q->lane->target.waiting--;
	if (q->lane->hook->webhook.batch)
		bytes_add_byte(&q->body, q->body.len ? ',' : '[');
	bytes_add(&q->body, a->body, a->len);
	bytes_add_text(&q->ids, a->id);
	free(a->body);
	a->body = NULL;
}

/* Makes a request of the first waiting attempts in the lane. */
static struct request *gather(struct relay *r, struct lane *l)
{
	struct request *q = memory_calloc(1, sizeof(*q));

	list_init(&q->node);
	list_init(&q->attempts);
	q->relay = r;
	q->lane = l;
	list_each(node, after, &l->waiting) {
		struct attempt *a = list_entry(node, struct attempt, node);

		if (!has_room(q, a))
			break;
		add_attempt(q, a);
	}
	if (l->hook->webhook.batch)
		bytes_add_byte(&q->body, ']');
	return q;
}

static void on_answered(void *arg, const struct target_answer *answer);

/* Finds the trace of a request with one event. Several events cannot share the header. */
static bool find_trace(const struct request *q, char *trace)
{
	const char *pointer = q->relay->config->traceparent_pointer;
	size_t bracket = q->lane->hook->webhook.batch ? 1 : 0;

	return q->count == 1 && pointer &&
	       traceparent_find(trace, q->body.at + bracket, q->body.len - 2 * bracket, pointer);
}

/* Sends a request. The id of a request with several deliveries is made from their ids. */
static struct delivery *send_request(struct request *q)
{
	const struct attempt *first = list_entry(q->attempts.next, struct attempt, node);
	const struct webhook *w = &q->lane->hook->webhook;
	char trace[TRACEPARENT_SIZE], id[SIGNATURE_ID_SIZE];
	const struct delivery_request request = {.webhook = w,
						 .id = q->count == 1 ? first->id : id,
						 .timestamp = first->timestamp,
						 .body = q->body.at,
						 .len = q->body.len,
						 .trace = find_trace(q, trace) ? trace : NULL};

	signature_id(id, w->name, q->ids.at, q->ids.len);
	refresh_headers(q->relay, q->lane->hook);
	return delivery_send(q->relay->deliveries, &request, on_answered, q);
}

static void begin(struct relay *r, struct lane *l)
{
	struct request *q = gather(r, l);

	q->delivery = send_request(q);
	if (!q->delivery) {
		list_each(node, after, &q->attempts)
			give_back(list_entry(node, struct attempt, node), UNSENT_WAIT_MS);
		request_free(q);
		return;
	}
	q->is_probe = target_begin(&l->target, q->count);
	list_append(&r->sending, &q->node);
}

/* Begins requests while the target has slots, and gives back rows that must not begin. */
static void begin_waiting(struct lane *l)
{
	while (!list_is_empty(&l->waiting)) {
		struct attempt *a = list_entry(l->waiting.next, struct attempt, node);

		if (a->relay->drained || l->target.state == TARGET_PAUSED || is_late(a)) {
			l->target.waiting--;
			give_back(a, l->target.state == TARGET_PAUSED ? OLD_PLACE : 0);
			l->all_ms = l->target.state == TARGET_PAUSED ? 0 : l->all_ms;
		} else if (target_free_slots(&l->target)) {
			begin(a->relay, l);
		} else {
			return;
		}
	}
}

/* True if the webhook has another URL by now, or none. */
static bool is_retired(const struct hook *h)
{
	return !list_is_empty(&h->node);
}

static void take_outcome(struct attempt *a, const struct target_answer *answer, size_t count, uint32_t random)
{
	enum target_outcome outcome = target_take(&a->lane->target, answer, count, a->number, random, &a->wait_ms);

	if (outcome == TARGET_GONE && is_retired(a->lane->hook))
		outcome = TARGET_UNSENT; /* it says nothing about the new URL */
	a->status = answer->status;
	if (outcome != TARGET_DELIVERED)
		a->answer = memory_strdup(answer->reason);
	log_debug("delivery attempt ended", "target=%s row=%s attempt=%d outcome=%s status=%d reason=%s",
		  a->lane->target.webhook->name, a->row, a->number, target_outcome_name(outcome), a->status, a->answer);
	end(a, outcome);
}

static void on_answered(void *arg, const struct target_answer *answer)
{
	struct request *q = arg;
	struct lane *l = q->lane, *other = &l->hook->lanes[!l->target.is_retry];
	struct relay *r = q->relay;
	uint32_t random = target_is_success(answer->status) ? 0 : backoff_draw(); /* avoids a system call */

	target_end(&l->target, q->count, q->is_probe);
	if (!is_retired(l->hook))
		target_hear(&l->target, answer, q->is_probe, now_ms(r), random);
	list_each(node, after, &q->attempts)
		take_outcome(list_entry(node, struct attempt, node), answer, q->count, random);
	request_free(q);
	begin_waiting(other); /* first, or with one slot it would starve */
	begin_waiting(l);
	go_on(r);
}

/* --- leased rows --- */

static struct lane *find_lane(const struct relay *r, const char *name, bool is_retry)
{
	for (size_t i = 0; i < r->hook_count; i++)
		if (strcmp(r->hooks[i]->webhook.name, name) == 0)
			return &r->hooks[i]->lanes[is_retry];
	return NULL;
}

/* Makes a row dead without sending it. There may be many of them. */
static void give_up(struct attempt *a, const char *reason)
{
	a->answer = memory_strdup(reason);
	log_spell_on(&a->lane->hook->unsent, now_ms(a->relay), "deliveries are dead without an attempt", reason);
	end(a, TARGET_DEAD);
}

static struct attempt *new_attempt(struct relay *r, struct lane *lane, const char *row, int number)
{
	struct attempt *a = memory_calloc(1, sizeof(*a));

	list_init(&a->node);
	a->relay = r;
	a->lane = lane;
	lane->attempts++;
	a->number = number;
	a->leased_ms = r->asked_ms;
	a->lease_ms = lane->hook->webhook.timeout_ms + LEASE_MARGIN_MS;
	snprintf(a->row, sizeof(a->row), "%s", row);
	return a;
}

static int64_t cell_number(const struct postgres_answer *answer, size_t row, int column)
{
	size_t len;

	return strtoll(postgres_cell(answer, row, column, &len), NULL, 10);
}

/* Updates the due_at up to which rows were leased. It is 0 for the only row of a lease, since earlier ones may be due.
 */
static void keep_due(struct lane *l, int64_t due_us)
{
	if (due_us && (l->is_all || due_us > l->since_us))
		l->since_us = due_us;
	l->is_all = false;
}

/* Takes the body from sql/queries/lease.sql, as a CloudEvent if the webhook wants one. Quotes in its texts are escaped.
 */
static void set_body(struct attempt *a, const char *body, size_t len)
{
	static const char own[] = ",\"timestamp\":";
	const struct webhook *w = &a->lane->hook->webhook;
	const char *at = w->format == WEBHOOK_CLOUDEVENTS ? memmem(body, len, own, sizeof(own) - 1) : NULL;

	if (at) {
		const char *rest = at + sizeof(own) - 1;

		a->body = memory_printf("{\"specversion\":\"1.0\",\"source\":\"wsonce/%s\",%.*s,\"time\":%.*s", w->name,
					(int)(at - body - 1), body + 1, (int)(body + len - rest), rest);
		a->len = strlen(a->body);
	} else {
		a->body = memory_strndup(body, len);
		a->len = len;
	}
	a->lane->target.bytes += a->len;
}

/* Makes an attempt of a row from sql/queries/lease.sql. */
static void take_row(struct relay *r, const struct postgres_answer *answer, size_t row)
{
	size_t len, body_len;
	struct lane *lane = find_lane(r, postgres_cell(answer, row, 1, &len), cell_number(answer, row, 9));
	const char *event_id, *body = postgres_cell(answer, row, 5, &body_len);
	struct attempt *a;

	if (!lane)
		return;
	a = new_attempt(r, lane, postgres_cell(answer, row, 0, &len), (int)cell_number(answer, row, 2));
	keep_due(lane, cell_number(answer, row, 7));
	snprintf(a->lease, sizeof(a->lease), "%s", postgres_cell(answer, row, 8, &len));
	lane->rows++;
	lane->bytes += body_len;
	snprintf(a->timestamp, sizeof(a->timestamp), "%lld", (long long)cell_number(answer, row, 3));
	set_body(a, body, body_len);
	event_id = postgres_cell(answer, row, 4, &len);
	signature_id(a->id, lane->target.webhook->name, event_id, len);
	if (*postgres_cell(answer, row, 6, &len) == 't') {
		give_up(a, "the numbers in its payload are too long when written out");
	} else if (a->number > lane->target.webhook->attempts + ATTEMPTS_LOST) {
		give_up(a, "all allowed attempts were made, and the outcomes of the last ones were lost");
	} else if (lane->target.webhook->ttl_ms && cell_number(answer, row, 10) > lane->target.webhook->ttl_ms) {
		lane->target.is_newest = lane->target.state == TARGET_PROBING; /* it may be good */
		give_up(a, "it waited for longer than ttl_s");
	} else {
		lane->target.waiting++;
		list_append(&lane->waiting, &a->node);
	}
}

/* --- statements --- */

static void add_number(struct array *column, int64_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%lld", (long long)number);

	array_add(column, text, (size_t)len);
}

static size_t list_length(const struct list *l)
{
	size_t n = 0;

	for (const struct list *node = l->next; node != l; node = node->next)
		n++;
	return n;
}

static struct postgres_value text_value(const char *text)
{
	return (struct postgres_value){TEXT_OID, text, strlen(text)};
}

static void wait_out(struct relay *r, struct trouble *t, const char *why)
{
	counters.relay_retries++;
	t->failures++;
	snprintf(t->reason, sizeof(t->reason), "%s", why);
	log_spell_on(&t->spell, now_ms(r),
		     t == &r->recording_trouble ? "cannot record delivery outcomes, will retry"
						: "cannot lease deliveries, will retry",
		     why);
	if (t->spell.times == 1)
		t->spell.began_ms -= real_ms() - r->asked_ms;
	t->resume_ms = now_ms(r) + backoff_next(&t->backoff, backoff_draw());
}

static void be_well(const struct relay *r, struct trouble *t)
{
	t->failures = 0;
	backoff_reset(&t->backoff);
	log_spell_off(&t->spell, now_ms(r),
		      t == &r->recording_trouble ? "delivery outcomes are recorded again"
						 : "deliveries are leased again");
}

/* True if the statement keeps failing. The peeks between failed leases work, so a single success does not count, and a
 * lease after a peek may wait for long before it fails. */
static bool is_lasting(const struct relay *r, const struct trouble *t)
{
	return t->spell.times && t->spell.last_ms - t->spell.began_ms >= LASTING_MS &&
	       (t->failures || r->peeked || now_ms(r) - t->spell.last_ms < OVER_MS);
}

/* Sends a statement whose first parameters are r->columns. Returns -1 if it cannot be sent now. */
static int ask(struct relay *r, enum job job, const char *sql, int columns, struct postgres_value *values, int n)
{
	for (int i = 0; i < columns; i++)
		values[i] = (struct postgres_value){ARRAY_TEXT, r->columns[i].bytes, r->columns[i].len};
	r->asked_ms = real_ms();
	postgres_set_lock_timeout(r->postgres, job == JOB_RECORD || job == JOB_BACKLOG ? LOCK_MS : 0);
	if (postgres_query(r->postgres, sql, values, n))
		return -1; /* the connection is lost; on_postgres_state takes over */
	r->job = job;
	return 0;
}

/* --- recording --- */

static void start_columns(struct relay *r, size_t n)
{
	for (int i = 0; i < COLUMNS; i++)
		array_start(&r->columns[i], ARRAY_TEXT, n);
}

static void fill_ended(struct relay *r, size_t n)
{
	struct array *c = r->columns;
	struct list *node = r->ended.next;

	start_columns(r, n);
	for (size_t i = 0; i < n; i++, node = node->next) {
		struct attempt *a = list_entry(node, struct attempt, node);

		array_add_string(&c[0], a->row, false);
		array_add_string(&c[1], a->lease, false);
		array_add_string(&c[2], target_outcome_name(a->outcome), false);
		if (a->status)
			add_number(&c[3], a->status);
		else
			array_add_null(&c[3]);
		array_add_string(&c[4], a->answer, r->is_ascii);
		add_number(&c[5], a->wait_ms);
	}
}

static void move_first(struct list *from, struct list *to, size_t n)
{
	for (; n; n--) {
		struct list *node = from->next;

		list_remove(node);
		list_append(to, node);
	}
}

static void start_record(struct relay *r)
{
	static const char *const words[] = {"", "skip", "most"};
	size_t n = list_length(&r->ended);
	struct postgres_value values[COLUMNS + 1];

	if (r->most && r->most < n)
		n = r->most;
	fill_ended(r, n);
	values[COLUMNS] = text_value(words[r->skipping]);
	if (ask(r, JOB_RECORD, SQL_RECORD, COLUMNS, values, COLUMNS + 1))
		return;
	r->last = JOB_RECORD;
	counters.relay_rounds++;
	move_first(&r->ended, &r->recording, n);
}

/* Keeps the attempts of rows that others have locked. */
static void keep_locked(struct relay *r, const struct postgres_answer *answer)
{
	size_t len;

	for (size_t row = 0; row < answer->rows; row++)
		list_each(node, after, &r->recording)
			if (strcmp(list_entry(node, struct attempt, node)->row, postgres_cell(answer, row, 0, &len)) ==
			    0) {
				list_remove(node);
				list_append(&r->ended, node);
			}
}

static void on_recorded(struct relay *r, const struct postgres_answer *answer)
{
	r->most = list_length(&r->recording) < r->most ? 0 : r->most * 2;
	if (!r->most) /* a part of the outcomes says nothing about the locks of the others */
		r->skipping = answer->rows > 0;
	if (!answer->rows)
		be_well(r, &r->recording_trouble);
	else if (!r->most)
		wait_out(r, &r->recording_trouble, "others have locked rows of the table outbox or webhook_pauses");
	log_spell_off(&r->refusals, now_ms(r), NULL);
	r->round_ms = now_ms(r) + ROUND_MS;
	keep_locked(r, answer);
	free_all(&r->recording);
	if (list_is_empty(&r->ended))
		r->is_ascii = false;
}

static bool is_refusal(enum postgres_result result)
{
	return result == POSTGRES_BAD_VALUE || result == POSTGRES_BAD_ROW;
}

/* Records the attempts again. If the record was committed after all, repeating it changes nothing. After a refusal,
 * tries ASCII answers (the database may not be UTF8), then the first half of the attempts, and so on, since a trigger
 * that refuses one row must not hold up the others. */
static void on_not_recorded(struct relay *r, const struct postgres_answer *answer)
{
	bool is_refused = is_refusal(answer->result), was_ascii = r->is_ascii;
	size_t n = list_length(&r->recording);

	if (!answer->is_locked)
		r->is_ascii = is_refused;
	if (is_refused && was_ascii && n == 1) {
		log_spell_on(&r->refusals, now_ms(r), "cannot record the outcome of a delivery, will deliver it again",
			     answer->error);
		be_well(r, &r->recording_trouble);
		free_all(&r->recording);
		return;
	}
	move_first(&r->ended, &r->recording, list_length(&r->ended));
	move_first(&r->recording, &r->ended, list_length(&r->recording));
	r->skipping += answer->is_locked && r->skipping < 2;
	if (!answer->is_locked)
		r->most = is_refused && was_ascii ? n / 2 : 0;
	if (!is_refused)
		wait_out(r, &r->recording_trouble, answer->error);
}

/* --- leasing --- */

static size_t wanted_now(struct relay *r, struct lane *l)
{
	size_t wanted = target_want(&l->target, now_ms(r));

	return wanted / (size_t)r->divisor + (wanted % (size_t)r->divisor != 0);
}

/* Returns where a lease begins: at a due_at, or if it is negative, so long ago. */
static int64_t start_of(const struct lane *l)
{
	if (l->is_all)
		return 0;
	return (l->since_us ? l->since_us : (l->empty_ms - real_ms()) * 1000) - SINCE_LESS_US;
}

/* Adds a lane to the arrays in parameters $1 to $6. */
static void fill_lane(struct relay *r, const struct lane *l, size_t wanted, const char *row, int64_t since_us)
{
	struct array *c = r->columns;

	array_add_string(&c[0], l->hook->webhook.name, false);
	add_number(&c[1], (int64_t)wanted);
	add_number(&c[2], l->hook->webhook.timeout_ms + LEASE_MARGIN_MS);
	array_add_string(&c[3], row, false);
	add_number(&c[4], since_us);
	add_number(&c[5], l->target.is_retry);
}

static size_t fill_lanes(struct relay *r)
{
	size_t lanes = count_lanes(r), n = 0;

	for (size_t i = 0; i < lanes; i++)
		n += target_want(&lane_at(r, i)->target, now_ms(r)) > 0;
	start_columns(r, n);
	for (size_t i = 0; i < lanes; i++) {
		struct lane *l = lane_at(r, (r->turn + i) % lanes);
		size_t wanted = wanted_now(r, l);

		if (!wanted)
			continue;
		l->is_all = !l->target.is_newest && (now_ms(r) >= l->all_ms || (!l->since_us && !l->empty_ms));
		fill_lane(r, l, wanted, l->target.is_newest ? "newest" : NULL, start_of(l));
	}
	r->turn++;
	return n;
}

/* Leases rows for the lanes that want some. growth limits how long a payload may become when its numbers are written
 * out. */
static void start_lease(struct relay *r)
{
	struct postgres_value values[COLUMNS + 3];
	char bytes[24], all_bytes[24], growth[24];
	size_t n = 1;

	if (r->peeked) {
		start_columns(r, 1);
		fill_lane(r, r->peeked, 1, r->peeked_row, 0);
	} else {
		n = fill_lanes(r);
	}
	snprintf(all_bytes, sizeof(all_bytes), "%lld", (long long)(LEASE_BYTES / r->divisor));
	snprintf(bytes, sizeof(bytes), "%lld", (long long)(LEASE_BYTES / r->divisor / (int64_t)(n ? n : 1)));
	snprintf(growth, sizeof(growth), "%lld", (long long)r->config->message_bytes * 4);
	values[COLUMNS] = text_value(bytes);
	values[COLUMNS + 1] = text_value(all_bytes);
	values[COLUMNS + 2] = text_value(growth);
	r->is_woken = false;
	r->poll_ms = now_ms(r) + POLL_MS + backoff_draw() % POLL_JITTER_MS;
	r->last = JOB_LEASE;
	if (!n)
		wake_at(r, r->poll_ms);
	else
		ask(r, JOB_LEASE, SQL_LEASE, COLUMNS, values, COLUMNS + 3);
}

/* Returns when a statement that may be slow comes next, so that it takes a small share of the time. One that waited for
 * a lock, or whose connection was lost, did not run. */
static int64_t next_after(const struct relay *r, const struct postgres_answer *answer, int64_t least_ms)
{
	bool has_run = answer->result != POSTGRES_UNKNOWN && !answer->is_locked;
	int64_t wait_ms = has_run ? (real_ms() - r->asked_ms) * ALL_SHARE : 0;

	return now_ms(r) + (wait_ms > least_ms ? wait_ms : least_ms);
}

/* For lanes whose rows were all searched, sets when that happens next. */
static void put_off_all(struct relay *r, const struct postgres_answer *answer)
{
	for (size_t i = 0; i < count_lanes(r); i++)
		if (lane_at(r, i)->is_all)
			lane_at(r, i)->all_ms = next_after(r, answer, ALL_MS);
}

/* Rows of a slow lease arrive too late and are given back, so halve the next lease. */
static void adapt_pace(struct relay *r, const struct postgres_answer *answer)
{
	int64_t took_ms = real_ms() - r->asked_ms;
	char reason[40];

	log_spell_off(&r->slowness, now_ms(r), NULL);
	if (took_ms > SLOW_MS && r->divisor < DIVISOR_MAX) {
		r->divisor *= 2;
		snprintf(reason, sizeof(reason), "it took %lld ms", (long long)took_ms);
		log_spell_on(&r->slowness, now_ms(r), "leasing deliveries was slow, halving the next lease", reason);
	} else if (took_ms < QUICK_MS && r->divisor > 1) {
		r->divisor /= 2;
	}
	put_off_all(r, answer);
}

static void on_leased(struct relay *r, const struct postgres_answer *answer)
{
	size_t lanes = count_lanes(r), most = 0;

	be_well(r, &r->leasing_trouble);
	counters.relay_rounds++;
	r->round_ms = now_ms(r) + ROUND_MS;
	adapt_pace(r, answer);
	for (size_t i = 0; i < lanes; i++)
		lane_at(r, i)->rows = lane_at(r, i)->bytes = 0;
	for (size_t row = 0; row < answer->rows; row++)
		take_row(r, answer, row);
	r->peeked = NULL;
	for (size_t i = 0; i < lanes; i++)
		most = lane_at(r, i)->rows > most ? lane_at(r, i)->rows : most;
	for (size_t i = 0; i < lanes; i++) {
		struct lane *l = lane_at(r, i);

		if (l->is_all && !l->rows && most != 1) { /* a single large row of another may have left no room */
			l->since_us = 0;
			l->empty_ms = r->asked_ms;
		}
		l->is_all = false;
		if (l->target.wanted)
			l->has_more = l->rows;
		target_supply(&l->target, l->rows, l->bytes);
		begin_waiting(l);
	}
}

/* --- leasing one by one --- */

/* Returns the next lane in turn that wants a row, or NULL. */
static struct lane *next_wanting(struct relay *r)
{
	size_t lanes = count_lanes(r);

	for (size_t i = 0; i < lanes; i++) {
		struct lane *l = lane_at(r, r->turn++ % lanes);

		if (target_want(&l->target, now_ms(r)))
			return l;
	}
	return NULL;
}

static void start_peek(struct relay *r)
{
	struct lane *l = next_wanting(r);
	struct postgres_value values[3];
	char since[24];

	r->last = JOB_LEASE;
	r->poll_ms = now_ms(r) + POLL_MS;
	if (!l) {
		wake_at(r, r->poll_ms);
		return;
	}
	if (now_ms(r) >= l->all_ms) {
		l->since_us = 0;
		l->all_ms = now_ms(r) + ALL_MS;
	}
	snprintf(since, sizeof(since), "%lld", (long long)l->since_us);
	values[0] = text_value(l->hook->webhook.name);
	values[1] = text_value(since);
	values[2] = text_value(l->target.is_retry ? "1" : "0");
	if (ask(r, JOB_PEEK, SQL_PEEK, 0, values, 3) == 0)
		r->peeked = l;
}

static void on_peeked(struct relay *r, const struct postgres_answer *answer)
{
	size_t len;

	be_well(r, &r->leasing_trouble);
	r->careful--;
	if (!answer->rows) {
		r->peeked = NULL;
		return;
	}
	snprintf(r->peeked_row, sizeof(r->peeked_row), "%s", postgres_cell(answer, 0, 0, &len));
	r->peeked_attempts = (int)cell_number(answer, 0, 1);
	r->peeked_us = cell_number(answer, 0, 2);
	snprintf(r->peeked_lease, sizeof(r->peeked_lease), "%s", postgres_cell(answer, 0, 3, &len));
	start_lease(r);
}

/* True if the SQLSTATE at the end of the error blames the row: a value, its size, a damaged page. */
static bool is_rows_fault(const struct postgres_answer *answer)
{
	const char *state = strrchr(answer->error, '(');

	return is_refusal(answer->result) ||
	       (state && (!strncmp(state, "(22", 3) || !strncmp(state, "(54", 3) || !strncmp(state, "(XX", 3)));
}

/* Makes a row dead, or delays it, if it could not be leased even alone, so that the rows after it can be. */
static void blame(struct relay *r, const struct postgres_answer *answer)
{
	struct attempt *a;

	if (strcmp(r->blamed_row, r->peeked_row) == 0 || r->recording_trouble.failures)
		r->peeked->since_us = r->peeked_us + 1; /* skip it, since its outcome cannot be recorded either */
	if (r->recording_trouble.failures)
		return;
	snprintf(r->blamed_row, sizeof(r->blamed_row), "%s", r->peeked_row);
	a = new_attempt(r, r->peeked, r->peeked_row, r->peeked_attempts);
	snprintf(a->lease, sizeof(a->lease), "%s", r->peeked_lease);
	if (is_rows_fault(answer)) {
		give_up(a, answer->error);
	} else {
		a->answer = memory_strdup(answer->error);
		a->wait_ms = PUT_OFF_MS;
		end(a, TARGET_RETRY);
	}
}

/* After a second error that a single row may cause, leases rows one by one for a while. */
static void on_not_leased(struct relay *r, enum job job, const struct postgres_answer *answer)
{
	wait_out(r, &r->leasing_trouble, answer->error);
	if (r->peeked && job == JOB_LEASE && answer->result != POSTGRES_UNKNOWN)
		blame(r, answer);
	else if (!r->careful && (is_refusal(answer->result) || r->leasing_trouble.failures > 1))
		r->careful = CAREFUL + count_lanes(r);
	if (answer->result == POSTGRES_UNKNOWN && r->divisor < DIVISOR_MAX)
		r->divisor *= 2; /* it may have been too large */
	r->peeked = NULL;
	put_off_all(r, answer);
	for (size_t i = 0; i < count_lanes(r); i++)
		lane_at(r, i)->is_all = false;
}

/* --- the backlog --- */

static void start_look(struct relay *r)
{
	int64_t limit_ms = r->config->unsettled_warning_s ? r->config->unsettled_warning_s * 1000 : FOREVER_MS;
	char text[24];
	struct postgres_value values[3];

	snprintf(text, sizeof(text), "%lld", (long long)limit_ms);
	values[0] = text_value(text);
	values[1] = (struct postgres_value){ARRAY_TEXT, r->names.bytes, r->names.len};
	values[2] = (struct postgres_value){ARRAY_TEXT, r->urls.bytes, r->urls.len};
	ask(r, JOB_BACKLOG, SQL_BACKLOG, 0, values, 3);
}

static void on_look(struct relay *r, const struct postgres_answer *answer)
{
	const char *cells[BACKLOG_CELLS];
	size_t len;

	for (int i = 0; i < BACKLOG_CELLS; i++)
		cells[i] = postgres_cell(answer, 0, i, &len);
	for (size_t i = 0; i < r->hook_count; i++)
		log_spell_off(&r->hooks[i]->unsent, now_ms(r), NULL);
	backlog_read(&r->backlog, cells);
	backlog_watch(&r->backlog, now_ms(r), r->config->unsettled_warning_s * 1000);
}

/* --- removed webhooks --- */

static void hook_free(struct hook *h)
{
	list_remove(&h->node);
	webhook_clear(&h->webhook);
	free(h);
}

static void free_retired(struct relay *r, bool is_end)
{
	list_each(node, after, &r->retired) {
		struct hook *h = list_entry(node, struct hook, node);
		size_t attempts = h->lanes[0].attempts + h->lanes[1].attempts;

		if (is_end || (!attempts && (!r->peeked || r->peeked->hook != h)))
			hook_free(h);
	}
}

/* --- the next step --- */

static void tell_drained(struct relay *r)
{
	uv_timer_stop(&r->timer);
	uv_timer_stop(&r->deadline);
	r->is_drained = true;
	r->drained(r->drained_arg);
}

/* True if a lane wants rows that probably exist. If the last lease brought no retries, the next poll is early enough
 * for them, since nothing announces that one is due. */
static bool is_wanting(struct relay *r)
{
	for (size_t i = 0; i < count_lanes(r); i++) {
		struct lane *l = lane_at(r, i);

		if ((!l->target.is_retry || l->has_more) && target_want(&l->target, now_ms(r)))
			return true;
	}
	return false;
}

/* If both a record and a lease are due, they alternate. Small records come first: rows must not end faster than they
 * are recorded. */
static bool is_lease_due(struct relay *r, bool has_ended)
{
	bool has_reason = r->is_woken || r->careful || r->last == JOB_RECORD;

	if (r->drained || now_ms(r) < r->leasing_trouble.resume_ms || (has_ended && (r->last == JOB_LEASE || r->most)))
		return false;
	return now_ms(r) >= r->poll_ms || (has_reason && is_wanting(r));
}

static void wait_for_more(struct relay *r, bool has_ended)
{
	int64_t at_ms = r->poll_ms;

	if (at_ms < r->leasing_trouble.resume_ms)
		at_ms = r->leasing_trouble.resume_ms;
	if (has_ended && (r->drained || at_ms > r->recording_trouble.resume_ms))
		at_ms = r->recording_trouble.resume_ms;
	if (has_ended || !r->drained)
		wake_at(r, at_ms);
}

/* True if recording can wait for more attempts to end, because a statement costs Postgres about as much as the rows of
 * fifty attempts. False if less than half of a lease waits: the next lease follows the record, and until its answer
 * there should be rows to send. */
static bool can_wait(struct relay *r)
{
	if (r->drained || r->most || now_ms(r) >= r->round_ms)
		return false;
	for (size_t i = 0; i < count_lanes(r); i++) {
		const struct lane *l = lane_at(r, i);
		const struct target *t = &l->target;
		size_t ended = l->attempts - t->waiting - t->rows;

		if (t->state == TARGET_OPEN && t->waiting > t->depth / 2 &&
		    (ended < t->depth / 2 || ended < ENDED_LEAST))
			return true;
	}
	return false;
}

/* Sends the statement that is due next, if any. Call it whenever something has changed. */
static void go_on(struct relay *r)
{
	bool has_ended = !list_is_empty(&r->ended), is_recording;

	free_retired(r, false);
	if (r->job != JOB_NONE || r->is_drained)
		return;
	is_recording = has_ended && now_ms(r) >= r->recording_trouble.resume_ms;
	if (r->drained && !has_ended && list_is_empty(&r->sending))
		tell_drained(r);
	else if (postgres_state(r->postgres) != POSTGRES_READY)
		uv_timer_stop(&r->timer); /* on_postgres_state takes over */
	else if (!r->drained && now_ms(r) >= r->look_ms && now_ms(r) >= r->leasing_trouble.resume_ms)
		start_look(r);
	else if (is_lease_due(r, is_recording))
		r->careful ? start_peek(r) : start_lease(r);
	else if (is_recording && can_wait(r))
		wake_at(r, r->round_ms);
	else if (is_recording)
		start_record(r);
	else
		wait_for_more(r, has_ended);
}

static void take_answer(struct relay *r, enum job job, const struct postgres_answer *answer)
{
	bool is_fine = answer->result == POSTGRES_OK;

	if (job == JOB_BACKLOG)
		r->look_ms = next_after(r, answer, LOOK_MS);
	if (job == JOB_RECORD && is_fine)
		on_recorded(r, answer);
	else if (job == JOB_RECORD)
		on_not_recorded(r, answer);
	else if (!is_fine && job == JOB_BACKLOG)
		wait_out(r, &r->leasing_trouble, answer->error);
	else if (!is_fine)
		on_not_leased(r, job, answer);
	else if (job == JOB_PEEK)
		on_peeked(r, answer);
	else if (job == JOB_LEASE)
		on_leased(r, answer);
	else
		on_look(r, answer);
}

static void on_answer(void *owner, const struct postgres_answer *answer)
{
	struct relay *r = owner;
	enum job job = r->job;

	r->job = JOB_NONE;
	take_answer(r, job, answer);
	go_on(r);
}

static void on_postgres_state(void *owner, enum postgres_state state)
{
	if (state == POSTGRES_READY)
		go_on(owner);
}

/* Does nothing: the store uses the same database and ends the listener. */
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
	size_t attempts = list_length(&r->ended) + list_length(&r->recording);

	if (attempts)
		log_warn("outcomes of deliveries were not recorded, the fleet will repeat these deliveries",
			 "attempts=%zu", attempts);
	tell_drained(r);
}

/* Cancels a request, which may have arrived or not. This is never a row's last attempt, since the target has not
 * failed. */
static void cut_off(struct request *q)
{
	delivery_cancel(q->delivery);
	target_end(&q->lane->target, q->count, q->is_probe);
	list_each(node, after, &q->attempts) {
		struct attempt *a = list_entry(node, struct attempt, node);

		a->answer = memory_strdup("the listener was stopped before the answer came");
		end(a, TARGET_RETRY);
	}
	request_free(q);
}

static void on_drain_deadline(uv_timer_t *timer)
{
	struct relay *r = timer->data;

	if (!list_is_empty(&r->sending))
		log_warn("drain timeout reached, cancelling webhook requests; the fleet will repeat them",
			 "requests=%zu", list_length(&r->sending));
	list_each(node, after, &r->sending)
		cut_off(list_entry(node, struct request, node));
	uv_timer_start(&r->deadline, on_record_deadline, RECORD_MS, 0);
	go_on(r);
}

void relay_drain(struct relay *r, void (*done)(void *arg), void *arg)
{
	r->drained = done;
	r->drained_arg = arg;
	for (size_t i = 0; i < count_lanes(r); i++)
		begin_waiting(lane_at(r, i)); /* gives the rows back */
	uv_timer_start(&r->deadline, on_drain_deadline, (uint64_t)r->config->drain_timeout_ms, 0);
	wake_at(r, 0);
}

/* --- for operators --- */

size_t relay_targets(const struct relay *r)
{
	return r->hook_count;
}

const struct target *relay_target(const struct relay *r, size_t i)
{
	return &r->hooks[i]->lanes[0].target;
}

const json_t *relay_pause(const struct relay *r, size_t i)
{
	return json_object_get(r->backlog.pauses, r->hooks[i]->webhook.name);
}

const char *relay_error(const struct relay *r)
{
	enum postgres_state state = postgres_state(r->postgres);

	if (state != POSTGRES_READY && state != POSTGRES_BUSY)
		return postgres_error(r->postgres);
	if (is_lasting(r, &r->leasing_trouble))
		return r->leasing_trouble.reason;
	if (r->job != JOB_NONE && real_ms() - r->asked_ms >= OVER_MS)
		return "a statement has had no answer for ten seconds";
	return is_lasting(r, &r->recording_trouble) ? r->recording_trouble.reason : "";
}

const struct backlog *relay_backlog(const struct relay *r)
{
	return &r->backlog;
}

/* --- life --- */

static struct hook *new_hook(const struct webhook *w)
{
	struct hook *h = memory_calloc(1, sizeof(*h));

	webhook_copy(&h->webhook, w);
	list_init(&h->node);
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &h->lanes[i];

		l->hook = h;
		l->target = (struct target){.webhook = &h->webhook, .other = &h->lanes[!i].target, .is_retry = i};
		list_init(&l->waiting);
	}
	return h;
}

/* Removes the hook with the same name, URL and format from hooks and returns it, or NULL. */
static struct hook *take_hook(struct hook **hooks, size_t n, const struct webhook *w)
{
	for (size_t i = 0; i < n; i++) {
		struct hook *h = hooks[i];

		if (!h || strcmp(h->webhook.name, w->name) != 0 || strcmp(h->webhook.digest, w->digest) != 0 ||
		    h->webhook.format != w->format)
			continue;
		hooks[i] = NULL;
		webhook_clear(&h->webhook);
		webhook_copy(&h->webhook, w);
		return h;
	}
	return NULL;
}

/* Gives back the hook's waiting rows. Requests in progress may end. */
static void retire(struct relay *r, struct hook *h)
{
	for (int i = 0; i < LANES; i++)
		list_each(node, after, &h->lanes[i].waiting) {
			h->lanes[i].target.waiting--;
			give_back(list_entry(node, struct attempt, node), 0);
		}
	list_append(&r->retired, &h->node);
}

static void name_spells(struct hook *h)
{
	h->stale.target = h->unsent.target = h->webhook.name;
	for (int i = 0; i < LANES; i++)
		h->lanes[i].target.spell.target = h->webhook.name;
}

/* Makes hooks for the webhooks in the settings, and keeps those with the same name, URL and format. */
static void fill_hooks(struct relay *r)
{
	const struct webhooks *webhooks = &r->config->webhooks;
	struct hook **old = r->hooks;
	size_t n = r->hook_count;

	r->hooks = memory_calloc(webhooks->count + 1, sizeof(struct hook *));
	r->hook_count = webhooks->count;
	array_start(&r->names, ARRAY_TEXT, webhooks->count);
	array_start(&r->urls, ARRAY_TEXT, webhooks->count);
	for (size_t i = 0; i < webhooks->count; i++) {
		const struct webhook *w = &webhooks->items[i];

		r->hooks[i] = take_hook(old, n, w);
		if (!r->hooks[i])
			r->hooks[i] = new_hook(w);
		name_spells(r->hooks[i]);
		array_add_string(&r->names, w->name, false);
		array_add_string(&r->urls, w->digest, false);
	}
	for (size_t i = 0; i < n; i++)
		if (old[i])
			retire(r, old[i]);
	free(old);
}

void relay_change(struct relay *r)
{
	fill_hooks(r);
	deliveries_change(r->deliveries, webhooks_concurrency(&r->config->webhooks));
	r->look_ms = 0;
	relay_wake(r);
}

struct relay *relay_open(uv_loop_t *loop, const struct config *config)
{
	struct relay *r = memory_calloc(1, sizeof(*r));
	const struct postgres_settings settings = {
		.conninfo = config->postgres,
		.timeout_ms = config->postgres_timeout_ms,
		.tables = "{outbox,webhook_pauses}",
		.on_state = on_postgres_state,
		.on_answer = on_answer,
		.on_unusable = on_unusable,
		.owner = r,
	};

	r->loop = loop;
	r->config = config;
	r->divisor = 1;
	r->leasing_trouble.backoff = (struct backoff){.base_ms = 50, .cap_ms = 5000};
	r->recording_trouble.backoff = r->leasing_trouble.backoff;
	list_init(&r->sending);
	list_init(&r->ended);
	list_init(&r->recording);
	list_init(&r->retired);
	fill_hooks(r);
	r->deliveries = deliveries_open(loop, webhooks_concurrency(&config->webhooks));
	r->postgres = postgres_open(loop, &settings);
	uv_timer_init(loop, &r->timer);
	uv_timer_init(loop, &r->deadline);
	r->timer.data = r->deadline.data = r;
	log_info("delivering to webhooks", "targets=%zu", config->webhooks.count);
	return r;
}

static void release(void *object)
{
	struct relay *r = object;

	for (int i = 0; i < COLUMNS; i++)
		array_free(&r->columns[i]);
	json_decref(r->backlog.pauses);
	array_free(&r->names);
	array_free(&r->urls);
	for (size_t i = 0; i < r->hook_count; i++)
		hook_free(r->hooks[i]);
	free_retired(r, true);
	free(r->hooks);
	free(r);
}

void relay_close(struct relay *r, void (*done)(void *arg), void *arg)
{
	r->is_drained = true; /* from here on, go_on does nothing */
	list_each(node, after, &r->sending) {
		struct request *q = list_entry(node, struct request, node);

		delivery_cancel(q->delivery);
		request_free(q);
	}
	for (size_t i = 0; i < count_lanes(r); i++)
		free_all(&lane_at(r, i)->waiting);
	free_all(&r->ended);
	free_all(&r->recording);
	ending_begin(&r->ending, 4, release, r, done, arg);
	postgres_close(r->postgres, ending_part, &r->ending);
	deliveries_close(r->deliveries, ending_part, &r->ending);
	ending_close(&r->ending, &r->timer);
	ending_close(&r->ending, &r->deadline);
}
