/* What most tests need: a database, a listener on it, and a producer for the listener. Each is NULL until a test makes
 * it. */
#ifndef SUPPORT_BENCH_H
#define SUPPORT_BENCH_H

struct database;
struct listener;
struct peer;

extern struct database *db;
extern struct listener *listener;
extern struct peer *producer;

/* For .init: make a new database with empty tables. */
void bench_open(void);
void bench_migrate(void);

/* Starts the listener with these printf-like flags, on a new database if there is none yet. */
void bench_start(const char *flags, ...) __attribute__((format(printf, 1, 2)));

/* A metric of the listener. */
double bench_metric(const char *name);

/* For .fini: closes the producer, and requires that the listener ends with status 0, if there are any. */
void bench_close(void);

/* The number of rows in events. */
long bench_rows(void);

#endif
