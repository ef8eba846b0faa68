/* A PgBouncer in front of the suite's shared Postgres. */
#ifndef SUPPORT_BOUNCER_H
#define SUPPORT_BOUNCER_H

struct bouncer;
struct database;

/* Starts one in transaction mode with this many server connections per database. It dies with the test's process. */
struct bouncer *bouncer_new(int connections);

/* The same with another pool_mode: session or statement. */
struct bouncer *bouncer_in_mode_new(int connections, const char *mode);

/* The conninfo of db through the PgBouncer. */
char *bouncer_conninfo(const struct bouncer *b, const struct database *db);

#endif
