/* asker.h: commands that a page asks, each run in a process of its own, so that none holds up the others or the loop.
 */
#ifndef WSONCE_ASKER_H
#define WSONCE_ASKER_H

#include <stddef.h>
#include <uv.h>

#include "config/config.h"

struct asker;

/* A command, without "wsonce", and how long it may take. */
struct question {
	char **words;
	int word_count;
	unsigned int limit_s;
	bool changes; /* something: else it may not even bring the schema up to date */
};

/* What it printed, and what it complained of; both live for the call, and end by NUL. status: its exit status, -1 if it
 * did not end in time, or had too much to say. */
typedef void asker_cb(void *arg, int status, const char *text, const char *complaint);

/* Forks the process that forks the others, to be called before the program has threads or a loop. NULL if that fails,
 * and errno says why. config must outlive it. */
struct asker *asker_fork(const struct config *config);

/* From here on answers come from this loop. */
void asker_start(struct asker *a, uv_loop_t *loop);

/* Returns 0, and calls cb exactly once, later, never from inside this call, unless the asker is closed before; or
 * returns -1 if too many questions wait, and never calls it. words are copied. */
int asker_ask(struct asker *a, const struct question *q, asker_cb *cb, void *arg);

/* Answers that are not there do not come any more; what is asked ends. The loop must be run until it has nothing more
 * to do. */
void asker_close(struct asker *a);

/* After the loop has ended. NULL is allowed. */
void asker_free(struct asker *a);

#endif
