/* options.h: long options from one table, which makes the parser and --help. */
#ifndef WSONCE_OPTIONS_H
#define WSONCE_OPTIONS_H

#include <stddef.h>

enum option_kind {
	OPTION_COUNT,  /* value is a uint64_t */
	OPTION_NUMBER, /* value is a double */
	OPTION_TEXT,   /* value is a const char *, which points into argv */
	OPTION_TEXTS,  /* value is a struct option_texts; may be given again and again */
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
	void *value;            /* holds the default before, the choice after parsing */
	double lowest, highest; /* of a COUNT or NUMBER */
	const char *argument;   /* what --help calls the argument */
	const char *meaning;    /* for --help, in a few words */
};

enum options_result { OPTIONS_GO, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads argv into the table's values. HELP: the help is on standard output. WRONG: one line on
 * standard error says which option is wrong and why. usage is what --help prints above the table. */
enum options_result options_parse(const struct option_row *table, const char *usage, int argc, char **argv);

/* One line on standard error, "program: --name: why"; for what only the program can judge.
 * Returns 2, the exit status for it. */
int options_complain(const char *name, const char *why);

#endif
