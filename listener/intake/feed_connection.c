/* feed_connection.c owns one connection to a feed: the HTTP calls before and after the handshake, what is sent and how
 * fast, application pings, the silence timeout, and passing frames to the session and its results to the callbacks.
 * intake/feed_client.c decides when to connect.
 *
 * A rule that ends the connection takes effect after the whole message is read, because the session is not reentrant.
 */
#include "intake/feed_connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/json.h"
#include "feed/reach.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "intake/feed_call.h"
#include "intake/idle.h"
#include "intake/rate_limit.h"
#include "net/unpack.h"

#define PROOF_MS      5000 /* after a silence, the first ping of a good connection does not wait longer */
#define CATCH_UP_MS   5000 /* after a pause, time to read the backlog before the connection may be closed */
#define EXAMPLE_BYTES 200

struct feed_connection {
	const struct feed_client_parts *p;
	struct feed_client *client;
	struct dial *dial; /* NULL: not connected */
	void *of;          /* from on_open; NULL: not open */
	size_t mirror;     /* selects the mirror and the address of its host */
	bool is_bare;      /* redirected, and the feed keeps the subscriptions: send no first messages */
	struct bytes *on_open;
	size_t on_open_count;
	char *headers;
	char **subprotocols;
	struct upgrade_offer offer;
	struct unpack *unpack; /* NULL: binary messages are not compressed */
	int64_t since_ms;      /* loop clock: when it was created */
	int64_t opened_ms;
	bool is_good;    /* has brought an event or a `ready` frame */
	bool has_data;   /* has brought an event, a dead letter, or what a filter leaves out */
	int64_t age_ms;  /* maximum age; 0: none */
	int64_t ping_ms; /* loop clock, next ping; 0: not known */
	int64_t pinged_ms;
	int64_t held_ms;  /* loop clock, when reading was last paused; 0: never */
	int64_t until_ms; /* loop clock, deadline for closing a connection with a successor; 0: none */
	struct rate_limit rate_limit;
	bool is_full; /* too many acks are owed */
	/* HTTP: */
	const struct profile_http *call; /* current or next call; NULL: none */
	size_t calls_left;               /* calls to make, including this one */
	struct request *request;
	/* Of the current message: */
	const struct profile_rule *rule; /* last rule that matched */
	struct rule_count count;         /* counts for this rule */
	bool is_ready;
	const struct profile_rule *http_rule;
	const struct profile_rule *action;
	char action_frame[EXAMPLE_BYTES + 1];
	char fault[400]; /* reason to end at the next tick, or "" */
	int64_t fault_wait_ms;
	int64_t unheard_ms; /* as in dial.h */
};

static int64_t now_ms(const struct feed_connection *conn)
{
	return (int64_t)uv_now(conn->p->loop);
}

/* --- the end --- */

static void close_sink(struct feed_connection *conn)
{
	if (conn->of && conn->p->callbacks->on_close)
		conn->p->callbacks->on_close(conn->of);
	conn->of = NULL;
}

void feed_connection_free(struct feed_connection *conn, unsigned int code)
{
	if (conn->request)
		request_cancel(conn->request);
	if (conn->dial && code)
		dial_leave(conn->dial, code);
	else if (conn->dial)
		dial_cut(conn->dial);
	close_sink(conn);
	for (size_t i = 0; i < conn->on_open_count; i++)
		bytes_free(&conn->on_open[i]);
	for (size_t i = 0; i < conn->offer.subprotocol_count; i++)
		free(conn->subprotocols[i]);
	free(conn->on_open);
	free(conn->subprotocols);
	free(conn->headers);
	rate_limit_clear(&conn->rate_limit);
	unpack_free(conn->unpack);
	free(conn);
}

static void fail_later(struct feed_connection *conn, const char *reason, int64_t wait_ms)
{
	if (*conn->fault)
		return;
	snprintf(conn->fault, sizeof(conn->fault), "%s", reason);
	conn->fault_wait_ms = wait_ms;
}

