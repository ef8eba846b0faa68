/* file.h: opens the files that settings name, such as secrets and certificates. */
#ifndef WSONCE_FILE_H
#define WSONCE_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* Opens a file for reading. Returns NULL and errno if it cannot be opened, is a directory, or exceeds 64 MiB. */
FILE *file_open(const char *path);

/* Returns the whole file, followed by a NUL, on the heap. Returns NULL and errno like file_open, or with EFBIG if the
 * file has more than `most` bytes. */
char *file_read(const char *path, size_t most, size_t *len);

/* Returns path on the heap. A relative path is taken as relative to the folder of file. */
char *file_beside(const char *file, const char *path);

/* True if a library can open this file by its name: it is regular, since opening or reading another may block. If not,
 * errno says why: EOPNOTSUPP if the file is not regular. */
bool file_is_readable(const char *path);

/* From now on, file_open fails with EOPNOTSUPP if a file is not regular: a pipe or a terminal could block the loop. */
void file_keep_plain(void);

#endif
