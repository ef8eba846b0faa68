/* keys.c reads JSON objects into structs, by tables of the allowed keys and values. Errors name key and line. */
#include "config/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

int key_text(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	if (!json_is_string(value))
		return profile_fail(r, "must be a string");
	if (strlen(json_string_value(value)) != json_string_length(value))
		return profile_fail(r, "must not hold \\u0000");
	*(const char **)at = json_string_value(value);
	return 0;
}

int key_number(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	if (!json_is_integer(value) || json_number_value(value) < k->lowest || json_number_value(value) > k->highest)
		return profile_fail(r, "must be a whole number from %.0f to %.0f", k->lowest, k->highest);
	*(int64_t *)at = json_integer_value(value);
	return 0;
}

/* Reads seconds into milliseconds. */
int key_seconds(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !(number >= k->lowest && number <= k->highest))
		return profile_fail(r, "must be a number of seconds from %.9g to %.9g", k->lowest, k->highest);
	*(int64_t *)at = (int64_t)(number * 1000 + 0.5);
	return 0;
}

int key_real(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !(number >= k->lowest && number <= k->highest))
		return profile_fail(r, "must be a number from %g to %g", k->lowest, k->highest);
	*(double *)at = number;
	return 0;
}

int key_switch(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	if (!json_is_boolean(value))
		return profile_fail(r, "must be true or false");
	*(bool *)at = json_is_true(value);
	return 0;
}

/* Reads an enum. */
int key_choice(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	int place = json_is_string(value) ? find_word(k->words, json_string_value(value)) : -1;

	if (place < 0)
		return profile_fail(r, "must be one of: %s", k->words);
	*(int *)at = place + (int)k->lowest;
	return 0;
}

int key_keep(const json_t *value, void *at)
{
	*(const json_t **)at = value;
	return 0;
}

static int check_item(struct profile_reader *r, const char *name, const json_t *item, void *check)
{
	(void)name;
	return (*(key_check **)check)(r, item);
}

int key_check_each(struct profile_reader *r, const json_t *value, key_check *check)
{
	return profile_each(r, value, check_item, &check);
}

/* Keeps the value as JSON. */
int key_items(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	const struct items *items = k->items;

	if (!(items->is_array && json_is_array(value)) && !(items->is_object && json_is_object(value)))
		return profile_fail(r, "must be %s", items->what);
	return key_check_each(r, value, items->check) || key_keep(value, at);
}

int key_conditions(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	return profile_check_conditions(r, value) || key_keep(value, at);
}

int key_check_text(struct profile_reader *r, const json_t *item)
{
	return key_text(r, NULL, item, &(const char *){NULL});
}

static int refuse_key(struct profile_reader *r, const struct key_table *t, const char *name, const char *what)
{
	struct nearest n = profile_nearest(name);
	char all[100] = ": it has"; /* unless there are more */
	size_t used = strlen(all);

	for (size_t i = 0; i < t->count; i++) {
		nearest_offer(&n, t->keys[i].name);
		used += used < sizeof(all) ? (size_t)snprintf(all + used, sizeof(all) - used, " %s", t->keys[i].name)
					   : 0;
	}
	return profile_fail(r, "%s has no key \"%.60s\"%s", what, name,
			    n.best || used >= sizeof(all) ? profile_meant(&n) : all);
}

static int check_needed(struct profile_reader *r, const char *needed, const json_t *value)
{
	for (size_t n; *needed; needed += n + (needed[n] == ' ')) {
		n = strcspn(needed, " ");
		if (!json_object_getn(value, needed, n))
			return profile_fail(r, "%.*s is missing", (int)n, needed);
	}
	return 0;
}

int key_object(struct profile_reader *r, const struct key_table *t, const char *what, const json_t *value, void *at)
{
	const char *name;
	json_t *member;

	if (!json_is_object(value))
		return profile_fail(r, "must be an object, such as {\"%s\": ...}", t->keys[0].name);
	json_object_foreach((json_t *)value, name, member)
	{
		size_t i = 0;
		int result;

		while (i < t->count && strcmp(t->keys[i].name, name) != 0)
			i++;
		profile_enter(r, name, 0);
		result = i == t->count ? refuse_key(r, t, name, what)
				       : t->keys[i].read(r, &t->keys[i], member, (char *)at + t->keys[i].offset);
		profile_leave(r);
		if (result)
			return -1;
	}
	return check_needed(r, t->needed, value);
}

int key_members(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	return key_object(r, k->members, k->name, value, (char *)at - k->offset);
}
