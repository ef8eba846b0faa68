/* postgres_outbox.c plays the statements of listener/outbox/relay.c and of operators on the outbox:
 * sql/queries/lease.sql, peek.sql, record.sql and backlog.sql. postgres.c runs the statements. Not played: numbers
 * that grow when printed, so every row has a body. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres_server.h"
#include "process.h"
#include "sim.h"

#define ROWS_MAX    1200
#define TARGETS_MAX 8

const char *const outbox_states[] = {"pending", "delivered", "dead", "discarded"};

static int64_t number_of(const struct value *v)
{
	return strtoll(sim_copy(v->bytes, v->len), NULL, 10);
}

static bool is_same(const struct value *a, const struct value *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* The row's contents as the transaction that will change it sees them. */
static struct outbox_row *change(struct txn *t, struct row *row)
{
	struct outbox_row *o = sim_alloc(sizeof(*o));

	*o = *(const struct outbox_row *)row->value;
	table_update(t, row, o);
	return o;
}

static struct row *find(const struct value *id)
{
	return table_find(T_OUTBOX, id->bytes, id->len);
}

/* --- due rows --- */

static int compare(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
	const struct outbox_row *p = x->value, *q = y->value;

	if (p->due_us != q->due_us)
		return p->due_us < q->due_us ? -1 : 1;
	return p->number < q->number ? -1 : 1;
}

/* Committed, unlocked, pending rows of the lane that became due since since_us, in order of due_at. */
static size_t find_due(struct row **rows, const struct value *target, const struct value *lane, int64_t since_us,
		       int64_t now_us)
{
	size_t n = 0;

	for (int i = 0; i < BUCKETS; i++)
		for (struct row *row = server.tables[T_OUTBOX][i]; row; row = row->next) {
			const struct outbox_row *o = row->value;

			if (row->writer || o->state != OUTBOX_PENDING || !is_same(&o->target, target) ||
			    o->has_failed != number_of(lane) || o->due_us < since_us || o->due_us > now_us ||
			    n == ROWS_MAX)
				continue;
			rows[n++] = row;
		}
	qsort(rows, n, sizeof(*rows), compare);
	return n;
}

/* --- lease.sql --- */

struct due {
	struct row *row;
	size_t turn, place; /* from 0 */
	int64_t lease_us, of_target;
	bool is_only;
	size_t len;
};

static char *write_body(const struct outbox_row *o)
{
	return sim_print("{\"type\":\"%s\",\"timestamp\":\"%lld\",\"id\":\"%s\",\"data\":%s}", o->type.bytes,
			 (long long)o->created_us, o->id.bytes, o->payload.bytes);
}

static void tell_lease(struct backend *b, struct pg_result *r, const struct due *d, int64_t now_us)
{
	struct outbox_row *o = change(b->txn, d->row);
	int64_t was_due_us = o->due_us;

	o->attempts++;
	o->leases++;
	o->due_us = now_us + d->lease_us;
	o->holder = b->process;
	put_text(r, 0, d->row->key);
	put_text(r, 1, o->target.bytes);
	put_text(r, 2, sim_print("%lld", (long long)o->attempts));
	put_text(r, 3, sim_print("%lld", (long long)now_us / 1000000));
	put_text(r, 4, o->id.bytes);
	put_text(r, 5, write_body(o));
	put_text(r, 6, "f");
	if (!d->is_only)
		put_text(r, 7, sim_print("%lld", (long long)was_due_us));
	put_text(r, 8, sim_print("%lld/%lld", (long long)o->leases, (long long)o->created_us));
	put_text(r, 9, o->has_failed ? "1" : "0");
	put_text(r, 10, sim_print("%lld", (long long)(now_us - o->created_us) / 1000));
	r->rows++;
}

/* The rows that one target may lease. */
static size_t find_for(struct due *due, struct row **rows, size_t n, size_t turn, int64_t lease_us, bool is_only)
{
	int64_t of_target = 0;

	for (size_t i = 0; i < n; i++) {
		const struct outbox_row *o = rows[i]->value;

		of_target += (int64_t)o->payload.len;
		due[i] = (struct due){rows[i], turn, i, lease_us, of_target, is_only, o->payload.len};
	}
	return n;
}

