/* Several listeners on one feed of the test's own, and what must be true of them together. Events
 * are numbered from 1; event 7 has the id "e-7". */
#ifndef SUPPORT_FLEET_H
#define SUPPORT_FLEET_H

#include <stdbool.h>

#include "listener.h"

#define FLEET_MAX 12

struct database;
struct feed;
struct redisd;

struct fleet {
	struct feed *feed;     /* what each listener dials; the fleet's own */
	struct database *rows; /* where the events go; the test's own */
	struct listener *listeners[FLEET_MAX];
	int size;
	long sent;       /* events so far */
	int payload;     /* bytes of filling in each event's payload */
	char flags[200]; /* of each listener */
	struct listener_options options;
	char source[64];
};

/* Start so many listeners on this database (NULL: a new one), with these options (.database, .postgres and .source are
 * set here; NULL for none) and flags. Returns when each is ready and on the feed. The fleet is the caller's. */
void fleet_start(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		 const char *flags);

/* The same without waiting: for servers that are down. */
void fleet_launch(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		  const char *flags);

/* Wait until all are ready and on the feed. */
void fleet_wait_ready(struct fleet *f);

/* Start listener i anew, after its end, without waiting. Its name is "listener-<i>" in Postgres's
 * application_name, unless .env is given, and in claims. */
void fleet_launch_one(struct fleet *f, int i);

/* Send the next count events to all who are connected. */
void fleet_send(struct fleet *f, long count);

/* Write the first count events to the file of that name in suite_directory(), one a line, without filling.
 * Returns its path; */
char *fleet_file(const char *name, long count);

/* Rows in the table now. */
long fleet_rows(struct fleet *f);

/* Wait until the table has at least n rows; the test fails if not within deadline_ms (stretched). */
void fleet_wait_rows(struct fleet *f, long n, int deadline_ms);

/* Sum of a metric over all listeners, as listener_metric. */
double fleet_metric(struct fleet *f, const char *name);

/* Whether received = persisted + duplicates + dead-lettered + in flight, in one look at /metrics. */
bool fleet_is_balanced(struct listener *l);

/* Wait until nothing is in flight, and require what always holds: every listener lives, its counters
 * balance, each event that was sent has one row, and there is no other row and no dead letter. */
void fleet_must_be_whole(struct fleet *f, int deadline_ms);

/* Send one event at a time until one is claimed, by one listener or after that one's claim was found gone, by none
 * without asking Redis, and marked. On a busy machine Redis may be late for the first ones. The test fails if none is
 * within deadline_ms (stretched), or one is stored twice. */
void fleet_must_claim(struct fleet *f, struct redisd *redis, int deadline_ms);

/* End the feed and the listeners (SIGKILL). */
void fleet_end(struct fleet *f);

/* Take the lock on the table events, in a transaction of its own, which nobody else's row gets past until fleet_unlock.
 * Reading goes on: listeners count the rows now and then, and what they store would wait behind that. Also good without
 * a fleet. */
struct database *fleet_lock(struct database *rows);
void fleet_unlock(struct database *lock);

#endif
