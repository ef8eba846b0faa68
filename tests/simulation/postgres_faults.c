/* postgres_faults.c owns the faults of the played server. Each fault draws everything from the number that it is
 * given, and ends by itself. */
#include <stdio.h>
#include <string.h>

#include "postgres_server.h"
#include "sim.h"

#define ROWS         (1u << K_INSERT | 1u << K_COPY | 1u << K_EFFECTS)
#define LETTERS      (1u << K_DEAD_LETTER)
#define OUTBOX       (1u << K_LEASE | 1u << K_RECORD)
#define STORING      (ROWS | LETTERS | OUTBOX)
#define ALL          (~0u << K_INSPECT)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct rule *add(const char *name, enum where where, enum deed deed, unsigned int kinds, int64_t lasts_us)
{
	struct rule *r = sim_alloc(sizeof(*r));

	*r = (struct rule){.next = server.rules,
			   .name = name,
			   .where = where,
			   .deed = deed,
			   .kinds = kinds,
			   .process = SIM_NOBODY,
			   .times = -1,
			   .until_us = sim_now() + lasts_us};
	server.rules = r;
	return r;
}

static const char *draw_id(uint64_t *draw)
{
	return sim_id_count() ? sim_id(sim_dice(draw, sim_id_count())) : NULL;
}

/* --- errors from functions, triggers and the server --- */

struct error {
	const char *sqlstate, *message;
};

static const struct error of_functions[] = {
	{"P0001", "no such order"},
	{"23514", "new row violates check constraint \"orders\""},
	{"22P02", "invalid input syntax for type integer"},
	{"40001", "could not serialize access due to concurrent update"},
	{"40P01", "deadlock detected"},
	{"53100", "could not extend file: No space left on device"},
	{"53200", "out of memory"},
	{"55P03", "could not obtain lock on row in relation \"orders\""},
	{"57014", "canceling statement due to user request"},
	{"58030", "could not read file: Input/output error"},
	{"25006", "cannot execute INSERT in a read-only transaction"},
	{"42501", "permission denied for table orders"},
	{"42883", "function total(jsonb) does not exist"},
	{"XX000", "cache lookup failed"},
};

static const struct error of_servers[] = {
	{"53100", "could not extend file \"base/5/16384\": No space left on device"},
	{"53200", "out of memory"},
	{"58030", "could not read block 0 in file \"base/5/16384\": Input/output error"},
	{"42501", "permission denied for table events"},
	{"42P01", "relation \"public.events\" does not exist"},
	{"40001", "could not serialize access due to read/write dependencies among transactions"},
	{"57014", "canceling statement due to user request"},
	{"XX001", "invalid page in block 0 of relation base/5/16384"},
	{"0A000", "COPY FROM not supported with row-level security"},
};

static void raise(struct rule *r, const struct error *e, const char *context)
{
	r->sqlstate = e->sqlstate;
	r->message = e->message;
	r->context = context;
}

static void begin_trigger(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("a trigger raises for one id", AT_EVENT, RAISE, ROWS, lasts_us);

	server.has_keeper = true;
	r->id = draw_id(&draw);
	sim_touches(r->id ? r->id : "", lasts_us, true);
	raise(r, &of_functions[sim_dice(&draw, COUNT(of_functions))], IN_FUNCTION);
}

static void begin_check(uint64_t draw, int64_t lasts_us)
{
	static const struct error error = {"23514",
					   "new row for relation \"events\" violates check constraint \"small\""};
	struct rule *r = add("a constraint refuses one id", AT_EVENT, RAISE, ROWS, lasts_us);

	r->id = draw_id(&draw);
	sim_touches(r->id ? r->id : "", lasts_us, true);
	raise(r, &error, NULL);
}

/* A trigger that fails at random, for any row. */
static void begin_moody_trigger(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("a trigger raises now and then", AT_EVENT, RAISE, ROWS, lasts_us);

	server.has_keeper = true;
	sim_touches("", lasts_us, true);
	r->odds = 20 + (int)sim_dice(&draw, 200);
	raise(r, &of_functions[sim_dice(&draw, COUNT(of_functions))], IN_FUNCTION);
	r->draw = draw;
}

