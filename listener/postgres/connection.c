/* connection.c owns the connection: connecting, the schema, one query at a time, the deadline, and reconnecting.
 * sqlstate.c interprets errors; store_postgres.c and relay.c send queries.
 *
 * At most one watcher and one timer can wake it at any time: each step stops both and starts what the next step
 * needs. */
#include "postgres/connection.h"

#include <assert.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/ending.h"
#include "base/memory.h"
#include "base/resolve.h"
#include "hazards.sql.h"
#include "identify.sql.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/poll.h"
#include "base/fault_point.h"
#include "postgres/cancel.h"
#include "postgres/conninfo.h"
#include "make_epoch.sql.h"
#include "old_copy.sql.h"
#include "postgres/hosts.h"
#include "postgres/schema.h"
#include "reset.sql.h"
#include "postgres/sqlstate.h"
#include "base/counters.h"

#define IDENTIFY     SCHEMA_WITH_HAZARDS(SQL_IDENTIFY)
#define MAKE_EPOCH   SQL_MAKE_EPOCH ";" IDENTIFY
#define TROUBLES_MAX 5
#define VETTED_MS    60000
#define WARN_MS      60000
#define WARNINGS_MAX 4 /* problems logged within WARN_MS */

static const char *const state_names[] = {"down", "connecting", "preparing", "ready", "busy", "closing"};

#define LIMITS_SIZE 640

/* The steps of POSTGRES_PREPARING. */
enum step { STEP_INSPECT, STEP_ASK, STEP_LOCK, STEP_UPGRADE, STEP_IDENTIFY, STEP_EPOCH };

struct postgres {
	uv_loop_t *loop;
	struct postgres_settings settings;
	enum postgres_state state;
	enum step step;
	PGconn *conn;      /* NULL in POSTGRES_DOWN */
	struct poll *poll; /* NULL if the socket is not watched */
	uv_timer_t timer;  /* the next attempt, or the deadline */
	struct hosts hosts;
	size_t failed;    /* failed attempts since it was last READY */
	int64_t ready_ms; /* loop clock, when it became READY */
	struct backoff backoff;
	PGresult *last;                        /* result of the current query */
	struct slice piece;                    /* rest of the current piece of a COPY, owned by the caller */
	struct slice (*next_piece)(void *arg); /* NULL without a COPY, or when libpq has all its data */
	void *piece_arg;
	size_t copied;           /* rows of the current COPY that the server has stored */
	const char *first;       /* statement to send before the next one, or NULL */
	int64_t lock_timeout_ms; /* lock_timeout of the next statements; 0: the usual one */
	int64_t lock_ms;         /* the role's limits, 0 if it has none */
	int64_t statement_ms;
	bool is_copy;         /* the current query is a COPY */
	bool is_copying;      /* the server is taking its rows */
	bool has_rows;        /* the current query was executed and may have committed */
	bool is_by_key;       /* the next statement finds rows by their keys */
	bool is_unreplicated; /* the wait for a synchronous standby was cancelled, so the commit may still be lost */
	bool is_next_wanted;  /* try another host next: this one cannot serve us */
	bool was_ready;       /* has been READY before */
	bool is_upgraded;     /* this connection has migrated the schema */
	char error[400];      /* error of the last attempt to connect */
	char last_words[400]; /* why the server ends this connection, as it said itself; empty if it has not */
	char warned[400];     /* the last problem */
	int64_t warned_ms;    /* loop clock: start of the minute that warnings counts in */
	int warnings;         /* problems logged in that minute */
	char schema[SCHEMA_QUOTED_SIZE]; /* the schema of our tables */
	int troubles;                    /* POSTGRES_TROUBLE in a row */
	int64_t vetted_ms[DOUBTS];       /* loop clock, when each last led to an inspection; 0: never */
	char *checks;                    /* the last inspection's SCHEMA_CHECKS; heap */
	char *unfilled;                  /* its SCHEMA_UNFILLED; heap */
	struct log_spell losses;         /* logs losses of the connection */
	bool is_loss_told;               /* the last loss was logged, so log the next connection, too */
	struct resolve *resolve;         /* looks up the host; else NULL */
	struct postgres_identity identity;
	struct ending ending;
};

static void connect_now(struct postgres *p);
static void on_readable(struct postgres *p);

static struct log_spell failures; /* of second connections, which all fail together */

static void set_state(struct postgres *p, enum postgres_state state)
{
	enum postgres_state old = p->state;
	bool was_up = old == POSTGRES_READY || old == POSTGRES_BUSY;
	bool is_up = state == POSTGRES_READY || state == POSTGRES_BUSY;

	if (old == state)
		return;
	p->state = state;
	if (is_up && p->settings.is_second)
		log_spell_off(&failures, (int64_t)uv_now(p->loop), NULL);
	if (was_up && is_up) {
		log_spell_off(&p->losses, (int64_t)uv_now(p->loop),
			      p->losses.times > 1 ? "postgres connection is stable again" : NULL);
		return;
	}
	if (was_up && state == POSTGRES_DOWN)
		p->is_loss_told = !p->settings.is_second && log_spell_on(&p->losses, (int64_t)uv_now(p->loop),
									 "postgres connection is lost", p->error);
	log_write(is_up && !p->settings.is_second && (p->is_loss_told || !p->losses.times) ? LOG_INFO : LOG_DEBUG,
		  "postgres connection", "from=%s to=%s", state_names[old], state_names[state]);
	p->settings.on_state(p->settings.owner, state);
}

