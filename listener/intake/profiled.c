/* profiled.c owns the sources that profiles describe. It passes their clients' events to the pipeline and keeps a
 * ledger of each connection's frames, which says when everything before a cursor or an ack is stored. It reads the
 * stored cursors of all sources in one query. */
#include "intake/profiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/url.h"
#include "intake/fill.h"
#include "intake/lateness.h"
#include "intake/ledger.h"
#include "intake/feed_event.h"
#include "event/line_minutes.h"
#include "fleet/lease.h"

#define PATIENCE_MS      10000
#define PATIENCE_MOST_MS 60000

struct open_connection {
	struct profiled *source;
	struct feed_connection *conn;
	struct ledger *ledger;
};

/* Whether the source waits for its stored cursor. */
enum want {
	WANT_NOTHING,
	WANT_CURSORS, /* it waits for the next reading */
	WANT_THESE,   /* it waits for the current reading */
};

struct profiled {
	struct profiles *all;
	const struct profiled_parts *parts;
	const struct profile *profile;
	unsigned int number; /* number of the line, from 0 */
	struct session *session;
	struct feed_client *client;
	struct fill *fill;   /* NULL: missing events are not asked for, or the first line asks */
	struct lease *lease; /* NULL: the source is not exclusive */
	int64_t patience_ms; /* for so long it may fail to connect before it leaves the lease to others */
	int64_t able_ms;     /* loop clock: when it had no trouble storing, no other could store, or it got the lease */
	enum want want;
	bool is_off_turn;    /* it is another listener's turn */
	struct list ledgers; /* ledgers of all connections, including closed ones */
	struct lateness lateness;
	char *scope;    /* of its cursor */
	char *kinds[2]; /* kind of its cursor, [is_anew] */
	bool is_anew;
};

struct profiles {
	struct profiled_parts parts;
	const char **names; /* names of sources that may have a stored cursor */
	size_t name_count;
	bool is_reading; /* a query for the cursors is running */
	bool is_wanting; /* a source wants its cursor: read them again afterwards */
	bool is_closed;  /* disconnected for good; events of the connections may still settle */
	size_t count;
	struct profiled *items[];
};

static int64_t now_ms(const struct profiled *s)
{
	return (int64_t)uv_now(s->parts->loop);
}

/* --- cursors --- */

/* Returns the scope under which the cursor is stored, on the heap. A cursor of another host means nothing to the
 * source, and what another consumer has processed says nothing about this one. */
static char *make_scope(const struct profiled *s)
{
	AUTO_FREE char *consumer = config_consumer_scope(s->parts->config->consumer);
	const char *of = "", *fault, *text;
	struct url url = {0};
	char *scope;

	if (s->profile->cursor.scope == SCOPE_SESSION)
		of = "session";
	else if (s->profile->cursor.scope == SCOPE_HOST &&
		 (text = session_render_text(s->session, s->profile->url, true, &fault)) && url_parse(&url, text) == 0)
		of = url.host;
	scope = memory_printf("%s%s", consumer, of);
	url_clear(&url);
	return scope;
}

static void on_cursor_durable(void *arg, struct slice cursor)
{
	struct profiled *s = arg;
	bool is_session = s->profile->cursor.scope == SCOPE_SESSION;
	struct cursor put = {
		.source = s->profile->name,
		.scope = s->scope,
		.kind = s->kinds[s->is_anew],
	};

	session_advance_at_once(s->session, cursor, time(NULL));
	put.value = session_mark(s->session);
	if (is_session)
		put.variables = session_save(s->session);
	if (put.value.at)
		storing_put_cursor(pipeline_storing(s->parts->pipeline), &put);
}

/* Deletes the stored cursor, which may be ahead of new ones. */
static void forget_cursor(struct profiled *s)
{
	s->is_anew = true;
	storing_put_cursor(pipeline_storing(s->parts->pipeline), &(struct cursor){.source = s->profile->name,
										  .scope = s->scope,
										  .kind = s->kinds[true],
										  .value = {"null", 4}});
}

static void restore(struct profiled *s, const struct cursor *cursor)
{
	if (s->want != WANT_THESE || strcmp(cursor->source, s->profile->name) != 0 ||
	    strcmp(cursor->scope, s->scope) != 0)
		return;
	session_restore(s->session, cursor->value, cursor->changed_s);
	if (cursor->variables.at)
		session_load(s->session, cursor->variables);
}

