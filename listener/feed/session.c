/* session.c owns the state of a source between connections: variables, cursor, the next URL and the messages to send
 * first. It also reads messages, in the order of the profile language: decode, split, json_strings, hold_until, the
 * first matching rule, capture, clear, send, explode and where, id, cursor, ack. */
#include "feed/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/url.h"
#include "feed/cursor.h"
#include "feed/rules.h"
#include "feed/secrets.h"
#include "feed/template.h"
#include "feed/vars.h"

#define DAY_MS            86400000.0
#define CURSOR_BYTES      1024 /* most that are compared */
#define SEARCHED_PER_ROOM 16
#define SCRATCH_BYTES     4096 /* room for the decoded parts of a typical event */

struct session {
	const struct profile *profile;
	bool is_recording;
	bool has_cursor_var; /* a rule uses $cursor */
	struct rules *rules;
	struct vars vars;
	struct cursor cursor;
	int64_t counter;
	struct bytes redirect; /* JSON of the URL that a rule has set; empty: none */
	char trouble[200];     /* "" : none */

	/* The current struct session_dial. */
	struct bytes url_json;
	char *url;
	char *redacted_url;
	struct bytes texts; /* all of on_open, one after the other */
	struct slice *on_open;
	char fault[300];

	int64_t now_ms;          /* time of the last URL; 0: not read yet */
	struct secrets *secrets; /* signatures and what the feed has set are added here; may be NULL */

	struct bytes rendered; /* the result of a call, until the next one */

	/* The current frame. */
	struct conditions hold;  /* conditions of hold_until, on the pointers of rules->frame */
	struct bytes spliced[2]; /* buffers for the frame with its json_strings decoded */
	struct bytes id, why;
	struct arena arena;
	_Alignas(16) char scratch[SCRATCH_BYTES];
};

const char *const session_how_names[] = {"fresh", "redirect", "resume", "http-bootstrap"};

/* --- life --- */

/* True if a template or a part of a rule uses $cursor. Only then is it rendered for each frame. */
static bool has_cursor_var(const struct profile *p)
{
	char *text = json_dumps(json_object_get(p->root, "rules"), 0);
	bool result = text && (strstr(text, "$cursor") || strstr(text, "cursor}"));

	free(text);
	return result;
}

struct session *session_new(const struct profile *p, bool is_recording)
{
	struct session *s = memory_calloc(1, sizeof(*s));

	s->profile = p;
	s->is_recording = is_recording;
	s->has_cursor_var = has_cursor_var(p);
	s->rules = rules_new(p);
	vars_init(&s->vars, p->vars);
	s->vars.listed = p->shard.http ? p->shard.var : NULL;
	s->cursor.profile = p;
	s->counter = p->counter_start;
	conditions_compile(&s->hold, p->cursor.hold_until, s->rules->frame);
	s->arena = (struct arena){.room = s->scratch, .size = sizeof(s->scratch)};
	return s;
}

static void forget_dial(struct session *s)
{
	free(s->url);
	free(s->redacted_url);
	free(s->on_open);
	s->url = s->redacted_url = NULL;
	s->on_open = NULL;
	s->url_json.len = s->texts.len = 0;
	*s->fault = '\0';
}

void session_hide_secrets(struct session *s, struct secrets *secrets)
{
	s->secrets = secrets;
}

void session_free(struct session *s)
{
	struct bytes *texts[] = {&s->redirect,   &s->url_json,   &s->texts, &s->rendered,
				 &s->spliced[0], &s->spliced[1], &s->id,    &s->why};

	forget_dial(s);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		bytes_free(texts[i]);
	conditions_free(&s->hold);
	cursor_free(&s->cursor);
	vars_free(&s->vars);
	rules_free(s->rules);
	free(s);
}

/* --- templates --- */

