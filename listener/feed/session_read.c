/* session_read.c reads messages. The order is that of the profile language: decode, split, json_strings, hold_until,
 * the first matching rule, capture, clear, send, explode and where, id, cursor, ack. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "feed/session_state.h"

/* Without max_elements, a message may hold ELEMENTS_ANY events, and one more per ELEMENT_BYTES of its length: an event
 * takes 500 bytes of memory, but an element as few as two. */
#define ELEMENTS_ANY  10000
#define ELEMENT_BYTES 64

/* The current message and frame. */
struct reading {
	struct session *session;
	const struct session_handler *handler;
	void *ctx;
	const struct rule *rule;
	struct slice frame;
	size_t events;   /* events of the message */
	size_t given;    /* events and dead letters of the message */
	size_t most;     /* limit of given */
	size_t rejected; /* dead letters of the frame */
	size_t elements;
};

static void reject(struct reading *r, struct slice bytes, const char *why)
{
	r->rejected++;
	r->given++;
	r->handler->on_reject(r->ctx, bytes, why);
}

/* --- json_strings --- */

/* Replaces the string v by the JSON inside it, if it is JSON. */
static struct slice splice(struct session *s, struct slice frame, struct slice v)
{
	struct bytes *into = &s->spliced[frame.at == s->spliced[0].at];
	const char *end = frame.at + frame.len;
	struct slice text = json_text(v, &s->arena), inner, whole;

	if (!text.len || (*text.at != '{' && *text.at != '[') || json_check(text.at, text.len, &inner))
		return frame;
	into->len = 0;
	bytes_add(into, frame.at, (size_t)(v.at - frame.at));
	bytes_add(into, inner.at, inner.len);
	bytes_add(into, v.at + v.len, (size_t)(end - v.at - (ptrdiff_t)v.len));
	return json_check(bytes_text(into), into->len, &whole) ? frame : whole;
}

static struct slice decode_strings(struct session *s, struct slice frame)
{
	size_t i;
	json_t *pointer;

	json_array_foreach(s->profile->json_strings, i, pointer)
	{
		struct slice v = json_find(frame, json_string_value(pointer));

		if (json_kind(v) == KIND_STRING)
			frame = splice(s, frame, v);
		arena_clear(&s->arena);
	}
	return frame;
}

/* --- a rule's other effects --- */

static struct place frame_place(const struct reading *r)
{
	return (struct place){
		.frame = r->frame,
		.element = r->frame,
		.frame_slots = json_pointers_slots(r->session->rules->frame),
		.element_slots = json_pointers_slots(r->session->rules->frame),
		.vars = &r->session->vars,
		.arena = &r->session->arena,
	};
}

static void release_cursor(const struct reading *r)
{
	struct session *s = r->session;

	if (!s->hold.count || !conditions_hold(&s->hold, json_pointers_slots(s->rules->frame)))
		return;
	if (r->handler->on_release)
		r->handler->on_release(r->ctx);
	else
		cursor_release(&s->cursor);
}

static void capture(struct reading *r)
{
	struct session *s = r->session;
	struct place place = frame_place(r);

	for (size_t i = 0; i < r->rule->capture_count; i++) {
		const struct capture *c = &r->rule->captures[i];
		struct slice value = part_value(&c->part, &place);

		if (json_kind(value) > KIND_NULL && !vars_set(&s->vars, c->name, value))
			snprintf(s->trouble, sizeof(s->trouble),
				 "the value for %.60s is longer than %d bytes and was not kept", c->name,
				 VARS_BYTES_MAX);
	}
	arena_clear(&s->arena);
	session_clear(s, r->rule->profile->clear);
	if (s->has_cursor_var || r->rule->capture_count)
		session_set_cursor_var(s);
}

/* Renders a template of the rule. at is NULL if it has no value. If a secret cannot be read, sets trouble. */
static struct slice render(struct reading *r, const json_t *t)
{
	return session_render_frame(r->session, t, true, r->frame);
}

