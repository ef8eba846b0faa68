/* session.c owns the state of a source between connections: variables, cursor, the next URL and the messages to send
 * first. session_read.c reads messages. */
#include "feed/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/url.h"
#include "feed/session_state.h"

#define DAY_MS 86400000.0

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

void session_hide_signatures(struct session *s, struct secrets *secrets)
{
	s->secrets = secrets;
}

void session_free(struct session *s)
{
	struct bytes *texts[] = {&s->redirect,   &s->url_json,   &s->texts, &s->rendered,
				 &s->spliced[0], &s->spliced[1], &s->id};

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

struct template_scope session_scope(struct session *s, struct slice frame)
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
	struct template_scope scope = session_scope(s, (struct slice){NULL, 0});
	struct slice rendered;

	scope.now_ms = s->now_ms;
	rendered = render(s, t, false, &scope);
	*fault = take_fault(s, &scope);
	return rendered;
}

struct slice session_render_scope(struct session *s, const json_t *t, bool is_message, struct template_scope *scope)
{
	struct slice rendered = render(s, t, is_message, scope);

	if (*scope->fault)
		snprintf(s->trouble, sizeof(s->trouble), "%s", scope->fault);
	return rendered;
}

struct slice session_render_frame(struct session *s, const json_t *t, bool is_message, struct slice frame)
{
	struct template_scope scope = session_scope(s, frame);

	return session_render_scope(s, t, is_message, &scope);
}

const char *session_render_text(struct session *s, const char *t, bool is_url, const char **fault)
{
	struct template_scope scope = session_scope(s, (struct slice){NULL, 0});

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
	return s->is_recording || !p->resume_window_s || (closed_ms && now_ms - closed_ms <= p->resume_window_s * 1000);
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
	while ((t = template_next(&w, scope))) {
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
	struct template_scope scope = session_scope(s, (struct slice){NULL, 0});

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

void session_set_cursor_var(struct session *s)
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
	session_set_cursor_var(s);
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

		if (json_kind(value) <= KIND_NULL || !vars_set(&s->vars, name, value))
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
			vars_set(&s->vars, name, w.value);
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
	struct session_self mine = {s->vars.items, s->vars.count, s->counter, true};

	if (!self->is_known) {
		vars_init(&s->vars, s->profile->vars);
		s->counter = s->profile->counter_start;
	} else {
		s->vars.items = self->variables;
		s->vars.count = self->count;
		s->counter = self->counted;
	}
	*self = mine;
}

static struct vars vars_of(const struct session_self *self)
{
	return (struct vars){.items = self->variables, .count = self->count};
}

void session_self_free(struct session_self *self)
{
	struct vars vars = vars_of(self);

	vars_free(&vars);
	*self = (struct session_self){0};
}

size_t session_self_bytes(const struct session_self *self)
{
	struct vars vars = vars_of(self);

	return vars_bytes(&vars);
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
