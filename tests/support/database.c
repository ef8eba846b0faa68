/* A database for one test: made, queried, dropped. The server is started elsewhere. */
#include "database.h"
#include "support.h"

#include <libpq-fe.h>

#define CONNECT_MS 10000
#define ANSWER_MS  60000

struct database {
	char *conninfo;
	PGconn *conn; /* NULL before the first query and after a broken connection */
};

struct database *database_open(const char *conninfo)
{
	struct database *db = calloc(1, sizeof *db);

	db->conninfo = strdup(conninfo);
	return db;
}

void database_lay_out(struct database *db)
{
	const char *path = getenv("WSONCE_TEST_LAYOUT_SQL");
	char sql[65536];

	if (!path)
		return;
	FILE *in = fopen(path, "re");
	cr_assert_not_null(in, "no file %s", path);
	sql[fread(sql, 1, sizeof(sql) - 1, in)] = '\0';
	cr_assert(feof(in), "%s is too long", path);
	fclose(in);
	database_exec(db, "%s", sql);
}

const char *database_conninfo(const struct database *db)
{
	return db->conninfo;
}

static void disconnect(struct database *db)
{
	PQfinish(db->conn);
	db->conn = NULL;
}

/* Ignores notices and the last messages of servers that tests stop. */
static void on_notice(void *arg, const char *text)
{
}

static PGconn *dial(const struct database *db)
{
	char timeout_s[16];
	const char *names[] = {"dbname", "connect_timeout", "application_name", NULL};
	const char *values[] = {db->conninfo, timeout_s, "wsonce-test", NULL};

	snprintf(timeout_s, sizeof timeout_s, "%d", (int)(wait_stretch_ms(CONNECT_MS) / 1000));
	PGconn *conn = PQconnectdbParams(names, values, 1);
	PQsetNoticeProcessor(conn, on_notice, NULL);
	return conn;
}

/* Is the connection still open? If the server closed it, its last message has arrived by now, so one read notices a
 * server that was restarted since the last query. */
static bool is_connected(struct database *db)
{
	struct pollfd pfd = {.events = POLLIN};

	if (!db->conn)
		return false;
	pfd.fd = PQsocket(db->conn);
	if (poll(&pfd, 1, 0) > 0)
		PQconsumeInput(db->conn);
	PQfreeNotify(PQnotifies(db->conn));
	return PQstatus(db->conn) == CONNECTION_OK && !(pfd.revents & (POLLHUP | POLLERR));
}

static void ensure_connected(struct database *db)
{
	int64_t end = wait_end_ms(CONNECT_MS);

	while (!is_connected(db)) {
		disconnect(db);
		db->conn = dial(db);
		if (PQstatus(db->conn) == CONNECTION_OK)
			break;
		if (wait_now_ms() > end)
			cr_assert_fail("cannot connect to Postgres: %s", PQerrorMessage(db->conn));
		wait_pause_ms(20);
	}
}

/* Reads until the answer is complete. False if the connection broke. */
static bool is_answered(struct database *db, const char *sql)
{
	int64_t end = wait_end_ms(ANSWER_MS);

	while (PQisBusy(db->conn)) {
		struct pollfd pfd = {.fd = PQsocket(db->conn), .events = POLLIN};

		if (poll(&pfd, 1, wait_left_ms(end)) == 0)
			cr_assert_fail("Postgres did not answer within %d s: %s", ANSWER_MS / 1000, sql);
		if (!PQconsumeInput(db->conn))
			return false;
	}
	return true;
}

/* Sends sql and waits for its last result. NULL if the connection broke. */
static PGresult *ask(struct database *db, const char *sql)
{
	PGresult *last = NULL, *result;

	if (!PQsendQuery(db->conn, sql))
		return NULL;
	while (is_answered(db, sql) && (result = PQgetResult(db->conn))) {
		PQclear(last);
		last = result;
		if (PQresultStatus(result) == PGRES_FATAL_ERROR && PQstatus(db->conn) == CONNECTION_OK)
			break;
	}
	if (PQstatus(db->conn) == CONNECTION_OK)
		return last;
	PQclear(last);
	return NULL;
}

