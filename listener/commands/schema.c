/* schema.c prints the statements for a new database, also in layouts that listeners do not create. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/table.h"
#include "postgres/schema.h"
#include "spread.sql.h"

#define PARTITIONS_MAX 1024

/* Returns the number of partitions: 0 for one plain table, -1 if layout is not valid. */
static int count_partitions(const char *layout)
{
	static const char spread[] = "partitioned=";
	char *end;
	long n;

	if (strcmp(layout, "plain") == 0)
		return 0;
	if (strncmp(layout, spread, sizeof(spread) - 1) != 0 || layout[sizeof(spread) - 1] < '1' ||
	    layout[sizeof(spread) - 1] > '9')
		return -1;
	n = strtol(layout + sizeof(spread) - 1, &end, 10);
	return *end || n < 2 || n > PARTITIONS_MAX ? -1 : (int)n;
}

const char *schema_check(const struct invocation *in)
{
	const struct given *o = in->options;

	return count_partitions(o->layout) < 0 ? "--layout: must be plain, or partitioned=N with N from 2 to 1024"
					       : NULL;
}

/* Returns the statements for a partitioned table of events, with the index that wsonce purge uses; "" without
 * partitions. Free it. */
static char *make_events(int partitions)
{
	char *sql = NULL;
	size_t len;
	FILE *out;

	if (!partitions)
		return memory_strdup("");
	out = open_memstream(&sql, &len);
	fprintf(out, "%s PARTITION BY HASH (event_id);\n", SQL_SPREAD);
	for (int i = 0; i < partitions; i++)
		fprintf(out, "CREATE TABLE events_%d PARTITION OF events FOR VALUES WITH (MODULUS %d, REMAINDER %d);\n",
			i, partitions, i);
	fprintf(out, "CREATE INDEX events_id ON :schema.events (id);\n");
	fclose(out);
	return sql;
}

int schema_command(const struct invocation *in)
{
	const struct given *o = in->options;
	AUTO_FREE char *events = make_events(count_partitions(o->layout));
	AUTO_FREE char *all = schema_create_sql(events), *sql = schema_expand(all, "");

	printf("-- The tables of wsonce %s for a new database, schema version %d, layout %s. Run it as the role that "
	       "will own\n"
	       "-- them, then run wsonce migrate, which grants the rights on them.\n%s",
	       WSONCE_VERSION, schema_version(), o->layout, sql);
	return STATUS_FINE;
}