static void set_error(struct postgres *p, const char *text)
{
	error_text_copy(p->conn, *p->last_words ? p->last_words : text, p->error, sizeof(p->error));
}

/* --- watching the socket --- */

static void unwatch(struct postgres *p)
{
	poll_close(p->poll);
	p->poll = NULL;
}

static void on_connect_step(struct postgres *p);

/* On a socket error libpq finds out the cause itself, so status is ignored. */
static void on_socket(void *arg, int fd, int status, int events)
{
	struct postgres *p = arg;

	(void)fd, (void)status, (void)events;
	if (p->state == POSTGRES_CONNECTING)
		on_connect_step(p);
	else
		on_readable(p);
}

/* libpq's socket may change at every step of connecting, so make a new handle unless it is known to be the same. */
static int watch(struct postgres *p, int events, bool is_same_socket)
{
	if (!p->poll || !is_same_socket) {
		unwatch(p);
		p->poll = poll_open(p->loop, PQsocket(p->conn), on_socket, p);
	}
	return p->poll ? poll_for(p->poll, events) : -1;
}

/* --- going down --- */

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static void disconnect(struct postgres *p)
{
	uv_timer_stop(&p->timer);
	unwatch(p);
	if (p->resolve)
		resolve_cancel(p->resolve);
	p->resolve = NULL;
	PQclear(p->last);
	p->last = NULL;
	p->next_piece = NULL;
	p->is_copying = false;
	p->last_words[0] = '\0';
	PQfinish(p->conn);
	p->conn = NULL;
}

/* Logs a lasting problem once a minute and a new one at once. With several hosts the problem of each may differ, so
 * WARNINGS_MAX limits the lines. */
static void warn(struct postgres *p)
{
	int64_t now = (int64_t)uv_now(p->loop);
	bool is_new = strcmp(p->warned, p->error) != 0;

	if (p->settings.is_second) {
		log_spell_on(&failures, now, "cannot use postgres, will retry", p->error);
		return;
	}
	if (!p->warned_ms || now - p->warned_ms >= WARN_MS) {
		p->warned_ms = now;
		p->warnings = 0;
	}
	is_new = !p->warnings || (is_new && p->warnings < WARNINGS_MAX);
	p->warnings += is_new;
	log_write(is_new ? LOG_WARN : LOG_DEBUG, "cannot use postgres, will retry", "failures=%zu reason=%s",
		  p->failed + 1, p->error);
	memcpy(p->warned, p->error, sizeof(p->warned));
}

/* Tries the next host at once, or waits if all have failed. Only a connection that outlived the longest wait resets the
 * backoff, since one to a read-only server opens and ends at once. */
static void try_again(struct postgres *p, bool was_up)
{
	int64_t wait = 0;

	if (was_up && (int64_t)uv_now(p->loop) - p->ready_ms > p->backoff.cap_ms)
		backoff_reset(&p->backoff);
	if (!was_up || p->is_next_wanted)
		p->hosts.at = p->hosts.count ? (p->hosts.at + 1) % p->hosts.count : 0;
	p->is_next_wanted = false;
	p->failed++;
	if (!p->hosts.count || p->failed % p->hosts.count == 0)
		wait = backoff_next(&p->backoff, backoff_draw());
	uv_timer_start(&p->timer, on_retry, (uint64_t)wait, 0);
}

static void hang_up(struct postgres *p, const char *why)
{
	bool was_up = p->state == POSTGRES_READY || p->state == POSTGRES_BUSY;

	set_error(p, why);
	disconnect(p);
	set_state(p, POSTGRES_DOWN);
	if (!was_up)
		warn(p);
	try_again(p, was_up);
}

/* Drops the connection. answer, with the error, goes to the current query, if there is one. */
static void lose_with(struct postgres *p, const char *why, struct postgres_answer answer)
{
	bool was_busy = p->state == POSTGRES_BUSY;

	answer.error = p->error;
	hang_up(p, why);
	if (was_busy)
		p->settings.on_answer(p->settings.owner, &answer);
}

static void lose(struct postgres *p, const char *why)
{
	lose_with(p, why, (struct postgres_answer){.result = POSTGRES_UNKNOWN});
}

static void on_deadline(uv_timer_t *timer)
{
	struct postgres *p = timer->data;
	char why[200];

	if (p->resolve) {
		AUTO_FREE char *host = hosts_pick(&p->hosts, p->hosts.host);

		snprintf(why, sizeof(why), "the name server did not answer for %.100s within the postgres timeout",
			 host);
		lose(p, why);
		return;
	}
	if (p->state == POSTGRES_CONNECTING) {
		p->hosts.mute[p->hosts.at % HOSTS_MUTE]++;
		snprintf(why, sizeof(why), "no connection to %.100s within the postgres timeout", PQhost(p->conn));
		lose(p, why);
		return;
	}
	unwatch(p);
	postgres_cancel(p->conn);
	p->conn = NULL;
	lose_with(p, "no answer within the postgres timeout",
		  (struct postgres_answer){.result = POSTGRES_UNKNOWN, .is_late = true});
}

static void start_deadline(struct postgres *p)
{
	uv_timer_start(&p->timer, on_deadline, (uint64_t)p->settings.timeout_ms, 0);
}