static void send_replies(struct reading *r)
{
	struct template_scope scope = session_scope(r->session, r->frame);
	struct template_walk w = {.array = r->rule->profile->send};
	const json_t *t;

	while ((t = template_next(&w, &scope))) {
		struct slice frame = session_render_scope(r->session, t, true, &scope);

		if (frame.at && r->handler->on_send)
			r->handler->on_send(r->ctx, frame);
	}
}

/* Sets the URL of the next connection. */
static void keep_redirect(struct reading *r, const char *url)
{
	struct session *s = r->session;
	struct template_scope scope = session_scope(s, r->frame);

	s->redirect.len = 0;
	scope.is_url = true;
	template_render_text(&s->redirect, url, &scope);
	if (*scope.fault)
		snprintf(s->trouble, sizeof(s->trouble), "%s", scope.fault);
}

static void act(struct reading *r)
{
	const char *url = r->rule->profile->url;

	if (url && *url)
		keep_redirect(r, url);
	if (r->handler->on_action)
		r->handler->on_action(r->ctx, r->rule->profile, r->frame);
}

/* "", 0, false, [], {} and null are not acks. */
static bool is_ack(const json_t *t)
{
	if (json_is_string(t))
		return json_string_length(t) > 0;
	if (json_is_number(t))
		return json_number_value(t) != 0;
	return json_is_true(t) || json_array_size(t) || json_object_size(t);
}

/* --- events --- */

/* The cursor of an event or a frame; null counts as none. */
static struct slice find_cursor(const struct reading *r, const struct place *at)
{
	struct slice value = part_value(&r->rule->cursor, at);

	return json_kind(value) > KIND_NULL ? value : (struct slice){NULL, 0};
}

/* Postgres cannot store \u0000 in a text. A recording is printed unchanged. */
static bool has_nul(const struct session *s, struct slice text)
{
	return !s->is_recording && text.at && memchr(text.at, '\0', text.len);
}

/* The number of an event in its series, which may be a text of digits. */
static struct slice find_number(const struct rule *rule, const struct place *at)
{
	struct slice value = part_value(&rule->gap_seq, at);

	if (json_kind(value) == KIND_STRING && value.len > 2 && strspn(value.at + 1, "0123456789") == value.len - 2)
		return (struct slice){value.at + 1, value.len - 2};
	return value;
}

/* Fills event. Returns NULL, or why it is not an event. */
static const char *read_event(struct reading *r, const struct place *at, struct session_event *event)
{
	const struct rule *rule = r->rule;
	struct session *s = r->session;

	if (!rule_id(rule, at, s->is_recording ? SIZE_MAX : PROFILE_ID_MAX, &s->id))
		return "a part of the id is missing, empty, or neither a text nor an integer: the event has no id";
	event->id = bytes_slice(&s->id);
	event->type = part_text(part_value(&rule->type, at), at->arena);
	if (has_nul(s, event->id) || has_nul(s, event->type))
		return "the id or the type contains \\u0000, which Postgres cannot store";
	event->time = part_value(&rule->time, at);
	if (json_kind(event->time) != KIND_REAL)
		event->time = part_text(event->time, at->arena);
	event->rule = rule->profile;
	event->time_unit = rule->profile->time_unit;
	event->payload = part_value(&rule->payload, at);
	event->cursor = find_cursor(r, at);
	event->gap_key = part_text(part_value(&rule->gap_key, at), at->arena);
	event->gap_seq = find_number(rule, at);
	event->missing = 0;
	return NULL;
}

