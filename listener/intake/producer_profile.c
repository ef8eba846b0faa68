/* producer_profile.c reads producers' messages with a profile. All producers share one session; if rules set variables,
 * it swaps in the producer's own for each message. The acks for a frame are rendered when it has been read, one for
 * each outcome, and ledger.c keeps them until the outcome is known. */
#include "intake/producer_profile.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/memory.h"
#include "intake/feed_event.h"

#define VARIABLES_MAX (16u << 10) /* bytes of a producer's variables */
#define ACKS_TIMES    16          /* the acks of a message have at most this many times its bytes, */
#define ACKS_BYTES    (16u << 20) /* and this many more */

struct producer_profile {
	const struct profile *profile;
	struct profile *own; /* the profile if this owns it; else NULL */
	struct pipeline *pipeline;
	struct producer_profile_owner owner;
	struct session *session;
	struct list ledgers; /* of all producers, also of those that are gone */
	size_t variables;    /* memory of all producers' variables */
	bool has_variables;  /* rules set variables */
	bool has_id;         /* acks use ${event_id} */
	bool has_number;     /* acks use ${n} */
	bool has_webhook;    /* rules or acks use ${webhook_id} */
	bool has_told;       /* trouble was logged */
	/* The current message: */
	struct producer_visitor *visitor;
	uint64_t n;
	size_t handed;
	bool has_event;                  /* the frame has an event */
	const struct profile_rule *rule; /* rule that the frame matched; NULL: not matched yet */
	struct slice frame;
	bool is_frame; /* a frame is being read */
	bool is_owed;  /* the frame contained an event or a dead letter */
	struct bytes words[3];
	size_t room; /* bytes that its acks may still have */
};

/* --- texts of acks --- */

static void leave(const struct producer_profile *s, const struct producer_visitor *v, bool is_fatal)
{
	if (s->owner.on_leave)
		s->owner.on_leave(v->arg, is_fatal);
}

/* Renders a template. at is NULL if it has no value, or if variables make the acks of a message too long. */
static struct slice render(struct producer_profile *s, const json_t *t, struct bytes *into)
{
	struct slice text =
		t && s->room ? session_render_frame(s->session, t, true, s->frame) : (struct slice){NULL, 0};

	if (!text.at || (text.len == 4 && memcmp(text.at, "null", 4) == 0))
		return (struct slice){NULL, 0};
	s->room -= text.len < s->room ? text.len : s->room;
	if (!s->room)
		leave(s, s->visitor, true);
	into->len = 0;
	bytes_add(into, text.at, text.len);
	return bytes_slice(into);
}

static void set_text(struct producer_profile *s, const char *name, struct slice text)
{
	AUTO_BYTES json = {NULL, 0, 0};

	json_write_string(&json, text.at, text.len);
	session_set(s->session, name, bytes_slice(&json));
}

/* Renders the acks of a frame. A rule's ack takes precedence over the profile's. */
static struct ledger_acks make_acks(struct producer_profile *s)
{
	const struct profile *p = s->profile;
	const json_t *own = s->rule ? s->rule->ack : NULL;
	struct ledger_acks acks = {.stored = render(s, own ? own : p->ack, &s->words[0])};

	acks.duplicate = own ? (struct slice){NULL, 0} : render(s, p->ack_duplicate, &s->words[1]);
	if (p->ack_error) {
		set_text(s, "reason", (struct slice){LEDGER_REASON, strlen(LEDGER_REASON)});
		acks.error = render(s, p->ack_error, &s->words[2]);
		session_set(s->session, "reason", (struct slice){"", 0});
	}
	return acks;
}

/* --- a frame --- */

static void end_frame(struct producer_profile *s)
{
	struct ledger_acks acks = {{NULL, 0}, {NULL, 0}, {NULL, 0}};

	if (!s->is_frame)
		return;
	s->is_frame = false;
	if (s->is_owed && s->visitor->is_told)
		acks = make_acks(s);
	ledger_owe_acks(s->visitor->ledger, &acks);
	if (s->has_id)
		session_set(s->session, "event_id", (struct slice){"", 0});
}

