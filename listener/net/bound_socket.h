/* bound_socket.h: binds a socket to an address from the settings. */
#ifndef WSONCE_BOUND_SOCKET_H
#define WSONCE_BOUND_SOCKET_H

#include <stddef.h>

/* Returns a non-blocking socket bound to ADDR:PORT or unix:PATH that does not listen yet; the caller closes it. * and
 * :: are all IPv4 and IPv6 addresses, localhost is 127.0.0.1. Replaces a socket at PATH. Returns -1 and sets errno on
 * failure. */
int bound_socket(const char *address);

/* Describes that errno. */
const char *bound_socket_error(int error);

/* Like bound_socket, but listens. flag is the setting with the address. On failure sets error to a sentence. */
int listening_socket(const char *flag, const char *address, char *error, size_t size);

#endif
