/* option.c owns the reading of a command's own options. Each command has a table of them, which the
 * parser and --help both read; what is not in it is left to config.c. */
#include "commands/option.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "config/config.h"
#include "base/timestamp.h"

#define SPAN_MAX_S (INT64_C(36500) * 86400)

struct reader {
	const struct options *options;
	char *error;
	size_t error_size;
};

static int fail(struct reader *r, const struct option *o, const char *text, const char *what)
{
	snprintf(r->error, r->error_size, "--%s: \"%.80s\" %s", o->flag, text, what);
	return -1;
}

static int parse_span(const char *text, int64_t *us)
{
	int64_t seconds;

	if (!timestamp_parse_age(text, &seconds) || seconds > SPAN_MAX_S)
		return -1;
	*us = seconds * 1000000;
	return 0;
}

static int parse_moment(const char *text, int64_t *us)
{
	int64_t span;

	if (timestamp_parse(text, strlen(text), TIMESTAMP_RFC3339, us))
		return 0;
	if (parse_span(text, &span))
		return -1;
	*us = clock_us(CLOCK_REALTIME) - span;
	return 0;
}

static int parse_number(const struct option *o, const char *text, int64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*value = strtoll(text, &end, 10);
	if (o->type == OPTION_RATE && strcmp(end, "/s") == 0)
		end += 2;
	return *end || errno || *value < o->lowest || *value > o->highest ? -1 : 0;
}

static int set_value(struct reader *r, const struct option *o, const char *text)
{
	void *at = (char *)r->options->into + o->offset;
	char what[120];

	switch (o->type) {
	case OPTION_SWITCH:
		*(bool *)at = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)at = text;
		return *text ? 0 : fail(r, o, text, "is empty; is a shell variable not set?");
	case OPTION_NUMBER:
	case OPTION_RATE:
		snprintf(what, sizeof(what), "is not a number from %lld to %lld%s", (long long)o->lowest,
			 (long long)o->highest, o->type == OPTION_RATE ? " per second" : "");
		return parse_number(o, text, at) ? fail(r, o, text, what) : 0;
	case OPTION_SPAN:
		return parse_span(text, at) ? fail(r, o, text, "is not a time as in 90s, 30m, 12h or 7d") : 0;
	case OPTION_MOMENT:
		if (parse_moment(text, at) == 0)
			return 0;
		return fail(r, o, text, "is neither RFC 3339, as in 2026-11-21T08:30:00Z, nor as in 30m, 12h or 7d");
	case OPTION_CHOICE:
		*(const char **)at = text;
		snprintf(what, sizeof(what), "is not one of: %s", o->choices);
		return config_is_choice(o->choices, text) ? 0 : fail(r, o, text, what);
	}
	return -1;
}

static const struct option *find_option(const struct options *options, const char *name, size_t len)
{
	for (size_t i = 0; i < options->count; i++)
		if (strlen(options->table[i].flag) == len && strncmp(options->table[i].flag, name, len) == 0)
			return &options->table[i];
	return NULL;
}

/* The option argv[*i], with its value, which may be the next word. */
static int read_option(struct reader *r, const struct option *o, int argc, char **argv, int *i)
{
	const char *value = strchr(argv[*i], '=');

	if (o->type == OPTION_SWITCH && value) {
		snprintf(r->error, r->error_size, "--%s: takes no value", o->flag);
		return -1;
	}
	if (o->type != OPTION_SWITCH && !value && *i + 1 == argc) {
		snprintf(r->error, r->error_size, "--%s: needs a value", o->flag);
		return -1;
	}
	if (o->type != OPTION_SWITCH)
		value = value ? value + 1 : argv[++*i];
	return set_value(r, o, value);
}

/* A setting without = takes the next word with it, as config.c reads it. */
int options_read(const struct options *options, const char *command, int *argc, char **argv, char **words,
		 int *word_count, char *error, size_t size)
{
	struct reader r = {options, error, size};
	bool is_over = false;
	int left = 1, count = *argc;

	*word_count = 0;
	for (int i = 1; i < count; i++) {
		bool is_flag = !is_over && strncmp(argv[i], "--", 2) == 0;
		const struct option *o = NULL;

		if (is_flag && !argv[i][2]) {
			is_over = true;
			continue;
		}
		if (!is_over && !is_flag && argv[i][0] == '-' && argv[i][1]) {
			snprintf(error, size, "\"%.80s\" is not an option; see wsonce %s --help", argv[i], command);
			return -1;
		}
		if (is_flag)
			o = find_option(options, argv[i] + 2, strcspn(argv[i] + 2, "="));
		if (o && read_option(&r, o, count, argv, &i))
			return -1;
		if (!is_flag)
			words[(*word_count)++] = argv[i];
		if (!is_flag || o)
			continue;
		argv[left++] = argv[i];
		if (!strchr(argv[left - 1], '=') && i + 1 < count)
			argv[left++] = argv[++i];
	}
	*argc = left;
	return 0;
}

void options_help(const struct option *table, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		char head[80];

		snprintf(head, sizeof(head), "--%s%s%s", table[i].flag, table[i].value ? " " : "",
			 table[i].value ? table[i].value : "");
		fprintf(out, "  %-30s %s\n", head, table[i].meaning);
	}
}
