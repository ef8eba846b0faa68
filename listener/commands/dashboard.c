/* dashboard.c owns `wsonce dashboard`: the web page of a whole fleet (ops/page.c has its files). What the page asks are
 * commands, so what it gets is what they print; asker.c runs them. One state of the fleet is asked for all who look,
 * and only while somebody does. */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/url.h"
#include "commands/asker.h"
#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "config/tokens.h"
#include "config/value.h"
#include "net/http.h"
#include "ops/page.h"

#define VISITORS     256
#define STREAMS      64
#define EVERY_MS     2000
#define BODY_MAX     (64u << 10)
#define IDS_MAX      100
#define NOTE_MAX     1000 /* bytes */
#define WORDS_MAX    (IDS_MAX + 16)
#define READ_LIMIT_S 15
#define WORK_LIMIT_S 60

enum http_status {
	HTTP_OK = 200,
	HTTP_BAD_REQUEST = 400,
	HTTP_UNAUTHORIZED = 401,
	HTTP_FORBIDDEN = 403,
	HTTP_NOT_FOUND = 404,
	HTTP_NOT_ALLOWED = 405,
	HTTP_TOO_LARGE = 413,
	HTTP_UNSUPPORTED = 415,
	HTTP_BAD_GATEWAY = 502,
	HTTP_BUSY = 503,
	HTTP_LATE = 504,
};

struct dashboard_options {
	const char *address;
	const char *hosts;
	const char *token_file;
	bool is_open;
};

static const struct option dashboard_options[] = {
	{"listen", OPTION_TEXT, offsetof(struct dashboard_options, address), "ADDR:PORT", 0, 0, NULL,
	 "where; default 127.0.0.1:9090; or unix:/path"},
	{"host", OPTION_TEXT, offsetof(struct dashboard_options, hosts), "NAMES", 0, 0, NULL,
	 "names by which browsers may ask, beside the address and localhost; commas between"},
	{"admin-token-file", OPTION_TEXT, offsetof(struct dashboard_options, token_file), "FILE", 0, 0, NULL,
	 "allow to retry, discard and reopen with one of the tokens in FILE, lines \"name token\"; reloaded when it "
	 "changes"},
	{"open", OPTION_SWITCH, offsetof(struct dashboard_options, is_open), NULL, 0, 0, NULL,
	 "allow an address that is not loopback: who reaches it may read all events and dead letters"},
};

static const struct dashboard_options dashboard_defaults = {.address = "127.0.0.1:9090"};

struct dashboard {
	uv_loop_t loop;
	uv_timer_t timer;
	uv_signal_t sigint;
	uv_signal_t sigterm;
	struct asker *asker;
	struct http_site site;
	struct http *http;
	struct tokens *tokens; /* NULL: nothing can be changed */
	char **hosts;
	size_t host_count;
	struct list waiting; /* requests for the state of the fleet */
	struct list asked;   /* the others, while a process answers */
	struct bytes state;  /* the last one, as JSON; empty: there was none */
	int64_t state_ms;    /* loop clock, of it */
	bool is_asked;       /* a new one */
};

/* A request. It outlives its connection while it is asked. */
struct request {
	struct list link; /* of those that wait or are asked; else alone */
	struct dashboard *dashboard;
	struct http_ticket *ticket;
	struct http_refusal refusal; /* to be answered when the body is over */
	const struct endpoint *endpoint;
	const char *page; /* a file of it, and its type; NULL: something is to be asked */
	const char *type;
	char *words[WORDS_MAX]; /* of the command, heap */
	int word_count;
	const char *token_name; /* of who may change something */
	struct bytes body;
	bool is_asked;
	bool is_gone;
};

/* What a path stands for. */
struct endpoint {
	const char *path;
	const char *method;
	const char *command; /* with its options; NULL: the state, or what may be done */
	const char
		*options; /* that the query may have: words with one blank between; a ! ends those that are switches */
	const char *word; /* the name of an argument that is no option, and must be there; NULL: none */
};

