/* session.c owns a command's connection to Postgres. Unlike postgres/connection.c it waits for answers and does not
 * reconnect: a command that loses its database says so and ends. session_file.c has SQLite files. */
#include "commands/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/resolve.h"
#include "commands/dispatch.h"
#include "commands/session_file.h"
#include "base/log.h"
#include "postgres/conninfo.h"
#include "postgres/hosts.h"
#include "postgres/schema.h"
#include "sqlite/file.h"

#define UPGRADE_AGAIN_MS 500
#define SPARE_MS         2000 /* time for a statement after the deadline, which records what was done */
#define READ_SPARE_MS    100  /* the same for one that reads */
#define CANCEL_MS        1000 /* time for the server to cancel a statement */
#define VALUES_MAX       12

/* Set by session_limit(). */
static _Thread_local int64_t deadline_ms; /* monotonic; 0: none */
static _Thread_local bool is_reading;
static _Thread_local bool is_cut; /* the deadline closed the connection */

struct session {
	struct sqlite_file *file; /* NULL: Postgres */
	PGconn *conn;
	char schema[SCHEMA_QUOTED_SIZE]; /* "" for a file */
	const char *settings;            /* see session_configure() */
	int64_t limit_ms;
	bool is_in_use;   /* the last run() failed because it got no table lock in time */
	char lacked[200]; /* what right the last run() lacked, in Postgres's words; "" */
	int64_t lock_timeout_ms;
};

/* Returns Postgres's words if the role lacked a right, else NULL. */
static const char *lacked_right(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate && strcmp(sqlstate, "42501") == 0 ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
}

/* Returns why the last statement failed. result: its answer, or NULL. */
static const char *explain(const struct session *s, const PGresult *result, char *why, size_t size)
{
	const char *lacked = lacked_right(result);

	if (!s->file && !lacked && !is_cut)
		return error_text_copy(s->conn, result ? PQresultErrorMessage(result) : PQerrorMessage(s->conn), why,
				       size);
	if (lacked)
		snprintf(why, size, "%s; use a role that has this right (sql/roles.sql makes them)", lacked);
	else
		snprintf(why, size, "%s", s->file ? sqlite_file_why(s->file) : "it does not answer");
	return why;
}

static int fail(const struct session *s, const char *what, const PGresult *result)
{
	char why[1000];

	dispatch_fail("%s: %s", what, explain(s, result, why, sizeof(why)));
	return -1;
}

static void on_notice(void *arg, const char *message)
{
	(void)arg;
	log_debug("postgres notice", "text=%s", message);
}

/* --- statements --- */

/* Returns the milliseconds until the deadline, but never less than the spare time; 0 without a deadline. */
static int64_t left_ms(void)
{
	int64_t left = deadline_ms - clock_ms(CLOCK_MONOTONIC), spare = is_reading ? READ_SPARE_MS : SPARE_MS;

	return !deadline_ms ? 0 : left > spare ? left : spare;
}

/* PQgetResult with a deadline: if the server does not cancel the statement in time, closes the connection. */
static PGresult *take_result(PGconn *c)
{
	struct pollfd fd = {PQsocket(c), POLLIN, 0};

	PQflush(c);
	while (deadline_ms && PQisBusy(c)) {
		if (poll(&fd, 1, (int)left_ms() + CANCEL_MS) == 0)
			is_cut = !shutdown(fd.fd, SHUT_RDWR);
		if (!PQconsumeInput(c))
			break;
	}
	return PQgetResult(c);
}

