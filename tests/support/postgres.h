/* A Postgres server for one test, which can be stopped, killed and frozen. It listens on a unix socket only. */
#ifndef SUPPORT_POSTGRES_H
#define SUPPORT_POSTGRES_H

struct database;
struct postgres;

/* A new server with an empty database "postgres", started and accepting connections. It is ended, and its
 * files are removed, when the test ends. */
struct postgres *postgres_new(void);

/* The same on a disk that can be filled. */
struct postgres *postgres_new_on_disk(void);

/* Until postgres_empty_disk(), tables and indexes cannot grow; existing blocks can be overwritten. */
void postgres_fill_disk(struct postgres *pg);
void postgres_empty_disk(struct postgres *pg);

/* A standby with the current contents of pg, which does not follow it further. Restarts pg with the wal_level that a
 * standby needs. The standby can be read. */
struct postgres *postgres_standby_new(struct postgres *pg);

/* Makes it a primary. */
void postgres_promote(struct postgres *pg);

/* Its conninfo, which never changes. Lives as long as pg. */
const char *postgres_conninfo(const struct postgres *pg);

/* Where its socket is: the host of its conninfo. Lives as long as pg. */
const char *postgres_directory(const struct postgres *pg);

/* Its database, for the functions of database.h. */
struct database *postgres_database(struct postgres *pg);

/* Start it again after postgres_stop or postgres_kill, and wait until it accepts connections. */
void postgres_start(struct postgres *pg);

/* Stops it cleanly ("fast": open transactions are rolled back) and waits for its end. */
void postgres_stop(struct postgres *pg);

/* Stop it at once ("immediate", without a checkpoint: the next start recovers), and wait for its end. */
void postgres_kill(struct postgres *pg);

/* postgres_stop and postgres_start. */
void postgres_restart(struct postgres *pg);

/* Freezes the server and all its children (SIGSTOP): it accepts connections but never answers. Returns when all are
 * stopped. Do not query its database meanwhile. */
void postgres_pause(struct postgres *pg);

/* Resumes a frozen server. */
void postgres_resume(struct postgres *pg);

/* Terminates all connections except the test's own. Returns their number. */
long postgres_terminate_backends(struct postgres *pg);

#endif
