/* post.c owns POST /events: who may send, how much, and the answer, which lists the outcome of each event. The answer
 * is sent when all events have settled, never before. net/http.c speaks HTTP. */
#include "intake/post.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cloudevents.json.h"

#include "base/bytes.h"
#include "base/counters.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"
#include "base/text.h"
#include "feed/session.h"
#include "intake/acks.h"
#include "intake/addresses.h"
#include "intake/cloud_event.h"
#include "intake/ingest.h"
#include "intake/producer_credit.h"
#include "intake/producer_profile.h"
#include "net/http.h"
#include "net/unpack.h"
#include "pipeline/pipeline.h"

#define VISITORS    256
#define LINES_MAX   10000       /* per body: each line that is not an event becomes a dead letter */
#define BODIES_PART 8           /* 1/8 of the budget for all bodies */
#define RESULT_OVER 48          /* bytes of a result in addition to its text */
#define TURN_BYTES  (256 << 10) /* bytes of bodies verified per turn of the loop, if not one body with one secret */

/* The headers of a signed request. */
enum { SIGNED_ID, SIGNED_TIMESTAMP, SIGNED_SIGNATURES, SIGNED_BY };
static const char *const signed_by[SIGNED_BY] = {"webhook-id", "webhook-timestamp", "webhook-signature"};

/* What a request is refused with. */
static const struct http_refusal
	accepted = {0, NULL},
	stopping = {503, "the listener is stopping: try another one\n"},
	stopped = {503, "the listener is stopping, and some events may not be committed: send it again\n"},
	full = {503, "the listener's memory is full: try again\n"}, wrong_path = {404, "send events to /events\n"},
	wrong_method = {405, "only POST is allowed\n"},
	wrong_origin = {403, "this Origin is not allowed: see --ingest-origin\n"},
	no_token = {401, "send a token: Authorization: Bearer\n"},
	no_signature = {401,
			"no valid token (Authorization: Bearer), and no valid signature by Standard Webhooks: sign "
			"this body with a secret of this server and a webhook-timestamp of the last five minutes\n"},
	too_many_wrong = {429, "too many wrong tokens or signatures came from this address\n"},
	too_much_garbage = {429, "most of the messages you sent are not events: try again later\n"},
	wrong_format = {415, "CloudEvents must be in JSON, or in binary mode\n"},
	too_long = {413, "the body is longer than --max-message allows\n"},
	too_many_lines = {413, "the body has more than 10,000 lines or events: send fewer at once\n"},
	empty = {400, "the body is empty: send one event, or one on each line\n"};

/* The outcome of an event. */
struct result {
	uint64_t n;   /* line number */
	size_t place; /* order of settling */
	char *text;   /* heap */
};

/* A request. It outlives the connection while its events are in flight. */
struct post {
	struct sender sender; /* must be first: cast from sender */
	struct list link;     /* in a list of struct posts */
	struct posts *posts;
	struct token *token;        /* token or secret it authenticated with; NULL: none is required, or is_unproved */
	char *signed_by[SIGNED_BY]; /* webhook-id, webhook-timestamp, webhook-signature, on the heap; or NULL */
	bool is_unproved;           /* only the body will show if its signature is right */
	struct token *tried;        /* the last secret that was tried without success; NULL: none was tried */
	struct address *address;
	struct http_ticket *ticket;
	struct http_refusal refusal; /* sent when the whole body has been read */
	bool is_lines;               /* Content-Type says: one event per line */
	bool is_one;                 /* Content-Type says: one event */
	bool is_gzip;
	enum cloud_mode mode;
	char *type;              /* Content-Type of a binary CloudEvent; heap, or NULL */
	struct bytes attributes; /* attributes of a binary CloudEvent */
	bool is_read;
	bool is_answered;
	bool is_gone;
	struct bytes body; /* as it was sent */
	struct slice text; /* text of body, while its events are read */
	size_t room;       /* see session_read_part() */
	size_t charged;    /* memory of body and results */
	size_t pending;    /* unsettled events */
	struct result *results;
	size_t count;
	size_t size;
	struct producer_profile *profile; /* profile that reads its messages; NULL: they are envelopes */
	struct producer_visitor visitor;  /* its state in the profile */
};

