/* schema.c owns the command that prints the statements for a new database, for the layouts that a listener does not
 * make by itself. It needs no server. */
#include <stdlib.h>

#include "commands/dispatch.h"
#include "postgres/layout.h"
#include "postgres/schema.h"

struct schema_options {
	const char *layout;
};

static const struct option schema_options[] = {
	{"layout", OPTION_TEXT, offsetof(struct schema_options, layout), "LAYOUT", 0, 0, NULL,
	 "plain, partitioned=N (2 to 1024 hash partitions) or citus"},
};

static const struct schema_options schema_defaults = {.layout = "plain"};

static const char *check_schema(const struct invocation *in)
{
	const struct schema_options *o = in->options;
	struct layout layout;

	return layout_parse(o->layout, &layout)
		       ? "--layout: plain, partitioned=N with N from 2 to 1024, or citus is expected"
		       : NULL;
}

static int run_schema(const struct invocation *in)
{
	const struct schema_options *o = in->options;
	struct layout layout;
	char *sql;

	layout_parse(o->layout, &layout);
	sql = layout_sql(&layout);
	printf("-- The tables of wsonce %s for a new database, schema version %d, layout %s. Run it as the role that "
	       "is to own\n"
	       "-- them, then wsonce migrate, which grants their rights.\n%s",
	       WSONCE_VERSION, schema_version(), o->layout, sql);
	free(sql);
	return STATUS_FINE;
}

const struct subcommand schema_command = {
	.name = "schema",
	.arguments = "",
	.summary = "print the statements that make the tables",
	.help = "Prints the SQL that makes the tables of a new database, with all events in one table, in hash\n"
		"partitions, or distributed by Citus: wsonce schema --layout partitioned=16 | psql. It asks no "
		"server,\n"
		"and fails as a whole where the tables are there already.\n",
	.options = schema_options,
	.option_count = sizeof(schema_options) / sizeof(schema_options[0]),
	.options_size = sizeof(struct schema_options),
	.defaults = &schema_defaults,
	.check = check_schema,
	.run = run_schema,
};