static bool is_fine(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* Returns the result of a pipeline's last statement, or of the first that failed; NULL if the connection broke. After
 * session_each_row(), libpq 15 also returns the first statement's rows one by one. */
static PGresult *end_pipeline(PGconn *conn)
{
	PGresult *kept = NULL, *result;

	for (bool is_end = false; !is_end; PQclear(result)) {
		result = take_result(conn);
		is_end = result ? PQresultStatus(result) == PGRES_PIPELINE_SYNC
				: PQtransactionStatus(conn) != PQTRANS_ACTIVE; /* also after a failed write */
		if (result && !is_end && PQresultStatus(result) != PGRES_SINGLE_TUPLE && (!kept || is_fine(kept))) {
			PQclear(kept);
			kept = result;
			result = NULL;
		}
	}
	PQexitPipelineMode(conn);
	return kept;
}

/* Replaces the role's statement_timeout, but only for this transaction: behind a pooler, other clients use the same
 * session. An open transaction has its own timeouts. */
static PGresult *ask(struct session *s, const char *text, int n, const char *const *values)
{
	char limit_ms[24];
	const char *const limit[] = {limit_ms};
	PGconn *c = s->conn;

	snprintf(limit_ms, sizeof(limit_ms), "%lld", (long long)(deadline_ms ? left_ms() : s->limit_ms));
	if (PQtransactionStatus(c) != PQTRANS_IDLE)
		return PQexecParams(c, text, n, NULL, values, NULL, NULL, 0);
	if (!PQenterPipelineMode(c) || !PQsendQueryParams(c, s->settings, 1, NULL, limit, NULL, NULL, 0) ||
	    !PQsendQueryParams(c, text, n, NULL, values, NULL, NULL, 0) || !PQpipelineSync(c))
		return NULL;
	return end_pipeline(c);
}

/* --- the schema --- */

static PGresult *execute(struct session *s, const char *sql)
{
	AUTO_FREE char *text = schema_expand(sql, s->schema);

	return PQexec(s->conn, text);
}

/* Runs statements. *version gets the first value of the last one; -1 if it has none. Returns 0 or -1. */
static int run(struct session *s, const char *sql, int *version)
{
	AUTO_ROWS *result = execute(s, sql);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE), *lacked = lacked_right(result);

	snprintf(s->lacked, sizeof(s->lacked), "%s", lacked ? lacked : "");
	s->is_in_use = sqlstate && strcmp(sqlstate, "55P03") == 0;
	*version = PQresultStatus(result) == PGRES_TUPLES_OK ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : -1;
	return is_fine(result) ? 0 : -1;
}

static int try_upgrade(struct session *s)
{
	int version;
	bool is_locked = !run(s, "BEGIN; SET LOCAL jit = off; SET LOCAL statement_timeout = 0", &version) &&
			 !run(s, schema_lock_sql(), &version);
	AUTO_FREE char *sql = is_locked ? schema_upgrade_sql(version) : NULL;

	return sql ? run(s, sql, &version) : -1;
}

/* A table that somebody reads (pg_dump) cannot be altered, so this tries again until the lock is free. */
static int upgrade(struct session *s)
{
	int64_t end = s->lock_timeout_ms;
	int failed = try_upgrade(s), ignored;

	for (int64_t waited = 0; failed && s->is_in_use && waited < end; waited += UPGRADE_AGAIN_MS) {
		if (run(s, "ROLLBACK", &ignored))
			break;
		uv_sleep(UPGRADE_AGAIN_MS);
		failed = try_upgrade(s);
	}
	if (failed && *s->lacked)
		return dispatch_fail("cannot bring the schema up to date: %s; run wsonce migrate as the role that owns "
				     "the tables",
				     s->lacked);
	return failed ? fail(s, "cannot bring the schema up to date", NULL) : 0;
}

/* Checks that the database can be used. *is_ours: it has our tables. Does not check the role's rights on them. */
static int inspect(struct session *s, bool *is_ours)
{
	AUTO_ROWS *seen = session_query(s, schema_inspect_sql(), NULL, "s", "{}");

	if (!seen)
		return -1;
	if (!session_is_null(seen, 0, SCHEMA_FAULT))
		return dispatch_fail("%s", session_text(seen, 0, SCHEMA_FAULT));
	if (!session_is_null(seen, 0, SCHEMA_HIDDEN))
		dispatch_fail("%s", session_text(seen, 0, SCHEMA_HIDDEN)); /* what it counts may be too few */
	*is_ours = session_flag(seen, 0, SCHEMA_IS_OURS);
	snprintf(s->schema, sizeof(s->schema), "%s", session_text(seen, 0, SCHEMA_NAME));
	return *s->schema ? 0 : dispatch_fail("no schema of the search_path exists for this role");
}

