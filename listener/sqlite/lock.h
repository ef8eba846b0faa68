/* lock.h: a lock between the processes of a host. No call waits. */
#ifndef WSONCE_SQLITE_LOCK_H
#define WSONCE_SQLITE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_lock;

/* Returns lock `number` of the SQLite file at path. The lock is in PATH-leases, which is created if missing. */
struct sqlite_lock *sqlite_lock_new(const char *path, uint64_t number);

/* Tries to take the lock. Returns true if we hold it, until the process ends or the file is deleted. */
bool sqlite_lock_take(struct sqlite_lock *l);

/* Releases the lock. */
void sqlite_lock_free(struct sqlite_lock *l);

#endif
