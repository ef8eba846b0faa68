/* source.c owns the dialled feeds: stay connected, come back. A feed has no replay, so what is lost while a
 * connection is down is lost for this listener; its peers have it. The connection itself is net/dial.c's. */
#include "intake/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/url.h"
#include "intake/profiles.h"
#include "net/dial.h"
#include "road/fleet.h"
#include "road/pipeline.h"
#include "road/readers.h"

#define CHECK_MS 1000

enum source_state {
	SOURCE_DOWN,    /* a timer will try again */
	SOURCE_STANDBY, /* other listeners read it */
	SOURCE_CONNECTING,
	SOURCE_OPEN,
	SOURCE_CLOSING,
};

static const char *const state_names[] = {"down", "standby", "connecting", "open", "closing"};

struct source {
	struct sources *sources;
	const char *url;
	char *name;
	const char *from; /* stored with its events: its NAME, or shown_url */
	char *shown_url;
	enum source_state state;
	struct dial *dial; /* NULL in SOURCE_STANDBY, SOURCE_DOWN and SOURCE_CLOSING */
	struct backoff backoff;
	uv_timer_t retry;
	char error[400];
	bool has_error_logged;   /* since the feed last worked */
	bool has_events;         /* the connection at hand has brought some */
	int64_t opened_ms;       /* loop clock, of that connection */
	int64_t last_message_ms; /* loop clock; 0: none so far */
	uint64_t messages;
	uint64_t connects;
};

struct sources {
	struct ws *ws;
	const struct config *config;
	struct dialler *dialler;
	uv_timer_t check; /* for silent sources */
	bool is_closing;
	struct requests *requests; /* NULL: there are no profiles */
	struct profiles *profiles; /* likewise */
	struct readers *readers;   /* NULL: each source is read by all listeners */
	size_t count;
	struct source items[];
};

static void connect_now(struct source *s);

static void set_state(struct source *s, enum source_state state)
{
	enum source_state old = s->state;

	if (old == state)
		return;
	s->state = state;
	if (state == SOURCE_OPEN)
		log_info("source connection", "source=%s from=%s to=%s url=%s", s->name, state_names[old],
			 state_names[state], s->shown_url);
	else
		log_debug("source connection", "source=%s from=%s to=%s url=%s", s->name, state_names[old],
			  state_names[state], s->shown_url);
}

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static int64_t now_ms(const struct source *s)
{
	return (int64_t)uv_now(ws_loop(s->sources->ws));
}

/* The backoff comes on top of what the server asks for, so that a fleet does not come back as one. */
static int64_t draw_wait(struct source *s, int64_t asked_ms)
{
	return asked_ms + backoff_next(&s->backoff, backoff_draw());
}

/* One warning for a spell of failures, and one for each long wait that a server asks for; the reason of each is in
 * /api/status. */
static enum log_level failure_level(const struct source *s, bool was_open, int64_t asked_ms)
{
	if (!s->has_error_logged || asked_ms > s->backoff.cap_ms)
		return LOG_WARN;
	return was_open ? LOG_INFO : LOG_DEBUG;
}

static void retry_later(struct source *s, const struct dial_end *end)
{
	int64_t wait;

	if (end->was_open && backoff_judge(&s->backoff, s->has_events, now_ms(s) - s->opened_ms))
		s->has_error_logged = false;
	wait = draw_wait(s, end->wait_ms);
	snprintf(s->error, sizeof(s->error), "%s", end->reason);
	counters.source_disconnects++;
	log_write(failure_level(s, end->was_open, end->wait_ms), "cannot connect to source, will retry",
		  "source=%s url=%s reason=%s retry_ms=%lld", s->name, s->shown_url, s->error, (long long)wait);
	s->has_error_logged = true;
	set_state(s, SOURCE_DOWN);
	uv_timer_start(&s->retry, on_retry, (uint64_t)wait, 0);
}

/* --- what a connection brings --- */

