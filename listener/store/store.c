/* store.c passes each call to the kind of store that was opened: Postgres or SQLite. */
#include "store/store.h"

#include "store/store_kind.h"

static const struct store_kind *kind_of(const struct store *s)
{
	return *(const struct store_kind *const *)s;
}

struct store *store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks)
{
	const struct store_kind *kind = config_store_path(config) ? &store_sqlite : &store_postgres;

	return kind->open(loop, config, callbacks);
}

struct store_view store_view(const struct store *s)
{
	return kind_of(s)->view(s);
}

bool store_is_sure(const struct store *s)
{
	return !kind_of(s)->is_sure || kind_of(s)->is_sure(s);
}

int store_ask_epoch(struct store *s)
{
	return kind_of(s)->ask_epoch ? kind_of(s)->ask_epoch(s) : 0;
}

void store_give_up(struct store *s)
{
	if (kind_of(s)->give_up)
		kind_of(s)->give_up(s);
}

void store_insert(struct store *s, const struct batch *b)
{
	kind_of(s)->insert(s, b);
}

void store_dead_letter(struct store *s, const struct batch *b)
{
	kind_of(s)->dead_letter(s, b);
}

int store_checkin(struct store *s, const char *text)
{
	return kind_of(s)->checkin(s, text);
}

int store_put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch)
{
	return kind_of(s)->put_cursors(s, cursors, epoch);
}

int store_read_cursors(struct store *s, const char *const *sources, size_t n)
{
	return kind_of(s)->read_cursors(s, sources, n);
}

void store_close(struct store *s, void (*done)(void *arg), void *arg)
{
	kind_of(s)->close(s, done, arg);
}
