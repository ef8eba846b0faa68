/* profiled.c owns a source that a profile describes: what its conversation brings goes into the pipeline, each
 * connection's frames through a ledger, and from there cursors and acks come back when all before them is stored. */
#include "intake/profiled.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "intake/ledger.h"

/* One connection that is open. */
struct open_line {
	struct list node; /* of struct profiled */
	struct profiled *source;
	struct line *line;
	struct ledger *ledger;
	bool is_held; /* no cursor counts yet */
};

struct profiled {
	struct profiled_parts parts;
	const struct profile *profile;
	struct session *session;
	struct conversation *conversation;
	struct list ledgers; /* also of connections that are gone */
	struct list lines;   /* open */
};

/* --- what comes back --- */

static void on_cursor_durable(void *arg, struct slice cursor)
{
	struct profiled *s = arg;

	session_advance(s->session, cursor, time(NULL));
}

static void on_ack_due(void *arg)
{
	struct profiled *s = arg;

	list_each(node, after, &s->lines) {
		struct open_line *o = list_entry(node, struct open_line, node);
		struct slice ack;

		while (o->ledger && (ack = ledger_take_ack(o->ledger)).at)
			line_send(o->line, ack);
	}
}

static void on_full(void *arg, bool is_full)
{
	struct profiled *s = arg;

	list_each(node, after, &s->lines)
		line_hold(list_entry(node, struct open_line, node)->line, is_full);
}

/* --- the sink of the conversation --- */

static void *on_open(void *arg, struct line *line)
{
	struct profiled *s = arg;
	struct open_line *o = memory_calloc(1, sizeof(*o));
	const struct profile *p = s->profile;

	o->source = s;
	o->line = line;
	o->is_held = session_is_held(s->session);
	o->ledger = ledger_new(&(struct ledger_settings){
		.is_last = p->cursor.kind == CURSOR_LAST,
		.is_lasting = p->cursor.kind == CURSOR_MAX && p->cursor.scope == SCOPE_SOURCE,
		.is_held = o->is_held,
		.is_cumulative = p->ack_mode == ACK_MODE_CUMULATIVE,
		.is_at_once = p->ack_on == ACK_ON_RECEIVE,
		.max_unacked = (size_t)p->max_unacked,
		.ledgers = &s->ledgers,
		.on_cursor = on_cursor_durable,
		.on_ack_due = on_ack_due,
		.on_full = on_full,
		.arg = s,
	});
	list_append(&s->lines, &o->node);
	return o;
}

static void on_message(void *of, const char *message, size_t len)
{
	(void)of, (void)message, (void)len;
}

static void on_event(void *of, const struct session_event *event)
{
	struct open_line *o = of;
	const struct feed_event taken = {
		.id = event->id,
		.type = event->type,
		.payload = event->payload,
		.time = event->time,
		.unit = event->time_unit,
		.source = o->source->profile->name,
		.is_shared = o->source->profile->fleet == FLEET_SHARED,
	};
	struct sender *sender = ledger_expect(o->ledger);

	if (event->cursor.at)
		ledger_note_cursor(o->ledger, event->cursor);
	pipeline_receive_event(o->source->parts.pipeline, &taken, sender);
}

static void on_reject(void *of, struct slice bytes, const char *why)
{
	struct open_line *o = of;

	ledger_reject(o->ledger);
	pipeline_refuse_frame(o->source->parts.pipeline, o->source->profile->name, bytes.at, bytes.len, why,
			      ledger_expect(o->ledger));
}

static void on_cursor(void *of, struct slice cursor)
{
	struct open_line *o = of;

	ledger_note_cursor(o->ledger, cursor);
}

static void on_ack(void *of, struct slice frame)
{
	struct open_line *o = of;

	ledger_owe_ack(o->ledger, frame);
}

static void on_clear(void *of, const struct profile_rule *rule)
{
	struct open_line *o = of;
	size_t i;
	json_t *name;

	json_array_foreach(rule->clear, i, name) if (strcmp(json_string_value(name), "cursor") == 0)
		ledger_forget_cursors(o->ledger);
}

static void on_read(void *of)
{
	struct open_line *o = of;

	if (o->is_held && !session_is_held(o->source->session)) {
		o->is_held = false;
		ledger_release(o->ledger);
	}
	ledger_end(o->ledger);
}

static void on_too_long(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct open_line *o = of;

	pipeline_refuse_long(o->source->parts.pipeline, head, len, digest, total, NULL);
}

static bool is_owing(void *of)
{
	struct open_line *o = of;

	return o->source->profile->ack_mode != ACK_MODE_NONE;
}

static void on_close(void *of)
{
	struct open_line *o = of;

	ledger_leave(o->ledger);
	list_remove(&o->node);
	free(o);
}

static const struct conversation_sink sink = {
	.on_open = on_open,
	.on_message = on_message,
	.on_event = on_event,
	.on_reject = on_reject,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_clear = on_clear,
	.on_read = on_read,
	.on_too_long = on_too_long,
	.is_owing = is_owing,
	.on_close = on_close,
};

/* --- life --- */

struct profiled *profiled_new(const struct profiled_parts *parts, const struct profile *profile)
{
	struct profiled *s = memory_calloc(1, sizeof(*s));

	s->parts = *parts;
	s->profile = profile;
	list_init(&s->ledgers);
	list_init(&s->lines);
	s->session = session_new(profile, false);
	s->conversation = conversation_new(&(struct conversation_parts){
		.loop = parts->loop,
		.config = parts->config,
		.dialler = parts->dialler,
		.requests = parts->requests,
		.profile = profile,
		.session = s->session,
		.sink = &sink,
		.arg = s,
	});
	return s;
}

void profiled_start(struct profiled *s)
{
	conversation_start(s->conversation);
}

void profiled_close(struct profiled *s)
{
	conversation_stop(s->conversation, (unsigned int)s->profile->close_code_on_stop);
	conversation_close(s->conversation);
}

void profiled_free(struct profiled *s)
{
	if (!s)
		return;
	ledgers_free(&s->ledgers);
	conversation_free(s->conversation);
	session_free(s->session);
	free(s);
}

const struct profile *profiled_profile(const struct profiled *s)
{
	return s->profile;
}

struct conversation_view profiled_view(const struct profiled *s)
{
	return conversation_view(s->conversation);
}
