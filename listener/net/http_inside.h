/* http_inside.h: what http.c, http_post.c and http_stream.c share of a server. For these alone. */
#ifndef WSONCE_HTTP_INSIDE_H
#define WSONCE_HTTP_INSIDE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/url.h"
#include "net/http.h"

struct visitor {
	int fd; /* -1: the place is free */
	int64_t since_ms;
	bool is_waiting; /* for an answer, which is not its fault */
	bool is_welcome; /* a request of it was not refused */
	uint64_t address;
	const void *payer; /* who its place counts for; NULL: its address */
};

struct http {
	uv_loop_t *loop;
	const struct http_site *site;
	struct url bound; /* the address, but for a path */
	bool is_path;
	int listener;
	struct MHD_Daemon *daemon;
	uv_poll_t door;    /* of listener */
	uv_poll_t traffic; /* of libmicrohttpd's epoll descriptor */
	uv_timer_t timer;  /* for what it does without a descriptor, and for those who are slow */
	uv_timer_t retry;
	struct visitor *visitors;
	size_t visitors_max;
	size_t of_one_host; /* most of them */
	int64_t patience_ms;
	size_t visitor_count;
	int64_t told_ms; /* loop clock, when it was last said that none can be accepted; 0: never */
	struct list streams;
	size_t stream_count;
	struct stream_event *latest; /* NULL: there was none */
};

/* A page being written. */
struct page {
	char *text; /* on the heap */
	size_t len;
};

/* Sends it, and takes its text over. */
enum MHD_Result http_send(const struct http *h, struct MHD_Connection *c, unsigned int status, const char *type,
			  struct page *page);

/* What the headers of a request say. */
struct head {
	const char *host; /* NULL: none */
	const char *origin;
	bool is_foreign; /* a page of another origin asks, says the browser (Fetch Metadata), also where it sends no
			    Origin, */
	bool navigates;  /* by a link */
	size_t hosts;
	size_t lengths;
	size_t codings; /* of the transfer */
	bool has_body;
	bool is_encoded; /* the body, other than by chunks */
	bool is_odd;
};

/* Returns whether they are those of a request that may be answered at all. */
bool http_read_head(struct MHD_Connection *c, const char *version, struct head *head);

/* May this request be answered, as far as Host, Origin and Fetch Metadata go? A page on another site may lead to "/"
 * and to no other path. Returns 0, or the status that refuses it, with why. */
unsigned int http_judge_place(const struct http *h, const struct head *head, const char *path, const char **why);

/* The headers of every answer; with is_browsed, those that tell a browser what a page may do. */
void http_add_headers(const struct http *h, struct MHD_Response *response, const char *type);

/* The place of a connection; NULL: it has none. */
struct visitor *http_visitor(struct MHD_Connection *c);

/* libmicrohttpd has something to do, soon. */
void http_wake(struct http *h);

/* http_post.c: what the server calls for a site that takes bodies. */
enum MHD_Result http_post_request(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len, void **state);
void http_post_end(void *state);

/* http_stream.c: the streams. */
void http_stream_init(struct http *h);
/* Answers with a stream, or with 503 if there are too many. */
enum MHD_Result http_stream_answer(struct http *h, struct MHD_Connection *c);
/* Lets all of them end, before libmicrohttpd is stopped. */
void http_stream_end(struct http *h);
void http_stream_free(struct http *h);

#endif
