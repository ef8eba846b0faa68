/* store_postgres.c stores a batch in Postgres: the statement's parameters, isolating a refused row, and retries.
 * postgres/connection.c has the connection; storing.c decides which events come and what follows. */
#include "store/store_kind.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"
#include "base/fault_point.h"
#include "base/sha256.h"
#include "base/text.h"
#include "postgres/array.h"
#include "base/backoff.h"
#include "write_dead_letters.sql.h"
#include "store/bulk_load.h"
#include "check_effects.sql.h"
#include "copied.sql.h"
#include "copy.sql.h"
#include "store/effects.h"
#include "epoch.sql.h"
#include "find_present.sql.h"
#include "hazards.sql.h"
#include "holder.sql.h"
#include "insert.sql.h"
#include "store/limit.h"
#include "event/line_minutes.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "checkin.sql.h"
#include "put_cursors.sql.h"
#include "read_cursors.sql.h"
#include "postgres/connection.h"
#include "postgres/jsonb.h"
#include "postgres/schema.h"
#include "base/counters.h"

#define COLUMNS    7  /* most array parameters of a statement */
#define RANGES_MAX 64 /* a batch is halved at most 17 times, and each halving leaves one range */

#define CHECK_AGAIN_MS 1000

#define TRIES 3 /* more tries of a whole batch before halving it, if the failure may pass */

#define WAITS_MAX 16 /* tries of a batch blocked by other transactions before it is no longer halved */

#define LOCK_MS       750  /* how long a statement waits for locks, plus twice a statement's usual time */
#define LOCK_MOST_MS  2000 /* but at most this long */
#define HASTY_LOCK_MS 100  /* the same while other events would wait behind blocked ones */
#define AGAIN_LOCK_MS 50   /* the same for events that were blocked before */

#define BOOL_OID 16
#define TEXT_OID 25

#define STALL_MS     500  /* a batch takes about 20 ms */
#define ASK_AGAIN_MS 50   /* wait after a query for the epoch without an answer */
#define SURE_MS      1000 /* how long the epoch that Postgres returned is certain */

#define SEEK_MS    1000  /* time between two searches for the session that has a row */
#define BLOCKED_MS 20000 /* how long that session is named after an event has met the row */

#define LOSSES_MOST 4 /* times the connection is lost during the same INSERT before the batch is halved */

#define FIRST_ROWS 16 /* rows of a statement with effects, until it is known how long they take */

#define COPY_LEAST    24           /* rows for which COPY pays */
#define MANY_LEAST    64           /* rows for which COPY pays with effects, or after looking up existing rows */
#define COPY_BYTES    (256u << 10) /* bytes for which it always pays */
#define CAUTION_LEAST 4            /* batches without COPY after a refusal, doubled each time */
#define CAUTION_MOST  256          /* but at most this many */

enum job {
	JOB_NONE,
	JOB_FIND_PRESENT,
	JOB_COPY,
	JOB_INSERT,
	JOB_VERIFY,
	JOB_DEAD_LETTER,
	JOB_OTHER, /* not part of a batch; not retried here */
};

/* Array parameters. */
static const unsigned int types[][COLUMNS] = {
	[JOB_FIND_PRESENT] = {ARRAY_TEXT},
	[JOB_VERIFY] = {ARRAY_TEXT},
	[JOB_INSERT] = {ARRAY_TEXT, ARRAY_TEXT, ARRAY_JSONB, ARRAY_TEXT, ARRAY_TIME, ARRAY_TIME},
	[JOB_DEAD_LETTER] = {ARRAY_BYTEA, ARRAY_TEXT, ARRAY_TEXT, ARRAY_BYTEA, ARRAY_TEXT, ARRAY_TEXT, ARRAY_TEXT},
};

typedef void answer_fn(struct store *s, const struct postgres_answer *answer);

/* How long to avoid something that was refused. */
struct caution {
	unsigned int wait;    /* batches */
	unsigned int penalty; /* wait after the next refusal */
};

/* Events [from, to) of the batch, stored by one statement. */
struct range {
	size_t from;
	size_t to;
};

struct store {
	const struct store_kind *kind; /* must be first: see store_kind.h */
	uv_loop_t *loop;
	struct store_callbacks on;
	const char *instance_id;
	char *shown_id; /* the same in ASCII, for databases that are not UTF-8 */
	const char *consumer;
	struct postgres *postgres;
	enum job job;
	const struct batch *batch;
	struct range ranges[RANGES_MAX]; /* a stack; the top range is current or next */
	int range_count;
	int64_t sent_ms;       /* loop clock: start of the first range */
	int64_t asked_ms;      /* loop clock: start of the current statement */
	int64_t told_ms;       /* loop clock: start of the last statement that returned the epoch */
	uint32_t epoch;        /* 0: unknown */
	uint32_t range_epoch;  /* epoch that the range's first statement returned */
	char *hazards;         /* settings in the last warning; heap */
	struct caution blind;  /* COPY without looking up existing rows */
	struct caution looked; /* COPY after looking them up */
	struct caution alone;  /* effects at the same time as other listeners */
	struct effects effects;
	struct array columns[COLUMNS]; /* buffers of the statement, reused */
	struct copy_stream copy;       /* the current stream */
	struct limit limit;            /* rows of an INSERT */
	size_t absent;                 /* rows for COPY */
	bool *present;                 /* per event of the batch: a committed row exists, as far as known */
	bool *suppressed;              /* per event of the batch: INSERT returned nothing, and there is no row */
	bool *spare[2];                /* results of the next batch, which may start before this one is reported */
	uint64_t passed;               /* rows stored so far */
	int64_t took_ms;               /* time of the last statement that stored rows */
	unsigned int tries;            /* failed tries of the current batch as a whole */
	unsigned int losses;           /* consecutive losses of the connection during the current batch */
	unsigned int waits;            /* tries of the current batch blocked by other transactions */
	bool has_effects;
	bool is_telling;             /* calling on_stored for a range; then comes on_epoch */
	bool has_looked;             /* present is valid */
	bool has_posted;             /* the current INSERT added rows to the outbox */
	bool is_checked;             /* checked on this connection */
	bool is_unusable;            /* the last check found the handler wrong */
	bool is_ascii;               /* dead letters: write only ids and reasons */
	bool is_searching;           /* another transaction holds a row of the current batch */
	bool is_isolating;           /* a part of the current batch took or waited too long */
	struct log_spell spell;      /* errors of any statement */
	bool has_dead_letter_logged; /* the last dead letters could not be written */
	bool is_sent;                /* the current batch was sent and its answer was lost */
	bool is_held_up;             /* the last answer was a lock timeout */
	answer_fn *on_other;         /* handles the current statement's answer; NULL: it is the batch's */
	char holder[300];            /* the session last logged as holding a lock; "" once rows are stored */
	int64_t blocked_ms;          /* loop clock: it was sought for an event that met a row; 0: it holds up all */
	char trouble[300];           /* the error last logged */
	uv_timer_t retry;
	struct backoff backoff;
	struct ending ending;
};

