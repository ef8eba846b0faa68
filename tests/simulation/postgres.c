/* postgres.c plays the server: tables whose rows belong to transactions, and backends that run statements in order,
 * wait for each other's rows, time out, are cancelled, and outlive their clients. It knows the statements of
 * sql/queries that listeners send by their text; tests/simulation/differential compares their results with a real
 * server's.
 *
 * step() moves a backend through its phases. Time passes between phases, and the backend can be interrupted there.
 *
 *     idle ── packet ──▶ start ──▶ rows ◀── waits for another's row
 *       ▲                  │        └──▶ done ──▶ the next statement, or commit ──▶ committed ──▶ answers
 *       │                  └──▶ copy in ──▶ rows                                                    │
 *       └───────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * The rules of postgres_faults.c say what goes wrong, and when. Not played: migrations (the schema exists), settings
 * that a handler makes for its session, a server restored from a dump. */
#include "postgres.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backlog.sql.h"
#include "write_dead_letters.sql.h"
#include "check_effects.sql.h"
#include "checkin.sql.h"
#include "copy.sql.h"
#include "epoch.sql.h"
#include "find_present.sql.h"
#include "hazards.sql.h"
#include "holder.sql.h"
#include "identify.sql.h"
#include "insert.sql.h"
#include "lease.sql.h"
#include "make_epoch.sql.h"
#include "peek.sql.h"
#include "record.sql.h"
#include "put_cursors.sql.h"
#include "read_cursors.sql.h"
#include "reset.sql.h"
#include "postgres/schema.h"
#include "store/effects.h"
#include "postgres_server.h"
#include "sim.h"

#define FOREVER     INT64_MAX
#define BLOCKED     (-1) /* returned by a phase that waits for another backend */
#define DEADLOCK_US 1000000
#define ASYNC_US    600000 /* three times wal_writer_delay */

#define COPY_COLUMNS 7

struct server server;

static const char by_index[] = "while inserting index tuple (0,%u) in relation \"%s\"";
static const char by_lock[] = "while locking tuple (0,%u) in relation \"%s\"";

/* --- tables --- */

static uint64_t hash_bytes(const char *bytes, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return h;
}

static struct row **place_of(enum table table, const char *key, size_t len)
{
	uint64_t h = hash_bytes(key, len);
	struct row **at = &server.tables[table][h % BUCKETS];

	while (*at && ((*at)->hash != h || (*at)->key_len != len || memcmp((*at)->key, key, len) != 0))
		at = &(*at)->next;
	return at;
}

struct row *table_find(enum table table, const char *key, size_t len)
{
	return *place_of(table, key, len);
}

/* Finds a row as transactions see it that read only committed data. */
static struct row *find_committed(enum table table, const char *key, size_t len)
{
	struct row *row = table_find(table, key, len);

	return row && !row->is_new ? row : NULL;
}

static void remember(struct txn *t, struct row *row)
{
	struct change *c = sim_alloc(sizeof(*c));

	*c = (struct change){.older = t->changes, .row = row, .old = row->value, .is_insert = row->is_new};
	t->changes = c;
}

struct row *table_insert(struct txn *t, enum table table, const char *key, size_t len, void *value)
{
	struct row **at = place_of(table, key, len), *row = sim_alloc(sizeof(*row));

	row->table = table;
	row->hash = hash_bytes(key, len);
	row->key = sim_copy(key, len);
	row->key_len = len;
	row->place = ++server.places[table];
	row->value = value;
	row->is_new = true;
	row->writer = t;
	row->next = *at;
	*at = row;
	remember(t, row);
	return row;
}

void table_update(struct txn *t, struct row *row, void *value)
{
	if (row->writer != t) {
		row->writer = t;
		remember(t, row);
	}
	row->value = value;
}

static void table_remove(struct row *row)
{
	struct row **at = place_of(row->table, row->key, row->key_len);

	*at = row->next;
}

/* --- transactions --- */

static void wake(struct backend *b, int64_t delay);

struct txn *txn_new(struct backend *b, int process)
{
	struct txn *t = sim_alloc(sizeof(*t));

	t->backend = b;
	t->process = process;
	t->wall_us = sim_wall();
	t->next = server.open;
	server.open = t;
	return t;
}

static void tell(const struct txn *t, const struct change *c)
{
	const struct row *row = c->row;

	if (c->effect.bytes) {
		sim_committed_effect(t->process, c->effect.bytes, c->effect.len);
	} else if (row->table == T_EVENTS) {
		const struct event_row *e = row->value;

		sim_committed_row(t->process, t->backend ? t->backend->life : 0, row->key, row->key_len,
				  e->payload.bytes, e->payload.len);
	} else if (row->table == T_OUTBOX) {
		const struct outbox_row *o = row->value, *old = c->is_insert ? NULL : c->old;

		sim_committed_delivery(t->process, o->target.bytes, o->id.bytes, old ? outbox_states[old->state] : NULL,
				       outbox_states[o->state]);
		if (o->holder != SIM_NOBODY)
			sim_committed_lease(o->holder, o->target.bytes, o->id.bytes,
					    o->due_us - sim_wall() + sim_now());
	} else if (row->table == T_CURSORS) {
		sim_committed_cursor(t->process, ((const struct cursor_row *)row->value)->value.bytes);
	} else if (row->table == T_LETTERS) {
		const struct letter_row *l = row->value;

		sim_committed_letter(t->process, (const unsigned char *)row->key, l->id.bytes, l->id.len,
				     l->reason.bytes);
	}
}

static void undo(const struct change *c)
{
	if (!c->row)
		return;
	c->row->value = c->old;
	c->row->writer = NULL;
	if (c->is_insert)
		table_remove(c->row);
}

/* Keeps the changes, so that a crash can undo them. */
static void keep(struct txn *t)
{
	struct change *told = NULL;

	for (struct change *c = t->changes, *older; c; c = older) {
		older = c->older;
		c->newer = told;
		told = c;
		if (c->row) {
			c->row->writer = NULL;
			c->row->is_new = false;
		}
	}
	for (const struct change *c = told; c; c = c->newer)
		tell(t, c);
	t->committed_us = sim_now();
	t->older = server.history;
	server.history = t;
}

void txn_end(struct txn *t, bool is_commit)
{
	struct txn **at = &server.open;

	if (!t || t->is_over)
		return;
	t->is_over = true;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	if (is_commit && t->changes)
		keep(t);
	for (const struct change *c = is_commit ? NULL : t->changes; c; c = c->older)
		undo(c);
	for (struct backend *b = server.backends; b; b = b->next)
		if (b->is_blocked)
			wake(b, 0);
}

/* Undoes what was committed since then, newest first. No transaction is open meanwhile. */
static void forget_since(int64_t us)
{
	for (; server.history && server.history->committed_us > us; server.history = server.history->older)
		for (const struct change *c = server.history->changes; c; c = c->older) {
			undo(c);
			if (c->row && c->row->table == T_CURSORS)
				sim_forgot_cursor();
			if (!c->row || !c->is_insert)
				continue;
			if (c->row->table == T_EVENTS)
				sim_forgot_row(c->row->key, c->row->key_len);
			else if (c->row->table == T_OUTBOX)
				sim_forgot_delivery(((const struct outbox_row *)c->row->value)->target.bytes,
						    ((const struct outbox_row *)c->row->value)->id.bytes);
			else if (c->row->table == T_LETTERS)
				sim_forgot_letter((const unsigned char *)c->row->key);
		}
}

/* Undoes asynchronous commits, except those followed by a synchronous one. */
static void forget_async(int64_t us)
{
	while (server.history && server.history->is_async && server.history->committed_us > us)
		forget_since(server.history->committed_us - 1);
}

/* --- results --- */

struct pg_result *result_new(struct backend *b, ExecStatusType status, const char *name, size_t columns, size_t rows)
{
	struct pg_result *r = sim_alloc(sizeof(*r));

	*r = (struct pg_result){.status = status, .name = name, .columns = columns, .room = rows};
	r->cells = sim_alloc(columns * rows * sizeof(*r->cells) + 1);
	b->result = r;
	return r;
}

static void put_value(struct pg_result *r, size_t column, const char *bytes, size_t len)
{
	r->cells[r->rows * r->columns + column] = (struct value){bytes, len};
}

void put_text(struct pg_result *r, size_t column, const char *text)
{
	put_value(r, column, text, text ? strlen(text) : 0);
}

static void send_message(struct backend *b, struct pg_result *result, bool is_end)
{
	struct message *m = sim_alloc(sizeof(*m));

	m->result = result;
	m->is_end = is_end;
	*b->answers_end = m;
	b->answers_end = &m->next;
}

/* Ends the statement with this result. */
void send_result(struct backend *b, struct pg_result *result)
{
	send_message(b, result, false);
	if (b->packet->is_pipeline)
		send_message(b, NULL, false);
}

static void send_status(struct backend *b, ExecStatusType status, size_t tuples)
{
	struct pg_result *r = result_new(b, status, NULL, 0, 0);

	if (status == PGRES_COMMAND_OK)
		snprintf(r->tuples, sizeof(r->tuples), "%zu", tuples);
	send_result(b, r);
}

static void flush(struct backend *b)
{
	if (b->answers && b->conn && !b->is_mute)
		client_send(b->conn, b->answers);
	b->answers = NULL;
	b->answers_end = &b->answers;
}

/* Everything is answered. */
static void send_end(struct backend *b)
{
	if (b->packet->is_pipeline)
		send_message(b, result_new(b, PGRES_PIPELINE_SYNC, NULL, 0, 0), true);
	else
		send_message(b, NULL, true);
	flush(b);
}