/* The scope for templates of a frame. */
static struct template_scope scope_of(struct session *s, struct slice frame)
{
	return (struct template_scope){
		.frame = frame,
		.vars = &s->vars,
		.counter = s->is_recording ? NULL : &s->counter,
		.keeps_secrets = s->is_recording,
		.now_ms = s->is_recording ? s->now_ms : 0,
		.secrets = s->secrets,
	};
}

/* The text of a JSON string, on the heap. NULL for anything else and for "". */
static char *make_text(struct slice json)
{
	struct arena a = {.room = NULL};
	struct slice text = {NULL, 0};
	char *copy = NULL;

	if (json_kind(json) == KIND_STRING)
		text = json_text(json, &a);
	if (text.len && !memchr(text.at, '\0', text.len))
		copy = memory_strndup(text.at, text.len);
	arena_clear(&a);
	return copy;
}

static const char *take_fault(struct session *s, const struct template_scope *scope)
{
	if (*scope->fault)
		snprintf(s->fault, sizeof(s->fault), "%s", scope->fault);
	return *scope->fault ? s->fault : NULL;
}

static struct slice render(struct session *s, const json_t *t, bool is_message, struct template_scope *scope)
{
	bool is_there;

	s->rendered.len = 0;
	is_there = (is_message ? template_render_message : template_render)(&s->rendered, t, scope);
	return is_there && !*scope->fault ? bytes_slice(&s->rendered) : (struct slice){NULL, 0};
}

struct slice session_render(struct session *s, const json_t *t, const char **fault)
{
	struct template_scope scope = scope_of(s, (struct slice){NULL, 0});
	struct slice rendered;

	scope.now_ms = s->now_ms;
	rendered = render(s, t, false, &scope);
	*fault = take_fault(s, &scope);
	return rendered;
}

/* As session_render_frame, in a scope. */
static struct slice render_scope(struct session *s, const json_t *t, bool is_message, struct template_scope *scope)
{
	struct slice rendered = render(s, t, is_message, scope);

	if (*scope->fault)
		snprintf(s->trouble, sizeof(s->trouble), "%s", scope->fault);
	return rendered;
}

struct slice session_render_frame(struct session *s, const json_t *t, bool is_message, struct slice frame)
{
	struct template_scope scope = scope_of(s, frame);

	return render_scope(s, t, is_message, &scope);
}

const char *session_render_text(struct session *s, const char *t, bool is_url, const char **fault)
{
	struct template_scope scope = scope_of(s, (struct slice){NULL, 0});

	scope.is_url = is_url;
	scope.now_ms = is_url ? 0 : s->now_ms;
	s->rendered.len = 0;
	template_fill(&s->rendered, t, &scope);
	s->now_ms = scope.now_ms;
	*fault = take_fault(s, &scope);
	if (memchr(bytes_text(&s->rendered), '\0', s->rendered.len))
		s->rendered.len = 0;
	return *fault ? NULL : bytes_text(&s->rendered);
}

/* --- connecting --- */

static bool may_resume(const struct session *s, int64_t now_ms, int64_t closed_ms)
{
	const struct profile *p = s->profile;

	if (closed_ms < 0 || !p->url_resume || !*p->url_resume || !template_is_complete(p->url_resume, &s->vars))
		return false;
	if (s->is_recording || !p->resume_window_s)
		return true;
	if (!closed_ms && s->cursor.mark.kind != MARK_NONE) /* it was stored, perhaps by another process */
		return time(NULL) - s->cursor.moved_s <= p->resume_window_s;
	return closed_ms && now_ms - closed_ms <= p->resume_window_s * 1000;
}

/* null, "", 0, false, [] and {} are not a URL. */
static bool leads_somewhere(struct slice url)
{
	static const char *const nowhere[] = {"null", "\"\"", "0", "false", "[]", "{}"};

	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
		if (url.len == strlen(nowhere[i]) && memcmp(url.at, nowhere[i], url.len) == 0)
			return false;
	return url.len > 0;
}