static void on_open(void *arg)
{
	struct source *s = arg;

	s->error[0] = '\0';
	s->has_events = false;
	s->opened_ms = now_ms(s);
	counters.source_connects++;
	s->connects++;
	set_state(s, SOURCE_OPEN);
}

static void note_message(struct source *s)
{
	s->last_message_ms = now_ms(s);
}

static void on_message(void *arg, const char *message, size_t len)
{
	struct source *s = arg;

	note_message(s);
	s->messages++;
	s->has_events |= pipeline_receive(ws_owner(s->sources->ws), message, len, s->from, NULL);
}

static void on_too_long(void *arg, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct source *s = arg;

	note_message(s);
	pipeline_refuse_long(ws_owner(s->sources->ws), NULL, head, len, digest, total, NULL);
}

static void on_end(void *arg, const struct dial_end *end)
{
	struct source *s = arg;

	s->dial = NULL;
	if (s->sources->is_closing)
		set_state(s, SOURCE_CLOSING);
	else
		retry_later(s, end);
}

static const struct dial_owner owner = {on_open, on_message, on_too_long, on_end};

static void connect_now(struct source *s)
{
	set_state(s, SOURCE_CONNECTING);
	s->dial = dial_start(s->sources->dialler, s->url, NULL, s->backoff.tries, &owner, s);
}

/* A peer that answers pings may still have forgotten us: with --idle-timeout, silence ends it. */
static void on_check(uv_timer_t *timer)
{
	struct sources *all = timer->data;
	int64_t limit_ms = all->config->idle_timeout_s * 1000;
	int64_t now = (int64_t)uv_now(ws_loop(all->ws));

	for (size_t i = 0; i < all->count; i++) {
		struct source *s = &all->items[i];

		if (s->state != SOURCE_OPEN || now - dial_message_ms(s->dial, now) < limit_ms)
			continue;
		log_warn("source is silent, reconnecting", "source=%s url=%s idle_s=%lld", s->name, s->shown_url,
			 (long long)all->config->idle_timeout_s);
		dial_fail(s->dial, "the source was silent for too long");
	}
}

/* --- whose turn it is to read --- */

static void read_source(struct source *s, bool is_ours)
{
	if (is_ours) {
		connect_now(s);
		return;
	}
	uv_timer_stop(&s->retry);
	if (s->dial)
		dial_leave(s->dial, LWS_CLOSE_STATUS_GOINGAWAY);
	s->dial = NULL;
	set_state(s, SOURCE_STANDBY);
}

static void on_turn(void *arg, size_t i, bool is_ours)
{
	struct sources *all = arg;

	log_info(is_ours ? "reading a source" : "a source is left to others", "source=%s url=%s",
		 sources_view(all, i).name, sources_view(all, i).url);
	if (i < all->count)
		read_source(&all->items[i], is_ours);
	else
		profiled_set_turn(profiles_at(all->profiles, i - all->count), is_ours);
}

static struct reading on_ask(void *arg, size_t i)
{
	const struct sources *all = arg;
	struct source_view view = sources_view(all, i);

	return (struct reading){.connection = view.is_open ? view.connects : 0,
				.last_message_ms = view.last_message_ms};
}

/* One that is exclusive has a lease instead: it is all its own. */
static void open_readers(struct sources *all)
{
	const struct config *config = all->config;
	size_t n = 0;
	uint64_t *ids = memory_calloc(all->count + config->feed_count, sizeof(*ids));

	for (size_t i = 0; i < all->count; i++)
		ids[n++] = fleet_source_id(config_source_url(config, i), "");
	for (size_t i = 0; i < config->feed_count; i++)
		ids[n++] = fleet_source_id(config->feeds[i]->url, config->feeds[i]->name);
	all->readers = readers_open(ws_loop(all->ws), config, ids, n,
				    &(struct readers_owner){.on_ask = on_ask, .on_turn = on_turn, .arg = all});
	free(ids);
}

/* --- life --- */