/* --- backends --- */

static void step(struct backend *b);

static void on_wake(void *arg)
{
	struct backend *b = arg;

	if (!b->is_alive || sim_now() < b->wake_us)
		return;
	b->wake_us = FOREVER;
	step(b);
}

static void wake_at(struct backend *b, int64_t us)
{
	if (us == FOREVER || us >= b->wake_us)
		return;
	b->wake_us = us;
	sim_at(us - sim_now(), on_wake, b);
}

static void wake(struct backend *b, int64_t delay)
{
	b->due_us = sim_now() + delay;
	wake_at(b, b->due_us);
}

void backend_end(struct backend *b)
{
	struct backend **at = &server.backends;

	if (!b->is_alive)
		return;
	b->is_alive = false;
	txn_end(b->txn, false);
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	server.count--;
}

struct backend *server_connect(struct pg_conn *conn, const char **error)
{
	struct backend *b;

	if (server.count >= server.backends_max)
		*error = "FATAL:  sorry, too many clients already";
	else if (sim_now() < server.up_us)
		*error = sim_now() < server.starting_us ? "Connection refused"
							: "FATAL:  the database system is starting up";
	if (*error) {
		sim_reached("postgres", *error);
		return NULL;
	}
	b = sim_alloc(sizeof(*b));
	b->conn = conn;
	b->process = client_process(conn);
	b->life = world_life(b->process);
	b->is_alive = true;
	b->due_us = b->wake_us = b->gone_us = FOREVER;
	b->packets_end = &b->packets;
	b->answers_end = &b->answers;
	b->next = server.backends;
	server.backends = b;
	server.count++;
	return b;
}

/* Skips the rest of the pipeline. */
static void abort_rest(struct backend *b)
{
	for (int i = b->at + 1; b->packet->is_pipeline && i < b->packet->count; i++)
		send_result(b, result_new(b, PGRES_PIPELINE_ABORTED, NULL, 0, 0));
}

/* Ends the connection, with an error if sqlstate is set. */
void backend_terminate(struct backend *b, const char *sqlstate, const char *message)
{
	struct pg_conn *conn = b->conn;

	if (!b->is_alive)
		return;
	if (b->packet && sqlstate && conn && !b->is_mute) {
		struct pg_result *r = result_new(b, PGRES_FATAL_ERROR, NULL, 0, 0);

		r->sqlstate = sqlstate;
		r->message = message;
		r->context = b->context;
		send_result(b, r);
		abort_rest(b);
		flush(b);
	}
	if (conn && !b->is_mute)
		client_end(conn);
	backend_end(b);
}

bool server_is_blocked(const struct backend *b)
{
	return b->is_alive && b->is_blocked;
}

static void next_packet(struct backend *b)
{
	b->packet = b->packets;
	b->is_mute = b->is_cancelled = b->is_async = b->is_blocked = false;
	b->context = NULL;
	if (b->packet) {
		b->packets = b->packet->next;
		if (!b->packets)
			b->packets_end = &b->packets;
		b->at = 0;
		b->lock_us = b->statement_us = b->check_us = 0;
		b->began_us = sim_now();
		b->txn = txn_new(b, b->process);
		b->phase = PH_START;
		wake(b, sim_between(5, 30));
	} else {
		b->phase = PH_IDLE;
		b->due_us = FOREVER;
		if (b->gone_us != FOREVER)
			backend_end(b);
	}
}

void server_take(struct backend *b, struct packet *packet)
{
	if (!b->is_alive)
		return;
	if (packet->is_copy_data) {
		if (b->phase == PH_COPY_IN) {
			b->copy = packet->statements[0].values[0];
			b->phase = PH_COPY;
			wake(b, sim_between(20, 200));
		}
		return;
	}
	*b->packets_end = packet;
	b->packets_end = &packet->next;
	if (b->phase == PH_IDLE)
		next_packet(b);
}

void server_lose_client(struct backend *b)
{
	if (!b->is_alive || b->gone_us != FOREVER)
		return;
	b->gone_us = sim_now();
	if (b->phase == PH_IDLE || b->phase == PH_COPY_IN)
		backend_end(b);
	else
		sim_reached("postgres", "a backend outlives its client");
	if (b->is_alive && b->check_us)
		wake_at(b, b->gone_us + b->check_us);
}

void server_cancel(struct backend *b)
{
	if (!b->is_alive || b->phase == PH_IDLE)
		return;
	b->is_cancelled = true;
	wake_at(b, sim_now());
}

int64_t server_frozen_until(void)
{
	return sim_now() < server.frozen_us ? server.frozen_us : 0;
}

/* --- errors --- */

/* Fails the statement and rolls back its transaction. */
static int64_t fail(struct backend *b, const char *sqlstate, const char *message, const char *detail)
{
	struct pg_result *r = result_new(b, PGRES_FATAL_ERROR, NULL, 0, 0);

	r->sqlstate = sqlstate;
	r->message = message;
	r->detail = detail;
	r->context = b->context;
	sim_reached("postgres error", sqlstate);
	b->is_changed = b->was_changed;
	if (b->kind == K_LEASE && strncmp(sqlstate, "XX", 2) == 0)
		sim_lease_refused();
	send_result(b, r);
	abort_rest(b);
	txn_end(b->txn, false);
	b->is_blocked = false;
	send_end(b);
	next_packet(b);
	return 0;
}

/* --- waiting --- */

/* Calls ask for each transaction that blocks b, until one returns true. */
static bool any_blocker(const struct backend *b, bool (*ask)(const struct txn *t, const struct backend *b, int depth),
			const struct backend *first, int depth)
{
	if (b->wants_row)
		return ask(b->wants_row->writer, first, depth);
	for (const struct txn *t = server.open; t; t = t->next)
		if (t != b->txn &&
		    ((b->wants_lock && t->lock + b->wants_lock > 2) || (b->wants_table && t->has_table)) &&
		    ask(t, first, depth))
			return true;
	return false;
}

static bool leads_to(const struct txn *t, const struct backend *first, int depth)
{
	const struct backend *b = t ? t->backend : NULL;

	if (!b || depth > 8)
		return false;
	return b == first || (b->is_blocked && any_blocker(b, leads_to, first, depth + 1));
}

/* Notes that b waits, from now on unless it already waits for the same. */
static int64_t block(struct backend *b, struct row *row, int lock, bool is_table)
{
	const void *what = row ? (const void *)row->writer : lock ? (const void *)&server : (const void *)&server.open;

	if (!b->is_blocked || b->waits_for != what) {
		b->wait_us = sim_now();
		b->has_looked = false;
		sim_reached("postgres", row    ? "a wait for a row"
					: lock ? "a wait for the lock of effects"
					       : "a wait for a table");
	}
	b->is_blocked = true;
	b->waits_for = what;
	b->wants_row = row;
	b->wants_lock = lock;
	b->wants_table = is_table;
	/* a timeout may end it before the deadlock check */
	if (b->wait_us == sim_now() && any_blocker(b, leads_to, b, 0))
		sim_deadlocked(b->process);
	if (row)
		b->context = sim_print(row->is_new ? by_index : by_lock, row->place, table_names[row->table]);
	if (lock && b->kind == K_ALONE)
		b->context = "SQL statement \"LOCK TABLE public.wsonce_epoch IN EXCLUSIVE MODE\"\n"
			     "PL/pgSQL function inline_code_block line 1 at SQL statement";
	if (row && b->kind == K_COPY)
		b->context = sim_print(
			"while inserting index tuple (0,%u) in relation \"events_event_id_key\"\nCOPY events, line %zu",
			row->place, b->row + 1);
	return BLOCKED;
}

static void unblock(struct backend *b)
{
	if (!b->is_blocked)
		return;
	b->is_blocked = false;
	b->wants_row = NULL;
	b->wants_lock = 0;
	b->wants_table = false;
	b->context = NULL;
}

int64_t wait_for_row(struct backend *b, struct row *row)
{
	int64_t delay = block(b, row, 0, false);

	b->context = sim_print("while updating tuple (0,%u) in relation \"%s\"", row->place, table_names[row->table]);
	return delay;
}

void end_wait(struct backend *b)
{
	unblock(b);
}

/* When it is interrupted next, if nothing unblocks it before. */
static int64_t deadline(const struct backend *b)
{
	int64_t at = FOREVER;

	if (b->phase == PH_IDLE || b->phase == PH_COMMITTED)
		return at;
	if (b->statement_us)
		at = b->began_us + b->statement_us;
	if (b->is_blocked && b->lock_us && b->wait_us + b->lock_us < at)
		at = b->wait_us + b->lock_us;
	if (b->is_blocked && !b->has_looked && b->wait_us + DEADLOCK_US < at)
		at = b->wait_us + DEADLOCK_US;
	if (b->gone_us != FOREVER && b->check_us && b->gone_us + b->check_us < at)
		at = b->gone_us + b->check_us;
	return b->is_cancelled ? sim_now() : at;
}