static const struct endpoint endpoints[] = {
	{"/api/status", "GET", NULL, "", NULL},
	{"/api/access", "GET", NULL, "", NULL},
	{"/api/explain", "GET", "explain --json", "", "id"},
	{"/api/dead-letters", "GET", "dead-letters list --json",
	 "since until type reason target state limit examples deliveries!", NULL},
	{"/api/dead-letters/show", "GET", "dead-letters show --json", "deliveries!", "id"},
	{"/api/dead-letters/retry", "POST", "dead-letters retry --json", "", NULL},
	{"/api/dead-letters/discard", "POST", "dead-letters discard --json", "", NULL},
	{"/api/dead-letters/reopen", "POST", "dead-letters reopen --json", "", NULL},
};

static const struct http_refusal too_many = {HTTP_BUSY, "too many questions at once: ask again later\n"};
static const struct http_refusal no_such_page = {HTTP_NOT_FOUND, "no such page\n"};

static const struct endpoint *find_endpoint(const char *path)
{
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
		if (strcmp(endpoints[i].path, path) == 0)
			return &endpoints[i];
	return NULL;
}

/* --- answers --- */

static void answer(struct request *r, unsigned int status, const char *type, const char *text, size_t len)
{
	if (!r->is_gone)
		http_answer(r->ticket, status, type, memory_strndup(text, len), len);
}

static void answer_refusal(struct request *r, struct http_refusal refusal)
{
	answer(r, refusal.status, NULL, refusal.why, strlen(refusal.why));
}

static void request_free(struct request *r)
{
	list_remove(&r->link);
	for (int i = 0; i < r->word_count; i++)
		free(r->words[i]);
	bytes_free(&r->body);
	free(r);
}

/* A command that printed no JSON has complained. */
static struct http_refusal judge(int status, const char *text, const char *complaint)
{
	static const char late[] = "no answer in time: is Postgres there, and are there locks? wsonce status says\n";

	if (status < 0)
		return (struct http_refusal){HTTP_LATE, late};
	if (*text == '{')
		return (struct http_refusal){0, NULL};
	return (struct http_refusal){status == STATUS_USAGE ? HTTP_BAD_REQUEST : HTTP_BAD_GATEWAY,
				     *text ? text : complaint};
}

/* What a command printed, and what it complained of, such as why it could not do all of it: as the member "message". */
static void answer_json(struct request *r, const char *text, const char *complaint)
{
	json_t *json = *complaint ? json_loads(text, 0, NULL) : NULL;
	char *lines, *whole;

	if (!json) {
		answer(r, HTTP_OK, "application/json", text, strlen(text));
		return;
	}
	lines = memory_strndup(complaint, strlen(complaint) - 1); /* without the newline at its end */
	json_object_set_new(json, "message", json_out_string(lines));
	whole = memory_given(json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)), "jansson");
	answer(r, HTTP_OK, "application/json", whole, strlen(whole));
	free(lines);
	free(whole);
	json_decref(json);
}

static void on_answer(void *arg, int status, const char *text, const char *complaint)
{
	struct request *r = arg;
	struct http_refusal refusal = judge(status, text, complaint);

	r->is_asked = false;
	list_remove(&r->link);
	if (refusal.status)
		answer_refusal(r, refusal);
	else
		answer_json(r, text, complaint);
	if (r->is_gone)
		request_free(r);
}

static void ask(struct request *r)
{
	bool changes = strcmp(r->endpoint->method, "POST") == 0;
	const struct question question = {r->words, r->word_count, changes ? WORK_LIMIT_S : READ_LIMIT_S, changes};

	if (asker_ask(r->dashboard->asker, &question, on_answer, r)) {
		answer_refusal(r, too_many);
		return;
	}
	r->is_asked = true;
	list_append(&r->dashboard->asked, &r->link);
}

/* No answer comes to these any more. */
static void refuse_all(struct list *requests, struct http_refusal refusal)
{
	list_each(node, after, requests) {
		struct request *r = list_entry(node, struct request, link);

		list_remove(node);
		r->is_asked = false;
		if (r->is_gone)
			request_free(r);
		else
			answer_refusal(r, refusal);
	}
}

