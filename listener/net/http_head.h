/* http_head.h: what all HTTP servers of the program share: which heads of requests may be answered, and the headers of
 * answers. */
#ifndef WSONCE_HTTP_HEAD_H
#define WSONCE_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* libmicrohttpd 1.0 redirects a request with a blank in its path unless it is strict. 0.9 refuses it anyway, and if it
 * is strict, it answers a request without Host by a head that has the head once more behind it. */
#define HTTP_STRICT (MHD_VERSION >= 0x01000000)

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

/* Names by which a server may be asked for, beside literal addresses and localhost: a page elsewhere whose name leads
 * here (DNS rebinding) must not read ours. */
struct http_names {
	const char *bound; /* the host of its address; NULL: it is a socket's path, and any name is fine */
	char *const *more;
	size_t count;
};

/* Returns whether they are those of a request that may be answered at all. */
bool http_read_head(struct MHD_Connection *c, const char *version, struct head *head);

/* May this request be answered, as far as Host, Origin and Fetch Metadata go? A page on another site may lead to "/"
 * and to no other path. Returns 0, or the status that refuses it, with why. */
unsigned int http_judge_place(const struct http_names *names, const struct head *head, const char *path,
			      const char **why);

/* Answers, and takes text over, which is on the heap. type: NULL: it is plain text. is_browsed: with the headers that
 * tell a browser what a page may do. allowed: the methods, for a 405. */
enum MHD_Result http_respond(struct MHD_Connection *c, unsigned int status, const char *type, char *text, size_t len,
			     bool is_browsed, const char *allowed);

#endif
