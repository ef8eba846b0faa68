/* What tests/support/run has prepared for this run of the suite, and the directory of this process's test. Each test
 * is a process of its own, whose memory and programs are released when it ends. Don't free texts returned by this
 * library. */
#ifndef SUPPORT_SUITE_H
#define SUPPORT_SUITE_H

#include <stdarg.h>

/* The value of an environment variable that tests/support/run sets; the test fails when it is not
 * there. */
const char *suite_env(const char *name);

/* A directory for this test (process), made at the first call, readable by all, and removed when the run ends. */
const char *suite_directory(void);

/* A text of any length. */
char *suite_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *suite_vtext(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

/* The path of a file or folder with this printf-like name in suite_directory(). Does not create it. */
char *suite_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes text to the file of that name in suite_directory(). Returns its path. */
char *suite_file(const char *name, const char *text);

/* The text of a file, at most 64 KiB of it; with blanks for NULs. The test fails if it cannot be read. */
char *suite_read(const char *path);

/* A new number for each call in this process, from 1: names of files and databases. */
int suite_number(void);

/* Calls end(thing) when this test's process ends, even if the test fails; in reverse order. */
void suite_at_end(void (*end)(void *thing), void *thing);

/* Removes the file or folder at path with its contents; does nothing if there is none. */
void suite_remove(const char *path);

#endif
