/* rights.h: reads from an error which right a Redis user lacks. */
#ifndef WSONCE_REDIS_RIGHTS_H
#define WSONCE_REDIS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if the error says that the user lacks a right. out is then the missing command as in ACL SETUSER, "~"
 * for access to a key, or "?" if the error does not say. */
bool rights_read(const char *error, char *out, size_t size);

#endif
