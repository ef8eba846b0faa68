/* guard.c owns the question before rows of events are deleted. With its row an event's id is gone, and
 * nothing but --max-age keeps a late copy from becoming a new row. What listeners say of themselves is
 * in wsonce_listeners (see note.c); the age that they must guard against is in wsonce_retention. */
#include "guard.h"

#include <stdio.h>

#include "dispatch.h"
#include "note.h"
#include "when.h"

/* While the lock is held no listener can tell of itself: one that does it later sees the age that is
 * written here, since a statement takes its snapshot after its locks. */
static const char lock_sql[] = "LOCK TABLE wsonce_listeners IN SHARE MODE";

static const char ask_sql[] =
	"SELECT count(*), count(*) FILTER (WHERE is_open), min(listener) FILTER (WHERE is_open), "
	"min(max_age_s) FILTER (WHERE listener = first_open) FROM ("
	" SELECT *, min(listener) FILTER (WHERE is_open) OVER () AS first_open FROM ("
	"  SELECT listener, max_age_s, coalesce(max_age_s > $1::bigint, true) AS is_open FROM wsonce_listeners"
	"  WHERE seen_at > now() - interval '1 hour') AS recent) AS marked";

static const char keep_sql[] =
	"INSERT INTO wsonce_retention AS r (rows_deleted_s) VALUES ($1::bigint) ON CONFLICT (is_only) DO UPDATE SET "
	"rows_deleted_s = least(r.rows_deleted_s, excluded.rows_deleted_s), changed_at = now() "
	"WHERE excluded.rows_deleted_s < r.rows_deleted_s";

static bool ask(struct session *s, const char *sql)
{
	struct pg_result *rows = session_ask(s, sql, 0, NULL);

	session_drop(rows);
	return rows;
}

static enum guard_result refuse(int64_t age_s, const char *who, const char *what)
{
	char age[30], greatest[30];

	dispatch_fail("--delete-rows is refused: %s %s. A late copy of an event whose row is gone would be stored "
		      "again. Without --delete-rows the ids stay and only payloads go; or run all listeners with "
		      "--time-pointer and a --max-age of at most %s, which is a day less than %s",
		      who, what, when_print_age(age_s - NOTE_MARGIN_S, greatest, sizeof(greatest)),
		      when_print_age(age_s, age, sizeof(age)));
	return GUARD_REFUSES;
}

static enum guard_result judge(const struct config *config, int64_t age_s, const struct pg_result *rows)
{
	char who[300], what[100], age[30];

	if (config->max_age_s && !note_is_guarded(config->max_age_s, age_s)) {
		snprintf(what, sizeof(what), "is %s", when_print_age(config->max_age_s, age, sizeof(age)));
		return refuse(age_s, "--max-age", what);
	}
	if (session_number(rows, 0, 1)) {
		snprintf(who, sizeof(who), "the listener %s", session_text(rows, 0, 2));
		snprintf(what, sizeof(what), "runs, or ran within the last hour, with --max-age %s",
			 when_print_age(session_number(rows, 0, 3), age, sizeof(age)));
		return refuse(age_s, who,
			      session_is_null(rows, 0, 3) ? "runs, or ran within the last hour, without --max-age"
							  : what);
	}
	if (!config->max_age_s && !session_number(rows, 0, 0))
		return refuse(age_s, "no listener", "ran within the last hour, and purge was given no --max-age");
	return GUARD_HOLDS;
}

static enum guard_result check(struct session *s, const struct config *config, int64_t age_s, bool is_to_stay)
{
	char greatest[24], age[24];
	const char *values[] = {greatest}, *kept[] = {age};
	struct pg_result *rows = NULL;
	enum guard_result result;

	snprintf(greatest, sizeof(greatest), "%lld", (long long)(age_s - NOTE_MARGIN_S));
	snprintf(age, sizeof(age), "%lld", (long long)age_s);
	if (!ask(s, "SELECT set_config('lock_timeout', '10s', true)") || !ask(s, lock_sql) ||
	    !(rows = session_ask(s, ask_sql, 1, values)))
		return GUARD_FAILED;
	result = judge(config, age_s, rows);
	session_drop(rows);
	if (result != GUARD_HOLDS || !is_to_stay)
		return result;
	rows = session_ask(s, keep_sql, 1, kept);
	session_drop(rows);
	return rows ? GUARD_HOLDS : GUARD_FAILED;
}

enum guard_result guard_check(struct session *s, const struct config *config, int64_t age_s, bool is_to_stay)
{
	enum guard_result result;

	if (age_s <= NOTE_MARGIN_S) {
		dispatch_fail("--delete-rows is refused: rows can go when they are a day older than the --max-age of "
			      "all listeners, so --older-than has to be more than a day");
		return GUARD_REFUSES;
	}
	if (!ask(s, "BEGIN"))
		return GUARD_FAILED;
	result = check(s, config, age_s, is_to_stay);
	if (!ask(s, result == GUARD_HOLDS ? "COMMIT" : "ROLLBACK"))
		return GUARD_FAILED;
	return result;
}
