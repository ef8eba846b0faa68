/* libpq.c plays libpq for listener/postgres/: it connects, sends, and returns results in the order of libpq 15. In a
 * pipeline, a NULL follows the results of each statement, and a separate end follows all; otherwise one NULL ends all.
 * It judges nothing. postgres.c plays the server. */
#include "postgres.h"
#include "process.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres/cancel.h"
#include "sim.h"

enum phase { PHASE_DIALING, PHASE_REFUSED, PHASE_ACCEPTED, PHASE_UP, PHASE_LOST };

struct pg_conn {
	int fd;
	int process;
	enum phase phase;
	struct backend *backend;
	struct message *inbox, **inbox_end;   /* arrived, but not read by PQconsumeInput() */
	struct message *unread, **unread_end; /* read, but not returned yet */
	struct packet *draft;
	bool is_pipeline;
	bool is_asking; /* waits for an end */
	bool has_left;  /* the server knows that the client has disconnected */
	bool is_over;   /* the server closed or the connection was cut; seen after the inbox is read */
	char error[300];
};

/* --- transport --- */

struct letter {
	struct pg_conn *conn;
	struct message *first;
	struct packet *packet;
};

static struct letter *letter_new(struct pg_conn *conn)
{
	struct letter *l = sim_alloc(sizeof(*l));

	l->conn = conn;
	return l;
}

/* While the server is frozen, data stay in its socket. */
static bool is_put_off(void (*fn)(void *arg), void *arg)
{
	int64_t until = server_frozen_until();

	if (until)
		sim_at(until - sim_now(), fn, arg);
	return until;
}

static void on_answer(void *arg)
{
	struct letter *l = arg;

	if (l->conn->is_over)
		return;
	*l->conn->inbox_end = l->first;
	while (*l->conn->inbox_end)
		l->conn->inbox_end = &(*l->conn->inbox_end)->next;
	sim_fd_set(l->conn->fd, SIM_READABLE);
}

void client_send(struct pg_conn *conn, struct message *first)
{
	struct letter *l = letter_new(conn);

	l->first = first;
	sim_fd_later(conn->fd, false, on_answer, l);
}

static void on_end(void *arg)
{
	struct pg_conn *conn = arg;

	conn->is_over = true;
	sim_fd_set(conn->fd, SIM_READABLE);
}

void client_end(struct pg_conn *conn)
{
	sim_fd_later(conn->fd, false, on_end, conn);
}

void client_cut(struct pg_conn *conn)
{
	if (sim_fd_is_open(conn->fd))
		on_end(conn);
}

int client_process(const struct pg_conn *conn)
{
	return conn->process;
}

struct backend *client_backend(const struct pg_conn *conn)
{
	return conn->backend;
}

static void on_server_loss(void *arg)
{
	struct pg_conn *conn = arg;

	if (is_put_off(on_server_loss, arg))
		return;
	conn->has_left = true;
	if (conn->backend)
		server_lose_client(conn->backend);
}

static void on_gone(void *arg, bool is_killed)
{
	struct pg_conn *conn = arg;

	if (!is_killed)
		client_cut(conn);
	on_server_loss(conn);
}

/* The kernel keeps trying to report that a connection is closed. */
static void on_close_again(void *arg)
{
	struct pg_conn *conn = arg;

	if (sim_link(conn->process, SIM_POSTGRES) == SIM_LINK_SILENT)
		sim_at(500000, on_close_again, conn);
	else
		on_server_loss(conn);
}

static void close_socket(struct pg_conn *conn)
{
	if (!sim_fd_is_open(conn->fd))
		return;
	if (sim_link(conn->process, SIM_POSTGRES) == SIM_LINK_SILENT)
		sim_at(500000, on_close_again, conn);
	else
		sim_fd_later(conn->fd, true, on_server_loss, conn);
	sim_fd_close(conn->fd);
}

/* --- connecting --- */

static void on_verdict(void *arg)
{
	struct pg_conn *conn = arg;

	if (conn->phase == PHASE_DIALING)
		conn->phase = conn->backend ? PHASE_ACCEPTED : PHASE_REFUSED;
	sim_fd_set(conn->fd, SIM_READABLE | SIM_WRITABLE);
}

