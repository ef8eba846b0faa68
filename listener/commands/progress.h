/* progress.h: how far a command is, on a terminal only. */
#ifndef WSONCE_PROGRESS_H
#define WSONCE_PROGRESS_H

/* Writes one line over the last one, a few times a second at most. Nothing if standard error is no
 * terminal. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the line away, before something else is printed. */
void progress_clear(void);

#endif