static bool is_fatal(const PGresult *result)
{
	const char *plain = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *severity = plain ? plain : PQresultErrorField(result, PG_DIAG_SEVERITY);

	return severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

/* True if this server will not work soon, but another one behind the same name may. An error that a function raised may
 * be that of a server which the function asks. */
static bool wants_reconnect(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (sqlstate_is_local(PQresultErrorField(result, PG_DIAG_CONTEXT)) && !is_fatal(result))
		return false;
	return sqlstate_is_class(sqlstate, "5708") ? strcmp(sqlstate, "57014") != 0 : strcmp(sqlstate, "25006") == 0;
}

/* True if the error's detail is the row, as for a NULL in a column or a failed check. Such a detail differs for each
 * event, so that reasons could not be counted, and would put payloads into the log. */
static bool is_row(const PGresult *result, const char *sqlstate)
{
	return sqlstate && (strcmp(sqlstate, "23502") == 0 ||
			    (strcmp(sqlstate, "23514") == 0 && PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME)));
}

static void describe(const PGresult *result, char *out, size_t size)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *detail = is_row(result, sqlstate) ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

	snprintf(out, size, "%.250s%s%.200s (%s)", message ? message : "no message", detail ? ": " : "",
		 detail ? detail : "", sqlstate ? sqlstate : "no SQLSTATE");
}

/* libpq's own error would only be that the server closed the connection. After a crash (57P02) it is a warning.
 * PgBouncer has no severity but the one that Postgres translates. */
static void keep_last_words(struct postgres *p, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (is_fatal(result) || (sqlstate && strcmp(sqlstate, "57P02") == 0))
		describe(result, p->last_words, sizeof(p->last_words));
}

/* --- answers --- */

/* True if the last inspection found a CHECK constraint of this name and kind: see SCHEMA_CHECKS. */
static bool is_check(const struct postgres *p, char kind, const char *name)
{
	char line[80];

	snprintf(line, sizeof(line), "\n%c%s\n", kind, name ? name : "");
	return strstr(p->checks, line);
}

/* Such an error may come from the event, or from the table since it was changed: a column that nobody fills, a check of
 * the time. Only an inspection can tell, and blaming the table for the first error in a while leads to one. */
static bool is_unvetted(const struct postgres *p, enum sqlstate_doubt doubt, const char *constraint)
{
	return doubt < DOUBTS && !(doubt == DOUBT_CHECK && is_check(p, '+', constraint)) &&
	       (!p->vetted_ms[doubt] || (int64_t)uv_now(p->loop) - p->vetted_ms[doubt] >= VETTED_MS);
}

/* Returns true if an inspection must find out who is to blame. Rows arrive before the commit, so without rows there was
 * no commit. */
static bool judge(struct postgres *p, const PGresult *result, struct postgres_answer *answer)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *context = PQresultErrorField(result, PG_DIAG_CONTEXT);
	const struct sqlstate_violation violation = {sqlstate, PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME),
						     PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL),
						     PQresultErrorField(result, PG_DIAG_COLUMN_NAME),
						     p->identity.is_changed ? "" : p->unfilled};
	enum sqlstate_doubt doubt = sqlstate_doubt(sqlstate, context);
	bool is_doubtful = is_unvetted(p, doubt, violation.constraint);
	bool is_of_table = is_doubtful || sqlstate_is_of_table(&violation, context) ||
			   (doubt == DOUBT_CHECK && is_check(p, '=', violation.constraint));

	if (is_doubtful)
		p->vetted_ms[doubt] = (int64_t)uv_now(p->loop);
	answer->result = is_of_table                      ? POSTGRES_TROUBLE
			 : sqlstate_is_of_row(&violation) ? POSTGRES_BAD_ROW
							  : sqlstate_judge(sqlstate, context);
	answer->blame = is_of_table ? POSTGRES_BLAME_NOBODY : sqlstate_blame(sqlstate, context);
	answer->is_late = sqlstate_is_late(sqlstate);
	answer->is_locked = sqlstate_is_locked(sqlstate);
	answer->is_blocked = sqlstate_is_blocked(context);
	answer->is_local = sqlstate_is_local(context);
	if (answer->result == POSTGRES_TROUBLE && wants_reconnect(result) && p->has_rows)
		answer->result = POSTGRES_UNKNOWN;
	return is_doubtful;
}

/* Returns the name of the first column, or NULL if there is none: then PQfname would print a complaint. */
static const char *first_name(const PGresult *result)
{
	return PQnfields(result) ? PQfname(result, 0) : NULL;
}

static uint32_t read_epoch(const PGresult *result)
{
	return PQgetisnull(result, 0, 0) ? 0 : (uint32_t)strtoul(PQgetvalue(result, 0, 0), NULL, 16);
}

static void read_rows(const struct postgres *p, const PGresult *result, struct postgres_answer *answer)
{
	const char *name = first_name(result);

	answer->has_epoch = name && strcmp(name, "wsonce_epoch") == 0 && PQntuples(result);
	if (answer->has_epoch)
		answer->epoch = read_epoch(result);
	if (p->is_copy)
		answer->rows = p->copied;
	else
		answer->rows = (size_t)PQntuples(result) - answer->has_epoch;
}

/* True if another server answered: a pooler keeps our connection when the server behind it crashes. */
static bool is_elsewhere(const struct postgres *p, const struct postgres_answer *answer)
{
	return answer->has_epoch && answer->epoch != p->identity.epoch;
}

