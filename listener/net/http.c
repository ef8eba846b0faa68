/* http.c owns the server of the admin pages and of POST /events: which connections it keeps, for how long, and which
 * requests it answers. libmicrohttpd speaks HTTP, without a thread: the loop watches its epoll descriptor. ops/ writes
 * the pages. acceptor.c accepts, because libmicrohttpd 0.9 spins when it is out of file descriptors. */
#include "net/http.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/poll.h"
#include "base/port.h"
#include "base/url.h"
#include "net/acceptor.h"
#include "net/http_head.h"
#include "net/refused_peers.h"

#define VISITORS_MAX       64
#define OF_ONE_HOST        32
#define REQUEST_TIMEOUT_MS 10000 /* default for a request, and for a stranger also for the time before it */
#define IDLE_MORE_MS       15000 /* proxies and clients use a connection again that has been idle for a minute */
#define SWEEP_MS           1000
#define MEMORY_BYTES       (32u << 10) /* bytes per connection, which limits the size of a request's head */
#define ROUNDS_MOST        100         /* runs of libmicrohttpd per turn */
#define TURN_NS            10000000    /* after which no other one begins on a site of pages: large ones take long */
#define ROUNDS_BUSY        2           /* the same after a turn that used all of them */
#define BUSY_MS            10          /* until the next turn then, if nothing else wakes the loop */

static const char is_crowded[] = "too many of your requests are waiting for answers: send this one again\n";

struct visitor {
	int fd; /* -1: free */
	int64_t since_ms;
	bool is_idle;               /* since its last answer */
	bool is_waiting;            /* for an answer; no timeout applies */
	uint64_t wait;              /* number of this wait, from 1: many begin in one millisecond */
	struct http_ticket *ticket; /* ticket of the request that waits; NULL: none */
	bool is_welcome;            /* it has sent a request that was accepted and whose sender is known */
	uint64_t address;
	const void *payer; /* the owner it counts against; NULL: its address */
};

struct http {
	uv_loop_t *loop;
	const struct http_site *site;
	struct url bound; /* the address, unless it is a Unix socket */
	struct http_names names;
	struct acceptor *acceptor;
	struct MHD_Daemon *daemon;
	struct poll *traffic; /* libmicrohttpd's epoll descriptor */
	uv_timer_t timer;     /* libmicrohttpd's timers, and slow clients */
	struct visitor *visitors;
	size_t visitors_max;
	size_t of_one_host; /* maximum from one address */
	int64_t request_timeout_ms;
	size_t visitor_count;
	bool is_busy; /* the last turn was not enough for libmicrohttpd */
	struct refused_peers refusals;
	uint64_t waits;
	char *path; /* of the last page; NULL: none */
	struct bytes page;
	const char *type;
	unsigned int status;
	uint64_t written_ms; /* loop clock */
};

/* A request with a body. It is read to its end and then suspended until http_answer. */
struct http_ticket {
	struct http *http;
	struct MHD_Connection *connection;
	void *post; /* NULL: refused, the body is dropped */
	bool has_body;
	bool is_last;        /* no other request may follow */
	bool is_whole;       /* the body is complete and poster->end was called */
	bool is_suspended;   /* libmicrohttpd waits for http_answer */
	unsigned int status; /* 0: not answered yet */
	const char *type;
	char *text; /* heap */
	size_t len;
};

/* --- answers --- */

static bool is_browsed(const struct http *h)
{
	return !h->site->poster || h->site->methods;
}

static enum MHD_Result respond(const struct http *h, struct MHD_Connection *c, unsigned int status, const char *type,
			       char *text, size_t len, bool is_last)
{
	const char *methods = h->site->methods ? h->site->methods : h->site->poster ? "POST" : "GET, HEAD";

	return http_respond(c, status, type, text, len, is_browsed(h), methods, is_last);
}

static void forget_page(struct http *h)
{
	free(h->path);
	bytes_free(&h->page);
	h->path = NULL;
	h->type = NULL;
}

/* Writes a page once in a turn of the loop, though many may ask for it: a large one takes long. */
static enum MHD_Result answer(struct http *h, struct MHD_Connection *c, const char *path)
{
	uint64_t now = uv_now(h->loop);
	struct bytes copy = {NULL, 0, 0};
	FILE *out;

	if (!h->path || h->written_ms != now || strcmp(h->path, path) != 0) {
		forget_page(h);
		out = bytes_stream(&h->page);
		h->status = h->site->write(h->site->arg, path, out, &h->type);
		fclose(out);
		h->path = memory_strdup(path);
		h->written_ms = now;
	}
	bytes_add(&copy, h->page.at, h->page.len);
	return respond(h, c, h->status, h->type, copy.at, copy.len, false);
}

