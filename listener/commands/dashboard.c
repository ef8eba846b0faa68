/* dashboard.c owns `wsonce dashboard`: the web page of a whole fleet, whose files (page/) are compiled in. Each request
 * has a thread (net/http_threads.c), which runs a command and returns what it prints. The state of the fleet is read
 * once for all visitors. */
#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/keyed.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/url.h"
#include "commands/dispatch.h"
#include "commands/fleet_state.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "config/tokens.h"
#include "config/value.h"
#include "intake/addresses.h"
#include "net/http_threads.h"
#include "page_css.h"
#include "page_html.h"
#include "page_js.h"
#include "page_svg.h"

#define VISITORS      128
#define QUESTIONS     16 /* at once, each with a connection to Postgres */
#define FRESH_MS      2000
#define BODY_MAX      (64u << 10)
#define IDS_MAX       100
#define NOTE_MAX      1000 /* bytes */
#define WORDS_MAX     (IDS_MAX + 16)
#define READ_LIMIT_MS 13000
#define WORK_LIMIT_MS 58000

struct dashboard_options {
	const char *address;
	const char *hosts;
	const char *token_file;
	bool is_open;
};

static const struct option dashboard_options[] = {
	{"listen", OPTION_TEXT, offsetof(struct dashboard_options, address), "ADDR:PORT", 0, 0, NULL,
	 "address to listen on, or unix:/path; default 127.0.0.1:9090"},
	{"host", OPTION_TEXT, offsetof(struct dashboard_options, hosts), "NAMES", 0, 0, NULL,
	 "host names that browsers may use, besides the address and localhost; separated by commas"},
	{"admin-token-file", OPTION_TEXT, offsetof(struct dashboard_options, token_file), "FILE", 0, 0, NULL,
	 "allow retry, discard and reopen with one of the tokens in FILE, lines \"name token\"; reloaded when it "
	 "changes"},
	{"open", OPTION_SWITCH, offsetof(struct dashboard_options, is_open), NULL, 0, 0, NULL,
	 "allow an address that is not loopback; everybody who can reach it can read all events and dead letters"},
};

static const struct dashboard_options dashboard_defaults = {.address = "127.0.0.1:9090"};

struct dashboard {
	const struct config *config;
	struct http_hall hall;
	atomic_uint questions;      /* being answered */
	pthread_mutex_t token_lock; /* guards tokens and addresses */
	struct tokens *tokens;      /* NULL: read-only */
	struct addresses *addresses;
	pthread_mutex_t state_lock; /* guards the state; held while a new one is read */
	char *state;                /* of the fleet, as JSON; NULL: not read yet */
	int64_t state_ms;           /* when (monotonic) */
};

/* The arguments of a command. */
struct words {
	struct bytes text; /* each word ends with a NUL */
	FILE *out;         /* appends to text */
};

/* A path and its command. */
struct endpoint {
	const char *path;
	const char *command; /* and its fixed options */
	const char *options; /* allowed in the query, with blanks around each */
	bool has_id;         /* the query has an id, which is the command's argument */
	bool changes;        /* by POST, with a token */
};

static const struct endpoint endpoints[] = {
	{"/api/explain", "explain --json", "", true, false},
	{"/api/lines", "lines --json", " since until source ", false, false},
	{"/api/dead-letters", "dead-letters list --json",
	 " since until type reason target state limit examples deliveries ", false, false},
	{"/api/dead-letters/show", "dead-letters show --json", " deliveries ", true, false},
	{"/api/dead-letters/retry", "dead-letters retry --json", "", false, true},
	{"/api/dead-letters/discard", "dead-letters discard --json", "", false, true},
	{"/api/dead-letters/reopen", "dead-letters reopen --json", "", false, true},
};

static const struct {
	const char *path;
	const char *type;
	const char *text;
} files[] = {
	{"/", "text/html; charset=utf-8", PAGE_HTML},
	{"/page.css", "text/css; charset=utf-8", PAGE_CSS},
	{"/page.js", "text/javascript; charset=utf-8", PAGE_JS},
	{"/page.svg", "image/svg+xml", PAGE_SVG},
};

/* --- replies --- */

static struct http_reply reply(unsigned int status, const char *type, const char *text)
{
	return (struct http_reply){status, type, memory_strdup(text), strlen(text)};
}

static struct http_reply refuse(unsigned int status, const char *why)
{
	return reply(status, NULL, why);
}

/* Returns what a command printed. Its errors, such as why it did only a part, become the member "message". */
static struct http_reply reply_json(const char *text, const char *error_text)
{
	json_t *json = *error_text ? json_loads(text, 0, NULL) : NULL;
	char *lines, *whole;