struct posts {
	struct ws *ws;
	const struct config *config;
	struct pipeline *pipeline;
	struct http_site site;
	struct http *http;
	struct tokens *tokens;
	bool has_own_tokens;
	struct tokens *fresh;   /* read by a reload, not yet in use; NULL: none */
	struct tokens *secrets; /* secrets of webhooks; may be empty */
	struct tokens *fresh_secrets;
	struct producer_profile *profile;  /* NULL: messages are envelopes */
	struct producer_profile *clouds;   /* for CloudEvents, if there is no profile */
	struct producer_profile *webhooks; /* for signed messages without an id */
	struct unpack *gunzip;
	uv_idle_t verifier; /* active while requests wait to be verified */
	struct list all;
	struct addresses *addresses; /* wrong tokens and garbage, by address */
	int64_t debt_ms;             /* debt of producers with neither token nor address */
	size_t bodies;               /* memory of all bodies in bytes */
	size_t bodies_limit;
	size_t message_limit;
	bool is_draining;
};

/* --- memory --- */

static void charge(struct post *p, long bytes)
{
	p->charged += (size_t)bytes;
	ws_charge(p->posts->ws, bytes);
}

static void charge_body(struct post *p, size_t before)
{
	long more = (long)p->body.size - (long)before;

	p->posts->bodies += (size_t)more;
	if (more)
		charge(p, more);
}

static void drop_body(struct post *p)
{
	size_t before = p->body.size;

	bytes_free(&p->body);
	charge_body(p, before);
	if (p->attributes.size)
		charge(p, -(long)p->attributes.size);
	bytes_free(&p->attributes);
}

static void drop_results(struct post *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->results[i].text);
	free(p->results);
	p->results = NULL;
	p->count = p->size = 0;
}

static void post_free(struct post *p)
{
	bytes_free(&p->body);
	bytes_free(&p->attributes);
	free(p->type);
	drop_results(p);
	for (size_t i = 0; i < SIGNED_BY; i++)
		free(p->signed_by[i]);
	list_remove(&p->link);
	addresses_leave(p->posts->addresses, p->address);
	free(p);
}

static void give_back(struct post *p)
{
	drop_body(p);
	if (p->charged)
		charge(p, -(long)p->charged);
	post_free(p);
}

/* --- garbage --- */

/* Returns the debt of this producer, which is kept by token, by address, or for all others together. */
static int64_t *debt_of(struct posts *all, struct token *token, struct address *address)
{
	if (token)
		return &token->debt_ms;
	return address ? address_debt(address) : &all->debt_ms;
}

static int64_t clock_of(const struct posts *all)
{
	return (int64_t)uv_now(ws_loop(all->ws));
}

static bool must_rest(struct posts *all, struct token *token, struct address *address)
{
	bool must = producer_debt_is_over(*debt_of(all, token, address), 1, clock_of(all));

	counters.ingest_rests += must;
	return must;
}

/* --- the answer --- */

static int compare(const void *one, const void *other)
{
	const struct result *a = one, *b = other;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

/* Writes a JSON array, one event per line, in the order of the body. */
static void write_results(struct post *p, struct bytes *out)
{
	if (p->count)
		qsort(p->results, p->count, sizeof(*p->results), compare);
	bytes_add_byte(out, '[');
	for (size_t i = 0; i < p->count; i++) {
		bytes_add_text(out, i ? ",\n" : "\n");
		bytes_add_text(out, p->results[i].text);
	}
	bytes_add_text(out, "\n]\n");
}

static void answer_refusal(struct post *p, struct http_refusal refusal)
{
	char *line = memory_printf("%.*s\n", (int)strcspn(refusal.why, "\n"), refusal.why);

	p->is_answered = true;
	http_answer(p->ticket, refusal.status, NULL, line, strlen(line));
}

static void check_settled(struct post *p)
{
	struct bytes text = {NULL, 0, 0};

	if (!p->is_read || p->pending || p->is_answered)
		return;
	write_results(p, &text);
	drop_results(p);
	charge(p, -(long)p->charged);
	p->is_answered = true;
	http_answer(p->ticket, 200, "application/json", text.at, text.len);
}

static void add_result(struct post *p, uint64_t n, char *text)
{
	if (p->count == p->size) {
		p->size = 2 * p->size + 1;
		p->results = memory_realloc(p->results, p->size * sizeof(*p->results));
	}
	p->results[p->count] = (struct result){n, p->count, text};
	p->count++;
	charge(p, (long)strlen(text) + RESULT_OVER);
}

/* Records the outcome of the event on line n. */
static void note_answer(void *post, const struct event *ev, enum outcome outcome, uint64_t n)
{
	struct post *p = post;

	p->pending--;
	producer_debt_note(debt_of(p->posts, p->token, p->address), producer_credit_cost_of(ev, outcome),
			   clock_of(p->posts));
	if (p->token)
		p->token->rejected += outcome == OUTCOME_REJECTED;
	if (p->is_gone) {
		if (!p->pending)
			give_back(p);
		return;
	}
	if (p->is_answered)
		return;
	add_result(p, n, ack_text(ev, outcome, n));
	check_settled(p);
}

static void on_answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	note_answer(sender, ev, outcome, sender->n);
}