/* Returns true if it was interrupted. */
static bool interrupt(struct backend *b)
{
	int64_t now = sim_now();

	if (now < deadline(b))
		return false;
	if (b->gone_us != FOREVER && b->check_us && now >= b->gone_us + b->check_us) {
		sim_reached("postgres", "a backend finds its client gone");
		backend_end(b);
	} else if (b->is_cancelled) {
		fail(b, "57014", "canceling statement due to user request", NULL);
	} else if (b->is_blocked && b->lock_us && now >= b->wait_us + b->lock_us) {
		fail(b, "55P03", "canceling statement due to lock timeout", NULL);
	} else if (b->statement_us && now >= b->began_us + b->statement_us) {
		sim_took_too_long(b->process, b->rows);
		fail(b, "57014", "canceling statement due to statement timeout", NULL);
	} else {
		b->has_looked = true;
		if (!any_blocker(b, leads_to, b, 0))
			return false;
		sim_deadlocked(b->process);
		fail(b, "40P01", "deadlock detected",
		     "Process 1 waits for ShareLock on transaction 2; blocked by process 2.");
	}
	return true;
}

/* --- rules --- */

/* COPY appends its line to the context, a DO block its statement. */
static const char *context_of(const struct backend *b, const struct rule *r, enum where where)
{
	if (where == AT_DEFERRED && b->task != K_COPY && !b->is_copied)
		return sim_print(
			"%s\nSQL statement \"SET CONSTRAINTS ALL IMMEDIATE\"\nPL/pgSQL function inline_code_block "
			"line 1 at SQL statement",
			r->context ? r->context : "");
	if (b->kind != K_COPY || b->phase != PH_ROWS)
		return r->context;
	return sim_print("%s%sCOPY events, line %zu", r->context ? r->context : "", r->context ? "\n" : "", b->row + 1);
}

static enum kind kind_of(const char *text);

/* True if the statement has a SET CONSTRAINTS ALL IMMEDIATE (sql/queries/reset.sql). */
static bool runs_deferred(const struct backend *b)
{
	return b->task == K_COPY || b->is_copied ||
	       (b->packet && kind_of(b->packet->statements[b->packet->count - 1].text) == K_RESET);
}

/* True if the rule is for this place. A rule about rows at the commit is a deferred trigger. */
static bool is_of(const struct rule *r, const struct backend *b, enum where where)
{
	if (r->where != AT_COMMIT || !r->is_of_rows)
		return r->where == where;
	return where == (runs_deferred(b) ? AT_DEFERRED : AT_COMMIT);
}

/* Applies the rules for this place. Returns true if b has failed or is gone. Adds to *delay if it hangs. */
static bool meet(struct backend *b, enum where where, const char *id, size_t len, bool *is_skipped, int64_t *delay)
{
	int64_t hang_us;

	for (struct rule *r = server.rules; r; r = r->next) {
		if (!is_of(r, b, where) || sim_now() >= r->until_us || !(r->kinds >> b->kind & 1) || !r->times)
			continue;
		if (r->process != SIM_NOBODY && r->process != b->process)
			continue;
		if (r->id && (!id || strlen(r->id) != len || memcmp(r->id, id, len) != 0))
			continue;
		if (r->is_of_rows && !b->stored)
			continue;
		if (r->odds && sim_dice(&r->draw, 1000) >= (uint64_t)r->odds)
			continue;
		if (r->times > 0)
			r->times--;
		sim_log(b->process, "postgres: %s: %s", kind_names[b->kind], r->name);
		sim_reached("postgres rule", r->name);
		switch (r->deed) {
		case RAISE:
			b->context = context_of(b, r, where);
			if (where == AT_LETTER)
				sim_took_too_long(b->process, 0);
			fail(b, r->sqlstate, r->message, NULL);
			return true;
		case SKIP:
			*is_skipped = true;
			break;
		case HANG:
			b->context = context_of(b, r, where);
			hang_us = r->until_us - sim_now() < r->hang_us ? r->until_us - sim_now() : r->hang_us;
			*delay = *delay > hang_us ? *delay : hang_us;
			b->is_hanging = true;
			break;
		case CUT:
			if (b->conn)
				client_cut(b->conn);
			server_lose_client(b);
			if (!b->is_alive)
				return true;
			break;
		case MUTE:
			b->is_mute = true;
			break;
		case SET:
			b->is_changed = true;
			break;
		case TERMINATE:
			backend_terminate(b, r->sqlstate, r->message);
			return true;
		}
	}
	return false;
}

/* --- parameters --- */

static uint32_t read_number(const char **at)
{
	uint32_t n;

	memcpy(&n, *at, 4);
	*at += 4;
	return ntohl(n);
}

/* The elements of a one-dimensional array in binary form. */
struct value *read_array(const struct value *given, size_t *n)
{
	const char *at = given->bytes;
	bool has_any = read_number(&at) > 0;
	struct value *values;

	*n = 0;
	at += 8;
	if (!has_any)
		return NULL;
	*n = read_number(&at);
	at += 4;
	values = sim_alloc(*n * sizeof(*values) + 1);
	for (size_t i = 0; i < *n; i++) {
		uint32_t len = read_number(&at);

		if (len == UINT32_MAX)
			continue;
		values[i] = (struct value){at, len};
		at += len;
	}
	return values;
}

static const char *text_of(const struct value *v)
{
	return sim_copy(v->bytes, v->len);
}

/* The error of jsonb_in() for a text that the envelope accepted: only \u0000 and numbers out of numeric's range are
 * left. */
static const char *jsonb_fault(const struct value *v, const char **detail, const char **sqlstate)
{
	bool is_string = false;

	*detail = NULL;
	for (size_t i = 0; i < v->len; i++) {
		char c = v->bytes[i];

		if (c == '"')
			is_string = !is_string;
		if (is_string && c == '\\') {
			if (i + 5 < v->len && memcmp(v->bytes + i, "\\u0000", 6) == 0) {
				*sqlstate = "22P05";
				*detail = "\\u0000 cannot be converted to text.";
				return "unsupported Unicode escape sequence";
			}
			i++;
		}
		if (!is_string && (c == 'e' || c == 'E') && i && v->bytes[i - 1] >= '0' && v->bytes[i - 1] <= '9' &&
		    strtol(v->bytes + i + 1, NULL, 10) >= 131072) {
			*sqlstate = "22003";
			return "value overflows numeric format";
		}
	}
	return NULL;
}

/* The types of a statement's arrays or COPY's columns: text, jsonb, bytea, timestamptz. */
static const char *types_of(enum kind kind)
{
	static const char *const types[KINDS] = {
		[K_FIND] = "t",         [K_INSERT] = "ttjtzz",       [K_COPY] = "ttjtzzt",
		[K_EFFECTS] = "ttjtzz", [K_DEAD_LETTER] = "bttbttt", [K_PUT_CURSORS] = "ttttt",
		[K_READ_CURSORS] = "t"};

	return types[kind] ? types[kind] : "";
}

/* Fails the statement if the value in this column of row i is invalid for its type. Returns true if it did. */
static bool is_bad_value(struct backend *b, int column, size_t i)
{
	static const char *const names[] = {"event_id",    "event_type", "payload", "source",
					    "received_at", "event_time", "instance"};
	const struct value *v = &b->columns[column][i];
	const char *detail = NULL, *sqlstate = "22021", *fault = NULL;

	if (types_of(b->kind)[column] == 'j')
		fault = jsonb_fault(v, &detail, &sqlstate);
	else if (types_of(b->kind)[column] == 't' && v->len && memchr(v->bytes, 0, v->len))
		fault = "invalid byte sequence for encoding \"UTF8\": 0x00";
	if (!fault)
		return false;
	b->context = b->kind == K_COPY ? sim_print("COPY events, line %zu, column %s", i + 1, names[column])
				       : sim_print("unnamed portal parameter $%d", column + 1);
	if (detail)
		b->context = sim_print("JSON data, line 1: ...\n%s", b->context);
	fail(b, sqlstate, fault, detail);
	return true;
}

/* Reads the parameters in order, each with all of its elements, like the server. */
static bool has_bad_parameter(struct backend *b)
{
	for (int column = 0; types_of(b->kind)[column]; column++)
		for (size_t i = 0; i < b->rows; i++)
			if (is_bad_value(b, column, i))
				return true;
	return false;
}

static bool has_bad_field(struct backend *b, size_t i)
{
	for (int column = 0; column < COPY_COLUMNS; column++)
		if (is_bad_value(b, column, i))
			return true;
	return false;
}

/* --- statements --- */

#define ROW_KINDS (1u << K_INSERT | 1u << K_COPY | 1u << K_EFFECTS)
#define OUTBOX    (1u << K_LEASE | 1u << K_RECORD)
#define WRITERS   (ROW_KINDS | OUTBOX | 1u << K_DEAD_LETTER | 1u << K_CHECKIN | 1u << K_MAKE_EPOCH)
#define READERS   (1u << K_FIND)

const char *const kind_names[KINDS] = {
	"limits", "reset",  "inspect",     "ask version", "identify",      "make epoch", "epoch",   "find",
	"insert", "copy",   "dead_letter", "check-in",    "check effects", "alone",      "effects", "lease",
	"peek",   "record", "backlog",     "put cursors", "read cursors",  "holder"};
const char *const table_names[TABLES] = {"events", "dead_letters", "processed_events", "outbox", "cursors", "totals"};

static struct {
	const char *text;
	size_t len;
} known[KINDS];

static void learn(enum kind kind, const char *sql)
{
	known[kind].text = schema_expand(sql, "public");
	known[kind].len = strlen(known[kind].text);
}

