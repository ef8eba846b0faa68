/* lease.h: the lease that lets one listener of a fleet read an exclusive source. */
#ifndef WSONCE_LEASE_H
#define WSONCE_LEASE_H

#include <stdbool.h>
#include <uv.h>

#include "config/config.h"

struct lease;

/* Called from the loop, alternately, on_acquired first. */
struct lease_owner {
	/* The lease is ours: connect. */
	void (*on_acquired)(void *arg);
	/* Close the connection at once: another listener may get the lease. */
	void (*on_lost)(void *arg);
	/* Asked a few times a second. Returns why this listener cannot use the lease, but another one perhaps can, or
	 * NULL: it gives the lease up for a moment, or lets others ask first. Without the function: never. */
	const char *(*why_useless)(void *arg);
	void *arg;
};

/* Asks for the lease of this name until lease_close; config and name must outlive it. The lease is a key in Redis or,
 * with --redis none, a row in Postgres or a kernel lock beside an SQLite file. If this listener dies, another one gets
 * the lease within two seconds. */
struct lease *lease_open(uv_loop_t *loop, const struct config *config, const char *name,
			 const struct lease_owner *owner);

bool lease_is_held(const struct lease *l);
/* True while this listener leaves the lease to others, because it was useless. */
bool lease_is_left(const struct lease *l);
/* Returns why nobody can get the lease, or NULL. */
const char *lease_refusal(const struct lease *l);

/* Releases the lease without calling on_lost. done is called from the loop once l is freed. */
void lease_close(struct lease *l, void (*done)(void *arg), void *arg);

#endif