static void send_range(struct store *s);
static answer_fn on_checked, on_holder;

static struct range *top(struct store *s)
{
	return &s->ranges[s->range_count - 1];
}

/* --- parameters --- */

static void start_columns(struct store *s, size_t n)
{
	for (int i = 0; i < COLUMNS && types[s->job][i]; i++)
		array_start(&s->columns[i], types[s->job][i], n);
}

/* Adds only ids: those of all events, or with JOB_VERIFY, of those reported as present. */
static void fill_ids(struct store *s, const struct range *r)
{
	bool is_all = s->job == JOB_FIND_PRESENT;
	size_t n = 0;

	for (size_t i = r->from; i < r->to; i++)
		n += is_all || s->present[i];
	start_columns(s, n);
	for (size_t i = r->from; i < r->to; i++)
		if (is_all || s->present[i])
			array_add(&s->columns[0], s->batch->events[i]->id, s->batch->events[i]->id_len);
}

static void fill_rows(struct store *s, const struct range *r)
{
	start_columns(s, r->to - r->from);
	for (size_t i = r->from; i < r->to; i++) {
		const struct event *ev = s->batch->events[i];

		array_add(&s->columns[0], ev->id, ev->id_len);
		array_add(&s->columns[1], ev->type, ev->type_len);
		array_add(&s->columns[2], ev->payload.at, ev->payload.len);
		bulk_add_source(&s->columns[3], ev);
		array_add_time(&s->columns[4], ev->came_us);
		bulk_add_time(&s->columns[5], ev);
	}
}

/* A consumer has its own dead letters: see sql/migrations/004_effects.sql. */
static void put_digest(struct store *s, const struct event *ev)
{
	unsigned char digest[32 + CONFIG_CONSUMER_MAX];
	size_t name_len = strlen(s->consumer);

	event_digest(ev, digest);
	memcpy(digest + 32, s->consumer, name_len);
	if (name_len)
		sha256(digest, 32 + name_len, digest);
	array_add(&s->columns[0], (const char *)digest, 32);
}

static void fill_dead_letter(struct store *s, const struct range *r)
{
	start_columns(s, r->to - r->from);
	for (size_t i = r->from; i < r->to; i++) {
		const struct event *ev = s->batch->events[i];

		put_digest(s, ev);
		array_add_text(&s->columns[1], ev->id_len ? ev->id : NULL, ev->id_len, s->is_ascii);
		array_add_string(&s->columns[2], ev->reason, s->is_ascii);
		array_add(&s->columns[3], ev->message, store_raw_len(ev));
		array_add_string(&s->columns[4], event_sender(ev), false);
		array_add_text(&s->columns[5], ev->source && ev->id_len ? ev->type : NULL, ev->type_len, s->is_ascii);
		array_add_string(&s->columns[6], ev->source, false);
	}
}

/* --- COPY or INSERT --- */

static void caution_raise(struct caution *c)
{
	c->wait = c->penalty;
	if (c->penalty < CAUTION_MOST)
		c->penalty *= 2;
}

static void caution_lower(struct caution *c)
{
	if (c->penalty > CAUTION_LEAST)
		c->penalty--;
}

static bool has_unclaimed(const struct batch *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (!b->events[i]->is_claimed)
			return true;
	return false;
}

/* Claims make conflicts rare, and COPY costs the server little more than half as much as INSERT. But COPY refuses the
 * whole batch if one row exists. After such a refusal, look up the batches' ids first, as with late duplicates. If COPY
 * is still refused, as when several listeners store the same events without Redis, use INSERT for a while. COPY stores
 * a batch one partition after the other, so two listeners may use different orders: without claims they would deadlock.
 * And COPY does not return which rows it stored: if triggers may change an id, or suppress a row and fire again, use
 * INSERT. */
static enum job choose_job(const struct store *s, const struct batch *b)
{
	bool is_heavy = b->bytes >= COPY_BYTES;
	bool is_many = b->count >= FAULT_POINT_ONE("store: COPY of few rows", MANY_LEAST) || is_heavy;
	bool is_enough = is_many || (b->count >= COPY_LEAST && !s->has_effects);

	if (s->alone.wait || !is_enough || event_has_failed(b->events[0]) || b->count > s->limit.rows)
		return JOB_INSERT;
	if (postgres_identity(s->postgres)->is_partitioned && has_unclaimed(b))
		return JOB_INSERT;
	if (postgres_identity(s->postgres)->is_changed)
		return JOB_INSERT;
	if (!s->blind.wait)
		return JOB_COPY;
	return s->looked.wait || !is_many ? JOB_INSERT : JOB_FIND_PRESENT;
}

/* The batch was looked up or inserted. If rows existed, a COPY would have been refused. */
static void adapt_copy_wait(struct store *s, bool has_present)
{
	if (has_present)
		s->blind.wait = s->blind.penalty;
	else if (s->blind.wait)
		s->blind.wait--;
}

/* --- the epoch --- */

static void set_epoch(struct store *s, uint32_t epoch)
{
	if (s->epoch == epoch)
		return;
	s->epoch = epoch;
	if (!s->is_telling)
		s->on.on_epoch(s->on.arg, epoch);
}

static void keep_epoch(struct store *s, const struct postgres_answer *answer)
{
	if (!answer->has_epoch)
		return;
	s->told_ms = s->asked_ms;
	set_epoch(s, answer->epoch);
	if (s->job == JOB_FIND_PRESENT || s->job == JOB_INSERT)
		s->range_epoch = answer->epoch;
}

/* True if the database may have lost the rows of the first of two statements for one range before the second one. */
static bool has_forgotten(const struct store *s, const struct postgres_answer *answer)
{
	bool is_second = s->job == JOB_VERIFY || (s->job == JOB_COPY && s->has_looked);

	return is_second && answer->has_epoch && answer->epoch != s->range_epoch;
}

static bool is_sure(const struct store *s)
{
	return !s->epoch ||
	       ((int64_t)uv_now(s->loop) - s->told_ms <= SURE_MS && !FAULT_POINT("store: the epoch is in doubt"));
}

/* --- answers --- */

