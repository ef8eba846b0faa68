/* The keys of claims in Redis, under this test's prefix, seen and changed from outside. */
#ifndef SUPPORT_CLAIMS_H
#define SUPPORT_CLAIMS_H

#include <stdbool.h>

struct database;
struct redisd;

/* The value of an event's key; NULL if there is none. */
char *claims_value(struct redisd *r, const char *id);

/* Is there a claim or mark for this id; is it exactly this value; does it begin with this text ("done@")? */
bool claims_has(struct redisd *r, const char *id);
bool claims_is(struct redisd *r, const char *id, const char *value);
bool claims_begins(struct redisd *r, const char *id, const char *head);

/* Sets a key as another owner would. With ttl_ms 0 it never expires. */
void claims_put(struct redisd *r, const char *id, const char *value, long ttl_ms);

/* Sets it to a mark ("done@" or "dead@") of the database's current epoch, for a minute; tail follows the epoch. A
 * listener must have used the database before. */
void claims_put_mark(struct redisd *r, struct database *db, const char *id, const char *head, const char *tail);

/* Milliseconds until it expires; -1 for never, -2 if there is none. */
long claims_ttl_ms(struct redisd *r, const char *id);

/* The number of claims of unsettled events: keys of this test that are not marks. */
long claims_open(struct redisd *r);

#endif
