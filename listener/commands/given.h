/* given.h: what the command line gave: the options of all commands. table.c says which command has which. */
#ifndef WSONCE_GIVEN_H
#define WSONCE_GIVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/purge_tables.h"

#define KEEP_ALL  (-1)
#define NOT_GIVEN (-1)

/* What stays in a table: rows that are young enough, and among the newest. */
struct retention {
	int64_t older_than_us; /* 0: of any age */
	int64_t keep;          /* KEEP_ALL: any number */
};

/* NULL, 0 and false: not given, unless GIVEN_DEFAULTS or table.c has a default. */
struct given {
	bool is_json;
	bool is_all;
	bool is_dry;

	/* Which events, letters or deliveries. */
	int64_t since_us; /* at or after; of letters when last seen, of deliveries when settled */
	int64_t until_us; /* before */
	const char *type; /* type of the event */
	const char *source;
	const char *reason; /* a part of the reason, in any case */
	const char *target; /* target of deliveries */
	const char *state;  /* of letters and deliveries: open, resolved or all */
	int64_t limit;      /* only the oldest N; audit: how many names are printed */
	int64_t newest;     /* only those among the newest N; 0: among all */
	bool is_deliveries; /* not dead letters */
	bool is_pending;

	const char *note;
	int64_t rate; /* per second; 0: no limit */
	const char *format;
	const char *frames;

	/* status, dashboard, schema */
	bool is_watching;
	int64_t every_us;
	const char *address, *hosts, *token_file;
	bool is_open;
	const char *layout;

	/* dead-letters, webhooks */
	int64_t groups, examples;
	const char *raw_file, *id;
	bool is_raw;
	const char *event;

	/* audit, export, replay */
	const char *expected, *missing_to;
	int64_t grace_us, horizon_us;
	bool is_from_lines, is_resubmit;
	const char *after;
	bool is_letters, is_live;
	const char *checkpoint;

	/* purge */
	struct retention retention[PASS_TABLES];
	int64_t batch;
	bool is_deleting, is_open_too;

	/* try, record */
	const char *profile, *feed, *connections;
	int64_t now_s, seconds, expect_us, messages, rotate_us;
	bool is_segments;
};

/* clang-format off */
#define GIVEN_DEFAULTS \
	{.state = "open", .address = "127.0.0.1:9090", .layout = "plain", \
	 .retention = {{0, KEEP_ALL}, {0, KEEP_ALL}, {0, KEEP_ALL}, {0, KEEP_ALL}, {0, KEEP_ALL}}}
/* clang-format on */

#endif
