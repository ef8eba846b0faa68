/* What most tests need: a database, a listener on it, and a producer for the listener. Each is NULL until a test makes
 * it. */
#ifndef SUPPORT_BENCH_H
#define SUPPORT_BENCH_H

#include "listener.h"

struct feed;
struct peer;

extern struct database *db;
extern struct listener *listener;
extern struct peer *producer;

/* For .init: make a new database with empty tables. */
void bench_open(void);

/* Starts the listener with these printf-like flags, on a new database if there is none yet. */
void bench_start(const char *flags, ...) __attribute__((format(printf, 1, 2)));

/* Starts the listener with these options and printf-like flags (NULL for none), and opens a producer that gets acks.
 * Without .postgres the listener uses db, which is made if there is none yet. */
void bench_serve(struct listener_options options, const char *flags, ...) __attribute__((format(printf, 2, 3)));

/* bench_start without Redis and an ingest port. Waits for the tables, and not for the sources, of which source (or
 * NULL) is one. env as in process.h, or NULL. */
void bench_dial(const char *source, const char *const *env, const char *flags, ...)
	__attribute__((format(printf, 3, 4)));

/* Requires that the feed is connected, and that one of its events, whose id is in this member of the message, is
 * stored. */
void bench_expect_heard(struct feed *feed, const char *member, const char *id);

/* Waits until /api/status has this text. */
void bench_expect_status(const char *text);

/* A metric of the listener. */
double bench_metric(const char *name);

/* For .fini: closes the producer, and requires that the listener ends with status 0, if there are any. */
void bench_close(void);

/* The number of rows in this printf-like table, and what may follow it: WHERE, JOIN. */
long bench_count(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The number of rows in events. */
long bench_rows(void);

#endif