static void on_element(void *ctx, struct slice element, size_t index)
{
	struct reading *r = ctx;
	struct session *s = r->session;
	struct place at = frame_place(r);
	struct session_event event;
	const char *why;

	at.element = element;
	at.index = index;
	at.element_slots = json_pointers_slots(r->rule->element);
	if (!conditions_hold(&r->rule->where, at.element_slots)) {
		if (r->handler->on_filtered)
			r->handler->on_filtered(r->ctx);
		return;
	}
	why = read_event(r, &at, &event);
	if (why) {
		reject(r, element, why);
	} else {
		r->events++;
		r->given++;
		r->handler->on_event(r->ctx, &event);
	}
	arena_clear(&s->arena);
}

static void count_element(void *ctx, struct slice element, size_t index)
{
	(void)element, (void)index;
	((struct reading *)ctx)->elements++;
}

/* A short frame cannot have too many elements, since each takes a comma: skip the count. */
static bool has_too_many(struct reading *r)
{
	size_t own = (size_t)r->session->profile->max_elements, left = r->most > r->given ? r->most - r->given : 0;
	size_t most = own && own < left ? own : left;

	r->elements = 0;
	if (r->frame.len / 2 > most)
		rule_explode(r->session->rules, r->rule, r->frame, count_element, r);
	return r->elements > most;
}

static void read_events(struct reading *r)
{
	if (has_too_many(r)) {
		reject(r, r->frame,
		       r->session->profile->max_elements ? "the frame has more elements than max_elements"
							 : "the frame has too many elements for its length");
		return;
	}
	rule_explode(r->session->rules, r->rule, r->frame, on_element, r);
	if (is_ack(r->rule->profile->ack) && !r->rejected) {
		struct slice frame = render(r, r->rule->profile->ack);

		if (frame.at && r->handler->on_ack)
			r->handler->on_ack(r->ctx, frame);
	}
}

/* --- frames --- */

static void begin_frame(const struct reading *r)
{
	if (r->handler->on_frame)
		r->handler->on_frame(r->ctx);
}

/* Handles a frame whose rule yields no events. */
static void read_control(struct reading *r)
{
	struct place place = frame_place(r);
	struct slice cursor;

	if (r->rule->profile->action == ACTION_RECONNECT || r->rule->profile->action == ACTION_FATAL)
		act(r);
	cursor = find_cursor(r, &place);
	if (cursor.at && r->handler->on_cursor)
		r->handler->on_cursor(r->ctx, cursor);
	arena_clear(&r->session->arena);
}

/* Does what r->rule says about the frame. If the rule rejects it, dead_letter is the text to keep. */
static void follow_rule(struct reading *r, struct slice dead_letter)
{
	struct session *s = r->session;

	if (r->handler->on_rule)
		r->handler->on_rule(r->ctx, r->rule->profile, r->frame);
	if (r->rule->capture_count || r->rule->profile->clear || s->has_cursor_var)
		capture(r);
	send_replies(r);
	if (r->rule->profile->action == ACTION_EVENT)
		read_events(r);
	else if (r->rule->profile->action == ACTION_REJECT)
		reject(r, dead_letter,
		       r->rule->profile == &s->profile->fallback ? "no rule of the profile matches it"
								 : "a rule of the profile rejects it");
	else
		read_control(r);
}

static void read_frame(struct reading *r, struct slice frame)
{
	struct session *s = r->session;

	begin_frame(r);
	r->rejected = 0;
	r->frame = frame;
	if (s->profile->json_strings) {
		r->frame = decode_strings(s, frame);
		if (json_has_half_pair(r->frame.at, r->frame.len)) {
			reject(r, frame, "a string in it has an unpaired surrogate");
			return;
		}
	}
	r->rule = rules_match(s->rules, r->frame);
	release_cursor(r);
	follow_rule(r, r->frame);
}

/* A message that is not JSON, for which there is a rule. Its frame is the JSON string. */
static void read_as_text(struct reading *r, const struct rule *rule, struct slice text)
{
	struct bytes *frame = &r->session->spliced[0];

	begin_frame(r);
	frame->len = 0;
	json_write_string(frame, text.at, text.len);
	r->frame = bytes_slice(frame);
	r->rejected = 0;
	r->rule = rule;
	follow_rule(r, text);
}

