/* source.c owns the list of dialled feeds, the turns to read them, and what the admin pages show. A plain --source is a
 * feed with a built-in profile. */
#include "intake/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "intake/feed_client.h"
#include "intake/profiled.h"
#include "intake/shards.h"
#include "net/dial.h"
#include "event/line_minutes.h"
#include "fleet/reading.h"

struct sources {
	struct ws *ws;
	const struct config *config;
	struct dialler *dialler;
	struct requests *requests; /* NULL: no profile makes an HTTP call */
	struct profiles *profiles;
	struct readings *readings; /* what beats report about them; NULL: there is no Redis */
	char **names;              /* for logs and pages */
	struct shards **shards;    /* per source: its list if it is the first connection of one, else NULL */
	size_t *visible;           /* indices of all except idle shards */
	size_t visible_count;
	size_t count;
	struct profile *items[]; /* first those of --source, freed by this file; the others once per line */
};

/* --- for the fleet --- */

static struct reading on_ask(void *arg, size_t i)
{
	const struct sources *all = arg;
	struct source_view view = profiled_view(profiles_at(all->profiles, i));

	enum profile_fleet fleet = all->items[i]->fleet;

	return (struct reading){.open_ms = view.open_ms,
				.messages = view.data,
				.last_ms = view.data_ms,
				.is_paused = view.is_behind,
				.is_doubted = view.is_unconfirmed,
				.is_talking = view.is_talking,
				.is_idle = all->items[i]->shard.is_idle,
				.is_standby = view.is_standby,
				.is_alone = fleet == FLEET_SHARED || fleet == FLEET_EXCLUSIVE};
}

/* Exclusive sources have a lease instead of turns. */
static void on_turn(void *arg, size_t i, bool is_ours)
{
	struct sources *all = arg;

	if (all->items[i]->fleet == FLEET_EXCLUSIVE)
		return;
	if (!all->items[i]->shard.is_idle)
		log_one_of_many(LOG_INFO, (int64_t)uv_now(ws_loop(all->ws)),
				is_ours ? "reading a source" : "leaving a source to another listener",
				"source=%s url=%s", all->names[i], profiled_view(profiles_at(all->profiles, i)).url);
	profiled_set_turn(profiles_at(all->profiles, i), is_ours);
}

static void on_silent(void *arg, size_t i, const struct silence *s)
{
	struct sources *all = arg;
	const char *name = all->names[i];
	int64_t now = (int64_t)uv_now(ws_loop(all->ws));
	char since[TIMESTAMP_SIZE], reason[120];

	line_minutes_silence(&line_minutes, profile_row_source(all->items[i]),
			     profiled_view(profiles_at(all->profiles, i)).number,
			     s ? clock_shown_ms(s->since_ms, now) : 0, clock_ms(CLOCK_REALTIME), now);
	if (!s) {
		log_one_of_many(LOG_INFO, now, "source brings messages again", "source=%s", name);
		return;
	}
	timestamp_print(clock_shown_ms(s->since_ms, now) * 1000, since);
	if (s->is_told)
		log_one_of_many(LOG_WARN, now, "source is silent here while others hear it, dialling again",
				"source=%s url=%s since=%s heard=%llu redials=%u", name, sources_view(all, i).url,
				since, (unsigned long long)s->heard, s->redials);
	if (!s->is_redialled)
		return;
	counters.source_silences++;
	snprintf(reason, sizeof(reason), "it was silent for %lld s, while another connection brought %llu messages",
		 (long long)(now - s->since_ms) / 1000, (unsigned long long)s->heard);
	profiled_redial(profiles_at(all->profiles, i), reason);
}

static void join_fleet(struct sources *all, struct presence *presence)
{
	if (!presence)
		return;
	all->readings = presence_readings(presence);
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i]->shard.number)
			readings_set_events(all->readings, i, profile_row_source(all->items[i]));
	readings_set_owner(
		all->readings,
		&(struct reading_owner){.on_ask = on_ask, .on_turn = on_turn, .on_silent = on_silent, .arg = all});
}

/* --- life --- */

static struct profile *describe(const struct config *config, size_t i)
{
	AUTO_FREE char *name = config_source_name(config, i), *row_source = config_source_in_rows(config, i);

	return profile_of_url(config_source_url(config, i), name, row_source, config->idle_timeout_s);
}

static bool has_tls(const struct config *config)
{
	for (size_t i = 0; i < config->sources.count; i++)
		if (strncmp(config_source_url(config, i), "wss:", 4) == 0)
			return true;
	for (size_t i = 0; i < config->feed_count; i++)
		if (strncmp(config->feeds[i]->url, "wss:", 4) == 0)
			return true;
	return false;
}

static void add(struct sources *all, struct profile *p)
{
	for (long long line = 1; line <= p->lines; line++) {
		all->names[all->count] = line > 1 ? memory_printf("%s/%lld", p->name, line) : memory_strdup(p->name);
		all->items[all->count++] = p;
	}
}

/* Fills visible. A source whose list has not arrived yet is shown by its first connection. */
static void list_shown(void *arg)
{
	struct sources *all = arg;

	all->visible_count = 0;
	for (size_t i = 0; i < all->count; i++)
		if (!all->items[i]->shard.is_idle || (all->shards[i] && *shards_trouble(all->shards[i])))
			all->visible[all->visible_count++] = i;
}

