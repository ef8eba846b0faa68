/* fleets.c owns which fleet an event belongs to. With --readers a listener hears some of the sources, and only those
 * who hear a source may lead it: they are a fleet of their own, which is made when the source is first heard. */
#include "road/fleets.h"

#include <stdlib.h>

#include "base/memory.h"

struct source_fleet {
	const char *source; /* as events have it: the same text at the same address; NULL: all */
	struct fleet *fleet;
};

struct fleets {
	uv_loop_t *loop;
	const struct config *config;
	char *name;
	struct redis *redis;
	bool is_resting;
	bool has_left;
	struct source_fleet *items;
	size_t count;
	size_t open; /* to be closed */
	void (*done)(void *arg);
	void *done_arg;
};

static struct fleet *find(const struct fleets *all, const char *source)
{
	if (!all->config->readers)
		source = NULL;
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].source == source)
			return all->items[i].fleet;
	return NULL;
}

static struct fleet *add(struct fleets *all, const char *source)
{
	struct fleet *f = fleet_open(all->loop, all->config, source, all->name);

	all->items = memory_realloc(all->items, (all->count + 1) * sizeof(*all->items));
	all->items[all->count++] = (struct source_fleet){source, f};
	fleet_set_redis(f, all->redis);
	if (all->is_resting)
		fleet_rest(f, true);
	if (all->has_left)
		fleet_leave(f);
	return f;
}

struct fleet *fleets_of(struct fleets *all, const char *source)
{
	struct fleet *f = find(all, source);

	return f ? f : add(all, source);
}

size_t fleets_size(const struct fleets *all)
{
	size_t most = 0;

	for (size_t i = 0; i < all->count; i++)
		if (fleet_size(all->items[i].fleet) > most)
			most = fleet_size(all->items[i].fleet);
	return most;
}

void fleets_suspect(struct fleets *all, const char *name, size_t len)
{
	for (size_t i = 0; i < all->count; i++)
		fleet_suspect(all->items[i].fleet, name, len);
}

void fleets_set_redis(struct fleets *all, struct redis *redis)
{
	all->redis = redis;
	for (size_t i = 0; i < all->count; i++)
		fleet_set_redis(all->items[i].fleet, redis);
}

void fleets_rest(struct fleets *all, bool is_resting)
{
	all->is_resting = is_resting;
	for (size_t i = 0; i < all->count; i++)
		fleet_rest(all->items[i].fleet, is_resting);
}

void fleets_leave(struct fleets *all)
{
	all->has_left = true;
	for (size_t i = 0; i < all->count; i++)
		fleet_leave(all->items[i].fleet);
}

/* --- life --- */

struct fleets *fleets_open(uv_loop_t *loop, const struct config *config, const char *name)
{
	struct fleets *all = memory_calloc(1, sizeof(*all));

	all->loop = loop;
	all->config = config;
	all->name = memory_strdup(name);
	if (!config->readers)
		add(all, NULL);
	return all;
}

static void on_closed(void *arg)
{
	struct fleets *all = arg;
	void (*done)(void *done_arg) = all->done;
	void *done_arg = all->done_arg;

	if (--all->open)
		return;
	free(all->items);
	free(all->name);
	free(all);
	done(done_arg);
}

void fleets_close(struct fleets *all, void (*done)(void *arg), void *arg)
{
	all->done = done;
	all->done_arg = arg;
	all->open = all->count + 1;
	for (size_t i = 0; i < all->count; i++)
		fleet_close(all->items[i].fleet, on_closed, all);
	on_closed(all);
}
