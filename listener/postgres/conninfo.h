/* conninfo.h: libpq's connection strings, and what may be shown of them. */
#ifndef WSONCE_CONNINFO_H
#define WSONCE_CONNINFO_H

#include <stdbool.h>
#include <stddef.h>

struct pg_conn;

/* True if libpq can read this conninfo. */
bool postgres_is_conninfo(const char *conninfo);

/* Returns the settings in a conninfo as libpq's key=value pairs, with passwords as ***, on the heap. Does not include
 * libpq's defaults. */
char *postgres_redact_conninfo(const char *conninfo);

/* Copies one of libpq's error messages to out as one line, truncated to size, and masks the passwords of conn, which
 * may be NULL. Returns out. */
char *error_text_copy(struct pg_conn *conn, const char *text, char *out, size_t size);

#endif