static void on_knock(void *arg)
{
	struct pg_conn *conn = arg;
	const char *error = NULL;

	if (is_put_off(on_knock, arg))
		return;
	conn->backend = server_connect(conn, &error);
	if (error)
		snprintf(conn->error, sizeof(conn->error), "connection to server failed: %s", error);
	if (conn->backend && conn->has_left) /* a server that was frozen handles them in any order */
		server_lose_client(conn->backend);
	sim_fd_later(conn->fd, false, on_verdict, conn);
}

static void on_refusal(void *arg)
{
	struct pg_conn *conn = arg;

	snprintf(conn->error, sizeof(conn->error), "connection to server failed: Connection refused");
	if (sim_fd_is_open(conn->fd))
		on_verdict(conn);
}

PGconn *PQconnectStartParams(const char *const *names, const char *const *values, int expand_dbname)
{
	struct pg_conn *conn = sim_alloc(sizeof(*conn));

	(void)names, (void)values, (void)expand_dbname;
	conn->process = sim_self();
	conn->inbox_end = &conn->inbox;
	conn->unread_end = &conn->unread;
	conn->fd = sim_fd_open(SIM_POSTGRES, on_gone, conn);
	if (sim_link(conn->process, SIM_POSTGRES) == SIM_LINK_CUT)
		sim_at(100, on_refusal, conn);
	else
		sim_fd_later(conn->fd, true, on_knock, conn);
	return conn;
}

PostgresPollingStatusType PQconnectPoll(PGconn *conn)
{
	if (conn->is_over && conn->phase != PHASE_REFUSED)
		conn->phase = PHASE_LOST;
	switch (conn->phase) {
	case PHASE_DIALING:
		return PGRES_POLLING_READING;
	case PHASE_ACCEPTED:
		conn->phase = PHASE_UP;
		sim_fd_clear(conn->fd, SIM_READABLE | SIM_WRITABLE);
		return PGRES_POLLING_OK;
	case PHASE_UP:
		return PGRES_POLLING_OK;
	case PHASE_LOST:
		snprintf(conn->error, sizeof(conn->error), "server closed the connection unexpectedly");
		return PGRES_POLLING_FAILED;
	case PHASE_REFUSED:
		break;
	}
	return PGRES_POLLING_FAILED;
}

ConnStatusType PQstatus(const PGconn *conn)
{
	return conn->phase == PHASE_UP                                     ? CONNECTION_OK
	       : conn->phase == PHASE_REFUSED || conn->phase == PHASE_LOST ? CONNECTION_BAD
									   : CONNECTION_STARTED;
}

void PQfinish(PGconn *conn)
{
	if (conn)
		close_socket(conn);
}

int PQsocket(const PGconn *conn)
{
	return conn->phase == PHASE_LOST ? -1 : conn->fd;
}

char *PQhost(const PGconn *conn)
{
	(void)conn;
	return "postgres";
}

char *PQerrorMessage(const PGconn *conn)
{
	return ((PGconn *)conn)->error;
}

int PQserverVersion(const PGconn *conn)
{
	(void)conn;
	return 150000;
}

/* Only one backend per process matters: the played server does not compare. */
int PQbackendPID(const PGconn *conn)
{
	return conn->process + 1;
}

const char *PQparameterStatus(const PGconn *conn, const char *name)
{
	(void)conn;
	return strcmp(name, "server_encoding") == 0 ? "UTF8" : NULL;
}

int PQsetnonblocking(PGconn *conn, int arg)
{
	(void)conn, (void)arg;
	return 0;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver fn, void *arg)
{
	(void)conn, (void)fn, (void)arg;
	return NULL;
}

static PQconninfoOption options[] = {
	{"host", "PGHOST", NULL, "/postgres", "Database-Host", "", 40}, /* a folder: no name is looked up */
	{NULL, NULL, NULL, NULL, NULL, NULL, 0},
};

PQconninfoOption *PQconninfo(PGconn *conn)
{
	(void)conn;
	return options;
}

PQconninfoOption *PQconninfoParse(const char *conninfo, char **error)
{
	(void)conninfo, (void)error;
	return options;
}