/* True if an event waits for another transaction's row. It may not try again for 13 s. */
static bool is_blocked(const struct store *s)
{
	return s->blocked_ms && (int64_t)uv_now(s->loop) - s->blocked_ms < BLOCKED_MS;
}

static void pop_range(struct store *s)
{
	s->range_count--;
	backoff_reset(&s->backoff);
	log_spell_off(&s->spell, (int64_t)uv_now(s->loop), "postgres stores again");
	*s->trouble = '\0';
	if (!is_blocked(s))
		*s->holder = '\0';
	if (s->range_count)
		send_range(s);
	else
		s->job = JOB_NONE;
}

/* Ids are returned as Postgres escapes bytes: see sql/queries/insert.sql. Returns the length of the id in out. */
static size_t read_escaped(const char *text, size_t len, char out[ENVELOPE_ID_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < ENVELOPE_ID_MAX; n++) {
		const char *at = text + i;

		if (*at != '\\') {
			out[n] = *at;
			i++;
		} else if (i + 3 < len && at[1] != '\\') {
			out[n] = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			i += 4;
		} else {
			out[n] = '\\';
			i += 2;
		}
	}
	return n;
}

/* Sets flags to value for the events in the answer. */
static size_t read_ids(struct store *s, const struct postgres_answer *answer, bool *flags, bool value)
{
	struct range r = *top(s);
	size_t guess = r.from, count = 0;

	for (size_t row = 0; row < answer->rows; row++) {
		size_t len;
		const char *text = postgres_text(answer, row, &len);
		char id[ENVELOPE_ID_MAX];
		size_t id_len = read_escaped(text, len, id);
		long at = batch_find(s->batch, r.from, r.to, guess, id, id_len);

		if (at < 0)
			continue;
		flags[at] = value;
		guess = (size_t)at + 1;
		count++;
	}
	return count;
}

static void fill_flags(struct store *s, bool *flags, bool value)
{
	memset(flags + top(s)->from, value, (top(s)->to - top(s)->from) * sizeof(*flags));
}

/* Postpones an event, which leaves the batch. */
static void report_later(struct store *s, struct event *ev, enum store_result result, const char *why)
{
	if (!ev->put_offs)
		ev->passed = s->passed;
	counters.rows_put_off++;
	s->on.on_stored(s->on.arg, ev, result, why);
}

/* A consumer's statement does not see a row that another transaction committed after it began: see effects.c. */
static void report_suppressed(struct store *s, struct event *ev)
{
	if (*s->consumer && !ev->is_unseen) {
		ev->is_unseen = true;
		report_later(s, ev, STORE_BLOCKED, "the row is not visible yet");
		return;
	}
	counters.rows_refused++;
	s->on.on_stored(s->on.arg, ev, STORE_REFUSED,
			"Postgres stored no row and raised no error: a trigger or rule suppressed it");
}

static void swap(bool **a, bool **b)
{
	bool *c = *a;

	*a = *b;
	*b = c;
}

/* Send the next statement first, or Postgres would be idle while all these events settle. If sending finds the
 * connection lost, the epoch is still reported after the events that were stored in it. */
static void report_stored(struct store *s)
{
	struct range r = *top(s);
	uint32_t epoch = s->epoch;
	struct event *const *evs = s->batch->events;
	const bool *present = s->present, *suppressed = s->suppressed;
	bool has_posted = s->has_posted;

	if (event_has_failed(evs[r.from]))
		s->blocked_ms = 0;
	s->has_posted = false;
	s->is_telling = true;
	counters.batches++;
	for (size_t i = r.from; i < r.to; i++)
		s->passed += !suppressed[i] && !present[i];
	if (s->range_count == 1) {
		swap(&s->present, &s->spare[0]);
		swap(&s->suppressed, &s->spare[1]);
	}
	pop_range(s);
	if (s->job == JOB_NONE && s->on.on_idle)
		s->on.on_idle(s->on.arg);
	for (size_t i = r.from; i < r.to; i++) {
		if (i + EVENT_FETCH < r.to)
			event_fetch(evs[i + EVENT_FETCH]);
		if (i + EVENT_FETCH / 2 < r.to) /* its hash is fetched by now */
			line_minutes_fetch(&line_minutes, evs[i + EVENT_FETCH / 2]->id_hash.half[0]);
		if (suppressed[i])
			report_suppressed(s, evs[i]);
		else
			s->on.on_stored(s->on.arg, evs[i], present[i] ? STORE_PRESENT : STORE_INSERTED, NULL);
	}
	s->is_telling = false;
	if (s->epoch != epoch)
		s->on.on_epoch(s->on.arg, s->epoch);
	if (has_posted)
		s->on.on_posted(s->on.arg);
}

/* Adapts the limit after a statement with this many rows, of which `stored` were new. */
static void measure(struct store *s, size_t rows, size_t stored)
{
	s->took_ms = (int64_t)uv_now(s->loop) - s->asked_ms;
	limit_raise(&s->limit, rows, stored, s->took_ms);
}

/* RETURNING names the new rows. The others existed, or a trigger suppressed them: look in the table. */
static void on_inserted(struct store *s, const struct postgres_answer *answer)
{
	struct range r = *top(s);
	size_t stored;
	bool is_all_new;

	s->has_posted = s->has_effects && effects_have_posted(answer);
	fill_flags(s, s->present, true);
	stored = read_ids(s, answer, s->present, false);
	is_all_new = stored == r.to - r.from;
	measure(s, r.to - r.from, stored);
	adapt_copy_wait(s, !is_all_new);
	if (s->looked.wait)
		s->looked.wait--;
	if (s->alone.wait)
		s->alone.wait--;
	else
		caution_lower(&s->alone);
	if (is_all_new) {
		report_stored(s);
		return;
	}
	s->job = JOB_VERIFY;
	send_range(s);
}

static void on_verified(struct store *s, const struct postgres_answer *answer)
{
	struct range r = *top(s);

	memcpy(s->suppressed + r.from, s->present + r.from, (r.to - r.from) * sizeof(*s->present));
	read_ids(s, answer, s->suppressed, false);
	s->job = JOB_INSERT;
	report_stored(s);
}

static void on_looked_up(struct store *s, const struct postgres_answer *answer)
{
	struct range r = *top(s);

	read_ids(s, answer, s->present, true);
	adapt_copy_wait(s, answer->rows > 0);
	s->absent = r.to - r.from - answer->rows;
	s->has_looked = true;
	if (!s->absent) {
		report_stored(s);
		return;
	}
	s->job = JOB_COPY;
	send_range(s);
}

