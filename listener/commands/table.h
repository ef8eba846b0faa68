/* table.h: the commands and their options. A new command is a function in a file of its own, a line of table.c with its
 * options, and a section of help.txt. */
#ifndef WSONCE_TABLE_H
#define WSONCE_TABLE_H

#include "commands/dispatch.h"
#include "commands/purge_tables.h"
#include "config/setting.h"

#define KEEP_ALL  (-1)
#define NOT_GIVEN (-1)

/* What stays in a table: rows that are young enough, and among the newest. */
struct retention {
	int64_t older_than_us; /* 0: of any age */
	int64_t keep;          /* KEEP_ALL: any number */
};

/* What the command line gave: the options of all commands. NULL, 0 and false: not given, unless GIVEN_DEFAULTS or
 * table.c has a default. */
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

#define TABLE_OPTIONS_MAX 20

/* Runs a command. Returns the exit status. */
typedef int command_fn(const struct invocation *in);
/* Checks options that depend on each other. Returns NULL or one sentence. */
typedef const char *command_check_fn(const struct invocation *in);

struct subcommand {
	const char *name;         /* one word, or two: "dead-letters list" */
	const char *arguments;    /* as shown in the usage line: "ID", "DIR VERB", "[ID ...]" for any number; or "" */
	const char *options;      /* flags of its own, separated by blanks */
	const char *settings;     /* names of the settings that it uses, likewise; NULL: all that it can parse */
	enum session_aim session; /* session of the invocation, opened before run */
	command_check_fn *check;  /* may be NULL */
	command_fn *run;
};

#define SETTINGS_OF_LISTEN "*" /* as settings: all that listen can parse */

/* In the order of --help. */
extern const struct subcommand command_table[];
extern const size_t command_count;

/* Copies the table of a command's own options to own, and their defaults to *given. Returns how many it has. */
size_t table_options(const struct subcommand *c, struct setting own[TABLE_OPTIONS_MAX], struct given *given);

command_fn listen_command, status_command, dashboard_command, explain_command, lines_command, check_command,
	config_print, config_lint, dead_letters_list, dead_letters_show, dead_letters_retry, dead_letters_change,
	webhooks_list, webhooks_show, webhooks_pause, webhooks_resume, webhooks_resend, audit_command, export_command,
	replay_command, spool_command, purge_command, stats_duplicates, schema_command, migrate_command, try_command,
	record_command, profile_list, profile_show, profile_check;
command_check_fn status_check, dashboard_check, dead_letters_check, webhooks_check, audit_check, export_check,
	purge_check, schema_check, try_check, record_check;

#endif
