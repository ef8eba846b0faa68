/* session_file.h: an SQLite file for a command, whose rows are read as those of Postgres are. Only for session.c. */
#ifndef WSONCE_SESSION_FILE_H
#define WSONCE_SESSION_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct pg_result;
struct session_file;

/* Opens the file; creates it if there is none and may_create. NULL: why, SQLITE_FILE_WHY bytes, has the reason. */
struct session_file *session_file_open(const char *path, bool may_create, char *why);
void session_file_close(struct session_file *f);

/* Runs statements in one transaction, unless one is open, with the texts as ?1 to ?n in each. Returns the rows of the
 * last one that has any; or NULL, and session_file_why has the reason. */
struct pg_result *session_file_ask(struct session_file *f, const char *sql, int n, const char *const *values);

/* Runs one statement, which is prepared once, in the open transaction. Returns 0 or -1, as above. */
int session_file_put(struct session_file *f, const char *sql, const struct slice *fields, int n);

const char *session_file_why(const struct session_file *f);

#endif
