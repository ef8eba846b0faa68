/* recording.h: what a profile makes of a recording, for `wsonce try --frames`. */
#ifndef WSONCE_RECORDING_H
#define WSONCE_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "config/profile.h"

/* Reads the file, a frame a line, and prints what was found in it as one JSON object. starts: the lines with which
 * connections begin, count of them. Returns an exit status, after saying why it is
 * not STATUS_FINE. */
int recording_try(const struct profile *p, const char *path, const int64_t *starts, size_t count, int64_t now_s);

#endif
