/* address.c parses --redis. base/url.c parses each URL in it. */
#include "redis/address.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define REDIS_PORT    6379
#define SENTINEL_PORT 26379

/* Makes one URL for each host in the list. Returns 0, or -1. */
static int split_hosts(struct redis_address *a, const char *text)
{
	const char *authority = strstr(text, "://");
	const char *begin = authority ? authority + 3 : text;
	const char *end = begin + strcspn(begin, "/?#");
	const char *at = memrchr(begin, '@', (size_t)(end - begin));
	const char *host = at ? at + 1 : begin;
	int failed = 0;

	for (const char *next = host; next <= end && !failed; next++) {
		size_t len = strcspn(next, ",/?#");
		char *one = memory_printf("%.*s%.*s%s", (int)(host - text), text, (int)len, next, end);

		failed = a->count == REDIS_HOSTS_MAX || url_parse(&a->urls[a->count++], one);
		free(one);
		next += len;
	}
	return failed ? -1 : 0;
}

/* Splits the path of a sentinel URL, /master[/db]. */
static const char *take_master(struct redis_address *a, char *path)
{
	char *name = path + (*path == '/');
	char *slash = strchr(name, '/');

	if (slash)
		*slash = '\0';
	a->master = name;
	a->db = slash ? slash + 1 : "";
	return *name ? NULL : "names no master: write redis-sentinel://HOST:PORT/MASTER, as in sentinel.conf";
}

static const char *take_path(struct redis_address *a)
{
	struct url *url = &a->urls[0];
	const char *fault = NULL;

	a->db = url->path + (url->path[0] == '/');
	if (a->is_socket) {
		a->db = "";
		return a->count == 1 && url->path[0] == '/' && !url->host[0] && !url->has_port
			       ? NULL
			       : "names no socket: write three slashes, unix:///PATH";
	}
	if (strpbrk(url->path, "?#"))
		return "has options (?...), which are not supported: use --redis-timeout and other flags; certificates "
		       "are always verified against --redis-ca";
	if (a->is_sentinel)
		fault = take_master(a, url->path);
	if (!fault && (strlen(a->db) >= 6 || a->db[strspn(a->db, "0123456789")]))
		fault = "has a path that is not a database number";
	return fault;
}

static bool has_host(const struct redis_address *a)
{
	for (size_t i = 0; i < a->count; i++)
		if (!a->urls[i].host[0])
			return false;
	return true;
}

const char *redis_address_read(struct redis_address *a, const char *text)
{
	const char *fault;

	memset(a, 0, sizeof(*a));
	a->master = (char *)"";
	a->redacted = url_redact(text);
	if (split_hosts(a, text) || !url_has_scheme(&a->urls[0], "redis rediss redis-sentinel rediss-sentinel unix"))
		return a->count == REDIS_HOSTS_MAX ? "names more than 16 hosts"
						   : "is not a redis://, rediss://, redis-sentinel:// or unix:// URL, "
						     "nor \"none\"";
	a->is_socket = url_has_scheme(&a->urls[0], "unix");
	a->is_tls = url_has_scheme(&a->urls[0], "rediss rediss-sentinel");
	a->is_sentinel = url_has_scheme(&a->urls[0], "redis-sentinel rediss-sentinel");
	fault = take_path(a);
	if (!fault && !a->is_socket && !has_host(a)) {
		if (a->count > 1 || a->is_sentinel)
			return "lists a host without a name";
		a->urls[0].host = (char *)"127.0.0.1";
	}
	if (!fault && !*a->db)
		a->db = "0";
	return fault;
}

void redis_address_clear(struct redis_address *a)
{
	for (size_t i = 0; i < a->count; i++)
		url_clear(&a->urls[i]);
	free(a->redacted);
	memset(a, 0, sizeof(*a));
}

int redis_address_port(const struct redis_address *a, size_t host)
{
	int port = a->urls[host].port;

	return port ? port : a->is_sentinel ? SENTINEL_PORT : REDIS_PORT;
}
