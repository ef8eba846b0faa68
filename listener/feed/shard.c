/* shard.c divides the list of a profile. Each listener does so alone, so the result must depend on nothing but the
 * items: they choose one after the other, in the order of their hashes, the connection that rendezvous hashing prefers
 * among those with room. Adding or removing an item moves only later items, and only if the connection they prefer has
 * become full or has room again. */
#include "feed/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

#define LIST_BYTES (16 << 20)
#define BLANKS     " \t\r\n"

/* --- sets of items: objects whose names are the items as JSON, since 1 and "1" differ --- */

/* Returns false if value cannot be an item. */
static bool add_item(json_t *set, const json_t *value)
{
	const char *text = json_string_value(value);
	size_t from = text ? strspn(text, BLANKS) : 0, to = json_string_length(value);
	json_t *item;
	char *name;

	while (to > from && strchr(BLANKS, text[to - 1]))
		to--;
	if (!text && !json_is_number(value))
		return false;
	item = text ? json_stringn(text + from, to - from) : json_incref((json_t *)value);
	name = json_dumps(item, JSON_ENCODE_ANY | JSON_COMPACT);
	if (!text || to > from)
		json_object_set(set, name, item);
	json_decref(item);
	free(name);
	return true;
}

/* Returns a new set, or NULL after writing why. */
static json_t *make_set(const json_t *array, char why[SHARD_REASON])
{
	json_t *set = json_object();
	size_t i = 0, n = json_array_size(array);

	while (i < n && add_item(set, json_array_get(array, i)))
		i++;
	if (i == n && json_object_size(set))
		return set;
	snprintf(why, SHARD_REASON, i == n ? "it has no items" : "item %zu is neither a string nor a number", i + 1);
	json_decref(set);
	return NULL;
}

/* A line that is not UTF-8 or has a NUL becomes null, which make_set() refuses. */
static json_t *split_lines(struct slice text)
{
	json_t *lines = json_array(), *line;
	const char *end;

	for (size_t len; text.len; text = (struct slice){text.at + len, text.len - len}) {
		end = memchr(text.at, '\n', text.len);
		len = end ? (size_t)(end - text.at) + 1 : text.len;
		line = memchr(text.at, '\0', len) ? NULL : json_stringn(text.at, len);
		json_array_append_new(lines, line ? line : json_null());
	}
	return lines;
}

/* --- the cut --- */

struct item {
	uint64_t hash; /* first, for hash_compare */
	const char *name;
	json_t *value;
};

static int compare_items(const void *a, const void *b)
{
	int order = hash_compare(a, b);

	return order ? order : strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static struct item *sort_items(json_t *set)
{
	struct item *all = memory_calloc(json_object_size(set), sizeof(*all)), *at = all;
	const char *name;
	json_t *value;

	json_object_foreach(set, name, value) *at++ =
		(struct item){hash_mix(hash_text(name, strlen(name))), name, value};
	qsort(all, json_object_size(set), sizeof(*all), compare_items);
	return all;
}

/* Returns which of count parts with room the item prefers. */
static size_t choose_part(const size_t *room, size_t count, uint64_t hash)
{
	size_t chosen = count;
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t score = room[i] ? hash_score(hash_mix(i + 1), hash) : 0;

		if (room[i] && (chosen == count || score > most)) {
			chosen = i;
			most = score;
		}
	}
	return chosen;
}

/* Frees set, which may be NULL. */
static json_t *cut(const struct profile *p, json_t *set, char why[SHARD_REASON])
{
	size_t n = json_object_size(set), each = (size_t)p->shard.per_connection, count = (n + each - 1) / each;
	size_t room[PROFILE_SHARDS_MAX] = {0};
	json_t *parts = NULL;
	struct item *items;

	if (count > (size_t)p->shard.most) {
		snprintf(why, SHARD_REASON, SHARD_TOO_MANY, n, count, each, (size_t)p->shard.most);
	} else if (set) {
		items = sort_items(set);
		parts = json_array();
		for (size_t i = 0; i < count; i++) {
			json_array_append_new(parts, json_array());
			room[i] = each;
		}
		for (size_t i = 0; i < n; i++) {
			size_t part = choose_part(room, count, items[i].hash);

			room[part]--;
			json_array_append(json_array_get(parts, part), items[i].value);
		}
		free(items);
	}
	json_decref(set);
	return parts;
}

json_t *shard_cut(const struct profile *p, struct slice list, char why[SHARD_REASON])
{
	json_error_t error;
	size_t mark = text_mark_len(list.at, list.len);
	const char *first = json_skip_blanks(list.at + mark, list.at + list.len);
	bool is_json = first < list.at + list.len && strchr("[{<", *first);
	json_t *array, *parts = NULL;

	list = (struct slice){list.at + mark, list.len - mark};
	array = is_json ? json_loadb(list.at, list.len, 0, &error) : split_lines(list);
	if (array)
		parts = cut(p, make_set(array, why), why);
	else
		snprintf(why, SHARD_REASON, "line %d, column %d: %.200s", error.line, error.column, error.text);
	json_decref(array);
	return parts;
}

json_t *shard_load(const struct profile *p, char why[SHARD_REASON])
{
	const json_t *value = json_object_get(p->vars, p->shard.var);
	size_t len = profile_file_len(json_string_value(value));
	char *path, *text, reason[SHARD_REASON];
	json_t *parts = NULL;

	*why = '\0';
	if (!len)
		return json_array_size(value) ? cut(p, make_set(value, why), why) : NULL;
	path = memory_strndup(json_string_value(value) + strlen("${file:"), len);
	text = file_read(path, LIST_BYTES, &len);
	if (!text || !(parts = shard_cut(p, (struct slice){text, len}, reason)))
		snprintf(why, SHARD_REASON, "%.120s: %.170s", path, text ? reason : strerror(errno));
	free(text);
	free(path);
	return parts;
}

json_t *shard_without(const json_t *items, const json_t *others)
{
	json_t *set = json_object(), *rest = json_array(), *value;
	size_t i;

	json_array_foreach(others, i, value) add_item(set, value);
	json_array_foreach(items, i, value)
	{
		size_t before = json_object_size(set);

		add_item(set, value);
		if (json_object_size(set) > before)
			json_array_append(rest, value);
	}
	json_decref(set);
	return rest;
}

/* --- profiles --- */

struct profile *shard_profile(const struct profile *p, size_t number)
{
	struct profile *one = memory_calloc(1, sizeof(*one));

	*one = *p;
	one->name = memory_printf("%s/%zu", p->name, number);
	one->row_source = memory_strdup(p->name);
	one->shard.number = number;
	one->vars = p->vars ? json_copy((json_t *)p->vars) : json_object();
	one->root = json_copy(p->root); /* searched for secrets: leave out the items */
	json_object_del(one->root, "vars");
	shard_set(one, NULL);
	return one;
}

void shard_set(struct profile *shard, json_t *items)
{
	json_object_set_new((json_t *)shard->vars, shard->shard.var, items ? json_incref(items) : json_array());
	shard->shard.is_idle = !items;
}

const json_t *shard_items(const struct profile *shard)
{
	return json_object_get(shard->vars, shard->shard.var);
}

void shard_free(struct profile *shard)
{
	if (!shard)
		return;
	free((char *)shard->name);
	free(shard->row_source);
	json_decref(shard->root);
	json_decref((json_t *)shard->vars);
	free(shard);
}
