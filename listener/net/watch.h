/* watch.h: the poll handles that libwebsockets makes on our loop. */
#ifndef WSONCE_WATCH_H
#define WSONCE_WATCH_H

#include <stdbool.h>
#include <uv.h>

/* The handle by which the loop waits for this socket, or NULL. */
uv_poll_t *watch_find(uv_loop_t *loop, int fd);

/* Puts cb in the place of a handle's callback, and leaves what it waits for as it is. Returns the one before. */
uv_poll_cb watch_replace(uv_poll_t *poll, uv_poll_cb cb);

/* Is cb its callback? */
bool watch_is(const uv_poll_t *poll, uv_poll_cb cb);

#endif
