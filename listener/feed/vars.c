/* vars.c owns the variables of a source. There are at most a dozen, so lookup is linear. */
#include "feed/vars.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/memory.h"

struct variable {
	char *name;
	struct bytes value; /* JSON; empty: not set */
	bool is_first;      /* initial value, from the profile */
};

static struct variable *find(const struct vars *v, const char *name, size_t len)
{
	for (size_t i = 0; i < v->count; i++)
		if (strncmp(v->items[i].name, name, len) == 0 && !v->items[i].name[len])
			return &v->items[i];
	return NULL;
}

static struct variable *find_or_add(struct vars *v, const char *name)
{
	struct variable *found = find(v, name, strlen(name));

	if (found)
		return found;
	v->items = memory_realloc(v->items, (v->count + 1) * sizeof(*v->items));
	v->items[v->count] = (struct variable){.name = memory_strdup(name)};
	return &v->items[v->count++];
}

static void put(struct vars *v, const char *name, const char *text, size_t len, bool is_first)
{
	struct variable *at = find_or_add(v, name);

	at->value.len = 0;
	at->is_first = is_first;
	bytes_add(&at->value, text, len);
}

/* Has no length limit: the profile's own values may be long. */
static void set_first(struct vars *v, const char *name, const json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	put(v, name, text, strlen(text), true);
	free(text);
}

void vars_init(struct vars *v, const json_t *first)
{
	const char *name;
	json_t *value;

	*v = (struct vars){.first = first};
	json_object_foreach((json_t *)first, name, value) set_first(v, name, value);
}

void vars_free(struct vars *v)
{
	for (size_t i = 0; i < v->count; i++) {
		free(v->items[i].name);
		bytes_free(&v->items[i].value);
	}
	free(v->items);
	*v = (struct vars){.items = NULL};
}

struct slice vars_get(const struct vars *v, const char *name, size_t len)
{
	struct variable *found = find(v, name, len);

	return found && found->value.len ? bytes_slice(&found->value) : (struct slice){NULL, 0};
}

bool vars_is_first(const struct vars *v, const char *name, size_t len)
{
	const struct variable *found = find(v, name, len);

	return found && found->is_first && !(v->listed && strcmp(found->name, v->listed) == 0);
}

bool vars_set(struct vars *v, const char *name, struct slice value)
{
	if (value.len > VARS_BYTES_MAX)
		return false;
	put(v, name, value.at, value.len, false);
	return true;
}

void vars_clear(struct vars *v, const char *name)
{
	const json_t *first = json_object_get(v->first, name);
	struct variable *found = find(v, name, strlen(name));

	if (first)
		set_first(v, name, first);
	else if (found)
		found->value.len = 0;
}

size_t vars_bytes(const struct vars *v)
{
	size_t sum = v->count * sizeof(*v->items);

	for (size_t i = 0; i < v->count; i++)
		sum += strlen(v->items[i].name) + 1 + v->items[i].value.size;
	return sum;
}

void vars_save(const struct vars *v, struct bytes *out)
{
	bytes_add_byte(out, '{');
	for (size_t i = 0; i < v->count; i++) {
		const struct variable *at = &v->items[i];

		if (!at->value.len || at->is_first)
			continue;
		if (out->at[out->len - 1] != '{') /* no value ends with it */
			bytes_add_byte(out, ',');
		json_write_string(out, at->name, strlen(at->name));
		bytes_add_byte(out, ':');
		bytes_add(out, at->value.at, at->value.len);
	}
	bytes_add_byte(out, '}');
}
