/* dispatch.h: the commands besides `listen`: what each is called, takes and does. A new one is a file
 * that defines a struct subcommand, and a line in dispatch.c's list. */
#ifndef WSONCE_DISPATCH_H
#define WSONCE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/config.h"
#include "commands/option.h"

/* Exit statuses of commands. */
enum status {
	STATUS_FINE = 0,
	STATUS_FAILED = 1, /* something was found, or could not be done */
	STATUS_USAGE = 2,  /* a wrong option or setting: one line on standard error says which */
};

/* What a command is run with. All of it lives until run returns. */
struct invocation {
	const struct config *config;
	const void *options; /* the command's own struct */
	char **words;        /* the arguments that are no options */
	int word_count;
};

/* Settings of commands that ask the store, or Redis too. */
#define SETTINGS_NONE  ""
#define SETTINGS_STORE "store postgres postgres-file postgres-timeout log-level log-format config"
#define SETTINGS_BOTH \
	SETTINGS_STORE " redis redis-file redis-ca redis-cert redis-key redis-timeout claim-prefix consumer"

struct subcommand {
	const char *name;      /* one word, or two: "dead-letters list" */
	const char *arguments; /* as shown in the usage line: "[ID ...]"; "" if it takes none */
	const char *summary;   /* one line, for wsonce --help */
	const char *help;      /* what it does; --help breaks the lines */
	const char *settings;  /* names of those that it uses, with a blank between; NULL: all that its parser knows */
	bool has_all_settings; /* also those of listening */
	int least_words;
	int most_words; /* -1: any number */
	const struct option *options;
	size_t option_count;
	size_t options_size;  /* of the struct that the options fill, at most 512 */
	const void *defaults; /* such a struct, or NULL: all zero */
	/* What no single option can tell; NULL: nothing. Returns NULL, or what is wrong, one sentence. */
	const char *(*check)(const struct invocation *in);
	/* Returns the exit status. */
	int (*run)(const struct invocation *in);
};

/* The members for a table of options, and the struct that they fill. */
#define COMMAND_OPTIONS(table, into) \
	.options = (table), .option_count = sizeof(table) / sizeof((table)[0]), .options_size = sizeof(into)

/* Runs the command in argv[0] (and argv[1]), if there is one of that name, and sets *status. Returns
 * 0; or -1 if there is none. */
int dispatch_run(int argc, char **argv, int *status);

/* The same in a program that runs with this config already: argv has no settings. What the command prints by
 * dispatch_out() and dispatch_fail() goes to these two. Other threads may call, too. Returns the exit status. */
int dispatch_call(const struct config *config, int argc, char **argv, FILE *out, FILE *errors);

/* What a command that can be called prints to. */
FILE *dispatch_out(void);

/* "; did you mean status?" of a word that is no command, or nothing; lives until the next call. */
const char *dispatch_ask_meant(const char *word);

/* Is this word -h or --help? */
bool dispatch_is_help(const char *word);

/* Prints the help of listen: the settings that most people use, or all. */
void dispatch_listen_help(bool is_all);

/* Prints what --help knows of each command, listen first, as JSON for deploy/pages. */
void dispatch_print_json(void);

/* Prints a line for each command, for wsonce --help. */
void dispatch_list(FILE *out);

/* Prints one line to standard error: "wsonce: " and what went wrong. Returns STATUS_FAILED. */
int dispatch_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What this thread's last call of dispatch_fail() said. Valid until the next. */
const char *dispatch_failure(void);

#endif