static void on_cursor_read(void *arg, const struct cursor *cursor);

static void read_cursors(struct profiles *all)
{
	all->is_reading = true;
	all->is_wanting = false;
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i]->want == WANT_CURSORS)
			all->items[i]->want = WANT_THESE;
	storing_read_cursors(pipeline_storing(all->parts.pipeline), all->names, all->name_count, on_cursor_read, all);
}

/* A source that asked for its cursor after the query began waits for the next one. */
static void on_cursor_read(void *arg, const struct cursor *cursor)
{
	struct profiles *all = arg;

	all->is_reading = cursor;
	for (size_t i = 0; i < all->count; i++) {
		struct profiled *s = all->items[i];

		if (cursor) {
			restore(s, cursor);
		} else if (s->want == WANT_THESE) {
			s->want = WANT_NOTHING;
			feed_client_start(s->client);
		}
	}
	if (all->is_wanting && !cursor && !all->is_closed)
		read_cursors(all);
}

/* Connects, after reading the stored cursor if the profile has cursors. */
static void go(struct profiled *s)
{
	if (s->profile->cursor.kind == CURSOR_NONE) {
		feed_client_start(s->client);
		return;
	}
	s->want = WANT_CURSORS;
	s->all->is_wanting = true;
	if (!s->all->is_reading)
		read_cursors(s->all);
}

static void renew_session(struct profiled *s)
{
	session_free(s->session);
	s->session = session_new(s->profile, false);
	feed_client_set_session(s->client, s->session);
}

/* True if it should be connected, as far as this listener's turn goes. */
static bool may_go(const struct profiled *s)
{
	return !s->is_off_turn && !s->profile->shard.is_idle && (!s->lease || lease_is_held(s->lease));
}

/* The database has lost durable data. Frames received before must neither move the cursor nor be acked. Reconnects from
 * the cursor that is stored now, or without one in the same session, which a close frame could end. */
static void forget(struct profiled *s)
{
	if (s->profile->cursor.kind == CURSOR_NONE && s->profile->ack_mode == ACK_MODE_NONE)
		return;
	ledgers_forget_cursors(&s->ledgers, NULL);
	if (s->all->is_closed)
		return;
	feed_client_stop(s->client, 0);
	if (s->profile->cursor.kind != CURSOR_NONE)
		renew_session(s);
	if (may_go(s))
		go(s);
}

/* --- turns --- */

/* Disconnects, since another listener may read the source from now on and move the cursor: the next connection reads it
 * again. */
static void leave_it(struct profiled *s, unsigned int code)
{
	s->want = WANT_NOTHING;
	feed_client_stop(s->client, code);
	renew_session(s);
}

static void leave_to_others(struct profiled *s)
{
	feed_client_forget_numbers(s->client);
	leave_it(s, (unsigned int)s->profile->close_code_on_stop);
}

void profiled_set_turn(struct profiled *s, bool is_ours)
{
	if (s->profile->fleet == FLEET_EXCLUSIVE)
		return;
	s->is_off_turn = !is_ours;
	if (may_go(s))
		go(s);
	else
		leave_to_others(s);
}

/* --- a shard --- */

static void take_items(struct profiled *s)
{
	json_auto_t *names = json_pack("[s]", s->profile->shard.var);

	session_clear(s->session, names);
	/* Other listeners may still use the old list, so this minute proves nothing. */
	line_minutes_doubt(&line_minutes, profile_row_source(s->profile), s->number, clock_ms(CLOCK_REALTIME));
}

/* Sends a message about some of the items. */
static void tell(struct profiled *s, const json_t *items, const json_t *message,
		 void (*send)(struct feed_client *c, const json_t *message))
{
	json_t *vars = (json_t *)s->profile->vars, *all = json_incref(json_object_get(vars, s->profile->shard.var));

	json_object_set(vars, s->profile->shard.var, (json_t *)items);
	take_items(s);
	send(s->client, message);
	json_object_set_new(vars, s->profile->shard.var, all);
	take_items(s);
}

void profiled_change(struct profiled *s, const json_t *fresh)
{
	take_items(s);
	if (s->profile->shard.is_idle)
		leave_to_others(s);
	if (s->profile->shard.subscribe && !s->profile->shard.is_idle)
		tell(s, fresh, json_array_size(fresh) ? s->profile->shard.subscribe : NULL, feed_client_tell);
	else
		feed_client_renew(s->client);
	if (may_go(s))
		go(s); /* unless it is started already */
}

