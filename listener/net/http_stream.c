/* http_stream.c owns streams of server-sent events (HTML, section 9.2): one response each, which does not end. A stream
 * waits, suspended, for the next event; it holds the one that it sends and no other, so who reads slowly costs no
 * memory. What the events say is the business of others. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "net/http_inside.h"

#define STREAMS_MAX 16     /* usually: a quarter of the connections, so that health and metrics have theirs */
#define LIFE_MS     300000 /* a browser opens another one then; of a peer that went without a word this one is the end */
#define BLOCK_BYTES 4096u

struct stream_event {
	size_t owners;
	char *text; /* heap */
	size_t len;
};

struct stream {
	struct list link;
	struct http *http;
	struct MHD_Connection *connection;
	struct stream_event *event;      /* being sent; NULL: none */
	size_t sent;                     /* of its bytes */
	const struct stream_event *last; /* sent before; only compared with the latest, which lives */
	int64_t began_ms;
	int64_t moved_ms; /* when it last took bytes, or had none to take */
	bool is_suspended;
	bool is_over;
};

static void drop_event(struct stream_event *event)
{
	if (!event || --event->owners)
		return;
	free(event->text);
	free(event);
}

void http_stream_init(struct http *h)
{
	list_init(&h->streams);
}

static int64_t now_ms(const struct stream *s)
{
	return (int64_t)uv_now(s->http->loop);
}

/* Has it the next event to send? */
static bool take_event(struct stream *s)
{
	if (s->event && s->sent == s->event->len) {
		drop_event(s->event);
		s->event = NULL;
	}
	if (!s->event && s->http->latest && s->http->latest != s->last) {
		s->event = s->http->latest;
		s->event->owners++;
		s->last = s->event;
		s->sent = 0;
	}
	return s->event;
}

static ssize_t read_stream(void *arg, uint64_t at, char *room, size_t size)
{
	struct stream *s = arg;
	size_t n;

	(void)at;
	s->moved_ms = now_ms(s);
	if (s->is_over || s->moved_ms - s->began_ms >= LIFE_MS)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!take_event(s)) {
		s->is_suspended = true;
		MHD_suspend_connection(s->connection);
		return 0;
	}
	n = s->event->len - s->sent < size ? s->event->len - s->sent : size;
	memcpy(room, s->event->text + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static void free_stream(void *arg)
{
	struct stream *s = arg;

	list_remove(&s->link);
	s->http->stream_count--;
	drop_event(s->event);
	free(s);
}

static enum MHD_Result refuse(const struct http *h, struct MHD_Connection *c)
{
	static char text[] = "too many streams are open: ask for the status again and again\n";
	struct MHD_Response *response = memory_given(
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT), "libmicrohttpd");
	enum MHD_Result result;

	http_add_headers(h, response, "text/plain; charset=utf-8");
	MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "10");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	result = MHD_queue_response(c, MHD_HTTP_SERVICE_UNAVAILABLE, response);
	MHD_destroy_response(response);
	return result;
}

enum MHD_Result http_stream_answer(struct http *h, struct MHD_Connection *c)
{
	struct visitor *v = http_visitor(c);
	struct MHD_Response *response;
	enum MHD_Result result;
	struct stream *s;

	if (!v || h->stream_count >= (h->site->streams ? h->site->streams : STREAMS_MAX))
		return refuse(h, c);
	if (!h->stream_count)
		http_stream_free(h); /* of when somebody was here the last time */
	s = memory_calloc(1, sizeof(*s));
	*s = (struct stream){.http = h, .connection = c};
	s->began_ms = s->moved_ms = now_ms(s);
	v->is_waiting = true;
	list_append(&h->streams, &s->link);
	h->stream_count++;
	response = memory_given(
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, s, free_stream),
		"libmicrohttpd");
	http_add_headers(h, response, "text/event-stream");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	result = MHD_queue_response(c, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return result;
}

static void resume(struct stream *s)
{
	if (!s->is_suspended)
		return;
	s->is_suspended = false;
	s->moved_ms = now_ms(s);
	MHD_resume_connection(s->connection);
}

/* It has not read what it was sent for longer than a request may take. */
static void end_if_stuck(const struct stream *s)
{
	if (!s->is_suspended && now_ms(s) - s->moved_ms >= s->http->patience_ms)
		shutdown(MHD_get_connection_info(s->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
			 SHUT_RDWR);
}

void http_broadcast(struct http *h, const char *event, size_t len)
{
	struct stream_event *next = memory_alloc(sizeof(*next));

	*next = (struct stream_event){1, memory_strndup(event, len), len};
	list_each(node, after, &h->streams) {
		struct stream *s = list_entry(node, struct stream, link);

		if (s->last == h->latest)
			s->last = NULL;
		end_if_stuck(s);
		resume(s);
	}
	drop_event(h->latest);
	h->latest = next;
	if (h->stream_count)
		http_wake(h);
}

size_t http_streams(const struct http *h)
{
	return h->stream_count;
}

void http_stream_end(struct http *h)
{
	list_each(node, after, &h->streams) {
		struct stream *s = list_entry(node, struct stream, link);

		s->is_over = true;
		resume(s);
	}
}

void http_stream_free(struct http *h)
{
	drop_event(h->latest);
	h->latest = NULL;
}
