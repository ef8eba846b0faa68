/* A TCP relay with TLS on one side, so that this library's plain feeds and producers can be reached by wss://. */
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

struct certificate;
struct relay;

/* Accepts TLS connections on a free loopback port with this certificate, and relays them to to_port. */
struct relay *relay_new_in_front(int to_port, const struct certificate *server);

/* The same, but only for clients with a certificate signed by authority. */
struct relay *relay_new_asking(int to_port, const struct certificate *server, const struct certificate *authority);

/* Accepts plain connections on a free loopback port and relays them by TLS to to_port. Its certificate must be signed
 * by this authority for "localhost"; otherwise the connection is dropped. */
struct relay *relay_new_towards(int to_port, const struct certificate *authority);

/* The same, with this client certificate. */
struct relay *relay_new_as(int to_port, const struct certificate *authority, const struct certificate *client);

int relay_port(const struct relay *r);

/* End the thread, cut all connections, free r. NULL is allowed. */
void relay_free(struct relay *r);

#endif
