/* cluster.h: the masters of a Redis Cluster as one server. */
#ifndef WSONCE_REDIS_CLUSTER_H
#define WSONCE_REDIS_CLUSTER_H

#include <stdbool.h>
#include <uv.h>

#include "redis/server.h"

struct cluster;

/* Finds the masters by asking seed, a ready server of the cluster, which must outlive c. They are opened like seed, by
 * its settings. on_change is called with owner when one more master became ready, or cluster_is_ready() changed. */
struct cluster *cluster_open(uv_loop_t *loop, struct server *seed, const struct server_settings *settings,
			     void (*on_change)(void *owner), void *owner);

/* True once all masters are ready, or some are and half a second has passed. */
bool cluster_is_ready(const struct cluster *c);

/* Like redis_send(), to the master that has the command's first key; a command without a key goes to the master of
 * slot. If it went to the wrong master, it is sent once more. */
int cluster_send(struct cluster *c, const char *bytes, size_t len, unsigned int slot, redis_cb *cb, void *arg);

/* Returns the master of a slot, NULL if unknown. */
const struct server *cluster_server(const struct cluster *c, unsigned int slot);

/* Like the functions of connection.h, for all masters. */
uint64_t cluster_unanswered(const struct cluster *c);
void cluster_close(struct cluster *c, void (*done)(void *arg), void *arg);

#endif
