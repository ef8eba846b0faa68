/* dashboard.c owns `wsonce dashboard`: the web page of a whole fleet, whose files (page/) are compiled in. Each request
 * runs a command on one of libuv's threads, and gets what it prints. The state of the fleet is read once for all
 * visitors. */
#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/keyed.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"
#include "base/url.h"
#include "commands/table.h"
#include "commands/fleet_state.h"
#include "commands/json_out.h"
#include "commands/session.h"
#include "config/tokens.h"
#include "config/value.h"
#include "intake/addresses.h"
#include "net/http.h"
#include "net/http_head.h"
#include "page_css.h"
#include "page_html.h"
#include "page_js.h"
#include "page_svg.h"

#define VISITORS      128
#define THREADS       "64"
#define QUESTIONS     16 /* most commands at once, each with a connection to Postgres */
#define FRESH_MS      2000
#define BODY_MAX      (64u << 10)
#define IDS_MAX       100
#define ARGUMENTS_MAX 12
#define NOTE_MAX      1000 /* bytes */
#define WORDS_MAX     (IDS_MAX + 16)
#define READ_LIMIT_MS 13000
#define WORK_LIMIT_MS 58000

struct dashboard {
	const struct config *config;
	uv_loop_t loop;
	struct http_site site;
	unsigned int questions; /* being answered by commands */
	struct tokens *tokens;  /* NULL: read-only */
	struct addresses *addresses;
	pthread_mutex_t state_lock; /* guards the state; held while a new one is read */
	char *state;                /* state of the fleet, as JSON; NULL: not read yet */
	int64_t state_ms;           /* when it was read (monotonic) */
};

struct words {
	struct bytes text; /* each word ends with a NUL */
	FILE *out;         /* appends to text */
};

struct reply {
	unsigned int status;
	const char *type; /* NULL: plain text */
	char *text;       /* heap */
	size_t len;
};

struct endpoint {
	const char *path;
	const char *command; /* the command with its fixed options */
	const char *options; /* options allowed in the query, with blanks around each */
	bool has_id;         /* the query has an id, which is the command's argument */
	bool changes;        /* requires POST and a token */
};

/* A request. It outlives the connection while a thread has it. */
struct visit {
	uv_work_t work; /* must be first: cast from work to visit */
	struct dashboard *d;
	const struct endpoint *e; /* NULL: a page, or the state */
	char *path;
	struct words words;
	char *id;                    /* in the query; heap */
	unsigned int arguments;      /* of the query */
	const char *token_name;      /* name of the token that authorized a change */
	struct http_refusal refusal; /* status 0: none */
	struct bytes body;
	struct http_ticket *ticket;
	struct reply reply;
	bool is_working, is_gone;
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

static struct reply reply(unsigned int status, const char *type, const char *text)
{
	return (struct reply){status, type, memory_strdup(text), strlen(text)};
}

static struct reply refuse(unsigned int status, const char *why)
{
	return reply(status, NULL, why);
}

/* Returns what a command printed. Its errors, such as why it did only a part, become the member "message". */
static struct reply reply_json(const char *text, const char *error_text)
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
	return (struct reply){MHD_HTTP_OK, "application/json", whole, strlen(whole)};
}

/* --- commands --- */

static void add_command(struct words *words, const struct endpoint *e)
{
	for (const char *at = e->command; *at; at++)
		fputc(*at == ' ' ? '\0' : *at, words->out);
	fputc('\0', words->out);
}

