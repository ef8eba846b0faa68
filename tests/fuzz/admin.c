/* The admin server, as it runs in a listener: libmicrohttpd on a loop, and admin.c behind it. Any bytes
 * in any pieces get a well-formed answer or none; each page answers one request, in order, that can be read in only one
 * way; and the server keeps running.
 *
 * An input is a byte whose bits are the listener's state, a byte that chooses the pieces, and what the
 * client sends. */
#include "ops/report.h"

#include "base/log.h"
#include "spool/spool.h"
#include "client.h"
#include "fuzz.h"

static uv_loop_t loop;
static struct sockaddr_in address = {.sin_family = AF_INET};
static char *const hosts[] = {(char *)"h"};
static struct config config = {.message_bytes = 1 << 20,
			       .ping_interval_s = 20,
			       .handshake_timeout_s = 10,
			       .inflight_bytes = 1 << 28,
			       .admin_hosts = {(char **)hosts, 1},
			       .instance_id = (char *)"fuzz"};
static struct hour hour;
static struct report report;
static struct admin_parts parts = {.config = &config, .hour = &hour, .report = &report};
static struct events events;
static unsigned int state; /* state of the listener: enum state_bit */

enum state_bit {
	POSTGRES_IS_AWAY = 1,
	REDIS_IS_AWAY = 2,
	REDIS_IS_USED = 4,
	SOURCE_IS_AWAY = 8,
	IS_DRAINING = 16,
	HAS_INGEST = 32,
	IS_FULL = 64,
};

/* Counts outcomes as coverage, since libmicrohttpd's branches are not instrumented. */
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t outcomes[2048];

/* --- the rest of a listener --- */

const struct events *pipeline_events(const struct pipeline *p)
{
	return &events;
}

int64_t pipeline_settled_us(const struct pipeline *p)
{
	return 0;
}

size_t pipeline_bytes(const struct pipeline *p)
{
	return 1;
}

bool pipeline_is_full(const struct pipeline *p)
{
	return state & IS_FULL;
}

bool pipeline_is_full_for_producers(const struct pipeline *p)
{
	return pipeline_is_full(p);
}

const struct spool *pipeline_spool(const struct pipeline *p)
{
	return NULL;
}

struct spool_view spool_view(const struct spool *s)
{
	return (struct spool_view){0};
}

const struct claim *pipeline_claim(const struct pipeline *p)
{
	return NULL;
}

void pipeline_charge(struct pipeline *p, long bytes)
{
}

const struct store *storing_store(const struct storing *s)
{
	return NULL;
}

const char *storing_trouble(const struct storing *s)
{
	return state & POSTGRES_IS_AWAY ? "connection refused: \"\xff\"" : "";
}

struct storing *pipeline_storing(const struct pipeline *p)
{
	return NULL;
}

const char *storing_kept(const struct storing *s)
{
	return state & POSTGRES_IS_AWAY ? "cursors cannot be stored; the log says why" : "";
}

int64_t storing_is_slow(const struct storing *s, const char **why)
{
	*why = state & IS_FULL ? "postgres is slow" : "";
	return state & IS_FULL;
}

struct store_view store_view(const struct store *s)
{
	(void)s;
	return (struct store_view){.hazards = "", .holder = state & IS_FULL ? "pid 7 (wsonce)" : ""};
}

bool claim_is_used(const struct claim *c)
{
	return state & REDIS_IS_USED;
}

bool claim_is_ready(const struct claim *c)
{
	return !(state & REDIS_IS_AWAY);
}

bool claim_is_foreign(const struct claim *c)
{
	return false;
}

bool claim_is_refused(const struct claim *c)
{
	return state & IS_FULL;
}

const char *claim_owner(const struct claim *c)
{
	return "fuzz@1";
}

void config_each(const struct config *c, void (*each)(void *arg, const struct config_redacted *setting), void *arg)
{
}

size_t sources_places(const struct sources *s)
{
	return 1;
}

size_t sources_count(const struct sources *s)
{
	return 1;
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	return (struct source_view){.name = "h",
				    .url = "ws://h",
				    .state = "open",
				    .error = "",
				    .is_open = !(state & SOURCE_IS_AWAY),
				    .is_ready = !(state & SOURCE_IS_AWAY),
				    .last_message_ms = state & IS_FULL ? 1774094400 : 0};
}

bool sources_are_ready(const struct sources *s, size_t i)
{
	return sources_view(s, i).is_ready;
}

const struct token *ingest_tokens(const struct ingest *i)
{
	return NULL;
}

size_t ingest_connections(const struct ingest *i)
{
	return 3;
}

size_t relay_targets(const struct relay *r)
{
	return 1;
}

