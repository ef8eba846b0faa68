/* real.c is the real side: the server that tests/support/run has started, in a database of its own. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "postgres/schema.h"
#include "side.h"

static char conninfo[400];
static PGconn *admin;  /* asks */
static PGconn *holder; /* has locks */

static void fail(PGconn *conn, const char *sql)
{
	printf("%sin: %s\n", PQerrorMessage(conn), sql);
	fflush(stdout);
	exit(1);
}

static PGresult *ask(PGconn *conn, const char *sql)
{
	PGresult *r = PQexec(conn, sql);

	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
		fail(conn, sql);
	return r;
}

static void run(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void run(PGconn *conn, const char *format, ...)
{
	char sql[2000];
	va_list ap;

	va_start(ap, format);
	vsnprintf(sql, sizeof(sql), format, ap);
	va_end(ap);
	PQclear(ask(conn, sql));
}

static void ignore(void *arg, const char *message)
{
	(void)arg, (void)message;
}

static PGconn *dial(void)
{
	PGconn *conn = PQconnectdb(conninfo);

	if (PQstatus(conn) != CONNECTION_OK)
		fail(conn, "connecting");
	PQsetNoticeProcessor(conn, ignore, NULL);
	return conn;
}

static const char functions[] =
	"CREATE TABLE rules (place text, id text, sqlstate text);"
	"CREATE TABLE handled (event_id text);"
	"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r rules; BEGIN\n"
	"SELECT * INTO r FROM rules WHERE place = tg_table_name AND id = NEW.event_id AND "
	"current_setting('application_name') <> 'holder' LIMIT 1;\n"
	"IF r.sqlstate = 'slow' THEN PERFORM pg_sleep(30); RETURN NEW; END IF;\n"
	"IF r.sqlstate IS NOT NULL THEN RAISE EXCEPTION 'refused' USING ERRCODE = r.sqlstate; END IF;\n"
	"IF r.id IS NOT NULL THEN RETURN NULL; END IF; RETURN NEW; END $$;"
	"CREATE FUNCTION deferred() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r rules; BEGIN\n"
	"SELECT * INTO r FROM rules WHERE place = 'commit' LIMIT 1;\n"
	"IF r.sqlstate IS NOT NULL AND current_setting('application_name') <> 'holder' THEN\n"
	"RAISE EXCEPTION 'refused' USING ERRCODE = r.sqlstate; END IF; RETURN NULL; END $$;"
	"CREATE FUNCTION handle(id text, type text, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ DECLARE r "
	"rules; BEGIN\n"
	"SELECT * INTO r FROM rules AS x WHERE place = 'handler' AND x.id = handle.id LIMIT 1;\n"
	"IF r.sqlstate = 'slow' THEN PERFORM pg_sleep(30); RETURN; END IF;\n"
	"IF r.sqlstate IS NOT NULL THEN RAISE EXCEPTION 'refused' USING ERRCODE = r.sqlstate; END IF;\n"
	"INSERT INTO handled VALUES (handle.id); END $$;"
	"CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
	"EXECUTE FUNCTION deferred()";

void side_open(void)
{
	const char *server = getenv("WSONCE_TEST_POSTGRES");
	char *lock = schema_expand(schema_lock_sql(), "public"), *upgrade = schema_upgrade_sql(0), *all;

	if (!server) {
		printf("start it by tests/simulation/differential/run\n");
		exit(2);
	}
	snprintf(conninfo, sizeof(conninfo), "%s dbname=postgres", server);
	admin = dial();
	run(admin, "CREATE DATABASE differential_%d TEMPLATE template0", (int)getpid());
	PQfinish(admin);
	snprintf(conninfo, sizeof(conninfo), "%s dbname=differential_%d", server, (int)getpid());
	admin = dial();
	holder = dial();
	run(holder, "SET application_name = 'holder'");
	run(holder, "SET default_transaction_read_only = off");
	run(admin, "SET default_transaction_read_only = off");
	all = schema_expand(upgrade, "public");
	PQclear(ask(admin, lock));
	PQclear(ask(admin, all));
	PQclear(ask(admin, functions));
	free(lock);
	free(upgrade);
	free(all);
}

PGconn *side_connect(void)
{
	PGconn *conn = dial();

	PQsetnonblocking(conn, 1);
	return conn;
}

void side_turn(PGconn *conn)
{
	struct pollfd p = {.fd = PQsocket(conn), .events = POLLIN};

	PQflush(conn);
	poll(&p, 1, 1);
}

/* A FATAL error that has been read is followed by the end. */
bool side_is_blocked(PGconn *conn)
{
	struct pollfd p = {.fd = PQsocket(conn), .events = POLLIN};
	char sql[200];
	PGresult *r;
	bool is_blocked;

	if (poll(&p, 1, 1) > 0)
		return false;
	snprintf(sql, sizeof(sql), "SELECT FROM pg_locks WHERE pid = %d AND NOT granted", PQbackendPID(conn));
	r = ask(admin, sql);
	is_blocked = PQntuples(r);
	PQclear(r);
	return is_blocked;
}

void side_cancel(PGconn *conn)
{
	run(admin, "SELECT pg_cancel_backend(%d)", PQbackendPID(conn));
}

void side_terminate(PGconn *conn)
{
	run(admin, "SELECT pg_terminate_backend(%d)", PQbackendPID(conn));
}

void side_hold_id(const char *id)
{
	run(holder, "BEGIN");
	run(holder,
	    "INSERT INTO events (event_id, event_type, payload) VALUES ('%s', '', '{\"of\": \"another program\"}') ON "
	    "CONFLICT (event_id) DO NOTHING",
	    id);
}

void side_hold_table(void)
{
	run(holder, "BEGIN");
	run(holder, "LOCK TABLE events");
}

void side_end_hold(bool is_commit)
{
	run(holder, is_commit ? "COMMIT" : "ROLLBACK");
}

void side_set_trigger(const char *where, const char *id, const char *sqlstate)
{
	if (strcmp(where, "events") == 0 || strcmp(where, "dead_letters") == 0)
		run(admin,
		    "CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION refuse()",
		    where);
	run(admin, "DELETE FROM rules WHERE place = '%s' AND id = '%s'", where, id);
	if (sqlstate)
		run(admin, "INSERT INTO rules VALUES ('%s', '%s', '%s')", where, id, sqlstate);
	else
		run(admin, "INSERT INTO rules VALUES ('%s', '%s', NULL)", where, id);
}

void side_clear_triggers(void)
{
	run(admin, "DELETE FROM rules");
}

/* New transactions of those that are connected see it as soon as they have read the signal. */
void side_set_read_only(bool is_on)
{
	run(admin, "ALTER SYSTEM SET default_transaction_read_only = %s", is_on ? "on" : "off");
	run(admin, "SELECT pg_reload_conf()");
	run(admin, "SELECT pg_sleep(0.1)");
}

void side_drop_key(void)
{
	run(admin, "ALTER TABLE events DROP CONSTRAINT events_event_id_key");
}

void side_restore_key(void)
{
	run(admin, "ALTER TABLE events ADD CONSTRAINT events_event_id_key UNIQUE (event_id)");
}

void side_forget_epoch(void)
{
	run(admin, "DELETE FROM wsonce_epoch");
}

const char *side_epoch(void)
{
	static char epoch[12];
	PGresult *r = ask(admin, "SELECT epoch FROM wsonce_epoch WHERE xmin = home");

	snprintf(epoch, sizeof(epoch), "%s", PQntuples(r) ? PQgetvalue(r, 0, 0) : "");
	PQclear(r);
	return epoch;
}

void side_empty(void)
{
	run(admin, "TRUNCATE events, dead_letters, processed_events, outbox, handled, cursors");
}

void side_list(void (*each)(const char *line))
{
	PGresult *r = ask(
		admin,
		"SELECT l FROM (SELECT concat_ws(' ', 'events', event_id, event_type, payload, coalesce(source, "
		"'NULL'), coalesce(instance, 'NULL'), coalesce((extract(epoch FROM event_time - '2000-01-01 00:00Z') * "
		"1000000)::bigint, 0)) FROM events UNION ALL SELECT concat_ws(' ', 'dead_letters', left(encode(digest, "
		"'escape'), 1), coalesce(event_id, 'NULL'), reason, instance_id, consumer, coalesce(sender, 'NULL'), "
		"coalesce(event_type, 'NULL'), coalesce(source, 'NULL'), seen) FROM dead_letters UNION ALL SELECT "
		"concat_ws(' ', 'processed_events', consumer, event_id) FROM processed_events UNION ALL SELECT "
		"concat_ws(' ', 'cursors', source, scope, kind, value, coalesce(variables, 'NULL'), instance_id) FROM "
		"cursors UNION ALL SELECT concat_ws(' ', 'outbox', target, event_id, event_type, state, attempts, "
		"leases) FROM outbox UNION ALL SELECT concat_ws(' ', 'told', coalesce(sum(events), 0), "
		"coalesce(sum(a), 0)) FROM (SELECT events, (SELECT sum(c) FROM unnest(copies) AS u (c)) AS a FROM "
		"wsonce_duplicates) AS d UNION ALL SELECT 'handled ' || event_id FROM handled) AS x (l) ORDER BY l "
		"COLLATE \"C\"");

	for (int i = 0; i < PQntuples(r); i++)
		each(PQgetvalue(r, i, 0));
	PQclear(r);
}
