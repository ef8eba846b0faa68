/* http_head.h: shared by all HTTP servers of the program: the checks of a request's head, and the headers of answers.
 */
#ifndef WSONCE_HTTP_HEAD_H
#define WSONCE_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Unless it is strict, libmicrohttpd 1.0 redirects a request with a blank in its path. 0.9 refuses such a request
 * anyway, but if it is strict, it answers a request without Host with its head twice. */
#define HTTP_STRICT (MHD_VERSION >= 0x01000000)

/* True if a header's name may have this byte (RFC 9110, section 5.6.2). */
bool http_is_token(char byte);

/* The Content-Encoding of a body. */
enum head_coding { CODING_NONE, CODING_GZIP, CODING_OTHER };

/* The headers of a request. */
struct head {
	const char *host; /* NULL: none */
	const char *origin;
	bool is_foreign; /* Fetch Metadata: a page of another origin asks, even if there is no
			    Origin */
	bool navigates;  /* Fetch Metadata: a link was followed */
	size_t hosts;
	size_t lengths;
	size_t codings; /* number of transfer codings */
	bool has_body;
	enum head_coding coding;
	bool is_odd;
	const char *end; /* of the last header's value */
};

/* Names allowed in Host besides literal addresses and localhost. A foreign name that resolves to this host (DNS
 * rebinding) must not read our pages. */
struct http_names {
	const char *bound; /* host of the server's address; NULL: a Unix socket, any name is allowed */
	char *const *more;
	size_t count;
};

/* Reads the headers. method and version are those that libmicrohttpd gives. Returns false if the request is malformed.
 */
bool http_read_head(struct MHD_Connection *c, const char *method, const char *version, struct head *head);

/* Checks Host, Origin and Fetch Metadata. A page of another site may link to "/" and to no other path. Returns 0, or
 * the status of the refusal, and sets why. */
unsigned int http_judge_place(const struct http_names *names, const struct head *head, const char *path,
			      const char **why);

/* Answers and frees text. type NULL means plain text. is_browsed adds the headers that restrict what a page may do in a
 * browser; a server without pages takes gzip. allowed: the methods for a 405. is_last closes the
 * connection. */
enum MHD_Result http_respond(struct MHD_Connection *c, unsigned int status, const char *type, char *text, size_t len,
			     bool is_browsed, const char *allowed, bool is_last);

#endif