	if (!json)
		return reply(MHD_HTTP_OK, "application/json", text);
	lines = memory_strndup(error_text, strlen(error_text) - 1); /* without the newline at its end */
	json_object_set_new(json, "message", json_out_string(lines));
	whole = memory_given(json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)), "jansson");
	free(lines);
	json_decref(json);
	return (struct http_reply){MHD_HTTP_OK, "application/json", whole, strlen(whole)};
}

/* --- commands --- */

static void add_command(struct words *words, const struct endpoint *e)
{
	for (const char *at = e->command; *at; at++)
		fputc(*at == ' ' ? '\0' : *at, words->out);
	fputc('\0', words->out);
}

/* If a command prints no JSON, it has failed and its error is the answer. */
static struct http_reply call(const struct dashboard *d, const struct endpoint *e, struct words *words)
{
	struct bytes text = {NULL, 0, 0}, error_text = {NULL, 0, 0};
	FILE *out = bytes_stream(&text), *errors = bytes_stream(&error_text);
	char *argv[WORDS_MAX];
	struct http_reply r;
	int status, argc = 0;

	fflush(words->out);
	for (char *at = words->text.at; at < words->text.at + words->text.len; at += strlen(at) + 1) {
		assert(argc < WORDS_MAX);
		argv[argc++] = at;
	}
	session_limit(e->changes ? WORK_LIMIT_MS : READ_LIMIT_MS, !e->changes);
	status = dispatch_call(d->config, argc, argv, out, errors);
	fclose(out);
	fclose(errors);
	if (*bytes_text(&text) == '{')
		r = reply_json(text.at, bytes_text(&error_text));
	else
		r = refuse(status == STATUS_USAGE ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_BAD_GATEWAY,
			   bytes_text(&error_text));
	bytes_free(&text);
	bytes_free(&error_text);
	return r;
}

static struct http_reply ask(struct dashboard *d, const struct endpoint *e, struct words *words)
{
	bool has_room = atomic_fetch_add(&d->questions, 1) < QUESTIONS;
	struct http_reply r =
		has_room ? call(d, e, words)
			 : refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "too many questions at once: ask again later\n");

	atomic_fetch_sub(&d->questions, 1);
	return r;
}

/* --- the state of the fleet --- */

static void renew_state(struct dashboard *d)
{
	enum fleet_health health;
	json_t *state;

	session_limit(READ_LIMIT_MS, true);
	state = fleet_state_read(d->config, &health);
	free(d->state);
	d->state = memory_given(json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(15)), "jansson");
	d->state_ms = clock_ms(CLOCK_MONOTONIC);
	json_decref(state);
}

static struct http_reply answer_state(struct dashboard *d)
{
	struct http_reply r;

	pthread_mutex_lock(&d->state_lock);
	if (!d->state || clock_ms(CLOCK_MONOTONIC) - d->state_ms >= FRESH_MS)
		renew_state(d);
	r = reply(MHD_HTTP_OK, "application/json", d->state);
	pthread_mutex_unlock(&d->state_lock);
	return r;
}

/* --- questions --- */

static bool is_allowed(const struct endpoint *e, const char *name)
{
	char word[40];

	return !strchr(name, ' ') && snprintf(word, sizeof(word), " %s ", name) < (int)sizeof(word) &&
	       strstr(e->options, word);
}

/* A value follows =, so it cannot be taken for an option. */
static void add_option(struct words *words, const struct http_argument *a)
{
	if (strcmp(a->name, "deliveries") == 0)
		fprintf(words->out, "--deliveries%c", 0);
	else
		fprintf(words->out, "--%s=%s%c", a->name, a->value, 0);
}

/* Turns a GET into the words of its command. Returns NULL or what is wrong. */
static const char *read_query(const struct endpoint *e, const struct http_question *q, struct words *words)
{
	const char *id = "";

	if (q->argument_count > HTTP_ARGUMENTS_MAX)
		return "too many arguments\n";
	add_command(words, e);
	for (const struct http_argument *a = q->arguments; a < q->arguments + q->argument_count; a++) {
		if (e->has_id && strcmp(a->name, "id") == 0 && !*id)
			id = a->value;
		else if (!is_allowed(e, a->name))
			return "this page has no such argument\n";
		else if (*a->value)
			add_option(words, a);
	}
	if (!e->has_id)
		return NULL;
	fprintf(words->out, "--%c%s%c", 0, id, 0);
	return *id ? NULL : "the argument id is missing\n";
}

static struct http_reply answer_question(struct dashboard *d, const struct endpoint *e, const struct http_question *q,
					 struct words *words)
{
	const char *fault = read_query(e, q, words);

