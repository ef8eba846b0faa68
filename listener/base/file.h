/* file.h: files that settings name, such as secrets and certificates. They are read again while a listener works. */
#ifndef WSONCE_FILE_H
#define WSONCE_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* Opens a file for reading. NULL and errno if it cannot be, is a directory, or is larger than 64 MiB. */
FILE *file_open(const char *path);

/* Can it be opened so? If not, errno says why. */
bool file_is_readable(const char *path);

/* From now on only regular files are opened, errno EOPNOTSUPP: a pipe or a terminal could keep the loop waiting. */
void file_keep_plain(void);

#endif