static enum session_how choose(const struct session *s, int64_t now_ms, int64_t closed_ms)
{
	if (leads_somewhere((struct slice){s->redirect.at, s->redirect.len}))
		return HOW_REDIRECT;
	if (may_resume(s, now_ms, closed_ms))
		return HOW_RESUME;
	return s->profile->url_http ? HOW_HTTP : HOW_FRESH;
}

/* A mirror replaces scheme, host and path; the URL's query is kept. */
static void use_mirror(struct session *s, size_t mirror, struct template_scope *scope)
{
	size_t at = mirror % (json_array_size(s->profile->mirrors) + 1);
	const char *query = s->url ? strchr(s->url, '?') : NULL, *text;
	struct bytes rendered = {NULL, 0, 0};
	char *base;

	if (!at || !s->url)
		return;
	text = json_string_value(json_array_get(s->profile->mirrors, at - 1));
	template_render_text(&rendered, text, scope);
	base = make_text(bytes_slice(&rendered));
	bytes_free(&rendered);
	if (!base)
		return;
	text = memory_printf("%s%s", base, strchr(base, '?') || !query ? "" : query);
	free(base);
	free(s->url);
	s->url = (char *)text;
}

static void render_url(struct session *s, enum session_how how, size_t mirror, struct template_scope *scope)
{
	const char *text = how == HOW_RESUME ? s->profile->url_resume : s->profile->url;

	if (how == HOW_REDIRECT)
		bytes_add(&s->url_json, s->redirect.at, s->redirect.len);
	else if (text)
		template_render_text(&s->url_json, text, scope);
	else
		bytes_add_text(&s->url_json, "null"); /* only producers have no URL */
	s->url = make_text(bytes_slice(&s->url_json));
	if (how != HOW_REDIRECT)
		use_mirror(s, mirror, scope);
	s->redacted_url = s->url ? url_redact(s->url) : NULL;
}

static size_t render_on_open(struct session *s, enum session_how how, struct template_scope *scope)
{
	struct template_walk w = {.array = s->profile->on_open};
	size_t count = 0, begin = 0, *ends = NULL;
	const json_t *t;

	if (how == HOW_REDIRECT && s->profile->redirect_keeps_subscriptions)
		w.array = NULL;
	while (template_has_room(&s->texts, scope) && (t = template_next(&w, scope))) {
		if (!template_render_message(&s->texts, t, scope))
			continue;
		ends = memory_realloc(ends, (count + 1) * sizeof(*ends));
		ends[count++] = s->texts.len;
	}
	s->on_open = memory_calloc(count + 1, sizeof(*s->on_open));
	for (size_t i = 0; i < count; begin = ends[i++])
		s->on_open[i] = (struct slice){s->texts.at + begin, ends[i] - begin};
	free(ends);
	return count;
}

static void prepare(struct session *s, enum session_how how, size_t mirror, struct session_dial *dial)
{
	struct template_scope scope = scope_of(s, (struct slice){NULL, 0});

	forget_dial(s);
	*dial = (struct session_dial){.how = how};
	scope.is_url = true;
	render_url(s, how, mirror, &scope);
	scope.is_url = false;
	dial->on_open_count = render_on_open(s, how, &scope);
	s->now_ms = scope.now_ms;
	dial->url = s->url;
	dial->redacted_url = s->redacted_url;
	dial->url_json = bytes_slice(&s->url_json);
	dial->on_open = s->on_open;
	dial->fault = take_fault(s, &scope);
}

/* Sets the variable `cursor` to the cursor that the next connection would resume from; leaves it if there is none. */
static void set_cursor_var(struct session *s)
{
	struct slice next = cursor_next(&s->cursor);

	if (next.at)
		vars_set(&s->vars, "cursor", next);
}

