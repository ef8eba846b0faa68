/* line.c owns one connection of a conversation: the HTTP calls before and after the handshake, what is sent and how
 * fast, pings of the application, silence, and the frames on their way from the connection to the session and from
 * there to the sink. When to connect is intake/conversation.c's.
 *
 * What a frame calls for that ends the connection is done after the message is read: the session is not entered twice.
 */
#include "intake/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "feed/reach.h"
#include "base/log.h"
#include "base/memory.h"
#include "intake/courtesy.h"

#define IDLE_MS       90000  /* by default, where pings are answered; */
#define SILENT_MS     600000 /* where there are none */
#define CATCH_UP_MS   5000   /* to read what came while it was not read from, before it may go */
#define TELL_MS       60000
#define EXAMPLE_BYTES 200

struct line {
	const struct conversation_parts *p;
	const struct line_owner *owner;
	void *arg;
	struct dial *dial; /* NULL: none yet, or none any more */
	void *of;          /* the sink's; NULL: it is not open */
	size_t mirror;     /* which of them, and which of a name's addresses */
	bool is_bare;      /* a redirect that keeps subscriptions: nothing is said */
	char **on_open;
	size_t on_open_count;
	char *headers;
	char **subprotocols;
	struct upgrade_offer offer;
	int64_t since_ms; /* loop clock, begun */
	int64_t opened_ms;
	int64_t age_ms;  /* at which it is too old; 0: never */
	int64_t ping_ms; /* loop clock, of the next ping; 0: not known */
	int64_t pinged_ms;
	int64_t told_ms;  /* loop clock, of the last line about what is ignored */
	int64_t held_ms;  /* loop clock, when it was last seen not to be read from; 0: never */
	int64_t until_ms; /* loop clock, it has a successor; 0: it has none */
	struct courtesy courtesy;
	/* HTTP: */
	const struct profile_http *call; /* at work or next; NULL: none */
	size_t calls_left;               /* with it */
	struct request *request;
	/* Of the message at hand: */
	const struct profile_rule *rule; /* the last that matched */
	struct rule_count count;         /* of it */
	bool is_ready;
	const struct profile_rule *http_rule;
	const struct profile_rule *action;
	char action_frame[EXAMPLE_BYTES + 1];
	char fault[400]; /* to be told at the next tick; "": none */
	int64_t fault_wait_ms;
};

static int64_t now_ms(const struct line *line)
{
	return (int64_t)uv_now(line->p->loop);
}

/* --- the end --- */

static void close_sink(struct line *line)
{
	if (line->of)
		line->p->sink->on_close(line->of);
	line->of = NULL;
}

void line_free(struct line *line, unsigned int code)
{
	if (line->request)
		request_cancel(line->request);
	if (line->dial && code)
		dial_leave(line->dial, code);
	else if (line->dial)
		dial_cut(line->dial);
	close_sink(line);
	for (size_t i = 0; i < line->on_open_count; i++)
		free(line->on_open[i]);
	for (size_t i = 0; i < line->offer.subprotocol_count; i++)
		free(line->subprotocols[i]);
	free(line->on_open);
	free(line->subprotocols);
	free(line->headers);
	courtesy_clear(&line->courtesy);
	free(line);
}

static void fail_later(struct line *line, const char *reason, int64_t wait_ms)
{
	if (*line->fault)
		return;
	snprintf(line->fault, sizeof(line->fault), "%s", reason);
	line->fault_wait_ms = wait_ms;
}

static void tell_fault(struct line *line)
{
	struct dial_end end = {.reason = line->fault, .was_open = line->of, .wait_ms = line->fault_wait_ms};

	if (line->dial)
		dial_leave(line->dial, (unsigned int)line->p->profile->close_code_on_stop);
	line->dial = NULL;
	close_sink(line);
	line->owner->on_end(line->arg, line, &end);
}

/* --- what is sent --- */

static void send_now(void *arg, const char *text, size_t len)
{
	struct line *line = arg;

	if (line->dial)
		dial_send(line->dial, text, len);
}

static void say(struct line *line, struct slice text, enum courtesy_kind kind)
{
	if (!text.at || line->p->profile->never_send || !line->of)
		return;
	if (courtesy_say(&line->courtesy, text.at, text.len, kind, now_ms(line), send_now, line))
		fail_later(line, "the feed provokes more replies than may be sent", 0);
}

void line_send(struct line *line, struct slice frame)
{
	say(line, frame, COURTESY_ACK);
}

