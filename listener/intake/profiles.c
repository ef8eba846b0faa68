/* profiles.c reads the stored cursors of all sources in one query, and tells all sources when the database has lost
 * data. */
#include "intake/profiles.h"

#include <stdlib.h>

#include "base/memory.h"

struct profiles {
	struct pipeline *pipeline;
	const char **names; /* names of sources that may have a stored cursor */
	size_t name_count;
	bool is_reading; /* a query for the cursors is running */
	bool is_wanting; /* a source wants its cursor: read them again afterwards */
	bool is_closing;
	size_t count;
	struct profiled *items[];
};

static void on_cursor(void *arg, const struct cursor *cursor);

static void read_cursors(struct profiles *all)
{
	all->is_reading = true;
	all->is_wanting = false;
	for (size_t i = 0; i < all->count; i++)
		profiled_begin_reading(all->items[i]);
	storing_read_cursors(pipeline_storing(all->pipeline), all->names, all->name_count, on_cursor, all);
}

static void on_cursor(void *arg, const struct cursor *cursor)
{
	struct profiles *all = arg;

	all->is_reading = cursor;
	for (size_t i = 0; i < all->count && !all->is_closing; i++)
		if (cursor)
			profiled_restore(all->items[i], cursor);
		else
			profiled_end_reading(all->items[i]);
	if (!cursor && all->is_wanting && !all->is_closing)
		read_cursors(all);
}

static void on_wanting(void *arg)
{
	struct profiles *all = arg;

	all->is_wanting = true;
	if (!all->is_reading)
		read_cursors(all);
}

static void on_forgotten(void *arg)
{
	struct profiles *all = arg;

	for (size_t i = 0; i < all->count; i++)
		profiled_forget(all->items[i]);
}

struct profiles *profiles_open(const struct profiled_parts *parts, struct profile *const *profiles, size_t count)
{
	struct profiles *all = memory_calloc(1, sizeof(*all) + count * sizeof(struct profiled *));
	struct profiled_parts own = *parts;

	all->pipeline = parts->pipeline;
	all->count = count;
	all->names = memory_calloc(all->count + 1, sizeof(char *));
	own.on_wanting = on_wanting;
	own.arg = all;
	for (size_t i = 0; i < all->count; i++) {
		bool is_line = i && (profiles[i] == profiles[i - 1] || profiles[i]->shard.number > 1);

		if (!profiles[i]->redacted_url && !is_line)
			all->names[all->name_count++] = profiles[i]->name;
		all->items[i] = profiled_new(&own, profiles[i], is_line ? all->items[i - 1] : NULL);
	}
	if (all->name_count)
		storing_on_forgotten(pipeline_storing(all->pipeline), on_forgotten, all);
	for (size_t i = 0; i < all->count; i++)
		profiled_start(all->items[i]);
	return all;
}

struct profiled *profiles_at(const struct profiles *all, size_t i)
{
	return all->items[i];
}

void profiles_close(struct profiles *all)
{
	all->is_closing = true;
	for (size_t i = 0; i < all->count; i++)
		profiled_close(all->items[i]);
}

void profiles_free(struct profiles *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->count; i++)
		profiled_free(all->items[i]);
	free(all->names);
	free(all);
}