/* Makes a dead letter of a message or a line that cannot be read. */
static void reject_whole(struct reading *r, const char *text, size_t len, const char *why)
{
	begin_frame(r);
	reject(r, (struct slice){text, len}, why);
}

/* True if a message may have this many frames. Otherwise it becomes a dead letter. */
static bool may_have(struct reading *r, const char *message, size_t len, size_t frames)
{
	size_t own = (size_t)r->session->profile->max_elements;

	if (frames <= (own ? own : r->most))
		return true;
	reject_whole(r, message, len,
		     own ? "the message has more frames than max_elements"
			 : "the message has too many frames for its length");
	return false;
}

static void read_frames(struct reading *r, struct slice array)
{
	struct json_walk w = json_walk(array);
	size_t count = 0;

	while (json_walk_next(&w))
		count++;
	if (!may_have(r, array.at, array.len, count))
		return;
	w = json_walk(array);
	while (json_walk_next(&w))
		read_frame(r, w.value);
}

/* Reads one JSON text: a message, or one of its lines. */
static void read_text(struct reading *r, const char *text, size_t len)
{
	struct slice value;
	const char *why = json_check(text, len, &value), *end = text + len;

	if (!why && json_has_half_pair(text, len))
		reject_whole(r, text, len, "it contains an unpaired surrogate");
	else if (why && (json_skip_blanks(text, end) == end || r->session->profile->not_json == NOT_JSON_IGNORE))
		return;
	else if (why)
		reject_whole(r, text, len, why);
	else if (r->session->profile->split == SPLIT_ARRAY && *value.at == '[')
		read_frames(r, value);
	else
		read_frame(r, value);
}

/* Reads one part of a message: a text for which there is a rule, or JSON behind what `frame` names. */
static void read_part(struct reading *r, struct slice part)
{
	const struct profile *p = r->session->profile;
	const struct rule *rule = rules_match_text(r->session->rules, part);
	size_t strip = json_string_length(p->frame.strip), after = json_string_length(p->frame.after);
	const char *found;

	if (rule) {
		read_as_text(r, rule, part);
		return;
	}
	if (strip && strip <= part.len && memcmp(part.at, json_string_value(p->frame.strip), strip) == 0)
		part = (struct slice){part.at + strip, part.len - strip};
	found = after ? memmem(part.at, part.len, json_string_value(p->frame.after), after) : NULL;
	if (found)
		part = (struct slice){found + after, part.len - (size_t)(found + after - part.at)};
	read_text(r, part.at, part.len);
}

static void read_parts(struct reading *r, const char *text, size_t len, const char *mark, size_t mark_len)
{
	const char *end = text + len;
	size_t count = 0;

	for (const char *at = text; (at = memmem(at, (size_t)(end - at), mark, mark_len)); at += mark_len)
		count++;
	if (!may_have(r, text, len, count))
		return;
	for (const char *found = text; found && text < end; text = found ? found + mark_len : end) {
		found = memmem(text, (size_t)(end - text), mark, mark_len);
		read_part(r, (struct slice){text, (size_t)((found ? found : end) - text)});
	}
}

size_t session_read(struct session *s, const char *message, size_t len, const struct session_handler *handler,
		    void *ctx)
{
	size_t own = (size_t)s->profile->max_elements, usual = ELEMENTS_ANY + len / ELEMENT_BYTES;
	struct reading r = {.session = s, .handler = handler, .ctx = ctx, .most = own > usual ? own : usual};
	bool has_lines = s->profile->split == SPLIT_NDJSON;

	if (s->profile->frame.until || has_lines)
		read_parts(&r, message, len, has_lines ? "\n" : json_string_value(s->profile->frame.until),
			   has_lines ? 1 : json_string_length(s->profile->frame.until));
	else
		read_part(&r, (struct slice){message, len});
	return r.events;
}