/* Lowers the limit if the statement was cancelled because it took too long, not because it waited for a lock. */
static void lower_limit(struct store *s, const struct postgres_answer *answer)
{
	if (answer->is_late && !answer->is_locked && !answer->is_local && (s->job == JOB_COPY || s->job == JOB_INSERT))
		limit_lower(&s->limit, top(s)->to - top(s)->from);
}

/* COPY stored nothing. INSERT skips existing rows, and finds the bad one. */
static void insert_instead(struct store *s)
{
	counters.copy_statements_refused++;
	caution_raise(s->has_looked ? &s->looked : &s->blind);
	s->job = JOB_INSERT;
	send_range(s);
}

/* A trigger may have suppressed rows: INSERT and a look into the table find which. */
static void on_copied(struct store *s, const struct postgres_answer *answer)
{
	if (answer->rows != s->absent) {
		insert_instead(s);
		return;
	}
	counters.copy_statements++;
	measure(s, s->batch->count, s->absent);
	caution_lower(s->has_looked ? &s->looked : &s->blind);
	caution_lower(&s->alone);
	s->has_posted = s->has_effects && effects_have_posted(answer);
	report_stored(s);
}

/* why: the reason if some were not written; else NULL. */
static void report_dead_letters(struct store *s, const char *why)
{
	struct range r = *top(s);

	s->has_dead_letter_logged = why;
	if (why)
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "cannot write dead letters, will retry", why);
	for (size_t i = r.from; i < r.to; i++)
		s->on.on_dead_lettered(s->on.arg, s->batch->events[i],
				       s->suppressed[i] ? STORE_NOT_DEAD_LETTERED
				       : s->present[i]  ? STORE_HAS_ROW
							: STORE_DEAD_LETTERED);
	pop_range(s);
}

static void on_dead_lettered(struct store *s, const struct postgres_answer *answer)
{
	const char *why = NULL;
	size_t len;

	for (size_t row = 0; row < answer->rows; row++) {
		long place = strtol(postgres_text(answer, row, &len), NULL, 10);

		(place < 0 ? s->suppressed : s->present)[top(s)->from + (size_t)labs(place) - 1] = true;
		why = place < 0 ? "a trigger suppressed one and raised no error" : why;
	}
	report_dead_letters(s, why);
}

/* Splits off the first n events of the range, which are sent first. */
static void split(struct store *s, size_t n)
{
	struct range first = {top(s)->from, top(s)->from + n};

	assert(s->range_count < RANGES_MAX);
	top(s)->from = first.to;
	s->ranges[s->range_count++] = first;
}

/* Returns false if the range is a single event. */
static bool halve(struct store *s)
{
	size_t n = top(s)->to - top(s)->from;

	if (n == 1)
		return false;
	counters.batch_splits++;
	split(s, n / 2);
	return true;
}

static void refuse_row(struct store *s, const struct postgres_answer *answer)
{
	struct event *ev = s->batch->events[top(s)->from];
	bool is_hopeless = answer->result == POSTGRES_BAD_VALUE;

	counters.rows_refused++;
	s->on.on_stored(s->on.arg, ev, is_hopeless ? STORE_HOPELESS : STORE_REFUSED, answer->error);
	pop_range(s);
}

/* Refuses the events of the range that jsonb cannot hold, and keeps the others in order. Halving the range until each
 * is alone would take thousands of statements. */
static bool refuse_hopeless(struct store *s)
{
	struct range r = *top(s);
	struct event **evs = s->batch->events;
	const char *why;

	top(s)->from = r.to;
	for (size_t i = r.to; i-- > r.from;)
		if ((why = jsonb_fault(evs[i]->payload))) {
			counters.rows_refused++;
			s->on.on_stored(s->on.arg, evs[i], STORE_HOPELESS, why);
		} else {
			evs[--top(s)->from] = evs[i];
		}
	return top(s)->from > r.from;
}

/* A refused row fails its whole statement: halve until it is alone. */
static void on_bad_row(struct store *s, const struct postgres_answer *answer)
{
	bool is_less = answer->result == POSTGRES_BAD_VALUE && refuse_hopeless(s);

	if (top(s)->from == top(s)->to)
		pop_range(s);
	else if (is_less || halve(s))
		send_range(s);
	else
		refuse_row(s, answer);
}

static bool seek_holder(struct store *s)
{
	postgres_set_lock_timeout(s->postgres, HASTY_LOCK_MS);
	s->on_other = postgres_query(s->postgres, SQL_HOLDER, NULL, 0) == 0 ? on_holder : NULL;
	return s->on_other;
}

static void go_on(struct store *s)
{
	if (s->job != JOB_NONE)
		send_range(s);
}

static void on_holder(struct store *s, const struct postgres_answer *answer)
{
	size_t len;
	const char *name = answer->result == POSTGRES_OK && answer->rows ? postgres_text(answer, 0, &len) : "";

	s->is_held_up = false;
	if (*name && strcmp(name, s->holder) != 0)
		log_warn("statements wait for a lock", "holder=%s", name);
	snprintf(s->holder, sizeof(s->holder), "%s", name);
	go_on(s);
}

static void on_retry(uv_timer_t *timer)
{
	struct store *s = timer->data;

	if (postgres_state(s->postgres) != POSTGRES_READY)
		return; /* sent when it is; a new connection may be at work on a check of ours */
	if (s->is_held_up && seek_holder(s)) {
		s->blocked_ms = 0;
		return;
	}
	if (s->on.on_pause)
		s->on.on_pause(s->on.arg);
	if (!s->on_other)
		send_range(s);
}

static void retry_later(struct store *s, const char *why)
{
	snprintf(s->trouble, sizeof(s->trouble), "%s", why);
	counters.store_retries++;
	log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "postgres error, will retry the batch", why);
	uv_timer_start(&s->retry, on_retry, (uint64_t)backoff_next(&s->backoff, backoff_draw()), 0);
}

/* A single row is to blame if the error names it, or if others were stored since it first failed. */
static bool is_rows_fault(const struct store *s, const struct event *ev, enum postgres_blame blame)
{
	switch (blame) {
	case POSTGRES_BLAME_NOBODY:
		return false;
	case POSTGRES_BLAME_OPEN:
		return ev->put_offs && s->passed > ev->passed;
	case POSTGRES_BLAME_ROW:
		return true;
	}
	return false;
}

/* Postpones the range's event and continues with the others, after a wait if the server is in trouble. */
static void put_off(struct store *s, const struct postgres_answer *answer)
{
	struct range r = *top(s);

	for (size_t i = r.from; i < r.to; i++)
		report_later(s, s->batch->events[i], answer->is_local ? STORE_BLOCKED : STORE_LATER, answer->error);
	if (!--s->range_count)
		s->job = JOB_NONE;
	if (answer->is_blocked && (int64_t)uv_now(s->loop) - s->blocked_ms >= SEEK_MS && seek_holder(s))
		s->blocked_ms = (int64_t)uv_now(s->loop);
	else if (answer->is_local)
		go_on(s);
	else if (s->job != JOB_NONE)
		retry_later(s, answer->error);
}