void session_connect(struct session *s, int64_t now_ms, int64_t closed_ms, size_t mirror, struct session_dial *dial)
{
	enum session_how how;

	s->now_ms = now_ms; /* a recording has its own clock */
	vars_clear(&s->vars, "cursor");
	set_cursor_var(s);
	how = choose(s, now_ms, closed_ms);
	prepare(s, how, mirror, dial);
	if (how == HOW_REDIRECT)
		s->redirect.len = 0;
	cursor_connect(&s->cursor);
}

void session_renew(struct session *s, size_t mirror, struct session_dial *dial)
{
	prepare(s, HOW_HTTP, mirror, dial);
}

struct slice session_redirect(struct session *s)
{
	return s->redirect.len ? bytes_slice(&s->redirect) : (struct slice){NULL, 0};
}

/* Sets a variable to what the feed has sent, which may be a token. Returns false if it is too long. */
static bool set_var(struct session *s, const char *name, struct slice value)
{
	struct slice old = session_var(s, name);
	bool is_new = old.len != value.len || memcmp(old.at, value.at, old.len) != 0;
	struct arena a = {.room = NULL};

	if (!vars_set(&s->vars, name, value))
		return false;
	if (s->secrets && is_new && json_kind(value) == KIND_STRING) {
		value = json_text(session_var(s, name), &a);
		secrets_add(s->secrets, name, value.at, value.len);
		arena_clear(&a);
	}
	return true;
}

bool session_answer(struct session *s, const struct profile_http *http, const char *body, size_t len)
{
	const char *name;
	json_t *pointer;
	struct slice answer;

	if (!http->capture)
		return true;
	if (json_check(body, len, &answer))
		return false;
	json_object_foreach((json_t *)http->capture, name, pointer)
	{
		struct slice value = json_find(answer, json_string_value(pointer));

		if (json_kind(value) <= KIND_NULL || !set_var(s, name, value))
			return false;
	}
	return true;
}

/* --- variables --- */

struct slice session_var(const struct session *s, const char *name)
{
	return vars_get(&s->vars, name, strlen(name));
}

int64_t session_var_ms(const struct session *s, const char *name, int64_t unit_ms, double factor, int64_t fallback)
{
	struct slice value = session_var(s, name);
	enum json_kind kind = json_kind(value);
	double ms;

	if (kind != KIND_INTEGER && kind != KIND_REAL)
		return fallback;
	ms = json_to_real(value) * (double)unit_ms * factor;
	return ms >= 1 && ms <= DAY_MS ? (int64_t)ms : fallback;
}

void session_clear(struct session *s, const json_t *names)
{
	size_t i;
	json_t *name;

	json_array_foreach(names, i, name)
	{
		vars_clear(&s->vars, json_string_value(name));
		if (strcmp(json_string_value(name), "cursor") == 0)
			cursor_clear(&s->cursor);
	}
}

struct slice session_save(struct session *s)
{
	s->rendered.len = 0;
	vars_save(&s->vars, &s->rendered);
	return bytes_slice(&s->rendered);
}

bool session_load(struct session *s, struct slice saved)
{
	struct slice object;
	struct json_walk w;

	if (!saved.at || json_check(saved.at, saved.len, &object) || json_kind(object) != KIND_OBJECT)
		return false;
	w = json_walk(object);
	while (json_walk_next(&w)) {
		char *name = make_text((struct slice){w.name.at - 1, w.name.len + 2});

		if (name)
			set_var(s, name, w.value);
		free(name);
	}
	return true;
}

const char *session_trouble(struct session *s)
{
	if (!*s->trouble)
		return NULL;
	snprintf(s->fault, sizeof(s->fault), "%s", s->trouble);
	*s->trouble = '\0';
	return s->fault;
}

void session_set(struct session *s, const char *name, struct slice value)
{
	vars_set(&s->vars, name, value);
}

/* --- shared by producers --- */