/* Repeated trouble may come from the session: settings that a function changed, or a stale catalogue cache. A wait for
 * a lock has other causes. If the unique key is missing (42P10), reconnect to inspect the table. */
static bool wants_fresh_session(struct postgres *p, const PGresult *result, const struct postgres_answer *answer)
{
	if (answer->result != POSTGRES_TROUBLE)
		return false;
	if (answer->blame != POSTGRES_BLAME_ROW && !answer->is_late)
		p->troubles++;
	return p->troubles >= TROUBLES_MAX || strcmp(PQresultErrorField(result, PG_DIAG_SQLSTATE), "42P10") == 0;
}

static void answer_query(struct postgres *p, const PGresult *result)
{
	char error[512];
	ExecStatusType status = PQresultStatus(result);
	struct postgres_answer answer = {.result = POSTGRES_OK, .data = result};
	bool is_lost;

	p->next_piece = NULL;
	if (p->is_unreplicated) {
		lose(p, "the wait for a synchronous standby was cancelled");
		return;
	}
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		describe(result, error, sizeof(error));
		is_lost = judge(p, result, &answer);
		answer.error = error;
		is_lost |= wants_fresh_session(p, result, &answer);
		if (is_lost || answer.result == POSTGRES_UNKNOWN ||
		    (answer.result == POSTGRES_TROUBLE && wants_reconnect(result))) {
			p->is_next_wanted = !is_lost;
			p->troubles = 0;
			lose_with(p, error, answer);
			return;
		}
	} else {
		p->troubles = 0;
	}
	read_rows(p, result, &answer);
	if (!is_elsewhere(p, &answer))
		set_state(p, POSTGRES_READY);
	p->settings.on_answer(p->settings.owner, &answer);
	if (p->state == POSTGRES_BUSY && is_elsewhere(p, &answer))
		hang_up(p, "another server answers, or one that was restored");
	else if (p->state == POSTGRES_READY && FAULT_POINT("postgres: the connection ends after an answer"))
		hang_up(p, "the connection ended");
}

const char *postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len)
{
	const PGresult *result = answer->data;

	row += answer->has_epoch;
	*len = (size_t)PQgetlength(result, (int)row, column);
	return PQgetvalue(result, (int)row, column);
}

const char *postgres_text(const struct postgres_answer *answer, size_t row, size_t *len)
{
	return postgres_cell(answer, row, 0, len);
}

/* Begins a step. is_sent: libpq has accepted its statement. */
static void begin_step(struct postgres *p, enum step step, int is_sent)
{
	p->step = step;
	uv_timer_start(&p->timer, on_deadline,
		       step == STEP_UPGRADE ? POSTGRES_UPGRADE_MS : (uint64_t)p->settings.timeout_ms, 0);
	if (is_sent)
		watch(p, UV_READABLE | (PQflush(p->conn) == 1 ? UV_WRITABLE : 0), true);
	else
		lose(p, PQerrorMessage(p->conn));
}

static void send_step(struct postgres *p, enum step step, const char *sql)
{
	char *all = memory_printf(SCHEMA_BEFORE_STEP "%s", sql), *text = schema_expand(all, p->schema);

	begin_step(p, step, PQsendQuery(p->conn, text));
	free(text);
	free(all);
}

static int64_t least(int64_t role_ms, int64_t ours_ms)
{
	return role_ms > 0 && role_ms < ours_ms ? role_ms : ours_ms;
}

/* Appends a setting for one transaction to out at n, as a SET command or a call of set_config. SET costs Postgres a
 * third of the call, but a pipeline takes only one statement per message. */
static size_t add_setting(char out[LIMITS_SIZE], size_t n, bool is_command, const char *name, int64_t value)
{
	if (is_command)
		n += (size_t)snprintf(out + n, LIMITS_SIZE - n, "%sSET LOCAL %s = %lld", n ? "; " : "", name,
				      (long long)value);
	else
		n += (size_t)snprintf(out + n, LIMITS_SIZE - n, "%spg_catalog.set_config('%s', '%lld', true)",
				      n ? ", " : "SELECT ", name, (long long)value);
	assert(n < LIMITS_SIZE);
	return n;
}

/* With these off, no plan reads a large table as a whole, whatever its statistics. */
static const char *const by_key[] = {"enable_hashjoin", "enable_mergejoin", "enable_seqscan"};

/* Writes the limits for one transaction, not for the session, which a pooler lends to others. The server must give up
 * before we do, since it names the event at fault. A lock timeout shorter than the statement's tells a wait from a slow
 * statement. The role's own limits stay if they are lower. jit is off: if the role's settings or ours make a plan seem
 * expensive, Postgres would compile it for seconds, during which it cannot be cancelled. A backend whose client is gone
 * ends; but while a COPY waits for rows, Postgres does not check, so TCP has to notice. Its first probe is sent after a
 * third of the timeout instead of two hours; Linux's nine further probes take the rest. */