bool profiled_is_changed(const struct profiled *s)
{
	return feed_client_is_renewed(s->client);
}

void profiled_turn(struct profiled *s, const json_t *gone)
{
	if (s->profile->shard.unsubscribe && json_array_size(gone))
		tell(s, gone, s->profile->shard.unsubscribe, feed_client_tell_more);
	feed_client_turn(s->client);
	take_items(s);
}

void profiled_redial(struct profiled *s, const char *reason)
{
	feed_client_redial(s->client, reason);
}

/* --- an exclusive source --- */

static void on_acquired(void *arg)
{
	struct profiled *s = arg;

	s->able_ms = now_ms(s);
	go(s);
}

/* Sends no close frame: another listener may connect at once. */
static void on_lost(void *arg)
{
	leave_it(arg, 0);
}

/* True if for a while another listener could store, and this one could not. By then each has asked Postgres, and is
 * back if Postgres was away for all. Trouble of a connection that stands counts only up to the timeout: it may be
 * everybody's, and those that have nothing to store do not know. */
static bool cannot_store(struct profiled *s)
{
	const struct presence *fleet = s->parts->presence;
	const struct storing *storing = pipeline_storing(s->parts->pipeline);
	const int64_t timeout_ms = s->parts->config->postgres_timeout_ms;
	bool is_ready = store_view(storing_store(storing)).is_ready;

	if (!*storing_trouble(storing) || !fleet || !presence_has_able(fleet, s->profile->name))
		s->able_ms = now_ms(s);
	if (is_ready && now_ms(s) - s->able_ms > timeout_ms)
		s->able_ms = now_ms(s) - timeout_ms;
	return !is_ready && now_ms(s) - s->able_ms >= PATIENCE_MS + timeout_ms;
}

/* True if all attempts to connect have failed for a while: another listener may have a better way to the feed. Not
 * while the cursor could not be read again. */
static bool cannot_connect(struct profiled *s)
{
	struct source_view view = feed_client_view(s->client);

	if (view.is_open || !s->patience_ms)
		s->patience_ms = PATIENCE_MS;
	if (!view.refused_ms || now_ms(s) - view.refused_ms < s->patience_ms ||
	    *storing_trouble(pipeline_storing(s->parts->pipeline)))
		return false;
	s->patience_ms = 2 * s->patience_ms < PATIENCE_MOST_MS ? 2 * s->patience_ms : PATIENCE_MOST_MS;
	return true;
}

static const char *why_useless(void *arg)
{
	return cannot_store(arg)     ? "this listener cannot store, but another one can"
	       : cannot_connect(arg) ? "this listener cannot connect"
				     : NULL;
}

static void on_lease_closed(void *arg)
{
	(void)arg;
}

/* --- cursors and acks --- */

static void on_ack(void *arg, struct slice ack, int64_t came_ms)
{
	struct open_connection *o = arg;
	struct profiled *s = o->source;

	lateness_note(&s->lateness, s->profile->name, came_ms, now_ms(s), s->profile->ack_deadline_ms);
	feed_connection_send(o->conn, ack);
}

static void on_full(void *arg, bool is_full)
{
	struct open_connection *o = arg;

	feed_connection_hold(o->conn, is_full);
}

static void on_charge(void *arg, long bytes)
{
	const struct profiled *s = arg;

	pipeline_charge(s->parts->pipeline, bytes);
}

/* --- the client's callbacks --- */

static void *on_open(void *arg, struct feed_connection *conn)
{
	struct profiled *s = arg;
	struct open_connection *o = memory_calloc(1, sizeof(*o));
	const struct profile *p = s->profile;

	fill_reconnected(s->fill);
	o->source = s;
	o->conn = conn;
	o->ledger = ledger_new(&(struct ledger_settings){
		.is_last = p->cursor.kind == CURSOR_LAST,
		.is_hex = p->cursor.format == FORMAT_HEX,
		.is_lasting = p->cursor.kind == CURSOR_MAX && p->cursor.scope == SCOPE_SOURCE,
		.is_held = p->cursor.hold_until != NULL,
		.is_cumulative = p->ack_mode == ACK_MODE_CUMULATIVE,
		.resends = p->resends,
		.forgets = p->forgets,
		.is_at_once = p->ack_on == ACK_ON_RECEIVE,
		.max_unacked = (size_t)p->max_unacked,
		.ledgers = &s->ledgers,
		.charge = on_charge,
		.on_cursor = on_cursor_durable,
		.on_ack = on_ack,
		.on_full = on_full,
		.arg = s,
		.conn_arg = o,
	});
	return o;
}

