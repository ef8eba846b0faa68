/* The admin server, as it runs in a listener: libwebsockets on a loop, and admin.c behind it. Any bytes
 * in any pieces get a well-formed answer or none; 200 is for its five pages only; and the server goes on.
 *
 * An input is a byte whose bits are the listener's state, a byte that chooses the pieces, and what the
 * client sends. */
#include "ops/admin.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/log.h"

#define QUIET_TURNS 3 /* of the loop, in which nothing comes: nothing more will */

static uv_loop_t loop;
static struct ws *ws;
static struct config config = {.message_bytes = 1 << 20,
			       .ping_interval_s = 20,
			       .handshake_timeout_s = 10,
			       .inflight_bytes = 1 << 28,
			       .instance_id = (char *)"fuzz"};
static struct admin_parts parts = {.config = &config};
static struct events events;
static unsigned int state; /* of the listener: enum state_bit */

enum state_bit {
	POSTGRES_IS_AWAY = 1,
	REDIS_IS_AWAY = 2,
	REDIS_IS_USED = 4,
	SOURCE_IS_AWAY = 8,
	IS_DRAINING = 16,
	HAS_INGEST = 32,
	IS_FULL = 64,
};

/* What an input led to is counted here too, for libwebsockets' own branches are not seen. */
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t outcomes[2048];

/* --- the rest of a listener --- */

const struct events *pipeline_events(const struct pipeline *p)
{
	(void)p;
	return &events;
}

size_t pipeline_bytes(const struct pipeline *p)
{
	(void)p;
	return 1;
}

bool pipeline_is_full(const struct pipeline *p)
{
	(void)p;
	return state & IS_FULL;
}

const struct store *pipeline_store(const struct pipeline *p)
{
	(void)p;
	return NULL;
}

const struct claim *pipeline_claim(const struct pipeline *p)
{
	(void)p;
	return NULL;
}

void pipeline_charge(struct pipeline *p, long bytes)
{
	(void)p, (void)bytes;
}

bool store_is_ready(const struct store *s, const char **why)
{
	(void)s;
	*why = state & POSTGRES_IS_AWAY ? "connection refused: \"\xff\"" : "";
	return !(state & POSTGRES_IS_AWAY);
}

bool claim_is_used(const struct claim *c)
{
	(void)c;
	return state & REDIS_IS_USED;
}

bool claim_is_ready(const struct claim *c)
{
	(void)c;
	return !(state & REDIS_IS_AWAY);
}

bool claim_is_refused(const struct claim *c)
{
	(void)c;
	return state & IS_FULL;
}

size_t sources_count(const struct sources *s)
{
	(void)s;
	return 1;
}

struct source_view sources_view(const struct sources *s, size_t i)
{
	(void)s, (void)i;
	return (struct source_view){"ws://h", "open", "", !(state & SOURCE_IS_AWAY), state & IS_FULL ? 1774094400 : 0};
}

const struct token *ingest_tokens(const struct ingest *i)
{
	(void)i;
	return NULL;
}

size_t ingest_connections(const struct ingest *i)
{
	(void)i;
	return 3;
}

size_t relay_targets(const struct relay *r)
{
	(void)r;
	return 1;
}

const struct target *relay_target(const struct relay *r, size_t i)
{
	static struct webhook webhook = {.name = (char *)"shop"};
	static struct target target = {.webhook = &webhook};

	(void)r, (void)i;
	target.state = state & POSTGRES_IS_AWAY ? TARGET_PAUSED : TARGET_OPEN;
	return &target;
}

const struct backlog *relay_backlog(const struct relay *r)
{
	static const struct backlog backlog = {3, 1, 5000, "e-\xff", "shop", 0};

	(void)r;
	return &backlog;
}

/* --- a client --- */

struct client {
	int fd;
	bool is_ended; /* by the server */
	size_t len;
	char answer[1 << 19];
};

static struct client client;

static void client_open(struct client *c)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(config.admin + 5));

	strcpy(address.sun_path, config.admin + 5);
	address.sun_path[0] = '\0';
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	must(connect(c->fd, (struct sockaddr *)&address, len) == 0, "cannot connect: %s", strerror(errno));
	c->is_ended = false;
	c->len = 0;
}

