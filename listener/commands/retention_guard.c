/* retention_guard.c decides whether rows by which events are known may be deleted. Without its row an event's id is
 * gone, and only --max-age keeps a late copy from being stored as a new event. Listeners check in to wsonce_listeners
 * (see checkin.c); the age that they must guard against is in wsonce_retention. */
#include "commands/retention_guard.h"

#include <stdio.h>

#include "base/quantity.h"
#include "commands/dispatch.h"
#include "retention_ask.sql.h"
#include "retention_keep.sql.h"
#include "road/checkin.h"
#include "sqlite_retention_ask.sql.h"
#include "sqlite_retention_keep.sql.h"

/* May rows go that are at least age_s old? */
struct question {
	const struct config *config;
	const struct retention_guard_deletion *deletion;
	int64_t age_s;
};

/* While the lock is held, no listener can check in. One that checks in later sees the age that is written here, since a
 * statement takes its snapshot after its locks. The transaction of a file keeps all others from writing. */
static bool keep_others_out(struct session *s)
{
	return session_is_file(s) || !session_run_alone(s, "SET LOCAL lock_timeout = '10s';"
							   "LOCK TABLE :schema.wsonce_listeners IN SHARE MODE");
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

int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s)
{
	const struct question question = {config, deletion, age_s};
	struct pg_result *rows = NULL;
	int status;

	if (age_s <= CHECKIN_MARGIN_S) {
		dispatch_fail("%s is refused: rows can go when they are a day older than the --max-age of all "
			      "listeners, so %s has to be more than a day",
			      deletion->option, deletion->age);
		return STATUS_USAGE;
	}
	if (keep_others_out(s))
		rows = session_query(s, SQL_RETENTION_ASK, SQL_SQLITE_RETENTION_ASK, "n",
				     age_s - (int64_t)CHECKIN_MARGIN_S);
	status = rows ? judge(&question, rows) : STATUS_FAILED;
	session_drop(rows);
	if (status == STATUS_FINE && session_run(s, SQL_RETENTION_KEEP, SQL_SQLITE_RETENTION_KEEP, "n", age_s))
		status = STATUS_FAILED;
	return status;
}
