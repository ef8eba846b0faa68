/* bound_socket.h: a socket at an address of the settings. */
#ifndef WSONCE_BOUND_SOCKET_H
#define WSONCE_BOUND_SOCKET_H

/* A socket that is bound to ADDR:PORT or unix:PATH, does not block, and does not listen yet. * and :: are all addresses
 * of both versions of IP, localhost is 127.0.0.1. A socket at PATH is replaced. The caller closes it. Returns -1, and
 * errno says why. */
int bound_socket(const char *address);

/* That errno as a text. */
const char *bound_socket_error(int error);

#endif
