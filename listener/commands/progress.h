/* progress.h: how far a command has come, shown on a terminal only. */
#ifndef WSONCE_PROGRESS_H
#define WSONCE_PROGRESS_H

/* Writes a line over the last one, at most a few times a second. Does nothing if standard error is not a terminal. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Clears the line, before something else is printed. */
void progress_clear(void);

#endif