static int add_shards(struct sources *all, const struct profile *p, char *error, size_t size)
{
	struct shards *s =
		shards_new(ws_loop(all->ws), all->requests, p, all->config->readers, list_shown, all, error, size);

	if (!s)
		return -1;
	all->shards[all->count] = s;
	for (size_t i = 0; i < (size_t)p->shard.most; i++)
		add(all, shards_profile(s, i));
	return 0;
}

static int add_feeds(struct sources *all, char *error, size_t size)
{
	for (size_t i = 0; i < all->config->feed_count; i++)
		if (!all->config->feeds[i]->shard.var)
			add(all, all->config->feeds[i]);
		else if (add_shards(all, all->config->feeds[i], error, size))
			return -1;
	return 0;
}

struct sources *sources_open(struct ws *ws, struct presence *presence, const struct config *config, char *error,
			     size_t size)
{
	size_t most = config_lines_most(config);
	struct dialler *dialler = dialler_open(ws, config, has_tls(config), error, size);
	struct sources *all;

	if (!dialler)
		return NULL;
	all = memory_calloc(1, sizeof(*all) + most * sizeof(struct profile *));
	all->names = memory_calloc(most + 1, sizeof(char *));
	all->shards = memory_calloc(most + 1, sizeof(*all->shards));
	all->visible = memory_calloc(most + 1, sizeof(*all->visible));
	all->ws = ws;
	all->config = config;
	all->dialler = dialler;
	for (size_t i = 0; i < config->sources.count; i++)
		add(all, describe(config, i));
	if (config->feed_count)
		all->requests = requests_open(ws_loop(ws), config);
	if (add_feeds(all, error, size))
		return NULL;
	all->profiles = profiles_open(&(struct profiled_parts){.loop = ws_loop(ws),
							       .config = config,
							       .pipeline = ws_owner(ws),
							       .presence = presence,
							       .dialler = dialler,
							       .requests = all->requests},
				      all->items, all->count);
	join_fleet(all, presence);
	for (size_t i = 0; i < all->count; i++)
		if (all->shards[i])
			shards_start(all->shards[i], all->profiles, i);
	list_shown(all);
	return all;
}

void sources_reload(struct sources *all)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->shards[i])
			shards_reload(all->shards[i]);
}

size_t sources_count(const struct sources *s)
{
	return s->visible_count;
}

size_t sources_places(const struct sources *s)
{
	return s->count;
}

/* True if a standby source counts as ready, since another listener reads it. False until the turns are known. */
static bool may_stand_by(const struct sources *all)
{
	return !all->config->readers || readings_know(all->readings);
}

bool sources_are_ready(const struct sources *s, size_t i)
{
	bool is_any = false;

	for (size_t k = 0; k < s->visible_count && !is_any; k++)
		is_any = s->items[s->visible[k]] == s->items[s->visible[i]] && sources_view(s, k).is_ready;
	return is_any;
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	size_t at = s->visible[i];
	struct source_view view = profiled_view(profiles_at(s->profiles, at));
	bool is_idle = s->items[at]->shard.is_idle;
	bool is_plain = at < s->config->sources.count;

	view.source = s->items[at]->name;
	view.name = s->names[at];
	view.place = at;
	view.line = s->items[at]->shard.number > 1
			    ? NULL
			    : line_minutes_find(&line_minutes, profile_row_source(s->items[at]), view.number);
	view.list = s->shards[at] ? shards_trouble(s->shards[at]) : "";
	view.error = is_idle ? view.list : view.error;
	view.is_ready = (view.is_open && !view.is_unconfirmed && !view.is_subscribing) ||
			(view.is_standby && !is_idle && may_stand_by(s));
	view.id = s->readings ? readings_id(s->readings, at)
			      : readings_source_id(s->items[at]->url, is_plain ? "" : s->items[at]->name);
	view.messages = is_plain ? view.rules->frames : 0;
	view.profile = is_plain ? NULL : s->items[at];
	view.silence = s->readings ? readings_silence(s->readings, at) : NULL;
	return view;
}

void sources_mask(const struct sources *s, char *text)
{
	struct url url;

	for (size_t i = 0; i < s->config->sources.count; i++) {
		url_parse(&url, config_source_url(s->config, i));
		secret_mask_url(text, &url);
		url_clear(&url);
	}
	for (size_t i = s->config->sources.count; i < s->count; i++)
		profiled_mask(profiles_at(s->profiles, i), text);
}

void sources_close(struct sources *all)
{
	if (all->readings)
		readings_set_owner(all->readings, NULL);
	for (size_t i = 0; i < all->count; i++)
		if (all->shards[i])
			shards_close(all->shards[i]);
	profiles_close(all->profiles);
	if (all->requests)
		requests_close(all->requests);
}

void sources_free(struct sources *all)
{
	profiles_free(all->profiles);
	dialler_free(all->dialler);
	for (size_t i = 0; i < all->config->sources.count; i++)
		profile_free(all->items[i]);
	for (size_t i = 0; i < all->count; i++) {
		free(all->names[i]);
		shards_free(all->shards[i]);
	}
	free(all->names);
	free(all->shards);
	free(all->visible);
	free(all);
}