void PQconninfoFree(PQconninfoOption *found)
{
	(void)found;
}

void PQfreemem(void *block)
{
	(void)block;
}

/* --- cancelling: replaces postgres/cancel.c, which uses a thread --- */

static void on_cancel(void *arg)
{
	struct pg_conn *conn = arg;

	if (is_put_off(on_cancel, arg))
		return;
	if (conn->backend)
		server_cancel(conn->backend);
	on_server_loss(conn);
}

/* The request uses a separate connection; the old one is closed when the request is answered. */
void postgres_cancel(PGconn *conn)
{
	if (conn->phase != PHASE_UP || sim_link(conn->process, SIM_POSTGRES) != SIM_LINK_UP) {
		PQfinish(conn);
		return;
	}
	sim_reached("postgres", "a request to cancel");
	sim_fd_later(conn->fd, true, on_cancel, conn);
	sim_fd_close(conn->fd);
}

/* --- queries --- */

static void on_packet(void *arg)
{
	struct letter *l = arg;

	if (!is_put_off(on_packet, arg) && l->conn->backend)
		server_take(l->conn->backend, l->packet);
}

static int flush(struct pg_conn *conn)
{
	struct letter *l = letter_new(conn);

	l->packet = conn->draft;
	conn->draft = NULL;
	if (conn->phase != PHASE_UP)
		return 0;
	sim_fd_later(conn->fd, true, on_packet, l);
	return 1;
}

static struct packet *draft(struct pg_conn *conn)
{
	if (!conn->draft) {
		conn->draft = sim_alloc(sizeof(*conn->draft));
		conn->draft->conn = conn;
		conn->draft->is_pipeline = conn->is_pipeline;
	}
	return conn->draft;
}

int PQsendQuery(PGconn *conn, const char *text)
{
	return PQsendQueryParams(conn, text, 0, NULL, NULL, NULL, NULL, 0);
}

/* The highest parameter number ($1, $2, ...) in the text. */
static int parameters_in(const char *text)
{
	int most = 0;

	for (const char *at = strchr(text, '$'); at; at = strchr(at + 1, '$'))
		most = atoi(at + 1) > most ? atoi(at + 1) : most;
	return most;
}

static uint32_t number_at(const char *at)
{
	uint32_t n;

	memcpy(&n, at, 4);
	return ntohl(n);
}

/* Does the array contain the elements that its type and header say? */
static bool is_sound(Oid type, const char *at, size_t len)
{
	static const uint32_t types[][2] = {{1001, 17}, {1009, 25}, {3807, 3802}};
	const char *end = at + len;
	uint32_t n = 0, element = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i][0] == type)
			element = types[i][1];
	if (!element)
		return true;
	if (len < 20 || number_at(at + 8) != element)
		return false;
	for (const char *next = at + 20; next < end; n++)
		next += 4 + (number_at(next) == UINT32_MAX ? 0 : number_at(next));
	return n == number_at(at + 12);
}

int PQsendQueryParams(PGconn *conn, const char *text, int n, const Oid *types, const char *const *values,
		      const int *lengths, const int *formats, int format)
{
	struct packet *p = draft(conn);
	struct statement *s = &p->statements[p->count++];

	(void)format;
	if (n < parameters_in(text))
		process_fail("a statement with %d parameters is given %d values: %s", parameters_in(text), n, text);
	s->text = sim_copy(text, strlen(text));
	s->count = n;
	for (int i = 0; i < n; i++) {
		size_t len = lengths ? (size_t)lengths[i] : strlen(values[i]);

		if (types && formats && formats[i] && !is_sound(types[i], values[i], len))
			process_fail("parameter %d is not the array that it says it is: %s", i + 1, text);
		s->values[i] = (struct value){sim_copy(values[i], len), len};
	}
	conn->is_asking = true;
	return conn->is_pipeline ? conn->phase == PHASE_UP : flush(conn);
}

int PQenterPipelineMode(PGconn *conn)
{
	conn->is_pipeline = true;
	return conn->phase == PHASE_UP;
}

