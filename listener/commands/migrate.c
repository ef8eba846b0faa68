/* migrate.c owns `wsonce migrate`: as the role that owns the tables, it creates or upgrades them and grants rights to
 * the other roles. Listeners migrate too, if they have the rights. */
#include "commands/dispatch.h"
#include "commands/indexes.h"
#include "commands/session.h"
#include "postgres/schema.h"

#include "grants.sql.h"

static int run_migrate(const struct invocation *in)
{
	struct session *s = in->session;

	if (session_is_file(s)) /* rights are those in the file system */
		return STATUS_FINE;
	if (session_run(s, SQL_GRANTS, NULL, "") || indexes_make(s))
		return STATUS_FAILED;

	printf("the schema is at version %d\n", schema_version());
	return STATUS_FINE;
}

const struct subcommand migrate_command = {
	.name = "migrate",
	.summary = "create the tables, or bring them up to date",
	.help = "Creates missing tables, upgrades the others, and grants rights to the roles of sql/roles.sql that "
		"exist. It also creates the indexes of other commands, without blocking writers. Run it as the role "
		"that owns the tables, before you start listeners of a new version that have no right to migrate. It "
		"can be repeated.",
	.settings = SETTINGS_STORE,
	.open = session_open_or_create,
	.run = run_migrate,
};