	return fault ? refuse(MHD_HTTP_BAD_REQUEST, fault) : ask(d, e, words);
}

/* --- changes --- */

/* Returns the length of the text, cut to most bytes without splitting a character (RFC 3629). */
static int cut(const char *text, size_t most)
{
	size_t len = strnlen(text, most);

	while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return (int)len;
}

/* Reads {"ids": [1, 2], "note": "...", "deliveries": false}; puts the token's name before the note. */
static const char *read_change(const struct endpoint *e, const json_t *body, const char *token_name,
			       struct words *words)
{
	const json_t *ids = json_object_get(body, "ids");
	const char *note = json_string_value(json_object_get(body, "note"));

	if (!json_is_array(ids) || !json_array_size(ids) || json_array_size(ids) > IDS_MAX)
		return "the body must be {\"ids\": [1, 2, ...], \"note\": \"...\"} with 1 to 100 ids\n";
	add_command(words, e);
	if (json_is_true(json_object_get(body, "deliveries")))
		fprintf(words->out, "--deliveries%c", 0);
	fprintf(words->out, "--note=dashboard, %s%s%.*s%c--%c", token_name, note && *note ? ": " : "",
		note ? cut(note, NOTE_MAX) : 0, note ? note : "", 0, 0);
	for (size_t i = 0; i < json_array_size(ids); i++) {
		json_int_t id = json_integer_value(json_array_get(ids, i));

		if (id <= 0)
			return "an id is a whole number above 0\n";
		fprintf(words->out, "%lld%c", (long long)id, 0);
	}
	return NULL;
}

/* As in intake/post.c: wrong tokens of an address do not delay a valid one. Called with token_lock. */
static unsigned int blame(struct dashboard *d, uint64_t key)
{
	struct address *address = addresses_enter(d->addresses, key);
	bool has_too_many = addresses_blame(d->addresses, address, clock_ms(CLOCK_MONOTONIC));

	addresses_shaken(address);
	addresses_leave(d->addresses, address);
	return has_too_many ? MHD_HTTP_TOO_MANY_REQUESTS : MHD_HTTP_UNAUTHORIZED;
}

/* Checks the bearer token (RFC 6750). Returns 0 and its name, which is never freed; or the status of the refusal. */
static unsigned int check_token(struct dashboard *d, const struct http_question *q, const char **name)
{
	static const char scheme[] = "Bearer ";
	const char *given = q->authorization;
	const struct token *token = NULL;
	unsigned int status = 0;

	pthread_mutex_lock(&d->token_lock);
	tokens_refresh(d->tokens);
	if (given && strncasecmp(given, scheme, sizeof(scheme) - 1) == 0)
		token = tokens_find(d->tokens, given + sizeof(scheme) - 1);
	if (token)
		*name = token->name;
	else
		status = blame(d, q->address);
	pthread_mutex_unlock(&d->token_lock);
	return status;
}

/* Requires a Content-Type that a form on another site cannot send. */
static struct http_reply change(struct dashboard *d, const struct endpoint *e, const struct http_question *q,
				const char *token_name, struct words *words)
{
	json_t *body;
	const char *fault;
	size_t ids;

	if (!q->type || strncasecmp(q->type, "application/json", 16) != 0)
		return refuse(MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "the Content-Type must be application/json\n");
	if (q->argument_count)
		return refuse(MHD_HTTP_BAD_REQUEST, "arguments are in the body\n");
	body = json_loadb(q->body.len ? q->body.at : "", q->body.len, JSON_REJECT_DUPLICATES, NULL);
	fault = read_change(e, body, token_name, words);
	ids = json_array_size(json_object_get(body, "ids"));
	json_decref(body);
	if (fault)
		return refuse(MHD_HTTP_BAD_REQUEST, fault);
	log_info("the page changes dead letters", "command=%s token=%s ids=%zu", e->command, token_name, ids);
	return ask(d, e, words);
}

static struct http_reply answer_change(struct dashboard *d, const struct endpoint *e, const struct http_question *q,
				       struct words *words)
{
	const char *name = NULL;
	unsigned int status;

	if (!d->tokens)
		return refuse(MHD_HTTP_FORBIDDEN, "read-only: start wsonce dashboard with --admin-token-file to change "
						  "something\n");
	status = check_token(d, q, &name);
	if (status == MHD_HTTP_TOO_MANY_REQUESTS)
		return refuse(status, "too many wrong tokens come from this address: wait a minute\n");
	return status ? refuse(status, "this token is not valid: show one by Authorization: Bearer\n")
		      : change(d, e, q, name, words);
}

/* --- requests --- */

