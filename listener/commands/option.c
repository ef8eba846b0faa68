/* option.c reads a command's own options, by the table that --help uses, too. All others are config.c's. */
#include "commands/option.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "config/config.h"
#include "config/value.h"
#include "base/text.h"
#include "base/timestamp.h"

#define SPAN_MAX_US (36500 * QUANTITY_DAY)

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

/* Requires a unit, because a forgotten letter could turn minutes into hours. */
static int parse_span(const char *text, int64_t *us)
{
	int64_t span;
	size_t len = strlen(text);

	if (!len || (text[len - 1] >= '0' && text[len - 1] <= '9') || !quantity_duration(text, &span) ||
	    span > SPAN_MAX_US)
		return -1;
	*us = span;
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

static int parse_rate(const struct value_form *form, const char *text, int64_t *value)
{
	char digits[32];
	size_t len = strlen(text);

	len -= len > 2 && strcmp(text + len - 2, "/s") == 0 ? 2 : 0;
	if (len >= sizeof(digits))
		return -1;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return value_fault(form, digits, value) ? -1 : 0;
}

static int set_value(struct reader *r, const struct option *o, const char *text)
{
	struct value_form number = {VALUE_NUMBER, o->lowest, o->highest, NULL};
	struct value_form choice = {VALUE_CHOICE, 0, 0, o->choices};
	void *at = (char *)r->options->into + o->offset;
	const char *fault;
	char what[120];

	switch (o->type) {
	case OPTION_SWITCH:
		*(bool *)at = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)at = text;
		return *text ? 0 : fail(r, o, text, "is empty; is a shell variable not set?");
	case OPTION_NUMBER:
		fault = value_fault(&number, text, at);
		return fault ? fail(r, o, text, fault) : 0;
	case OPTION_RATE:
		snprintf(what, sizeof(what), "is not a number from %lld to %lld per second", (long long)o->lowest,
			 (long long)o->highest);
		return parse_rate(&number, text, at) ? fail(r, o, text, what) : 0;
	case OPTION_SPAN:
		if (parse_span(text, at))
			return fail(r, o, text, "is not a time such as 90s, 30m, 12h or 7d");
		return *(int64_t *)at < o->lowest ? fail(r, o, text, "must be longer than 0") : 0;
	case OPTION_MOMENT:
		if (parse_moment(text, at) == 0) {
			*(int64_t *)at += !*(int64_t *)at; /* 0 means not given */
			return 0;
		}
		return fail(r, o, text,
			    "is neither RFC 3339, such as 2026-11-21T08:30:00Z, nor an age such as 30m, 12h or 7d");
	case OPTION_CHOICE:
		*(const char **)at = text;
		fault = value_fault(&choice, text, NULL);
		return fault ? fail(r, o, text, fault) : 0;
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

/* Refuses a name that is nearer to an option than to any setting. config.c refuses other unknown ones. */
static int refuse_misspelt(struct reader *r, const char *command, const char *settings_of, const char *name)
{
	const char *option;
	struct nearest n;
	char meant[100];

	nearest_init(&n, name, strcspn(name, "="));
	for (size_t i = 0; i < r->options->count; i++)
		nearest_offer(&n, r->options->table[i].flag);
	option = n.best;
	config_offer(&n, settings_of);
	if (!option || n.best != option)
		return 0;
	snprintf(r->error, r->error_size, "unknown option --%.*s%s (see wsonce %s --help)", (int)n.len, name,
		 nearest_ask(&n, "--", meant, sizeof(meant)), command);
	return -1;
}

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

/* As in config.c, the value of a setting without = is the next word, unless the setting is a switch. */
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
		if (o ? read_option(&r, o, count, argv, &i)
		      : is_flag && refuse_misspelt(&r, command, argv[0], argv[i] + 2))
			return -1;
		if (!is_flag)
			words[(*word_count)++] = argv[i];
		if (!is_flag || o)
			continue;
		argv[left++] = argv[i];
		if (!strchr(argv[left - 1], '=') && !config_is_switch(argv[left - 1] + 2, strlen(argv[left - 1] + 2)) &&
		    i + 1 < count)
			argv[left++] = argv[++i];
	}
	*argc = left;
	return 0;
}

void options_help(const struct option *table, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		char head[80];

		snprintf(head, sizeof(head), "  --%s%s%s", table[i].flag, table[i].value ? " " : "",
			 table[i].value ? table[i].value : "");
		text_wrap(out, head, 28, table[i].meaning);
	}
}
