/* recording.h: what a profile makes of a recording, for `wsonce try --frames`. */
#ifndef WSONCE_RECORDING_H
#define WSONCE_RECORDING_H

#include <stdint.h>

#include "config/profile.h"

/* Reads the file (-: standard input), a frame per line or record, and prints what was found in it as one JSON object.
 * starts are the numbers of the lines with which connections begin, ascending, with commas between. Returns an exit
 * status, after printing why it is not STATUS_FINE. */
int recording_try(const struct profile *p, const char *path, const char *starts, int64_t now_s);

#endif
