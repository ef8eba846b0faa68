/* checkpoint.h: how far a file has been replayed, in a file of its own that survives a kill. */
#ifndef WSONCE_CHECKPOINT_H
#define WSONCE_CHECKPOINT_H

#include <stdint.h>

/* Reads it. Returns 0 with offset 0 if there is none yet; or -1 after saying why. */
int checkpoint_read(const char *path, uint64_t *offset, char fingerprint[65]);

/* Writes it: whoever reads it finds the old one or the new one, whole, also after a power cut. Returns
 * -1 after saying why. */
int checkpoint_write(const char *path, uint64_t offset, const char *fingerprint);

#endif