/* --- the state of the fleet --- */

static void keep_state(struct dashboard *d, json_t *state)
{
	char *event = page_event(state),
	     *json = memory_given(json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(15)), "jansson");

	d->state.len = 0;
	bytes_add_text(&d->state, json);
	bytes_add_byte(&d->state, '\n');
	d->state_ms = (int64_t)uv_now(&d->loop);
	http_broadcast(d->http, event, strlen(event));
	free(event);
	free(json);
}

static void on_state(void *arg, int status, const char *text, const char *complaint)
{
	struct dashboard *d = arg;
	json_t *state = status < 0 ? NULL : json_loads(text, 0, NULL);

	(void)complaint;
	d->is_asked = false;
	if (!state)
		state = json_pack("{s:s, s:[s]}", "status", "unknown", "problems",
				  "the question for the state of the fleet has no answer: Postgres or Redis hangs");
	keep_state(d, state);
	json_decref(state);
	list_each(node, after, &d->waiting) {
		struct request *r = list_entry(node, struct request, link);

		list_remove(node);
		answer(r, HTTP_OK, "application/json", d->state.at, d->state.len);
	}
}

static void ask_state(struct dashboard *d)
{
	static char status[] = "status", json[] = "--json";
	char *words[] = {status, json};

	if (!d->is_asked && asker_ask(d->asker, &(struct question){words, 2, READ_LIMIT_S, false}, on_state, d) == 0)
		d->is_asked = true;
}

static void on_timer(uv_timer_t *timer)
{
	struct dashboard *d = timer->data;

	if (http_streams(d->http))
		ask_state(d);
}

static void answer_state(struct request *r)
{
	struct dashboard *d = r->dashboard;

	if (d->state.len && (int64_t)uv_now(&d->loop) - d->state_ms < EVERY_MS) {
		answer(r, HTTP_OK, "application/json", d->state.at, d->state.len);
		return;
	}
	list_append(&d->waiting, &r->link);
	ask_state(d);
	if (!d->is_asked)
		refuse_all(&d->waiting, too_many);
}

static void answer_access(struct request *r)
{
	char *text = memory_printf("{\"may_change\": %s, \"version\": \"%s\"}\n",
				   r->dashboard->tokens ? "true" : "false", WSONCE_VERSION);

	answer(r, HTTP_OK, "application/json", text, strlen(text));
	free(text);
}

/* --- requests --- */

static void add_word(struct request *r, const char *word)
{
	if (r->word_count < WORDS_MAX)
		r->words[r->word_count++] = memory_strdup(word);
}

static void add_command(struct request *r)
{
	char *text = memory_strdup(r->endpoint->command), *at;

	for (const char *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at))
		add_word(r, word);
	free(text);
}

/* Is it one of the options? 1: with a value; 2: a switch. */
static int find_kind(const char *options, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = options; len && (at = strstr(at, name)); at++)
		if ((at == options || at[-1] == ' ') && (!at[len] || strchr(" !", at[len])))
			return at[len] == '!' ? 2 : 1;
	return 0;
}

/* Values go behind a = or --, so none is taken for an option. */
static const char *add_argument(struct request *r, const char *name, const char *value, char **word)
{
	int kind = find_kind(r->endpoint->options, name);

	if (r->endpoint->word && strcmp(name, r->endpoint->word) == 0 && !*word) {
		*word = memory_strdup(value);
		return NULL;
	}
	if (!kind)
		return "this page does not take such an argument\n";
	if (!*value)
		return NULL;
	char *option = kind == 2 ? memory_printf("--%s", name) : memory_printf("--%s=%s", name, value);

	add_word(r, option);
	free(option);
	return NULL;
}

