/* retention_guard.c owns the question before rows are deleted by which events are known. Without its row an event's id
 * is gone, and only --max-age keeps a late copy from being stored as a new event. Listeners check in to
 * wsonce_listeners (see checkin.c); the age that they must guard against is in wsonce_retention. */
#include "commands/retention_guard.h"

#include <stdio.h>

#include "base/quantity.h"
#include "commands/dispatch.h"
#include "retention_ask.sql.h"
#include "retention_keep.sql.h"
#include "road/checkin.h"
#include "sqlite_retention_ask.sql.h"
#include "sqlite_retention_keep.sql.h"

/* May rows go that are at least so old? */
struct question {
	const struct config *config;
	const struct retention_guard_deletion *deletion;
	int64_t age_s;
};

static bool run(struct session *s, const char *sql)
{
	struct pg_result *rows = session_ask(s, sql, 0, NULL);

	session_drop(rows);
	return rows;
}

/* While the lock is held no listener can check in. One that does so later sees the age that is written here, since a
 * statement takes its snapshot after its locks. A file's transaction keeps all others from writing. */
static bool keep_others_out(struct session *s)
{
	return session_is_file(s) || (run(s, "SELECT pg_catalog.set_config('lock_timeout', '10s', true)") &&
				      run(s, "LOCK TABLE :schema.wsonce_listeners IN SHARE MODE"));
}

static int refuse(const struct question *q, const char *who, const char *what)
{
	char age[30], greatest[30];

	dispatch_fail("%s is refused: %s %s. %s run all listeners with --time-pointer and a --max-age of at most %s, "
		      "which is a day less than %s",
		      q->deletion->option, who, what, q->deletion->harm,
		      quantity_print_seconds(q->age_s - CHECKIN_MARGIN_S, greatest, sizeof(greatest)),
		      quantity_print_seconds(q->age_s, age, sizeof(age)));
	return STATUS_USAGE;
}

static int judge(const struct question *q, const struct pg_result *rows)
{
	int64_t max_age_s = q->config->max_age_s;
	char who[300], what[100] = "runs, or ran within the last hour, without --max-age", age[30];

	if (max_age_s && !checkin_is_guarded(max_age_s, q->age_s)) {
		snprintf(what, sizeof(what), "is %s", quantity_print_seconds(max_age_s, age, sizeof(age)));
		return refuse(q, "--max-age", what);
	}
	if (session_number(rows, 0, 1)) {
		snprintf(who, sizeof(who), "the listener %s", session_text(rows, 0, 2));
		if (!session_is_null(rows, 0, 3))
			snprintf(what, sizeof(what), "runs, or ran within the last hour, with --max-age %s",
				 quantity_print_seconds(session_number(rows, 0, 3), age, sizeof(age)));
		return refuse(q, who, what);
	}
	if (!max_age_s && !session_number(rows, 0, 0))
		return refuse(q, "no listener", "ran within the last hour, and purge was given no --max-age");
	return STATUS_FINE;
}

static int check(struct session *s, const struct question *q, bool is_to_stay)
{
	char greatest[24], age[24];
	struct pg_result *rows = NULL;
	int status;

	snprintf(greatest, sizeof(greatest), "%lld", (long long)(q->age_s - CHECKIN_MARGIN_S));
	snprintf(age, sizeof(age), "%lld", (long long)q->age_s);
	if (keep_others_out(s))
		rows = session_ask_either(s, SQL_RETENTION_ASK, SQL_SQLITE_RETENTION_ASK, 1,
					  (const char *[]){greatest});
	if (!rows)
		return STATUS_FAILED;
	status = judge(q, rows);
	session_drop(rows);
	if (status != STATUS_FINE || !is_to_stay)
		return status;
	rows = session_ask_either(s, SQL_RETENTION_KEEP, SQL_SQLITE_RETENTION_KEEP, 1, (const char *[]){age});
	session_drop(rows);
	return rows ? STATUS_FINE : STATUS_FAILED;
}

int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s, bool is_to_stay)
{
	const struct question question = {config, deletion, age_s};
	int status;

	if (age_s <= CHECKIN_MARGIN_S) {
		dispatch_fail("%s is refused: rows can go when they are a day older than the --max-age of all "
			      "listeners, so %s has to be more than a day",
			      deletion->option, deletion->age);
		return STATUS_USAGE;
	}
	if (!run(s, "BEGIN"))
		return STATUS_FAILED;
	status = check(s, &question, is_to_stay);
	return run(s, status == STATUS_FINE ? "COMMIT" : "ROLLBACK") ? status : STATUS_FAILED;
}
