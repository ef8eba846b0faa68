/* The keys of claims in Redis, under this test's prefix, as an outsider sees and changes them. */
#ifndef SUPPORT_CLAIMS_H
#define SUPPORT_CLAIMS_H

#include <stdbool.h>

struct database;
struct redisd;

/* The value of the claim on an event id; NULL when there is none. */
char *claims_value(struct redisd *r, const char *id);

/* Whether somebody has a claim or a mark on the id, whether that is exactly this value, and whether
 * it begins with these letters ("done@"). */
bool claims_has(struct redisd *r, const char *id);
bool claims_is(struct redisd *r, const char *id, const char *value);
bool claims_begins(struct redisd *r, const char *id, const char *head);

/* Set a key as another owner would. ttl_ms 0: it never expires. */
void claims_put(struct redisd *r, const char *id, const char *value, long ttl_ms);

/* Set it to a mark, "done@" or "dead@", of the epoch that the database is in, for a minute; tail is what
 * follows the epoch. A listener must have
 * used the database before. */
void claims_put_mark(struct redisd *r, struct database *db, const char *id, const char *head, const char *tail);

/* Milliseconds until it expires; -1: never; -2: there is none. */
long claims_ttl_ms(struct redisd *r, const char *id);

/* Claims on events that are not settled: keys of this test that are neither done nor dead marks. */
long claims_open(struct redisd *r);

#endif