static void log_refusal(struct http *h, uint64_t peer, unsigned int status)
{
	const struct refusal refusal = {h->site->flag, peer, status, NULL, NULL};

	refused_peers_log(&h->refusals, &refusal, (int64_t)uv_now(h->loop));
}

static int socket_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* libmicrohttpd does not say which connection it refuses. */
static __attribute__((format(printf, 2, 0))) void on_mhd_log(void *arg, const char *format, va_list args)
{
	if (strstr(format, "HTTP response code is %u"))
		log_refusal(arg, 0, va_arg(args, unsigned int));
}

/* Answers before the request is read to its end, which makes libmicrohttpd close the connection. */
static enum MHD_Result refuse(struct http *h, struct MHD_Connection *c, struct http_refusal refusal)
{
	log_refusal(h, port_peer_key(socket_of(c)), refusal.status);
	return respond(h, c, refusal.status, NULL, memory_strdup(refusal.why), strlen(refusal.why), false);
}

/* --- which requests are answered --- */

/* Returns 0, or the status of a refusal and sets *why. */
static unsigned int judge(const struct http *h, struct MHD_Connection *c, const char *path, const char *method,
			  const char *version, const char **why)
{
	struct head head = {0};

	*why = "malformed HTTP/1.1 request: check the header names, Host and Content-Length\n";
	if (!http_read_head(c, method, version, &head))
		return MHD_HTTP_BAD_REQUEST;
	*why = "only GET and HEAD are allowed\n";
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	*why = "requests must not have a body\n";
	if (head.has_body)
		return MHD_HTTP_BAD_REQUEST;
	return http_judge_place(&h->names, &head, path, why);
}

/* --- requests with bodies --- */

static void on_timer(uv_timer_t *timer);

/* Returns the entry of a connection, or NULL. */
static struct visitor *visitor_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* Returns Content-Length, -1 if there is none, or -2 if it is invalid. */
static int64_t read_length(struct MHD_Connection *c)
{
	const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
	char *end;
	int64_t length;

	if (!text)
		return -1;
	errno = 0;
	length = strtoll(text, &end, 10);
	return !*text || text[strspn(text, "0123456789")] || errno ? -2 : length;
}

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct value_walk {
	void (*each)(void *arg, const char *name, const char *value);
	void *arg;
};

static enum MHD_Result walk_value(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	const struct value_walk *w = arg;

	(void)kind;
	w->each(w->arg, name, value);
	return MHD_YES;
}

void http_each_header(const struct http_request *request, void (*each)(void *arg, const char *name, const char *value),
		      void *arg)
{
	struct value_walk w = {each, arg};

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, walk_value, &w);
}

void http_each_argument(const struct http_request *request,
			void (*each)(void *arg, const char *name, const char *value), void *arg)
{
	struct value_walk w = {each, arg};

	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, walk_value, &w);
}

/* Sets *is_clear if the length of the body is beyond doubt, and the request is of a program. */
static struct http_refusal judge_post(const struct http *h, struct MHD_Connection *c, const char *path,
				      const char *method, const char *version, void **post, bool *is_clear)
{
	struct http_request request = {
		.method = method,
		.path = path,
		.authorization = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION),
		.origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN),
		.type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE),
		.length = read_length(c),
		.fd = socket_of(c),
		.connection = c,
	};
	struct http_refusal refusal = {0, NULL};
	struct head head = {0};

	/* RFC 9112, section 6.3: Content-Length with Transfer-Encoding is request smuggling. */
	if (!http_read_head(c, method, version, &head) || request.length == -2 || (head.lengths && head.codings))
		return (struct http_refusal){MHD_HTTP_BAD_REQUEST,
					     "malformed HTTP/1.1 request: check the header names, "
					     "Host, Content-Length and Transfer-Encoding\n"};
	*is_clear = !h->site->methods;
	if (head.coding == CODING_OTHER)
		return (struct http_refusal){MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					     "the only Content-Encoding that is supported is gzip\n"};
	request.is_gzip = head.coding == CODING_GZIP;
	if (h->site->methods)
		refusal.status = http_judge_place(&h->names, &head, path, &refusal.why);
	return refusal.status ? refusal : h->site->poster->begin(h->site->arg, &request, post);
}

void http_meet_payer(struct http_ticket *ticket)
{
	struct visitor *v = visitor_of(ticket->connection);
	const void *payer = NULL;

	if (!v || !ticket->http->site->poster->payer(ticket->post, &payer))
		return;
	v->is_welcome = true;
	v->payer = payer;
}

