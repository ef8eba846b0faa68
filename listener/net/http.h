/* http.h: a small HTTP server on the loop: a listener's own pages by GET and HEAD, or requests with bodies whose
 * answers may take a while. */
#ifndef WSONCE_HTTP_H
#define WSONCE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

struct http;

/* A request with a body, as far as its head goes. The texts live for the call; NULL: there is none. */
struct http_request {
	const char *method;
	const char *path;
	const char *authorization;
	const char *origin;
	const char *type;
	int64_t length; /* -1: it does not say */
	int fd;         /* of its connection */
};

/* A status that refuses, and why, one line; 0: it does not. */
struct http_refusal {
	unsigned int status;
	const char *why;
};

/* A request that waits for its answer. */
struct http_ticket;

/* Who takes requests with bodies. Called from the loop. */
struct http_poster {
	/* A head has come. Sets *post if it does not refuse. */
	struct http_refusal (*begin)(void *arg, const struct http_request *request, void **post);
	void (*body)(void *post, const char *bytes, size_t len);
	/* The body is whole: to be answered by http_answer, once, now or later. */
	void (*end)(void *post, struct http_ticket *ticket);
	/* It is over, one way or another; the ticket is no more. Always the last call for post. */
	void (*gone)(void *post);
	/* Whom the place of its connection counts for, to be compared alone. NULL, or returns NULL: its address. */
	const void *(*payer)(const void *post);
};

/* What is served, and to whom. Must outlive the server, but for its address. */
struct http_site {
	const char *flag;    /* of the setting that has the address, for errors */
	const char *address; /* ADDR:PORT, or unix:PATH */
	/* 0: as for operators' pages. */
	size_t visitors;            /* connections at once, */
	unsigned int of_one_host;   /* of them from one address, */
	int64_t request_timeout_ms; /* and how long a request may take, without the time that it waits for its answer */
	const struct http_poster *poster; /* NULL: pages are written */
	/* Without a poster: names by which the server may be asked for, see http_head.h. */
	char *const *hosts;
	size_t host_count;
	/* Writes the page at path, which is as the client wrote it and without its query, and sets its type. Returns
	 * the HTTP status. The text may end where memory does: nothing of it is sent then. */
	unsigned int (*write)(void *arg, const char *path, FILE *out, const char **type);
	void *arg;
};

/* Listens. Returns NULL and a sentence in error if it cannot. */
struct http *http_open(uv_loop_t *loop, const struct http_site *site, char *error, size_t size);

/* 0 for a socket of a path. */
int http_port(const struct http *h);

/* Answers. Takes text, on the heap, over. type: NULL: it is one line of plain text. */
void http_answer(struct http_ticket *ticket, unsigned int status, const char *type, char *text, size_t len);

/* Ends all connections. The loop must be run until it has nothing more to do. */
void http_close(struct http *h);

/* After the loop has ended. NULL is allowed. */
void http_free(struct http *h);

#endif
