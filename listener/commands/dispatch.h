/* dispatch.h: finds and runs commands; table.h has them. */
#ifndef WSONCE_DISPATCH_H
#define WSONCE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/config.h"
#include "commands/session.h"

/* Exit statuses of commands. */
enum status {
	STATUS_FINE = 0,
	STATUS_FAILED = 1, /* something was found, or could not be done */
	STATUS_USAGE = 2,  /* a wrong option or setting: one line on standard error says which */
};

struct given;

/* A command's arguments. They live until run returns. */
struct invocation {
	const struct config *config;
	struct config *own; /* the same as config if this process has read it, for listen to change; else NULL */
	int argc;           /* the command line */
	char **argv;
	struct session *session;     /* NULL for SESSION_NONE */
	const char *name;            /* of the command */
	const struct given *options; /* table.h has them */
	char **words;                /* the arguments that are not options */
	int word_count;
};

/* Runs the command in argv[0] (and argv[1]), if there is one of that name, and sets *status. Returns
 * 0; or -1 if there is none. */
int dispatch_run(int argc, char **argv, int *status);
/* Returns the exit status of a program that ends with status; a failure if its output could not be written. */
int dispatch_end(int status);

/* Runs a command with the settings of this process; argv has none. What the command prints with dispatch_out() and
 * dispatch_fail() goes to out and errors. Several threads may call it at once. Returns the exit status. */
int dispatch_call(const struct config *config, int argc, char **argv, FILE *out, FILE *errors);

/* Returns the stream to print to, for commands that dispatch_call() may run. */
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
/* The same for a wrong option or setting. Is STATUS_USAGE. */
#define dispatch_refuse(...) (dispatch_fail(__VA_ARGS__), STATUS_USAGE)
/* While true, dispatch_fail() prints nothing on this thread: the caller shows dispatch_failure(). */
void dispatch_hush(bool is_quiet);
/* Returns the sentence of this thread's last dispatch_fail(). Valid until the next. */
const char *dispatch_failure(void);

#endif
