/* checkpoint.h: how far a file has been replayed, in a file of its own: one JSON object. */
#ifndef WSONCE_CHECKPOINT_H
#define WSONCE_CHECKPOINT_H

#include <jansson.h>

/* Reads the object: its "offset" is a number of bytes, its other members are texts. Returns an object without members
 * if there is no such file; or NULL after printing why. */
json_t *checkpoint_read(const char *path);

/* Replaces the file atomically, even if the power fails. Returns 0; or -1 after printing why. */
int checkpoint_write(const char *path, const json_t *checkpoint);

#endif