static enum MHD_Result begin_post(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, void **state)
{
	void *post = NULL;
	bool is_clear = false;
	struct http_refusal refusal = judge_post(h, c, path, method, version, &post, &is_clear);
	struct http_ticket *ticket;
	struct visitor *v = visitor_of(c);

	if (v && v->is_idle) {
		v->is_idle = false;
		v->since_ms = (int64_t)uv_now(h->loop);
	}
	/* Unread bytes would reset the connection, and nginx answers 502 then. So a body that is sent all the same is
	 * read to its end before it is refused, in the time that a stranger has. */
	if (refusal.status && (!is_clear || MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT)))
		return refuse(h, c, refusal);
	ticket = memory_calloc(1, sizeof(*ticket));
	*ticket = (struct http_ticket){.http = h, .connection = c, .post = refusal.status ? NULL : post};
	*state = ticket;
	if (refusal.status) {
		log_refusal(h, port_peer_key(socket_of(c)), refusal.status);
		ticket->is_last = true;
		http_answer(ticket, refusal.status, NULL, memory_strdup(refusal.why), strlen(refusal.why));
	} else {
		http_meet_payer(ticket);
	}
	return MHD_YES;
}

static void set_waiting(struct http_ticket *ticket, bool is_waiting)
{
	struct visitor *v = visitor_of(ticket->connection);

	if (!v)
		return;
	v->is_waiting = is_waiting;
	v->ticket = is_waiting ? ticket : NULL;
	v->wait = ++ticket->http->waits;
	v->since_ms = (int64_t)uv_now(ticket->http->loop);
}

static enum MHD_Result on_post(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
			       const char *version, const char *body, size_t *body_len, void **state)
{
	struct http_ticket *ticket = *state;

	if (!ticket)
		return begin_post(h, c, path, method, version, state);
	if (*body_len) {
		/* libmicrohttpd 0.9 may take the rest of a head for the body. No header begins with these bytes. */
		ticket->is_last |= !HTTP_STRICT && !ticket->has_body && (!*body || !strchr("{[\x1f", *body));
		ticket->has_body = true;
		if (ticket->post)
			h->site->poster->body(ticket->post, body, *body_len);
		*body_len = 0;
		return MHD_YES;
	}
	if (ticket->post && !ticket->is_whole) {
		ticket->is_whole = true;
		h->site->poster->end(ticket->post, ticket);
		http_meet_payer(ticket);
	}
	if (ticket->status) {
		char *text = ticket->text;

		if (ticket->status >= MHD_HTTP_BAD_REQUEST && ticket->post && !h->site->methods)
			log_refusal(h, port_peer_key(socket_of(c)), ticket->status);
		ticket->text = NULL;
		return respond(h, c, ticket->status, ticket->type, text, ticket->len, ticket->is_last);
	}
	if (!ticket->is_suspended) {
		ticket->is_suspended = true;
		set_waiting(ticket, true);
		MHD_suspend_connection(c);
	}
	return MHD_YES;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the page takes ownership of text */
void http_answer(struct http_ticket *ticket, unsigned int status, const char *type, char *text, size_t len)
{
	if (ticket->status) {
		free(text); /* it was answered with 503 to make room */
		return;
	}
	ticket->status = status;
	ticket->type = type;
	ticket->text = text;
	ticket->len = len;
	if (!ticket->is_suspended)
		return;
	set_waiting(ticket, false);
	MHD_resume_connection(ticket->connection);
	uv_timer_start(&ticket->http->timer, on_timer, 0, 0);
}

static void end_post(void *state)
{
	struct http_ticket *ticket = state;

	if (ticket->post)
		ticket->http->site->poster->gone(ticket->post);
	free(ticket->text);
	free(ticket);
}

/* --- requests --- */

/* Called by libmicrohttpd when it has the headers, and again when it has the whole request. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *body, size_t *body_len, void **state)
{
	struct http *h = arg;
	struct http_refusal refusal;

	if (h->site->poster)
		return on_post(h, c, url, method, version, body, body_len, state);
	if (*state) {
		*body_len = 0;
		return answer(h, c, url);
	}
	*state = arg;
	refusal.status = judge(h, c, url, method, version, &refusal.why);
	return refusal.status ? refuse(h, c, refusal) : MHD_YES;
}

/* Does not decode paths: none of ours has escapes. */
static size_t keep_escapes(void *arg, struct MHD_Connection *c, char *text)
{
	(void)arg, (void)c;
	return strlen(text);
}

/* --- connections and their time --- */

static void on_visitor(void *arg, struct MHD_Connection *c, void **at, enum MHD_ConnectionNotificationCode what)
{
	struct http *h = arg;
	struct visitor *v = *at;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (v)
			v->fd = -1;
		h->visitor_count--;
		return;
	}
	h->visitor_count++;
	for (v = h->visitors; v < h->visitors + h->visitors_max && v->fd >= 0; v++)
		;
	if (v == h->visitors + h->visitors_max)
		return;
	v->fd = socket_of(c);
	v->since_ms = (int64_t)uv_now(h->loop);
	v->is_idle = v->is_waiting = v->is_welcome = false;
	v->address = port_peer_key(v->fd);
	v->payer = NULL;
	v->ticket = NULL;
	*at = v;
}

