/* What most tests are about: a database, a listener on it, and a producer of that. Each is NULL until a test makes it.
 */
#ifndef SUPPORT_BENCH_H
#define SUPPORT_BENCH_H

struct database;
struct listener;
struct peer;

extern struct database *db;
extern struct listener *listener;
extern struct peer *producer;

/* For .init: a new database, and one with the tables of this program. */
void bench_open(void);
void bench_migrate(void);

/* For .fini: the producer leaves, and the listener ends with status 0, if they are there. */
void bench_close(void);

/* Rows of events. */
long bench_rows(void);

#endif
