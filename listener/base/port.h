/* port.h: the port in the address of a socket. */
#ifndef WSONCE_PORT_H
#define WSONCE_PORT_H

#include <sys/socket.h>

/* In host byte order; 0 of a unix socket. */
int port_of(const struct sockaddr_storage *address);

/* Of the socket's own end; -1 if it has none. */
int port_of_socket(int fd);

#endif