/* Either the server or a single event is in trouble: first retry the whole batch, then halve it. Do not wait if a
 * function raised the error, or if the statement took too long or waited for a row. If another transaction has many of
 * the rows, the rest fail with their neighbours this time. */
static void on_trouble(struct store *s, const struct postgres_answer *answer)
{
	bool is_rows = answer->blame == POSTGRES_BLAME_ROW;
	bool may_pass = answer->result == POSTGRES_CONFLICT || !is_rows;
	bool has_waited = answer->is_late && answer->is_local;
	bool is_at_once = has_waited || (answer->is_late && !answer->is_locked);

	s->waits += has_waited;
	s->is_searching |= has_waited && answer->is_blocked;
	s->is_isolating |= is_at_once;
	if (may_pass && !is_at_once && s->tries++ < TRIES) {
		retry_later(s, answer->error);
	} else if (!(has_waited && s->waits > WAITS_MAX) && halve(s)) {
		s->is_isolating |= answer->is_late;
		if (is_rows || answer->is_late)
			send_range(s);
		else
			retry_later(s, answer->error);
	} else if (is_rows_fault(s, s->batch->events[top(s)->from], answer->blame)) {
		refuse_row(s, answer);
	} else {
		put_off(s, answer);
	}
}

/* The connection was lost while the range was stored. An event whose trigger crashes the backend each time must not
 * keep the others from being stored. */
static void on_lost(struct store *s, const struct postgres_answer *answer)
{
	if (++s->losses < LOSSES_MOST)
		return;
	s->losses = LOSSES_MOST - 1;
	s->is_isolating = true;
	if (halve(s))
		send_range(s);
	else if (is_rows_fault(s, s->batch->events[top(s)->from], POSTGRES_BLAME_OPEN))
		refuse_row(s, answer);
	else
		put_off(s, answer);
}

/* True if the batch uses COPY or a look-up for it. INSERT can always replace them. */
static bool is_by_copy(const struct store *s)
{
	return s->job == JOB_COPY || s->job == JOB_FIND_PRESENT;
}

/* The statement may have committed before the connection was lost. Sending it again by INSERT is harmless. */
static void on_unknown(struct store *s)
{
	counters.store_retries++;
	if (is_by_copy(s))
		s->job = JOB_INSERT;
}

/* If a single dead letter may be to blame, halves the range to write the others. A lock of the table holds up all. */
static void on_not_dead_lettered(struct store *s, const struct postgres_answer *answer)
{
	bool is_single = answer->result == POSTGRES_BAD_ROW || answer->result == POSTGRES_BAD_VALUE ||
			 answer->blame == POSTGRES_BLAME_ROW ||
			 (answer->is_late && (answer->is_local || !answer->is_locked));

	if (is_single && halve(s)) {
		send_range(s);
		return;
	}
	fill_flags(s, s->suppressed, true);
	report_dead_letters(s, answer->error);
}

/* A database that is not UTF-8 may be unable to hold the id. It can hold the dead letter itself: raw is bytea. */
static void on_bad_dead_letter(struct store *s, const struct postgres_answer *answer)
{
	if (s->is_ascii) {
		on_not_dead_lettered(s, answer);
		return;
	}
	s->is_ascii = true;
	send_range(s);
}

static void on_done(struct store *s, const struct postgres_answer *answer)
{
	static answer_fn *const acts[] = {[JOB_FIND_PRESENT] = on_looked_up,
					  [JOB_COPY] = on_copied,
					  [JOB_INSERT] = on_inserted,
					  [JOB_VERIFY] = on_verified,
					  [JOB_DEAD_LETTER] = on_dead_lettered};

	if (has_forgotten(s, answer)) {
		s->job = JOB_INSERT;
		on_unknown(s);
		send_range(s);
		return;
	}
	acts[s->job](s, answer);
}

static void on_bad(struct store *s, const struct postgres_answer *answer)
{
	if (is_by_copy(s)) {
		log_debug("COPY refused", "reason=%s", answer->error);
		insert_instead(s);
	} else if (s->job == JOB_INSERT) {
		on_bad_row(s, answer);
	} else if (s->job == JOB_DEAD_LETTER) {
		on_bad_dead_letter(s, answer);
	} else {
		retry_later(s, answer->error);
	}
}

static void warn_of_hazards(struct store *s, const char *hazards)
{
	if (*hazards && (!s->hazards || strcmp(hazards, s->hazards) != 0))
		log_warn("postgres may lose commits when it crashes or fails over", "setting=%s", hazards);
	free(s->hazards);
	s->hazards = memory_strdup(hazards);
}

static void on_checkin(struct store *s, const struct postgres_answer *answer)
{
	bool is_told = answer->result == POSTGRES_OK;
	const char *deleted_s = "", *rows;
	bool is_amid = s->job != JOB_OTHER; /* between retries of a batch */
	size_t len;

	if (!is_amid)
		s->job = JOB_NONE;
	if (is_told && !is_amid)
		log_spell_off(&s->spell, (int64_t)uv_now(s->loop), "postgres stores again");
	else if (!is_told)
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "check-in lost", answer->error);
	if (is_told && answer->rows) {
		warn_of_hazards(s, postgres_cell(answer, 0, 2, &len));
		rows = postgres_cell(answer, 0, 1, &len);
		if (len && s->on.on_lines)
			s->on.on_lines(s->on.arg, rows, len);
		deleted_s = postgres_cell(answer, 0, 0, &len);
	}
	s->on.on_checked_in(s->on.arg, is_told, *deleted_s ? deleted_s : NULL);
	if (is_amid)
		go_on(s);
}

static struct slice cell(const struct postgres_answer *answer, size_t row, int column)
{
	struct slice s;

	s.at = postgres_cell(answer, row, column, &s.len);
	return s;
}

static void on_cursors_read(struct store *s, const struct postgres_answer *answer)
{
	bool is_read = answer->result == POSTGRES_OK;

	s->job = JOB_NONE;
	for (size_t i = 0; is_read && i < answer->rows; i++) {
		struct cursor c = {.source = cell(answer, i, 0).at,
				   .scope = cell(answer, i, 1).at,
				   .value = cell(answer, i, 2),
				   .variables = cell(answer, i, 3),
				   .changed_s = strtoll(cell(answer, i, 4).at, NULL, 10)};

		if (!c.variables.len)
			c.variables.at = NULL;
		s->on.on_cursor_read(s->on.arg, &c, true);
	}
	s->on.on_cursor_read(s->on.arg, NULL, is_read);
}