static const struct endpoint *find_endpoint(const char *path)
{
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
		if (strcmp(endpoints[i].path, path) == 0)
			return &endpoints[i];
	return NULL;
}

/* Answers without a command. */
static struct http_reply answer_plain(struct dashboard *d, const struct http_question *q)
{
	if (strcmp(q->path, "/api/status") == 0)
		return answer_state(d);
	if (strcmp(q->path, "/api/access") == 0)
		return reply(MHD_HTTP_OK, "application/json",
			     d->tokens ? "{\"may_change\": true, \"version\": \"" WSONCE_VERSION "\"}\n"
				       : "{\"may_change\": false, \"version\": \"" WSONCE_VERSION "\"}\n");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (strcmp(files[i].path, q->path) == 0)
			return reply(MHD_HTTP_OK, files[i].type, files[i].text);
	return refuse(MHD_HTTP_NOT_FOUND, "no such page\n");
}

static struct http_reply answer(void *arg, const struct http_question *q)
{
	const struct endpoint *e = find_endpoint(q->path);
	bool posts = strcmp(q->method, "POST") == 0;
	struct words words = {{NULL, 0, 0}, NULL};
	struct http_reply r;

	if ((!posts && strcmp(q->method, "GET") != 0 && strcmp(q->method, "HEAD") != 0) || posts != (e && e->changes))
		return refuse(MHD_HTTP_METHOD_NOT_ALLOWED, "this method is not allowed here\n");
	if (!posts && q->body.len)
		return refuse(MHD_HTTP_BAD_REQUEST, "a GET has no body\n");
	if (!e)
		return answer_plain(arg, q);
	words.out = bytes_stream(&words.text);
	r = posts ? answer_change(arg, e, q, &words) : answer_question(arg, e, q, &words);
	fclose(words.out);
	bytes_free(&words.text);
	return r;
}

/* --- life --- */

static char **split_hosts(const char *names, size_t *count)
{
	char *text = memory_strdup(names ? names : ""), *at, **hosts = memory_calloc(strlen(text) + 1, sizeof(*hosts));

	for (const char *name = strtok_r(text, ", ", &at); name; name = strtok_r(NULL, ", ", &at))
		hosts[(*count)++] = memory_strdup(name);
	free(text);
	return hosts;
}

static void tell_where(const struct http_threads *http, const struct dashboard_options *o)
{
	if (strncmp(o->address, "unix:", 5) == 0)
		printf("wsonce dashboard: %s\n", o->address);
	else
		printf("wsonce dashboard: http://%.*s:%d/\n", (int)(strrchr(o->address, ':') - o->address), o->address,
		       http_threads_port(http));
	fflush(stdout);
}

/* Exits without waiting for the threads: one may be waiting for a server that hangs. */
_Noreturn static void serve(struct http_threads *http, const sigset_t *ends)
{
	const struct timespec second = {1, 0};

	while (sigtimedwait(ends, NULL, &second) < 0)
		http_threads_sweep(http);
	_exit(STATUS_FINE);
}

static int run_dashboard(const struct invocation *in)
{
	const struct dashboard_options *o = in->options;
	struct dashboard d = {
		.config = in->config, .token_lock = PTHREAD_MUTEX_INITIALIZER, .state_lock = PTHREAD_MUTEX_INITIALIZER};
	struct http_threads *http;
	char error[400];
	sigset_t ends;

	if (o->token_file && !(d.tokens = tokens_new(NULL, o->token_file, true, error, sizeof(error)))) {
		dispatch_fail("--admin-token-file%s", strchr(error, ':')); /* skips the name of a listener's option */
		return STATUS_USAGE;
	}
	d.addresses = addresses_new();
	d.hall = (struct http_hall){.flag = "--listen",
				    .address = o->address,
				    .visitors = VISITORS,
				    .body_max = BODY_MAX,
				    .answer = answer,
				    .arg = &d};
	d.hall.hosts = split_hosts(o->hosts, &d.hall.host_count);
	keyed_hash("", 0); /* both draw their keys before there are threads */
	json_object_seed(0);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	http = http_threads_open(&d.hall, error, sizeof(error));
	if (!http)
		return dispatch_fail("%s", error);
	tell_where(http, o);
	serve(http, &ends);
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
		return "--listen: this address is not loopback, so everybody who can reach it could read events and "
		       "dead "
		       "letters: put a server with a login in front of a loopback address, or add --open";
	return NULL;
}

const struct subcommand dashboard_command = {
	.name = "dashboard",
	COMMAND_OPTIONS(dashboard_options, struct dashboard_options),
	.defaults = &dashboard_defaults,
	.check = check_dashboard,
	.run = run_dashboard,
};
