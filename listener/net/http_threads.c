/* http_threads.c owns a server with one thread per connection. commands/dashboard.c answers. */
#include "net/http_threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/port.h"
#include "base/url.h"
#include "net/bound_socket.h"

#define REQUEST_TIMEOUT_MS 10000
#define MEMORY_BYTES       (32u << 10) /* per connection, which limits the size of a request's head */
#define ALLOWED            "GET, HEAD, POST"

struct visitor {
	int fd; /* -1: free */
	int64_t since_ms;
	bool is_answered; /* its request is complete */
	bool is_ended;    /* its socket is shut down */
	uint64_t address;
};

struct http_threads {
	const struct http_hall *hall;
	struct url bound;
	struct http_names names;
	int listener;
	pthread_mutex_t lock; /* guards visitors */
	unsigned int places;  /* twice those of hall: who is shut down needs a moment to leave */
	struct visitor visitors[];
};

/* --- connections and their time --- */

static void set_answered(struct http_threads *h, struct visitor *v, bool is_answered)
{
	if (!v)
		return;
	pthread_mutex_lock(&h->lock);
	v->is_answered = is_answered;
	v->since_ms = clock_ms(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&h->lock);
}

static struct visitor *find_place(struct http_threads *h)
{
	for (struct visitor *v = h->visitors; v < h->visitors + h->places; v++)
		if (v->fd < 0)
			return v;
	return NULL;
}

static void end(struct visitor *v)
{
	v->is_ended = true;
	shutdown(v->fd, SHUT_RDWR);
}

/* The number of visitors from one address; 0: from all. */
static unsigned int count(const struct http_threads *h, uint64_t address)
{
	unsigned int n = 0;

	for (const struct visitor *v = h->visitors; v < h->visitors + h->places; v++)
		n += v->fd >= 0 && !v->is_ended && (!address || v->address == address);
	return n;
}

/* Of the address with the most connections, ends the one that has been idle for longest. */
static void make_room(struct http_threads *h)
{
	struct visitor *found = NULL;
	unsigned int most = 0;

	for (struct visitor *v = h->visitors; v < h->visitors + h->places; v++) {
		unsigned int n = v->fd < 0 || v->is_ended || v->is_answered ? 0 : count(h, v->address);

		if (n > most || (n && n == most && v->since_ms < found->since_ms)) {
			found = v;
			most = n;
		}
	}
	if (found)
		end(found);
}

static void enter(struct http_threads *h, struct visitor *v, struct MHD_Connection *c)
{
	int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;

	if (count(h, 0) >= h->hall->visitors)
		make_room(h);
	*v = (struct visitor){.fd = fd, .since_ms = clock_ms(CLOCK_MONOTONIC), .address = port_peer_key(fd)};
}

static void on_visitor(void *arg, struct MHD_Connection *c, void **at, enum MHD_ConnectionNotificationCode what)
{
	struct http_threads *h = arg;
	struct visitor *v;

	pthread_mutex_lock(&h->lock);
	v = what == MHD_CONNECTION_NOTIFY_STARTED ? find_place(h) : *at;
	if (v && what == MHD_CONNECTION_NOTIFY_STARTED) {
		enter(h, v, c);
		*at = v;
	} else if (v) {
		v->fd = -1;
	}
	pthread_mutex_unlock(&h->lock);
}

void http_threads_sweep(struct http_threads *h)
{
	int64_t now = clock_ms(CLOCK_MONOTONIC);

	pthread_mutex_lock(&h->lock);
	for (struct visitor *v = h->visitors; v < h->visitors + h->places; v++)
		if (v->fd >= 0 && !v->is_answered && now - v->since_ms >= REQUEST_TIMEOUT_MS)
			end(v);
	pthread_mutex_unlock(&h->lock);
}

/* --- requests --- */

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned int status, const char *why)
{
	return http_respond(c, status, NULL, memory_strdup(why), strlen(why), true, ALLOWED);
}

/* Returns 0, or the status of the refusal, and sets why. RFC 9112, section 6.3: a length together with a transfer
 * coding is request smuggling. */