static void learn_all(void)
{
	char copy[sizeof(SQL_COPY) + 8];

	if (known[K_EPOCH].text)
		return;
	learn(K_RESET, SCHEMA_AS_BLOCK(SQL_RESET));
	learn(K_INSPECT, schema_inspect_sql());
	learn(K_ASK, schema_ask_sql());
	learn(K_IDENTIFY, SCHEMA_WITH_HAZARDS(SQL_IDENTIFY));
	learn(K_MAKE_EPOCH, SQL_MAKE_EPOCH ";" SCHEMA_WITH_HAZARDS(SQL_IDENTIFY));
	learn(K_EPOCH, SQL_EPOCH);
	learn(K_FIND, SQL_FIND_PRESENT);
	learn(K_INSERT, SQL_INSERT);
	learn(K_DEAD_LETTER, SQL_WRITE_DEAD_LETTERS);
	learn(K_CHECKIN, SCHEMA_WITH_HAZARDS(SQL_CHECKIN));
	learn(K_PUT_CURSORS, SQL_PUT_CURSORS);
	learn(K_READ_CURSORS, SQL_READ_CURSORS);
	learn(K_HOLDER, SQL_HOLDER);
	learn(K_CHECK_EFFECTS, SQL_CHECK_EFFECTS);
	learn(K_ALONE, effects_alone_sql());
	learn(K_LEASE, SQL_LEASE);
	learn(K_PEEK, SQL_PEEK);
	learn(K_RECORD, SQL_RECORD);
	learn(K_BACKLOG, SQL_BACKLOG);
	snprintf(copy, sizeof(copy), "; %s; ", SQL_COPY);
	learn(K_COPY, copy);
}

static enum kind kind_of(const char *text)
{
	static const char limits[] = "SELECT pg_catalog.set_config('lock_timeout', '";
	static const char limits_of_copy[] = "SET LOCAL lock_timeout = ";
	size_t len;

	if (strncmp(text, SCHEMA_BEFORE_STEP, sizeof(SCHEMA_BEFORE_STEP) - 1) == 0)
		text += sizeof(SCHEMA_BEFORE_STEP) - 1;
	len = strlen(text);
	for (int kind = 0; kind < KINDS; kind++)
		if (known[kind].text && known[kind].len == len && memcmp(known[kind].text, text, len) == 0)
			return (enum kind)kind;
	if (strncmp(text, limits, sizeof(limits) - 1) == 0)
		return K_LIMITS;
	if (strncmp(text, limits_of_copy, sizeof(limits_of_copy) - 1) == 0 && strstr(text, known[K_COPY].text) &&
	    strcmp(text + len - strlen(SQL_RESET), SQL_RESET) == 0)
		return K_COPY;
	if (strstr(text, "WITH held AS ("))
		return K_EFFECTS;
	fprintf(stderr, "simulation: Postgres was sent a statement that it does not know:\n%s\n", text);
	abort();
}

static int64_t read_limit(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoll(at + strcspn(at, "0123456789"), NULL, 10) * 1000 : 0;
}

static void set_limits(struct backend *b, const char *text)
{
	b->lock_us = read_limit(text, "lock_timeout");
	b->statement_us = read_limit(text, "statement_timeout");
	b->check_us = read_limit(text, "client_connection_check_interval");
	if (b->gone_us != FOREVER && b->check_us)
		wake_at(b, b->gone_us + b->check_us);
}

/* Answers the current statement, which calls a function that changes settings. */
static void answer_calls(struct backend *b)
{
	const char *at = b->packet->statements[b->at].text;
	size_t n = 0;

	while ((at = strstr(at, "set_config"))) {
		at++;
		n++;
	}
	result_new(b, PGRES_TUPLES_OK, "set_config", n, 1)->rows = 1;
	send_result(b, b->result);
}

static void answer_block(struct backend *b)
{
	result_new(b, PGRES_COMMAND_OK, NULL, 0, 0)->command = "DO";
	send_result(b, b->result);
}

static void answer_command(struct backend *b, const char *command)
{
	result_new(b, PGRES_COMMAND_OK, NULL, 0, 0)->command = command;
	send_result(b, b->result);
}

/* Answers the commands between at and end that change settings. */
static void answer_commands(struct backend *b, const char *at, const char *end, const char *command)
{
	while ((at = strstr(at, "SET ")) && at < end) {
		at++;
		answer_command(b, command);
	}
}

/* Runs deferred triggers. Returns true if one failed. */
static bool run_deferred(struct backend *b)
{
	enum kind kind = b->kind;
	bool is_skipped = false, has_failed;
	int64_t delay = 0;

	b->kind = b->task;
	has_failed = b->txn->changes && meet(b, AT_DEFERRED, NULL, 0, &is_skipped, &delay);
	b->kind = kind;
	return has_failed;
}

/* Returns true if the statement has failed. */
static bool end_copy(struct backend *b)
{
	const char *text = b->packet->statements[b->at].text;
	size_t len = strlen(text);

	if (run_deferred(b))
		return true;
	b->is_changed = false;
	answer_commands(b, text + len - strlen(SQL_RESET), text + len, "RESET");
	answer_command(b, "UNLISTEN");
	return false;
}

/* The first row of most answers. */
static struct pg_result *begin_rows(struct backend *b, size_t columns, size_t rows)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "wsonce_epoch", columns, rows + 1);

	if (b->epoch)
		put_text(r, 0, sim_print("%08x", b->epoch));
	r->rows = 1;
	return r;
}

/* In the format of encode(id, 'escape'). */
static void put_id(struct pg_result *r, const struct value *id)
{
	char *text = sim_alloc(4 * id->len + 1);
	size_t len = 0;

	for (size_t i = 0; i < id->len; i++) {
		unsigned char byte = (unsigned char)id->bytes[i];

		if (byte == '\\' || byte == 0 || byte > 127)
			len += (size_t)sprintf(text + len, byte == '\\' ? "\\\\" : "\\%03o", byte);
		else
			text[len++] = (char)byte;
	}
	put_value(r, 0, text, len);
	r->rows++;
}

static const char *hazards(void)
{
	return server.is_lazy ? "synchronous_commit = off" : "";
}

static void identify(struct backend *b)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "epoch", 5, 1);

	put_text(r, 0, server.epoch ? sim_print("%08x", server.epoch) : NULL);
	put_text(r, 1, "5d5a3a4e-0000-4000-8000-000000000001");
	put_text(r, 2, "2026-01-01T00:00:00Z");
	put_text(r, 3, "2026-01-01 00:00:00.000000");
	put_text(r, 4, hazards());
	r->rows = 1;
	send_result(b, r);
}

static void inspect(struct backend *b)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "name", SCHEMA_COLUMNS, 1);

	put_text(r, SCHEMA_NAME, "public");
	put_text(r, SCHEMA_IS_OURS, "t");
	put_text(r, SCHEMA_FAULT, server.fault);
	put_text(r, SCHEMA_LOCK_MS, sim_print("%d", server.role_lock_ms));
	put_text(r, SCHEMA_STATEMENT_MS, sim_print("%d", server.role_statement_ms));
	put_text(r, SCHEMA_IS_READ_ONLY, server.is_read_only ? "t" : "f");
	put_text(r, SCHEMA_IS_PARTITIONED, "f");
	put_text(r, SCHEMA_IS_CHANGED, server.has_keeper ? "t" : "f");
	put_text(r, SCHEMA_UNFILLED, "\nid\n\ninstance\n\nprocessed_at\n\npurged_at\n\nreceived_at\n\nsource\n");
	r->rows = 1;
	send_result(b, r);
}

static void ask_version(struct backend *b)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "coalesce", 1, 1);

	put_text(r, 0, sim_print("%d", schema_version()));
	r->rows = 1;
	send_result(b, r);
}

static void tell_epoch(struct backend *b)
{
	b->epoch = server.epoch;
	send_result(b, begin_rows(b, 1, 0));
}

static void make_epoch(struct backend *b)
{
	size_t made = !server.epoch;

	if (made)
		server.epoch = (uint32_t)sim_draw() | 1;
	send_status(b, PGRES_COMMAND_OK, made);
	identify(b);
}

static void find_present(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];
	const char *consumer = text_of(&s->values[1]);
	struct pg_result *r = begin_rows(b, 1, b->rows);

	for (size_t i = 0; i < b->rows; i++) {
		const struct value *id = &b->columns[0][i];

		if (s->values[1].len ? mark_find(consumer, id, true) : find_committed(T_EVENTS, id->bytes, id->len))
			put_id(r, id);
	}
	send_result(b, r);
}

static void check_effects(struct backend *b)
{
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "case", 1, 1);

	put_text(r, 0, sim_print("=%s", text_of(&b->packet->statements[b->at].values[0])));
	r->rows = 1;
	send_result(b, r);
}

/* Keeps only the sum of the reported events, instead of wsonce_listeners and wsonce_duplicates. */
static void check_in(struct backend *b)
{
	const struct value *v = &b->packet->statements[b->at].values[0];
	struct pg_result *r = result_new(b, PGRES_TUPLES_OK, "rows_deleted_s", 3, 1);
	json_t *told = json_loadb(v->bytes, v->len, 0, NULL), *copies = json_object_get(told, "copies"), *copy;
	size_t i;

	server.told_events += (uint64_t)json_integer_value(json_object_get(told, "events"));
	json_array_foreach(copies, i, copy) server.told_copies += (uint64_t)json_integer_value(copy);
	json_decref(told);
	put_text(r, 0, NULL);
	put_text(r, 1, NULL);
	put_text(r, 2, hazards());
	r->rows = 1;
	send_result(b, r);
}

/* --- rows --- */

struct row *mark_find(const char *consumer, const struct value *id, bool is_committed)
{
	char key[1100];
	int len = snprintf(key, sizeof(key), "%s%c%.*s", consumer, 0, (int)id->len, id->bytes);

