/* postgres.h: the two halves of the played Postgres: libpq.c, which listener/postgres/ calls, and postgres.c, the
 * server behind it. What the world and the checker see of it is in sim.h.
 *
 * What travels between them are packets (statements, and the bytes of a COPY) and messages (results). A statement is
 * known by its whole text: one that the server does not know ends the program, with the text. */
#ifndef WSONCE_SIM_POSTGRES_H
#define WSONCE_SIM_POSTGRES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATEMENTS_MAX 4  /* in a packet */
#define PARAMETERS_MAX 10 /* of a statement */
#define COLUMNS_MAX    10 /* of a result */

struct value {
	const char *bytes;
	size_t len;
};

/* Which columns a cell is in is its place: cells[row * columns + column]. */
struct pg_result {
	ExecStatusType status;
	const char *name;    /* of the first column */
	const char *command; /* as PQcmdStatus() has it, if anybody asks */
	size_t columns, rows, room;
	struct value *cells; /* bytes NULL: NULL */
	char tuples[24];     /* as PQcmdTuples() has it */
	const char *sqlstate, *message, *detail, *context;
};

/* One thing that PQgetResult() returns. */
struct message {
	struct message *next;
	struct pg_result *result; /* NULL: the NULL that ends the results of a statement */
	bool is_end;              /* of all that was asked */
};

struct statement {
	const char *text;
	struct value values[PARAMETERS_MAX];
	int count;
};

/* What one flush of the client sends. */
struct packet {
	struct packet *next;
	struct pg_conn *conn;
	struct statement statements[STATEMENTS_MAX];
	int count;
	bool is_pipeline;
	bool is_copy_data; /* the only value of the first statement */
};

struct backend;

/* --- libpq.c offers --- */

/* The server sends messages; they arrive later, if they do. */
void client_send(struct pg_conn *conn, struct message *first);
/* The server has closed the connection: the client sees it behind all that was sent. */
void client_end(struct pg_conn *conn);
/* The connection is cut in the middle: the client sees it now, and nothing that is under way. */
void client_cut(struct pg_conn *conn);
int client_process(const struct pg_conn *conn);

/* --- postgres.c offers; all are called at the moment of arrival at the server --- */

/* Returns the new backend; or NULL, and why the server has none. */
struct backend *server_connect(struct pg_conn *conn, const char **error);
void server_take(struct backend *b, struct packet *packet);
/* The client has left, in order or not. */
void server_lose_client(struct backend *b);
void server_cancel(struct backend *b);

/* 0; or the moment until which the server stands still, and takes nothing. */
int64_t server_frozen_until(void);

/* Another program's transaction, for faults and for tests/simulation/differential. server_hold() stores a row in it;
 * false: the id is there, or another transaction has it. */
struct txn;
struct txn *server_begin(void);
bool server_hold(struct txn *t, const char *id, const char *payload);
void server_end(struct txn *t, bool is_commit);

/* For tests/simulation/differential: what triggers do. where is "events", "dead_letters" or "handler"; sqlstate NULL:
 * the row is passed over; "slow": it takes long. Stays until sim_postgres_calm(). */
void server_set_trigger(const char *where, const char *id, const char *sqlstate, const char *message);
bool server_is_blocked(const struct backend *b);
struct backend *client_backend(const struct pg_conn *conn);
/* Puts each row of each table, as a text, into lines. Returns how many. */
size_t server_list(char **lines);
void server_empty(void);

#endif
