/* played.c is the played side: tests/simulation/postgres.c and libpq.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres_server.h"
#include "process.h"
#include "side.h"
#include "sim.h"

/* In the order in which they were made, which is that of the ids in a statement. */
static char *handled[10000];
static int handled_count;

void sim_committed_effect(int process, const char *id, size_t id_len)
{
	(void)process, (void)id_len;
	handled[handled_count++] = sim_print("handled %s", id);
}

/* --- side.h --- */

static struct txn *held;

void side_open(void)
{
	sim_postgres_start();
	server.role_statement_ms = server.role_lock_ms = 0;
}

static void turn(void)
{
	if (sim_step())
		return;
	printf("nothing will happen any more\n");
	exit(1);
}

PGconn *side_connect(void)
{
	PGconn *conn = PQconnectStartParams(NULL, NULL, 1);

	while (PQconnectPoll(conn) != PGRES_POLLING_OK)
		turn();
	return conn;
}

void side_turn(PGconn *conn)
{
	(void)conn;
	turn();
}

bool side_is_blocked(PGconn *conn)
{
	return server_is_blocked(client_backend(conn));
}

void side_cancel(PGconn *conn)
{
	server_cancel(client_backend(conn));
}

void side_terminate(PGconn *conn)
{
	backend_terminate(client_backend(conn), "57P01", "terminating connection due to administrator command");
}

void side_hold_id(const char *id)
{
	held = server_begin();
	server_hold(held, id, "{\"of\": \"another program\"}");
}

void side_hold_table(void)
{
	held = server_begin();
	held->has_table = true;
}

void side_end_hold(bool is_commit)
{
	server_end(held, is_commit);
}

void side_set_trigger(const char *where, const char *id, const char *sqlstate)
{
	server_set_trigger(where, sim_copy(id, strlen(id)), sqlstate, "refused");
}

void side_clear_triggers(void)
{
	sim_postgres_calm();
}

void side_set_read_only(bool is_on)
{
	server.is_read_only = is_on;
}

void side_drop_key(void)
{
	server.has_key = false;
}

void side_restore_key(void)
{
	server.has_key = true;
}

void side_forget_epoch(void)
{
	server.epoch = 0;
}

const char *side_epoch(void)
{
	return server.epoch ? sim_print("%08x", server.epoch) : "";
}

void side_empty(void)
{
	handled_count = 0;
	server_empty();
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void side_list(void (*each)(const char *line))
{
	static char *lines[100000];
	size_t n = server_list(lines);

	for (int i = 0; i < handled_count; i++)
		lines[n++] = handled[i];
	qsort(lines, n, sizeof(*lines), compare);
	for (size_t i = 0; i < n; i++)
		each(lines[i]);
}