/* The command that a GET stands for. Returns NULL, or why there is none. */
static const char *read_query(struct request *r, const struct http_request *request)
{
	const char *fault = request->argument_count > HTTP_ARGUMENTS_MAX ? "too many arguments\n" : NULL;
	char *word = NULL;

	add_command(r);
	for (size_t i = 0; !fault && i < request->argument_count; i++) {
		const struct http_argument *a = &request->arguments[i];
		char *value = memory_strdup(a->value ? a->value : "");

		fault = url_decode(value) ? "a % must be followed by two hexadecimal digits that are not 00\n"
					  : add_argument(r, a->name, value, &word);
		free(value);
	}
	if (!fault && r->endpoint->word && !(word && *word))
		fault = "the argument id is missing\n";
	if (!fault && word) {
		add_word(r, "--");
		add_word(r, word);
	}
	free(word);
	return fault;
}

/* RFC 6750: who shows a token may change something. */
static struct http_refusal check_token(struct request *r, const struct http_request *request)
{
	static const char scheme[] = "Bearer ";
	const char *given = request->authorization;
	const struct token *token;

	if (!r->dashboard->tokens)
		return (struct http_refusal){HTTP_FORBIDDEN, "read-only: start wsonce dashboard with "
							     "--admin-token-file to change something\n"};
	if (!given || strncasecmp(given, scheme, sizeof(scheme) - 1) != 0)
		return (struct http_refusal){HTTP_UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n"};
	tokens_refresh(r->dashboard->tokens);
	token = tokens_find(r->dashboard->tokens, given + sizeof(scheme) - 1);
	if (!token)
		return (struct http_refusal){HTTP_UNAUTHORIZED, "this token is not valid\n"};
	r->token_name = token->name;
	return (struct http_refusal){0, NULL};
}

/* A form of a page elsewhere cannot have this type. */
static struct http_refusal check_change(struct request *r, const struct http_request *request)
{
	struct http_refusal refusal = check_token(r, request);

	if (refusal.status)
		return refusal;
	if (!request->type || strncasecmp(request->type, "application/json", 16) != 0)
		return (struct http_refusal){HTTP_UNSUPPORTED, "the Content-Type must be application/json\n"};
	if (request->argument_count)
		return (struct http_refusal){HTTP_BAD_REQUEST, "arguments are in the body\n"};
	if (request->length > (int64_t)BODY_MAX)
		return (struct http_refusal){HTTP_TOO_LARGE, "the body is too large\n"};
	return (struct http_refusal){0, NULL};
}

static struct http_refusal check_get(struct request *r, const struct http_request *request)
{
	const char *fault = r->endpoint && r->endpoint->command ? read_query(r, request) : NULL;

	if (fault)
		return (struct http_refusal){HTTP_BAD_REQUEST, fault};
	if (!r->endpoint)
		r->page = page_file(request->path, &r->type);
	return r->endpoint || r->page ? (struct http_refusal){0, NULL} : no_such_page;
}

static struct http_refusal check(struct request *r, const struct http_request *request)
{
	bool gets = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
	bool posts = strcmp(request->method, "POST") == 0;

	r->endpoint = find_endpoint(request->path);
	if ((!gets && !posts) || (posts && !r->endpoint) ||
	    (r->endpoint && posts != (strcmp(r->endpoint->method, "POST") == 0)))
		return (struct http_refusal){HTTP_NOT_ALLOWED, "this method is not allowed here\n"};
	return posts ? check_change(r, request) : check_get(r, request);
}

static struct http_refusal begin(void *arg, const struct http_request *request, void **post)
{
	struct request *r = memory_calloc(1, sizeof(*r));
	struct http_refusal refusal;

