/* What tests/support/run prepared for this run of the suite, and the directory of the one test that
 * runs in this process. Each test is a process of its own: what it has allocated and started ends with it, by itself.
 * Texts that this library hands out are not to be freed. */
#ifndef SUPPORT_SUITE_H
#define SUPPORT_SUITE_H

#include <stdarg.h>

/* The value of an environment variable that tests/support/run sets; the test fails when it is not
 * there. */
const char *suite_env(const char *name);

/* A directory for this test (process) alone, made at the first call, readable by all, removed with
 * everything else when the run ends. */
const char *suite_directory(void);

/* A text of any length. */
char *suite_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *suite_vtext(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

/* The path of a file or folder of the given printf-like name in suite_directory(). The file is not
 * made. */
char *suite_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Write text to the file of that name in suite_directory(). Returns its path; */
char *suite_file(const char *name, const char *text);

/* A new number for each call in this process, from 1: names of files and databases. */
int suite_number(void);

/* Call end for thing when this test's process ends, however the test went; the last one is the first. */
void suite_at_end(void (*end)(void *thing), void *thing);

/* Remove the file or folder at path, with all that is in it; nothing happens if there is none. */
void suite_remove(const char *path);

#endif
