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
	char *text; /* heap */
	size_t len;
};

/* Before the body has been read, so that libmicrohttpd ends the connection. */
static enum MHD_Result refuse(struct MHD_Connection *c, struct http_refusal refusal)
{
	return http_respond(c, refusal.status, NULL, memory_strdup(refusal.why), strlen(refusal.why), false, "POST");
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

	/* RFC 9112, section 6.3: a request with both is one that smuggles. */
	if (!http_read_head(c, version, &head) || request.length == -2 || (head.lengths && head.codings))
		return (struct http_refusal){MHD_HTTP_BAD_REQUEST,
					     "malformed HTTP/1.1 request: check the header names, "
					     "Host, Content-Length and Transfer-Encoding\n"};
	if (head.is_encoded)
		return (struct http_refusal){MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					     "a compressed body is not read: send it without Content-Encoding\n"};
	return h->site->poster->begin(h->site->arg, &request, post);
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
		return refuse(c, refusal);
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
	if (ticket->status) {
		char *text = ticket->text;

		ticket->text = NULL;
		return http_respond(c, ticket->status, ticket->type, text, ticket->len, false, "");
	}
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
	ticket->type = type;
	ticket->text = text;
	ticket->len = len;
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
	free(ticket->text);
	free(ticket);
}
