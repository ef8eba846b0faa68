/* session_file.h: a command's SQLite file, whose rows are read like those of Postgres. Only for session.c. */
#ifndef WSONCE_SESSION_FILE_H
#define WSONCE_SESSION_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/session.h"

struct sqlite_file;

/* Opens the file; creates a missing one if may_create. Waits for other writers, but not beyond until_ms (monotonic; 0:
 * no limit). Returns NULL with the reason in why, SQLITE_FILE_WHY bytes. */
struct sqlite_file *session_file_open(const char *path, bool may_create, int64_t until_ms, char *why);

/* Runs statements in a transaction of their own, or in the open one, with the values as ?1 to ?n in each. Returns the
 * rows of the last one that has any; or NULL, and sqlite_file_why has the reason. until_ms: as above. */
struct pg_result *session_file_ask(struct sqlite_file *f, const char *sql, int n, const char *const *values,
				   int64_t until_ms);

/* Runs statements outside of a transaction, and passes their rows to take one by one, as session_each_row does. Returns
 * 0; or -1, and sqlite_file_why has the reason. */
int session_file_each(struct sqlite_file *f, const char *sql, int n, const char *const *values, session_row_fn *take,
		      void *arg);

#endif
