/* accept_pause.h: pauses accepting while the process is out of file descriptors. */
#ifndef WSONCE_ACCEPT_PAUSE_H
#define WSONCE_ACCEPT_PAUSE_H

#include <uv.h>

struct accept_pause;

/* Watches libwebsockets' listening sockets on this port of the loop; port 0 is a Unix socket. While the process or the
 * system has no file descriptor left, no connection is accepted. Only one may exist per process. Returns NULL if there
 * is no such socket. */
struct accept_pause *accept_pause_open(uv_loop_t *loop, int port);

/* Call once per turn of the loop, because libwebsockets may have restarted its poll handles. NULL is allowed. */
void accept_pause_hook(struct accept_pause *g);

/* Call before libwebsockets closes the socket. NULL is allowed. The memory is freed with the loop. */
void accept_pause_close(struct accept_pause *g);

#endif
