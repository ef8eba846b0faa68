/* segments.h: a directory of segments (docs/spool.md): its lock, and the writing of a recording into it. */
#ifndef WSONCE_SEGMENTS_H
#define WSONCE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segments;

/* Locks the directory, as a listener does. Returns the file descriptor of the lock, or -1 after printing why. */
int segments_lock(const char *dir);

/* Opens a directory, and creates it if it does not exist. source is the name in each record; both must outlive this. A
 * new segment begins after rotate_us microseconds. Returns NULL after printing why. */
struct segments *segments_open(const char *dir, const char *source, int64_t rotate_us);
/* Writes a message. Returns false if that fails; errno says why. */
bool segments_add(struct segments *s, const char *message, size_t len);
/* Ends the last segment. Returns 0, or -1 if it cannot be written; errno says why. */
int segments_close(struct segments *s);

#endif