/* If a command prints no JSON, it has failed and its error is the answer. */
static struct reply call(const struct dashboard *d, const struct endpoint *e, struct words *words)
{
	AUTO_BYTES text = {NULL, 0, 0}, error_text = {NULL, 0, 0};
	FILE *out = bytes_stream(&text), *errors = bytes_stream(&error_text);
	char *argv[WORDS_MAX];
	struct reply r;
	int status, argc = 0;

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

static struct reply answer_state(struct dashboard *d)
{
	struct reply r;

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

static const char *add_argument(struct visit *v, const char *name, char *value)
{
	if (url_decode(value))
		return "a value of the query is malformed\n";
	if (v->e->has_id && strcmp(name, "id") == 0 && !v->id)
		v->id = memory_strdup(value);
	else if (!is_allowed(v->e, name))
		return "this page has no such argument\n";
	else if (*value && strcmp(name, "deliveries") == 0)
		fprintf(v->words.out, "--deliveries%c", 0);
	else if (*value) /* it follows =, so it cannot be taken for an option */
		fprintf(v->words.out, "--%s=%s%c", name, value, 0);
	return ++v->arguments > ARGUMENTS_MAX ? "too many arguments\n" : NULL;
}

static void on_argument(void *arg, const char *name, const char *value)
{
	struct visit *v = arg;
	AUTO_FREE char *copy = memory_strdup(value ? value : "");

	if (!v->refusal.why)
		v->refusal.why = add_argument(v, name, copy);
}

static void read_query(struct visit *v, const struct http_request *r)
{
	add_command(&v->words, v->e);
	http_each_argument(r, on_argument, v);
	if (v->e->has_id && !v->refusal.why && !(v->id && *v->id))
		v->refusal.why = "the argument id is missing\n";
	if (v->e->has_id)
		fprintf(v->words.out, "--%c%s%c", 0, v->id ? v->id : "", 0);
	if (v->refusal.why)
		v->refusal.status = MHD_HTTP_BAD_REQUEST;
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

/* As in intake/post.c: wrong tokens of an address do not delay a valid one. */
static struct http_refusal blame(struct dashboard *d, int fd)
{
	struct address *address = addresses_enter(d->addresses, port_peer_key(fd));
	bool has_too_many = addresses_blame(d->addresses, address, clock_ms(CLOCK_MONOTONIC));

	addresses_shaken(address);
	addresses_leave(d->addresses, address);
	if (has_too_many)
		return (struct http_refusal){MHD_HTTP_TOO_MANY_REQUESTS,
					     "too many wrong tokens come from this address: wait a minute\n"};
	return (struct http_refusal){MHD_HTTP_UNAUTHORIZED,
				     "this token is not valid: send one as Authorization: Bearer\n"};
}

static void refuse_argument(void *arg, const char *name, const char *value)
{
	struct visit *v = arg;

	(void)name;
	(void)value;
	v->refusal = (struct http_refusal){MHD_HTTP_BAD_REQUEST, "the arguments of a change belong in its body\n"};
}

/* Checks the bearer token (RFC 6750), and requires a Content-Type that a form on another site cannot send. */
static struct http_refusal judge_change(struct visit *v, const struct http_request *r)
{
	static const char scheme[] = "Bearer ";
	struct dashboard *d = v->d;
	const struct token *token = NULL;

	if (!d->tokens)
		return (struct http_refusal){
			MHD_HTTP_FORBIDDEN,
			"read-only: start wsonce dashboard with --admin-token-file to change something\n"};
	tokens_refresh(d->tokens);
	if (r->authorization && strncasecmp(r->authorization, scheme, sizeof(scheme) - 1) == 0)
		token = tokens_find(d->tokens, r->authorization + sizeof(scheme) - 1);
	if (!token)
		return blame(d, r->fd);
	v->token_name = token->name;
	if (!r->type || strncasecmp(r->type, "application/json", 16) != 0)
		return (struct http_refusal){MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					     "the Content-Type must be application/json\n"};
	http_each_argument(r, refuse_argument, v);
	return v->refusal;
}

static void read_body(struct visit *v)
{
	json_auto_t *body = json_loadb(bytes_text(&v->body), v->body.len, JSON_REJECT_DUPLICATES, NULL);

	v->refusal.why = read_change(v->e, body, v->token_name, &v->words);
	if (v->refusal.why)
		v->refusal.status = MHD_HTTP_BAD_REQUEST;
	else
		log_info("the page changes dead letters", "command=%s token=%s ids=%zu", v->e->command, v->token_name,
			 json_array_size(json_object_get(body, "ids")));
}

/* --- requests --- */

static const struct endpoint *find_endpoint(const char *path)
{
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
		if (strcmp(endpoints[i].path, path) == 0)
			return &endpoints[i];
	return NULL;
}

static struct http_refusal judge(struct visit *v, const struct http_request *r)
{
	bool posts = strcmp(r->method, "POST") == 0;

	v->e = find_endpoint(r->path);
	if ((!posts && strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0) ||
	    posts != (v->e && v->e->changes))
		return (struct http_refusal){MHD_HTTP_METHOD_NOT_ALLOWED, "this method is not allowed here\n"};
	if (r->is_gzip)
		return (struct http_refusal){MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					     "compressed bodies are not supported: send it without Content-Encoding\n"};
	if (posts)
		return judge_change(v, r);
	if (v->e)
		read_query(v, r);
	return v->refusal;
}

static struct http_refusal on_begin(void *arg, const struct http_request *r, void **post)
{
	struct visit *v = memory_calloc(1, sizeof(*v));

	v->d = arg;
	v->path = memory_strdup(r->path);
	v->words.out = bytes_stream(&v->words.text);
	v->refusal = judge(v, r);
	*post = v;
	return (struct http_refusal){0, NULL};
}

/* A body that is too large is read to its end and dropped, so that the client gets the answer. */
static void on_body(void *post, const char *bytes, size_t len)
{
	struct visit *v = post;

	if (v->body.len + len <= BODY_MAX)
		bytes_add(&v->body, bytes, len);
	else
		v->refusal = (struct http_refusal){MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n"};
}

static void finish(struct visit *v, struct reply r)
{
	http_answer(v->ticket, r.status, r.type, r.text, r.len);
}

static void on_gone(void *post)
{
	struct visit *v = post;

	v->is_gone = true;
	if (v->is_working)
		return;
	if (v->words.out)
		fclose(v->words.out);
	bytes_free(&v->words.text);
	bytes_free(&v->body);
	free(v->id);
	free(v->path);
	free(v);
}

/* Runs on a thread. */
static void work(uv_work_t *work)
{
	struct visit *v = (struct visit *)work;

	v->reply = v->e ? call(v->d, v->e, &v->words) : answer_state(v->d);
}

static void on_worked(uv_work_t *work, int status)
{
	struct visit *v = (struct visit *)work;

	(void)status;
	v->is_working = false;
	v->d->questions -= v->e != NULL;
	if (!v->is_gone) {
		finish(v, v->reply);
		return;
	}
	free(v->reply.text);
	on_gone(v);
}

static struct reply answer_page(const struct dashboard *d, const char *path)
{
	if (strcmp(path, "/api/access") == 0)
		return reply(MHD_HTTP_OK, "application/json",
			     d->tokens ? "{\"may_change\": true, \"version\": \"" WSONCE_VERSION "\"}\n"
				       : "{\"may_change\": false, \"version\": \"" WSONCE_VERSION "\"}\n");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (strcmp(files[i].path, path) == 0)
			return reply(MHD_HTTP_OK, files[i].type, files[i].text);
	return refuse(MHD_HTTP_NOT_FOUND, "no such page\n");
}

static void on_end(void *post, struct http_ticket *ticket)
{
	struct visit *v = post;
	struct dashboard *d = v->d;

	v->ticket = ticket;
	if (!v->refusal.status && v->e && v->e->changes)
		read_body(v);
	else if (!v->refusal.status && v->body.len)
		v->refusal = (struct http_refusal){MHD_HTTP_BAD_REQUEST, "a GET has no body\n"};
	if (!v->refusal.status && v->e && d->questions >= QUESTIONS)
		v->refusal = (struct http_refusal){MHD_HTTP_SERVICE_UNAVAILABLE,
						   "too many requests at once: try again later\n"};
	if (v->refusal.status) {
		finish(v, refuse(v->refusal.status, v->refusal.why));
	} else if (v->e || strcmp(v->path, "/api/status") == 0) {
		v->is_working = true;
		d->questions += v->e != NULL;
		fclose(v->words.out);
		v->words.out = NULL;
		uv_queue_work(&d->loop, &v->work, work, on_worked);
	} else {
		finish(v, answer_page(d, v->path));
	}
}

static bool payer_of(const void *post, const void **payer)
{
	(void)post, (void)payer;
	return false;
}

static const struct http_poster poster = {on_begin, on_body, on_end, on_gone, payer_of};

/* --- life --- */

static char **split_hosts(const char *names, size_t *count)
{
	char *text = memory_strdup(names ? names : ""), *at, **hosts = memory_calloc(strlen(text) + 1, sizeof(*hosts));

	for (const char *name = strtok_r(text, ", ", &at); name; name = strtok_r(NULL, ", ", &at))
		hosts[(*count)++] = memory_strdup(name);
	free(text);
	return hosts;
}

static void tell_where(const struct http *http, const struct given *o)
{
	if (strncmp(o->address, "unix:", 5) == 0)
		printf("wsonce dashboard: %s\n", o->address);
	else
		printf("wsonce dashboard: http://%.*s:%d/\n", (int)(strrchr(o->address, ':') - o->address), o->address,
		       http_port(http));
	fflush(stdout);
}

static void run_loop(void *loop)
{
	uv_run(loop, UV_RUN_DEFAULT);
}

/* Exits without waiting for the threads: one may be waiting for a server that hangs. They leave the signals to this
 * one. */
_Noreturn static void serve(struct dashboard *d, const sigset_t *ends)
{
	uv_thread_t thread;
	int number;

	if (uv_thread_create(&thread, run_loop, &d->loop) == 0)
		sigwait(ends, &number);
	_exit(STATUS_FINE);
}

int dashboard_command(const struct invocation *in)
{
	const struct given *o = in->options;
	struct dashboard d = {.config = in->config, .state_lock = PTHREAD_MUTEX_INITIALIZER};
	struct http *http;
	char error[400];
	sigset_t ends;

	if (o->token_file && !(d.tokens = tokens_new(NULL, o->token_file, true, error, sizeof(error))))
		return dispatch_refuse("--admin-token-file%s",
				       strchr(error, ':')); /* skips the name of a listener's option */
	d.addresses = addresses_new("--listen");
	d.site = (struct http_site){.flag = "--listen",
				    .address = o->address,
				    .visitors = VISITORS,
				    .of_one_host = VISITORS / 2,
				    .poster = &poster,
				    .methods = "GET, HEAD, POST",
				    .arg = &d};
	d.site.hosts = split_hosts(o->hosts, &d.site.host_count);
	keyed_hash("", 0); /* both draw their keys before there are threads */
	json_object_seed(0);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	setenv("UV_THREADPOOL_SIZE", THREADS, 1);
	if (uv_loop_init(&d.loop))
		return dispatch_fail("the event loop cannot start");
	http = http_open(&d.loop, &d.site, error, sizeof(error));
	if (!http)
		return dispatch_fail("%s", error);
	tell_where(http, o);
	serve(&d, &ends);
}

const char *dashboard_check(const struct invocation *in)
{
	static const struct value_form form = {VALUE_ADDRESS, 0, 0, NULL};
	static char sentence[300];
	const struct given *o = in->options;
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