static void begin_keeper(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("a trigger keeps the row of one id back", AT_EVENT, SKIP, ROWS, lasts_us);

	server.has_keeper = true;
	r->id = draw_id(&draw);
	sim_touches(r->id ? r->id : "", lasts_us, true);
}

static void begin_slow_trigger(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("a trigger takes long for one id", AT_EVENT, HANG, ROWS, lasts_us);

	server.has_keeper = true;
	r->id = draw_id(&draw);
	sim_touches("", lasts_us, true); /* other statements wait for this one */
	r->context = "PL/pgSQL function delay() line 3 at PERFORM";
	r->hang_us = 100000 + (int64_t)sim_dice(&draw, 60000000);
}

static void begin_handler(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("the handler raises for one id", AT_HANDLER, RAISE, ROWS, lasts_us);

	r->id = draw_id(&draw);
	sim_touches(r->id ? r->id : "", lasts_us, true);
	raise(r, &of_functions[sim_dice(&draw, COUNT(of_functions))], IN_HANDLER);
}

static void begin_letter_trigger(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("dead letters are refused", AT_LETTER, RAISE, LETTERS, lasts_us);

	r->odds = sim_dice(&draw, 2) ? 0 : 300;
	if (sim_dice(&draw, 2))
		raise(r, &of_functions[sim_dice(&draw, COUNT(of_functions))], IN_FUNCTION);
	else
		raise(r, &of_servers[sim_dice(&draw, COUNT(of_servers))], NULL);
	r->draw = draw;
}

static void begin_trouble(uint64_t draw, int64_t lasts_us)
{
	struct rule *r =
		add("the server refuses statements", AT_START, RAISE,
		    sim_dice(&draw, 4) ? STORING : STORING | 1u << K_FIND | 1u << K_EPOCH | 1u << K_CHECKIN, lasts_us);

	sim_touches("", lasts_us, true);
	r->odds = sim_dice(&draw, 2) ? 0 : 100 + (int)sim_dice(&draw, 600);
	raise(r, &of_servers[sim_dice(&draw, COUNT(of_servers))], NULL);
	r->draw = draw;
}

static void begin_copy_trouble(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("COPY is refused", AT_START, RAISE, 1u << K_COPY, lasts_us);

	raise(r, &of_servers[sim_dice(&draw, COUNT(of_servers))], NULL);
}

static void begin_commit_trouble(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("commits fail", AT_COMMIT, RAISE, STORING, lasts_us);

	sim_touches("", lasts_us, true);
	r->odds = 100 + (int)sim_dice(&draw, 600);
	r->is_of_rows = sim_dice(&draw, 2);
	if (r->is_of_rows)
		raise(r, &of_functions[sim_dice(&draw, COUNT(of_functions))],
		      "PL/pgSQL function deferred() line 3 at RAISE");
	else
		raise(r, &of_servers[sim_dice(&draw, COUNT(of_servers))], NULL);
	r->draw = draw;
}

static void begin_read_only(uint64_t draw, int64_t lasts_us)
{
	(void)draw, (void)lasts_us;
	server.is_read_only = true;
}

/* --- the unique key --- */

static void on_key_back(void *arg)
{
	(void)arg;
	server.has_key = true;
	server.fault = NULL;
}

static void begin_keyless(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	server.has_key = false;
	server.fault = "the table public.events has no unique key on event_id";
	sim_at(lasts_us, on_key_back, NULL);
}

static void on_writable(void *arg)
{
	(void)arg;
	server.is_read_only = false;
}

static void begin_read_only_for(uint64_t draw, int64_t lasts_us)
{
	begin_read_only(draw, lasts_us);
	sim_at(lasts_us, on_writable, NULL);
}

/* --- locks of other programs --- */

static void on_rollback(void *arg)
{
	server_end(arg, false);
}

static void on_commit(void *arg)
{
	server_end(arg, true);
}

static void hold(uint64_t *draw, struct txn *t, int64_t lasts_us)
{
	const char *id = draw_id(draw);

	if (!id)
		return;
	server_hold(t, id, "{\"of\": \"another program\"}");
	sim_touches(id, lasts_us, false);
}

