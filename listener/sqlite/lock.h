/* lock.h: a lock among the processes of a host, which the kernel keeps. No call waits. */
#ifndef WSONCE_SQLITE_LOCK_H
#define WSONCE_SQLITE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_lock;

/* The lock of this number beside the SQLite file of this path: in PATH-leases, which is made if it is not there. */
struct sqlite_lock *sqlite_lock_new(const char *path, uint64_t number);

/* Takes it, unless it is taken. Returns whether it is ours; which it is until the end of the process, or until somebody
 * deletes the file. */
bool sqlite_lock_take(struct sqlite_lock *l);

/* Lets go of it. */
void sqlite_lock_free(struct sqlite_lock *l);

#endif