	return is_committed ? find_committed(T_MARKS, key, (size_t)len) : table_find(T_MARKS, key, (size_t)len);
}

static void mark_insert(struct backend *b, const struct value *id)
{
	char key[1100];
	int len = snprintf(key, sizeof(key), "%s%c%.*s", b->consumer, 0, (int)id->len, id->bytes);

	table_insert(b->txn, T_MARKS, key, (size_t)len, NULL);
}

static struct value keep_value(const struct value *v)
{
	return v->bytes ? (struct value){sim_copy(v->bytes, v->len), v->len} : *v;
}

static void *event_value(struct backend *b, size_t i)
{
	struct event_row *e = sim_alloc(sizeof(*e));
	const struct value *type = &b->columns[1][i], *payload = &b->columns[2][i];
	const struct value *instance = b->kind == K_COPY ? &b->columns[6][i] : &b->packet->statements[b->at].values[6];

	e->type = (struct value){sim_copy(type->bytes, type->len), type->len};
	e->payload = (struct value){sim_copy(payload->bytes, payload->len), payload->len};
	e->source = keep_value(&b->columns[3][i]);
	e->time = keep_value(&b->columns[5][i]);
	e->instance = text_of(instance);
	e->wall_us = sim_wall();
	return e;
}

static int64_t refuse_twin(struct backend *b, const struct value *id)
{
	b->context = sim_print("COPY events, line %zu", b->row + 1);
	return fail(b, "23505", "duplicate key value violates unique constraint \"events_event_id_key\"",
		    sim_print("Key (event_id)=(%.*s) already exists.", (int)id->len, id->bytes));
}

/* Stores one row of a statement. Returns 0, a delay before the next step, or BLOCKED; *has_left as in meet(). */
static int64_t store_row(struct backend *b, bool *has_left)
{
	const struct value *id = &b->columns[0][b->row];
	bool is_skipped = false;
	int64_t delay = 0;
	struct row *row;

	if (b->kind == K_COPY && server.has_keeper && !b->is_row_begun && has_bad_field(b, b->row)) {
		*has_left = true;
		return 0;
	}
	if (!b->is_row_begun) {
		b->is_row_begun = true;
		*has_left = meet(b, AT_EVENT, id->bytes, id->len, &is_skipped, &delay);
		if (*has_left || delay)
			return delay;
	}
	row = is_skipped ? NULL : table_find(T_EVENTS, id->bytes, id->len);
	if (row && row->writer && row->writer != b->txn)
		return block(b, row, 0, false);
	unblock(b);
	sim_cost("rows offered", 1);
	sim_cost("rows offered that were there", row != NULL);
	if (row && b->kind == K_COPY) {
		*has_left = true;
		return refuse_twin(b, id);
	}
	if (!row && !is_skipped) {
		table_insert(b->txn, T_EVENTS, id->bytes, id->len, event_value(b, b->row));
		b->made[b->row] = true;
	}
	b->stored += !row && !is_skipped;
	return 0;
}

/* Stores a consumer's mark. After a COPY there is no ON CONFLICT. */
static int64_t mark_row(struct backend *b, bool *has_left)
{
	const struct value *id = &b->columns[0][b->row];
	struct row *row;

	if (server.has_keeper && !b->is_copied && !b->made[b->row] && !b->seen[b->row])
		return 0;
	row = mark_find(b->consumer, id, false);
	if (row && row->writer && row->writer != b->txn)
		return block(b, row, 0, false);
	unblock(b);
	if (row && b->is_copied) {
		*has_left = true;
		return fail(b, "23505", "duplicate key value violates unique constraint \"processed_events_pkey\"",
			    NULL);
	}
	if (!row) {
		mark_insert(b, id);
		b->fresh[b->row] = true;
	}
	return 0;
}

/* Runs the handler, which counts the row in one of a few rows of its own. Two batches may lock these in different
 * orders. */
static int64_t handle_row(struct backend *b, bool *has_left)
{
	const struct value *id = &b->columns[0][b->row];
	struct change *c;
	bool is_skipped = false;
	int64_t delay = 0;
	char key[20];
	struct row *row;
	int len;

	if (!b->fresh[b->row])
		return 0;
	if (!b->is_row_begun) {
		b->is_row_begun = true;
		*has_left = meet(b, AT_HANDLER, id->bytes, id->len, &is_skipped, &delay);
		if (*has_left || delay)
			return delay;
	}
	if (server.slots) {
		len = snprintf(key, sizeof(key), "%llu",
			       (unsigned long long)(hash_bytes(id->bytes, id->len) % server.slots));
		row = table_find(T_SLOTS, key, (size_t)len);
		if (row && row->writer && row->writer != b->txn) {
			int64_t delay_us = block(b, row, 0, false);

			b->context = sim_print("%s\n%s", b->context, IN_HANDLER);
			return delay_us;
		}
		unblock(b);
		if (row)
			table_update(b->txn, row, row->value);
		else
			table_insert(b->txn, T_SLOTS, key, (size_t)len, NULL);
	}
	c = sim_alloc(sizeof(*c));
	*c = (struct change){.older = b->txn->changes, .effect = {sim_copy(id->bytes, id->len), id->len}};
	b->txn->changes = c;
	return 0;
}

static void post_rows(struct backend *b)
{
	const struct value *name = b->names, *type = b->types;

	for (size_t i = 0; i < b->rows; i++)
		for (size_t j = 0; b->fresh[i] && j < b->targets; j++) {
			const struct value *t = &b->columns[1][i];
			char key[24];
			struct outbox_row *o;

			if (type[j].bytes && (type[j].len != t->len || memcmp(type[j].bytes, t->bytes, t->len) != 0))
				continue;
			o = sim_alloc(sizeof(*o));
			o->target = (struct value){sim_copy(name[j].bytes, name[j].len), name[j].len};
			o->id = (struct value){sim_copy(b->columns[0][i].bytes, b->columns[0][i].len),
					       b->columns[0][i].len};
			o->type = (struct value){sim_copy(t->bytes, t->len), t->len};
			o->payload = (struct value){sim_copy(b->columns[2][i].bytes, b->columns[2][i].len),
						    b->columns[2][i].len};
			o->number = server.outbox_id + 1;
			o->created_us = o->due_us = b->txn->wall_us;
			o->holder = SIM_NOBODY;
			snprintf(key, sizeof(key), "%llu", (unsigned long long)++server.outbox_id);
			table_insert(b->txn, T_OUTBOX, key, strlen(key), o);
			b->posted++;
		}
}

static void answer_copied(struct backend *b)
{
	struct pg_result *r = begin_rows(b, 2, 1);

	r->cells[1] = (struct value){"0", 1};
	put_text(r, 1, sim_print("%zu", b->posted));
	put_text(r, 0, "1");
	r->rows++;
	send_result(b, r);
}

static void answer_rows(struct backend *b)
{
	struct pg_result *r = begin_rows(b, b->kind == K_EFFECTS ? 2 + (b->handler != NULL) : 1, b->rows);
	const char *posted = sim_print("%zu", b->posted);

	if (b->kind == K_EFFECTS)
		r->cells[1] = (struct value){"0", 1};
	for (size_t i = 0; i < b->rows; i++) {
		if (!(b->kind == K_EFFECTS ? b->fresh : b->made)[i])
			continue;
		if (b->kind == K_EFFECTS)
			put_text(r, 1, posted);
		if (b->handler)
			put_text(r, 2, "");
		put_id(r, &b->columns[0][i]);
	}
	send_result(b, r);
}

/* --- dead letters --- */

static struct letter_row *letter_value(struct backend *b, size_t i)
{
	const struct statement *s = &b->packet->statements[b->at];
	struct letter_row *l = sim_alloc(sizeof(*l));
	struct value *const fields[] = {&l->id, &l->reason, &l->raw, &l->sender, &l->type, &l->source};

	for (int column = 1; column < 7; column++) {
		const struct value *v = &b->columns[column][i];

		if (v->bytes)
			*fields[column - 1] = (struct value){sim_copy(v->bytes, v->len), v->len};
	}
	l->instance = text_of(&s->values[7]);
	l->consumer = b->consumer;
	for (size_t j = 0; j < b->rows; j++)
		l->seen += !b->made[j] && b->columns[0][j].len == b->columns[0][i].len &&
			   memcmp(b->columns[0][j].bytes, b->columns[0][i].bytes, b->columns[0][i].len) == 0;
	return l;
}

/* Sets made for letters whose event has a row: they are skipped. Looks when the statement begins. */
static void find_stored(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];

	b->consumer = text_of(&s->values[8]);
	for (size_t i = 0; i < b->rows; i++) {
		const struct value *id = &b->columns[1][i];

		if (!*s->values[9].bytes || !id->bytes)
			continue;
		b->made[i] = *b->consumer ? mark_find(b->consumer, id, true) != NULL
					  : find_committed(T_EVENTS, id->bytes, id->len) != NULL;
	}
}

/* Sorts the indexes of the letters by digest, and keeps the first of each digest. */
static void sort_letters(struct backend *b)
{
	size_t n = 0;

	b->order = sim_alloc(b->rows * sizeof(*b->order) + 1);
	for (size_t i = 0; i < b->rows; i++) {
		size_t at = n;
		int order = 1;

		if (b->made[i])
			continue;
		while (at && (order = memcmp(b->columns[0][i].bytes, b->columns[0][b->order[at - 1]].bytes, 32)) < 0)
			at--;
		if (at && order == 0)
			continue;
		memmove(b->order + at + 1, b->order + at, (n - at) * sizeof(*b->order));
		b->order[at] = i;
		n++;
	}
	b->steps = n;
}

