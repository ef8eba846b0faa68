/* http_threads.h: a small HTTP server for browsers that answers each connection on a thread of libmicrohttpd, so that
 * an answer may wait for a database without holding up the others. */
#ifndef WSONCE_HTTP_THREADS_H
#define WSONCE_HTTP_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/http_head.h"

#define HTTP_ARGUMENTS_MAX 12

/* Of a query, as the client wrote it. */
struct http_argument {
	const char *name;
	const char *value; /* NULL: there is no = */
};

/* A whole request whose Host and Origin are fine. NULL: there is none. */
struct http_question {
	const char *method;
	const char *path;
	const char *authorization;
	const char *type;
	uint64_t address; /* as port_peer_key() has it */
	struct http_argument arguments[HTTP_ARGUMENTS_MAX];
	size_t argument_count; /* more than HTTP_ARGUMENTS_MAX: the others are not here */
	struct bytes body;
};

struct http_reply {
	unsigned int status;
	const char *type; /* NULL: plain text */
	char *text;       /* heap; the server frees it */
	size_t len;
};

/* What is served, and to whom. Must outlive the server. */
struct http_hall {
	const char *flag;    /* of the setting that has the address, for errors */
	const char *address; /* ADDR:PORT, or unix:PATH */
	char *const *hosts;  /* see http_head.h */
	size_t host_count;
	unsigned int visitors; /* connections at once; half of them from one address */
	size_t body_max;
	/* Called on several threads at once. */
	struct http_reply (*answer)(void *arg, const struct http_question *question);
	void *arg;
};

struct http_threads;

/* Listens until the process ends. Returns NULL and a sentence in error if it cannot. */
struct http_threads *http_threads_open(const struct http_hall *hall, char *error, size_t size);

/* 0 for a socket of a path. */
int http_threads_port(const struct http_threads *h);

/* To be called once a second: ends the connections whose request takes too long to arrive. libmicrohttpd's own limit
 * starts anew with each byte. */
void http_threads_sweep(struct http_threads *h);

#endif
