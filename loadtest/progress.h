/* progress.h: one line on standard error that is rewritten while work goes on. */
#ifndef WSONCE_PROGRESS_H
#define WSONCE_PROGRESS_H

#include <stdbool.h>

/* Whether anybody would see it. */
bool progress_is_seen(void);

/* Replaces the line. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the line away, so that a result does not begin behind it. */
void progress_end(void);

#endif