static int64_t dead_letter_row(struct backend *b, bool *has_left)
{
	size_t i = b->order[b->row];
	const struct value *digest = &b->columns[0][i], *id = &b->columns[1][i];
	bool is_skipped = false;
	int64_t delay = 0;
	struct letter_row *l, *old;
	struct row *row;

	if (!b->is_row_begun) {
		b->is_row_begun = true;
		*has_left = meet(b, AT_LETTER, id->bytes, id->len, &is_skipped, &delay);
		if (*has_left || delay || is_skipped)
			return delay;
	}
	row = table_find(T_LETTERS, digest->bytes, digest->len);
	if (row && row->writer && row->writer != b->txn)
		return block(b, row, 0, false);
	unblock(b);
	l = letter_value(b, i);
	if (!row) {
		table_insert(b->txn, T_LETTERS, digest->bytes, digest->len, l);
		return 0;
	}
	old = row->value;
	l->seen += old->seen;
	l->id = l->id.bytes ? l->id : old->id;
	l->sender = l->sender.bytes ? l->sender : old->sender;
	l->source = l->source.bytes ? l->source : old->source;
	l->type = old->type;
	l->raw = old->raw;
	l->instance = old->instance;
	l->consumer = old->consumer;
	table_update(b->txn, row, l);
	return 0;
}

/* --- cursors --- */

static const char *cursor_key(const struct backend *b, size_t i, size_t *len)
{
	const struct value *source = &b->columns[0][i], *scope = &b->columns[1][i];
	char *key = sim_alloc(source->len + scope->len + 2);

	memcpy(key, source->bytes, source->len);
	memcpy(key + source->len + 1, scope->bytes, scope->len);
	*len = source->len + scope->len + 2;
	return key;
}

static int compare_cursor_keys(const struct backend *b, size_t i, size_t j)
{
	size_t i_len, j_len;
	const char *a = cursor_key(b, i, &i_len), *c = cursor_key(b, j, &j_len);
	int order = strcmp(a, c);

	return order ? order : strcmp(a + strlen(a) + 1, c + strlen(c) + 1);
}

/* Writes nothing if the epoch differs. */
static void sort_cursors(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];

	b->order = sim_alloc(b->rows * sizeof(*b->order) + 1);
	b->steps = b->epoch && strcmp(text_of(&s->values[5]), sim_print("%08x", b->epoch)) == 0 ? b->rows : 0;
	for (size_t i = 0; i < b->steps; i++) {
		size_t at = i;

		for (; at && compare_cursor_keys(b, i, b->order[at - 1]) < 0; at--)
			b->order[at] = b->order[at - 1];
		b->order[at] = i;
	}
}

static bool is_number(const struct value *v)
{
	size_t at = v->len && v->bytes[0] == '-';

	if (at == v->len)
		return false;
	while (at < v->len && v->bytes[at] >= '0' && v->bytes[at] <= '9')
		at++;
	return at == v->len;
}

/* May value replace the stored cursor? Numbers here have few digits. */
static bool is_further(const struct value *kind, const struct value *value, const struct cursor_row *row)
{
	const struct value *old = &row->value;
	size_t shorter = value->len < old->len ? value->len : old->len;
	int order;

	if (strncmp(text_of(kind), "max", 3) != 0 || strcmp(text_of(kind), text_of(&row->kind)) != 0 ||
	    is_number(value) != is_number(old))
		return true;
	if (is_number(value))
		return strtoll(text_of(value), NULL, 10) > strtoll(text_of(old), NULL, 10);
	order = memcmp(value->bytes, old->bytes, shorter);
	return order ? order > 0 : value->len > old->len;
}

static int64_t put_cursor(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];
	size_t i = b->order[b->row], len;
	const char *key = cursor_key(b, i, &len);
	struct row *row = table_find(T_CURSORS, key, len);
	struct cursor_row *c, *old;

	if (row && row->writer && row->writer != b->txn)
		return block(b, row, 0, false);
	unblock(b);
	old = row ? row->value : NULL;
	if (old && !is_further(&b->columns[2][i], &b->columns[3][i], old))
		return 0;
	c = sim_alloc(sizeof(*c));
	*c = (struct cursor_row){keep_value(&b->columns[2][i]), keep_value(&b->columns[3][i]),
				 keep_value(&b->columns[4][i]), text_of(&s->values[6])};
	if (row)
		table_update(b->txn, row, c);
	else
		table_insert(b->txn, T_CURSORS, key, len, c);
	return 0;
}

static bool is_wanted(const struct backend *b, const struct row *row)
{
	for (size_t i = 0; i < b->rows; i++)
		if (strlen(row->key) == b->columns[0][i].len &&
		    memcmp(row->key, b->columns[0][i].bytes, b->columns[0][i].len) == 0)
			return !row->is_new;
	return false;
}

static int compare_rows(const void *a, const void *b)
{
	const char *left = (*(struct row *const *)a)->key, *right = (*(struct row *const *)b)->key;
	int order = strcmp(left, right);

	return order ? order : strcmp(left + strlen(left) + 1, right + strlen(right) + 1);
}

static void read_cursors(struct backend *b)
{
	struct row *found[64];
	size_t n = 0;
	struct pg_result *r;

	for (int i = 0; i < BUCKETS; i++)
		for (struct row *row = server.tables[T_CURSORS][i]; row && n < 64; row = row->next)
			if (is_wanted(b, row))
				found[n++] = row;
	qsort(found, n, sizeof(*found), compare_rows);
	r = begin_rows(b, 5, n);
	for (size_t i = 0; i < n; i++) {
		const struct cursor_row *c = found[i]->value;

		put_text(r, 0, found[i]->key);
		put_text(r, 1, found[i]->key + strlen(found[i]->key) + 1);
		put_value(r, 2, c->value.bytes, c->value.len);
		put_value(r, 3, c->variables.bytes, c->variables.len);
		put_text(r, 4, "0");
		r->rows++;
	}
	send_result(b, r);
}

static void answer_dead_lettered(struct backend *b)
{
	struct pg_result *r = begin_rows(b, 1, b->rows);

	for (size_t i = 0; i < b->rows; i++) {
		if (!b->made[i])
			continue;
		put_text(r, 0, sim_print("%zu", i + 1));
		r->rows++;
	}
	send_result(b, r);
}

/* --- the phases --- */

static void take_columns(struct backend *b, int n)
{
	const struct statement *s = &b->packet->statements[b->at];

	for (int i = 0; i < n; i++)
		b->columns[i] = read_array(&s->values[i], &b->rows);
	/* The binary form of jsonb begins with its version. */
	for (size_t i = 0; n == 6 && i < b->rows; i++)
		b->columns[2][i] = (struct value){b->columns[2][i].bytes + 1, b->columns[2][i].len - 1};
	b->steps = b->rows;
	b->made = sim_alloc(b->rows + 1);
	b->seen = sim_alloc(b->rows + 1);
	b->fresh = sim_alloc(b->rows + 1);
}

/* Decodes the hexadecimal literal at *at and moves *at past it. */
static struct value read_hex(const char **at)
{
	size_t len = strcspn(*at, "'") / 2;
	char *bytes = sim_alloc(len + 1);
	unsigned int byte;

	for (size_t i = 0; i < len; i++, *at += 2) {
		sscanf(*at, "%2x", &byte);
		bytes[i] = (char)byte;
	}
	return (struct value){bytes, len};
}

static const char *find_literal(const char *at, const char *end)
{
	static const char decode[] = "pg_catalog.decode('";
	const char *literal = at ? strstr(at, decode) : NULL;

	return literal && (!end || literal < end) ? literal + sizeof(decode) - 1 : NULL;
}

/* Reads a list of (name, type), where type may be NULL::text. */
static void read_targets(struct backend *b, const char *at)
{
	const char *end = strstr(at, "AS w (");
	struct value *names = sim_alloc(strlen(at) * sizeof(*names)), *types = sim_alloc(strlen(at) * sizeof(*types));

	for (b->targets = 0; (at = find_literal(at, end)); b->targets++) {
		static const char null[] = "', 'hex'), 'UTF8'), NULL::text";

		names[b->targets] = read_hex(&at);
		if (strncmp(at, null, sizeof(null) - 1) == 0)
			continue;
		at = find_literal(at, end);
		types[b->targets] = read_hex(&at);
	}
	b->names = names;
	b->types = types;
}

/* Reads the effects from a statement of store/effects.c, in which the handler is called between these two. */
static void read_effects(struct backend *b, const char *text, const char *before, const char *call)
{
	const char *end = strstr(text, call), *at = end;

	while (at && strncmp(at - strlen(before), before, strlen(before)) != 0)
		at--;
	b->handler = end ? sim_copy(at, (size_t)(end - at)) : NULL;
	b->has_marks = strstr(text, "processed_events");
	at = b->has_marks ? find_literal(text, NULL) : NULL;
	b->consumer = at ? read_hex(&at).bytes : "";
	at = strstr(text, ".outbox");
	b->has_outbox = at;
	if (at)
		read_targets(b, at);
}

/* Reads the statement that is sent after a COPY. Returns false if there is none. */
static bool read_copied(struct backend *b, const struct statement *s)
{
	const char *text = strstr(s->text, "wsonce.before");

	if (text)
		read_effects(b, text, "count(", "(event_id::text, event_type::text, payload))");
	return text;
}

