/* migrate.h: creates the indexes that only commands need. */
#ifndef WSONCE_MIGRATE_H
#define WSONCE_MIGRATE_H

struct session;

/* Creates the missing indexes if this role may, without blocking writers. Commands work without them, but take longer.
 * Returns 0; or another value after printing why. Not for a file. */
int migrate_indexes(struct session *s);

#endif
