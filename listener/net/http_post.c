/* http_post.c owns requests with bodies: they are read to their end, and wait suspended until somebody answers. What
 * is in them is intake/post.c's business. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/http_inside.h"

struct http_ticket {
	struct http *http;
	struct MHD_Connection *connection;
	void *post;
	bool is_whole;       /* the body is there, and the poster knows */
	bool is_suspended;   /* and libmicrohttpd waits for http_answer */
	unsigned int status; /* 0: not answered yet */
	const char *type;
	struct page page;
};

static const char plain[] = "text/plain; charset=utf-8";

/* The headers that go with a status: RFC 9110, sections 10.2.3, 11.6.1, 15.5.6 and 15.5.16. */
static void add_header(const struct http *h, struct MHD_Response *response, unsigned int status)
{
	if (status == MHD_HTTP_UNAUTHORIZED) { /* one guess for each connection */
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	}
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
					h->site->is_browsed ? "GET, HEAD, POST" : "POST");
	if (status == MHD_HTTP_BAD_REQUEST) /* the end of its body is unknown */
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_UNSUPPORTED_MEDIA_TYPE)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_ENCODING, "identity");
	if (status == MHD_HTTP_TOO_MANY_REQUESTS)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE || status == MHD_HTTP_TOO_MANY_REQUESTS)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
}

static enum MHD_Result send_answer(const struct http *h, struct MHD_Connection *c, unsigned int status,
				   const char *type, struct page *page)
{
	struct MHD_Response *response = memory_given(
		MHD_create_response_from_buffer(page->len, page->text, MHD_RESPMEM_MUST_FREE), "libmicrohttpd");
	enum MHD_Result result;

	page->text = NULL;
	http_add_headers(h, response, type);
	add_header(h, response, status);
	result = MHD_queue_response(c, status, response);
	MHD_destroy_response(response);
	return result;
}

/* Before the body has been read, so that libmicrohttpd ends the connection. */
static enum MHD_Result refuse(const struct http *h, struct MHD_Connection *c, struct http_refusal refusal)
{
	struct page page = {memory_strdup(refusal.why), strlen(refusal.why)};

	return send_answer(h, c, refusal.status, plain, &page);
}

/* -1: it does not say; -2: it says what is no length. */
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

static enum MHD_Result read_argument(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct http_request *request = arg;

	(void)kind;
	if (request->argument_count < HTTP_ARGUMENTS_MAX)
		request->arguments[request->argument_count] = (struct http_argument){name, value};
	request->argument_count++;
	return MHD_YES;
}

static struct http_refusal judge(const struct http *h, struct MHD_Connection *c, const char *path, const char *method,
				 const char *version, void **post)
{
	struct http_request request = {
		.method = method,
		.path = path,
		.authorization = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION),
		.origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN),
		.type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE),
		.length = read_length(c),
		.fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
	};
	struct head head = {0};
	struct http_refusal refusal = {0, NULL};

	/* RFC 9112, section 6.3: a request with both is one that smuggles. */
	if (!http_read_head(c, version, &head) || request.length == -2 || (head.lengths && head.codings))
		return (struct http_refusal){MHD_HTTP_BAD_REQUEST,
					     "malformed HTTP/1.1 request: check the header names, "
					     "Host, Content-Length and Transfer-Encoding\n"};
	if (head.is_encoded)
		return (struct http_refusal){MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					     "a compressed body is not read: send it without Content-Encoding\n"};
	if (h->site->is_browsed)
		refusal.status = http_judge_place(h, &head, path, &refusal.why);
	MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, read_argument, &request);
	return refusal.status ? refusal : h->site->poster->begin(h->site->arg, &request, post);
}

static void set_welcome(struct visitor *v, const void *payer)
{
	v->is_welcome = true;
	v->payer = payer;
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
			     const char *version, void **state)
{
	void *post = NULL;
	struct http_refusal refusal = judge(h, c, path, method, version, &post);
	struct visitor *v = http_visitor(c);
	struct http_ticket *ticket;

	if (refusal.status)
		return refuse(h, c, refusal);
	if (v)
		set_welcome(v, h->site->poster->payer ? h->site->poster->payer(post) : NULL);
	ticket = memory_calloc(1, sizeof(*ticket));
	*ticket = (struct http_ticket){.http = h, .connection = c, .post = post};
	*state = ticket;
	return MHD_YES;
}

static void set_waiting(const struct http_ticket *ticket, bool is_waiting)
{
	struct visitor *v = http_visitor(ticket->connection);

	if (!v)
		return;
	v->is_waiting = is_waiting;
	v->since_ms = (int64_t)uv_now(ticket->http->loop);
}

enum MHD_Result http_post_request(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len, void **state)
{
	struct http_ticket *ticket = *state;

	if (!ticket)
		return begin(h, c, path, method, version, state);
	if (*body_len) {
		h->site->poster->body(ticket->post, body, *body_len);
		*body_len = 0;
		return MHD_YES;
	}
	if (!ticket->is_whole) {
		ticket->is_whole = true;
		h->site->poster->end(ticket->post, ticket);
	}
	if (ticket->status)
		return send_answer(h, c, ticket->status, ticket->type, &ticket->page);
	if (!ticket->is_suspended) {
		ticket->is_suspended = true;
		set_waiting(ticket, true);
		MHD_suspend_connection(c);
	}
	return MHD_YES;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the page takes text over */
void http_answer(struct http_ticket *ticket, unsigned int status, const char *type, char *text, size_t len)
{
	ticket->status = status;
	ticket->type = type ? type : plain;
	ticket->page = (struct page){text, len};
	if (!ticket->is_suspended)
		return;
	set_waiting(ticket, false);
	MHD_resume_connection(ticket->connection);
	http_wake(ticket->http);
}

void http_post_end(void *state)
{
	struct http_ticket *ticket = state;

	ticket->http->site->poster->gone(ticket->post);
	free(ticket->page.text);
	free(ticket);
}