static void hold_ids(uint64_t draw, int64_t lasts_us, size_t n, void (*end)(void *txn))
{
	struct txn *t = server_begin();

	while (n--)
		hold(&draw, t, lasts_us);
	sim_at(lasts_us, end, t);
}

static void begin_held_id(uint64_t draw, int64_t lasts_us)
{
	hold_ids(draw, lasts_us, 1, on_rollback);
}

static void begin_held_ids(uint64_t draw, int64_t lasts_us)
{
	size_t n = 2 + sim_dice(&draw, 20);

	hold_ids(draw, lasts_us, n, on_rollback);
}

/* Another program stores one of our events after a while. */
static void begin_rival(uint64_t draw, int64_t lasts_us)
{
	hold_ids(draw, lasts_us, 1, on_commit);
}

static void begin_held_table(uint64_t draw, int64_t lasts_us)
{
	struct txn *t = server_begin();

	(void)draw;
	t->has_table = true;
	sim_at(lasts_us, on_rollback, t);
}

static void begin_held_effects(uint64_t draw, int64_t lasts_us)
{
	struct txn *t = server_begin();

	t->lock = 1 + (int)sim_dice(&draw, 2);
	sim_at(lasts_us, on_rollback, t);
}

/* --- connections and answers --- */

static void begin_cuts(uint64_t draw, int64_t lasts_us)
{
	static const struct {
		const char *name;
		enum where where;
	} places[] = {
		{"the connection is cut as the statement begins", AT_START},
		{"the connection is cut before the commit", AT_COMMIT},
		{"the connection is cut after the commit", AT_COMMITTED},
	};
	size_t i = sim_dice(&draw, COUNT(places));
	struct rule *r = add(places[i].name, places[i].where, CUT, STORING | 1u << K_FIND | 1u << K_CHECKIN, lasts_us);

	r->odds = 100 + (int)sim_dice(&draw, 900);
	r->draw = draw;
}

static void begin_lost_answers(uint64_t draw, int64_t lasts_us)
{
	bool is_committed = sim_dice(&draw, 2);
	struct rule *r = add("answers are lost, and nobody is told", is_committed ? AT_COMMITTED : AT_START, MUTE,
			     STORING | 1u << K_FIND | 1u << K_EPOCH | 1u << K_CHECKIN, lasts_us);

	r->odds = 100 + (int)sim_dice(&draw, 900);
	r->draw = draw;
}

static void begin_terminations(uint64_t draw, int64_t lasts_us)
{
	static const enum where places[] = {AT_START, AT_EVENT, AT_COMMIT, AT_COMMITTED};
	struct rule *r =
		add("a backend is terminated", places[sim_dice(&draw, COUNT(places))], TERMINATE, STORING, lasts_us);

	r->sqlstate = "57P01";
	r->message = "terminating connection due to administrator command";
	r->odds = 50 + (int)sim_dice(&draw, 500);
	r->draw = draw;
}

static void begin_hangs(uint64_t draw, int64_t lasts_us)
{
	bool is_commit = sim_dice(&draw, 3) == 0;
	struct rule *r = add(is_commit ? "commits hang" : "statements hang", is_commit ? AT_COMMIT : AT_START, HANG,
			     is_commit ? STORING : ALL, lasts_us);

	r->odds = 100 + (int)sim_dice(&draw, 900);
	r->hang_us = 100000 + (int64_t)sim_dice(&draw, 20000000);
	r->draw = draw;
}

/* --- the server --- */

static void begin_slow(uint64_t draw, int64_t lasts_us)
{
	server.slow_until_us = sim_now() + lasts_us;
	server.slow_us = 10000 + (int64_t)sim_dice(&draw, 1500000);
}

/* Rows are so slow that a batch may exceed the role's statement_timeout, but one row does not. */
static void begin_slow_rows(uint64_t draw, int64_t lasts_us)
{
	int64_t most = server.role_statement_ms ? server.role_statement_ms * 250 : 30000;

	server.rows_until_us = sim_now() + lasts_us;
	server.row_us = most / (1 + (int64_t)sim_dice(&draw, 8));
	sim_log(SIM_NOBODY, "postgres: each row takes %.3f s for %.1f s", (double)server.row_us / 1e6,
		(double)lasts_us / 1e6);
}