static bool on_message(void *of, const char *message, size_t len)
{
	const struct open_connection *o = of;
	const struct profile *p = o->source->profile;

	return p->redacted_url && pipeline_receive(o->source->parts->pipeline, message, len, p->row_source, NULL);
}

static void on_frame(void *of)
{
	struct open_connection *o = of;

	ledger_begin_frame(o->ledger);
}

static void on_event(void *of, const struct session_event *event)
{
	struct open_connection *o = of;
	const struct profile *p = o->source->profile;
	struct feed_event read = feed_event_from(event, p, p->fleet == FLEET_SHARED || p->fleet == FLEET_EXCLUSIVE);
	struct sender *sender = ledger_expect(o->ledger);

	read.line = o->source->number;
	read.is_compared = p->lines > 1;
	if (event->cursor.at)
		ledger_note_cursor(o->ledger, event->cursor);
	pipeline_receive_event(o->source->parts->pipeline, &read, sender);
	if (event->missing)
		fill_hole(o->source->fill, event);
}

/* Returns the sender for a dead letter of a frame or of a part of a frame. */
static struct sender *expect_dead_letter(struct open_connection *o)
{
	ledger_reject(o->ledger);
	return ledger_expect(o->ledger);
}

static void on_reject(void *of, struct slice bytes, const char *why)
{
	struct open_connection *o = of;

	pipeline_refuse(o->source->parts->pipeline, profile_row_source(o->source->profile), bytes.at, bytes.len, why,
			expect_dead_letter(o));
}

static void on_cursor(void *of, struct slice cursor)
{
	struct open_connection *o = of;

	ledger_note_cursor(o->ledger, cursor);
}

static void on_ack_owed(void *of, struct slice frame)
{
	struct open_connection *o = of;

	ledger_tick(o->ledger, 0, (int64_t)uv_now(o->source->parts->loop));
	ledger_owe_acks(o->ledger, &(struct ledger_acks){.stored = frame});
}

static void on_clear(void *arg, void *of, const json_t *names)
{
	struct profiled *s = arg;
	struct open_connection *o = of;
	size_t i;
	json_t *name;

	json_array_foreach(names, i, name)
	{
		if (strcmp(json_string_value(name), "cursor") != 0)
			continue;
		ledgers_forget_cursors(&s->ledgers, o ? o->ledger : NULL);
		forget_cursor(s);
	}
}

static void on_release(void *of)
{
	ledger_release(((struct open_connection *)of)->ledger);
}

static void on_read(void *of)
{
	ledger_end(((struct open_connection *)of)->ledger);
}

static void on_too_long(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct open_connection *o = of;
	const struct profile *p = o->source->profile;

	pipeline_refuse_long(o->source->parts->pipeline, p->redacted_url ? NULL : profile_row_source(p), head, len,
			     digest, total, p->redacted_url ? NULL : expect_dead_letter(o));
	ledger_release(o->ledger); /* it may be what hold_until waits for, and would be as long again */
	ledger_end(o->ledger);
}

static bool is_owing(void *of)
{
	struct open_connection *o = of;

	return o->source->profile->ack_mode != ACK_MODE_NONE;
}

static void on_close(void *of)
{
	struct open_connection *o = of;

	ledger_leave(o->ledger);
	free(o);
}

static const struct feed_callbacks callbacks = {
	.on_open = on_open,
	.on_message = on_message,
	.on_frame = on_frame,
	.on_event = on_event,
	.on_reject = on_reject,
	.on_cursor = on_cursor,
	.on_ack = on_ack_owed,
	.on_clear = on_clear,
	.on_release = on_release,
	.on_read = on_read,
	.on_too_long = on_too_long,
	.is_owing = is_owing,
	.on_close = on_close,
};

/* --- life --- */

/* beside: the line or shard of the same profile that was made just before this one, or NULL. */
static struct profiled *new_source(struct profiles *all, const struct profile *profile, const struct profiled *beside)
{
	const struct profiled_parts *parts = &all->parts;
	struct profiled *s = memory_calloc(1, sizeof(*s));

