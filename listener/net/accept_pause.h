/* accept_pause.h: accepting connections, or not for a while. */
#ifndef WSONCE_ACCEPT_PAUSE_H
#define WSONCE_ACCEPT_PAUSE_H

#include <uv.h>

struct accept_pause;

/* Watches over the listening sockets on this port, 0 for a Unix socket, that libwebsockets waits for on this loop:
 * while the process or the system has no file descriptor left, nothing is accepted. There is one gate in a process.
 * NULL if there is no such socket. */
struct accept_pause *accept_pause_open(uv_loop_t *loop, int port);

/* libwebsockets may have begun to wait anew, without us: called once a turn of the loop. NULL is allowed. */
void accept_pause_hook(struct accept_pause *g);

/* Before libwebsockets closes the socket. NULL is allowed. The memory goes with the loop. */
void accept_pause_close(struct accept_pause *g);

#endif