static void begin_freeze(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	server.frozen_us = sim_now() + lasts_us;
}

static void on_room(void *arg)
{
	(void)arg;
	server.backends_max = 97;
}

static void begin_full(uint64_t draw, int64_t lasts_us)
{
	server.backends_max = (int)sim_dice(&draw, 3);
	sim_at(lasts_us, on_room, NULL);
}

static void begin_crash(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	server_crash(lasts_us, 0, CRASH_TOLD);
}

static void begin_forgetful_crash(uint64_t draw, int64_t lasts_us)
{
	server_crash(lasts_us, (int64_t)sim_dice(&draw, 600000), CRASH_TOLD);
}

static void begin_restart(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	server_restart(lasts_us);
}

static enum crash draw_crash(uint64_t *draw)
{
	static const enum crash hows[] = {CRASH_TOLD, CRASH_SILENT, CRASH_POOLED};
	enum crash how = hows[sim_dice(draw, COUNT(hows))];

	sim_reached("postgres promotion", how == CRASH_TOLD     ? "told"
					  : how == CRASH_SILENT ? "silent"
								: "behind a pooler");
	return how;
}

static void begin_promotion(uint64_t draw, int64_t lasts_us)
{
	server_crash(lasts_us, 0, draw_crash(&draw));
}

/* A standby that lags behind is promoted. */
static void begin_lossy_promotion(uint64_t draw, int64_t lasts_us)
{
	int64_t lag_us = (int64_t)sim_dice(&draw, 3000000);

	server_crash(lasts_us, lag_us, draw_crash(&draw));
}

static void begin_shuffle(uint64_t draw, int64_t lasts_us)
{
	(void)lasts_us;
	for (struct backend *b = server.backends, *next; b; b = next) {
		next = b->next;
		if (sim_dice(&draw, 2))
			backend_terminate(b, "57P01", "terminating connection due to administrator command");
	}
}

const struct sim_fault sim_postgres_faults[] = {
	{"postgres: a trigger raises for one id", 20, begin_trigger, true},
	{"postgres: a constraint refuses one id", 5, begin_check, true},
	{"postgres: a trigger raises now and then", 8, begin_moody_trigger, false},
	{"postgres: a trigger keeps one id's row back", 10, begin_keeper, true},
	{"postgres: a trigger takes long for one id", 10, begin_slow_trigger, true},
	{"postgres: the handler raises for one id", 10, begin_handler, true},
	{"postgres: dead letters are refused", 10, begin_letter_trigger, true},
	{"postgres: statements are refused", 15, begin_trouble, false},
	{"postgres: COPY is refused", 3, begin_copy_trouble, false},
	{"postgres: commits fail", 8, begin_commit_trouble, false},
	{"postgres: read-only", 6, begin_read_only_for, false},
	{"postgres: the unique key is gone", 3, begin_keyless, false},
	{"postgres: another transaction holds an id", 15, begin_held_id, true},
	{"postgres: another transaction holds ids", 8, begin_held_ids, false},
	{"postgres: another program stores an id", 5, begin_rival, true},
	{"postgres: the table is locked", 6, begin_held_table, false},
	{"postgres: the lock of effects is held", 4, begin_held_effects, false},
	{"postgres: connections are cut", 15, begin_cuts, false},
	{"postgres: answers are lost", 12, begin_lost_answers, false},
	{"postgres: backends are terminated", 10, begin_terminations, false},
	{"postgres: statements hang", 12, begin_hangs, false},
	{"postgres: slow", 8, begin_slow, false},
	{"postgres: rows take long", 10, begin_slow_rows, true},
	{"postgres: stands still", 8, begin_freeze, false},
	{"postgres: no connection is free", 4, begin_full, false},
	{"postgres: crashes", 8, begin_crash, false},
	{"postgres: crashes and forgets", 8, begin_forgetful_crash, false},
	{"postgres: restarts in order", 6, begin_restart, false},
	{"postgres: a standby takes over", 4, begin_promotion, false},
	{"postgres: a standby takes over and forgets", 8, begin_lossy_promotion, false},
	{"postgres: connections are terminated", 6, begin_shuffle, false},
	{NULL, 0, NULL, false},
};