/* --- messages read by a profile --- */

static void on_charge(void *arg, long bytes)
{
	const struct post *p = arg;

	ws_charge(p->posts->ws, bytes);
}

/* Over HTTP the answer is the list of outcomes, without the profile's acks and replies. */
static const struct producer_profile_owner producer_profile_owner = {.on_answer = note_answer, .charge = on_charge};

/* For signed messages without an id, which have the structure that Standard Webhooks recommends. A profile for
 * producers must have an ack. */
static const char webhook_profile[] =
	"{\"name\": \"webhook\", \"ack\": 1, \"vars\": {\"webhook_id\": \"\"}, \"rules\": [{\"action\": \"event\", "
	"\"id\": [[\"$webhook_id\"]], \"type\": \"/type\", \"time\": \"/timestamp\", \"time_unit\": \"rfc3339\", "
	"\"payload\": \"\"}]}";

/* --- the body --- */

static void read_line(struct post *p, const char *line, size_t len, uint64_t n)
{
	struct pipeline *pipeline = p->posts->pipeline;
	bool is_many = p->pending + p->count > SESSION_USUAL(p->text.len);
	size_t handed = 1;

	p->sender.n = n;
	if (p->token)
		p->token->messages++;
	if (is_many || !is_utf8(line, len))
		pipeline_refuse(pipeline, NULL, line, len,
				is_many ? "the lines before it have too many events for the length of the body"
					: "the message is text but not valid UTF-8",
				&p->sender);
	else if (p->profile)
		handed = producer_profile_read(p->profile, &p->visitor, line, len, &p->room, n, 0);
	else
		pipeline_receive(pipeline, line, len, "ingest", &p->sender);
	p->pending += handed;
	if (!handed)
		add_result(
			p, n,
			memory_printf("{\"event_id\":null,\"status\":\"ignored\",\"n\":%llu}", (unsigned long long)n));
}

/* Calls read, which may be NULL, for each line that is not blank. Returns their number. */
static size_t each_line(struct post *p, void (*read)(struct post *p, const char *line, size_t len, uint64_t n))
{
	const char *at = p->text.at, *end = at + p->text.len, *next;
	size_t count = 0;

	for (uint64_t n = 1; at < end; at = next + 1, n++) {
		next = memchr(at, '\n', (size_t)(end - at));
		if (!next)
			next = end;
		if (json_skip_blanks(at, next) == next)
			continue;
		count++;
		if (read)
			read(p, at, (size_t)(next - at), n);
	}
	return count;
}

/* If the body is one JSON text, on one or several lines, it is one event; otherwise each line is an event. */
static bool has_lines(const struct post *p)
{
	struct slice value;

	return p->is_lines || (!p->is_one && json_check(p->text.at, p->text.len, &value));
}

/* True if each --id-pointer finds a value. Text that is not JSON becomes a dead letter in any case. */
static bool has_own_id(const struct post *p)
{
	const struct config_list *pointers = &p->posts->config->id_pointers;
	struct slice whole;

	if (json_check(p->text.at, p->text.len, &whole))
		return true;
	for (size_t i = 0; i < pointers->count; i++)
		if (json_kind(json_find(whole, pointers->items[i])) <= KIND_NULL)
			return false;
	return true;
}

static bool has_signed(const struct post *p, const struct token *secret)
{
	const struct webhook_signed what = {
		p->signed_by[SIGNED_ID], p->signed_by[SIGNED_TIMESTAMP], {p->body.at, p->body.len}};

	return webhook_secret_has_signed(&secret->secret, &what, p->signed_by[SIGNED_SIGNATURES]);
}

