/* http_inside.h: what http.c and http_post.c share of a server. For these alone. */
#ifndef WSONCE_HTTP_INSIDE_H
#define WSONCE_HTTP_INSIDE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/url.h"
#include "net/http.h"
#include "net/http_head.h"

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
	struct http_names names;
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
};

/* The place of a connection; NULL: it has none. */
struct visitor *http_visitor(struct MHD_Connection *c);

/* libmicrohttpd has something to do, soon. */
void http_wake(struct http *h);

/* http_post.c: what the server calls for a site that takes bodies. */
enum MHD_Result http_post_request(struct http *h, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len, void **state);
void http_post_end(void *state);

#endif
