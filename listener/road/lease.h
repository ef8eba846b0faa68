/* lease.h: which listener of a fleet has an exclusive source. */
#ifndef WSONCE_LEASE_H
#define WSONCE_LEASE_H

#include <stdbool.h>
#include <uv.h>

#include "config/config.h"

struct lease;

/* Called from the loop, in turn, on_acquired first. */
struct lease_owner {
	/* The source is ours. */
	void (*on_acquired)(void *arg);
	/* It may be another's from the next moment on: end the connection at once. */
	void (*on_lost)(void *arg);
	void *arg;
};

/* Asks for the lease of this name for ever; config and name must outlive it. It is kept in Redis, or, with --redis
 * none, in a row of Postgres, or beside an SQLite file as a lock of the kernel. Another
 * listener has it within two seconds of this one's death. */
struct lease *lease_open(uv_loop_t *loop, const struct config *config, const char *name,
			 const struct lease_owner *owner);

bool lease_is_held(const struct lease *l);

/* Gives it back. on_lost is not called any more; done is called from the loop when nothing of l is left. */
void lease_close(struct lease *l, void (*done)(void *arg), void *arg);

#endif
