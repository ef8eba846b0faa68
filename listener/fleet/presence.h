/* presence.h: tells the fleet that this listener is alive and what it hears, and learns the same of the others: who
 * leads each source, and whose claims are a dead listener's. */
#ifndef WSONCE_PRESENCE_H
#define WSONCE_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "redis/connection.h"
#include "fleet/roster.h"

/* Of the key that holds what the listeners of a fleet say; the claim prefix follows. The braces put it on the node of a
 * cluster that commands without a key go to. */
#define PRESENCE_KEY_PREFIX "wsonce:{alive}:"

struct presence;
struct readings;

/* Called from the loop, never from inside a call below: the process of this listener is gone, or has been silent for
 * three seconds. Repeated while events wait for it. */
typedef void presence_gone_cb(void *arg, uint16_t listener);

/* Called likewise, before anything else was known of our claim prefix: another database uses it. sentence says so, and
 * lives for the call. */
typedef void presence_foreign_cb(void *arg, const char *sentence);

/* name, which our claims begin with and nobody else's, is copied. */
struct presence *presence_open(uv_loop_t *loop, const struct config *config, const char *name,
			       presence_gone_cb *on_gone, presence_foreign_cb *on_foreign, void *arg);

/* The id of our database, "" if it has none. No other may use our prefix, or one that it begins with. The text is
 * copied. */
void presence_set_database(struct presence *p, const char *id);
/* Does another database use it, by the last answer? Then Redis must not be used. */
bool presence_is_foreign(const struct presence *p);
/* Has Redis, which is there, answered no beat but with errors for three seconds? */
bool presence_is_refused(const struct presence *p);

/* The sources that this listener dials; see reading.h. It is asked with each beat. */
struct readings *presence_readings(struct presence *p);

/* Redis is ready, or (NULL) gone. While it is gone, what was known last stays. */
void presence_set_redis(struct presence *p, struct redis *redis);

/* What the next beats say: why this listener cannot store, "" if it can. The text is copied. */
void presence_say(struct presence *p, const char *trouble);
/* What this listener does, which the others are told at once. */
void presence_set_state(struct presence *p, enum peer_state state);
/* A message of this source has come; the name is that of events, and lives as long as p. The others are told for five
 * seconds that this listener hears the source. */
void presence_hear(struct presence *p, const char *source);

/* Does another listener lead the source, so that it stores the source's events first? It is no promise: the leader may
 * be dead, or not have received the event. */
bool presence_has_other_leader(struct presence *p, const char *source);
/* The leader of the source does not store its events: another one leads for four seconds. */
void presence_suspect_leader(struct presence *p, const char *source);
/* Events wait for the leader of this source: is it alive? Call again while that is so. */
void presence_wait_for_leader(struct presence *p, const char *source);

/* The number, from 1, of the owner of a claim with this value; 0 if the value does not name one. */
uint16_t presence_find(struct presence *p, const char *value, size_t len);
/* An event waits for the claim of this listener, 0 for none: is it alive? Call again while that is so. */
void presence_wait_for(struct presence *p, uint16_t listener);
/* How its claims begin: the name with @, which lives until the next presence_find(). "" if there is no such listener.
 */
const char *presence_name(struct presence *p, uint16_t listener);

/* The others notice when the connection to Redis ends. done is called from the loop when nothing of p is left. */
void presence_close(struct presence *p, void (*done)(void *arg), void *arg);

#endif
