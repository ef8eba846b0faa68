/* progress.h: shows a command's progress on a terminal. */
#ifndef WSONCE_PROGRESS_H
#define WSONCE_PROGRESS_H

/* Overwrites the last line, at most a few times a second. Does nothing if standard error is not a terminal, or in
 * dispatch_call(). */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Clears the line. Call it before you print something else. */
void progress_clear(void);

#endif