const struct target *relay_target(const struct relay *r, size_t i)
{
	static struct webhook webhook = {.name = (char *)"shop"};
	static struct target target = {.webhook = &webhook},
			     retries = {.webhook = &webhook, .other = &target, .is_retry = true};

	target.other = &retries;
	target.state = state & POSTGRES_IS_AWAY ? TARGET_PAUSED : TARGET_OPEN;
	return &target;
}

const json_t *relay_pause(const struct relay *r, size_t i)
{
	static json_t *pause;

	if (!pause)
		pause = json_pack("{s:s, s:s}", "since", "2026-11-28T00:00:00Z", "reason", "410 Gone");
	return state & REDIS_IS_AWAY ? pause : NULL;
}

const char *relay_error(const struct relay *r)
{
	return "permission denied for table outbox";
}

const struct backlog *relay_backlog(const struct relay *r)
{
	static const struct backlog backlog = {
		.pending = 3, .overdue = 1, .oldest_ms = 5000, .oldest_id = "e-\xff", .oldest_target = "shop"};

	return &backlog;
}

static struct client client = {.loop = &loop};

static void leave(void)
{
	close(client.fd);
	uv_run(&loop, UV_RUN_NOWAIT);
	uv_run(&loop, UV_RUN_NOWAIT);
}

/* --- what is asked for --- */

/* A request: its line and its headers. None has a body, so the next one follows. */
struct request {
	char line[2000];
	bool is_head;
	bool is_wrong; /* it must not be answered by a page */
	bool is_odd;   /* a header continues on the next line: its name is unclear */
	int hosts;
	int lengths;
};

/* Copies a line without its end, up to a NUL. Returns the next one, or NULL if the line has no end. */
static const char *next_line(const char *at, const char *end, char *room, size_t size)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));

	if (!stop)
		return NULL;
	size_t len = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
	must(len < size, "an input longer than is allowed");
	memcpy(room, at, len);
	room[len] = '\0';
	return stop + 1;
}

/* Only LF and CR LF end lines for sure. libmicrohttpd 0.9 ends texts at a NUL, and takes a line that begins with a
 * colon for the end of a request. */
static bool has_plain_lines(const char *at, const char *end)
{
	for (const char *begin = at; at < end; at++)
		if (!*at || (*at == '\r' && (at + 1 == end || at[1] != '\n')) ||
		    (*at == ':' && at > begin && at[-1] == '\n'))
			return false;
	return true;
}

static bool is_our_name(char *host)
{
	char *last = strrchr(host, ':');

	if (last && last[strspn(last, ":0123456789")] == '\0')
		*last = '\0';
	return strcasecmp(host, "localhost") == 0 || strcasecmp(host, "h") == 0 ||
	       host[strspn(host, "0123456789abcdefABCDEF.:[]")] == '\0';
}

static void read_header(struct request *r, char *line)
{
	size_t len = strcspn(line, ":");
	char *value = line + len + 1;

	if (*line == ' ' || *line == '\t')
		r->is_odd = true;
	if (!line[len] || strcspn(line, " \t") < len)
		r->is_wrong = true;
	if (!line[len])
		return;
	line[len] = '\0';
	value += strspn(value, " \t");
	for (size_t n = strlen(value); n && strchr(" \t", value[n - 1]); n--)
		value[n - 1] = '\0';
	if (strcasecmp(line, "Transfer-Encoding") == 0 ||
	    (strcasecmp(line, "Content-Length") == 0 && strcmp(value, "0") != 0))
		r->is_wrong = true;
	r->lengths += strcasecmp(line, "Content-Length") == 0;
	if (strcasecmp(line, "Host") != 0)
		return;
	r->hosts++;
	if (!is_our_name(value))
		r->is_wrong = true;
}

/* Reads a request. Returns where the next one begins, or NULL if this one has no end. */
static const char *read_request(struct request *r, const char *at, const char *end)
{
	const char *begin = at;
	char line[2000] = "";

	memset(r, 0, sizeof(*r));
	while (at && !*r->line) {
		begin = at;
		at = next_line(at, end, r->line, sizeof(r->line));
	}
	bool needs_host = at && !memmem(begin, (size_t)(at - begin), "HTTP/1.0", 8);
	while (at && (at = next_line(at, end, line, sizeof(line))) && *line)
		read_header(r, line);
	r->is_head = strncmp(r->line, "HEAD ", 5) == 0;
	if (r->hosts > 1 || r->lengths > 1 || (!r->hosts && needs_host))
		r->is_wrong = true;
	if (!r->is_head && strncmp(r->line, "GET ", 4) != 0)
		r->is_wrong = true;
	return at;
}

/* --- what is answered --- */