static bool has_failed(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

/* Does this result mean that the server is shutting down and will close the connection? */
static bool is_leaving(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state && strncmp(state, "57P0", 4) == 0;
}

/* Runs sql, again after a broken connection if may_repeat. The result is good; the caller clears it. */
static PGresult *run(struct database *db, const char *sql, bool may_repeat)
{
	for (;;) {
		ensure_connected(db);
		PGresult *result = ask(db, sql);

		if (result && !has_failed(result))
			return result;
		if (result && !is_leaving(result))
			cr_assert_fail("%sin: %s", PQresultErrorMessage(result), sql);
		if (!may_repeat)
			cr_assert_fail("the connection to Postgres broke: %sin: %s", PQerrorMessage(db->conn), sql);
		PQclear(result);
		disconnect(db);
	}
}

/* Runs after the test, so it must not fail it. Listeners may still be running, and on a busy server DROP DATABASE may
 * give up on their sessions after five seconds. The database then goes away with its server. */
static void drop(void *name)
{
	PGconn *conn = dial(database_open(suite_env("WSONCE_TEST_POSTGRES")));
	PGresult *result = PQexec(conn, suite_text("drop database if exists \"%s\" with (force)", (const char *)name));

	if (has_failed(result))
		fprintf(stderr, "database %s stays: %s", (const char *)name, PQerrorMessage(conn));
	PQclear(result);
	PQfinish(conn);
}

static struct database *new_of(const char *template)
{
	const char *server = suite_env("WSONCE_TEST_POSTGRES");
	struct database *admin = database_open(server);
	/* mkdtemp made the directory's last six letters unique for this run */
	char *name = suite_text("%s_%d", strrchr(suite_directory(), '/') + 1, suite_number());

	database_exec(admin, "create database \"%s\" template %s strategy file_copy", name, template);
	database_free(admin);
	suite_at_end(drop, name);
	return database_open(suite_text("%s dbname=%s", server, name));
}

/* Makes new tables: a copied database would have the same id. */
struct database *database_new(void)
{
	struct database *db = new_of("tables");

	database_exec(db, "UPDATE wsonce_database SET id = gen_random_uuid()");
	return db;
}

struct database *database_empty_new(void)
{
	return new_of("template0");
}

/* The one value of a result, or NULL for an SQL NULL. Takes the result. */
static char *only_value(PGresult *result, const char *sql)
{
	char *text = NULL;

	if (PQntuples(result) != 1 || PQnfields(result) != 1)
		cr_assert_fail("%d rows of %d columns instead of one value from: %s", PQntuples(result),
			       PQnfields(result), sql);
	if (!PQgetisnull(result, 0, 0))
		text = strdup(PQgetvalue(result, 0, 0));
	PQclear(result);
	return text;
}

char *database_sql(const char *sql)
{
	char *text = strdup(sql);

	for (char *at = text; (at = strstr(at, ":schema."));)
		memmove(at, at + strlen(":schema."), strlen(at + strlen(":schema.")) + 1);
	return text;
}

long database_long(struct database *db, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *sql = suite_vtext(fmt, args), *end;
	va_end(args);
	char *text = only_value(run(db, sql, true), sql);
	if (!text)
		cr_assert_fail("NULL instead of a number from: %s", sql);
	long value = strtol(text, &end, 10);
	if (strcmp(text, "t") == 0 || strcmp(text, "f") == 0)
		value = *text == 't';
	else if (end == text || *end)
		cr_assert_fail("'%s' instead of a number from: %s", text, sql);
	return value;
}

char *database_text(struct database *db, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *sql = suite_vtext(fmt, args);
	va_end(args);
	return only_value(run(db, sql, true), sql);
}

void database_exec(struct database *db, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *sql = suite_vtext(fmt, args);
	va_end(args);
	PQclear(run(db, sql, false));
}

void database_drop_key(struct database *db)
{
	char *name =
		database_text(db, "SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = 'events'::regclass "
				  "AND pg_get_constraintdef(oid) IN ('UNIQUE (event_id)', 'PRIMARY KEY (event_id)')");

	database_exec(db, "ALTER TABLE events DROP CONSTRAINT %s", name);
}

void database_stop_autovacuum(struct database *db, const char *table)
{
	database_exec(
		db,
		"DO $$ DECLARE t regclass; BEGIN "
		"FOR t IN SELECT relid FROM pg_partition_tree('%s') WHERE isleaf LOOP EXECUTE 'ALTER TABLE ' || t || "
		"' SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)'; END LOOP; END $$",
		table);
}

void database_slow_down(struct database *db, int row_ms)
{
	/* First the table, then its partitions, as inserts do. */
	database_exec(db, "LOCK TABLE events; DROP TRIGGER IF EXISTS slow_down ON events");
	if (!row_ms)
		return;
	database_exec(db,
		      "CREATE OR REPLACE FUNCTION slow_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
		      "PERFORM pg_sleep(%d / 1000.0); RETURN NEW; END $$",
		      row_ms);
	database_exec(db, "LOCK TABLE events; CREATE TRIGGER slow_down BEFORE INSERT OR UPDATE ON events FOR EACH ROW "
			  "EXECUTE FUNCTION slow_down()");
}

long database_terminate_backends(struct database *db)
{
	return database_long(db, "select count(pg_terminate_backend(pid)) from pg_stat_activity "
				 "where datname = current_database() and pid <> pg_backend_pid()");
}

void database_free(struct database *db)
{
	if (db)
		disconnect(db);
}