/* True if a secret has signed the request, or, where it showed a token, signed it as well. */
static bool is_signed(const struct post *p)
{
	const struct token *secret = p->tried;

	if (p->signed_by[SIGNED_ID] && !secret)
		while ((secret = tokens_next(p->posts->secrets, secret)) && !has_signed(p, secret))
			;
	return secret;
}

/* A signed event without an id of its own has that of its request, which several lines cannot share. */
static void choose_profile(struct post *p, bool is_one)
{
	const struct posts *all = p->posts;
	const char *id = p->signed_by[SIGNED_ID];

	p->profile = all->profile;
	if (!p->profile && p->mode) {
		p->profile = all->clouds;
	} else if (!p->profile && id && is_one && !has_own_id(p) && is_signed(p)) {
		p->profile = all->webhooks;
		p->visitor.source = p->sender.name;
	}
	if (!p->profile)
		return;
	producer_profile_enter(p->profile, &p->visitor, p->sender.name, false, true, p);
	p->visitor.webhook_id = id && is_utf8(id, strlen(id)) && is_signed(p) ? id : NULL;
}

static void refuse_line(struct post *p, const char *line, size_t len, const char *why)
{
	p->sender.n = 1;
	p->pending++;
	pipeline_refuse(p->posts->pipeline, NULL, line, len, why, &p->sender);
}

static void read_binary(struct post *p)
{
	AUTO_BYTES event = {NULL, 0, 0};

	if (cloud_event_write(&event, (struct slice){p->attributes.at, p->attributes.len}, p->type, p->text))
		read_line(p, event.at, event.len, 1);
	else
		refuse_line(p, event.at, event.len, "the data of the CloudEvent is not JSON, as its Content-Type says");
}

static struct http_refusal read_batch(struct post *p)
{
	struct slice array;
	const char *why = json_check(p->text.at, p->text.len, &array);
	struct json_walk w;
	uint64_t n = 0;

	if (!why && *array.at != '[')
		why = "a batch of CloudEvents is a JSON array";
	if (why) {
		refuse_line(p, p->text.at, p->text.len, why);
		return accepted;
	}
	for (w = json_walk(array); json_walk_next(&w);)
		if (++n > LINES_MAX)
			return too_many_lines;
	n = 0;
	for (w = json_walk(array); json_walk_next(&w);)
		read_line(p, w.value.at, w.value.len, ++n);
	return accepted;
}

static struct http_refusal read_text(struct post *p)
{
	bool is_one;

	p->room = SESSION_ROOM(p->text.len);
	if (p->mode == CLOUD_BINARY) {
		choose_profile(p, true);
		read_binary(p);
		return accepted;
	}
	if (json_skip_blanks(p->text.at, p->text.at + p->text.len) == p->text.at + p->text.len)
		return empty;
	is_one = p->mode != CLOUD_BATCH && !has_lines(p);
	choose_profile(p, is_one);
	if (p->mode == CLOUD_BATCH)
		return read_batch(p);
	if (is_one) {
		read_line(p, p->text.at, p->text.len, 1);
		return accepted;
	}
	if (each_line(p, NULL) > LINES_MAX)
		return too_many_lines;
	each_line(p, read_line);
	return accepted;
}

static struct http_refusal read_body(struct post *p)
{
	AUTO_FREE char *inflated = NULL;
	struct http_refusal refusal = accepted;

	p->text = (struct slice){p->body.at, p->body.len};
	if (p->is_gzip)
		refusal.why = unpack(p->posts->gunzip, &p->text, p->posts->message_limit, &inflated);
	if (refusal.why)
		refusal.status = refusal.why == unpack_is_bomb ? 413 : 400;
	else
		refusal = read_text(p);
	return refusal;
}

/* --- a request --- */

static void refresh(struct posts *all)
{
	if (all->has_own_tokens)
		tokens_refresh(all->tokens);
	tokens_refresh(all->secrets);
}

static bool is_authorized(const struct posts *all, const char *authorization, struct token **token)
{
	if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
		*token = tokens_find(all->tokens, authorization + 7);
	return *token || (!tokens_are_demanded(all->tokens) && !tokens_are_demanded(all->secrets) &&
			  !all->config->ingest_client_ca);
}

