/* roster.c owns what is known of the listeners of a fleet. Only speed and order depend on it. */
#include "road/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define ID_LEN 17 /* of a source: a blank and 16 hex digits */

static bool is_named(const struct peer *p, const char *name, size_t len)
{
	return p->len == len && memcmp(p->name, name, len) == 0;
}

static void free_peer(struct peer *p)
{
	free(p->name);
	free(p->sources);
}

static size_t find_place(struct roster *r)
{
	size_t oldest = 0;

	if (r->count < ROSTER_MAX)
		return r->count++;
	for (size_t i = 1; i < r->count; i++)
		if (r->peers[i].met_ms < r->peers[oldest].met_ms)
			oldest = i;
	free_peer(&r->peers[oldest]);
	return oldest;
}

static void add(struct roster *r, const char *name, size_t len)
{
	r->last = find_place(r);
	r->peers[r->last] =
		(struct peer){.name = memory_printf("%.*s", (int)len, name), .len = len, .seed = hash_text(name, len)};
}

uint16_t roster_find(struct roster *r, const char *name, size_t len, int64_t now_ms)
{
	if (!len || len > ROSTER_NAME_MAX || memchr(name, '\0', len))
		return 0;
	for (size_t i = 0; i < r->count && !(r->last < r->count && is_named(&r->peers[r->last], name, len)); i++)
		r->last = i;
	if (r->last >= r->count || !is_named(&r->peers[r->last], name, len))
		add(r, name, len);
	r->peers[r->last].met_ms = now_ms;
	return (uint16_t)(r->last + 1);
}

struct peer *roster_peer(struct roster *r, uint16_t number)
{
	return number && number <= r->count ? &r->peers[number - 1] : NULL;
}

/* --- what they say --- */

void roster_begin(struct roster *r)
{
	for (size_t i = 0; i < r->count; i++)
		r->peers[i].is_alive = false;
}

/* " ID ID ...", whose end is not a digit. */
static void read_sources(struct peer *p, const char *at, const char *end)
{
	size_t n = (size_t)(end - at) / ID_LEN;

	p->sources = memory_realloc(p->sources, (n + 1) * sizeof(*p->sources));
	p->source_count = n;
	for (size_t i = 0; i < n; i++)
		p->sources[i] = strtoull(at + i * ID_LEN, NULL, 16);
	qsort(p->sources, n, sizeof(*p->sources), hash_compare);
}

void roster_note(struct roster *r, const char *name, size_t name_len, const char *said, size_t len, int64_t now_ms)
{
	struct peer *p = roster_peer(r, roster_find(r, name, name_len, now_ms));
	const char *end = memchr(said, '\n', len);
	char state;
	int read = 0;

	if (!p)
		return;
	p->is_alive = true;
	p->state = PEER_WORKING;
	p->source_count = 0;
	if (sscanf(said, "1 %39s %c%n", p->client, &state, &read) != 2 || !end || said + read > end) {
		*p->client = '\0';
		return;
	}
	p->state = state == 'd' ? PEER_DRAINING : state == 'p' ? PEER_PASSIVE : PEER_WORKING;
	read_sources(p, said + read, end);
}

size_t roster_alive(const struct roster *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->peers[i].is_alive;
	return n;
}

/* --- who leads --- */

static bool may_lead(const struct peer *p, uint64_t source, int64_t now_ms)
{
	bool is_suspect = p->suspect_ms && now_ms - p->suspect_ms < ROSTER_SUSPECT_MS;

	return p->is_alive && p->state == PEER_WORKING && !is_suspect && p->source_count &&
	       bsearch(&source, p->sources, p->source_count, sizeof(source), hash_compare);
}

struct peer *roster_leader(struct roster *r, uint64_t source, uint64_t own_seed, int64_t now_ms)
{
	uint64_t most = hash_score(own_seed, source);
	struct peer *leader = NULL;

	for (size_t i = 0; i < r->count; i++)
		if (hash_score(r->peers[i].seed, source) > most && may_lead(&r->peers[i], source, now_ms)) {
			leader = &r->peers[i];
			most = hash_score(leader->seed, source);
		}
	return leader;
}

void roster_free(struct roster *r)
{
	for (size_t i = 0; i < r->count; i++)
		free_peer(&r->peers[i]);
}