void line_hold(struct line *line, bool is_held)
{
	if (line->dial)
		dial_hold(line->dial, is_held);
}

static void say_first_words(struct line *line)
{
	for (size_t i = 0; i < line->on_open_count; i++)
		say(line, (struct slice){line->on_open[i], strlen(line->on_open[i])}, COURTESY_OWN);
}

/* --- frames --- */

static void end_rule(struct line *line)
{
	if (!line->rule)
		return;
	line->count.nothing = !line->count.events;
	line->owner->on_count(line->arg, line->rule, &line->count);
	line->rule = NULL;
	line->count = (struct rule_count){0};
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct line *line = ctx;

	end_rule(line);
	line->rule = rule;
	line->is_ready |= rule->ready;
	if (rule->http_count)
		line->http_rule = rule;
	if (rule->clear && line->of)
		line->p->sink->on_clear(line->p->arg, line->of, rule->clear);
	line->owner->on_rule(line->arg, rule, frame);
}

static void on_frame(void *ctx)
{
	struct line *line = ctx;

	line->p->sink->on_frame(line->of);
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct line *line = ctx;

	line->count.events++;
	if (event->gap_seq.at)
		line->owner->on_number(line->arg, event);
	line->p->sink->on_event(line->of, event);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	struct line *line = ctx;

	line->count.rejected++;
	line->p->sink->on_reject(line->of, bytes, why);
}

static void on_send(void *ctx, struct slice frame)
{
	struct line *line = ctx;

	line->count.sends++;
	say(line, frame, COURTESY_REPLY);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct line *line = ctx;

	if (line->action && line->action->action == ACTION_FATAL)
		return;
	line->action = rule;
	snprintf(line->action_frame, sizeof(line->action_frame), "%.*s",
		 (int)(frame.len < EXAMPLE_BYTES ? frame.len : EXAMPLE_BYTES), frame.at);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct line *line = ctx;

	line->p->sink->on_cursor(line->of, cursor);
}

static void on_ack(void *ctx, struct slice frame)
{
	struct line *line = ctx;

	line->p->sink->on_ack(line->of, frame);
}

static void on_filtered(void *ctx)
{
	struct line *line = ctx;

	line->count.filtered++;
}

static bool is_held(void *ctx)
{
	const struct line *line = ctx;

	return line->p->sink->is_held(line->of);
}

static void on_release(void *ctx)
{
	struct line *line = ctx;

	line->p->sink->on_release(line->of);
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_rule = on_rule,
	.on_filtered = on_filtered,
	.on_frame = on_frame,
	.is_held = is_held,
	.on_release = on_release,
};

/* Texts that a server gave: a ticket, a token, or nothing of the kind. */
static void tell_secrets(struct line *line, const json_t *capture)
{
	const char *name;
	json_t *part;

	json_object_foreach((json_t *)(uintptr_t)capture, name, part)
	{
		struct slice value = session_var(line->p->session, name);

		if (value.len > 2 && *value.at == '"')
			line->owner->on_secret(line->arg, value.at + 1, value.len - 2);
	}
}

static void start_calls(struct line *line);

/* What a message called for. The owner may free the line in the last step. */
static void after_message(struct line *line)
{
	const struct profile_rule *http = line->http_rule, *action = line->action;
	bool is_ready = line->is_ready;

	line->http_rule = line->action = NULL;
	line->is_ready = false;
	if (http && !line->is_bare && !line->call) {
		line->call = http->http;
		line->calls_left = http->http_count;
		start_calls(line);
	}
	line->owner->on_ready(line->arg, line, is_ready);
	if (action)
		line->owner->on_action(line->arg, line, action, line->action_frame);
}

/* Once a minute. */
static void tell_trouble(struct line *line)
{
	const char *trouble = session_trouble(line->p->session);

	if (!trouble || (line->told_ms && now_ms(line) - line->told_ms < TELL_MS))
		return;
	line->told_ms = now_ms(line);
	log_warn("source sends what is ignored", "source=%s reason=%s", line->p->profile->name, trouble);
}

/* No rule reads an envelope. */
static void count_envelope(struct line *line, struct slice message, bool is_event)
{
	on_rule(line, line->p->profile->rules, message);
	line->count.events = is_event;
	end_rule(line);
}

