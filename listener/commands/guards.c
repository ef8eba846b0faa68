/* guards.c decides whether a command may store events, and whether it may delete rows by which events are known.
 * Listeners check in to wsonce_listeners (see checkin.c), with their handler, their webhooks and their --max-age. */
#include "commands/guards.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/quantity.h"
#include "commands/dispatch.h"
#include "other_effects.sql.h"
#include "retention_ask.sql.h"
#include "retention_keep.sql.h"
#include "store/checkin.h"
#include "sqlite_retention_ask.sql.h"
#include "sqlite_retention_keep.sql.h"

/* --- effects ---
 *
 * An event has its effects in the transaction that stores it, or never, so a command without the fleet's handler would
 * store events without effects. */

static int compare_effects(struct session *s, const struct config *config, const char *names)
{
	AUTO_ROWS *rows = session_query(s, SQL_OTHER_EFFECTS, NULL, "sss", config->consumer, config->handler, names);

	if (!rows || !session_count(rows))
		return rows ? STATUS_FINE : STATUS_FAILED;
	return dispatch_refuse("%s", session_text(rows, 0, 0));
}

int effects_guard_check(struct session *s, const struct config *config)
{
	AUTO_BYTES names = {NULL, 0, 0}; /* names of webhooks, each followed by a blank */

	for (size_t i = 0; i < config->webhooks.count; i++) {
		bytes_add_text(&names, config->webhooks.items[i].name);
		bytes_add_byte(&names, ' ');
	}
	return session_is_file(s) ? STATUS_FINE /* events in a file have no effects */
				  : compare_effects(s, config, bytes_text(&names));
}

/* --- retention ---
 *
 * Without its row an event's id is gone, and only --max-age keeps a late copy from being stored as a new event. The age
 * that listeners must guard against is in wsonce_retention. */

/* While the lock is held, no listener can check in. One that checks in later sees the age that is written here, since a
 * statement takes its snapshot after its locks. With a file, the transaction itself keeps all others from writing. */
static bool keep_others_out(struct session *s)
{
	return session_is_file(s) || !session_run_alone(s, "SET LOCAL lock_timeout = '10s';"
							   "LOCK TABLE :schema.wsonce_listeners IN SHARE MODE");
}

static int refuse(const struct retention_guard_deletion *d, int64_t age_s, const char *who, const char *what)
{
	char age[30], greatest[30];

	return dispatch_refuse(
		"%s is refused: %s %s. %s run all listeners with --time-pointer and a --max-age of at most %s, "
		"which is a day less than %s",
		d->option, who, what, d->harm,
		quantity_print_seconds(age_s - CHECKIN_MARGIN_S, greatest, sizeof(greatest)),
		quantity_print_seconds(age_s, age, sizeof(age)));
}

/* Returns 0 if rows at least age_s old may be deleted, else an exit status after printing why not. */
static int judge_ages(const struct retention_guard_deletion *d, int64_t age_s, int64_t max_age_s,
		      const struct pg_result *rows)
{
	char who[300], what[100] = "runs, or ran within the last hour, without --max-age", age[30];

	if (max_age_s && !checkin_is_guarded(max_age_s, age_s)) {
		snprintf(what, sizeof(what), "is %s", quantity_print_seconds(max_age_s, age, sizeof(age)));
		return refuse(d, age_s, "--max-age", what);
	}
	if (session_number(rows, 0, 1)) {
		snprintf(who, sizeof(who), "the listener %s", session_text(rows, 0, 2));
		if (!session_is_null(rows, 0, 3))
			snprintf(what, sizeof(what), "runs, or ran within the last hour, with --max-age %s",
				 quantity_print_seconds(session_number(rows, 0, 3), age, sizeof(age)));
		return refuse(d, age_s, who, what);
	}
	if (!max_age_s && !session_number(rows, 0, 0))
		return refuse(d, age_s, "no listener", "ran within the last hour, and purge was given no --max-age");
	return STATUS_FINE;
}

int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s)
{
	struct pg_result *rows = NULL;
	int status;

	if (age_s <= CHECKIN_MARGIN_S)
		return dispatch_refuse("%s is refused: rows can go when they are a day older than the --max-age of all "
				       "listeners, so %s has to be more than a day",
				       deletion->option, deletion->age);
	if (keep_others_out(s))
		rows = session_query(s, SQL_RETENTION_ASK, SQL_SQLITE_RETENTION_ASK, "n",
				     age_s - (int64_t)CHECKIN_MARGIN_S);
	status = rows ? judge_ages(deletion, age_s, config->max_age_s, rows) : STATUS_FAILED;
	session_drop(rows);
	if (status == STATUS_FINE && session_run(s, SQL_RETENTION_KEEP, SQL_SQLITE_RETENTION_KEEP, "n", age_s))
		status = STATUS_FAILED;
	return status;
}
