/* resolve.c looks up names. getaddrinfo blocks, for half a minute or more if a name server does not answer, so each
 * lookup has its own thread. In libuv's thread pool, a few slow lookups would delay all others and the exit of the
 * process. */
#include "base/resolve.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define STACK_BYTES    (1u << 20) /* per thread; unused stack costs nothing */
#define ADDRESSES_MOST 8

/* The loop and the thread share this. The last one to finish frees it. */
struct resolve {
	pthread_mutex_t lock;
	unsigned int owners;
	bool is_cancelled;
	uv_async_t done;
	char *host;
	struct addrinfo hints;
	struct addrinfo *found;
	int status; /* result of getaddrinfo */
	unsigned int nth;
	resolve_cb *cb;
	void *arg;
};

/* Wraps around at the end of the list. */
static const struct addrinfo *find_nth(const struct addrinfo *found, unsigned int nth)
{
	const struct addrinfo *at = found;
	unsigned int n = 0;

	for (; at; at = at->ai_next)
		n++;
	for (at = found, nth %= n + !n; nth; nth--)
		at = at->ai_next;
	return at;
}

static void leave(struct resolve *r)
{
	bool is_last;

	pthread_mutex_lock(&r->lock);
	is_last = --r->owners == 0;
	pthread_mutex_unlock(&r->lock);
	if (!is_last)
		return;
	if (r->found)
		freeaddrinfo(r->found);
	pthread_mutex_destroy(&r->lock);
	free(r->host);
	free(r);
}

static void *look_up(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *found = NULL;
	int status = getaddrinfo(r->host, NULL, &r->hints, &found);

	pthread_mutex_lock(&r->lock);
	r->status = status;
	r->found = status ? NULL : found;
	if (!r->is_cancelled)
		uv_async_send(&r->done);
	pthread_mutex_unlock(&r->lock);
	leave(r);
	return NULL;
}

static void on_handle_closed(uv_handle_t *handle)
{
	leave(handle->data);
}

static void print_address(char out[64], const struct addrinfo *at)
{
	if (at->ai_family == AF_INET)
		uv_ip4_name((const struct sockaddr_in *)(const void *)at->ai_addr, out, 64);
	else if (at->ai_family == AF_INET6)
		uv_ip6_name((const struct sockaddr_in6 *)(const void *)at->ai_addr, out, 64);
}

static void on_done(uv_async_t *done)
{
	struct resolve *r = done->data;
	const struct addrinfo *first = find_nth(r->found, r->nth), *at = first;
	char addresses[ADDRESSES_MOST * 64] = "";

	for (size_t i = 0, n = 0; at && i < ADDRESSES_MOST; i++) {
		char address[64] = "";

		print_address(address, at);
		n += (size_t)snprintf(addresses + n, sizeof(addresses) - n, "%s%s", n ? " " : "", address);
		at = at->ai_next ? at->ai_next : r->found;
		if (at == first)
			break;
	}
	uv_close((uv_handle_t *)done, on_handle_closed);
	r->cb(r->arg, *addresses ? addresses : NULL, r->status ? gai_strerror(r->status) : "no address");
}

/* AI_ADDRCONFIG hides ::1 and 127.0.0.1 on a machine that has only loopback. */
static bool is_local_or_numeric(const char *host)
{
	return strcmp(host, "localhost") == 0 || strchr(host, ':') || strspn(host, "0123456789.") == strlen(host);
}

static int start_thread(struct resolve *r)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int failed;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	failed = pthread_create(&thread, &attributes, look_up, r);
	pthread_attr_destroy(&attributes);
	return failed;
}

struct resolve *resolve_start(uv_loop_t *loop, const char *host, unsigned int nth, resolve_cb *cb, void *arg)
{
	struct resolve *r = memory_calloc(1, sizeof(*r));

	pthread_mutex_init(&r->lock, NULL);
	r->owners = 2;
	r->host = memory_strdup(host);
	r->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM,
				     .ai_flags = is_local_or_numeric(host) ? 0 : AI_ADDRCONFIG};
	r->nth = nth;
	r->cb = cb;
	r->arg = arg;
	uv_async_init(loop, &r->done, on_done);
	r->done.data = r;
	if (start_thread(r) == 0)
		return r;
	r->owners = 1;
	uv_close((uv_handle_t *)&r->done, on_handle_closed);
	return NULL;
}

/* Does not wait for the thread, which may run for a while. */
void resolve_cancel(struct resolve *r)
{
	pthread_mutex_lock(&r->lock);
	r->is_cancelled = true;
	pthread_mutex_unlock(&r->lock);
	uv_close((uv_handle_t *)&r->done, on_handle_closed);
}