	r->dashboard = arg;
	list_init(&r->link);
	refusal = check(r, request);
	if (refusal.status)
		request_free(r);
	else
		*post = r;
	return refusal;
}

static void take_body(void *post, const char *bytes, size_t len)
{
	struct request *r = post;

	if (strcmp(r->endpoint ? r->endpoint->method : "GET", "POST") != 0)
		r->refusal = (struct http_refusal){HTTP_BAD_REQUEST, "requests of this page have no body\n"};
	else if (r->body.len + len > BODY_MAX)
		r->refusal = (struct http_refusal){HTTP_TOO_LARGE, "the body is too large\n"};
	else
		bytes_add(&r->body, bytes, len);
}

/* Returns how many bytes of the text to keep, at most so many, so that no character is cut in two (RFC 3629). */
static int begin_of(const char *text, size_t most)
{
	size_t len = strnlen(text, most);

	while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return (int)len;
}

/* {"ids": [1, 2], "note": "...", "deliveries": false}: the note has the token's name in front. */
static const char *read_change(struct request *r, const json_t *body)
{
	const json_t *ids = json_object_get(body, "ids");
	const char *note = json_string_value(json_object_get(body, "note"));
	char *word;

	if (!json_is_array(ids) || !json_array_size(ids) || json_array_size(ids) > IDS_MAX)
		return "the body must be {\"ids\": [1, 2, ...], \"note\": \"...\"} with 1 to 100 ids\n";
	add_command(r);
	if (json_is_true(json_object_get(body, "deliveries")))
		add_word(r, "--deliveries");
	word = memory_printf("--note=dashboard, %s%s%.*s", r->token_name, note && *note ? ": " : "",
			     note ? begin_of(note, NOTE_MAX) : 0, note ? note : "");
	add_word(r, word);
	free(word);
	add_word(r, "--");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		if (json_integer_value(json_array_get(ids, i)) <= 0)
			return "an id is a whole number above 0\n";
		word = memory_printf("%lld", (long long)json_integer_value(json_array_get(ids, i)));
		add_word(r, word);
		free(word);
	}
	return NULL;
}

static void change(struct request *r)
{
	json_t *body = json_loadb(r->body.len ? r->body.at : "", r->body.len, JSON_REJECT_DUPLICATES, NULL);
	const char *fault = read_change(r, body);

	json_decref(body);
	if (fault) {
		answer_refusal(r, (struct http_refusal){HTTP_BAD_REQUEST, fault});
		return;
	}
	log_info("the page changes dead letters", "command=%s %s token=%s ids=%d", r->words[0], r->words[1],
		 r->token_name, r->word_count);
	ask(r);
}

static void end(void *post, struct http_ticket *ticket)
{
	struct request *r = post;

	r->ticket = ticket;
	if (r->refusal.status)
		answer_refusal(r, r->refusal);
	else if (r->page)
		answer(r, HTTP_OK, r->type, r->page, strlen(r->page));
	else if (strcmp(r->endpoint->path, "/api/access") == 0)
		answer_access(r);
	else if (!r->endpoint->command)
		answer_state(r);
	else if (strcmp(r->endpoint->method, "POST") == 0)
		change(r);
	else
		ask(r);
}

static void gone(void *post)
{
	struct request *r = post;

	r->is_gone = true;
	if (!r->is_asked)
		request_free(r);
}

static const struct http_poster poster = {begin, take_body, end, gone, NULL};

/* --- life --- */

static void on_signal(uv_signal_t *handle, int number)
{
	static const struct http_refusal over = {HTTP_BUSY, "the dashboard stops\n"};
	struct dashboard *d = handle->data;

	(void)number;
	if (uv_is_closing((uv_handle_t *)&d->timer))
		return;
	uv_close((uv_handle_t *)&d->timer, NULL);
	uv_close((uv_handle_t *)&d->sigint, NULL);
	uv_close((uv_handle_t *)&d->sigterm, NULL);
	asker_close(d->asker);
	refuse_all(&d->waiting, over);
	refuse_all(&d->asked, over); /* libmicrohttpd must not be stopped while requests are suspended */
	http_close(d->http);
}

static void split_hosts(struct dashboard *d, const char *names)
{
	char *text = memory_strdup(names ? names : ""), *at;

	d->hosts = memory_calloc(strlen(text) + 1, sizeof(*d->hosts));
	for (const char *name = strtok_r(text, ", ", &at); name; name = strtok_r(NULL, ", ", &at))
		d->hosts[d->host_count++] = memory_strdup(name);
	free(text);
}

