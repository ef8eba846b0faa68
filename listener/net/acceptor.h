/* acceptor.h: listens at an address of the settings and accepts connections. */
#ifndef WSONCE_ACCEPTOR_H
#define WSONCE_ACCEPTOR_H

#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

/* Returns a non-blocking socket bound to ADDR:PORT or unix:PATH that does not listen yet; the caller closes it. * and
 * :: are all IPv4 and IPv6 addresses, localhost is 127.0.0.1. Replaces a socket at PATH. Returns -1 and sets errno on
 * failure. */
int bound_socket(const char *address);
/* Describes that errno. */
const char *bound_socket_error(int error);

struct acceptor;

/* Called from the loop with a new connection, a non-blocking socket, which the owner closes. Returns false to
 * accept no more in this turn of the loop. */
typedef bool acceptor_cb(void *owner, int fd, const struct sockaddr *peer, socklen_t len);

/* Listens at an address as above. flag is the setting with the address, which must outlive the acceptor. On failure
 * returns NULL with a sentence in error. */
struct acceptor *acceptor_open(uv_loop_t *loop, const char *flag, const char *address, acceptor_cb *cb, void *owner,
			       char *error, size_t size);

/* Returns the port in use, 0 for a Unix socket. */
int acceptor_port(const struct acceptor *a);

/* Stops listening. a is freed with the loop. NULL is allowed. */
void acceptor_close(struct acceptor *a);

#endif