static void on_frame(void *ctx)
{
	struct producer_profile *s = ctx;

	end_frame(s);
	s->is_frame = true;
	s->is_owed = false;
	s->has_event = false;
	s->rule = NULL;
	s->frame = (struct slice){NULL, 0};
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct producer_profile *s = ctx;

	s->rule = rule;
	s->frame = frame;
	s->is_owed = rule->action == ACTION_EVENT;
}

/* As if no rule matched. */
static void on_no_list(void *ctx, struct slice frame)
{
	struct producer_profile *s = ctx;

	(void)frame;
	s->is_owed = false;
}

static struct sender *expect(struct producer_profile *s)
{
	s->handed++;
	return ledger_expect(s->visitor->ledger);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	struct producer_profile *s = ctx;

	s->is_owed = true;
	pipeline_refuse(s->pipeline, s->profile->name, bytes.at, bytes.len, why, expect(s));
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct producer_profile *s = ctx;
	struct feed_event read =
		feed_event_from(event, s->profile, true); /* shared: the producer waits for an answer */

	if (s->visitor->source)
		read.source = s->visitor->source;

	if (s->has_id && !s->has_event)
		set_text(s, "event_id", event->id);
	s->has_event = true;
	pipeline_receive_event(s->pipeline, &read, expect(s));
}