	s->all = all;
	s->parts = parts;
	s->profile = profile;
	s->number = beside && !profile->shard.number ? beside->number + 1 : 0;
	list_init(&s->ledgers);
	for (int is_anew = 0; is_anew < 2; is_anew++)
		s->kinds[is_anew] = session_cursor_kind(profile, is_anew);
	s->session = session_new(profile, false);
	s->scope = make_scope(s);
	s->client = feed_client_new(&(struct feed_client_parts){
		.loop = parts->loop,
		.config = parts->config,
		.dialler = parts->dialler,
		.requests = parts->requests,
		.profile = profile,
		.session = s->session,
		.callbacks = &callbacks,
		.arg = s,
		.beside = beside ? beside->client : NULL,
	});
	if (!s->number)
		s->fill = fill_new(&(struct fill_parts){.loop = parts->loop,
							.requests = parts->requests,
							.pipeline = parts->pipeline,
							.presence = parts->presence,
							.profile = profile,
							.client = s->client,
							.session = &s->session});
	return s;
}

/* An exclusive source connects only while this listener holds its lease. With --readers, any other source connects only
 * while it is this listener's turn. */
static void start(struct profiled *s)
{
	const struct lease_owner owner = {on_acquired, on_lost, why_useless, s};

	s->able_ms = now_ms(s);
	if (s->profile->fleet == FLEET_EXCLUSIVE)
		s->lease = lease_open(s->parts->loop, s->parts->config, s->profile->name, &owner);
	else if (s->parts->config->readers)
		s->is_off_turn = true;
	else if (may_go(s))
		go(s);
}

static void disconnect(struct profiled *s)
{
	s->want = WANT_NOTHING;
	feed_client_stop(s->client, (unsigned int)s->profile->close_code_on_stop);
	feed_client_close(s->client);
	fill_close(s->fill);
	if (s->lease)
		lease_close(s->lease, on_lease_closed, NULL);
	s->lease = NULL;
}

static void free_source(struct profiled *s)
{
	ledgers_free(&s->ledgers);
	feed_client_free(s->client);
	fill_free(s->fill);
	session_free(s->session);
	free(s->scope);
	free(s->kinds[false]);
	free(s->kinds[true]);
	free(s);
}

void profiled_mask(const struct profiled *s, char *text)
{
	feed_client_mask(s->client, text);
}

struct source_view profiled_view(const struct profiled *s)
{
	struct source_view view = feed_client_view(s->client);
	const char *refusal = s->lease ? lease_refusal(s->lease) : NULL;

	if (view.is_standby && (refusal || s->want)) {
		view.is_standby = false;
		view.error = refusal ? refusal : "its cursor has not been read yet";
	} else if (s->lease && lease_is_left(s->lease)) {
		view.is_standby = false; /* with the error of the last attempt */
	}
	view.filled = fill_filled(s->fill);
	return view;
}

/* --- all sources --- */

static void on_forgotten(void *arg)
{
	struct profiles *all = arg;

	for (size_t i = 0; i < all->count; i++)
		forget(all->items[i]);
}

struct profiles *profiles_open(const struct profiled_parts *parts, struct profile *const *profiles, size_t count)
{
	struct profiles *all = memory_calloc(1, sizeof(*all) + count * sizeof(struct profiled *));

	all->parts = *parts;
	all->count = count;
	all->names = memory_calloc(all->count + 1, sizeof(char *));
	for (size_t i = 0; i < all->count; i++) {
		bool is_line = i && (profiles[i] == profiles[i - 1] || profiles[i]->shard.number > 1);

		if (!profiles[i]->redacted_url && !is_line)
			all->names[all->name_count++] = profiles[i]->name;
		all->items[i] = new_source(all, profiles[i], is_line ? all->items[i - 1] : NULL);
	}
	if (all->name_count)
		storing_on_forgotten(pipeline_storing(parts->pipeline), on_forgotten, all);
	for (size_t i = 0; i < all->count; i++)
		start(all->items[i]);
	return all;
}

struct profiled *profiles_at(const struct profiles *all, size_t i)
{
	return all->items[i];
}

void profiles_close(struct profiles *all)
{
	all->is_closed = true;
	for (size_t i = 0; i < all->count; i++)
		disconnect(all->items[i]);
}

void profiles_free(struct profiles *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->count; i++)
		free_source(all->items[i]);
	free(all->names);
	free(all);
}
