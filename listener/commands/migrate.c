/* migrate.c owns `wsonce migrate`: as the role that owns the tables, it creates or upgrades them and grants rights to
 * the other roles. Listeners migrate too, if they have the rights. */
#include "commands/migrate.h"

#include "commands/table.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "postgres/schema.h"

#include "grants.sql.h"
#include "indexes.sql.h"

/* A migration would block writers while it indexes large tables, so the indexes that only commands need are made here.
 */
enum column { REMOVE, MAKE, MAKE_BESIDE };

/* Drops an invalid index first: CREATE INDEX CONCURRENTLY leaves one when it fails, and it slows down writers. */
static int make(struct session *s, const struct pg_result *missing, size_t row)
{
	bool is_beside = !session_is_null(missing, row, MAKE_BESIDE);
	const char *sql = session_text(missing, row, is_beside ? MAKE_BESIDE : MAKE);

	progress_show("%s", sql);
	if (!session_is_null(missing, row, REMOVE) && session_run_alone(s, session_text(missing, row, REMOVE)))
		return -1;
	return session_run_alone(s, sql);
}

/* CREATE INDEX CONCURRENTLY waits for all open transactions of the server; lock_timeout limits that. */
int migrate_indexes(struct session *s)
{
	AUTO_ROWS *missing = session_query(s, SQL_INDEXES, NULL, "");
	size_t n = missing ? session_count(missing) : 0;
	int failed = missing ? 0 : -1;

	if (n)
		failed = session_run_alone(s, "SET statement_timeout = 0") ||
			 session_run_alone(s, "SET lock_timeout = '60s'");
	for (size_t i = 0; !failed && i < n; i++)
		failed = make(s, missing, i);
	progress_clear();
	return failed;
}

int migrate_command(const struct invocation *in)
{
	struct session *s = in->session;

	if (session_is_file(s)) /* a file has only the rights of the file system */
		return STATUS_FINE;
	if (session_run(s, SQL_GRANTS, NULL, "") || migrate_indexes(s))
		return STATUS_FAILED;

	printf("the schema is at version %d\n", schema_version());
	return STATUS_FINE;
}