static void on_cursors_put(struct store *s, const struct postgres_answer *answer)
{
	bool is_stored = answer->result == POSTGRES_OK;

	s->job = JOB_NONE;
	if (!is_stored)
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "cannot store cursors, will retry", answer->error);
	s->on.on_cursors_put(s->on.arg, is_stored);
}

static void on_epoch_told(struct store *s, const struct postgres_answer *answer)
{
	(void)answer;
	s->job = JOB_NONE;
}

static void on_answer(void *owner, const struct postgres_answer *answer)
{
	struct store *s = owner;
	answer_fn *on_other = s->on_other;

	s->on_other = NULL;
	keep_epoch(s, answer);
	if (on_other) {
		on_other(s, answer);
		return;
	}
	s->is_held_up = answer->is_locked;
	if (s->job == JOB_NONE)
		return; /* given up */
	s->is_sent = answer->result == POSTGRES_UNKNOWN;
	lower_limit(s, answer);
	switch (answer->result) {
	case POSTGRES_OK:
		on_done(s, answer);
		return;
	case POSTGRES_BAD_VALUE:
	case POSTGRES_BAD_ROW:
		on_bad(s, answer);
		return;
	case POSTGRES_CONFLICT:
		caution_raise(&s->alone);
		if (!s->has_effects)
			batch_sort(s->batch, top(s)->from, top(s)->to);
		/* fallthrough */
	case POSTGRES_TROUBLE:
		if (is_by_copy(s) && answer->is_late && (answer->is_locked || answer->is_local))
			s->job = JOB_INSERT;
		/* COPY also fails where it is not allowed, as with row-level security. */
		if (is_by_copy(s)) {
			counters.store_retries += answer->result == POSTGRES_CONFLICT;
			on_bad(s, answer);
		} else if (s->job == JOB_INSERT) {
			on_trouble(s, answer);
		} else if (s->job == JOB_DEAD_LETTER) {
			on_not_dead_lettered(s, answer);
		} else {
			retry_later(s, answer->error);
		}
		return;
	case POSTGRES_UNKNOWN:
		for (size_t i = top(s)->from; i < top(s)->to; i++)
			s->batch->events[i]->may_have_row = true;
		on_unknown(s); /* resent when the connection is back */
		if (answer->is_late && s->job == JOB_INSERT)
			on_trouble(s, answer);
		else if (s->job == JOB_INSERT)
			on_lost(s, answer);
		if (answer->is_late && s->job == JOB_DEAD_LETTER)
			on_not_dead_lettered(s, answer);
		return;
	}
}

/* --- sending --- */

static struct slice write_rows(void *arg)
{
	struct store *s = arg;
	struct array *stream = &s->columns[0];

	copy_next(&s->copy, stream, POSTGRES_PIECE);
	return (struct slice){stream->bytes, stream->len};
}

static int send_copy(struct store *s)
{
	struct range r = *top(s);
	char *sql = s->has_effects ? effects_copy_sql(&s->effects, s->batch, r.from, r.to, s->absent) : NULL;
	int failed;

	s->copy = (struct copy_stream){s->batch->events + r.from, s->present + r.from, r.to - r.from, s->shown_id, 0};
	failed = postgres_copy(s->postgres, sql ? sql : SQL_COPY "; " SQL_COPIED, write_rows, s);
	free(sql);
	return failed;
}

static int send_statement(struct store *s)
{
	static const char *const texts[] = {[JOB_FIND_PRESENT] = SQL_FIND_PRESENT,
					    [JOB_INSERT] = SQL_INSERT,
					    [JOB_VERIFY] = SQL_FIND_PRESENT,
					    [JOB_DEAD_LETTER] = SQL_WRITE_DEAD_LETTERS};
	struct postgres_value values[COLUMNS + 3];
	const char *sql = texts[s->job], *chosen;
	bool is_find = s->job == JOB_FIND_PRESENT || s->job == JOB_VERIFY;
	int n = 0;

	(s->job == JOB_DEAD_LETTER ? fill_dead_letter : is_find ? fill_ids : fill_rows)(s, top(s));
	for (; n < COLUMNS && types[s->job][n]; n++)
		values[n] = (struct postgres_value){types[s->job][n], s->columns[n].bytes, s->columns[n].len};
	if (s->job == JOB_DEAD_LETTER) {
		values[n++] = (struct postgres_value){TEXT_OID, s->instance_id, strlen(s->instance_id)};
		values[n++] = (struct postgres_value){TEXT_OID, s->consumer, strlen(s->consumer)};
		values[n++] = (struct postgres_value){BOOL_OID, s->is_ascii ? "\0" : "\1", 1};
	} else if (is_find) {
		values[n++] = (struct postgres_value){TEXT_OID, s->consumer, strlen(s->consumer)};
	} else {
		values[n++] = (struct postgres_value){TEXT_OID, s->shown_id, strlen(s->shown_id)};
		if (s->has_effects)
			sql = effects_sql(&s->effects);
		if (s->has_effects && (chosen = effects_choose(&s->effects, s->batch, top(s)->from, top(s)->to)))
			values[n++] = (struct postgres_value){TEXT_OID, chosen, strlen(chosen)};
	}
	if (is_find || s->job == JOB_DEAD_LETTER)
		postgres_find_by_key(s->postgres);
	else if (s->has_effects && s->alone.wait)
		postgres_begin_with(s->postgres, effects_alone_sql());
	return postgres_query(s->postgres, sql, values, n);
}

/* Returns how long to wait for a lock. One event's lock stops all others, so it is short; even shorter while searching
 * for the locked row, for an event that met a lock before, and for dead letters that could not be written. Handlers may
 * need longer, and the exclusive lock of all effects has to wait for them. */
static int64_t lock_timeout_ms(struct store *s)
{
	bool is_hasty = s->job == JOB_DEAD_LETTER ? s->has_dead_letter_logged : s->is_isolating;
	int64_t hasty_ms = s->batch->events[top(s)->from]->put_offs ? AGAIN_LOCK_MS : HASTY_LOCK_MS;
	int64_t ms = LOCK_MS + 2 * s->took_ms;

	if ((s->job == JOB_INSERT || s->job == JOB_COPY) && s->has_effects)
		return is_hasty && !s->alone.wait ? hasty_ms : 0;
	return is_hasty ? hasty_ms : ms < LOCK_MOST_MS ? ms : LOCK_MOST_MS;
}