void session_exchange(struct session *s, struct session_self *self)
{
	struct session_self mine = {s->vars, s->counter, true};

	if (!self->is_known) {
		vars_init(&self->vars, s->profile->vars);
		self->counted = s->profile->counter_start;
	}
	s->vars = self->vars;
	s->counter = self->counted;
	*self = mine;
}

void session_self_free(struct session_self *self)
{
	vars_free(&self->vars);
	*self = (struct session_self){0};
}

size_t session_self_bytes(const struct session_self *self)
{
	return vars_bytes(&self->vars);
}

/* --- the cursor --- */

static void advance(struct session *s, struct slice cursor, int64_t now_s, bool is_held)
{
	if (!cursor_advance(&s->cursor, cursor, now_s, is_held))
		snprintf(s->trouble, sizeof(s->trouble),
			 "ignored the cursor %.*s, which is of another kind or cannot be stored",
			 (int)(cursor.len < 60 ? cursor.len : 60), cursor.at);
}

void session_advance(struct session *s, struct slice cursor, int64_t now_s)
{
	advance(s, cursor, now_s, s->cursor.is_held);
}

void session_advance_at_once(struct session *s, struct slice cursor, int64_t now_s)
{
	advance(s, cursor, now_s, false);
}

void session_release(struct session *s)
{
	cursor_release(&s->cursor);
}

struct slice session_cursor(struct session *s)
{
	return cursor_next(&s->cursor);
}

struct slice session_mark(struct session *s)
{
	return cursor_mark(&s->cursor);
}

bool session_restore(struct session *s, struct slice mark, int64_t since_s)
{
	struct slice value;

	return mark.at && !json_check(mark.at, mark.len, &value) && cursor_restore(&s->cursor, value, since_s);
}

int64_t session_moved_s(const struct session *s)
{
	return s->cursor.moved_s;
}

static void add_part(struct bytes *kind, const char *part)
{
	if (!part || !*part || (kind->len && strstr(bytes_text(kind), part)))
		return;
	bytes_add_byte(kind, ' ');
	bytes_add_text(kind, part);
}

/* Two cursors can be compared if the same parts of frames supply them. */
char *session_cursor_kind(const struct profile *p, bool is_anew)
{
	struct bytes parts = {NULL, 0, 0};
	char *kind;

	for (size_t i = 0; i < p->rule_count; i++)
		add_part(&parts, p->rules[i].cursor);
	add_part(&parts, p->fallback.cursor);
	kind = memory_printf("%s%s", p->cursor.kind == CURSOR_LAST || is_anew ? "last" : "max",
			     parts.len ? bytes_text(&parts) : "");
	bytes_free(&parts);
	return kind;
}

/* --- messages --- */

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
	size_t room;     /* bytes that events and answers of the text may still repeat */
	size_t shared;   /* those that each event of the frame repeats */
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

		if (json_kind(value) > KIND_NULL && !set_var(s, c->name, value))
			snprintf(s->trouble, sizeof(s->trouble),
				 "the value for %.60s is longer than %d bytes and was not kept", c->name,
				 VARS_BYTES_MAX);
	}
	arena_clear(&s->arena);
	session_clear(s, r->rule->profile->clear);
	if (s->has_cursor_var || r->rule->capture_count)
		set_cursor_var(s);
}

/* Takes bytes from the message's room. Returns false if it has fewer. */
static bool take_room(struct reading *r, size_t bytes)
{
	bool has_room = bytes <= r->room;

	r->room -= has_room ? bytes : r->room;
	return has_room;
}

/* Renders an answer. Returns {NULL, 0} if the template has no value, or the answers have used up their room. */
static struct slice render_answer(struct reading *r, const json_t *t, struct template_scope *scope)
{
	struct slice answer = render_scope(r->session, t, true, scope);
	bool has_room = take_room(r, answer.len + scope->searched / SEARCHED_PER_ROOM);

