/* cluster.h: the masters of a Redis Cluster as one. */
#ifndef WSONCE_REDIS_CLUSTER_H
#define WSONCE_REDIS_CLUSTER_H

#include <stdbool.h>
#include <uv.h>

#include "redis/server.h"

struct cluster;

struct cluster_settings {
	const struct redis_address *address; /* of which the login is taken */
	const struct tls_trust *trust;
	int64_t timeout_ms;
	/* A master that can be asked was added, or none can be asked any more. */
	void (*on_change)(void *owner);
	void *owner;
	void *asker; /* the owner that answers are told to */
};

/* seed, a server that is ready and belongs to the cluster, is asked which masters there are, and lives as long. */
struct cluster *cluster_open(uv_loop_t *loop, const struct cluster_settings *settings, struct server *seed);

/* Can it be asked? Not before all masters, or after half a second some, are ready. */
bool cluster_is_ready(const struct cluster *c);

/* Sends a command to the master that has its first key, or one without a key to that of the slot. The answer is NULL if
 * that one cannot be asked now. A command that was sent to the wrong master is sent once more. */
void cluster_send(struct cluster *c, const char *bytes, size_t len, unsigned int slot, redis_cb *cb, void *arg);

/* The master of a slot; NULL if none is known. */
const struct server *cluster_server(const struct cluster *c, unsigned int slot);

/* As the functions of connection.h, for all masters. */
void cluster_load_scripts(struct cluster *c);
uint64_t cluster_unanswered(const struct cluster *c);
void cluster_close(struct cluster *c, void (*done)(void *arg), void *arg);

#endif
