/* payload_filter.c translates conditions into SQL. Postgres compares a jsonb number by its value, so here 1 is 1.0,
 * unlike in a profile (feed/condition.c). */
#include "store/payload_filter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/text.h"

void payload_filter_text(struct bytes *sql, const char *text)
{
	size_t len = strlen(text);

	bytes_add_text(sql, "pg_catalog.convert_from(pg_catalog.decode('");
	write_hex(bytes_reserve(sql, 2 * len), text, len);
	sql->len += 2 * len;
	bytes_add_text(sql, "', 'hex'), 'UTF8')");
}

/* Adds the value at a pointer (RFC 6901). Postgres would take -1 and 00 as indices of arrays, so steps that are not an
 * index become texts: -> with a text finds nothing in an array. */
static void add_value(struct bytes *sql, const char *column, const char *pointer)
{
	struct json_step steps[JSON_STEPS_MAX];
	int count = json_steps(pointer, steps, JSON_STEPS_MAX);

	bytes_add_text(sql, "(");
	bytes_add_text(sql, column);
	for (int i = 0; i < count; i++) {
		bytes_add_text(sql, steps[i].index < 0 ? " -> " : " #> ARRAY[");
		payload_filter_text(sql, steps[i].name);
		bytes_add_text(sql, steps[i].index < 0 ? "" : "]");
	}
	bytes_add_text(sql, ")");
	json_steps_free(steps, count);
}

/* jansson writes 0.1 as 0.10000000000000001, which Postgres keeps as another number. */
static void add_json(struct bytes *sql, const json_t *value)
{
	char *text = memory_given(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), "jansson");
	struct bytes canonical = {.at = NULL};

	json_write_canonical(&canonical, (struct slice){text, strlen(text)});
	payload_filter_text(sql, bytes_text(&canonical));
	bytes_add_text(sql, "::jsonb");
	bytes_free(&canonical);
	free(text);
}

/* wanted is a value, or an array of values of which one must be equal. */
static void add_equal(struct bytes *sql, const char *value, const json_t *wanted)
{
	const json_t *item;
	size_t i;

	bytes_add_text(sql, value);
	bytes_add_text(sql, " IN (");
	if (!json_is_array(wanted))
		add_json(sql, wanted);
	json_array_foreach(wanted, i, item)
	{
		bytes_add_text(sql, i ? ", " : "");
		add_json(sql, item);
	}
	bytes_add_text(sql, ")");
}

static void add_typed(struct bytes *sql, const char *value, const char *type)
{
	bool is_integer = strcmp(type, "integer") == 0;
	char *text = is_integer
			     ? memory_printf(
				       "CASE WHEN pg_catalog.jsonb_typeof(%s) = 'number' THEN %s::numeric %% 1 = 0 END",
				       value, value)
			     : memory_printf("pg_catalog.jsonb_typeof(%s) = '%s'", value, type);

	bytes_add_text(sql, text);
	free(text);
}

static void add_compared(struct bytes *sql, const char *value, const char *operator, const json_t * number)
{
	add_typed(sql, value, "number");
	bytes_add_text(sql, " AND ");
	bytes_add_text(sql, value);
	bytes_add_text(sql, operator);
	add_json(sql, number);
}

static void add_prefixed(struct bytes *sql, const char *value, const char *prefix)
{
	add_typed(sql, value, "string");
	bytes_add_text(sql, " AND pg_catalog.starts_with(");
	bytes_add_text(sql, value);
	bytes_add_text(sql, " #>> '{}', ");
	payload_filter_text(sql, prefix);
	bytes_add_text(sql, ")");
}

static void add_operator(struct bytes *sql, const char *value, const char *name, const json_t *wanted)
{
	if (strcmp(name, "exists") == 0) {
		bytes_add_text(sql, json_is_true(wanted) ? "" : "NOT ");
		bytes_add_text(sql, "coalesce(");
		bytes_add_text(sql, value);
		bytes_add_text(sql, " <> 'null'::jsonb, false)");
	} else if (strcmp(name, "not") == 0) {
		bytes_add_text(sql, "(");
		add_equal(sql, value, wanted);
		bytes_add_text(sql, ") IS NOT TRUE");
	} else if (strcmp(name, "prefix") == 0) {
		add_prefixed(sql, value, json_string_value(wanted));
	} else if (strcmp(name, "type") == 0) {
		add_typed(sql, value, json_string_value(wanted));
	} else {
		add_compared(sql, value, strcmp(name, "gte") == 0 ? " >= " : " < ", wanted);
	}
}

static void add_condition(struct bytes *sql, const char *value, const json_t *wanted)
{
	const char *name, *separator = "";
	json_t *operand;

	if (!json_is_object(wanted)) {
		add_equal(sql, value, wanted);
		return;
	}
	bytes_add_text(sql, json_object_size(wanted) ? "" : "true");
	json_object_foreach((json_t *)wanted, name, operand)
	{
		bytes_add_text(sql, separator);
		add_operator(sql, value, name, operand);
		separator = " AND ";
	}
}

void payload_filter_write(struct bytes *sql, const char *column, const json_t *when)
{
	const char *pointer, *separator = "";
	json_t *wanted;

	bytes_add_text(sql, json_object_size(when) ? "" : "true");
	json_object_foreach((json_t *)when, pointer, wanted)
	{
		struct bytes value = {.at = NULL};

		add_value(&value, column, pointer);
		bytes_add_text(sql, separator);
		add_condition(sql, bytes_text(&value), wanted);
		separator = " AND ";
		bytes_free(&value);
	}
}
