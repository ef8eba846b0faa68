/* summary.c prints results, so that all programs report alike. It keeps a JSON object, which
 * preserves the order of the figures. */
#include "summary.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct summary {
	json_t *figures;
};

struct summary *summary_new(void)
{
	struct summary *s = calloc(1, sizeof(*s));

	if (s)
		s->figures = json_object();
	return s;
}

static void add(struct summary *s, const char *name, json_t *value)
{
	if (s)
		json_object_set_new(s->figures, name, value);
	else
		json_decref(value);
}

void summary_count(struct summary *s, const char *name, uint64_t value)
{
	add(s, name, json_integer((json_int_t)value));
}

void summary_number(struct summary *s, const char *name, double value)
{
	add(s, name, json_real(value));
}

void summary_text(struct summary *s, const char *name, const char *value)
{
	add(s, name, json_string(value));
}

void summary_texts(struct summary *s, const char *name, const char *const *values, unsigned int count)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(array, json_string(values[i]));
	add(s, name, array);
}

static void print_value(const json_t *value)
{
	const json_t *item;
	size_t i;

	if (json_is_integer(value))
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		printf("%.3f", json_real_value(value));
	else if (json_is_string(value))
		fputs(json_string_value(value), stdout);
	json_array_foreach(value, i, item) printf(i ? ", %s" : "%s", json_string_value(item));
}

static void print_figure(const char *name, const json_t *value)
{
	int width = 24;

	for (; *name; name++, width--)
		putchar(*name == '_' ? ' ' : *name);
	printf("%*s", width > 0 ? width : 1, "");
	print_value(value);
	putchar('\n');
}

void summary_print(const struct summary *s, bool as_json)
{
	const char *name;
	json_t *value;

	if (!s)
		return;
	if (as_json) {
		json_dumpf(s->figures, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
		putchar('\n');
	} else {
		json_object_foreach(s->figures, name, value) print_figure(name, value);
	}
	fflush(stdout);
}

void summary_free(struct summary *s)
{
	if (!s)
		return;
	json_decref(s->figures);
	free(s);
}