static void tell_fault(struct feed_connection *conn)
{
	struct dial_end end = {.reason = conn->fault,
			       .was_open = conn->of,
			       .wait_ms = conn->fault_wait_ms,
			       .unheard_ms = conn->unheard_ms};

	if (conn->dial)
		dial_leave(conn->dial, (unsigned int)conn->p->profile->close_code_on_stop);
	conn->dial = NULL;
	close_sink(conn);
	feed_client_on_end(conn->client, conn, &end);
}

/* --- what is sent --- */

static void send_now(void *arg, const char *text, size_t len)
{
	struct feed_connection *conn = arg;

	if (conn->dial)
		dial_send(conn->dial, text, len);
}

static void say(struct feed_connection *conn, struct slice text, enum rate_limit_kind kind)
{
	if (!text.at || conn->p->profile->never_send || !conn->of)
		return;
	if (rate_limit_send(&conn->rate_limit, text.at, text.len, kind, now_ms(conn), send_now, conn))
		fail_later(conn, "the feed asks for more replies than the rate limit allows", 0);
}

/* Stops reading while the ledger wants it, or many acks wait for the rate limit. */
static void apply_hold(struct feed_connection *conn)
{
	if (conn->dial)
		dial_hold(conn->dial, conn->is_full || conn->rate_limit.waiting[RATE_LIMIT_ACKS] > RATE_LIMIT_WAITING);
}

void feed_connection_send(struct feed_connection *conn, struct slice frame)
{
	say(conn, frame, conn->p->profile->ack_mode == ACK_MODE_CUMULATIVE ? RATE_LIMIT_LAST_ACK : RATE_LIMIT_ACK);
	apply_hold(conn);
}

void feed_connection_say(struct feed_connection *conn, struct slice message)
{
	say(conn, message, RATE_LIMIT_OWN);
}

void feed_connection_hold(struct feed_connection *conn, bool is_held)
{
	conn->is_full = is_held;
	apply_hold(conn);
}

static void say_first_words(struct feed_connection *conn)
{
	for (size_t i = 0; i < conn->on_open_count; i++)
		say(conn, bytes_slice(&conn->on_open[i]), RATE_LIMIT_OWN);
}

/* --- frames --- */

static void end_rule(struct feed_connection *conn)
{
	if (!conn->rule && !conn->count.rejected)
		return;
	conn->is_good |= conn->count.events || (conn->rule && conn->rule->ready);
	conn->has_data |= conn->count.events || conn->count.rejected || conn->count.filtered;
	conn->count.frames = conn->rule != NULL;
	conn->count.nothing = conn->rule && !conn->count.events;
	feed_client_on_count(conn->client, conn->rule ? conn->rule : &conn->p->profile->fallback, &conn->count);
	conn->rule = NULL;
	conn->count = (struct rule_count){0};
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct feed_connection *conn = ctx;

	end_rule(conn);
	conn->rule = rule;
	conn->is_ready |= rule->ready;
	if (rule->http_count)
		conn->http_rule = rule;
	if (rule->clear && conn->of && conn->p->callbacks->on_clear)
		conn->p->callbacks->on_clear(conn->p->arg, conn->of, rule->clear);
	feed_client_on_rule(conn->client, rule, frame);
}

static void on_frame(void *ctx)
{
	struct feed_connection *conn = ctx;

	if (conn->p->callbacks->on_frame)
		conn->p->callbacks->on_frame(conn->of);
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct feed_connection *conn = ctx;
	struct session_event numbered = *event;

	conn->count.events++;
	if (event->gap_seq.at)
		numbered.missing = feed_client_on_number(conn->client, event);
	conn->p->callbacks->on_event(conn->of, &numbered);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	struct feed_connection *conn = ctx;

	conn->count.rejected++;
	conn->p->callbacks->on_reject(conn->of, bytes, why);
}

static void on_send(void *ctx, struct slice frame)
{
	struct feed_connection *conn = ctx;

	conn->count.sends++;
	say(conn, frame, RATE_LIMIT_REPLY);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct feed_connection *conn = ctx;

	if (conn->action && conn->action->action == ACTION_FATAL)
		return;
	conn->action = rule;
	snprintf(conn->action_frame, sizeof(conn->action_frame), "%.*s",
		 (int)(frame.len < EXAMPLE_BYTES ? frame.len : EXAMPLE_BYTES), frame.at);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct feed_connection *conn = ctx;

	conn->p->callbacks->on_cursor(conn->of, cursor);
}