/* Returns false if a value was refused. */
static bool take_parameters(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];

	if (b->kind <= K_RESET)
		return true;
	b->row = b->stage = b->posted = b->stored = b->rows = b->steps = 0;
	b->handler = NULL;
	b->has_marks = b->has_outbox = b->is_row_begun = b->is_copied = false;
	if (b->kind == K_FIND)
		take_columns(b, 1);
	else if (b->kind == K_DEAD_LETTER)
		take_columns(b, 7);
	else if (b->kind == K_PUT_CURSORS)
		take_columns(b, 5);
	else if (b->kind == K_READ_CURSORS)
		take_columns(b, 1);
	else if (b->kind == K_INSERT || b->kind == K_EFFECTS)
		take_columns(b, 6);
	if (b->kind == K_EFFECTS)
		read_effects(b, s->text, " ", "(event_id::text, event_type::text, payload)::text");
	if (b->kind == K_COPY)
		b->is_copied = read_copied(b, s);
	if (b->kind == K_RECORD)
		outbox_take_records(b);
	b->txn->is_async = 1u << b->kind & OUTBOX;
	return !has_bad_parameter(b);
}

static int64_t busy_us(void)
{
	int64_t us = sim_between(100, 600);

	return sim_now() < server.slow_until_us ? us + sim_between(0, server.slow_us) : us;
}

static int64_t rows_us(const struct backend *b)
{
	return (int64_t)b->rows * (sim_now() < server.rows_until_us ? server.row_us : 5);
}

static int64_t start_copy(struct backend *b)
{
	result_new(b, PGRES_TUPLES_OK, "QUERY PLAN", 1, 1)->rows = 1;
	send_result(b, b->result);
	if (server.is_read_only)
		return fail(b, "25006", "cannot execute COPY FROM in a read-only transaction", NULL);
	send_result(b, result_new(b, PGRES_COPY_IN, NULL, 0, 0));
	flush(b);
	b->phase = PH_COPY_IN;
	return BLOCKED;
}

static void next_statement(struct backend *b)
{
	b->context = NULL;
	b->began_us = sim_now();
	b->phase = ++b->at < b->packet->count ? PH_START : PH_COMMIT;
}

/* Runs statements that take almost no time and never wait. */
static bool run_at_once(struct backend *b)
{
	switch (b->kind) {
	case K_LIMITS:
		answer_calls(b);
		return true;
	case K_RESET:
		b->is_changed = false;
		answer_block(b);
		return true;
	case K_ALONE:
		answer_block(b);
		return true;
	case K_INSPECT:
		inspect(b);
		return true;
	case K_ASK:
		ask_version(b);
		return true;
	case K_IDENTIFY:
		identify(b);
		return true;
	case K_MAKE_EPOCH:
		make_epoch(b);
		return true;
	case K_EPOCH:
		tell_epoch(b);
		return true;
	case K_FIND:
		find_present(b);
		return true;
	case K_CHECKIN:
		check_in(b);
		return true;
	case K_CHECK_EFFECTS:
		check_effects(b);
		return true;
	case K_LEASE:
		outbox_lease(b);
		return true;
	case K_PEEK:
		outbox_peek(b);
		return true;
	case K_BACKLOG:
		outbox_tell_backlog(b);
		return true;
	case K_READ_CURSORS:
		read_cursors(b);
		return true;
	case K_HOLDER:
		send_result(b, result_new(b, PGRES_TUPLES_OK, "concat", 1, 0));
		return true;
	case K_INSERT:
	case K_COPY:
	case K_DEAD_LETTER:
	case K_EFFECTS:
	case K_RECORD:
	case K_PUT_CURSORS:
	case KINDS:
		break;
	}
	return false;
}

static int64_t on_start(struct backend *b)
{
	const struct statement *s = &b->packet->statements[b->at];
	bool is_skipped = false;
	int64_t delay = 0;

	b->kind = kind_of(s->text);
	if (b->kind == K_LIMITS || b->kind == K_COPY)
		set_limits(b, s->text);
	if (b->kind == K_COPY) {
		answer_commands(b, s->text, strstr(s->text, known[K_COPY].text), "SET");
		b->began_us = sim_now();
	}
	if (b->kind > K_RESET)
		b->task = b->kind;
	b->phase = PH_BEGUN;
	if (b->kind <= K_RESET)
		return 0;
	sim_cost(1u << b->kind & ROW_KINDS ? "statements with rows" : kind_names[b->kind], 1);
	if (meet(b, AT_START, NULL, 0, &is_skipped, &delay))
		return 0;
	return delay + busy_us();
}

static bool wants_table(const struct backend *b)
{
	return 1u << b->kind & ((WRITERS & ~OUTBOX) | READERS) && b->kind != K_MAKE_EPOCH;
}

static bool is_table_taken(const struct backend *b)
{
	for (const struct txn *t = server.open; t; t = t->next)
		if (t != b->txn && t->has_table)
			return true;
	return false;
}

static bool is_lock_taken(const struct backend *b, int wanted)
{
	for (const struct txn *t = server.open; t; t = t->next)
		if (t != b->txn && t->lock && t->lock + wanted > 2)
			return true;
	return false;
}

/* The statement's snapshot is taken here. */
static int64_t on_begun(struct backend *b)
{
	int wanted;

	b->context = NULL;
	if (wants_table(b) && is_table_taken(b))
		return block(b, NULL, 0, true);
	if (!take_parameters(b))
		return 0;
	if (!server.has_key && 1u << b->kind & ROW_KINDS)
		return fail(b, "42P10",
			    "there is no unique or exclusion constraint matching the ON CONFLICT specification", NULL);
	if (server.is_read_only && b->kind != K_COPY && 1u << b->kind & (WRITERS | 1u << K_PUT_CURSORS))
		return fail(b, "25006",
			    b->kind == K_MAKE_EPOCH  ? "cannot execute INSERT in a read-only transaction"
			    : 1u << b->kind & OUTBOX ? "cannot execute UPDATE in a read-only transaction"
						     : "cannot execute SELECT in a read-only transaction",
			    NULL);
	wanted = b->kind == K_ALONE ? 2 : b->kind == K_EFFECTS || b->is_copied;
	if (wanted && is_lock_taken(b, wanted))
		return block(b, NULL, wanted, false);
	unblock(b);
	if (wanted > b->txn->lock)
		b->txn->lock = wanted;
	if (b->kind == K_COPY)
		return start_copy(b);
	b->epoch = server.epoch;
	if (b->kind == K_RESET && run_deferred(b))
		return 0;
	if (run_at_once(b)) {
		next_statement(b);
		return 0;
	}
	if (b->kind == K_PUT_CURSORS)
		sort_cursors(b);
	for (size_t i = 0; i < b->rows && 1u << b->kind & ROW_KINDS; i++)
		b->seen[i] = find_committed(T_EVENTS, b->columns[0][i].bytes, b->columns[0][i].len);
	if (b->kind == K_DEAD_LETTER) {
		find_stored(b);
		sort_letters(b);
	}
	b->phase = PH_ROWS;
	return rows_us(b);
}

static int64_t on_copy(struct backend *b)
{
	const char *at = b->copy.bytes + 19;

	b->rows = 0;
	for (int column = 0; column < COPY_COLUMNS; column++)
		b->columns[column] = sim_alloc((b->copy.len / 30 + 1) * sizeof(struct value));
	for (; at[0] == 0; b->rows++) {
		at += 2;
		for (int column = 0; column < COPY_COLUMNS; column++) {
			uint32_t len = read_number(&at);
			bool is_json = column == 2;

			if (len == UINT32_MAX)
				continue;
			b->columns[column][b->rows] = (struct value){at + is_json, len - is_json};
			at += len;
		}
	}
	/* without row triggers, COPY parses many rows before it stores the first */
	for (size_t i = 0; i < b->rows && !server.has_keeper; i++)
		if (has_bad_field(b, i))
			return 0;
	b->steps = b->rows;
	b->made = sim_alloc(b->rows + 1);
	b->fresh = sim_alloc(b->rows + 1);
	b->phase = PH_ROWS;
	return busy_us() + rows_us(b);
}

static int64_t run_row(struct backend *b, bool *has_left)
{
	b->context = NULL;
	if (b->kind == K_RECORD)
		return outbox_record(b);
	switch (b->stage) {
	case 0:
		if (b->kind == K_PUT_CURSORS)
			return put_cursor(b);
		return b->kind == K_DEAD_LETTER ? dead_letter_row(b, has_left) : store_row(b, has_left);
	case 1:
		return mark_row(b, has_left);
	default:
		return handle_row(b, has_left);
	}
}

static bool next_stage(struct backend *b)
{
	b->row = 0;
	b->is_row_begun = false;
	if (b->is_copied && b->stage == 0) {
		send_status(b, PGRES_COMMAND_OK, b->stored);
		b->kind = K_EFFECTS;
		b->began_us = sim_now();
		sim_reached("postgres", "effects behind a COPY");
	}
	if (b->kind != K_EFFECTS)
		return false;
	if (b->stage == 0) {
		b->stage = b->has_marks ? 1 : 2;
		if (!b->has_marks)
			memcpy(b->fresh, b->made, b->rows);
	} else if (b->stage == 1) {
		b->stage = 2;
	} else {
		return false;
	}
	if (b->stage == 2 && b->has_outbox)
		post_rows(b);
	return b->stage == 1 || b->handler;
}

