/* connection.c is Redis for the rest of the listener: one server, or the cluster to which that server belongs. claim.c
 * and others decide what to ask. */
#include "redis/connection.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"
#include "base/secret.h"
#include "redis/cluster.h"
#include "redis/server.h"
#include "redis/slots.h"

#define ALIVE "{alive}" /* commands without a key go to the server of its slot: presence.c asks it for its clients */

struct redis {
	struct redis_settings settings;
	struct redis_address address;
	struct tls_trust *trust; /* NULL without TLS */
	uv_loop_t *loop;
	struct server *server; /* the one in the URL */
	struct server_settings of_server;
	struct cluster *cluster; /* NULL unless server belongs to a cluster */
	unsigned int alive;      /* slot of ALIVE */
	struct ending ending;
};

static enum redis_state cluster_state(const struct redis *r)
{
	if (server_view(r->server)->state == REDIS_CLOSING)
		return REDIS_CLOSING;
	return cluster_is_ready(r->cluster) ? REDIS_READY : REDIS_CONNECTING;
}

enum redis_state redis_state(const struct redis *r)
{
	return r->cluster ? cluster_state(r) : server_view(r->server)->state;
}

const char *redis_trouble(const struct redis *r)
{
	return server_view(r->server)->trouble;
}

static void on_change(void *owner)
{
	struct redis *r = owner;

	r->settings.on_state(r->settings.owner, redis_state(r));
}

/* Once the cluster is known, the state of the one server no longer matters. */
static void on_state(void *owner, enum redis_state state)
{
	struct redis *r = owner;

	if (state == REDIS_READY && !r->cluster && !r->settings.on_message && server_view(r->server)->is_cluster) {
		r->cluster = cluster_open(r->loop, r->server, &r->of_server, on_change, r);
		r->alive = slot_of_key(ALIVE, strlen(ALIVE));
	}
	if (!r->cluster || state == REDIS_CLOSING)
		r->settings.on_state(r->settings.owner, state);
}

static struct tls_trust *trust(const struct redis_settings *settings)
{
	struct tls_trust *t = tls_trust_new(settings->ca);

	if (t && settings->cert && tls_trust_identify(t, settings->cert, settings->key)) {
		tls_trust_free(t);
		t = NULL;
	}
	return t;
}

struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings)
{
	struct redis *r = memory_calloc(1, sizeof(*r));

	r->of_server = (struct server_settings){.address = &r->address,
						.timeout_ms = settings->timeout_ms,
						.is_second = settings->is_second,
						.on_state = on_state,
						.on_message = settings->on_message,
						.owner = r,
						.asker = settings->owner};
	redis_address_read(&r->address, settings->url);
	r->settings = *settings;
	r->loop = loop;
	if (r->address.is_tls) {
		r->of_server.trust = r->trust = trust(settings);
		assert(r->trust); /* config.c has checked the files */
	}
	r->server = server_open(loop, &r->of_server);
	return r;
}

bool redis_is_cluster(const struct redis *r)
{
	return r->cluster;
}

int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	if (!r->cluster)
		return server_send(r->server, bytes, len, cb, arg);
	return cluster_is_ready(r->cluster) ? cluster_send(r->cluster, bytes, len, r->alive, cb, arg) : -1;
}

uint64_t redis_unanswered(const struct redis *r)
{
	return r->cluster ? cluster_unanswered(r->cluster) : server_unanswered(r->server);
}

const char *redis_client(const struct redis *r)
{
	const struct server *server = r->cluster ? cluster_server(r->cluster, r->alive) : r->server;

	return server ? server_view(server)->client : "";
}

void redis_mask(const struct redis *r, char *text)
{
	secret_mask(text, r->address.urls[0].password);
}

static void release(void *object)
{
	struct redis *r = object;

	tls_trust_free(r->trust);
	redis_address_clear(&r->address);
	free(r);
}

void redis_close(struct redis *r, void (*done)(void *arg), void *arg)
{
	ending_begin(&r->ending, r->cluster ? 2 : 1, release, r, done, arg);
	if (r->cluster)
		cluster_close(r->cluster, ending_part, &r->ending);
	server_close(r->server, ending_part, &r->ending);
}
