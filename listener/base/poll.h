/* poll.h: watches one socket on the loop. */
#ifndef WSONCE_POLL_H
#define WSONCE_POLL_H

#include <uv.h>

struct poll;

/* Called when fd is ready for events, or with a status below 0 after an error, which the owner looks up itself. */
typedef void(poll_cb)(void *arg, int fd, int status, int events);

/* Watches fd, for no events yet. Returns NULL if the socket cannot be watched. */
struct poll *poll_open(uv_loop_t *loop, int fd, poll_cb *cb, void *arg);

/* Sets the events to wait for (enum uv_poll_event). They stay set after an error. Returns 0, or libuv's error. */
int poll_for(struct poll *p, int events);

/* Returns the events it waits for. */
int poll_events(const struct poll *p);

/* Ends the watch; cb is no longer called. p may be NULL. */
void poll_close(struct poll *p);

#endif
