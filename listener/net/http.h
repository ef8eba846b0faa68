/* http.h: a small HTTP server on the loop. It serves pages by GET and HEAD, or requests that may have bodies and are
 * answered later. */
#ifndef WSONCE_HTTP_H
#define WSONCE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

struct http;

/* The head of a request with a body. The texts are valid during the call, and NULL if missing. */
struct http_request {
	const char *method;
	const char *path;
	const char *authorization;
	const char *origin;
	const char *type;
	int64_t length; /* Content-Length; -1: none */
	bool is_gzip;   /* Content-Encoding; any other except identity is refused before */
	int fd;         /* its connection's socket */
	struct MHD_Connection *connection;
};

/* Returns the value of a header of the request, or NULL. It lives as long as the texts above. */
const char *http_header(const struct http_request *request, const char *name);

/* Calls each for every header of the request. value may be NULL. */
void http_each_header(const struct http_request *request, void (*each)(void *arg, const char *name, const char *value),
		      void *arg);

/* The same for the arguments in its query. Their values are not decoded, except for +. */
void http_each_argument(const struct http_request *request,
			void (*each)(void *arg, const char *name, const char *value), void *arg);

/* The status of a refusal and one line of text; status 0: not refused. */
struct http_refusal {
	unsigned int status;
	const char *why;
};

/* A request that waits for http_answer. */
struct http_ticket;

/* The handler of requests with bodies. Called from the loop. */
struct http_poster {
	/* A head has come. Refuse it, or set *post. */
	struct http_refusal (*begin)(void *arg, const struct http_request *request, void **post);
	void (*body)(void *post, const char *bytes, size_t len);
	/* The body is complete. Call http_answer once, now or later. */
	void (*end)(void *post, struct http_ticket *ticket);
	/* The request is over and the ticket is invalid. Always the last call for post. */
	void (*gone)(void *post);
	/* Returns false if the sender is unknown; the connection then has less time, and makes room for others.
	 * Else sets *payer to an identity that the connection counts against, which is only compared; NULL: it counts
	 * against its address. Called after begin, after end, and by http_meet_payer(). */
	bool (*payer)(const void *post, const void **payer);
};

/* What the server serves, and to whom. All but address must outlive it. */
struct http_site {
	const char *flag;    /* the setting with the address, for errors */
	const char *address; /* ADDR:PORT, or unix:PATH */
	/* 0: the limits for operators' pages. */
	size_t visitors;                  /* maximum of connections */
	unsigned int of_one_host;         /* limit of connections from one address */
	int64_t request_timeout_ms;       /* for reading a request, not for answering it */
	const struct http_poster *poster; /* NULL: serve pages with write */
	const char *methods; /* those of a poster that answers browsers; NULL: it takes POST from programs */
	/* For browsers: allowed names in Host, see http_head.h. */
	char *const *hosts;
	size_t host_count;
	/* Writes the page at path and sets its type. path is not decoded and has no query. Returns the HTTP status.
	 * If memory runs out, nothing is sent. */
	unsigned int (*write)(void *arg, const char *path, FILE *out, const char **type);
	void *arg;
};

/* Listens. On failure returns NULL with a sentence in error. */
struct http *http_open(uv_loop_t *loop, const struct http_site *site, char *error, size_t size);

/* Returns the port, 0 for a Unix socket. */
int http_port(const struct http *h);

/* Asks for the payer of a request that waits for its answer. */
void http_meet_payer(struct http_ticket *ticket);

/* Answers and frees text. type NULL means plain text of one line. */
void http_answer(struct http_ticket *ticket, unsigned int status, const char *type, char *text, size_t len);

/* Closes all connections. Run the loop until nothing is left to do. */
void http_close(struct http *h);

/* Call after the loop has ended. NULL is allowed. */
void http_free(struct http *h);

#endif
