/* A TCP relay with TLS on one of its sides, so that the plain feeds and producers of this library can
 * also be met by wss://. */
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

struct certificate;
struct relay;

/* Take TLS connections on a free loopback port as this server, and pass their bytes on to to_port. */
struct relay *relay_new_in_front(int to_port, const struct certificate *server);

/* The same, for clients alone that show a certificate which authority has signed. */
struct relay *relay_new_asking(int to_port, const struct certificate *server, const struct certificate *authority);

/* Take plain connections on a free loopback port and pass their bytes on by TLS to to_port, whose
 * certificate this authority must have signed for "localhost"; otherwise the connection is cut. */
struct relay *relay_new_towards(int to_port, const struct certificate *authority);

/* The same, showing this certificate of its own. */
struct relay *relay_new_as(int to_port, const struct certificate *authority, const struct certificate *client);

int relay_port(const struct relay *r);

/* End the thread, cut all connections, free r. NULL is allowed. */
void relay_free(struct relay *r);

#endif
