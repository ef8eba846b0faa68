/* watch.h: access to the poll handles that libwebsockets creates on our loop. */
#ifndef WSONCE_WATCH_H
#define WSONCE_WATCH_H

#include <stdbool.h>
#include <uv.h>

/* Returns the poll handle of this socket, or NULL. */
uv_poll_t *watch_find(uv_loop_t *loop, int fd);

/* Replaces the callback of a handle but not its events. Returns the old callback. */
uv_poll_cb watch_replace(uv_poll_t *poll, uv_poll_cb cb);

/* Is cb the handle's callback? */
bool watch_is(const uv_poll_t *poll, uv_poll_cb cb);

#endif