/* Turns the loop, and takes what came. Returns whether anything did. */
static bool client_turn(struct client *c)
{
	ssize_t n;

	uv_run(&loop, UV_RUN_NOWAIT);
	must(c->len < sizeof(c->answer) - 1, "an answer without an end");
	n = recv(c->fd, c->answer + c->len, sizeof(c->answer) - 1 - c->len, 0);
	if (n > 0)
		c->len += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		c->is_ended = true;
	c->answer[c->len] = '\0';
	return n > 0;
}

static void client_await_quiet(struct client *c)
{
	for (int quiet = 0; quiet < QUIET_TURNS && !c->is_ended; quiet++)
		if (client_turn(c))
			quiet = 0;
}

static void client_send(struct client *c, const char *bytes, size_t len, unsigned int pieces)
{
	while (len && !c->is_ended) {
		size_t n = pieces ? 1 + (pieces = pieces * 1103515245 + 12345) / 65536 % (len / 3 + 1) : len;
		ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			break;
		if (sent > 0) {
			bytes += sent;
			len -= (size_t)sent;
		}
		client_turn(c);
	}
}

static void client_close(struct client *c)
{
	close(c->fd);
	uv_run(&loop, UV_RUN_NOWAIT);
	uv_run(&loop, UV_RUN_NOWAIT);
}

/* --- what is asked for --- */

struct request {
	bool is_head;
	bool has_end;    /* &, a semicolon, or NUL, CR or LF as %xx: libwebsockets has rules of its own for them */
	char path[8192]; /* escapes and dots resolved, without the query */
};

static int unhex(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' ? c | 0x20 : c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static char decode(const char **at, const char *end)
{
	const char *c = (*at)++;

	if (*c == '%' && end - c > 2 && unhex(c[1]) >= 0 && unhex(c[2]) >= 0) {
		*at = c + 3;
		return (char)(unhex(c[1]) * 16 + unhex(c[2]));
	}
	return *c;
}

/* The segment that ends path is taken back if it is a dot, or with the one before it if it is two. */
static size_t end_segment(char *path, size_t len)
{
	path[len] = '\0';
	if (len >= 2 && strcmp(path + len - 2, "/.") == 0)
		return len - 2;
	if (len >= 3 && strcmp(path + len - 3, "/..") == 0) {
		len -= 3;
		while (len && path[--len] != '/')
			;
	}
	return len;
}

static void resolve(struct request *r, const char *at, const char *end)
{
	size_t len = 0;

	r->has_end = false;
	while (at < end && *at != '?' && len < sizeof(r->path) - 2) {
		bool is_odd = *at == '&' || *at == ';';
		char c = decode(&at, end);

		r->has_end = r->has_end || is_odd || !c || c == '\r' || c == '\n';
		if (c == '/')
			len = end_segment(r->path, len);
		if (c != '/' || !len || r->path[len - 1] != '/')
			r->path[len++] = c;
	}
	len = end_segment(r->path, len);
	if (!len)
		r->path[len++] = '/';
	r->path[len] = '\0';
}

/* The request line at the beginning of the bytes; false if there is none. */
static bool read_request(struct request *r, const char *at, const char *end)
{
	const char *begin;

	r->is_head = end - at > 5 && strncasecmp(at, "HEAD ", 5) == 0;
	if (!r->is_head && (end - at < 4 || strncasecmp(at, "GET ", 4) != 0))
		return false;
	at += r->is_head ? 5 : 4;
	while (at < end && *at == ' ')
		at++;
	begin = at;
	while (at < end && !strchr(" \r\n", *at))
		at++;
	resolve(r, begin, at);
	return true;
}

/* --- what is answered --- */

static const struct {
	const char *path;
	const char *begin;
} pages[] = {
	{"/", "<!doctype html>"},       {"/healthz", "alive\n"}, {"/readyz", ""},
	{"/metrics", "# HELP wsonce_"}, {"/api/status", "{\n"},
};

static bool is_known_status(int status)
{
	static const int known[] = {200, 400, 403, 404, 405, 408, 411, 413, 414, 426, 431, 500, 501, 503, 505};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] == status)
			return true;
	return false;
}

