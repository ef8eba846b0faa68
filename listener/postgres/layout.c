/* layout.c adds partitions or shards to the tables that the migrations of schema.c create. */
#include "postgres/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "postgres/schema.h"
#include "spread.sql.h"

/* Queries by event_id, alone or joined with processed_events, then need only one shard. */
static const char citus_sql[] =
	"SELECT create_distributed_table('events', 'event_id');\n"
	"SELECT create_distributed_table('processed_events', 'event_id', colocate_with => 'events');\n";

int layout_parse(const char *word, struct layout *layout)
{
	static const char spread[] = "partitioned=";
	char *end;
	long n;

	*layout = (struct layout){.kind = LAYOUT_PLAIN};
	if (strcmp(word, "plain") == 0)
		return 0;
	layout->kind = LAYOUT_CITUS;
	if (strcmp(word, "citus") == 0)
		return 0;
	if (strncmp(word, spread, sizeof(spread) - 1) != 0 || word[sizeof(spread) - 1] < '1' ||
	    word[sizeof(spread) - 1] > '9')
		return -1;
	n = strtol(word + sizeof(spread) - 1, &end, 10);
	if (*end || n < 2 || n > LAYOUT_PARTITIONS_MAX)
		return -1;
	*layout = (struct layout){LAYOUT_PARTITIONED, (int)n};
	return 0;
}

static char *make_partitions(int n)
{
	size_t size = 64 + (size_t)n * 100, used = 0;
	char *sql = memory_alloc(size);

	used += (size_t)snprintf(sql, size, " PARTITION BY HASH (event_id);\n");
	for (int i = 0; i < n; i++)
		used += (size_t)snprintf(
			sql + used, size - used,
			"CREATE TABLE events_%d PARTITION OF events FOR VALUES WITH (MODULUS %d, REMAINDER %d);\n", i,
			n, i);
	return sql;
}

/* Creates the table of events, and the index that wsonce purge needs, unless the layout is plain. */
static char *make_events(const struct layout *layout)
{
	char *partitions, *sql;

	if (layout->kind == LAYOUT_PLAIN)
		return memory_strdup("");
	partitions = layout->kind == LAYOUT_PARTITIONED ? make_partitions(layout->partitions) : memory_strdup(";\n");
	sql = memory_printf("%s%sCREATE INDEX events_id ON :schema.events (id);\n", SQL_SPREAD, partitions);
	free(partitions);
	return sql;
}

char *layout_sql(const struct layout *layout)
{
	char *events = make_events(layout);
	char *all = schema_create_sql(events, layout->kind == LAYOUT_CITUS ? citus_sql : "");
	char *sql = schema_expand(all, "");

	free(events);
	free(all);
	return sql;
}