static void send_range(struct store *s)
{
	if (postgres_state(s->postgres) != POSTGRES_READY || (s->has_effects && !s->is_checked))
		return; /* sent when it is */
	uv_timer_stop(&s->retry);
	s->asked_ms = (int64_t)uv_now(s->loop);
	s->is_sent = true;
	if (s->job == JOB_INSERT && top(s)->to - top(s)->from > s->limit.rows)
		split(s, s->limit.rows);
	else if (s->job == JOB_INSERT && top(s)->to - top(s)->from > 1 && FAULT_POINT("store: a batch in parts"))
		split(s, 1);
	postgres_set_lock_timeout(s->postgres, lock_timeout_ms(s));
	if (s->job == JOB_COPY ? send_copy(s) : send_statement(s))
		on_unknown(s); /* the connection is lost; resent when it is back */
}

static void start(struct store *s, enum job job, const struct batch *b)
{
	assert(s->job == JOB_NONE && b->count);
	s->job = job;
	s->batch = b;
	s->ranges[0] = (struct range){0, b->count};
	s->range_count = 1;
	s->is_ascii = s->has_looked = s->is_sent = false;
	s->absent = b->count;
	s->is_isolating = b->events[0]->put_offs;
	s->tries = s->is_isolating ? TRIES : 0;
	s->waits = s->losses = 0;
	s->is_searching = false;
	memset(s->present, 0, b->count * sizeof(*s->present));
	memset(s->suppressed, 0, b->count * sizeof(*s->suppressed));
	s->sent_ms = (int64_t)uv_now(s->loop);
	send_range(s);
}

static void give_up(struct store *s)
{
	bool is_insert = s->job == JOB_INSERT || s->job == JOB_VERIFY || is_by_copy(s);

	if (!is_insert)
		return;
	uv_timer_stop(&s->retry);
	s->job = JOB_NONE;
	s->is_sent = false;
	while (s->range_count) {
		struct range r = s->ranges[--s->range_count];

		for (size_t i = r.from; i < r.to; i++)
			s->on.on_stored(s->on.arg, s->batch->events[i], STORE_UNKNOWN, postgres_error(s->postgres));
	}
}

/* Two listeners that insert the same ids in different orders deadlock, and Postgres cancels one of them (40P01). So a
 * batch keeps the order of arrival only while claims keep others from storing its events. The lock of
 * effects_alone_sql() prevents deadlocks without that. */
static void insert(struct store *s, const struct batch *b)
{
	if (has_unclaimed(b) || (s->alone.wait && !s->has_effects))
		batch_sort(b, 0, b->count);
	start(s, choose_job(s, b), b);
}

static void dead_letter(struct store *s, const struct batch *b)
{
	start(s, JOB_DEAD_LETTER, b);
}

static int ask(struct store *s, answer_fn *on_other, const char *sql, const struct postgres_value *values, int n)
{
	postgres_set_lock_timeout(s->postgres, LOCK_MOST_MS);
	if (postgres_query(s->postgres, sql, values, n))
		return -1;
	s->on_other = on_other;
	s->sent_ms = (int64_t)uv_now(s->loop);
	if (s->job != JOB_NONE) /* a check-in, between retries of a batch */
		return 0;
	s->job = JOB_OTHER;
	s->asked_ms = s->sent_ms;
	return 0;
}

static int checkin(struct store *s, const char *text)
{
	const struct postgres_value value = {TEXT_OID, text, strlen(text)};

	postgres_find_by_key(s->postgres);
	return ask(s, on_checkin, SCHEMA_WITH_HAZARDS(SQL_CHECKIN), &value, 1);
}

static int ask_epoch(struct store *s)
{
	if ((int64_t)uv_now(s->loop) - s->asked_ms < ASK_AGAIN_MS)
		return 0;
	return ask(s, on_epoch_told, SQL_EPOCH, NULL, 0);
}

static void add_cursor(struct array *columns, const struct cursor *c)
{
	array_add_string(&columns[0], c->source, false);
	array_add_string(&columns[1], c->scope, false);
	array_add_string(&columns[2], c->kind, false);
	array_add_text(&columns[3], c->value.at, c->value.len, false);
	array_add_text(&columns[4], c->variables.at, c->variables.len, false);
}

static int put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch)
{
	struct postgres_value values[7];
	char epoch_text[12];
	size_t sent = 0;

	for (size_t i = 0; i < cursors->count; i++)
		sent += cursors->items[i].sent > 0;
	for (int column = 0; column < 5; column++)
		array_start(&s->columns[column], ARRAY_TEXT, sent);
	for (size_t i = 0; i < cursors->count; i++)
		if (cursors->items[i].sent)
			add_cursor(s->columns, &cursors->items[i].cursor);
	for (int column = 0; column < 5; column++)
		values[column] = (struct postgres_value){ARRAY_TEXT, s->columns[column].bytes, s->columns[column].len};
	snprintf(epoch_text, sizeof(epoch_text), "%08x", epoch);
	values[5] = (struct postgres_value){TEXT_OID, epoch_text, strlen(epoch_text)};
	values[6] = (struct postgres_value){TEXT_OID, s->instance_id, strlen(s->instance_id)};
	return ask(s, on_cursors_put, SQL_PUT_CURSORS, values, 7);
}

static int read_cursors(struct store *s, const char *const *sources, size_t n)
{
	struct postgres_value value;

	array_start(&s->columns[0], ARRAY_TEXT, n);
	for (size_t i = 0; i < n; i++)
		array_add_string(&s->columns[0], sources[i], false);
	value = (struct postgres_value){ARRAY_TEXT, s->columns[0].bytes, s->columns[0].len};
	return ask(s, on_cursors_read, SQL_READ_CURSORS, &value, 1);
}

/* --- a new connection --- */

static void learn_identity(struct store *s)
{
	const struct postgres_identity *identity = postgres_identity(s->postgres);

	warn_of_hazards(s, identity->hazards);
	s->on.on_database(s->on.arg, identity->database);
	s->told_ms = s->asked_ms;
	set_epoch(s, identity->epoch);
}

static void check_effects(struct store *s)
{
	const char *handler = s->effects.config->handler ? s->effects.config->handler : "";
	const struct postgres_value value = {TEXT_OID, handler, strlen(handler)};

	if (postgres_query(s->postgres, SQL_CHECK_EFFECTS, &value, 1) == 0)
		s->on_other = on_checked;
}

static void on_check_again(uv_timer_t *timer)
{
	struct store *s = timer->data;

	if (postgres_state(s->postgres) == POSTGRES_READY)
		check_effects(s);
	else
		uv_timer_start(timer, on_check_again, CHECK_AGAIN_MS, 0);
}

