/* complaint.h: what libpq says is wrong, fit to be shown. */
#ifndef WSONCE_COMPLAINT_H
#define WSONCE_COMPLAINT_H

#include <stddef.h>

struct pg_conn;

/* Copies text to out, as one line and cut off where there is no more room, and hides the passwords of the connection in
 * it. conn may be NULL. Returns out. */
char *complaint_copy(struct pg_conn *conn, const char *text, char *out, size_t size);

#endif