static int ask_version(struct session *s, int *version)
{
	AUTO_ROWS *rows = session_query(s, schema_ask_sql(), NULL, "");

	if (rows)
		*version = (int)session_number(rows, 0, 0);
	return rows ? 0 : -1;
}

static int prepare(struct session *s, enum session_aim aim)
{
	bool is_ours = false;
	int version = 0;

	if (inspect(s, &is_ours))
		return -1;
	if (!is_ours && aim == SESSION_LOOK)
		return 0;
	if (!is_ours && aim != SESSION_CREATE)
		return dispatch_fail(
			"database %s has no tables of wsonce: check --postgres, or create them with wsonce migrate",
			PQdb(s->conn));
	if (is_ours && ask_version(s, &version))
		return -1;
	if (version > schema_version())
		return dispatch_fail("the database has schema version %d and this program knows %d: use a newer wsonce",
				     version, schema_version());
	return version < schema_version() && aim >= SESSION_UPGRADE ? upgrade(s) : 0;
}

/* --- life --- */

/* A host of conninfo. */
struct lookup {
	struct resolve *resolve; /* NULL: done, or none is needed */
	char *addresses;         /* as resolve_cb has them, or NULL */
	bool is_usable;
};

static void on_looked_up(void *arg, const char *addresses, const char *error)
{
	struct lookup *l = arg;

	(void)error;
	l->resolve = NULL;
	l->is_usable = addresses;
	l->addresses = addresses ? memory_strdup(addresses) : NULL;
}

static void on_half(uv_timer_t *timer)
{
	(void)timer;
}

static bool is_any(const struct lookup *all, size_t count, bool is_usable)
{
	for (size_t i = 0; i < count; i++)
		if (is_usable ? all[i].is_usable : all[i].resolve != NULL)
			return true;
	return false;
}

/* Looks up all names at once. Of several, one whose name server does not answer gets half of the time. */
static void look_up(struct hosts *hosts, struct lookup *all, int64_t ms)
{
	int64_t began_ms = clock_ms(CLOCK_MONOTONIC);
	uv_loop_t loop;
	uv_timer_t timer;

	uv_loop_init(&loop);
	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, on_half, (uint64_t)ms / 2, (uint64_t)ms / 2);
	for (hosts->at = 0; hosts->at < hosts->count; hosts->at++) {
		AUTO_FREE char *host = hosts_to_look_up(hosts);
		struct lookup *l = &all[hosts->at];

		l->resolve = host ? resolve_start(&loop, host, 0, on_looked_up, l) : NULL;
		l->is_usable = !l->resolve;
	}
	while (is_any(all, hosts->count, false) &&
	       clock_ms(CLOCK_MONOTONIC) - began_ms < (is_any(all, hosts->count, true) ? ms / 2 : ms))
		uv_run(&loop, UV_RUN_ONCE);
	for (size_t i = 0; i < hosts->count; i++)
		if (all[i].resolve)
			resolve_cancel(all[i].resolve);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
}

/* Looks up the names in conninfo before a connection that has a deadline: libpq would wait for a name server as long
 * as it takes. found gets the hosts whose addresses are known; it stays empty if libpq needs no help. Returns false if
 * the name server does not answer for any of them. */
static bool find_hosts(const char *conninfo, struct hosts *found)
{
	struct hosts hosts = {0};
	struct lookup *all;
	bool is_late;

	hosts_learn(&hosts, conninfo);
	all = memory_calloc(hosts.count, sizeof(*all));
	look_up(&hosts, all, left_ms());
	is_late = is_any(all, hosts.count, false) && !is_any(all, hosts.count, true);
	for (hosts.at = 0; hosts.at < hosts.count; hosts.at++)
		if (all[hosts.at].is_usable && hosts.host && !hosts.hostaddr)
			hosts_append(found, &hosts, all[hosts.at].addresses);
	for (size_t i = 0; i < hosts.count; i++)
		free(all[i].addresses);
	free(all);
	hosts_free(&hosts);
	return !is_late;
}

static struct session *connect_to(const struct config *config, enum session_aim aim)
{
	char seconds[24];
	const char *const names[] = {"connect_timeout",
				     "fallback_application_name",
				     "dbname",
				     "client_encoding",
				     "host",
				     "hostaddr",
				     "port",
				     NULL};
	struct hosts found = {0};
	struct session *s;
	int64_t timeout_ms = config->postgres_timeout_ms;