/* Checks the handler again later. Until then the listener only checks in, which reports why. */
static void check_later(struct store *s, const char *why)
{
	s->is_unusable = true;
	snprintf(s->trouble, sizeof(s->trouble), "%s", why);
	log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "cannot use the handler, will retry", why);
	uv_timer_start(&s->retry, on_check_again, CHECK_AGAIN_MS, 0);
}

/* A handler that is wrong at the start ends the listener, unless it has received events. A handler that was right
 * before stays in use: while it is gone, statements fail and batches wait for it. */
static void on_checked(struct store *s, const struct postgres_answer *answer)
{
	bool was_right = effects_are_known(&s->effects);
	const char *text, *fault;
	size_t len;

	if (answer->result == POSTGRES_UNKNOWN)
		return; /* checked again on the next connection */
	if (answer->result != POSTGRES_OK) {
		check_later(s, answer->error);
		return;
	}
	text = postgres_text(answer, 0, &len);
	fault = was_right && *text != '=' ? NULL : effects_learn(&s->effects, text, len);
	if (fault) {
		s->on.on_unusable(s->on.arg, fault, 2);
		check_later(s, fault);
		return;
	}
	if (*text != '=')
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "handler changed since startup", text);
	s->is_checked = true;
	s->is_unusable = false;
	go_on(s);
}

/* --- life --- */

static void on_postgres_state(void *owner, enum postgres_state state)
{
	struct store *s = owner;

	s->is_checked = s->is_unusable = false;
	if (state == POSTGRES_PREPARING)
		s->asked_ms = (int64_t)uv_now(s->loop);
	if (state == POSTGRES_READY)
		learn_identity(s);
	else
		set_epoch(s, 0);
	if (state == POSTGRES_READY && s->has_effects)
		check_effects(s);
	else if (state == POSTGRES_READY)
		go_on(s);
}

static void on_unusable(void *owner, const char *sentence, int status)
{
	struct store *s = owner;

	s->on.on_unusable(s->on.arg, sentence, status);
}

static struct store_view view(const struct store *s)
{
	enum postgres_state state = postgres_state(s->postgres);
	const char *error = postgres_error(s->postgres);
	bool is_late = s->job != JOB_NONE && (int64_t)uv_now(s->loop) - s->sent_ms > STALL_MS;
	bool is_usable = s->is_checked || s->is_unusable || !s->has_effects;

	return (struct store_view){
		.is_idle = s->job == JOB_NONE && state == POSTGRES_READY && is_usable,
		.is_ready = !s->is_unusable && (state == POSTGRES_READY || state == POSTGRES_BUSY),
		.is_sent = s->is_sent,
		.is_searching = s->job == JOB_INSERT && s->is_searching,
		.is_stalled = state < POSTGRES_READY || is_late,
		.rows_most = s->limit.rows,
		.why = s->is_unusable ? s->trouble : error,
		.trouble = state == POSTGRES_BUSY ? (s->job == JOB_INSERT && s->effects.config->handler
							     ? "postgres does not answer: the handler may be slow"
							     : "postgres does not answer")
			   : *s->trouble          ? s->trouble
						  : error,
		.hazards = s->hazards ? s->hazards : "",
		.holder = s->blocked_ms && !is_blocked(s) ? "" : s->holder,
	};
}

const char *store_tables(const struct config *c)
{
	static _Thread_local char tables[240];
	bool has_lease = false;

	for (size_t i = 0; i < c->feed_count; i++)
		has_lease |= c->feeds[i]->fleet == FLEET_EXCLUSIVE && strcmp(c->redis, "none") == 0;
	snprintf(
		tables, sizeof(tables),
		"{events,dead_letters,wsonce_listeners,wsonce_duplicates,wsonce_retention,wsonce_database,wsonce_epoch,"
		"cursors,line_minutes%s%s%s}",
		*c->consumer ? ",processed_events" : "", c->webhooks.count ? ",outbox,webhook_pauses" : "",
		has_lease ? ",wsonce_leases" : "");
	return tables;
}

static struct store *open_store(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks)
{
	struct store *s = memory_calloc(1, sizeof(*s));
	const struct postgres_settings settings = {
		.conninfo = config->postgres,
		.timeout_ms = config->postgres_timeout_ms,
		.tables = store_tables(config),
		.calls_others = true,
		.on_state = on_postgres_state,
		.on_answer = on_answer,
		.on_unusable = on_unusable,
		.owner = s,
	};

	s->kind = &store_postgres;
	s->loop = loop;
	s->on = *callbacks;
	s->instance_id = config->instance_id;
	s->shown_id = memory_strdup(config->instance_id);
	make_ascii(s->shown_id);
	s->consumer = config->consumer;
	s->backoff = (struct backoff){.base_ms = 50, .cap_ms = 1000};
	s->blind.penalty = s->looked.penalty = s->alone.penalty = CAUTION_LEAST;
	s->present = memory_calloc((size_t)config->batch_max, sizeof(*s->present));
	s->suppressed = memory_calloc((size_t)config->batch_max, sizeof(*s->suppressed));
	for (int i = 0; i < 2; i++)
		s->spare[i] = memory_calloc((size_t)config->batch_max, sizeof(bool));
	s->effects.config = config;
	s->postgres = postgres_open(loop, &settings);
	s->has_effects = effects_exist(&s->effects);
	limit_init(&s->limit, (size_t)(s->has_effects ? FIRST_ROWS : config->batch_max), (size_t)config->batch_max,
		   config->postgres_timeout_ms);
	uv_timer_init(loop, &s->retry);
	s->retry.data = s;
	return s;
}

static void release(void *object)
{
	struct store *s = object;

	for (int i = 0; i < COLUMNS; i++)
		array_free(&s->columns[i]);
	effects_free(&s->effects);
	free(s->hazards);
	free(s->shown_id);
	free(s->present);
	free(s->suppressed);
	free(s->spare[0]);
	free(s->spare[1]);
	free(s);
}

static void close_store(struct store *s, void (*done)(void *arg), void *arg)
{
	ending_begin(&s->ending, 2, release, s, done, arg);
	postgres_close(s->postgres, ending_part, &s->ending);
	ending_close(&s->ending, &s->retry);
}

const struct store_kind store_postgres = {
	.open = open_store,
	.view = view,
	.is_sure = is_sure,
	.ask_epoch = ask_epoch,
	.give_up = give_up,
	.insert = insert,
	.dead_letter = dead_letter,
	.checkin = checkin,
	.put_cursors = put_cursors,
	.read_cursors = read_cursors,
	.close = close_store,
};