static void on_answered(void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
	const struct http *h = arg;
	struct visitor *v = visitor_of(c);

	(void)why;
	if (h->site->poster && *state && *state != arg)
		end_post(*state);
	*state = NULL;
	if (v) {
		v->since_ms = (int64_t)uv_now(h->loop);
		v->is_idle = v->is_welcome;
	}
}

static void run(struct http *h);

/* A stranger has at most REQUEST_TIMEOUT_MS. */
static int64_t timeout_of(const struct http *h, const struct visitor *v)
{
	if (v->is_idle)
		return h->request_timeout_ms + IDLE_MORE_MS;
	return v->is_welcome || h->request_timeout_ms < REQUEST_TIMEOUT_MS ? h->request_timeout_ms : REQUEST_TIMEOUT_MS;
}

/* Closes slow connections: libmicrohttpd's own timeout restarts with each byte. */
static void end_the_slow(struct http *h)
{
	int64_t now = (int64_t)uv_now(h->loop);

	for (struct visitor *v = h->visitors; v < h->visitors + h->visitors_max; v++)
		if (v->fd >= 0 && !v->is_waiting && now - v->since_ms >= timeout_of(h, v))
			shutdown(v->fd, SHUT_RDWR);
}

static bool has_same_payer(const struct visitor *a, const struct visitor *b)
{
	return a->payer || b->payer ? a->payer == b->payer : a->address == b->address;
}

/* Returns the number of connections with the same owner. */
static size_t count_places(const struct http *h, const struct visitor *whose)
{
	size_t n = 0;

	for (const struct visitor *v = h->visitors; v < h->visitors + h->visitors_max; v++)
		n += v->fd >= 0 && has_same_payer(v, whose);
	return n;
}

/* True if v should be closed before other, a connection of the same owner. The oldest idle one is closed first; if all
 * wait for answers, the one that began to wait last. */
static bool is_before(const struct visitor *v, const struct visitor *other)
{
	if (v->is_waiting != other->is_waiting)
		return !v->is_waiting;
	return v->is_waiting ? v->wait > other->wait : v->since_ms < other->since_ms;
}

/* Finds the connection to close for a new one: one of the owner with the most connections, if those are more than a
 * quarter of limit or if there is no stranger, else the oldest stranger. address: consider only connections from
 * there; 0: all. */
static struct visitor *find_displaced(const struct http *h, uint64_t address, size_t limit)
{
	struct visitor *found = NULL, *stranger = NULL;
	size_t most = 0;

	for (struct visitor *v = h->visitors; v < h->visitors + h->visitors_max; v++) {
		size_t n;

		if (v->fd < 0 || (v->is_waiting && !v->ticket) || (address && v->address != address))
			continue;
		n = count_places(h, v);
		if (n > most || (found && n == most && is_before(v, found))) {
			found = v;
			most = n;
		}
		if (!v->is_welcome && (!stranger || v->since_ms < stranger->since_ms))
			stranger = v;
	}
	return most > limit / 4 || !stranger ? found : stranger;
}

static size_t count_address(const struct http *h, uint64_t address)
{
	size_t n = 0;

	for (const struct visitor *v = h->visitors; v < h->visitors + h->visitors_max; v++)
		n += v->fd >= 0 && v->address == address;
	return n;
}

/* Makes room for a new connection from this address. Returns true if another one was closed for it. */
static bool make_room(struct http *h, uint64_t address)
{
	bool is_host_full = address && count_address(h, address) >= h->of_one_host;
	struct visitor *v = NULL;

	if (is_host_full)
		v = find_displaced(h, address, h->of_one_host);
	else if (h->visitor_count >= h->visitors_max)
		v = find_displaced(h, 0, h->visitors_max);
	if (!v)
		return false;
	if (v->ticket) {
		http_answer(v->ticket, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, memory_strdup(is_crowded),
			    sizeof(is_crowded) - 1);
	} else {
		shutdown(v->fd, SHUT_RDWR);
		v->is_waiting = true; /* libmicrohttpd sees its end when it runs next */
	}
	run(h);
	return true;
}

