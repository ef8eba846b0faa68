/* retention_guard.c owns the question before rows are deleted by which events are known. With such a row an event's id
 * is gone, and nothing but --max-age keeps a late copy from being taken for a new event. What listeners say of
 * themselves is in wsonce_listeners (see checkin.c); the age that they must guard against is in wsonce_retention. */
#include "commands/retention_guard.h"

#include <stdio.h>

#include "commands/dispatch.h"
#include "road/checkin.h"
#include "base/quantity.h"

/* While the lock is held no listener can tell of itself: one that does it later sees the age that is
 * written here, since a statement takes its snapshot after its locks. */
static const char lock_sql[] = "LOCK TABLE :schema.wsonce_listeners IN SHARE MODE";

static const char ask_sql[] =
	"SELECT count(*), count(*) FILTER (WHERE is_open), pg_catalog.min(listener) FILTER (WHERE is_open), "
	"min(max_age_s) FILTER (WHERE listener = first_open) FROM ("
	" SELECT *, pg_catalog.min(listener) FILTER (WHERE is_open) OVER () AS first_open FROM ("
	"  SELECT listener, max_age_s, coalesce(max_age_s > $1::bigint, true) AS is_open FROM :schema.wsonce_listeners"
	"  WHERE seen_at > now() - interval '1 hour') AS recent) AS marked";

static const char keep_sql[] = "INSERT INTO :schema.wsonce_retention AS r (rows_deleted_s) VALUES ($1::bigint) ON "
			       "CONFLICT (is_only) DO UPDATE SET "
			       "rows_deleted_s = least(r.rows_deleted_s, excluded.rows_deleted_s), changed_at = now() "
			       "WHERE excluded.rows_deleted_s < r.rows_deleted_s";

/* The transaction of a file keeps all others from writing. */
static const char lite_ask[] =
	"WITH recent AS (SELECT listener, max_age_s, coalesce(max_age_s > CAST(?1 AS INTEGER), true) AS is_open"
	" FROM wsonce_listeners WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour')),"
	" first AS (SELECT * FROM recent WHERE is_open ORDER BY listener LIMIT 1)"
	" SELECT (SELECT count(*) FROM recent), (SELECT count(*) FROM recent WHERE is_open), (SELECT listener FROM "
	"first),"
	" (SELECT max_age_s FROM first)";

static const char lite_keep[] =
	"INSERT INTO wsonce_retention AS r (is_only, rows_deleted_s, changed_at) VALUES (1, CAST(?1 AS INTEGER),"
	" strftime('%Y-%m-%dT%H:%M:%f000Z')) ON CONFLICT (is_only) DO UPDATE SET rows_deleted_s = "
	"excluded.rows_deleted_s,"
	" changed_at = excluded.changed_at WHERE excluded.rows_deleted_s < r.rows_deleted_s";

static bool ask(struct session *s, const char *sql);

static bool keep_others_out(struct session *s)
{
	return session_is_file(s) ||
	       (ask(s, "SELECT pg_catalog.set_config('lock_timeout', '10s', true)") && ask(s, lock_sql));
}

/* May rows go that are at least so old? */
struct question {
	const struct config *config;
	const struct retention_guard_deletion *deletion;
	int64_t age_s;
};

static bool ask(struct session *s, const char *sql)
{
	struct pg_result *rows = session_ask(s, sql, 0, NULL);

	session_drop(rows);
	return rows;
}

static enum retention_guard_result refuse(const struct question *q, const char *who, const char *what)
{
	char age[30], greatest[30];

	dispatch_fail("%s is refused: %s %s. %s run all listeners with --time-pointer and a --max-age of at most %s, "
		      "which is a day less than %s",
		      q->deletion->option, who, what, q->deletion->harm,
		      quantity_print_seconds(q->age_s - CHECKIN_MARGIN_S, greatest, sizeof(greatest)),
		      quantity_print_seconds(q->age_s, age, sizeof(age)));
	return RETENTION_GUARD_REFUSES;
}

static enum retention_guard_result judge(const struct question *q, const struct pg_result *rows)
{
	int64_t max_age_s = q->config->max_age_s;
	char who[300], what[100], age[30];

	if (max_age_s && !checkin_is_guarded(max_age_s, q->age_s)) {
		snprintf(what, sizeof(what), "is %s", quantity_print_seconds(max_age_s, age, sizeof(age)));
		return refuse(q, "--max-age", what);
	}
	if (session_number(rows, 0, 1)) {
		snprintf(who, sizeof(who), "the listener %s", session_text(rows, 0, 2));
		snprintf(what, sizeof(what), "runs, or ran within the last hour, with --max-age %s",
			 quantity_print_seconds(session_number(rows, 0, 3), age, sizeof(age)));
		return refuse(q, who,
			      session_is_null(rows, 0, 3) ? "runs, or ran within the last hour, without --max-age"
							  : what);
	}
	if (!max_age_s && !session_number(rows, 0, 0))
		return refuse(q, "no listener", "ran within the last hour, and purge was given no --max-age");
	return RETENTION_GUARD_HOLDS;
}

static enum retention_guard_result check(struct session *s, const struct question *q, bool is_to_stay)
{
	char greatest[24], age[24];
	const char *values[] = {greatest}, *kept[] = {age};
	struct pg_result *rows = NULL;
	enum retention_guard_result result;

	snprintf(greatest, sizeof(greatest), "%lld", (long long)(q->age_s - CHECKIN_MARGIN_S));
	snprintf(age, sizeof(age), "%lld", (long long)q->age_s);
	if (!keep_others_out(s) || !(rows = session_ask_either(s, ask_sql, lite_ask, 1, values)))
		return RETENTION_GUARD_FAILED;
	result = judge(q, rows);
	session_drop(rows);
	if (result != RETENTION_GUARD_HOLDS || !is_to_stay)
		return result;
	rows = session_ask_either(s, keep_sql, lite_keep, 1, kept);
	session_drop(rows);
	return rows ? RETENTION_GUARD_HOLDS : RETENTION_GUARD_FAILED;
}

enum retention_guard_result retention_guard_check(struct session *s, const struct config *config,
						  const struct retention_guard_deletion *deletion, int64_t age_s,
						  bool is_to_stay)
{
	const struct question question = {config, deletion, age_s};
	enum retention_guard_result result;

	if (age_s <= CHECKIN_MARGIN_S) {
		dispatch_fail(
			"%s is refused: rows can go when they are a day older than the --max-age of all listeners, "
			"so %s has to be more than a day",
			deletion->option, deletion->age);
		return RETENTION_GUARD_REFUSES;
	}
	if (!ask(s, "BEGIN"))
		return RETENTION_GUARD_FAILED;
	result = check(s, &question, is_to_stay);
	if (!ask(s, result == RETENTION_GUARD_HOLDS ? "COMMIT" : "ROLLBACK"))
		return RETENTION_GUARD_FAILED;
	return result;
}