/* True if the request has what a signed one needs. Only the body will show if the signature is right. */
static bool may_be_signed(const struct posts *all, const struct http_request *r)
{
	return tokens_are_demanded(all->secrets) && http_header(r, signed_by[SIGNED_ID]) &&
	       http_header(r, signed_by[SIGNED_SIGNATURES]) &&
	       webhook_timestamp_is_fresh(http_header(r, signed_by[SIGNED_TIMESTAMP]), (int64_t)time(NULL));
}

/* Counts a wrong token or signature. A valid one is accepted even if its address has sent too many wrong ones. */
static struct http_refusal blame(const struct posts *all, struct address *address)
{
	bool has_too_many = addresses_blame(all->addresses, address, clock_of(all));

	counters.ingest_slowed += has_too_many;
	return has_too_many ? too_many_wrong : tokens_are_demanded(all->secrets) ? no_signature : no_token;
}

static struct http_refusal judge(struct posts *all, const struct http_request *r, enum cloud_mode mode,
				 struct address *address, struct token **token)
{
	if (all->is_draining)
		return stopping;
	if (strcmp(r->path, "/events") != 0)
		return wrong_path;
	if (strcmp(r->method, "POST") != 0)
		return wrong_method;
	if (r->origin && !ingest_allows_origin(all->config, r->origin))
		return wrong_origin;
	refresh(all);
	if (!is_authorized(all, r->authorization, token) && !may_be_signed(all, r))
		return blame(all, address);
	if (must_rest(all, *token, address))
		return too_much_garbage;
	if (mode == CLOUD_FOREIGN)
		return wrong_format;
	if (r->length > (int64_t)all->message_limit)
		return too_long;
	return pipeline_is_full_for_producers(all->pipeline) ? full : accepted;
}

static bool has_type(const char *type, const char *name)
{
	size_t len = strlen(name);

	return type && strncasecmp(type, name, len) == 0 && strchr("; \t", type[len]);
}

/* Keeps the headers of a signed request. Without a token, its body has yet to prove the signature. */
static void keep_signature(struct post *p, const struct http_request *r)
{
	p->is_unproved = !p->token;
	for (size_t i = 0; i < SIGNED_BY; i++)
		p->signed_by[i] = memory_strdup(http_header(r, signed_by[i]));
}

struct header_reader {
	struct bytes *attributes;
	const char *why;
};

static void on_header(void *arg, const char *name, const char *value)
{
	struct header_reader *h = arg;

	if (!h->why)
		h->why = cloud_event_add_header(h->attributes, name, value);
}

static struct http_refusal read_attributes(const struct http_request *r, enum cloud_mode mode, struct bytes *attributes)
{
	struct header_reader h = {attributes, NULL};

	if (mode == CLOUD_BINARY)
		http_each_header(r, on_header, &h);
	return (struct http_refusal){h.why ? 400 : 0, h.why};
}

static struct http_refusal on_begin(void *arg, const struct http_request *r, void **post)
{
	struct posts *all = arg;
	struct token *token = NULL;
	struct address *address = addresses_enter(all->addresses, port_peer_key(r->fd));
	enum cloud_mode mode = cloud_event_mode(r->type, http_header(r, "ce-specversion"));
	struct http_refusal refusal = judge(all, r, mode, address, &token);
	struct bytes attributes = {NULL, 0, 0};
	struct post *p;

	if (!refusal.status)
		refusal = read_attributes(r, mode, &attributes);
	addresses_shaken(address);
	counters.ingest_refused += refusal.status != 0;
	if (refusal.status) {
		addresses_leave(all->addresses, address);
		bytes_free(&attributes);
		return refusal;
	}
	p = memory_calloc(1, sizeof(*p));
	p->sender = (struct sender){.answer = on_answer, .name = token ? token->name : NULL, .resends = true};
	p->posts = all;
	p->token = token;
	p->address = address;
	p->is_lines = has_type(r->type, "application/x-ndjson") || has_type(r->type, "application/jsonl");
	p->mode = mode;
	p->is_one = has_type(r->type, "application/json") || p->mode == CLOUD_STRUCTURED;
	p->type = p->mode == CLOUD_BINARY && r->type ? memory_strdup(r->type) : NULL;
	p->attributes = attributes;
	charge(p, (long)attributes.size);
	p->is_gzip = r->is_gzip;
	if (may_be_signed(all, r))
		keep_signature(p, r);
	counters.ingest_posts += !p->is_unproved;
	list_append(&all->all, &p->link);
	*post = p;
	return refusal;
}

