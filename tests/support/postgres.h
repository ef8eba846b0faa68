/* A Postgres server for one test alone, to be stopped, killed and frozen; on a unix socket only. */
#ifndef SUPPORT_POSTGRES_H
#define SUPPORT_POSTGRES_H

struct database;
struct postgres;

/* A new server with an empty database "postgres", started and accepting connections. It is ended, and its
 * files are removed, when the test ends. */
struct postgres *postgres_new(void);

/* The same on a disk that can be filled. */
struct postgres *postgres_new_on_disk(void);

/* Until postgres_empty_disk() no table and no index of it can grow; what is there can be overwritten. */
void postgres_fill_disk(struct postgres *pg);
void postgres_empty_disk(struct postgres *pg);

/* A standby of pg as it is now, which follows it no further: what is committed from here on it never has.
 * pg is restarted, with the WAL that a standby needs. Its database can be read. */
struct postgres *postgres_standby_new(struct postgres *pg);

/* Makes it a primary. */
void postgres_promote(struct postgres *pg);

/* Its conninfo, the same for all its life. Lives as long as pg. */
const char *postgres_conninfo(const struct postgres *pg);

/* Where its socket is: the host of its conninfo. Lives as long as pg. */
const char *postgres_directory(const struct postgres *pg);

/* Its database, for the questions of database.h. */
struct database *postgres_database(struct postgres *pg);

/* Start it again after postgres_stop or postgres_kill, and wait until it accepts connections. */
void postgres_start(struct postgres *pg);

/* Stop it in order ("fast": open transactions are rolled back), and wait for its end. */
void postgres_stop(struct postgres *pg);

/* Stop it at once ("immediate", without a checkpoint: the next start recovers), and wait for its end. */
void postgres_kill(struct postgres *pg);

/* postgres_stop and postgres_start. */
void postgres_restart(struct postgres *pg);

/* Freeze the server and all its children (SIGSTOP): it takes connections and never answers. Returns
 * when all stand still. Do not ask its database meanwhile. */
void postgres_pause(struct postgres *pg);

/* Let a frozen server go on. */
void postgres_resume(struct postgres *pg);

/* End the connections of everybody but the test itself. Returns how many. */
long postgres_terminate_backends(struct postgres *pg);

#endif