static bool is_page(const struct request *r, const char *body)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++)
		if (r->has_end || strcmp(pages[i].path, r->path) == 0)
			return r->has_end || r->is_head || strncmp(body, pages[i].begin, strlen(pages[i].begin)) == 0;
	return false;
}

/* Does a line ask for the page that begins with body? Mostly the first one does, but libwebsockets takes
 * headers before the request, too. */
static bool is_asked_for(const char *body, const char *sent, size_t len)
{
	const char *end = sent + len;
	struct request request;

	for (const char *at = sent; at < end; at++)
		if ((at == sent || at[-1] == '\n' || at[-1] == '\r') && read_request(&request, at, end) &&
		    is_page(&request, body))
			return true;
	return false;
}

/* One response; returns where the next begins. */
static const char *check_response(const char *at, const char *end, int *status)
{
	const char *body = strstr(at, "\r\n\r\n"), *length;
	size_t len;

	must(sscanf(at, "HTTP/1.%*1[01] %3d", status) == 1 && at[8] == ' ' && is_known_status(*status),
	     "a status line of no known form: %.60s", at);
	must(body, "headers without an end: %.200s", at);
	body += 4;
	length = strcasestr(at, "content-length:");
	must(length && length < body, "an answer without a length: %.200s", at);
	len = strtoul(length + 15, NULL, 10);
	if ((size_t)(end - body) < len || strncmp(body, "HTTP/1.", 7) == 0)
		return body == end || *body == 'H' ? body : end; /* to HEAD, or cut off by an end */
	return body + len;
}

static void check_answer(const struct client *c, const char *sent, size_t len)
{
	const char *end = c->answer + c->len;
	int status, responses = 0;

	for (const char *at = c->answer; at < end; responses++) {
		const char *next = check_response(at, end, &status);

		must(next > at, "an answer that does not end");
		if (responses == 0 && status == 200)
			must(is_asked_for(strstr(at, "\r\n\r\n") + 4, sent, len), "200 for what is no page: %.300s",
			     at);
		must(!(status == 500), "the server could not make a page: %.300s", at);
		at = next;
		outcomes[(unsigned int)status % 1024] = 1;
	}
	outcomes[1024 + (responses < 63 ? responses : 63)] = 1;
	outcomes[1088 + c->is_ended] = 1;
}

static void check_health(void)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

	client_open(&client);
	client_send(&client, request, sizeof(request) - 1, 0);
	for (int turns = 0; turns < 100 && !strstr(client.answer, "alive\n"); turns++)
		client_turn(&client);
	must(strncmp(client.answer, "HTTP/1.1 200 ", 13) == 0 && strstr(client.answer, "alive\n"),
	     "the server is not well: %.100s", client.answer);
	client_close(&client);
}

/* --- the fuzzer --- */

static void count_handle(uv_handle_t *handle, void *count)
{
	(void)handle;
	++*(int *)count;
}

static int count_handles(void)
{
	int count = 0;

	uv_walk(&loop, count_handle, &count);
	return count;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char address[60];
	char error[400];

	(void)argc, (void)argv;
	snprintf(address, sizeof(address), "unix:@wsonce-fuzz-%d", (int)getpid());
	config.admin = address;
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	events_init(&events);
	must(uv_loop_init(&loop) == 0, "no loop");
	ws = ws_open(&loop, &config, NULL);
	must(ws, "no context");
	must(admin_open(ws, &parts, error, sizeof(error)), "%s", error);
	check_health();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *request = (const char *)data + 2;
	int handles = count_handles();

	if (size < 2)
		return 0;
	state = data[0];
	parts.is_draining = state & IS_DRAINING;
	parts.ingest = state & HAS_INGEST ? (const struct ingest *)&config : NULL;
	parts.relay = state & HAS_INGEST ? (const struct relay *)&config : NULL;
	client_open(&client);
	client_send(&client, request, size - 2, data[1]);
	client_await_quiet(&client);
	shutdown(client.fd, SHUT_WR);
	client_await_quiet(&client);
	check_answer(&client, request, size - 2);
	client_close(&client);
	check_health();
	for (int turns = 0; turns < 100 && count_handles() > handles; turns++)
		uv_run(&loop, UV_RUN_NOWAIT);
	must(count_handles() <= handles, "connections are left over: %d handles, %d before", count_handles(), handles);
	return 0;
}