static void refuse_body(struct post *p, struct http_refusal refusal)
{
	p->refusal = refusal;
	drop_body(p);
}

/* True if p's body should make room before other's: one that is unproved, else the larger one. */
static bool is_before(const struct post *p, const struct post *other)
{
	return p->is_unproved != other->is_unproved ? p->is_unproved : p->body.size >= other->body.size;
}

/* Refuses the largest unfinished body of any producer, so that one producer cannot keep out the others. */
static void refuse_largest(struct posts *all)
{
	struct post *largest = NULL;

	list_each(node, after, &all->all) {
		struct post *p = list_entry(node, struct post, link);

		if (p->body.size && (!largest || is_before(p, largest)))
			largest = p;
	}
	if (largest)
		refuse_body(largest, full);
}

/* A body that is too long is read to its end and dropped, so that the client gets the answer. */
static void on_body(void *post, const char *bytes, size_t len)
{
	struct post *p = post;
	size_t before = p->body.size;

	if (p->refusal.status)
		return;
	if (len > p->posts->message_limit - p->body.len) {
		refuse_body(p, too_long);
		return;
	}
	bytes_add(&p->body, bytes, len);
	charge_body(p, before);
	if (p->posts->bodies > p->posts->bodies_limit)
		refuse_largest(p->posts);
}

/* The events of a complete body take more memory in the pipeline than their text. */
static void finish(struct post *p)
{
	const struct posts *all = p->posts;

	if (!p->refusal.status)
		p->refusal = all->is_draining                                ? stopping
			     : pipeline_is_full_for_producers(all->pipeline) ? full
									     : read_body(p);
	drop_body(p);
	p->is_read = true;
	if (p->refusal.status)
		answer_refusal(p, p->refusal);
	else
		check_settled(p);
}

static void welcome(struct post *p, struct token *token)
{
	struct posts *all = p->posts;

	counters.ingest_posts++;
	p->token = token;
	p->is_unproved = false;
	p->sender.name = token->name;
	http_meet_payer(p->ticket);
	if (must_rest(all, token, p->address))
		p->refusal = too_much_garbage;
	finish(p);
}

/* Tries the next secret with the bytes that were sent, compressed or not. */
static void verify(struct post *p)
{
	struct posts *all = p->posts;
	struct token *token = p->tried = tokens_next(all->secrets, p->tried);

	if (token && has_signed(p, token)) {
		welcome(p, token);
	} else if (!token) {
		counters.ingest_refused++;
		p->refusal = blame(all, p->address);
		finish(p);
	}
}

/* Returns a request that is whole and waits to be verified, or NULL. */
static struct post *find_unproved(const struct posts *all)
{
	for (struct list *node = all->all.next; node != &all->all; node = node->next) {
		struct post *p = list_entry(node, struct post, link);

		if (p->is_unproved && p->ticket && !p->is_answered)
			return p;
	}
	return NULL;
}

/* Verifies a limited number of bytes per turn: each secret hashes the whole body, so strangers could block the loop. */
static void on_turn(uv_idle_t *verifier)
{
	struct posts *all = verifier->data;
	size_t bytes = 0;
	struct post *p;

	while (bytes < TURN_BYTES && (p = find_unproved(all))) {
		bytes += p->body.len + 1;
		if (p->refusal.status)
			finish(p);
		else
			verify(p);
	}
	if (bytes < TURN_BYTES)
		uv_idle_stop(verifier);
}

static void on_end(void *post, struct http_ticket *ticket)
{
	struct post *p = post;

	p->ticket = ticket;
	if (p->is_unproved && !p->refusal.status)
		uv_idle_start(&p->posts->verifier, on_turn);
	else
		finish(p);
}

static void on_gone(void *post)
{
	struct post *p = post;

	if (p->profile)
		producer_profile_leave(p->profile, &p->visitor);
	p->is_gone = true;
	if (!p->pending)
		give_back(p);
}

static bool payer_of(const void *post, const void **payer)
{
	const struct post *p = post;

	*payer = p->token;
	return !p->is_unproved;
}

static const struct http_poster poster = {on_begin, on_body, on_end, on_gone, payer_of};

/* --- life --- */

static int set_tokens(struct posts *all, struct tokens *tokens, char *error, size_t size)
{
	all->has_own_tokens = !tokens;
	all->tokens = tokens ? tokens : producer_profile_read_tokens(all->profile, all->config, error, size);
	all->secrets = tokens_new_secrets(all->config->ingest_webhook_secret_file, error, size);
	return all->tokens && all->secrets ? 0 : -1;
}