static void on_ack(void *ctx, struct slice frame)
{
	struct feed_connection *conn = ctx;

	conn->p->callbacks->on_ack(conn->of, frame);
}

/* Counts the frame as one without a rule. */
static void on_no_list(void *ctx, struct slice frame)
{
	struct feed_connection *conn = ctx;

	conn->is_good |= conn->rule->ready;
	conn->rule = &conn->p->profile->fallback;
	feed_client_on_rule(conn->client, conn->rule, frame);
}

static void on_filtered(void *ctx)
{
	struct feed_connection *conn = ctx;

	conn->count.filtered++;
}

static void on_release(void *ctx)
{
	struct feed_connection *conn = ctx;

	if (conn->p->callbacks->on_release)
		conn->p->callbacks->on_release(conn->of);
	else
		session_release(conn->p->session);
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_rule = on_rule,
	.on_no_list = on_no_list,
	.on_filtered = on_filtered,
	.on_frame = on_frame,
	.on_release = on_release,
};

static void start_calls(struct feed_connection *conn);

/* Runs the delayed effects of a message. The client may free conn in the last step. */
static void after_message(struct feed_connection *conn)
{
	const struct profile_rule *http = conn->http_rule, *action = conn->action;
	bool is_ready = conn->is_ready;

	conn->http_rule = conn->action = NULL;
	conn->is_ready = false;
	if (http && !conn->is_bare && !conn->call) {
		conn->call = http->http;
		conn->calls_left = http->http_count;
		start_calls(conn);
	}
	feed_client_on_ready(conn->client, conn, is_ready);
	if (action)
		feed_client_on_action(conn->client, conn, action, conn->action_frame);
}

static void tell_trouble(struct feed_connection *conn)
{
	const char *trouble = session_trouble(conn->p->session);

	if (trouble)
		feed_client_on_trouble(conn->client, trouble);
}

/* Counts a message of a plain source, which has no rules. */
static void count_envelope(struct feed_connection *conn, struct slice message, bool is_event)
{
	on_rule(conn, conn->p->profile->rules, message);
	conn->count.events = is_event;
	conn->count.rejected = !is_event;
	end_rule(conn);
}

/* Replaces a binary message by its text, in memory that *inflated owns. Returns NULL, or why it is a dead letter. */
static const char *read_binary(struct feed_connection *conn, struct slice *message, char **inflated)
{
	const struct profile *p = conn->p->profile;
	size_t own = conn->offer.max_message;

	if (conn->unpack)
		return unpack(conn->unpack, message, own ? own : (size_t)conn->p->config->message_bytes, inflated);
	return p->redacted_url || p->not_json == NOT_JSON_IGNORE || is_utf8(message->at, message->len)
		       ? NULL
		       : "the message is binary, and the profile does not say how it is compressed (binary)";
}

static void on_message(void *arg, const char *bytes, size_t len, bool is_text)
{
	struct feed_connection *conn = arg;
	struct slice message = {bytes, len};
	char *inflated = NULL;
	const char *why;
	bool is_event;

	if (*conn->fault || (conn->action && conn->action->action == ACTION_FATAL))
		return;
	why = is_text || !len ? NULL : read_binary(conn, &message, &inflated);
	is_event = conn->p->callbacks->on_message(conn->of, message.at, message.len);
	if (conn->p->profile->redacted_url) { /* a plain source: it inflates nothing */
		count_envelope(conn, message, is_event);
		return;
	}
	if (why) {
		on_frame(conn);
		on_reject(conn, message, why);
	} else {
		session_read(conn->p->session, message.at, message.len, &handler, conn);
	}
	end_rule(conn);
	tell_trouble(conn);
	if (conn->p->callbacks->on_read)
		conn->p->callbacks->on_read(conn->of);
	free(inflated);
	after_message(conn);
}