static void on_message(void *arg, const char *message, size_t len)
{
	struct line *line = arg;
	const struct profile_rule *rule;
	bool is_event;

	if (*line->fault || (line->action && line->action->action == ACTION_FATAL))
		return;
	is_event = line->p->sink->on_message(line->of, message, len);
	if (line->p->profile->redacted_url) {
		count_envelope(line, (struct slice){message, len}, is_event);
		return;
	}
	session_read(line->p->session, message, len, &handler, line);
	rule = line->rule;
	end_rule(line);
	tell_trouble(line);
	line->p->sink->on_read(line->of);
	if (rule)
		tell_secrets(line, rule->capture);
	after_message(line);
}

static void on_too_long(void *arg, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct line *line = arg;

	line->p->sink->on_too_long(line->of, head, len, digest, total);
}

/* --- the connection --- */

/* A fleet that connected at the same time is not to leave at the same time. */
static int64_t draw_age(const struct profile *p)
{
	return p->max_age_s * 1000 - (int64_t)(backoff_draw() % (uint64_t)(p->max_age_s * 100 + 1));
}

static void on_open(void *arg)
{
	struct line *line = arg;
	const struct profile *p = line->p->profile;

	line->opened_ms = now_ms(line);
	line->age_ms = p->max_age_s ? draw_age(p) : 0;
	if (p->never_send)
		dial_set_ping(line->dial, 0);
	else if (p->ws_ping_s >= 0)
		dial_set_ping(line->dial, p->ws_ping_s * 1000);
	line->of = line->p->sink->on_open(line->p->arg, line);
	say_first_words(line);
	line->owner->on_open(line->arg, line);
}

static void on_end(void *arg, const struct dial_end *end)
{
	struct line *line = arg;

	line->dial = NULL;
	close_sink(line);
	line->owner->on_end(line->arg, line, end);
}

static const struct dial_owner dial_owner = {on_open, on_message, on_too_long, on_end};

static bool is_token(const char *text)
{
	return *text &&
	       !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~")];
}

/* A value of a header: a file may end its line. NULL: it is none. */
static char *header_value(const char *text)
{
	char *value = memory_strdup(text);
	size_t n = strlen(value);

	while (n && (value[n - 1] == '\n' || value[n - 1] == '\r'))
		value[--n] = '\0';
	for (const char *c = value; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
			free(value);
			return NULL;
		}
	return value;
}

static bool has_secret(const char *template)
{
	return strstr(template, "${env:") || strstr(template, "${file:");
}

/* Hands the lines of a profile's headers to add, one by one; stops at what cannot be sent and returns its name. Those
 * with secrets are for the profile's own hosts. */
static const char *write_headers(struct line *line, const json_t *headers, bool is_own,
				 void (*add)(void *to, char *text), void *to)
{
	const char *name, *fault = NULL;
	json_t *item;

	json_object_foreach((json_t *)(uintptr_t)headers, name, item)
	{
		const char *text;
		char *value;

		if (!is_own && has_secret(json_string_value(item)))
			continue;
		text = session_render_text(line->p->session, json_string_value(item), false, &fault);
		value = text && !fault ? header_value(text) : NULL;

		if (!value || !is_token(name) || !upgrade_allows_header(name)) {
			free(value);
			return name;
		}
		add(to, memory_printf("%s: %s", name, value));
		free(value);
	}
	return NULL;
}

static void add_line(void *to, char *text)
{
	char **lines = to, *longer = memory_printf("%s%s\r\n", *lines ? *lines : "", text);

	free(text);
	free(*lines);
	*lines = longer;
}

static void set_offer(struct line *line)
{
	const json_t *names = line->p->profile->subprotocols;
	size_t count = json_array_size(names);

	line->subprotocols = memory_calloc(count + 1, sizeof(*line->subprotocols));
	for (size_t i = 0; i < count; i++)
		line->subprotocols[i] = memory_strdup(json_string_value(json_array_get(names, i)));
	line->offer = (struct upgrade_offer){
		.headers = line->headers,
		.subprotocols = line->subprotocols,
		.subprotocol_count = count,
		.has_deflate = !line->p->config->source_uncompressed,
		.max_message = (size_t)line->p->profile->max_message_bytes,
	};
}

/* What is said at first is said when the connection is open, and lives only until the next one is decided on. */
static void keep_first_words(struct line *line, const struct session_dial *how)
{
	line->on_open = memory_calloc(how->on_open_count + 1, sizeof(*line->on_open));
	for (; line->on_open_count < how->on_open_count; line->on_open_count++)
		line->on_open[line->on_open_count] =
			memory_strndup(how->on_open[line->on_open_count].at, how->on_open[line->on_open_count].len);
}

