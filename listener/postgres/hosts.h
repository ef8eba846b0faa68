/* hosts.h: the hosts of a conninfo, of which each connection tries one. */
#ifndef WSONCE_HOSTS_H
#define WSONCE_HOSTS_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

/* The lists are libpq's, with commas; NULL if there is none. */
struct hosts {
	char *host;
	char *hostaddr;
	char *port;
	size_t count;       /* 0: not known yet */
	size_t at;          /* the one whose turn it is */
	int64_t timeout_ms; /* connect_timeout; 0 if there is none */
};

/* Reads them from a connection that libpq has begun, because some may come from the environment or a service file. */
void hosts_learn(struct hosts *h, PGconn *conn);
void hosts_free(struct hosts *h);

/* The element of a list whose turn it is, on the heap; NULL if the list is. */
char *hosts_pick(const struct hosts *h, const char *list);

#endif