static int64_t on_rows(struct backend *b)
{
	bool has_left = false;

	while (b->row < b->steps) {
		int64_t delay = run_row(b, &has_left);

		if (has_left)
			return 0;
		if (delay)
			return delay;
		b->row++;
		b->is_row_begun = false;
		/* some statements are slow because they wait for a processor */
		if (sim_chance(b->began_us % 8 == 0 ? 300 : 20))
			return sim_between(10, 3000);
	}
	if (next_stage(b))
		return 0;
	if (b->is_copied && b->stored != b->rows)
		return fail(b, "22012", "division by zero", NULL);
	b->phase = PH_DONE;
	return 0;
}

static int64_t on_done(struct backend *b)
{
	if (b->kind == K_RECORD) {
		send_status(b, PGRES_COMMAND_OK, b->posted);
	} else if (b->kind == K_PUT_CURSORS) {
		send_result(b, begin_rows(b, 1, 0));
	} else if (b->kind == K_DEAD_LETTER) {
		answer_dead_lettered(b);
	} else if (b->kind == K_COPY) {
		send_status(b, PGRES_COMMAND_OK, b->stored);
		tell_epoch(b);
		if (end_copy(b))
			return 0;
	} else if (b->is_copied) {
		b->epoch = server.epoch;
		answer_copied(b);
		if (end_copy(b))
			return 0;
	} else {
		answer_rows(b);
	}
	next_statement(b);
	return 0;
}

/* A commit with changes takes time on the disk; one without changes takes none. */
static int64_t on_commit(struct backend *b)
{
	bool is_skipped = false;
	int64_t delay = 0;

	b->at = b->packet->count - 1;
	b->kind = b->task;
	if (b->txn->changes && meet(b, AT_COMMIT, NULL, 0, &is_skipped, &delay))
		return 0;
	b->phase = PH_COMMITTED;
	if (b->txn->changes)
		delay += server.is_lazy || b->txn->is_async ? 10
			 : sim_now() < server.slow_until_us ? sim_between(0, server.slow_us)
							    : sim_between(50, 1500);
	return delay;
}

static int64_t on_committed(struct backend *b)
{
	bool is_skipped = false, has_changed = b->txn->changes;
	int64_t delay = 0;

	if (b->is_changed && b->txn->changes)
		sim_committed_changed(b->process);
	b->was_changed = b->is_changed;
	txn_end(b->txn, true);
	if (has_changed && meet(b, AT_COMMITTED, NULL, 0, &is_skipped, &delay))
		return 0;
	send_end(b);
	next_packet(b);
	return 0;
}

static int64_t run_phase(struct backend *b)
{
	b->is_hanging = false;
	switch (b->phase) {
	case PH_IDLE:
	case PH_COPY_IN:
		break;
	case PH_START:
		return on_start(b);
	case PH_BEGUN:
		return on_begun(b);
	case PH_COPY:
		return on_copy(b);
	case PH_ROWS:
		return on_rows(b);
	case PH_DONE:
		return on_done(b);
	case PH_COMMIT:
		return on_commit(b);
	case PH_COMMITTED:
		return on_committed(b);
	}
	return BLOCKED;
}

static void step(struct backend *b)
{
	int64_t still_us = server_frozen_until() ? server.frozen_us : sim_now() < server.up_us ? server.up_us : 0;

	/* a pooler holds requests until there is a server */
	if (still_us) {
		wake_at(b, still_us);
		return;
	}
	while (b->is_alive && !interrupt(b) && b->due_us <= sim_now()) {
		int64_t delay = run_phase(b);

		if (!b->is_alive)
			return;
		if (b->phase == PH_IDLE || delay == BLOCKED)
			b->due_us = FOREVER;
		else if (b->due_us <= sim_now())
			b->due_us = sim_now() + delay;
	}
	if (!b->is_alive)
		return;
	wake_at(b, b->due_us);
	wake_at(b, deadline(b));
}

/* --- another program's transactions --- */

struct txn *server_begin(void)
{
	struct txn *t = txn_new(NULL, SIM_NOBODY);

	t->stranger = server.strangers;
	server.strangers = t;
	return t;
}

bool server_hold(struct txn *t, const char *id, const char *payload)
{
	struct event_row *e = sim_alloc(sizeof(*e));

	if (table_find(T_EVENTS, id, strlen(id)))
		return false;
	e->type = (struct value){"", 0};
	e->payload = (struct value){payload, strlen(payload)};
	e->wall_us = sim_wall();
	table_insert(t, T_EVENTS, id, strlen(id), e);
	return true;
}

void server_end(struct txn *t, bool is_commit)
{
	txn_end(t, is_commit);
}

/* --- faults of the whole server --- */

void server_crash(int64_t down_us, int64_t forgotten_us, enum crash how)
{
	for (struct backend *b = server.backends, *next; b; b = next) {
		next = b->next;
		if (how == CRASH_POOLED && b->phase == PH_IDLE)
			continue;
		if (b->conn && how != CRASH_SILENT)
			client_end(b->conn);
		backend_end(b);
	}
	for (struct txn *t = server.strangers; t; t = t->stranger)
		txn_end(t, false);
	server.strangers = NULL;
	forget_since(sim_now() - forgotten_us);
	forget_async(sim_now() - ASYNC_US);
	server.epoch = 0;
	server.starting_us = sim_now() + down_us * 3 / 4;
	server.up_us = sim_now() + down_us;
}

/* A clean restart: running transactions are rolled back, and the epoch stays. */
void server_restart(int64_t down_us)
{
	while (server.backends)
		backend_terminate(server.backends, "57P01", "terminating connection due to administrator command");
	server.starting_us = sim_now() + down_us * 3 / 4;
	server.up_us = sim_now() + down_us;
}

void server_wake_all(void)
{
	for (struct backend *b = server.backends; b; b = b->next)
		if (b->is_blocked || b->is_hanging)
			wake(b, 0);
}

void server_wake_hanging(void)
{
	for (struct backend *b = server.backends; b; b = b->next)
		if (b->due_us != FOREVER)
			wake(b, 0);
}

void sim_postgres_start(void)
{
	learn_all();
	server = (struct server){.has_key = true, .backends_max = 97};
	if (sim_chance(250))
		server.role_statement_ms = (int)sim_between(150, 1000);
	if (sim_chance(150))
		server.role_lock_ms = (int)sim_between(100, 1000);
	for (int i = 0; i < TABLES; i++)
		server.tables[i] = sim_alloc(BUCKETS * sizeof(*server.tables[i]));
}

/* --- queries of the checker --- */

static const char *or_null(const struct value *v)
{
	return v->bytes ? v->bytes : "NULL";
}

/* Reads a time in microseconds since 2000. */
static int64_t time_of(const struct value *v)
{
	int64_t us = 0;

	for (int i = 0; i < 8; i++)
		us = (int64_t)((uint64_t)us << 8 | (unsigned char)v->bytes[i]);
	return us;
}

static char *describe_row(const struct row *row)
{
	const struct event_row *e = row->value;
	const struct letter_row *l = row->value;
	const struct outbox_row *o = row->value;

	switch (row->table) {
	case T_EVENTS:
		return sim_print("events %s %s %s %s %s %lld", row->key, e->type.bytes, e->payload.bytes,
				 or_null(&e->source), e->instance ? e->instance : "NULL",
				 (long long)(e->time.bytes ? time_of(&e->time) : 0));
	case T_LETTERS:
		return sim_print("dead_letters %c %s %s %s %s %s %s %s %llu", *row->key, or_null(&l->id),
				 l->reason.bytes, l->instance, l->consumer, or_null(&l->sender), or_null(&l->type),
				 or_null(&l->source), (unsigned long long)l->seen);
	case T_MARKS:
		return sim_print("processed_events %s %s", row->key, row->key + strlen(row->key) + 1);
	case T_OUTBOX:
		return sim_print("outbox %s %s %s %s %lld %lld", o->target.bytes, o->id.bytes, o->type.bytes,
				 outbox_states[o->state], (long long)o->attempts, (long long)o->leases);
	case T_CURSORS:
		return sim_print("cursors %s %s %s %s %s %s", row->key, row->key + strlen(row->key) + 1,
				 ((const struct cursor_row *)row->value)->kind.bytes,
				 ((const struct cursor_row *)row->value)->value.bytes,
				 or_null(&((const struct cursor_row *)row->value)->variables),
				 ((const struct cursor_row *)row->value)->instance);
	case T_SLOTS:
	case TABLES:
		break;
	}
	return NULL;
}

void server_empty(void)
{
	for (int table = 0; table < T_SLOTS; table++)
		memset(server.tables[table], 0, BUCKETS * sizeof(*server.tables[table]));
}

size_t server_list(char **lines)
{
	size_t n = 0;

	for (int table = 0; table < T_SLOTS; table++)
		for (int i = 0; i < BUCKETS; i++)
			for (const struct row *row = server.tables[table][i]; row; row = row->next)
				if (!row->is_new)
					lines[n++] = describe_row(row);
	lines[n++] = sim_print("told %llu %llu", (unsigned long long)server.told_events,
			       (unsigned long long)server.told_copies);
	return n;
}

const char *sim_row(const char *id, size_t id_len, size_t *payload_len)
{
	const struct row *row = find_committed(T_EVENTS, id, id_len);
	const struct event_row *e = row ? row->value : NULL;

	*payload_len = e ? e->payload.len : 0;
	return e ? e->payload.bytes : NULL;
}

int sim_backends(void)
{
	return server.count;
}
