/* Several listeners on one feed, and what must be true of them together. Events are numbered from 1; event 7 has the
 * id "e-7". */
#ifndef SUPPORT_FLEET_H
#define SUPPORT_FLEET_H

#include <stdbool.h>

#include "listener.h"

#define FLEET_MAX 12

struct database;
struct feed;
struct redisd;

struct fleet {
	struct feed *feed;     /* the feed of all listeners; owned by the fleet */
	struct database *rows; /* the database for the events; owned by the test */
	struct listener *listeners[FLEET_MAX];
	int size;
	long sent;       /* events sent so far */
	int payload;     /* bytes of padding in each event's payload */
	char flags[200]; /* of each listener */
	struct listener_options options;
	char source[64];
};

/* Starts this many listeners on this database (NULL for a new one), with these options (.database, .postgres and
 * .source are set here; NULL for none) and flags. Returns when all are ready and connected to the feed. The caller
 * owns the fleet. */
void fleet_start(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		 const char *flags);

/* The same without waiting: for servers that are down. */
void fleet_launch(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		  const char *flags);

/* Waits until all are ready and connected to the feed. */
void fleet_wait_ready(struct fleet *f);

/* Restarts listener i after its end, without waiting. Its name is "listener-<i>", in claims and, unless .env is set,
 * in Postgres's application_name. */
void fleet_launch_one(struct fleet *f, int i);

/* Sends the next count events to all connected listeners. */
void fleet_send(struct fleet *f, long count);

/* Writes the first count events, one per line, without padding, to the file of that name in suite_directory(). Returns
 * its path. */
char *fleet_file(const char *name, long count);

/* Rows in the table now. */
long fleet_rows(struct fleet *f);

/* Wait until the table has at least n rows; the test fails if not within deadline_ms (stretched). */
void fleet_wait_rows(struct fleet *f, long n, int deadline_ms);

/* Sum of a metric over all listeners, as listener_metric. */
double fleet_metric(struct fleet *f, const char *name);

/* Whether received = persisted + duplicates + dead-lettered + in flight, in one look at /metrics. */
bool fleet_is_balanced(struct listener *l);

/* Waits until nothing is in flight and checks what always holds: every listener is alive, its counters balance, each
 * event sent has exactly one row, and there are no other rows and no dead letters. */
void fleet_must_be_whole(struct fleet *f, int deadline_ms);

/* Sends one event at a time until one is claimed by one listener (or by another after that claim was lost), never
 * without Redis, and marked. On a busy machine Redis may be late for the first ones. Fails the test if that does not
 * happen within deadline_ms (stretched), or if an event is stored twice. */
void fleet_must_claim(struct fleet *f, struct redisd *redis, int deadline_ms);

/* Sends one event at a time until one listener leads the feed and all others leave events to it. Returns its index.
 * Fails the test if that does not happen within deadline_ms (stretched). */
int fleet_leader(struct fleet *f, int deadline_ms);

/* End the feed and the listeners (SIGKILL). */
void fleet_end(struct fleet *f);

/* Locks the table events in a separate transaction, so that nothing can be stored in it until fleet_unlock. Reads
 * still work, because listeners count the rows now and then, and a blocked count would delay storing. Works without a
 * fleet, too. */
struct database *fleet_lock(struct database *rows);
void fleet_unlock(struct database *lock);

#endif
