/* A PgBouncer in transaction mode in front of the suite's shared Postgres. */
#ifndef SUPPORT_BOUNCER_H
#define SUPPORT_BOUNCER_H

struct bouncer;
struct database;

/* Start one with so many server connections for each database. It dies with the test's process. */
struct bouncer *bouncer_new(int connections);

/* The conninfo of db by way of it. */
char *bouncer_conninfo(const struct bouncer *b, const struct database *db);

#endif
