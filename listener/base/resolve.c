/* resolve.c owns name lookups: getaddrinfo blocks, so libuv runs it on a thread of its own. */
#include "base/resolve.h"

#include <stdlib.h>
#include <string.h>

struct resolve {
	uv_getaddrinfo_t request;
	resolve_cb *cb; /* NULL: cancelled */
	void *arg;
};

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
	struct resolve *r = request->data;
	char address[64] = "";

	if (status == 0 && found->ai_family == AF_INET)
		uv_ip4_name((const struct sockaddr_in *)(void *)found->ai_addr, address, sizeof(address));
	else if (status == 0 && found->ai_family == AF_INET6)
		uv_ip6_name((const struct sockaddr_in6 *)(void *)found->ai_addr, address, sizeof(address));
	if (r->cb)
		r->cb(r->arg, *address ? address : NULL, status ? uv_strerror(status) : "no address");
	uv_freeaddrinfo(found);
	free(r);
}

struct resolve *resolve_start(uv_loop_t *loop, const char *host, resolve_cb *cb, void *arg)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct resolve *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->request.data = r;
	r->cb = cb;
	r->arg = arg;
	/* AI_ADDRCONFIG hides ::1 and 127.0.0.1 on a machine with loopback only. */
	if (uv_getaddrinfo(loop, &r->request, on_resolved, host, NULL,
			   strcmp(host, "localhost") == 0 || strchr(host, ':') ||
					   strspn(host, "0123456789.") == strlen(host)
				   ? NULL
				   : &hints)) {
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
