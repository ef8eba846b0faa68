/* migrate.c owns `wsonce migrate`, which makes the tables or brings them up to date and grants rights to the other
 * roles. It runs as the role that owns the tables. Listeners migrate too, if they may. */
#include "commands/dispatch.h"
#include "commands/indexes.h"
#include "commands/session.h"
#include "postgres/schema.h"

#include "grants.sql.h"

static int run_migrate(const struct invocation *in)
{
	struct session *s = session_open_or_create(in->config);
	bool is_file = s && session_is_file(s); /* rights are those of the file */
	struct pg_result *granted = s && !is_file ? session_ask(s, SQL_GRANTS, 0, NULL) : NULL;
	int status = is_file || (granted && indexes_make(s) == 0) ? STATUS_FINE : STATUS_FAILED;

	if (status == STATUS_FINE && !is_file)
		printf("the schema is at version %d\n", schema_version());
	session_drop(granted);
	session_close(s);
	return status;
}

const struct subcommand migrate_command = {
	.name = "migrate",
	.arguments = "",
	.summary = "create the tables, or bring them up to date",
	.help = "Creates the missing tables, brings the others up to date, and grants rights to the roles of "
		"sql/roles.sql, if they exist. It also makes indexes for other commands, while others write. Run it as "
		"the role that owns the tables, before you start listeners of a new version that lack the right to "
		"migrate. It can be repeated.",
	.settings = SETTINGS_STORE,
	.run = run_migrate,
};
