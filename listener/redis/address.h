/* address.h: parses --redis: the servers, how to reach them, and the login. */
#ifndef WSONCE_REDIS_ADDRESS_H
#define WSONCE_REDIS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/url.h"

#define REDIS_HOSTS_MAX 16

struct redis_address {
	struct url urls[REDIS_HOSTS_MAX]; /* one per host, all with the same login */
	size_t count;
	bool is_socket;   /* unix:// */
	bool is_tls;      /* rediss:// and rediss-sentinel:// */
	bool is_sentinel; /* the hosts are sentinels, which know the master */
	char *master;     /* the master's name in the sentinels, else "" */
	const char *db;   /* the database number, "0" if none is given */
	char *redacted;   /* the URL without secrets */
};

/* Parses SCHEME://[user[:password]@]host[:port][,host[:port]...][/db], unix://[user[:password]@]/PATH, or
 * SCHEME-sentinel://.../master[/db]. Returns NULL, or what is wrong with the URL: words that follow its name in an
 * error and contain no secret. Call redis_address_clear() in both cases. */
const char *redis_address_read(struct redis_address *a, const char *text);

void redis_address_clear(struct redis_address *a);

/* Returns the port of a host, or the usual port if none is given. */
int redis_address_port(const struct redis_address *a, size_t host);

#endif
