/* lock.h: a lock between the processes of a host. No call waits. */
#ifndef WSONCE_SQLITE_LOCK_H
#define WSONCE_SQLITE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_lock;

/* The lock with this number for the SQLite file at this path. It lies in PATH-leases, which is created if missing. */
struct sqlite_lock *sqlite_lock_new(const char *path, uint64_t number);

/* Tries to take the lock. Returns whether we hold it; we do until the process ends or somebody deletes the file. */
bool sqlite_lock_take(struct sqlite_lock *l);

/* Releases the lock. */
void sqlite_lock_free(struct sqlite_lock *l);

#endif