static void dial(struct line *line, const struct session_dial *how)
{
	bool is_own = false;
	const char *fault = how->url ? reach_fault(line->p->profile, how->url, &is_own) : NULL;
	const char *wrong = write_headers(line, line->p->profile->headers, is_own, add_line, &line->headers);
	char reason[160];

	keep_first_words(line, how);
	set_offer(line);
	if (how->fault) {
		fail_later(line, how->fault, 0);
		return;
	}
	if (wrong || !how->url) {
		snprintf(reason, sizeof(reason), wrong ? "header %.60s cannot be sent: %s" : "%.0s%s",
			 wrong ? wrong : "",
			 wrong ? "a secret cannot be read, or holds a control character"
			       : "the feed's URL is not known");
		fail_later(line, reason, 0);
		return;
	}
	if (fault) {
		snprintf(reason, sizeof(reason), "the URL %s", fault);
		fail_later(line, reason, 0);
		return;
	}
	line->dial =
		dial_start(line->p->dialler, how->url, &line->offer, (unsigned int)line->mirror, &dial_owner, line);
}

/* --- HTTP --- */

#define CALL_HEADERS 32

struct call_headers {
	char *lines[CALL_HEADERS + 1];
	size_t count;
};

static void add_call_header(void *to, char *text)
{
	struct call_headers *h = to;

	if (h->count < CALL_HEADERS)
		h->lines[h->count++] = text;
	else
		free(text);
}

/* Before or after the handshake. */
static void fail_call(struct line *line, const char *what, int64_t wait_ms)
{
	char reason[400];

	snprintf(reason, sizeof(reason), "the HTTP call %s: %s",
		 line->of ? "that a rule asks for" : "before connecting", what);
	fail_later(line, reason, wait_ms);
	line->call = NULL;
}

static void dial_with_answer(struct line *line)
{
	struct session_dial how = {0};

	session_renew(line->p->session, line->mirror, &how);
	dial(line, &how);
}

/* Of an answer that may hold a token no more is told than its own member "error". */
static void describe_answer(char *what, size_t size, const struct request_answer *answer)
{
	json_t *root = json_loadb(answer->body, answer->len, 0, NULL);
	const char *error = json_string_value(json_object_get(root, "error"));

	snprintf(what, size, "the answer is not JSON, or lacks what is to be captured%s%.*s",
		 error ? "; its error: " : "", EXAMPLE_BYTES, error ? error : "");
	json_decref(root);
}

static void on_answer(void *arg, const struct request_answer *answer)
{
	struct line *line = arg;
	char what[300];

	line->request = NULL;
	if (answer->status / 100 != 2) {
		snprintf(what, sizeof(what), "answered %d%s%.*s", answer->status, answer->len ? ": " : "",
			 (int)(answer->len < EXAMPLE_BYTES ? answer->len : EXAMPLE_BYTES),
			 answer->body ? answer->body : "");
		fail_call(line, answer->status ? what : answer->reason, answer->wait_ms);
		return;
	}
	if (!session_answer(line->p->session, line->call, answer->body, answer->len)) {
		describe_answer(what, sizeof(what), answer);
		fail_call(line, what, 0);
		return;
	}
	tell_secrets(line, line->call->capture);
	line->call = --line->calls_left ? line->call + 1 : NULL;
	if (line->call)
		start_calls(line);
	else if (!line->dial)
		dial_with_answer(line);
}

static void start_calls(struct line *line)
{
	const struct profile_http *http = line->call;
	const char *fault = NULL, *text = session_render_text(line->p->session, http->url, true, &fault);
	char *url = text ? memory_strdup(text) : NULL;
	struct call_headers headers = {0};
	bool is_own = false;
	const char *wrong;
	struct slice body = {0};

	if (!fault)
		fault = reach_fault(line->p->profile, url ? url : "", &is_own);
	wrong = write_headers(line, http->headers, is_own, add_call_header, &headers);
	if (!fault && http->body)
		body = session_render(line->p->session, http->body, &fault);
	if (url && !fault && !wrong)
		line->request = request_send(line->p->requests,
					     &(struct request_call){.method = http->method,
								    .url = url,
								    .headers = (const char *const *)headers.lines,
								    .body = body.at,
								    .body_len = body.len},
					     on_answer, line);
	if (!line->request)
		fail_call(line, fault ? fault : wrong ? "a header cannot be sent" : "its URL is not one for HTTP", 0);
	for (size_t i = 0; i < headers.count; i++)
		free(headers.lines[i]);
	free(url);
}

