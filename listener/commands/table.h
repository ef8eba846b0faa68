/* table.h: the commands and their options. A new command is a function in a file of its own, a line of table.c with its
 * options, and a section of help.txt. */
#ifndef WSONCE_TABLE_H
#define WSONCE_TABLE_H

#include "commands/dispatch.h"
#include "commands/option.h"

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
size_t table_options(const struct subcommand *c, struct option own[TABLE_OPTIONS_MAX], struct given *given);

command_fn listen_command, status_command, dashboard_command, explain_command, lines_command, check_command,
	config_print, config_lint, dead_letters_list, dead_letters_show, dead_letters_retry, dead_letters_change,
	webhooks_list, webhooks_show, webhooks_pause, webhooks_resume, webhooks_resend, audit_command, export_command,
	replay_command, spool_command, purge_command, stats_duplicates, schema_command, migrate_command, try_command,
	record_command, profile_list, profile_show, profile_check;
command_check_fn status_check, dashboard_check, dead_letters_check, webhooks_check, audit_check, export_check,
	purge_check, schema_check, try_check, record_check;

#endif
