/* postgres.h: the two halves of the played Postgres: libpq.c, which listener/postgres/ calls, and postgres.c, the
 * server behind it. sim.h has its interface to the world and the checker.
 *
 * What travels between them are packets (statements, and the bytes of a COPY) and messages (results). A statement is
 * known by its whole text: one that the server does not know ends the program, with the text. */
#ifndef WSONCE_SIM_POSTGRES_H
#define WSONCE_SIM_POSTGRES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATEMENTS_MAX 4  /* per packet */
#define PARAMETERS_MAX 10 /* per statement */
#define COLUMNS_MAX    10 /* per result */

struct value {
	const char *bytes;
	size_t len;
};

/* Cells are in the order of rows: cells[row * columns + column]. */
struct pg_result {
	ExecStatusType status;
	const char *name;    /* of the first column */
	const char *command; /* for PQcmdStatus(), if it is called */
	size_t columns, rows, room;
	struct value *cells; /* bytes is NULL for an SQL NULL */
	char tuples[24];     /* for PQcmdTuples() */
	const char *sqlstate, *message, *detail, *context;
};

/* One thing that PQgetResult() returns. */
struct message {
	struct message *next;
	struct pg_result *result; /* NULL for the NULL that ends the results of a statement */
	bool is_end;              /* ends all results */
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

/* The server sends messages, which arrive later or get lost. */
void client_send(struct pg_conn *conn, struct message *first);
/* The server closes the connection; the client sees that after all that was sent. */
void client_end(struct pg_conn *conn);
/* The connection is cut: the client sees it now, and loses the data in transit. */
void client_cut(struct pg_conn *conn);
int client_process(const struct pg_conn *conn);

/* --- postgres.c offers; each is called when the data arrive at the server --- */

/* Returns the new backend; or NULL, and *error says why there is none. */
struct backend *server_connect(struct pg_conn *conn, const char **error);
void server_take(struct backend *b, struct packet *packet);
/* The client has disconnected, cleanly or not. */
void server_lose_client(struct backend *b);
void server_cancel(struct backend *b);

/* 0, or the time until which the server is frozen and reads nothing. */
int64_t server_frozen_until(void);

/* Another program's transaction, for faults and for tests/simulation/differential. server_hold() stores a row in it;
 * it returns false if the id exists or another transaction has it. */
struct txn;
struct txn *server_begin(void);
bool server_hold(struct txn *t, const char *id, const char *payload);
void server_end(struct txn *t, bool is_commit);

/* For tests/simulation/differential: sets what triggers do. where is "events", "dead_letters" or "handler". sqlstate
 * is the error to raise, NULL to skip the row, or "slow" to take long. Stays until sim_postgres_calm(). */
void server_set_trigger(const char *where, const char *id, const char *sqlstate, const char *message);
bool server_is_blocked(const struct backend *b);
struct backend *client_backend(const struct pg_conn *conn);
/* Writes each row of each table as text into lines. Returns the number of lines. */
size_t server_list(char **lines);
void server_empty(void);

#endif
