/* dispatch.h: the commands. A new one is a file that defines a struct subcommand, a line in
 * dispatch.c's list, and a section of help.txt. */
#ifndef WSONCE_DISPATCH_H
#define WSONCE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/config.h"
#include "commands/option.h"
#include "commands/session.h"

/* Exit statuses of commands. */
enum status {
	STATUS_FINE = 0,
	STATUS_FAILED = 1, /* something was found, or could not be done */
	STATUS_USAGE = 2,  /* a wrong option or setting: one line on standard error says which */
};

/* A command's arguments. They live until run returns. */
struct invocation {
	const struct config *config;
	struct config *own; /* config, if this process has read it: listen changes it */
	int argc;           /* the command line without the command's own options */
	char **argv;
	struct session *session; /* NULL for SESSION_NONE */
	const void *options;     /* the command's own struct */
	char **words;            /* the arguments that are not options */
	int word_count;
};

/* Settings of commands that use neither server, the store, the store and Redis, or both for one consumer's events. */
#define SETTINGS_NONE    ""
#define SETTINGS_STORE   "store postgres postgres-file postgres-timeout log-level log-format config"
#define SETTINGS_SERVERS SETTINGS_STORE " redis redis-file redis-ca redis-cert redis-key redis-timeout"
#define SETTINGS_BOTH    SETTINGS_SERVERS " claim-prefix consumer"

struct subcommand {
	const char *name;      /* one word, or two: "dead-letters list" */
	const char *arguments; /* as shown in the usage line: "ID", "DIR VERB", "[ID ...]" for any number; NULL: none */
	const char *settings; /* names of the settings that it uses, separated by blanks; NULL: all that it can parse */
	bool has_all_settings; /* it also has the settings of listen */
	const struct option *options;
	size_t option_count;
	size_t options_size;      /* size of the struct that the options fill, at most 512 */
	const void *defaults;     /* such a struct, or NULL: all zero */
	enum session_aim session; /* session of the invocation, opened before run */
	int without_session;      /* exit status if it cannot be opened; 0: STATUS_FAILED */
	/* Checks options that depend on each other. Returns NULL or one sentence. May be NULL. */
	const char *(*check)(const struct invocation *in);
	/* Returns the exit status. */
	int (*run)(const struct invocation *in);
};

/* Sets the members for a table of options that fill a struct. */
#define COMMAND_OPTIONS(table, into) \
	.options = (table), .option_count = sizeof(table) / sizeof((table)[0]), .options_size = sizeof(into)

/* Runs the command in argv[0] (and argv[1]), if there is one of that name, and sets *status. Returns
 * 0; or -1 if there is none. */
int dispatch_run(int argc, char **argv, int *status);
/* Returns the exit status of a program that ends with status; a failure if its output could not be written. */
int dispatch_end(int status);

/* Runs a command with the settings of this process; argv has none. What the command prints with dispatch_out() and
 * dispatch_fail() goes to out and errors. Several threads may call it at once. Returns the exit status. */
int dispatch_call(const struct config *config, int argc, char **argv, FILE *out, FILE *errors);

/* Where commands that dispatch_call() may run print. */
FILE *dispatch_out(void);

/* Returns "; did you mean status?" for a misspelt command, or "". Valid until the next call. */
const char *dispatch_ask_meant(const char *word);

/* True for -h and --help. */
bool dispatch_is_help(const char *word);

/* Prints the help of all commands as JSON, listen first, for deploy/pages. */
void dispatch_print_json(void);

/* Prints a line for each command, for wsonce --help. */
void dispatch_list(FILE *out);

/* Prints "wsonce: " and what went wrong, one line, to standard error. Returns STATUS_FAILED. */
int dispatch_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* While true, dispatch_fail() prints nothing on this thread: the caller shows dispatch_failure(). */
void dispatch_hush(bool is_quiet);
/* Returns the sentence of this thread's last dispatch_fail(). Valid until the next. */
const char *dispatch_failure(void);

#endif
