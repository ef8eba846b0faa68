/* checkpoint.h: how far a file has been replayed, kept in a file that survives a kill. */
#ifndef WSONCE_CHECKPOINT_H
#define WSONCE_CHECKPOINT_H

#include <stdint.h>

/* Where to go on, and in which file, for which database and consumer. */
struct checkpoint {
	uint64_t offset;
	char fingerprint[65]; /* of the file's beginning */
	char before[65];      /* fingerprint of the bytes before the offset; "": of a pipe */
	char database[65];    /* its id; "": in checkpoints of version 0.1 */
	char epoch[20];       /* of the database, or how many commits an SQLite file had; "": in older checkpoints */
	char consumer[257];
};

/* Reads it. Returns 0, with offset 0 if there is none yet; or -1 after saying why. */
int checkpoint_read(const char *path, struct checkpoint *c);

/* Writes it. Readers find the old one or the new one, whole, also after a power cut. Returns 0; or -1 after saying why.
 */
int checkpoint_write(const char *path, const struct checkpoint *c);

#endif
