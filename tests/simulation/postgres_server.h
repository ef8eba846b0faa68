/* postgres_server.h: the state of the played server, for postgres.c and postgres_faults.c. */
#ifndef WSONCE_SIM_POSTGRES_SERVER_H
#define WSONCE_SIM_POSTGRES_SERVER_H

#include "postgres.h"

enum table { T_EVENTS, T_LETTERS, T_MARKS, T_OUTBOX, T_CURSORS, T_SLOTS, TABLES };
extern const char *const table_names[TABLES];

/* The kinds of statements that a client sends. */
enum kind {
	K_LIMITS,
	K_RESET,
	K_INSPECT,
	K_ASK,
	K_IDENTIFY,
	K_MAKE_EPOCH,
	K_EPOCH,
	K_FIND,
	K_INSERT,
	K_COPY,
	K_DEAD_LETTER,
	K_CHECKIN,
	K_CHECK_EFFECTS,
	K_ALONE,
	K_EFFECTS,
	K_LEASE,
	K_PEEK,
	K_RECORD,
	K_BACKLOG,
	K_PUT_CURSORS,
	K_READ_CURSORS,
	K_HOLDER,
	KINDS
};
extern const char *const kind_names[KINDS];

#define IN_FUNCTION "PL/pgSQL function refuse() line 3 at RAISE"
#define IN_HANDLER  "SQL statement \"UPDATE totals\"\nPL/pgSQL function handle(text,text,jsonb) line 3 at SQL statement"

struct event_row {
	struct value type, payload, source, time;
	const char *instance;
	int64_t wall_us;
};

struct letter_row {
	struct value id, reason, raw, sender, type, source;
	const char *instance, *consumer;
	uint64_t seen;
};

enum outbox_state { OUTBOX_PENDING, OUTBOX_DELIVERED, OUTBOX_DEAD, OUTBOX_DISCARDED, OUTBOX_STATES };
extern const char *const outbox_states[];

struct cursor_row {
	struct value kind, value, variables;
	const char *instance;
};

/* Times are the server's wall clock. */
struct outbox_row {
	struct value target, id, type, payload;
	enum outbox_state state;
	uint64_t number;
	int64_t attempts, leases, created_us, due_us;
	int holder;      /* of the current lease, or SIM_NOBODY */
	bool has_failed; /* an attempt was answered */
};

struct row {
	struct row *next; /* in its chain */
	enum table table;
	uint64_t hash;
	const char *key;
	size_t key_len;
	unsigned int place;
	struct txn *writer; /* the open transaction that changed it, or NULL */
	bool is_new;        /* inserted by writer */
	void *value;
};

struct change {
	struct change *older, *newer;
	struct row *row; /* NULL for an effect */
	void *old;       /* the value before */
	bool is_insert;
	struct value effect; /* the id for which the handler ran */
};

struct txn {
	struct txn *next;     /* next open transaction */
	struct txn *older;    /* previous committed transaction */
	struct txn *stranger; /* next transaction of another program */
	struct backend *backend;
	int process;
	struct change *changes; /* newest first */
	int64_t wall_us;        /* now() */
	bool is_async;          /* commits without waiting for the disk */
	int64_t committed_us;
	int lock;       /* the lock of effects: 0 none, 1 shared, 2 exclusive */
	bool has_table; /* ACCESS EXCLUSIVE */
	bool is_over;
};

enum phase { PH_IDLE, PH_START, PH_BEGUN, PH_COPY_IN, PH_COPY, PH_ROWS, PH_DONE, PH_COMMIT, PH_COMMITTED };

struct backend {
	struct backend *next;
	struct pg_conn *conn;
	int process, life; /* of the listener that connected */
	bool is_alive;
	bool is_mute;      /* its answers get lost */
	bool is_hanging;   /* hangs because of a rule */
	bool is_cancelled; /* was asked to cancel the statement */
	bool is_changed;   /* a handler has changed the session; and the value before the transaction */
	bool was_changed;
	bool is_async;
	int64_t gone_us; /* when its client disconnected */
	struct packet *packets, **packets_end, *packet;
	int at; /* index of the statement in the packet */
	enum kind kind;
	enum kind task; /* the kind of the packet */
	enum phase phase;
	struct txn *txn;
	int64_t due_us;  /* when the next phase is due */
	int64_t wake_us; /* when step() is called next */
	int64_t began_us;
	int64_t lock_us, statement_us, check_us; /* timeouts; 0 if none */
	const char *context;                     /* CONTEXT of an error */
	struct message *answers, **answers_end;
	struct pg_result *result; /* the last result */
	/* waiting */
	bool is_blocked, has_looked, wants_table;
	int wants_lock;
	struct row *wants_row;
	const void *waits_for;
	int64_t wait_us;
	/* the statement */
	struct value copy;
	struct value *columns[7];
	size_t rows, steps, row, stage, stored, posted;
	size_t *order;
	bool is_row_begun, has_marks, has_outbox, is_copied;
	const struct value *names, *types; /* of its webhooks */
	size_t targets;
	bool *made, *seen, *fresh;
	const char *handler, *consumer;
	uint32_t epoch;
};