	if (left_ms() && !find_hosts(config->postgres, &found)) {
		dispatch_fail("cannot reach postgres: the name server does not answer");
		return NULL;
	}
	s = memory_calloc(1, sizeof(*s));
	session_configure(s, SESSION_SETTINGS, 0);
	s->lock_timeout_ms = timeout_ms;
	if (left_ms() && left_ms() < timeout_ms)
		timeout_ms = left_ms();
	snprintf(seconds, sizeof(seconds), "%lld", (long long)(timeout_ms + 1999) / 1000);
	const char *const values[] = {seconds,    "wsonce",       config->postgres, "UTF8",
				      found.host, found.hostaddr, found.port,       NULL};
	s->conn = memory_given(PQconnectdbParams(names, values, 1), "libpq");
	hosts_free(&found);
	if (PQstatus(s->conn) != CONNECTION_OK) {
		fail(s, "cannot reach postgres", NULL);
		session_close(s);
		return NULL;
	}
	PQsetNoticeProcessor(s->conn, on_notice, NULL);
	if (prepare(s, aim) == 0)
		return s;
	session_close(s);
	return NULL;
}

static struct session *open_file(const char *path, bool may_create)
{
	char why[SQLITE_FILE_WHY];
	struct sqlite_file *file = session_file_open(path, may_create, deadline_ms, why);
	struct session *s = file ? memory_calloc(1, sizeof(*s)) : NULL;

	if (s)
		s->file = file;
	else if (!may_create && access(path, F_OK) && errno == ENOENT)
		dispatch_fail("sqlite: there is no file %s: check --store; the first listener creates it", path);
	else
		dispatch_fail("sqlite: %s", why);
	return s;
}

void session_limit(int64_t ms, bool is_to_read)
{
	deadline_ms = clock_ms(CLOCK_MONOTONIC) + ms;
	is_reading = is_to_read;
	is_cut = false;
}

bool session_is_late(void)
{
	return deadline_ms && clock_ms(CLOCK_MONOTONIC) >= deadline_ms;
}

struct session *session_open(const struct config *config, enum session_aim aim)
{
	const char *path = config_store_path(config);

	if (is_reading && aim == SESSION_UPGRADE)
		aim = SESSION_READ;
	return path ? open_file(path, aim == SESSION_CREATE) : connect_to(config, aim);
}

void session_configure(struct session *s, const char *settings, int64_t limit_ms)
{
	s->settings = settings;
	s->limit_ms = limit_ms;
}

bool session_is_file(const struct session *s)
{
	return s->file;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	sqlite_file_close(s->file);
	PQfinish(s->conn);
	free(s);
}

/* --- questions --- */

struct pg_result *session_try(struct session *s, const char *sql, int n, const char *const *values, char *why,
			      size_t size)
{
	AUTO_FREE char *text = schema_expand(sql, s->schema);
	struct pg_result *rows =
		s->file ? session_file_ask(s->file, text, n, values, deadline_ms) : ask(s, text, n, values);

	*why = '\0';
	if (s->file ? rows != NULL : is_fine(rows))
		return rows;
	explain(s, rows, why, size);
	PQclear(rows);
	return NULL;
}

static struct pg_result *query(struct session *s, const char *sql, const char *sqlite, int n, const char *const *values)
{
	char why[1000];
	struct pg_result *rows;

	if (s->file && !sqlite) {
		dispatch_fail("this needs Postgres: it does not work with --store sqlite://");
		return NULL;
	}
	rows = session_try(s, s->file ? sqlite : sql, n, values, why, sizeof(why));
	if (!rows)
		dispatch_fail("%s: %s", s->file ? "sqlite" : "postgres", why);
	return rows;
}

struct pg_result *session_query(struct session *s, const char *sql, const char *sqlite, const char *types, ...)
{
	char numbers[VALUES_MAX][24];
	const char *values[VALUES_MAX];
	int n = 0;
	va_list ap;

