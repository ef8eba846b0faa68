/* presence.h: tells the fleet that this listener is alive and what it hears, and learns the same about the others: who
 * leads each source, and which claims belong to a dead listener. */
#ifndef WSONCE_PRESENCE_H
#define WSONCE_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "redis/connection.h"
#include "fleet/roster.h"

/* The key of a fleet's reports: this, then the claim prefix. The braces put it on the cluster node that serves commands
 * without a key. */
#define PRESENCE_KEY_PREFIX "wsonce:{alive}:"
#define PRESENCE_ALIVE_MS   "3000" /* how long a beat counts */

struct presence;
struct readings;

/* Called from the loop, never during a call below: the process of this listener is gone, or has been silent for three
 * seconds. Repeated while events wait for it. */
typedef void presence_gone_cb(void *arg, uint16_t listener);

/* Called in the same way, before our claim prefix was known to be free: another database uses it. sentence says so and
 * is valid during the call. */
typedef void presence_foreign_cb(void *arg, const char *sentence);

/* name: how our claims begin, and no others; copied. */
struct presence *presence_open(uv_loop_t *loop, const struct config *config, const char *name,
			       presence_gone_cb *on_gone, presence_foreign_cb *on_foreign, void *arg);

/* Sets the id of our database, "" if it has none. No other database may use our prefix, or one that ours begins with.
 * The text is copied. */
void presence_set_database(struct presence *p, const char *id);
/* True if, by the last answer, another database uses our prefix. Then do not use Redis. */
bool presence_is_foreign(const struct presence *p);
/* True if Redis is connected but has answered beats only with errors for three seconds. */
bool presence_is_refused(const struct presence *p);

/* Sets the sources that this listener dials; see reading.h. Each beat reads them. */
struct readings *presence_readings(struct presence *p);

/* Redis is ready, or (NULL) gone. While it is gone, the last answer stays valid. */
void presence_set_redis(struct presence *p, struct redis *redis);

/* Sets why this listener cannot store, "" if it can, for the next beats. The text is copied. */
void presence_say(struct presence *p, const char *trouble);
/* True if another listener says that it cannot store. */
bool presence_has_trouble(const struct presence *p);
/* True if another listener that dials this source can store, as it says. */
bool presence_has_able(const struct presence *p, const char *source);
/* Sets what this listener does, and sends a beat at once. */
void presence_set_state(struct presence *p, enum peer_state state);
/* Call for each message of this source, whose name is that of its events and must outlive p. For five seconds beats say
 * that this listener hears the source. */
void presence_hear(struct presence *p, const char *source);

/* Leaves this source to another leader for ten seconds: this listener cannot do all that a leader does. source is as in
 * presence_hear(). */
void presence_leave_lead(struct presence *p, const char *source);

/* True if another listener leads the source and so stores its events first. Do not rely on it: the leader may be dead,
 * or not have received the event. */
bool presence_has_other_leader(struct presence *p, const char *source);
/* True if it was known at that time (loop clock), so that it may have what came then. */
bool presence_knew_leader(struct presence *p, const char *source, int64_t ms);
/* Call when the leader does not store the source's events: another listener leads for four seconds. */
void presence_suspect_leader(struct presence *p, const char *source);
/* Checks if the leader of this source is alive. Call again while events wait for it. */
void presence_wait_for_leader(struct presence *p, const char *source);

/* Returns the number, from 1, of the owner of a claim with this value; 0 if the value names none. */
uint16_t presence_find(struct presence *p, const char *value, size_t len);
/* Checks if this listener (0: none) is alive. Call again while an event waits for its claim. */
void presence_wait_for(struct presence *p, uint16_t listener);
/* Returns how its claims begin: its name and @, valid until the next presence_find(). "" for an unknown listener. */
const char *presence_name(struct presence *p, uint16_t listener);

/* The others notice when our connection to Redis ends. done is called from the loop once p is freed. */
void presence_close(struct presence *p, void (*done)(void *arg), void *arg);

#endif