enum where { AT_START, AT_EVENT, AT_LETTER, AT_HANDLER, AT_DEFERRED, AT_COMMIT, AT_COMMITTED };
enum deed { RAISE, SKIP, HANG, CUT, MUTE, TERMINATE, SET };

/* A fault that some statements meet for a while. */
struct rule {
	struct rule *next;
	const char *name;
	enum where where;
	enum deed deed;
	unsigned int kinds; /* bits */
	int process;        /* SIM_NOBODY for all */
	bool is_of_rows;    /* only for statements that stored events */
	int odds;           /* per thousand; 0 for always */
	int times;          /* how many times are left; negative for no limit */
	const char *id;     /* NULL for all */
	const char *sqlstate, *message, *context;
	int64_t hang_us;
	int64_t until_us;
	uint64_t draw;
};

struct server {
	struct row **tables[TABLES];
	unsigned int places[TABLES];
	struct backend *backends;
	int count, backends_max;
	struct txn *open, *strangers;
	struct txn *history; /* committed, newest first */
	struct rule *rules;
	uint32_t epoch; /* 0 if the table is empty */
	uint64_t outbox_id, told_events, told_copies;
	unsigned int slots; /* rows of the handler's table */
	bool is_lazy;       /* synchronous_commit = off */
	bool is_read_only, has_key;
	bool has_keeper;            /* there is a trigger that may suppress rows */
	const char *fault;          /* what the check at connect finds */
	int64_t starting_us, up_us; /* connections are refused until starting_us, and "starting up" until up_us */
	int64_t frozen_us;
	int64_t slow_until_us, slow_us;
	int64_t rows_until_us, row_us;       /* a slow index: time per row */
	int role_lock_ms, role_statement_ms; /* the role's timeouts; 0 if none */
};
extern struct server server;

#define BUCKETS 256

struct row *table_find(enum table table, const char *key, size_t len);
struct row *table_insert(struct txn *t, enum table table, const char *key, size_t len, void *value);
void table_update(struct txn *t, struct row *row, void *value);
struct row *mark_find(const char *consumer, const struct value *id, bool is_committed);
struct txn *txn_new(struct backend *b, int process);
void txn_end(struct txn *t, bool is_commit);

/* For postgres_outbox.c: parameters, results, and waits. */
struct value *read_array(const struct value *given, size_t *n);
struct pg_result *result_new(struct backend *b, ExecStatusType status, const char *name, size_t columns, size_t rows);
void put_text(struct pg_result *r, size_t column, const char *text);
void send_result(struct backend *b, struct pg_result *result);
/* Waits for a row to be updated. Returns what a phase returns. */
int64_t wait_for_row(struct backend *b, struct row *row);
void end_wait(struct backend *b);

/* postgres_outbox.c: statements that end at once; one that handles rows one by one; an operator's. */
void outbox_lease(struct backend *b);
void outbox_peek(struct backend *b);
void outbox_tell_backlog(struct backend *b);
void outbox_take_records(struct backend *b);
int64_t outbox_record(struct backend *b);
void outbox_operate(enum outbox_state from, enum outbox_state to, uint64_t draw);
void backend_end(struct backend *b);
void backend_terminate(struct backend *b, const char *sqlstate, const char *message);
enum crash {
	CRASH_TOLD,   /* clients see their connections end */
	CRASH_SILENT, /* the machine is gone: clients are told nothing */
	CRASH_POOLED, /* a pooler keeps idle connections and passes them to the next server */
};
/* Commits of the last forgotten_us are lost, and so is the epoch. */
void server_crash(int64_t down_us, int64_t forgotten_us, enum crash how);
void server_restart(int64_t down_us);
/* All backends continue, whatever they wait for. */
void server_wake_all(void);
/* Backends that hang continue. */
void server_wake_hanging(void);

#endif
