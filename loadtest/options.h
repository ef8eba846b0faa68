/* options.h: long options, parsed and documented (--help) from one table. */
#ifndef WSONCE_OPTIONS_H
#define WSONCE_OPTIONS_H

#include <stddef.h>

enum option_kind {
	OPTION_COUNT,  /* value is a uint64_t */
	OPTION_NUMBER, /* value is a double */
	OPTION_TEXT,   /* value is a const char *, which points into argv */
	OPTION_TEXTS,  /* value is a struct option_texts; may be repeated */
	OPTION_FLAG,   /* value is a bool; takes no argument */
};

enum { OPTION_TEXTS_MOST = 64 };

struct option_texts {
	const char *items[OPTION_TEXTS_MOST]; /* point into argv */
	size_t count;
};

struct option_row {
	const char *name; /* without the two dashes; NULL ends the table */
	enum option_kind kind;
	void *value;            /* the default; replaced by parsing */
	double lowest, highest; /* for OPTION_COUNT and OPTION_NUMBER */
	const char *argument;   /* name of the argument in --help */
	const char *meaning;    /* for --help, in a few words */
};

enum options_result { OPTIONS_GO, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads argv into the table's values. HELP: printed the help on standard output. WRONG: printed one
 * line on standard error. --help prints usage above the table. */
enum options_result options_parse(const struct option_row *table, const char *usage, int argc, char **argv);

/* Prints "program: --name: why" on standard error, for errors that only the program can detect.
 * Returns 2, the exit status to use. */
int options_complain(const char *name, const char *why);

#endif