/* --- the loop --- */

/* Runs libmicrohttpd until it is idle, and sets the timer for its next run. libmicrohttpd 0.9 is never idle while a
 * chunk's size line is longer than its memory: until that connection times out, others must have their turn. */
static void run(struct http *h)
{
	int rounds = h->is_busy ? ROUNDS_BUSY : ROUNDS_MOST;
	uint64_t end = h->site->poster ? UINT64_MAX : uv_hrtime() + TURN_NS;
	MHD_UNSIGNED_LONG_LONG wait = 0;

	end_the_slow(h);
	for (int round = 0; round < rounds && !wait && (!round || uv_hrtime() < end); round++) {
		MHD_run(h->daemon);
		if (MHD_get_timeout(h->daemon, &wait) != MHD_YES)
			wait = SWEEP_MS;
	}
	h->is_busy = !wait;
	if (!h->visitor_count)
		uv_timer_stop(&h->timer);
	else
		uv_timer_start(&h->timer, on_timer, h->is_busy ? BUSY_MS : wait < SWEEP_MS ? wait : SWEEP_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
	run(timer->data);
}

static void on_traffic(void *arg, int fd, int status, int events)
{
	(void)fd, (void)status, (void)events;
	run(arg);
}

/* Closing a connection also serves others, which may reconnect at once. So at most one is closed per turn of the loop:
 * many clients could otherwise block the loop. libmicrohttpd closes connections beyond its limit. */
static bool on_connection(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct http *h = owner;
	bool is_enough = make_room(h, port_peer_key(fd));

	MHD_add_connection(h->daemon, fd, peer, len);
	run(h); /* libmicrohttpd 1.0 counts the connection only then */
	return !is_enough;
}

/* --- listening --- */

static int start_daemon(struct http *h)
{
	unsigned int flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;

	if (h->site->poster)
		flags |= MHD_ALLOW_SUSPEND_RESUME;
	h->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, h,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)h->visitors_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned int)h->of_one_host, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)((h->request_timeout_ms + IDLE_MORE_MS) / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)MEMORY_BYTES, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_CONNECTION,
		on_visitor, h, MHD_OPTION_NOTIFY_COMPLETED, on_answered, h, MHD_OPTION_STRICT_FOR_CLIENT, HTTP_STRICT,
		MHD_OPTION_END);
	return h->daemon ? 0 : -1;
}

static void start_watching(struct http *h)
{
	int epoll = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;

	h->timer.data = h;
	uv_timer_init(h->loop, &h->timer);
	h->traffic = poll_open(h->loop, epoll, on_traffic, h);
	assert(h->traffic);
	poll_for(h->traffic, UV_READABLE);
}

struct http *http_open(uv_loop_t *loop, const struct http_site *site, char *error, size_t size)
{
	struct http *h = memory_calloc(1, sizeof(*h));

	h->loop = loop;
	h->site = site;
	h->visitors_max = site->visitors ? site->visitors : VISITORS_MAX;
	h->of_one_host = site->of_one_host ? site->of_one_host : OF_ONE_HOST;
	h->request_timeout_ms = site->request_timeout_ms ? site->request_timeout_ms : REQUEST_TIMEOUT_MS;
	h->visitors = memory_calloc(h->visitors_max, sizeof(*h->visitors));
	for (size_t i = 0; i < h->visitors_max; i++)
		h->visitors[i].fd = -1;
	if (strncmp(site->address, "unix:", 5) != 0)
		url_parse_address(&h->bound, site->address); /* validated by config.c */
	h->names = (struct http_names){h->bound.host, site->hosts, site->host_count};
	if (start_daemon(h)) {
		snprintf(error, size, "%s: libmicrohttpd cannot start: out of memory or file descriptors", site->flag);
		http_free(h);
		return NULL;
	}
	h->acceptor = acceptor_open(loop, site->flag, site->address, on_connection, h, error, size);
	if (!h->acceptor) {
		MHD_stop_daemon(h->daemon);
		http_free(h);
		return NULL;
	}
	start_watching(h);
	return h;
}

int http_port(const struct http *h)
{
	return acceptor_port(h->acceptor);
}

void http_close(struct http *h)
{
	acceptor_close(h->acceptor);
	poll_close(h->traffic);
	uv_close((uv_handle_t *)&h->timer, NULL);
	MHD_stop_daemon(h->daemon);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	url_clear(&h->bound);
	forget_page(h);
	free(h->visitors);
	free(h);
}
