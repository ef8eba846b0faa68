/* port.h: the port in a socket's address, and a key for its peer. */
#ifndef WSONCE_PORT_H
#define WSONCE_PORT_H

#include <stdint.h>
#include <sys/socket.h>

/* Returns the port in host byte order, or 0 for a Unix socket. */
int port_of(const struct sockaddr_storage *address);

/* Returns the port of the socket's own end, 0 for a Unix socket, or -1 on error. */
int port_of_socket(int fd);

/* Returns a number for the peer of a socket: its IPv4 address, or the first 64 bits of its IPv6 address, which usually
 * belong to one customer. 0 if the peer has no address, as on a Unix socket. */
uint64_t port_peer_key(int fd);

/* Writes the address of a key, with zeros for the rest of an IPv6 address, into room of PORT_KEY_TEXT bytes. Returns
 * room, or NULL for 0. */
#define PORT_KEY_TEXT 46
const char *port_key_text(uint64_t key, char *room);

#endif
