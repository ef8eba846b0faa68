/* hosts.c chooses the next host. libpq goes to its next host only after an error, and a host that hangs causes none
 * before our deadline. So libpq gets one host at a time, each with its own deadline. */
#include "postgres/hosts.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static size_t count(const char *list)
{
	size_t n = 1;

	for (; list && (list = strchr(list, ',')); list++)
		n++;
	return n;
}

static void keep(char **list, const char *value)
{
	if (value && *value)
		*list = memory_strdup(value);
}

static void keep_option(struct hosts *h, const PQconninfoOption *o)
{
	if (strcmp(o->keyword, "host") == 0)
		keep(&h->host, o->val);
	else if (strcmp(o->keyword, "hostaddr") == 0)
		keep(&h->hostaddr, o->val);
	else if (strcmp(o->keyword, "port") == 0)
		keep(&h->port, o->val);
	else if (strcmp(o->keyword, "connect_timeout") == 0 && o->val)
		h->timeout_ms = strtoll(o->val, NULL, 10) * 1000;
}

static bool is_of_another_length(const char *list, size_t n)
{
	return list && count(list) != 1 && count(list) != n;
}

void hosts_free(struct hosts *h)
{
	free(h->host);
	free(h->hostaddr);
	free(h->port);
	*h = (struct hosts){0};
}

/* Only libpq knows the hosts, and only after it has started. With this mode it stops before it looks up a name. */
void hosts_learn(struct hosts *h, const char *conninfo)
{
	const char *const names[] = {"dbname", "sslmode", NULL}, *const values[] = {conninfo, "none", NULL};
	PGconn *conn = memory_given(PQconnectStartParams(names, values, 1), "libpq");
	PQconninfoOption *options = memory_given(PQconninfo(conn), "libpq");

	for (const PQconninfoOption *o = options; o->keyword; o++)
		keep_option(h, o);
	PQconninfoFree(options);
	PQfinish(conn);
	h->count = count(h->hostaddr ? h->hostaddr : h->host);
	if (is_of_another_length(h->host, h->count) || is_of_another_length(h->port, h->count)) {
		hosts_free(h); /* libpq refuses such lists, and says why */
		h->count = 1;
	}
}

/* A list with one element, such as a port, applies to all hosts. */
char *hosts_pick(const struct hosts *h, const char *list)
{
	size_t n = h->at;

	if (!list)
		return NULL;
	if (count(list) == 1)
		n = 0;
	for (; n; n--)
		list = strchr(list, ',') + 1;
	return memory_strndup(list, strcspn(list, ","));
}

char *hosts_to_look_up(const struct hosts *h)
{
	char *host = h->hostaddr ? NULL : hosts_pick(h, h->host);
	struct in_addr address;

	if (host && *host && !strchr("/@", *host) && !strchr(host, ':') && inet_pton(AF_INET, host, &address) != 1)
		return host;
	free(host);
	return NULL;
}

static void append(char **list, const char *item)
{
	char *longer = *list ? memory_printf("%s,%s", *list, item ? item : "") : memory_strdup(item ? item : "");

	free(*list);
	*list = longer;
}

void hosts_append(struct hosts *to, const struct hosts *h, const char *addresses)
{
	AUTO_FREE char *host = hosts_pick(h, h->host), *port = hosts_pick(h, h->port);
	AUTO_FREE char *list = addresses ? memory_strdup(addresses) : hosts_pick(h, h->hostaddr);
	char *rest = list, *address;

	do {
		address = strsep(&rest, " ");
		append(&to->host, host);
		append(&to->hostaddr, address);
		append(&to->port, port);
	} while (rest);
}
