/* address.h: what --redis says: which servers, how to reach them, and as whom. */
#ifndef WSONCE_REDIS_ADDRESS_H
#define WSONCE_REDIS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/url.h"

#define REDIS_HOSTS_MAX 16

struct redis_address {
	struct url urls[REDIS_HOSTS_MAX]; /* one for each host; the login is the same in all */
	size_t count;
	bool is_socket;   /* unix:// */
	bool is_tls;      /* rediss:// and rediss-sentinel:// */
	bool is_sentinel; /* the hosts are sentinels, which know where the master is: */
	char *master;     /* its name there; else "" */
	const char *db;   /* "0" if none is named */
	char *shown;      /* the URL without secrets */
};

/* Reads SCHEME://[user[:password]@]host[:port][,host[:port]...][/db], unix://[user[:password]@]/PATH, or
 * SCHEME-sentinel://.../master[/db]. Returns NULL; or what is wrong with it, to be written behind its name, of which
 * nothing is secret. In both cases redis_address_clear() frees what is held. */
const char *redis_address_read(struct redis_address *a, const char *text);

void redis_address_clear(struct redis_address *a);

/* The port of a host, where none is given the usual one. */
int redis_address_port(const struct redis_address *a, size_t host);

#endif