/* A session setting changes, with set_config(..., false): synchronous_commit, search_path or the time zone. */
static void begin_setting(uint64_t draw, int64_t lasts_us)
{
	struct rule *r = add("the handler sets something for its session", AT_HANDLER, SET, ROWS, lasts_us);

	r->odds = 100 + (int)sim_dice(&draw, 900);
	r->draw = draw;
}

const struct sim_fault sim_handler_faults[] = {
	{"postgres: the handler sets something for its session", 10, begin_setting, true},
	{NULL, 0, NULL, false},
};

static void begin_machine(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	sim_log(SIM_NOBODY, "postgres: its machine is gone, another one has its disk after %.1f s",
		(double)lasts_us / 1e6);
	server_crash(lasts_us, 0, CRASH_SILENT);
}

const struct sim_fault sim_postgres_machine = {"postgres: its machine is gone", 10, begin_machine, false};

/* --- operators --- */

static void begin_discard(uint64_t draw, int64_t lasts_us)
{
	(void)lasts_us;
	outbox_operate(sim_dice(&draw, 2) ? OUTBOX_PENDING : OUTBOX_DEAD, OUTBOX_DISCARDED, draw);
}

static void begin_retry(uint64_t draw, int64_t lasts_us)
{
	(void)lasts_us;
	outbox_operate(OUTBOX_DEAD, OUTBOX_PENDING, draw);
}

static void begin_reopen(uint64_t draw, int64_t lasts_us)
{
	(void)lasts_us;
	outbox_operate(OUTBOX_DISCARDED, OUTBOX_DEAD, draw);
}

const struct sim_fault sim_operator_faults[] = {
	{"operator: discards deliveries", 10, begin_discard, true},
	{"operator: retries dead deliveries", 10, begin_retry, true},
	{"operator: reopens discarded deliveries", 5, begin_reopen, true},
	{NULL, 0, NULL, false},
};

void sim_postgres_calm(void)
{
	int64_t now = sim_now();

	server.rules = NULL;
	for (struct txn *t = server.strangers; t; t = t->stranger)
		server_end(t, false);
	server.strangers = NULL;
	server.is_read_only = false;
	server.has_key = true;
	server.fault = NULL;
	server.backends_max = 97;
	server.slow_until_us = server.rows_until_us = 0;
	server.frozen_us = server.frozen_us < now ? server.frozen_us : now;
	server.up_us = server.up_us < now ? server.up_us : now;
	server_wake_hanging();
	server_wake_all();
}

void server_set_trigger(const char *where, const char *id, const char *sqlstate, const char *message)
{
	bool is_letter = strcmp(where, "dead_letters") == 0, is_handler = strcmp(where, "handler") == 0;
	bool is_commit = strcmp(where, "commit") == 0, is_slow = sqlstate && strcmp(sqlstate, "slow") == 0;
	enum where at = is_letter ? AT_LETTER : is_handler ? AT_HANDLER : is_commit ? AT_COMMIT : AT_EVENT;
	struct rule *r;

	for (r = server.rules; r; r = r->next)
		if (r->where == at && (is_commit || strcmp(r->id, id) == 0))
			r->until_us = 0;
	r = add("a trigger", at, is_slow ? HANG : sqlstate ? RAISE : SKIP, is_letter ? LETTERS : ROWS, INT64_MAX / 2);
	r->id = is_commit ? NULL : id;
	r->is_of_rows = is_commit;
	r->sqlstate = sqlstate;
	r->message = message;
	r->hang_us = 30000000;
	r->context = sim_print("%sPL/pgSQL function %s line 3 at %s",
			       is_slow ? "SQL statement \"SELECT pg_sleep(30)\"\n" : "",
			       is_handler  ? "handle(text,text,jsonb)"
			       : is_commit ? "deferred()"
					   : "refuse()",
			       is_slow ? "PERFORM" : "RAISE");
	server.has_keeper |= !is_letter && !is_handler && !is_commit;
}