static const char *print_limits(const struct postgres *p, bool is_copy, char out[LIMITS_SIZE])
{
	int64_t ms = p->settings.timeout_ms, statement_ms = least(p->statement_ms, ms * 9 / 10 + 1);
	int64_t lock_ms = least(p->lock_ms, least(p->lock_timeout_ms, statement_ms * 5 / 6 + 1));
	size_t n = add_setting(out, 0, is_copy, "lock_timeout", lock_ms);

	n = add_setting(out, n, is_copy, "statement_timeout", statement_ms);
	n = add_setting(out, n, is_copy, "jit", 0);
	if (PQserverVersion(p->conn) >= 140000)
		n = add_setting(out, n, is_copy, "client_connection_check_interval", ms / 2 + 1);
	for (size_t i = 0; p->is_by_key && i < sizeof(by_key) / sizeof(*by_key); i++)
		n = add_setting(out, n, is_copy, by_key[i], 0);
	if (is_copy) {
		n = add_setting(out, n, true, "tcp_keepalives_idle", ms / 3000 + 1);
		add_setting(out, n, true, "tcp_keepalives_interval", ms / 18000 + 1);
	}
	return out;
}

static int send_plain(struct postgres *p, const char *sql)
{
	return PQsendQueryParams(p->conn, sql, 0, NULL, NULL, NULL, NULL, 0);
}

/* Sends the inspection, which reads the role's limits, with our own, since it may take longer than those allow. */
static void inspect(struct postgres *p)
{
	char limits[LIMITS_SIZE];

	p->lock_ms = p->statement_ms = 0;
	begin_step(
		p, STEP_INSPECT,
		PQenterPipelineMode(p->conn) && send_plain(p, print_limits(p, false, limits)) &&
			PQsendQueryParams(p->conn, schema_inspect_sql(), 1, NULL, &p->settings.tables, NULL, NULL, 0) &&
			PQpipelineSync(p->conn));
}

/* Call when the schema is up to date. */
static void become_ready(struct postgres *p)
{
	send_step(p, STEP_IDENTIFY, IDENTIFY);
}

static void finish_preparing(struct postgres *p)
{
	p->was_ready = true;
	p->error[0] = '\0';
	p->failed = 0;
	memset(p->hosts.mute, 0, sizeof(p->hosts.mute));
	p->ready_ms = (int64_t)uv_now(p->loop);
	counters.postgres_connects++;
	uv_timer_stop(&p->timer);
	set_state(p, POSTGRES_READY);
}

/* Without an epoch, nothing in Redis about this database can be trusted. */
static void on_identified(struct postgres *p, const PGresult *result)
{
	struct postgres_identity *i = &p->identity;
	uint32_t epoch = read_epoch(result);
	const char *run = PQgetvalue(result, 0, 3);

	if (!epoch && p->step != STEP_EPOCH) {
		send_step(p, STEP_EPOCH, strcmp(run, i->run) < 0 ? SQL_OLD_COPY ";" MAKE_EPOCH : MAKE_EPOCH);
		return;
	}
	if (i->epoch && epoch != i->epoch && p->step == STEP_EPOCH)
		log_warn("the database crashed, failed over, was restored or stopped for minutes: it may lack rows",
			 "since=%s", PQgetvalue(result, 0, 2));
	i->epoch = epoch;
	snprintf(i->database, sizeof(i->database), "%s", PQgetvalue(result, 0, 1));
	snprintf(i->run, sizeof(i->run), "%s", run);
	snprintf(i->hazards, sizeof(i->hazards), "%s", PQgetvalue(result, 0, 4));
	finish_preparing(p);
}

/* A listener that was ready before may hold the only copy of events, so it waits until the database is repaired. */
static void find_fault(struct postgres *p, const char *fault)
{
	if (!p->was_ready)
		p->settings.on_unusable(p->settings.owner, fault, 2);
	memset(p->vetted_ms, 0, sizeof(p->vetted_ms)); /* the doubt was right: the next one may be, too */
	lose(p, fault);
}

static void on_inspected(struct postgres *p, const PGresult *seen)
{
	if (!PQgetisnull(seen, 0, SCHEMA_FAULT)) {
		find_fault(p, PQgetvalue(seen, 0, SCHEMA_FAULT));
		return;
	}
	if (*PQgetvalue(seen, 0, SCHEMA_IS_READ_ONLY) == 't') {
		lose(p, "the server is read-only: a standby, or default_transaction_read_only is on");
		return;
	}
	if (PQgetisnull(seen, 0, SCHEMA_NAME)) {
		lose(p, "no schema of the search_path exists for this role");
		return;
	}
	snprintf(p->schema, sizeof(p->schema), "%s", PQgetvalue(seen, 0, SCHEMA_NAME));
	p->lock_ms = strtoll(PQgetvalue(seen, 0, SCHEMA_LOCK_MS), NULL, 10);
	p->statement_ms = strtoll(PQgetvalue(seen, 0, SCHEMA_STATEMENT_MS), NULL, 10);
	p->identity.is_partitioned = *PQgetvalue(seen, 0, SCHEMA_IS_PARTITIONED) == 't';
	p->identity.is_changed = *PQgetvalue(seen, 0, SCHEMA_IS_CHANGED) == 't';
	free(p->checks);
	p->checks = memory_strdup(PQgetvalue(seen, 0, SCHEMA_CHECKS));
	free(p->unfilled);
	p->unfilled = memory_strdup(PQgetvalue(seen, 0, SCHEMA_UNFILLED));
	if (!PQgetisnull(seen, 0, SCHEMA_WARNING) && !p->was_ready)
		log_warn("the database is not safe", "reason=%s", PQgetvalue(seen, 0, SCHEMA_WARNING));
	if (p->is_upgraded)
		become_ready(p);
	else if (*PQgetvalue(seen, 0, SCHEMA_IS_OURS) == 't')
		send_step(p, STEP_ASK, schema_ask_sql());
	else
		send_step(p, STEP_LOCK, schema_lock_sql());
}

