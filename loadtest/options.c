/* options.c parses the command line by the table and prints the table. The programs check which
 * values go together. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int options_complain(const char *name, const char *why)
{
	fprintf(stderr, "%s: --%s: %s\n", program_invocation_short_name, name, why);
	return 2;
}

static void help_default(const struct option_row *row)
{
	const char *text;

	switch (row->kind) {
	case OPTION_COUNT:
		printf(" (default %llu)\n", (unsigned long long)*(uint64_t *)row->value);
		return;
	case OPTION_NUMBER:
		printf(" (default %g)\n", *(double *)row->value);
		return;
	case OPTION_TEXT:
		text = *(const char **)row->value;
		if (text)
			printf(" (default %s)", text);
		printf("\n");
		return;
	case OPTION_TEXTS:
	case OPTION_FLAG:
		printf("\n");
		return;
	}
}

static void help(const struct option_row *table, const char *usage)
{
	char left[64];

	printf("%s\n\nOptions:\n", usage);
	for (const struct option_row *row = table; row->name; row++) {
		snprintf(left, sizeof(left), "--%s %s", row->name, row->argument ? row->argument : "");
		printf("  %-24s %s", left, row->meaning);
		help_default(row);
	}
	printf("  %-24s %s\n", "--help", "print this");
}

static int wrong_range(const struct option_row *row, const char *text)
{
	fprintf(stderr, "%s: --%s: \"%s\" is not a %snumber from %.16g to %.16g\n", program_invocation_short_name,
		row->name, text, row->kind == OPTION_COUNT ? "whole " : "", row->lowest, row->highest);
	return -1;
}

static int set_count(const struct option_row *row, const char *text)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || (double)n < row->lowest || (double)n > row->highest)
		return wrong_range(row, text);
	*(uint64_t *)row->value = n;
	return 0;
}

static int set_number(const struct option_row *row, const char *text)
{
	char *end;
	double d;

	errno = 0;
	d = strtod(text, &end);
	if (end == text || *end || errno || !isfinite(d) || d < row->lowest || d > row->highest)
		return wrong_range(row, text);
	*(double *)row->value = d;
	return 0;
}

static int add_text(const struct option_row *row, const char *text)
{
	struct option_texts *texts = row->value;

	if (texts->count == OPTION_TEXTS_MOST) {
		options_complain(row->name, "given too many times");
		return -1;
	}
	texts->items[texts->count++] = text;
	return 0;
}

static int set(const struct option_row *row, const char *text)
{
	switch (row->kind) {
	case OPTION_COUNT:
		return set_count(row, text);
	case OPTION_NUMBER:
		return set_number(row, text);
	case OPTION_TEXT:
		*(const char **)row->value = text;
		return 0;
	case OPTION_TEXTS:
		return add_text(row, text);
	case OPTION_FLAG:
		*(bool *)row->value = true;
		return 0;
	}
	return -1;
}

static const struct option_row *find(const struct option_row *table, const char *name, size_t len)
{
	for (const struct option_row *row = table; row->name; row++)
		if (strlen(row->name) == len && !memcmp(row->name, name, len))
			return row;
	return NULL;
}

/* Reads the option at argv[*i], and its value if that is the next word. */
static int parse_one(const struct option_row *table, char **argv, int *i)
{
	const char *word = argv[*i];
	size_t len = strcspn(word, "=");
	const struct option_row *row = NULL;
	const char *text = word[len] ? word + len + 1 : NULL;

	if (!strncmp(word, "--", 2))
		row = find(table, word + 2, len - 2);
	if (!row) {
		fprintf(stderr, "%s: %.*s: unknown option; see --help\n", program_invocation_short_name, (int)len,
			word);
		return -1;
	}
	if (row->kind == OPTION_FLAG && text) {
		options_complain(row->name, "takes no value");
		return -1;
	}
	if (row->kind != OPTION_FLAG && !text && !(text = argv[++*i])) {
		options_complain(row->name, "needs a value");
		return -1;
	}
	return set(row, text);
}

enum options_result options_parse(const struct option_row *table, const char *usage, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help")) {
			help(table, usage);
			return OPTIONS_HELP;
		}
	for (int i = 1; i < argc; i++)
		if (parse_one(table, argv, &i))
			return OPTIONS_WRONG;
	return OPTIONS_GO;
}