static void on_too_long(void *arg, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct feed_connection *conn = arg;

	conn->p->callbacks->on_too_long(conn->of, head, len, digest, total);
}

/* --- signs of life --- */

static int64_t ws_ping_ms(const struct feed_connection *conn)
{
	const struct profile *p = conn->p->profile;

	return p->never_send ? 0 : 1000 * (p->ws_ping_s >= 0 ? p->ws_ping_s : conn->p->config->ping_interval_s);
}

static int64_t ping_interval_ms(const struct feed_connection *conn)
{
	const struct profile *p = conn->p->profile;

	if (!p->ping.send || p->never_send)
		return 0;
	if (!p->ping.var)
		return p->ping.every_ms;
	return session_var_ms(conn->p->session, p->ping.var, p->ping.unit_ms, 1, p->ping.every_ms);
}

static struct idle_signs signs_of(const struct feed_connection *conn)
{
	return (struct idle_signs){.opened_ms = conn->opened_ms,
				   .message_ms = dial_message_ms(conn->dial, now_ms(conn)),
				   .heard_ms = dial_heard_ms(conn->dial, now_ms(conn)),
				   .pinged_ms = conn->pinged_ms};
}

/* Call when a ping was not answered. */
static void note_unanswered(const struct feed_connection *conn)
{
	struct idle_signs signs = signs_of(conn);

	if (!conn->has_data)
		feed_client_on_idle(conn->client, conn, idle_unanswered(feed_client_idle(conn->client), &signs));
}

/* --- the connection --- */

/* Jitter keeps a fleet that connected together from reconnecting together. */
static int64_t draw_age(const struct profile *p)
{
	return p->max_age_s * 1000 - (int64_t)(backoff_draw() % (uint64_t)(p->max_age_s * 100 + 1));
}

static void on_open(void *arg)
{
	struct feed_connection *conn = arg;
	const struct profile *p = conn->p->profile;

	conn->opened_ms = now_ms(conn);
	conn->age_ms = p->max_age_s ? draw_age(p) : 0;
	dial_set_ping(conn->dial, ws_ping_ms(conn));
	conn->of = conn->p->callbacks->on_open(conn->p->arg, conn);
	say_first_words(conn);
	feed_client_on_open(conn->client, conn);
}

static void on_end(void *arg, const struct dial_end *end)
{
	struct feed_connection *conn = arg;

	if (end->is_unanswered)
		note_unanswered(conn);
	conn->dial = NULL;
	close_sink(conn);
	feed_client_on_end(conn->client, conn, end);
}

static const struct dial_owner dial_owner = {on_open, on_message, on_too_long, on_end};

static void add_line(void *to, char *text)
{
	char **lines = to, *longer = memory_printf("%s%s\r\n", *lines ? *lines : "", text);

	free(text);
	free(*lines);
	*lines = longer;
}

static void set_offer(struct feed_connection *conn)
{
	const json_t *names = conn->p->profile->subprotocols;
	size_t count = json_array_size(names);

	conn->subprotocols = memory_calloc(count + 1, sizeof(*conn->subprotocols));
	for (size_t i = 0; i < count; i++)
		conn->subprotocols[i] = memory_strdup(json_string_value(json_array_get(names, i)));
	conn->offer = (struct upgrade_offer){
		.headers = conn->headers,
		.subprotocols = conn->subprotocols,
		.subprotocol_count = count,
		.has_deflate = !conn->p->config->source_uncompressed,
		.max_message = (size_t)conn->p->profile->max_message_bytes,
		.resends = conn->p->profile->resends,
	};
}

/* Copies the first messages: those in how are valid only until the next session_connect. */
static void keep_first_words(struct feed_connection *conn, const struct session_dial *how)
{
	conn->on_open = memory_calloc(how->on_open_count + 1, sizeof(*conn->on_open));
	for (; conn->on_open_count < how->on_open_count; conn->on_open_count++)
		bytes_add(&conn->on_open[conn->on_open_count], how->on_open[conn->on_open_count].at,
			  how->on_open[conn->on_open_count].len);
}

