/* error_text.h: makes libpq's error messages fit for logs and pages. */
#ifndef WSONCE_ERROR_TEXT_H
#define WSONCE_ERROR_TEXT_H

#include <stddef.h>

struct pg_conn;

/* Copies text to out as one line, truncated to size, and masks the passwords of conn, which may be NULL. Returns
 * out. */
char *error_text_copy(struct pg_conn *conn, const char *text, char *out, size_t size);

#endif
