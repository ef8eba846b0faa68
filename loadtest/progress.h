/* progress.h: a progress line on standard error, rewritten in place. */
#ifndef WSONCE_PROGRESS_H
#define WSONCE_PROGRESS_H

#include <stdbool.h>

/* True if standard error is a terminal. */
bool progress_is_seen(void);

/* Replaces the line. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Erases the line, so that other output does not follow it. */
void progress_end(void);

#endif