static void dial(struct feed_connection *conn, const struct session_dial *how)
{
	const struct profile *p = conn->p->profile;
	bool is_own = false;
	const char *fault = how->fault ? how->fault : "the feed's URL is not known";
	char reason[FEED_CALL_REASON] = "";

	if (how->url && !how->fault)
		fault = reach_fault(p, how->url, &is_own);
	feed_call_headers(conn->p->session, p->headers, is_own, add_line, &conn->headers, reason);
	keep_first_words(conn, how);
	set_offer(conn);
	if (p->binary && !(conn->unpack = unpack_new(p->binary, p->dictionary)))
		snprintf(reason, sizeof(reason), "the dictionary %s is damaged", p->dictionary_path);
	if (fault || *reason) {
		fail_later(conn, fault ? fault : reason, 0);
		return;
	}
	conn->dial =
		dial_start(conn->p->dialler, how->url, &conn->offer, (unsigned int)conn->mirror, &dial_owner, conn);
}

/* --- HTTP --- */

/* Ends the connection or the attempt to connect because an HTTP call failed. */
static void fail_call(struct feed_connection *conn, const char *what, int64_t wait_ms)
{
	char reason[400];

	snprintf(reason, sizeof(reason), "the HTTP call %s: %s", conn->of ? "of a rule" : "before connecting", what);
	fail_later(conn, reason, wait_ms);
	conn->call = NULL;
}

static void dial_with_answer(struct feed_connection *conn)
{
	struct session_dial how = {0};

	session_renew(conn->p->session, conn->mirror, &how);
	dial(conn, &how);
}

/* An answer may hold a token, so the log quotes only its member "error". */
static void describe_answer(char *what, size_t size, const struct request_answer *answer)
{
	json_t *root = json_loadb(answer->body, answer->len, 0, NULL);
	const char *error = json_string_value(json_object_get(root, "error"));

	snprintf(what, size, "the answer is not JSON, or lacks a value to capture%s%.*s", error ? "; its error: " : "",
		 EXAMPLE_BYTES, error ? error : "");
	json_decref(root);
}

static void on_answer(void *arg, const struct request_answer *answer)
{
	struct feed_connection *conn = arg;
	char what[300];

	conn->request = NULL;
	if (!feed_call_succeeded(answer, what)) {
		fail_call(conn, what, answer->wait_ms);
		return;
	}
	if (!session_answer(conn->p->session, conn->call, answer->body, answer->len)) {
		describe_answer(what, sizeof(what), answer);
		fail_call(conn, what, 0);
		return;
	}
	conn->call = --conn->calls_left ? conn->call + 1 : NULL;
	if (conn->call)
		start_calls(conn);
	else if (!conn->dial)
		dial_with_answer(conn);
}

static void start_calls(struct feed_connection *conn)
{
	char why[FEED_CALL_REASON];

	conn->request =
		feed_call_send(conn->p->requests, conn->p->profile, conn->p->session, conn->call, on_answer, conn, why);
	if (!conn->request)
		fail_call(conn, why, 0);
}

/* --- deadlines --- */

static void look_for_silence(struct feed_connection *conn)
{
	const struct profile *p = conn->p->profile;
	const char *var = p->idle_timeout.var;
	int64_t told_ms =
		var ? session_var_ms(conn->p->session, var, p->idle_timeout.unit_ms, p->idle_timeout.factor, 0) : 0;
	int64_t own_ms = ping_interval_ms(conn), ping_ms = ws_ping_ms(conn);
	struct idle_limit limit = idle_limit(p, conn->p->config->idle_timeout_s, told_ms,
					     own_ms > 0 && (!ping_ms || own_ms < ping_ms) ? own_ms : ping_ms);
	struct idle_signs signs = signs_of(conn);

	feed_client_on_idle(conn->client, conn,
			    idle_look(feed_client_idle(conn->client), &limit, &signs, now_ms(conn)));
	conn->unheard_ms = idle_length(&limit, &signs, now_ms(conn));
	if (conn->unheard_ms)
		fail_later(conn, "the feed was silent for too long", 0);
}