	scope->searched = 0;
	if (answer.at && has_room)
		return answer;
	if (answer.at)
		snprintf(r->session->trouble, sizeof(r->session->trouble),
			 "the answers to a message are too long for its length, and were not all sent");
	return (struct slice){NULL, 0};
}

static void send_replies(struct reading *r)
{
	struct template_scope scope = scope_of(r->session, r->frame);
	struct template_walk w = {.array = r->rule->profile->send};
	const json_t *t;

	while (r->room && (t = template_next(&w, &scope))) {
		struct slice frame = render_answer(r, t, &scope);

		if (frame.at && r->handler->on_send)
			r->handler->on_send(r->ctx, frame);
	}
}

/* Sets the URL of the next connection. */
static void keep_redirect(struct reading *r, const char *url)
{
	struct session *s = r->session;
	struct template_scope scope = scope_of(s, r->frame);

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

/* The cursor of an event or a frame; null counts as none. The largest one is compared with those of all other events
 * of the frame, which would take minutes if it were long. */
static struct slice find_cursor(const struct reading *r, const struct place *at)
{
	struct slice value = part_value(&r->rule->cursor, at);
	struct session *s = r->session;
	bool is_long = value.len > CURSOR_BYTES && s->profile->cursor.kind == CURSOR_MAX;

	if (is_long)
		snprintf(s->trouble, sizeof(s->trouble), "ignored a cursor that is longer than %d bytes", CURSOR_BYTES);
	return json_kind(value) > KIND_NULL && !is_long ? value : (struct slice){NULL, 0};
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

	if (!rule_id(rule, at, s->is_recording ? SIZE_MAX : PROFILE_ID_MAX, &s->id, &s->why))
		return bytes_text(&s->why);
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
	r->room -= r->shared;
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
	struct place place = frame_place(r);

	r->shared = rule_shared(r->rule, &place);
	if (r->shared && most > r->room / r->shared)
		most = r->room / r->shared;
	r->elements = 0;
	if (r->frame.len / 2 >= most)
		rule_explode(r->session->rules, r->rule, r->frame, count_element, r);
	return r->elements > most;
}

static void read_events(struct reading *r)
{
	size_t own = (size_t)r->session->profile->max_elements;

	if (has_too_many(r)) {
		reject(r, r->frame,
		       own && r->elements > own ? "the frame has more elements than max_elements"
						: "the frame has too many elements for its length, or for what each "
						  "repeats");
		return;
	}
	if (!rule_explode(r->session->rules, r->rule, r->frame, on_element, r)) {
		if (r->handler->on_no_list)
			r->handler->on_no_list(r->ctx, r->frame);
		if (r->session->profile->fallback.action == ACTION_REJECT)
			reject(r, r->frame, "the list of explode is missing");
		return;
	}
	if (is_ack(r->rule->profile->ack) && !r->rejected) {
		struct template_scope scope = scope_of(r->session, r->frame);
		struct slice frame = render_answer(r, r->rule->profile->ack, &scope);

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

/* Reads one part of a message: a text for which there is a rule, or JSON where `frame` says it begins. */
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
	size_t room = SESSION_ROOM(len);

	return session_read_part(s, message, len, &room, handler, ctx);
}

size_t session_read_part(struct session *s, const char *message, size_t len, size_t *room,
			 const struct session_handler *handler, void *ctx)
{
	size_t own = (size_t)s->profile->max_elements, usual = SESSION_USUAL(len);
	struct reading r = {
		.session = s, .handler = handler, .ctx = ctx, .most = own > usual ? own : usual, .room = *room};
	bool has_lines = s->profile->split == SPLIT_NDJSON;

	if (s->profile->frame.until || has_lines)
		read_parts(&r, message, len, has_lines ? "\n" : json_string_value(s->profile->frame.until),
			   has_lines ? 1 : json_string_length(s->profile->frame.until));
	else
		read_part(&r, (struct slice){message, len});
	*room = r.room;
	return r.events;
}