static void on_send(void *ctx, struct slice frame)
{
	const struct producer_profile *s = ctx;

	if (s->owner.on_reply)
		s->owner.on_reply(s->visitor->arg, frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	const struct producer_profile *s = ctx;

	(void)frame;
	leave(s, s->visitor, rule->action == ACTION_FATAL);
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_rule = on_rule,
	.on_no_list = on_no_list,
	.on_frame = on_frame,
};

/* --- a message --- */

static void tell_trouble(struct producer_profile *s)
{
	const char *trouble = session_trouble(s->session);

	if (trouble && !s->has_told)
		log_warn("ignoring invalid data from producers, or a template of their profile fails",
			 "profile=%s reason=%s", s->profile->name, trouble);
	s->has_told |= trouble != NULL;
}

static void charge_variables(struct producer_profile *s, struct producer_visitor *v, size_t now)
{
	if (now != v->self_bytes)
		s->owner.charge(v->arg, (long)now - (long)v->self_bytes);
	s->variables += now - v->self_bytes;
	v->self_bytes = now;
	if (now > VARIABLES_MAX)
		leave(s, v, true);
}

size_t producer_profile_variables(const struct producer_profile *s)
{
	return s->variables;
}

void producer_profile_forget(struct producer_profile *s, struct producer_visitor *v)
{
	charge_variables(s, v, 0);
	session_self_free(&v->self);
}

static void set_webhook(struct producer_profile *s, const char *id)
{
	if (s->has_webhook && id)
		set_text(s, "webhook_id", (struct slice){id, strlen(id)});
	else if (s->has_webhook)
		session_set(s->session, "webhook_id", (struct slice){"", 0});
}

static void read_frames(struct producer_profile *s, const char *message, size_t len, size_t *room)
{
	char number[24];

	set_webhook(s, s->visitor->webhook_id);
	if (s->has_number)
		session_set(s->session, "n",
			    (struct slice){number,
					   (size_t)snprintf(number, sizeof(number), "%llu", (unsigned long long)s->n)});
	session_read_part(s->session, message, len, room, &handler, s);
	end_frame(s);
	set_webhook(s, NULL);
}

size_t producer_profile_read(struct producer_profile *s, struct producer_visitor *v, const char *message, size_t len,
			     size_t *room, uint64_t n, int64_t now_ms)
{
	s->visitor = v;
	s->n = n;
	s->room = ACKS_TIMES * len + ACKS_BYTES;
	ledger_tick(v->ledger, n, now_ms);
	s->handed = 0;
	if (s->has_variables)
		session_exchange(s->session, &v->self);
	read_frames(s, message, len, room);
	if (s->has_variables)
		session_exchange(s->session, &v->self);
	if (s->has_variables)
		charge_variables(s, v, session_self_bytes(&v->self));
	tell_trouble(s);
	return s->handed;
}

/* --- life --- */

static bool changes_variables(const struct profile *p)
{
	for (size_t i = 0; i < p->rule_count; i++)
		if (p->rules[i].capture || p->rules[i].clear)
			return true;
	return false;
}

/* True if the profile uses ${name} or ${text:name}, or "$name" in a condition. */
static bool has_variable(const struct profile *p, const char *name)
{
	AUTO_FREE char *text = json_dumps(p->root, 0), *braced = memory_printf("${%s}", name),
		       *bare = memory_printf("\"$%s\"", name), *typed = memory_printf("${text:%s}", name);

	return strstr(text, braced) || strstr(text, bare) || strstr(text, typed);
}

struct producer_profile *producer_profile_open(const struct profile *profile, struct pipeline *pipeline,
					       const struct producer_profile_owner *owner)
{
	struct producer_profile *s = memory_calloc(1, sizeof(*s));

	s->profile = profile;
	s->pipeline = pipeline;
	s->owner = *owner;
	s->session = session_new(profile, false);
	list_init(&s->ledgers);
	s->has_variables = changes_variables(profile) || has_variable(profile, "counter");
	s->has_id = has_variable(profile, "event_id");
	s->has_number = has_variable(profile, "n");
	s->has_webhook = has_variable(profile, "webhook_id");
	return s;
}

struct producer_profile *producer_profile_open_text(const char *json, struct pipeline *pipeline,
						    const struct producer_profile_owner *owner)
{
	struct profile_fault fault;
	struct profile *own = profile_parse(json, strlen(json), "built in", NULL, &fault);
	struct producer_profile *s;

	assert(own);
	s = producer_profile_open(own, pipeline, owner);
	s->own = own;
	return s;
}

static int add_token(struct producer_profile *s, struct tokens *t, const char *name, const json_t *token, char *error,
		     size_t size)
{
	const char *fault, *text = session_render_text(s->session, json_string_value(token), false, &fault);

	if (text && *text) {
		tokens_add(t, name, text);
		return 0;
	}
	snprintf(error, size, "%s: the token %s: %s", s->profile->name, name, fault ? fault : "it is empty");
	return -1;
}

struct tokens *producer_profile_read_tokens(struct producer_profile *s, const struct config *config, char *error,
					    size_t size)
{
	struct tokens *t = tokens_new(config->ingest_token, config->ingest_token_file, true, error, size);
	const json_t *tokens = t && s ? s->profile->tokens : NULL;
	const char *name;
	json_t *token;
	size_t i;
	int result = 0;

	json_array_foreach(tokens, i, token) result = result ? result : add_token(s, t, "default", token, error, size);
	json_object_foreach((json_t *)(uintptr_t)tokens, name, token) result =
		result ? result : add_token(s, t, name, token, error, size);
	if (!result)
		return t;
	tokens_free(t);
	return NULL;
}

void producer_profile_free(struct producer_profile *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < sizeof(s->words) / sizeof(s->words[0]); i++)
		bytes_free(&s->words[i]);
	ledgers_free(&s->ledgers);
	session_free(s->session);
	profile_free(s->own);
	free(s);
}

void producer_profile_enter(struct producer_profile *s, struct producer_visitor *v, const char *name, bool is_told,
			    bool resends, void *arg)
{
	v->is_told = is_told;
	v->arg = arg;
	v->ledger = ledger_new(&(struct ledger_settings){
		.is_cumulative = s->profile->ack_mode == ACK_MODE_CUMULATIVE,
		.resends = resends,
		.max_unacked = s->owner.on_full ? (size_t)s->profile->max_unacked : 0,
		.ledgers = &s->ledgers,
		.name = name,
		.charge = s->owner.charge,
		.on_ack = s->owner.on_ack,
		.on_full = s->owner.on_full,
		.on_answer = s->owner.on_answer,
		.arg = arg,
		.conn_arg = arg,
	});
}

void producer_profile_leave(struct producer_profile *s, struct producer_visitor *v)
{
	ledger_leave(v->ledger);
	producer_profile_forget(s, v);
}

bool producer_profile_has_words(const struct producer_profile *s)
{
	const struct profile *p = s->profile;

	for (size_t i = 0; i < p->rule_count; i++)
		if (p->rules[i].ack)
			return true;
	return p->ack || p->ack_duplicate || p->ack_error;
}