/* Any data since the last ping counts as an answer. */
static void ping_if_due(struct feed_connection *conn)
{
	int64_t interval = ping_interval_ms(conn), now = now_ms(conn);
	bool is_due = conn->is_good && !conn->pinged_ms && now - conn->opened_ms >= PROOF_MS;

	if (interval <= 0)
		return;
	if (!conn->ping_ms)
		conn->ping_ms =
			now + (conn->p->profile->ping.first_jitter ? (int64_t)(backoff_draw() % (uint64_t)interval)
								   : interval);
	if (now < conn->ping_ms && !(is_due && feed_client_idle(conn->client) != IDLE_NOT))
		return;
	if (conn->pinged_ms && dial_heard_ms(conn->dial, now) < conn->pinged_ms) {
		fail_later(conn, "the feed did not answer a ping", 0);
		conn->unheard_ms = now - dial_heard_ms(conn->dial, now);
		note_unanswered(conn);
		return;
	}
	say(conn, session_render_frame(conn->p->session, conn->p->profile->ping.send, true, (struct slice){NULL, 0}),
	    RATE_LIMIT_PING);
	conn->pinged_ms = now;
	conn->ping_ms = now + interval;
}

void feed_connection_tick(struct feed_connection *conn)
{
	if (conn->of && conn->dial && !*conn->fault) {
		if (dial_is_held(conn->dial))
			conn->held_ms = now_ms(conn);
		rate_limit_resume(&conn->rate_limit, now_ms(conn), send_now, conn);
		apply_hold(conn);
		look_for_silence(conn);
		ping_if_due(conn);
		tell_trouble(conn); /* a bad cursor may be found long after its message */
	}
	if (*conn->fault)
		tell_fault(conn);
}

bool feed_connection_is_open(const struct feed_connection *conn)
{
	return conn->of != NULL;
}

int64_t feed_connection_since_ms(const struct feed_connection *conn)
{
	return conn->since_ms;
}

int64_t feed_connection_opened_ms(const struct feed_connection *conn)
{
	return conn->opened_ms;
}

bool feed_connection_has_data(const struct feed_connection *conn)
{
	return conn->has_data;
}

bool feed_connection_is_good(const struct feed_connection *conn)
{
	return conn->is_good;
}

bool feed_connection_is_behind(const struct feed_connection *conn)
{
	if (!conn->dial)
		return false;
	return dial_is_held(conn->dial) ||
	       (conn->held_ms && now_ms(conn) - conn->held_ms < CATCH_UP_MS && dial_has_unread(conn->dial));
}

bool feed_connection_is_talking(const struct feed_connection *conn)
{
	return conn->rate_limit.waiting[RATE_LIMIT_OWNS] || conn->rate_limit.waiting[RATE_LIMIT_REPLIES_AND_PINGS] ||
	       (conn->of && conn->call);
}

bool feed_connection_is_too_old(const struct feed_connection *conn)
{
	return conn->of && conn->age_ms && now_ms(conn) - conn->opened_ms >= conn->age_ms;
}

void feed_connection_retire(struct feed_connection *conn, int64_t until_ms)
{
	conn->until_ms = until_ms;
}

bool feed_connection_is_done(const struct feed_connection *conn)
{
	bool (*is_owing)(void *of) = conn->p->callbacks->is_owing;

	return !conn->of || (!feed_connection_is_behind(conn) &&
			     (now_ms(conn) >= conn->until_ms || !is_owing || !is_owing(conn->of)));
}

/* --- opening --- */

struct feed_connection *feed_connection_new(const struct feed_client_parts *parts, const struct session_dial *how,
					    size_t mirror, struct feed_client *client)
{
	struct feed_connection *conn = memory_calloc(1, sizeof(*conn));

	conn->p = parts;
	conn->client = client;
	conn->mirror = mirror;
	conn->since_ms = now_ms(conn);
	conn->is_bare = how->how == HOW_REDIRECT && parts->profile->redirect_keeps_subscriptions;
	rate_limit_init(&conn->rate_limit, parts->profile->send_rate_per_s);
	if (how->how == HOW_HTTP && !how->fault) {
		conn->call = parts->profile->url_http;
		conn->calls_left = 1;
		start_calls(conn);
		return conn;
	}
	dial(conn, how);
	return conn;
}