static void source_init(struct source *s, struct sources *all, size_t i)
{
	s->sources = all;
	s->name = config_source_name(all->config, i);
	s->url = config_source_url(all->config, i);
	s->backoff = (struct backoff){.base_ms = 100, .cap_ms = 10000};
	uv_timer_init(ws_loop(all->ws), &s->retry);
	s->retry.data = s;
	s->shown_url = url_redact(s->url);
	s->from = s->url == all->config->sources.items[i] ? s->shown_url : s->name;
	if (all->config->readers)
		s->state = SOURCE_STANDBY;
	else
		uv_timer_start(&s->retry, on_retry, 0, 0);
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

static void open_profiles(struct sources *all)
{
	const struct config *config = all->config;

	if (!config->feed_count)
		return;
	all->requests = requests_open(ws_loop(all->ws), config);
	all->profiles = profiles_open(&(struct profiled_parts){.loop = ws_loop(all->ws),
							       .config = config,
							       .pipeline = ws_owner(all->ws),
							       .dialler = all->dialler,
							       .requests = all->requests});
}

struct sources *sources_open(struct ws *ws, const struct config *config, char *error, size_t size)
{
	size_t count = config->sources.count;
	struct dialler *dialler = dialler_open(ws, config, has_tls(config), error, size);
	struct sources *all;

	if (!dialler)
		return NULL;
	all = memory_calloc(1, sizeof(*all) + count * sizeof(struct source));
	all->ws = ws;
	all->config = config;
	all->count = count;
	all->dialler = dialler;
	uv_timer_init(ws_loop(ws), &all->check);
	all->check.data = all;
	if (config->idle_timeout_s)
		uv_timer_start(&all->check, on_check, CHECK_MS, CHECK_MS);
	for (size_t i = 0; i < count; i++)
		source_init(&all->items[i], all, i);
	open_profiles(all);
	if (config->readers)
		open_readers(all);
	return all;
}

size_t sources_count(const struct sources *s)
{
	return s->count + s->config->feed_count;
}

/* A listener that does not know yet whose turn it is has nothing that it may leave to others. */
static bool may_stand_by(const struct sources *all)
{
	return !all->readers || readers_know(all->readers);
}

static struct source_view view_profiled(const struct sources *all, const struct profiled *s)
{
	struct conversation_view view = profiled_view(s);

	return (struct source_view){
		.name = profiled_profile(s)->name,
		.url = view.url,
		.state = view.state,
		.error = view.error,
		.is_open = view.is_open,
		.is_ready = view.is_open || (view.is_standby && may_stand_by(all)),
		.last_message_ms = view.last_message_ms,
		.connects = view.connects,
		.profile = profiled_profile(s),
		.rules = view.rules,
		.numbering = view.numbering,
	};
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	const struct source *at = &s->items[i];

	if (i >= s->count)
		return view_profiled(s, profiles_at(s->profiles, i - s->count));
	return (struct source_view){
		.name = at->name,
		.url = at->shown_url,
		.state = state_names[at->state],
		.error = at->error,
		.is_open = at->state == SOURCE_OPEN,
		.is_ready = at->state == SOURCE_OPEN || (at->state == SOURCE_STANDBY && may_stand_by(s)),
		.last_message_ms = at->last_message_ms,
		.messages = at->messages,
		.connects = at->connects,
	};
}

void sources_close(struct sources *all)
{
	all->is_closing = true;
	if (all->readers)
		readers_close(all->readers);
	uv_close((uv_handle_t *)&all->check, NULL);
	for (size_t i = 0; i < all->count; i++) {
		struct source *s = &all->items[i];

		uv_close((uv_handle_t *)&s->retry, NULL);
		if (s->dial)
			dial_leave(s->dial, LWS_CLOSE_STATUS_GOINGAWAY);
		s->dial = NULL;
		set_state(s, SOURCE_CLOSING);
	}
	if (all->profiles)
		profiles_close(all->profiles);
	if (all->requests)
		requests_close(all->requests);
}

void sources_free(struct sources *all)
{
	for (size_t i = 0; i < all->count; i++) {
		free(all->items[i].name);
		free(all->items[i].shown_url);
	}
	profiles_free(all->profiles);
	dialler_free(all->dialler);
	free(all);
}
