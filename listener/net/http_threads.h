/* http_threads.h: a small HTTP server for browsers with one thread of libmicrohttpd per connection, so that an answer
 * can wait for a database without delaying others. */
#ifndef WSONCE_HTTP_THREADS_H
#define WSONCE_HTTP_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/http_head.h"

#define HTTP_ARGUMENTS_MAX 12

/* A query parameter, decoded. */
struct http_argument {
	const char *name;
	const char *value;
};

/* A complete request with an allowed Host and Origin. Missing texts are NULL. */
struct http_question {
	const char *method;
	const char *path;
	const char *authorization;
	const char *type;
	uint64_t address; /* from port_peer_key() */
	struct http_argument arguments[HTTP_ARGUMENTS_MAX];
	size_t argument_count; /* may exceed HTTP_ARGUMENTS_MAX; the rest are dropped */
	struct bytes body;
};

struct http_reply {
	unsigned int status;
	const char *type; /* NULL: plain text */
	char *text;       /* heap; the server frees it */
	size_t len;
};

/* What the server serves, and to whom. Must outlive it. */
struct http_hall {
	const char *flag;    /* the setting with the address, for errors */
	const char *address; /* ADDR:PORT, or unix:PATH */
	char *const *hosts;  /* see http_head.h */
	size_t host_count;
	unsigned int visitors; /* connections; of the address with the most, the idlest makes room for more */
	size_t body_max;
	/* Called on several threads at once. */
	struct http_reply (*answer)(void *arg, const struct http_question *question);
	void *arg;
};

struct http_threads;

/* Listens until the process ends. On failure returns NULL with a sentence in error. */
struct http_threads *http_threads_open(const struct http_hall *hall, char *error, size_t size);

/* Returns the port, 0 for a Unix socket. */
int http_threads_port(const struct http_threads *h);

/* Call once a second. Closes connections whose request takes too long to arrive; libmicrohttpd's own timeout restarts
 * with each byte. */
void http_threads_sweep(struct http_threads *h);

#endif
