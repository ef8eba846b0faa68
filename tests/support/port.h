/* Loopback TCP ports: reserving one, listening, connecting. */
#ifndef SUPPORT_PORT_H
#define SUPPORT_PORT_H

/* A free port on 127.0.0.1 that no other test on the same machine gets while this process lives. Fails the test if
 * there is none. */
int port_reserve(void);

/* A socket that listens on 127.0.0.1:port, non-blocking, closed on exec. Fails the test if it cannot. */
int port_listen(int port);

/* A non-blocking socket connected to 127.0.0.1:port, closed on exec, or -1 with errno set: refused,
 * or ETIMEDOUT after deadline_ms (stretched). The caller closes it. */
int port_connect(int port, int deadline_ms);

/* A blocking socket connected to 127.0.0.1:port from this address of loopback. Fails the test if it is refused. */
int port_connect_from(const char *address, int port);

#endif