	va_start(ap, types);
	for (; types[n]; n++) {
		assert(n < VALUES_MAX);
		if (types[n] == 'n')
			snprintf(numbers[n], sizeof(numbers[n]), "%" PRId64, va_arg(ap, int64_t));
		values[n] = types[n] == 'n' ? numbers[n] : va_arg(ap, const char *);
	}
	va_end(ap);
	return query(s, sql, sqlite, n, values);
}

void session_each_part(struct session *s, const char *text, const char *head, int n, const char *const *values,
		       void (*take)(void *arg, const char *name, const struct pg_result *rows, const char *why),
		       void *arg)
{
	session_configure(s, SESSION_SETTINGS ", pg_catalog.set_config('lock_timeout', '1s', true)", s->limit_ms);
	for (const char *at = strstr(text, head), *next; at; at = next) {
		AUTO_FREE char *name = memory_strdup(at + strlen(head));
		AUTO_ROWS *rows = NULL;
		char *sql = name + strcspn(name, "\n"), why[600];

		next = strstr(at + 1, head);
		if (next)
			name[next - at - (ptrdiff_t)strlen(head)] = '\0';
		*sql = '\0';
		rows = session_try(s, sql + 1, n, values, why, sizeof(why));
		take(arg, name, rows, why);
	}
	session_configure(s, SESSION_SETTINGS, s->limit_ms);
}

static int each_row(struct session *s, const char *text, int n, const char *const *values, session_row_fn *take,
		    void *arg)
{
	bool is_sent = !PQgetResult(s->conn) /* the end of the last pipeline */ &&
		       PQsendQueryParams(s->conn, text, n, NULL, values, NULL, NULL, 0) && PQsetSingleRowMode(s->conn);
	int failed = is_sent ? 0 : fail(s, "postgres", NULL);
	PGresult *row;

	while ((row = PQgetResult(s->conn))) {
		const char *cells[VALUES_MAX];
		bool is_row = PQresultStatus(row) == PGRES_SINGLE_TUPLE;

		for (int i = 0; is_row && i < PQnfields(row); i++)
			cells[i] = PQgetisnull(row, 0, i) ? NULL : PQgetvalue(row, 0, i);
		if (is_row)
			take(arg, cells, PQnfields(row));
		else if (!failed && !is_fine(row))
			failed = fail(s, "postgres", row);
		PQclear(row);
	}
	return failed;
}

int session_each_row(struct session *s, const char *sql, const char *sqlite, int n, const char *const *values,
		     session_row_fn *take, void *arg)
{
	AUTO_FREE char *text = s->file ? NULL : schema_expand(sql, s->schema);
	int failed = s->file ? session_file_each(s->file, sqlite, n, values, take, arg)
			     : each_row(s, text, n, values, take, arg);

	return s->file && failed ? fail(s, "sqlite", NULL) : failed;
}

int session_run_alone(struct session *s, const char *sql)
{
	AUTO_ROWS *result = s->file ? NULL : execute(s, sql);

	if (s->file)
		return session_run(s, NULL, sql, "");
	return is_fine(result) ? 0 : fail(s, "postgres", result);
}

void session_drop(struct pg_result *rows)
{
	PQclear(rows);
}

size_t session_count(const struct pg_result *rows)
{
	return (size_t)PQntuples(rows);
}

bool session_is_null(const struct pg_result *rows, size_t row, int column)
{
	return PQgetisnull(rows, (int)row, column);
}

const char *session_text(const struct pg_result *rows, size_t row, int column)
{
	return PQgetvalue(rows, (int)row, column);
}

int64_t session_number(const struct pg_result *rows, size_t row, int column)
{
	return strtoll(session_text(rows, row, column), NULL, 10);
}

bool session_flag(const struct pg_result *rows, size_t row, int column)
{
	return session_text(rows, row, column)[0] == 't';
}

char *session_bytes(const struct pg_result *rows, size_t row, int column, size_t *len)
{
	unsigned char *bytes =
		memory_given(PQunescapeBytea((const unsigned char *)session_text(rows, row, column), len), "libpq");
	char *copy = memcpy(memory_alloc(*len + 1), bytes, *len);

	copy[*len] = '\0';
	PQfreemem(bytes);
	return copy;
}
