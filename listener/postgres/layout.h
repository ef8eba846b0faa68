/* layout.h: the statements that make the tables of a new database, where those of the migrations alone do not fit. */
#ifndef WSONCE_LAYOUT_H
#define WSONCE_LAYOUT_H

enum layout_kind {
	LAYOUT_PLAIN,       /* one table of events */
	LAYOUT_PARTITIONED, /* in hash partitions by event_id */
	LAYOUT_CITUS,       /* in shards by event_id on Citus's workers */
};

struct layout {
	enum layout_kind kind;
	int partitions;
};

#define LAYOUT_PARTITIONS_MAX 1024

/* Reads plain, partitioned=N or citus. Returns 0; or -1 for anything else. */
int layout_parse(const char *word, struct layout *layout);

/* All statements, with BEGIN and COMMIT, for the schema that is first in the search_path; they fail where wsonce's
 * tables are already. On the heap. */
char *layout_sql(const struct layout *layout);

#endif
