/* poll.h: one socket on the loop, from poll_open to poll_close. */
#ifndef WSONCE_POLL_H
#define WSONCE_POLL_H

#include <uv.h>

struct poll;

/* The socket fd is ready for events, or (status below 0) had an error, which the owner finds out by itself. */
typedef void(poll_cb)(void *arg, int fd, int status, int events);

/* Waits for nothing yet. NULL if the socket cannot be watched. */
struct poll *poll_open(uv_loop_t *loop, int fd, poll_cb *cb, void *arg);

/* From now on waits for these events (enum uv_poll_event), also after an error. Returns 0, or libuv's error. */
int poll_for(struct poll *p, int events);

/* What it waits for. */
int poll_events(const struct poll *p);

/* cb is not called any more. NULL is allowed. */
void poll_close(struct poll *p);

#endif