/* A listener that was ready before goes on: a newer schema still has what older programs need during an upgrade. */
static void find_newer(struct postgres *p, int version)
{
	char sentence[300];

	snprintf(sentence, sizeof(sentence),
		 "the database has schema version %d and this program knows %d: start a newer wsonce", version,
		 schema_version());
	if (!p->was_ready)
		p->settings.on_unusable(p->settings.owner, sentence, 1);
	log_warn("the schema is newer than this program", "version=%d known=%d", version, schema_version());
	become_ready(p);
}

static void upgrade(struct postgres *p, int version)
{
	char *sql = schema_upgrade_sql(version);

	if (version < schema_version())
		log_info("migrating the schema", "from=%d to=%d", version, schema_version());
	send_step(p, STEP_UPGRADE, sql);
	free(sql);
}

static void on_version(struct postgres *p, int version)
{
	if (version > schema_version())
		find_newer(p, version);
	else if (p->step == STEP_LOCK)
		upgrade(p, version);
	else if (version == schema_version())
		become_ready(p);
	else
		send_step(p, STEP_LOCK, schema_lock_sql());
}

/* Says which role may migrate, if ours may not. */
static const char *advise(const struct postgres *p, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return p->step >= STEP_LOCK && p->step <= STEP_UPGRADE && sqlstate && strcmp(sqlstate, "42501") == 0
		       ? "; run wsonce migrate as the role that owns the tables"
		       : "";
}

static void on_step_answer(struct postgres *p, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		char error[512], why[600];

		describe(result, error, sizeof(error));
		snprintf(why, sizeof(why), "%s%s%s", p->step < STEP_LOCK ? "" : "cannot migrate the schema: ", error,
			 advise(p, result));
		lose(p, why);
	} else if (p->step != STEP_UPGRADE && !PQntuples(result)) {
		lose(p, "the server answers without a row: check that --postgres leads to Postgres");
	} else if (p->step == STEP_INSPECT) {
		on_inspected(p, result);
	} else if (p->step == STEP_UPGRADE) {
		p->is_upgraded = true;
		inspect(p);
	} else if (p->step >= STEP_IDENTIFY) {
		on_identified(p, result);
	} else {
		on_version(p, (int)strtol(PQgetvalue(result, 0, 0), NULL, 10));
	}
}

static void finish(struct postgres *p)
{
	PGresult *result = p->last;

	p->last = NULL;
	uv_timer_stop(&p->timer);
	if (!result || (PQstatus(p->conn) == CONNECTION_OK && !PQexitPipelineMode(p->conn)))
		lose(p, PQerrorMessage(p->conn));
	else if (p->state == POSTGRES_PREPARING)
		on_step_answer(p, result);
	else
		answer_query(p, result);
	PQclear(result);
}

/* True if there is more to send. */
static bool has_piece(struct postgres *p)
{
	if (!p->piece.len)
		p->piece = p->next_piece(p->piece_arg);
	return p->piece.len;
}

/* Gives libpq one piece. Given a whole batch, libpq would move the unsent rest to the front of its buffer after each
 * write. Returns -1 on error. */
static int put_piece(struct postgres *p)
{
	size_t most = FAULT_POINT("postgres: rows of a COPY in small pieces") ? 7 : POSTGRES_PIECE;
	size_t len = p->piece.len < most ? p->piece.len : most;

	if (PQputCopyData(p->conn, p->piece.at, (int)len) != 1)
		return -1;
	p->piece.at += len;
	p->piece.len -= len;
	return 0;
}

/* Gives libpq rows as long as the kernel takes them, and then the end. Returns like PQflush: if something is left, call
 * this again when it has been sent. */
static int put_copy(struct postgres *p)
{
	if (!p->next_piece)
		return -1;
	while (has_piece(p)) {
		int unsent = put_piece(p) ? -1 : PQflush(p->conn);

		if (unsent)
			return unsent;
	}
	p->next_piece = NULL;
	p->is_copying = false;
	return PQputCopyEnd(p->conn, NULL) == 1 ? PQflush(p->conn) : -1;
}

/* Call when the server accepts rows of a COPY: from here on they may be committed. Returns -1 if the connection is
 * lost. */
static int send_copy(struct postgres *p)
{
	int unsent;

	p->is_copying = true;
	p->has_rows = true;
	unsent = put_copy(p);
	if (unsent < 0 || PQsocket(p->conn) < 0) {
		lose(p, PQerrorMessage(p->conn));
		return -1;
	}
	watch(p, UV_READABLE | (unsent ? UV_WRITABLE : 0), true);
	return 0;
}

/* True if this answers a statement that is sent before or after the query itself: see sql/queries/reset.sql. */
static bool is_aside(PGresult *result)
{
	static const char commands[] = "SET CONSTRAINTS RESET UNLISTEN DO";
	const char *name = first_name(result), *command = PQcmdStatus(result);

	return (name && strcmp(name, "set_config") == 0) || (*command && strstr(commands, command));
}

