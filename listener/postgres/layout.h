/* layout.h: SQL that creates the tables of a new database in a layout other than that of the migrations. */
#ifndef WSONCE_LAYOUT_H
#define WSONCE_LAYOUT_H

enum layout_kind {
	LAYOUT_PLAIN,       /* one table of events */
	LAYOUT_PARTITIONED, /* hash partitions by event_id */
	LAYOUT_CITUS,       /* shards by event_id on Citus's workers */
};

struct layout {
	enum layout_kind kind;
	int partitions;
};

#define LAYOUT_PARTITIONS_MAX 1024

/* Parses plain, partitioned=N or citus. Returns 0, or -1 for anything else. */
int layout_parse(const char *word, struct layout *layout);

/* Returns all statements, with BEGIN and COMMIT, on the heap. They use the first schema in the search_path and fail if
 * it already has wsonce's tables. */
char *layout_sql(const struct layout *layout);

#endif
