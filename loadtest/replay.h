/* replay.h: a recorded feed; each line of the file is a message. */
#ifndef WSONCE_REPLAY_H
#define WSONCE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

struct replay;

/* NULL if the file cannot be opened; errno says why. */
struct replay *replay_open(const char *path);

/* The next non-empty line, without its line end; false after the last. text lives until the next
 * call. */
bool replay_next(struct replay *r, const char **text, size_t *len);

void replay_close(struct replay *r);

#endif