/* Keeps the last answer of several statements, or the error. */
static void keep_result(struct postgres *p, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	keep_last_words(p, result);
	if (status == PGRES_PIPELINE_ABORTED || is_aside(result)) {
		PQclear(result);
		return;
	}
	p->has_rows |= status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
	if (p->is_copy && status == PGRES_COMMAND_OK)
		p->copied = strtoul(PQcmdTuples(result), NULL, 10);
	PQclear(p->last);
	p->last = result;
}

/* True at the end of the answers. In a pipeline, NULL separates answers, and the end is an answer of its own after the
 * commit, which may never come if the connection is lost. */
static bool is_end(const struct postgres *p, const PGresult *result)
{
	if (PQpipelineStatus(p->conn) == PQ_PIPELINE_OFF || PQstatus(p->conn) != CONNECTION_OK)
		return !result;
	return result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
}

static void read_results(struct postgres *p)
{
	while (!PQisBusy(p->conn)) {
		PGresult *result = PQgetResult(p->conn);

		if (is_end(p, result)) {
			PQclear(result);
			finish(p);
			return;
		}
		if (result && PQresultStatus(result) == PGRES_COPY_IN) {
			PQclear(result);
			if (send_copy(p) || p->is_copying)
				return;
		} else if (result) {
			keep_result(p, result);
		}
	}
}

/* Also called when the socket is writable: first send what libpq has buffered. */
static void on_readable(struct postgres *p)
{
	int unsent = PQflush(p->conn);

	if (unsent < 0 || !PQconsumeInput(p->conn)) {
		lose(p, PQerrorMessage(p->conn));
		return;
	}
	if (p->is_copying) {
		if (unsent || send_copy(p) || p->is_copying)
			return;
		unsent = PQflush(p->conn) > 0;
	}
	watch(p, UV_READABLE | (unsent ? UV_WRITABLE : 0), true);
	if (p->state != POSTGRES_BUSY && p->state != POSTGRES_PREPARING) {
		PQisBusy(p->conn); /* calls on_notice() */
		if (PQstatus(p->conn) != CONNECTION_OK)
			lose(p, PQerrorMessage(p->conn));
		return;
	}
	read_results(p);
}

/* Starts waiting for a query. is_sent: libpq has accepted it. When libpq finds the connection dead, it closes the
 * socket; then stop watching, since its number may be reused. */
static int begin(struct postgres *p, int is_sent)
{
	int unsent = is_sent ? PQflush(p->conn) : -1;

	if (unsent < 0 || PQsocket(p->conn) < 0) {
		lose(p, PQerrorMessage(p->conn));
		return -1;
	}
	p->has_rows = p->is_unreplicated = p->is_by_key = false;
	p->first = NULL;
	set_state(p, POSTGRES_BUSY);
	start_deadline(p);
	watch(p, UV_READABLE | (unsent ? UV_WRITABLE : 0), true);
	return 0;
}

static int send_first(struct postgres *p)
{
	char *text = p->first ? schema_expand(p->first, p->schema) : NULL;
	int is_sent = !text || send_plain(p, text);

	free(text);
	return is_sent;
}

int postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n)
{
	Oid types[POSTGRES_VALUES_MAX];
	const char *bytes[POSTGRES_VALUES_MAX];
	int lengths[POSTGRES_VALUES_MAX], formats[POSTGRES_VALUES_MAX];
	char *text, limits[LIMITS_SIZE];
	bool is_sent;

	assert(n <= POSTGRES_VALUES_MAX);
	if (p->state != POSTGRES_READY)
		return -1;
	p->is_copy = false;
	for (int i = 0; i < n; i++) {
		types[i] = values[i].type;
		bytes[i] = values[i].bytes;
		lengths[i] = (int)values[i].len;
		formats[i] = 1;
	}
	text = schema_expand(sql, p->schema);
	is_sent = PQenterPipelineMode(p->conn) && send_plain(p, print_limits(p, false, limits)) && send_first(p) &&
		  PQsendQueryParams(p->conn, text, n, types, bytes, lengths, formats, 0) &&
		  (!p->settings.calls_others || send_plain(p, SCHEMA_AS_BLOCK(SQL_RESET))) && PQpipelineSync(p->conn);
	free(text);
	return begin(p, is_sent);
}

/* Sends all statements as one simple query, because libpq allows no COPY in a pipeline. */
int postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg)
{
	char *text, *all, limits[LIMITS_SIZE];
	bool is_sent;

	if (p->state != POSTGRES_READY)
		return -1;
	p->is_copy = true;
	p->copied = 0;
	all = memory_printf("%s; %s; %s", print_limits(p, true, limits), sql, SQL_RESET);
	text = schema_expand(all, p->schema);
	is_sent = PQsendQuery(p->conn, text);
	free(text);
	free(all);
	if (begin(p, is_sent))
		return -1;
	p->next_piece = next;
	p->piece_arg = arg;
	p->piece = next(arg);
	on_readable(p); /* saves a turn of the loop if the server is already ready */
	return 0;
}

/* --- connecting --- */