/* Returns the exit status. */
static int open_page(struct dashboard *d, const struct dashboard_options *o)
{
	char error[400];

	if (o->token_file && !(d->tokens = tokens_new(NULL, o->token_file, true, error, sizeof(error)))) {
		dispatch_fail("--admin-token-file%s", strchr(error, ':')); /* behind a listener's flag */
		return STATUS_USAGE;
	}
	split_hosts(d, o->hosts);
	d->site = (struct http_site){
		.flag = "--listen",
		.address = o->address,
		.visitors = VISITORS,
		.of_one_host = VISITORS / 2,
		.poster = &poster,
		.is_browsed = true,
		.stream = PAGE_STREAM,
		.streams = STREAMS,
		.hosts = d->hosts,
		.host_count = d->host_count,
		.arg = d,
	};
	d->http = http_open(&d->loop, &d->site, error, sizeof(error));
	return d->http ? 0 : dispatch_fail("%s", error);
}

static void start(struct dashboard *d)
{
	uv_timer_init(&d->loop, &d->timer);
	uv_signal_init(&d->loop, &d->sigint);
	uv_signal_init(&d->loop, &d->sigterm);
	d->timer.data = d->sigint.data = d->sigterm.data = d;
	uv_timer_start(&d->timer, on_timer, EVERY_MS, EVERY_MS);
	uv_signal_start(&d->sigint, on_signal, SIGINT);
	uv_signal_start(&d->sigterm, on_signal, SIGTERM);
	asker_start(d->asker, &d->loop);
}

static void tell_where(const struct dashboard *d, const struct dashboard_options *o)
{
	if (strncmp(o->address, "unix:", 5) == 0)
		printf("wsonce dashboard: %s\n", o->address);
	else
		printf("wsonce dashboard: http://%.*s:%d/\n", (int)(strrchr(o->address, ':') - o->address), o->address,
		       http_port(d->http));
	fflush(stdout);
}

static int run_dashboard(const struct invocation *in)
{
	struct dashboard d = {.asker = asker_fork(in->config)};
	int status;

	if (!d.asker)
		return dispatch_fail("cannot fork a process");
	list_init(&d.waiting);
	list_init(&d.asked);
	if (uv_loop_init(&d.loop))
		return dispatch_fail("the event loop cannot start");
	status = open_page(&d, in->options);
	if (!status) {
		start(&d);
		tell_where(&d, in->options);
		uv_run(&d.loop, UV_RUN_DEFAULT);
	} else {
		asker_close(d.asker);
	}
	uv_loop_close(&d.loop);
	http_free(d.http);
	asker_free(d.asker);
	tokens_free(d.tokens);
	bytes_free(&d.state);
	for (size_t i = 0; i < d.host_count; i++)
		free(d.hosts[i]);
	free(d.hosts);
	return status;
}

static const char *check_dashboard(const struct invocation *in)
{
	static const struct value_form form = {VALUE_ADDRESS, 0, 0, NULL};
	static char sentence[300];
	const struct dashboard_options *o = in->options;
	const char *fault = value_fault(&form, o->address, NULL);

	if (fault) {
		snprintf(sentence, sizeof(sentence), "--listen: \"%.100s\" %.150s", o->address, fault);
		return sentence;
	}
	if (!o->is_open && !url_is_loopback(o->address))
		return "--listen: the address is not loopback, so that anybody who reaches it could read events and "
		       "dead "
		       "letters: put a server with a login in front of a loopback address, or say --open";
	return NULL;
}

const struct subcommand dashboard_command = {
	.name = "dashboard",
	.arguments = "",
	.summary = "serve a web page of the whole fleet",
	.help = "Serves a web page of the whole fleet, from what Postgres and Redis know: listeners, sources, rates\n"
		"and latency, dead letters with their messages, deliveries, the history of an event. It changes "
		"nothing,\n"
		"unless --admin-token-file is given: then dead letters can be retried, discarded and reopened.\n",
	.options = dashboard_options,
	.option_count = sizeof(dashboard_options) / sizeof(dashboard_options[0]),
	.options_size = sizeof(struct dashboard_options),
	.defaults = &dashboard_defaults,
	.check = check_dashboard,
	.run = run_dashboard,
};
