/* rights.h: what a user of Redis may not do, by what Redis says. */
#ifndef WSONCE_REDIS_RIGHTS_H
#define WSONCE_REDIS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

/* Does this error say that the user lacks a right? out then has the command that it lacks, as in ACL SETUSER, with "~"
 * for the right to a key, and "?" if the error does not tell. */
bool rights_read(const char *error, char *out, size_t size);

#endif
