/* http.h: a small HTTP server for operators' pages, on the loop: GET and HEAD, and nothing else. */
#ifndef WSONCE_HTTP_H
#define WSONCE_HTTP_H

#include <stddef.h>
#include <stdio.h>
#include <uv.h>

struct http;

/* What is served, and to whom. Must outlive the server, but for its address. */
struct http_site {
	const char *address; /* ADDR:PORT, or unix:PATH */
	/* Names beyond localhost and that of address by which the server may be asked for: a page elsewhere whose name
	 * leads here (DNS rebinding) is not to read ours. Literal addresses are fine always, a socket's peers, too. */
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

/* Ends all connections. The loop must be run until it has nothing more to do. */
void http_close(struct http *h);

/* After the loop has ended. NULL is allowed. */
void http_free(struct http *h);

#endif