static int compare_due(const void *a, const void *b)
{
	const struct due *x = a, *y = b;

	if (!x->place != !y->place)
		return x->place ? 1 : -1;
	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

void outbox_lease(struct backend *b)
{
	static struct row *rows[ROWS_MAX];
	static struct due due[ROWS_MAX];
	const struct statement *s = &b->packet->statements[b->at];
	struct value *columns[6];
	int64_t now_us = b->txn->wall_us, most = number_of(&s->values[6]), all = number_of(&s->values[7]), of_all = 0;
	size_t targets, n = 0, told = 0;
	struct pg_result *r;

	for (int i = 0; i < 6; i++)
		columns[i] = read_array(&s->values[i], &targets);
	for (size_t i = 0; i < targets; i++) {
		size_t wanted = (size_t)number_of(&columns[1][i]), found;
		int64_t lease_us = number_of(&columns[2][i]) * 1000, since_us = number_of(&columns[4][i]);

		since_us += since_us < 0 ? now_us : 0;
		if (columns[3][i].bytes && strcmp(columns[3][i].bytes, "newest") == 0) {
			found = find_due(rows, &columns[0][i], &columns[5][i], 0, now_us);
			rows[0] = found ? rows[found - 1] : NULL;
			found = found > 0;
		} else if (columns[3][i].bytes) {
			struct row *row = find(&columns[3][i]);
			const struct outbox_row *o = row ? row->value : NULL;

			found = row && !row->writer && o->state == OUTBOX_PENDING && o->due_us <= now_us;
			rows[0] = row;
		} else {
			found = find_due(rows, &columns[0][i], &columns[5][i], since_us, now_us);
			found = found < wanted ? found : wanted;
		}
		if (n + found <= ROWS_MAX)
			n += find_for(due + n, rows, found, i, lease_us, columns[3][i].bytes);
	}
	qsort(due, n, sizeof(*due), compare_due);
	r = result_new(b, PGRES_TUPLES_OK, "id", 11, n);
	for (size_t i = 0; i < n; i++) {
		bool is_small = due[i].place == 0 || due[i].of_target <= most;

		of_all += (int64_t)due[i].len;
		if (!due[i].row->writer && (i == 0 || (of_all <= all && is_small))) {
			tell_lease(b, r, &due[i], now_us);
			told++;
		}
	}
	sim_reached("outbox", told ? "rows are leased" : "a lease of nothing");
	send_result(b, r);
}

/* --- peek.sql --- */

void outbox_peek(struct backend *b)
{
	static struct row *rows[ROWS_MAX];
	const struct statement *s = &b->packet->statements[b->at];
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "id", 4, 1);

	/* a locked row is seen in its old state; the lease will find out */
	if (find_due(rows, &s->values[0], &s->values[2], number_of(&s->values[1]), b->txn->wall_us)) {
		const struct outbox_row *o = rows[0]->value;

		put_text(r, 0, rows[0]->key);
		put_text(r, 1, sim_print("%lld", (long long)o->attempts));
		put_text(r, 2, sim_print("%lld", (long long)o->due_us));
		put_text(r, 3, sim_print("%lld/%lld", (long long)o->leases, (long long)o->created_us));
		r->rows = 1;
	}
	sim_reached("outbox", "a peek");
	send_result(b, r);
}

/* --- record.sql --- */

void outbox_take_records(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];

	for (int i = 0; i < 6; i++)
		b->columns[i] = read_array(&s->values[i], &b->rows);
	b->steps = b->rows;
}

static bool is_outcome(const struct value *v, const char *name)
{
	return v->len == strlen(name) && memcmp(v->bytes, name, v->len) == 0;
}

/* Returns the row's new state, or OUTBOX_STATES if it does not change. */
static enum outbox_state judge(const struct outbox_row *o, const struct value *outcome, int64_t lease)
{
	if (is_outcome(outcome, "delivered"))
		return o->state == OUTBOX_PENDING || o->state == OUTBOX_DEAD ? OUTBOX_DELIVERED : OUTBOX_STATES;
	if (o->state != OUTBOX_PENDING || o->leases != lease)
		return OUTBOX_STATES;
	return is_outcome(outcome, "dead") ? OUTBOX_DEAD : OUTBOX_PENDING;
}

int64_t outbox_record(struct backend *b)
{
	size_t i = b->row;
	const struct value *outcome = &b->columns[2][i];
	struct row *row = find(&b->columns[0][i]);
	enum outbox_state state;
	struct outbox_row *o;

	if (!row || (row->is_new && row->writer != b->txn))
		return 0;
	if (row->writer && row->writer != b->txn)
		return wait_for_row(b, row);
	end_wait(b);
	state = judge(row->value, outcome, number_of(&b->columns[1][i]));
	sim_reached("outbox", state == OUTBOX_STATES ? "a record that comes too late"
						     : sim_known(sim_print("recorded as %s", outcome->bytes)));
	if (state == OUTBOX_STATES)
		return 0;
	o = change(b->txn, row);
	o->state = state;
	o->leases++;
	o->attempts -= is_outcome(outcome, "unsent");
	if (!is_outcome(outcome, "unsent"))
		o->has_failed = b->columns[4][i].bytes;
	o->due_us = number_of(&b->columns[5][i]) * 1000;
	o->due_us = o->due_us < 0 ? o->created_us : o->due_us + b->txn->wall_us;
	o->holder = SIM_NOBODY;
	b->posted++;
	return 0;
}

/* --- backlog.sql --- */

void outbox_tell_backlog(struct backend *b)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "count", 9, 1);
	int64_t pending = sim_outbox_open();

	put_text(r, 0, sim_print("%lld", (long long)pending));
	for (size_t i = 1; i < 9; i++)
		put_text(r, i, i < 3 || i == 6 ? "0" : "");
	r->rows = 1;
	send_result(b, r);
}

/* --- operators: dead-letters discard, retry and reopen, with --deliveries --- */

void outbox_operate(enum outbox_state from, enum outbox_state to, uint64_t draw)
{
	struct txn *t = server_begin();
	int changed = 0;

	for (int i = 0; i < BUCKETS; i++)
		for (struct row *row = server.tables[T_OUTBOX][i]; row; row = row->next) {
			const struct outbox_row *was = row->value;
			struct outbox_row *o;

			if (row->writer || was->state != from || sim_dice(&draw, 2))
				continue;
			o = change(t, row);
			o->state = to;
			o->holder = SIM_NOBODY;
			if (to == OUTBOX_PENDING) {
				o->attempts = 0;
				o->due_us = sim_wall();
			}
			changed++;
		}
	sim_log(SIM_NOBODY, "an operator makes %d deliveries %s that were %s", changed, outbox_states[to],
		outbox_states[from]);
	server_end(t, true);
}

/* --- queries of the checker --- */

int sim_outbox_open(void)
{
	int n = 0;

	for (int i = 0; i < BUCKETS; i++)
		for (const struct row *row = server.tables[T_OUTBOX][i]; row; row = row->next)
			n += !row->is_new && ((const struct outbox_row *)row->value)->state == OUTBOX_PENDING;
	return n;
}