static unsigned int judge(const struct http_threads *h, struct MHD_Connection *c, const char *path, const char *version,
			  const char **why)
{
	struct head head = {0};

	*why = "malformed HTTP/1.1 request: check the header names, Host, Content-Length and Transfer-Encoding\n";
	if (!http_read_head(c, version, &head) || (head.lengths && head.codings))
		return MHD_HTTP_BAD_REQUEST;
	*why = "compressed bodies are not supported: send it without Content-Encoding\n";
	if (head.coding != CODING_NONE)
		return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
	return http_judge_place(&h->names, &head, path, why);
}

static enum MHD_Result read_argument(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct http_question *q = arg;

	(void)kind;
	if (q->argument_count < HTTP_ARGUMENTS_MAX)
		q->arguments[q->argument_count] = (struct http_argument){name, value ? value : ""};
	q->argument_count++;
	return MHD_YES;
}

static enum MHD_Result answer(struct http_threads *h, struct MHD_Connection *c, struct http_question *q)
{
	const union MHD_ConnectionInfo *place = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_reply reply;

	if (q->body.len > h->hall->body_max)
		return refuse(c, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n");
	q->authorization = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	q->type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
	q->address = port_peer_key(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
	MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, read_argument, q);
	set_answered(h, place ? place->socket_context : NULL, true);
	reply = h->hall->answer(h->hall->arg, q);
	set_answered(h, place ? place->socket_context : NULL, false);
	return http_respond(c, reply.status, reply.type, reply.text, reply.len, true, ALLOWED);
}

/* Called by libmicrohttpd with the headers, with each part of the body, and at the end of the request. A body that is
 * too large is read to its end and dropped, so that the client gets the answer. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len, void **state)
{
	struct http_threads *h = arg;
	struct http_question *q = *state;
	const char *why;
	unsigned int status;

	if (!q) {
		status = judge(h, c, path, version, &why);
		if (status)
			return refuse(c, status, why);
		*state = q = memory_calloc(1, sizeof(*q));
		q->method = method;
		q->path = path;
		return MHD_YES;
	}
	if (!*body_len)
		return answer(h, c, q);
	if (q->body.len <= h->hall->body_max)
		bytes_add(&q->body, body, *body_len);
	*body_len = 0;
	return MHD_YES;
}

static void on_answered(void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
	struct http_question *q = *state;

	(void)arg, (void)c, (void)why;
	if (q)
		bytes_free(&q->body);
	free(q);
	*state = NULL;
}

/* --- listening --- */

static struct MHD_Daemon *start(struct http_threads *h)
{
	return MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL,
				NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, h->listener, MHD_OPTION_CONNECTION_LIMIT,
				h->places, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)(REQUEST_TIMEOUT_MS / 1000),
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
				on_visitor, h, MHD_OPTION_NOTIFY_COMPLETED, on_answered, h,
				MHD_OPTION_STRICT_FOR_CLIENT, HTTP_STRICT, MHD_OPTION_END);
}

struct http_threads *http_threads_open(const struct http_hall *hall, char *error, size_t size)
{
	unsigned int places = 2 * hall->visitors;
	struct http_threads *h = memory_calloc(1, sizeof(*h) + places * sizeof(h->visitors[0]));

	h->hall = hall;
	h->places = places;
	pthread_mutex_init(&h->lock, NULL);
	for (size_t i = 0; i < places; i++)
		h->visitors[i].fd = -1;
	if (strncmp(hall->address, "unix:", 5) != 0)
		url_parse_address(&h->bound, hall->address); /* validated by the caller */
	h->names = (struct http_names){h->bound.host, hall->hosts, hall->host_count};
	h->listener = listening_socket(hall->flag, hall->address, error, size);
	if (h->listener >= 0 && start(h))
		return h;
	if (h->listener >= 0) {
		snprintf(error, size, "%s: libmicrohttpd cannot start on %s", hall->flag, hall->address);
		close(h->listener);
	}
	url_clear(&h->bound);
	free(h);
	return NULL;
}

int http_threads_port(const struct http_threads *h)
{
	return port_of_socket(h->listener);
}
