/* redact.h: a conninfo without its secrets. */
#ifndef WSONCE_POSTGRES_REDACT_H
#define WSONCE_POSTGRES_REDACT_H

/* Returns the settings of a conninfo as key=value pairs in libpq's form, on the heap, passwords as ***. libpq's
 * defaults are not included. */
char *postgres_redact_conninfo(const char *conninfo);

#endif