int PQexitPipelineMode(PGconn *conn)
{
	if (conn->is_asking)
		return 0;
	conn->is_pipeline = false;
	return 1;
}

PGpipelineStatus PQpipelineStatus(const PGconn *conn)
{
	return conn->is_pipeline ? PQ_PIPELINE_ON : PQ_PIPELINE_OFF;
}

int PQpipelineSync(PGconn *conn)
{
	return flush(conn);
}

int PQputCopyData(PGconn *conn, const char *bytes, int len)
{
	struct packet *p = draft(conn);
	struct value *rows = &p->statements[0].values[0];
	char *all = sim_alloc(rows->len + (size_t)len);

	if (rows->len)
		memcpy(all, rows->bytes, rows->len);
	memcpy(all + rows->len, bytes, (size_t)len);
	p->is_copy_data = true;
	*rows = (struct value){all, rows->len + (size_t)len};
	return 1;
}

int PQputCopyEnd(PGconn *conn, const char *error)
{
	(void)error;
	return flush(conn) ? 1 : -1;
}

/* The buffer is always empty: the network accepts everything at once. */
int PQflush(PGconn *conn)
{
	return conn->phase == PHASE_UP ? 0 : -1;
}

/* --- results --- */

static void lose(struct pg_conn *conn)
{
	conn->phase = PHASE_LOST;
	snprintf(conn->error, sizeof(conn->error),
		 "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n"
		 "\tbefore or while processing the request.\n");
	close_socket(conn);
}

/* Like libpq, reads once: first the data that arrived, and the end only at the next call. */
int PQconsumeInput(PGconn *conn)
{
	if (conn->phase != PHASE_UP)
		return 0;
	if (conn->inbox) {
		*conn->unread_end = conn->inbox;
		conn->unread_end = conn->inbox_end;
		conn->inbox = NULL;
		conn->inbox_end = &conn->inbox;
		if (!conn->is_over)
			sim_fd_clear(conn->fd, SIM_READABLE);
		return 1;
	}
	sim_fd_clear(conn->fd, SIM_READABLE);
	if (!conn->is_over)
		return 1;
	lose(conn);
	return 0;
}

int PQisBusy(PGconn *conn)
{
	return conn->phase == PHASE_UP && conn->is_asking && !conn->unread;
}

PGresult *PQgetResult(PGconn *conn)
{
	struct message *m = conn->unread;

	if (!m)
		return NULL;
	conn->unread = m->next;
	if (!conn->unread)
		conn->unread_end = &conn->unread;
	if (m->is_end)
		conn->is_asking = false;
	return m->result;
}

void PQclear(PGresult *result)
{
	(void)result;
}

ExecStatusType PQresultStatus(const PGresult *result)
{
	return result ? result->status : PGRES_FATAL_ERROR;
}

char *PQresultErrorField(const PGresult *result, int field)
{
	const char *found = field == PG_DIAG_SQLSTATE          ? result->sqlstate
			    : field == PG_DIAG_MESSAGE_PRIMARY ? result->message
			    : field == PG_DIAG_MESSAGE_DETAIL  ? result->detail
			    : field == PG_DIAG_CONTEXT         ? result->context
							       : NULL;

	return (char *)found;
}

int PQntuples(const PGresult *result)
{
	return (int)result->rows;
}

int PQnfields(const PGresult *result)
{
	return (int)result->columns;
}

char *PQfname(const PGresult *result, int column)
{
	return column ? NULL : (char *)result->name;
}

char *PQcmdStatus(PGresult *result)
{
	return (char *)(result->command ? result->command : "");
}

char *PQcmdTuples(PGresult *result)
{
	return result->tuples;
}

static const struct value *cell(const PGresult *result, int row, int column)
{
	return &result->cells[(size_t)row * result->columns + (size_t)column];
}

int PQgetisnull(const PGresult *result, int row, int column)
{
	return !cell(result, row, column)->bytes;
}

char *PQgetvalue(const PGresult *result, int row, int column)
{
	const char *bytes = cell(result, row, column)->bytes;

	return (char *)(bytes ? bytes : "");
}

int PQgetlength(const PGresult *result, int row, int column)
{
	return (int)cell(result, row, column)->len;
}
