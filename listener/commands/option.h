/* option.h: a command's own options, besides the settings of config.h. */
#ifndef WSONCE_OPTION_H
#define WSONCE_OPTION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_SWITCH, /* bool; takes no value */
	OPTION_TEXT,   /* const char *, inside argv; NULL: not given */
	OPTION_NUMBER, /* int64_t */
	OPTION_SPAN,   /* int64_t, microseconds: 90s, 30m, 12h or 7d; 0: not given */
	OPTION_MOMENT, /* int64_t, microseconds since 1970: RFC 3339, or a span before now; 0: not given */
	OPTION_RATE,   /* int64_t, per second: 500/s or 500 */
	OPTION_CHOICE, /* const char *, one of choices */
};

struct option {
	const char *flag; /* without the dashes */
	enum option_type type;
	size_t offset;     /* offset in the command's struct of options */
	const char *value; /* name of the value in --help; NULL for a switch */
	int64_t lowest;    /* for numbers and rates; 1 for a span that must not be 0 */
	int64_t highest;
	const char *choices; /* OPTION_CHOICE: words separated by one blank */
	const char *meaning;
};

struct options {
	const struct option *table;
	size_t count;
	void *into; /* the command's struct, zero or with its defaults */
};

/* Removes these options and the words that are not options from argv[1..*argc-1]; "-" and everything after "--" are
 * words. The settings stay in argv and *argc for config_read. Returns 0; or -1 with one sentence in error, which names
 * command. */
int options_read(const struct options *options, const char *command, int *argc, char **argv, char **words,
		 int *word_count, char *error, size_t size);

/* Prints the table for --help. */
void options_help(const struct option *table, size_t count, FILE *out);

#endif