/* --- deadlines --- */

static int64_t idle_limit_ms(const struct line *line)
{
	const struct profile *p = line->p->profile;
	bool is_pinged = !p->never_send && (p->ws_ping_s || p->ping.send);
	int64_t fallback = p->idle_timeout.ms >= 0           ? p->idle_timeout.ms
			   : line->p->config->idle_timeout_s ? line->p->config->idle_timeout_s * 1000
			   : is_pinged                       ? IDLE_MS
							     : SILENT_MS;

	if (!p->idle_timeout.var)
		return fallback;
	return session_var_ms(line->p->session, p->idle_timeout.var, p->idle_timeout.unit_ms, p->idle_timeout.factor,
			      fallback);
}

/* A plain source that answers pings may still have forgotten us. */
static void look_for_silence(struct line *line)
{
	int64_t limit_ms = idle_limit_ms(line), now = now_ms(line);
	int64_t heard_ms =
		line->p->profile->redacted_url ? dial_message_ms(line->dial, now) : dial_heard_ms(line->dial, now);

	if (limit_ms && now - heard_ms >= limit_ms)
		fail_later(line, "the feed was silent for too long", 0);
}

static int64_t ping_interval_ms(const struct line *line)
{
	const struct profile *p = line->p->profile;

	if (!p->ping.send || p->never_send)
		return 0;
	if (!p->ping.var)
		return p->ping.every_ms;
	return session_var_ms(line->p->session, p->ping.var, p->ping.unit_ms, 1, p->ping.every_ms);
}

/* Anything at all since the last ping shows that the feed lives. */
static void ping_if_due(struct line *line)
{
	int64_t interval = ping_interval_ms(line), now = now_ms(line);
	const char *fault = NULL;

	if (interval <= 0)
		return;
	if (!line->ping_ms)
		line->ping_ms =
			now + (line->p->profile->ping.first_jitter ? (int64_t)(backoff_draw() % (uint64_t)interval)
								   : interval);
	if (now < line->ping_ms)
		return;
	if (line->pinged_ms && dial_heard_ms(line->dial, now) < line->pinged_ms) {
		fail_later(line, "the feed did not answer a ping", 0);
		return;
	}
	say(line, session_render(line->p->session, line->p->profile->ping.send, &fault), COURTESY_OWN);
	line->pinged_ms = now;
	line->ping_ms = now + interval;
}

void line_tick(struct line *line)
{
	if (line->of && line->dial && !*line->fault) {
		if (dial_is_held(line->dial))
			line->held_ms = now_ms(line);
		courtesy_go_on(&line->courtesy, now_ms(line), send_now, line);
		look_for_silence(line);
		ping_if_due(line);
		tell_trouble(line); /* with a cursor, long after its message */
	}
	if (*line->fault)
		tell_fault(line);
}

bool line_is_open(const struct line *line)
{
	return line->of != NULL;
}

int64_t line_since_ms(const struct line *line)
{
	return line->since_ms;
}

bool line_is_behind(const struct line *line)
{
	if (!line->dial)
		return false;
	return dial_is_held(line->dial) ||
	       (line->held_ms && now_ms(line) - line->held_ms < CATCH_UP_MS && dial_has_unread(line->dial));
}

bool line_is_too_old(const struct line *line)
{
	return line->of && line->age_ms && now_ms(line) - line->opened_ms >= line->age_ms;
}

void line_retire(struct line *line, int64_t until_ms)
{
	line->until_ms = until_ms;
}

bool line_is_done(const struct line *line)
{
	return !line->of ||
	       (!line_is_behind(line) && (now_ms(line) >= line->until_ms || !line->p->sink->is_owing(line->of)));
}

/* --- the beginning --- */

struct line *line_new(const struct conversation_parts *parts, const struct session_dial *how, size_t mirror,
		      const struct line_owner *owner, void *arg)
{
	struct line *line = memory_calloc(1, sizeof(*line));

	line->p = parts;
	line->owner = owner;
	line->arg = arg;
	line->mirror = mirror;
	line->since_ms = now_ms(line);
	line->is_bare = how->how == HOW_REDIRECT && parts->profile->redirect_keeps_subscriptions;
	courtesy_init(&line->courtesy, parts->profile->send_rate_per_s, line->since_ms);
	if (how->how == HOW_HTTP && !how->fault) {
		line->call = parts->profile->url_http;
		line->calls_left = 1;
		start_calls(line);
		return line;
	}
	dial(line, how);
	return line;
}