static const struct {
	const char *path;
	const char *begin;
} pages[] = {
	{"/healthz", "alive\n"},
	{"/readyz", ""},
	{"/metrics", "# HELP wsonce_"},
	{"/api/status", "{\n"},
};

static bool is_known_status(int status)
{
	static const int known[] = {200, 400, 403, 404, 405, 413, 414, 431, 503, 505};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] == status)
			return true;
	return false;
}

/* True if the request is for a page that begins with body. */
static bool is_page(const struct request *r, const char *body)
{
	const char *path = r->line + strcspn(r->line, " ");

	path += strspn(path, " ");
	size_t len = strcspn(path, " ?");
	for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++)
		if (strlen(pages[i].path) == len && strncmp(pages[i].path, path, len) == 0)
			return r->is_head || strncmp(body, pages[i].begin, strlen(pages[i].begin)) == 0;
	return false;
}

/* Checks a response. Returns where the next one begins. */
static const char *check_response(const char *at, const char *end, int *status)
{
	const char *body = strstr(at, "\r\n\r\n"), *length;

	must(sscanf(at, "HTTP/1.%*1[01] %3d", status) == 1 && at[8] == ' ' && is_known_status(*status),
	     "a status line of no known form: %.60s", at);
	must(body, "headers without an end: %.200s", at);
	body += 4;
	length = strcasestr(at, "content-length:");
	must(length && length < body, "an answer without a length: %.200s", at);
	size_t len = strtoul(length + 15, NULL, 10);
	if ((size_t)(end - body) < len || strncmp(body, "HTTP/1.", 7) == 0)
		return body == end || *body == 'H' ? body : end; /* to HEAD, or cut off by an end */
	return body + len;
}

/* Checks that 200 and 503 answer a correct request for a page. */
static void check_page(const char *at, const struct request *r)
{
	must(is_page(r, strstr(at, "\r\n\r\n") + 4), "a page for \"%s\": %.300s", r->line, at);
	must(r->is_odd || !r->is_wrong, "a page for a request that is wrong, \"%s\": %.300s", r->line, at);
}

static void check_answer(const struct client *c, const char *sent, size_t len)
{
	const char *end = c->answer + c->len, *limit = sent + len;
	bool is_plain = has_plain_lines(sent, limit), has_odd = false;
	int status, responses = 0, refusals = 0;

	for (const char *at = c->answer; at < end; responses++) {
		const char *next = check_response(at, end, &status);
		struct request request;

		must(next > at, "an answer that does not end");
		/* The head of some refusals is sent twice: see net/http.c. */
		must(!refusals || (refusals == 1 && (status == 400 || status == 413)),
		     "an answer behind a refusal: %.300s", at);
		sent = sent && is_plain ? read_request(&request, sent, limit) : NULL;
		has_odd |= sent && request.is_odd;
		if ((status == 200 || status == 503) && is_plain) {
			must(sent || has_odd, "a page for no request: %.300s", at);
			if (sent && !has_odd)
				check_page(at, &request);
		}
		refusals += status != 200 && status != 503 && status != 404;
		at = next;
		outcomes[(unsigned int)status % 1024] = 1;
	}
	outcomes[1024 + (responses < 63 ? responses : 63)] = 1;
	outcomes[1088 + c->is_ended] = 1;
}

static void check_health(void)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

	client_open(&client, &address);
	client_send(&client, request, sizeof(request) - 1, 0);
	for (int turns = 0; turns < 100 && !strstr(client.answer, "alive\n"); turns++)
		client_turn(&client);
	must(strncmp(client.answer, "HTTP/1.1 200 ", 13) == 0 && strstr(client.answer, "alive\n"),
	     "the server is not well: %.100s", client.answer);
	leave();
}

/* --- the fuzzer --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char text[60];
	char error[400];

	snprintf(text, sizeof(text), "127.0.0.1:%d", find_port(&address));
	config.admin = text;
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	events_init(&events);
	must(uv_loop_init(&loop) == 0, "no loop");
	report_init(&report, &loop, &parts);
	must(admin_open(&loop, &parts, error, sizeof(error)), "%s", error);
	check_health();
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	const char *request = (const char *)data + 2;

	if (size < 2)
		return;
	state = data[0];
	parts.is_draining = state & IS_DRAINING;
	parts.ingest = state & HAS_INGEST ? (const struct ingest *)&config : NULL;
	parts.relay = state & HAS_INGEST ? (const struct relay *)&config : NULL;
	client_open(&client, &address);
	client_send(&client, request, size - 2, data[1]);
	client_await_quiet(&client);
	shutdown(client.fd, SHUT_WR);
	client_await_quiet(&client);
	check_answer(&client, request, size - 2);
	leave();
	check_health();
}
