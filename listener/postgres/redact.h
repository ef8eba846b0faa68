/* redact.h: a conninfo without its secrets. */
#ifndef WSONCE_POSTGRES_REDACT_H
#define WSONCE_POSTGRES_REDACT_H

/* Returns the settings in a conninfo as libpq's key=value pairs, with passwords as ***, on the heap. Does not include
 * libpq's defaults. */
char *postgres_redact_conninfo(const char *conninfo);

#endif