/* The text may be in any language, so compare the source function. */
static void on_notice(void *arg, const PGresult *notice)
{
	struct postgres *p = arg;
	const char *from = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

	if (from && strcmp(from, "SyncRepWaitForLSN") == 0)
		p->is_unreplicated = true;
	keep_last_words(p, notice);
	log_debug("postgres notice", "text=%s", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
}

static void on_connected(struct postgres *p)
{
	const char *encoding = PQparameterStatus(p->conn, "server_encoding");

	if (encoding && strcmp(encoding, "UTF8") != 0 && !p->was_ready)
		log_warn("the database's encoding is not UTF8; text that it cannot hold becomes a dead letter",
			 "encoding=%s", encoding);
	PQsetnonblocking(p->conn, 1);
	if (watch(p, UV_READABLE, false)) {
		lose(p, "the socket cannot be watched");
		return;
	}
	set_state(p, POSTGRES_PREPARING);
	p->is_upgraded = false;
	inspect(p);
}

/* libpq names only the address if it was given one. */
static void fail_to_connect(struct postgres *p)
{
	AUTO_FREE char *host = hosts_to_look_up(&p->hosts);
	AUTO_FREE char *why = memory_printf("%s%s%s", host ? host : "", host ? ": " : "", PQerrorMessage(p->conn));

	lose(p, why);
}

static void on_connect_step(struct postgres *p)
{
	int failed = 0;

	switch (PQconnectPoll(p->conn)) {
	case PGRES_POLLING_OK:
		on_connected(p);
		return;
	case PGRES_POLLING_READING:
		failed = watch(p, UV_READABLE, false);
		break;
	case PGRES_POLLING_WRITING:
		failed = watch(p, UV_WRITABLE, false);
		break;
	case PGRES_POLLING_FAILED:
	case PGRES_POLLING_ACTIVE:
		fail_to_connect(p);
		return;
	}
	if (failed)
		lose(p, "the socket cannot be watched");
}

/* addresses: those of the host, which libpq tries in this order; NULL: it needs none. */
static void dial(struct postgres *p, const char *addresses)
{
	struct hosts one = {0};
	const char *const names[] = {
		"dbname", "fallback_application_name", "client_encoding", "host", "hostaddr", "port", NULL};

	hosts_append(&one, &p->hosts, addresses);
	const char *const values[] = {p->settings.conninfo, "wsonce", "UTF8", one.host, one.hostaddr, one.port, NULL};
	p->conn = memory_given(PQconnectStartParams(names, values, 1), "libpq");
	hosts_free(&one);
	if (PQstatus(p->conn) == CONNECTION_BAD) {
		fail_to_connect(p);
		return;
	}
	if (p->hosts.timeout_ms > 0 && p->hosts.timeout_ms < p->settings.timeout_ms)
		uv_timer_start(&p->timer, on_deadline, (uint64_t)p->hosts.timeout_ms, 0);
	PQsetNoticeReceiver(p->conn, on_notice, p);
	/* libpq's manual says to begin as if PGRES_POLLING_WRITING had been returned. */
	if (watch(p, UV_WRITABLE, false))
		lose(p, "the socket cannot be watched");
}

static void on_addresses(void *arg, const char *addresses, const char *error)
{
	struct postgres *p = arg;
	AUTO_FREE char *host = hosts_pick(&p->hosts, p->hosts.host);
	AUTO_FREE char *why =
		addresses ? NULL : memory_printf("could not translate host name \"%s\" to address: %s", host, error);

	p->resolve = NULL;
	if (addresses)
		dial(p, addresses);
	else
		lose(p, why);
}

/* libpq would look up a name in this thread, and feeds would not be read meanwhile. It goes on to the next address of a
 * host only after an error, so after one that did not answer it gets another first. */
static void connect_now(struct postgres *p)
{
	AUTO_FREE char *host = NULL;

	assert(!p->conn);
	set_state(p, POSTGRES_CONNECTING);
	start_deadline(p);
	if (!p->hosts.count)
		hosts_learn(&p->hosts, p->settings.conninfo);
	host = hosts_to_look_up(&p->hosts);
	if (host)
		p->resolve = resolve_start(p->loop, host, p->hosts.mute[p->hosts.at % HOSTS_MUTE], on_addresses, p);
	if (!p->resolve)
		dial(p, NULL);
}

void postgres_set_lock_timeout(struct postgres *p, int64_t lock_ms)
{
	p->lock_timeout_ms = lock_ms;
}

void postgres_find_by_key(struct postgres *p)
{
	p->is_by_key = true;
}

void postgres_begin_with(struct postgres *p, const char *sql)
{
	p->first = sql;
}

enum postgres_state postgres_state(const struct postgres *p)
{
	return p->state;
}

const struct postgres_identity *postgres_identity(const struct postgres *p)
{
	return &p->identity;
}

const char *postgres_error(const struct postgres *p)
{
	return p->error;
}

struct postgres *postgres_open(uv_loop_t *loop, const struct postgres_settings *settings)
{
	struct postgres *p = memory_calloc(1, sizeof(*p));

	p->loop = loop;
	p->settings = *settings;
	p->backoff = (struct backoff){.base_ms = 100, .cap_ms = 2000};
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	uv_timer_start(&p->timer, on_retry, 0, 0);
	return p;
}

static void release(void *object)
{
	struct postgres *p = object;

	hosts_free(&p->hosts);
	free(p->checks);
	free(p->unfilled);
	free(p);
}

void postgres_close(struct postgres *p, void (*done)(void *arg), void *arg)
{
	disconnect(p);
	set_state(p, POSTGRES_CLOSING);
	ending_begin(&p->ending, 1, release, p, done, arg);
	ending_close(&p->ending, &p->timer);
}