int posts_read_again(struct posts *all, const struct config *fresh, char *error, size_t size)
{
	all->fresh_secrets = tokens_new_secrets(fresh->ingest_webhook_secret_file, error, size);
	if (all->fresh_secrets && all->has_own_tokens)
		all->fresh = producer_profile_read_tokens(all->profile, fresh, error, size);
	if (all->fresh_secrets && (all->fresh || !all->has_own_tokens))
		return 0;
	tokens_free(all->fresh);
	tokens_free(all->fresh_secrets);
	all->fresh = all->fresh_secrets = NULL;
	return -1;
}

void posts_take(struct posts *all)
{
	if (all->has_own_tokens)
		tokens_replace(all->tokens, all->fresh);
	tokens_replace(all->secrets, all->fresh_secrets);
	all->fresh = all->fresh_secrets = NULL;
}

const struct tokens *posts_tokens(const struct posts *all)
{
	return all->tokens;
}

struct posts *posts_open(struct ws *ws, const struct config *config, struct tokens *tokens, char *error, size_t size)
{
	struct posts *all = memory_calloc(1, sizeof(*all));
	const struct profile *profile = config->ingest_profile;

	all->ws = ws;
	all->config = config;
	all->pipeline = ws_owner(ws);
	list_init(&all->all);
	all->addresses = addresses_new("--ingest-http");
	all->gunzip = unpack_new(BINARY_GZIP, (struct slice){NULL, 0});
	all->message_limit = profile && profile->max_message_bytes ? (size_t)profile->max_message_bytes
								   : (size_t)config->message_bytes;
	all->bodies_limit = (size_t)config->inflight_bytes / BODIES_PART;
	if (all->bodies_limit < 3 * all->message_limit) /* a growing buffer has up to twice the bytes of its body */
		all->bodies_limit = 3 * all->message_limit;
	if (profile)
		all->profile = producer_profile_open(profile, all->pipeline, &producer_profile_owner);
	all->clouds = producer_profile_open_text(PROFILE_CLOUDEVENTS, all->pipeline, &producer_profile_owner);
	all->webhooks = producer_profile_open_text(webhook_profile, all->pipeline, &producer_profile_owner);
	all->site = (struct http_site){
		.flag = "--ingest-http",
		.address = config->ingest_http,
		.visitors = VISITORS,
		.of_one_host = config->ingest_per_address ? (unsigned int)config->ingest_per_address : VISITORS,
		.request_timeout_ms = config->message_timeout_s * 1000,
		.poster = &poster,
		.arg = all,
	};
	if (set_tokens(all, tokens, error, size) || !(all->http = http_open(ws_loop(ws), &all->site, error, size))) {
		posts_free(all);
		return NULL;
	}
	all->verifier.data = all;
	uv_idle_init(ws_loop(ws), &all->verifier);
	log_info("ingest by HTTP is open", "address=%s port=%d", config->ingest_http, http_port(all->http));
	return all;
}

void posts_drain(struct posts *all)
{
	all->is_draining = true;
}

void posts_give_up(struct posts *all)
{
	list_each(node, after, &all->all) {
		struct post *p = list_entry(node, struct post, link);

		if (p->ticket && !p->is_gone && !p->is_answered)
			answer_refusal(p, stopped);
	}
}

bool posts_are_answered(const struct posts *all)
{
	for (const struct list *node = all->all.next; node != &all->all; node = node->next) {
		const struct post *p = list_entry(node, struct post, link);

		if (p->ticket && !p->is_gone)
			return false;
	}
	return true;
}

void posts_close(struct posts *all)
{
	posts_give_up(all);
	uv_close((uv_handle_t *)&all->verifier, NULL);
	http_close(all->http);
}

void posts_free(struct posts *all)
{
	if (!all)
		return;
	list_each(node, after, &all->all)
		post_free(list_entry(node, struct post, link));
	http_free(all->http);
	addresses_free(all->addresses);
	unpack_free(all->gunzip);
	producer_profile_free(all->profile);
	producer_profile_free(all->clouds);
	producer_profile_free(all->webhooks);
	if (all->has_own_tokens)
		tokens_free(all->tokens);
	tokens_free(all->secrets);
	free(all);
}
