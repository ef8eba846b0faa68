/* session_file.h: an SQLite file for a command, whose rows are read as those of Postgres are. Only session.c uses it.
 */
#ifndef WSONCE_SESSION_FILE_H
#define WSONCE_SESSION_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct pg_result;
struct session_file;

/* Opens the file of wsonce, which is made if there is none and may_create. NULL after saying why. */
struct session_file *session_file_open(const char *path, bool may_create);
void session_file_close(struct session_file *f);

/* Runs statements in one transaction, unless one is open, with the texts as ?1 to ?n in each. Returns the rows of the
 * last one that has any; or NULL after saying why. */
struct pg_result *session_file_ask(struct session_file *f, const char *sql, int n, const char *const *values);

/* The same without saying why: session_file_why does. */
struct pg_result *session_file_try(struct session_file *f, const char *sql, int n, const char *const *values);
const char *session_file_why(const struct session_file *f);

/* Takes lines in the text form of COPY, each as the parameters of sql, in one transaction from begin to end. Each
 * returns 0, or -1 after saying why. */
int session_file_copy_begin(struct session_file *f, const char *sql);
int session_file_copy_put(struct session_file *f, const char *bytes, size_t len);
int session_file_copy_end(struct session_file *f);

#endif
