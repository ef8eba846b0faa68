/* resolve.c owns name lookups: getaddrinfo blocks, so libuv runs it on a thread of its own. */
#include "base/resolve.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct resolve {
	uv_getaddrinfo_t request;
	unsigned int nth;
	resolve_cb *cb; /* NULL: cancelled */
	void *arg;
};

/* From the first again behind the last. */
static const struct addrinfo *find_nth(const struct addrinfo *found, unsigned int nth)
{
	const struct addrinfo *at = found;

	for (; at && nth; nth--)
		at = at->ai_next ? at->ai_next : found;
	return at;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
	struct resolve *r = request->data;
	const struct addrinfo *at = status == 0 ? find_nth(found, r->nth) : NULL;
	char address[64] = "";

	if (at && at->ai_family == AF_INET)
		uv_ip4_name((const struct sockaddr_in *)(const void *)at->ai_addr, address, sizeof(address));
	else if (at && at->ai_family == AF_INET6)
		uv_ip6_name((const struct sockaddr_in6 *)(const void *)at->ai_addr, address, sizeof(address));
	if (r->cb)
		r->cb(r->arg, *address ? address : NULL, status ? uv_strerror(status) : "no address");
	uv_freeaddrinfo(found);
	free(r);
}

/* AI_ADDRCONFIG hides ::1 and 127.0.0.1 on a machine with loopback only. */
static bool is_local_or_numeric(const char *host)
{
	return strcmp(host, "localhost") == 0 || strchr(host, ':') || strspn(host, "0123456789.") == strlen(host);
}

struct resolve *resolve_start(uv_loop_t *loop, const char *host, unsigned int nth, resolve_cb *cb, void *arg)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = is_local_or_numeric(host) ? 0 : AI_ADDRCONFIG};
	struct resolve *r = memory_calloc(1, sizeof(*r));

	r->request.data = r;
	r->nth = nth;
	r->cb = cb;
	r->arg = arg;
	if (uv_getaddrinfo(loop, &r->request, on_resolved, host, NULL, &hints)) {
		free(r);
		return NULL;
	}
	return r;
}

void resolve_cancel(struct resolve *r)
{
	r->cb = NULL;
	uv_cancel((uv_req_t *)&r->request); /* on_resolved still comes, and frees */
}
