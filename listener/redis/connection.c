/* connection.c owns what the listener calls Redis. Today that is one server, which server.c finds and comes back to.
 * What is asked is claim.c's business. */
#include "redis/connection.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/secret.h"
#include "redis/server.h"

struct redis {
	struct redis_settings settings;
	struct redis_address address;
	struct tls_trust *trust; /* NULL: no TLS */
	struct server *server;
	void (*done)(void *arg);
	void *done_arg;
};

static void on_state(void *owner, enum redis_state state)
{
	struct redis *r = owner;

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
	struct server_settings of_server = {.address = &r->address,
					    .timeout_ms = settings->timeout_ms,
					    .on_state = on_state,
					    .owner = r,
					    .asker = settings->owner};

	redis_address_read(&r->address, settings->url);
	r->settings = *settings;
	if (r->address.is_tls) {
		of_server.trust = r->trust = trust(settings);
		assert(r->trust); /* config.c has tried it */
	}
	r->server = server_open(loop, &of_server);
	return r;
}

enum redis_state redis_state(const struct redis *r)
{
	return server_state(r->server);
}

int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	return server_send(r->server, bytes, len, cb, arg);
}

uint64_t redis_unanswered(const struct redis *r)
{
	return server_unanswered(r->server);
}

const char *redis_client(const struct redis *r)
{
	return server_client(r->server);
}

const char *redis_script_sha(const struct redis *r, enum redis_script script)
{
	return server_script_sha(r->server, script);
}

void redis_load_scripts(struct redis *r)
{
	server_load_scripts(r->server);
}

void redis_mask(const struct redis *r, char *text)
{
	secret_mask(text, r->address.urls[0].password);
}

static void on_closed(void *arg)
{
	struct redis *r = arg;

	r->done(r->done_arg);
	tls_trust_free(r->trust);
	redis_address_clear(&r->address);
	free(r);
}

void redis_close(struct redis *r, void (*done)(void *arg), void *arg)
{
	r->done = done;
	r->done_arg = arg;
	server_close(r->server, on_closed, r);
}
