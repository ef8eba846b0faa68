/* port.h: the port in the address of a socket, and whose address it is. */
#ifndef WSONCE_PORT_H
#define WSONCE_PORT_H

#include <stdint.h>
#include <sys/socket.h>

/* In host byte order; 0 of a unix socket. */
int port_of(const struct sockaddr_storage *address);

/* Of the socket's own end; -1 if it has none. */
int port_of_socket(int fd);

/* The address of the peer of a socket: an IPv4 address, or the first 64 bits of an IPv6 address, which are one
 * customer's. 0 if it has none, as the peer of a Unix socket. */
uint64_t port_peer_key(int fd);

#endif
