/* owners.h: who has the claims that this instance waits for, and which of them is dead. */
#ifndef WSONCE_OWNERS_H
#define WSONCE_OWNERS_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis/connection.h"

/* Of the key by which an owner tells that it is alive; its name with @ follows. The braces keep all of them on one node
 * of a cluster. */
#define OWNERS_KEY_PREFIX "wsonce:{alive}:"
/* The end of another key, which is there while this owner cannot store, and says why. */
#define OWNERS_TROUBLE ":trouble"

struct owners;

/* Called from the loop, never from inside a call below: this owner's process is gone, or has not told for three
 * seconds that it is there. It may be called again while claims of that owner are found. */
typedef void owner_gone_cb(void *arg, uint16_t owner);

/* name, with which our own claims begin and nobody else's, is copied. */
struct owners *owners_open(uv_loop_t *loop, const char *name, owner_gone_cb *on_gone, void *arg);

/* Redis is ready; or with NULL, gone. */
void owners_set_redis(struct owners *o, struct redis *redis);

/* Each heartbeat tells why this listener cannot store; "": it can. */
void owners_say(struct owners *o, const char *trouble);

/* How many listeners there are, ours included, as far as is known: many ask seldom, as the first that finds an owner
 * dead takes over for all. */
void owners_set_fleet(struct owners *o, size_t listeners);

/* The number, from 1, of the owner of a claim with this value; 0 if the value does not name one. The number of an owner
 * that was not met for long may become another's. */
uint16_t owners_find(struct owners *o, const char *value, size_t len);

/* The claims of this owner, 0 for none, keep an event waiting: is it alive? To be called again while that is so. */
void owners_wait(struct owners *o, uint16_t owner);

/* How its claims begin: the name with @, which lives until the next owners_find(). "" if there is no such owner. */
const char *owners_name(const struct owners *o, uint16_t owner);

/* done is called from the loop when nothing of o is left. */
void owners_close(struct owners *o, void (*done)(void *arg), void *arg);

#endif
