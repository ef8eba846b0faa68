/* A WebSocket feed inside the test: the server that listeners connect to as --source. Its own thread serves the
 * clients and queues what they do not read yet, so no call here waits for a client unless it says so. */
#ifndef SUPPORT_FEED_H
#define SUPPORT_FEED_H

#include <stdbool.h>
#include <stddef.h>

struct feed;

/* A feed on a free loopback port. feed_free ends it. */
struct feed *feed_new(void);

/* A feed on this port, of port_reserve() or of a feed that was freed. */
struct feed *feed_new_at(int port);

/* Its port. */
int feed_port(const struct feed *f);

/* ws://127.0.0.1:PORT/feed. Lives as long as f. Any path is accepted. */
const char *feed_url(const struct feed *f);

/* Wait until at least n clients are connected, handshake done. False if not within deadline_ms
 * (stretched). */
bool feed_wait_clients(struct feed *f, int n, int deadline_ms);

/* Sends a text message to all connected clients. */
void feed_send_text(struct feed *f, const char *text);

/* The same with a printf-like text. */
void feed_sendf(struct feed *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From now on, clients whose handshake has this text are sent nothing, until another text, or NULL, is set. */
void feed_mute(struct feed *f, const char *text);

/* Sends one frame to all connected clients; opcode is an enum frame_opcode, or an invalid one. */
void feed_send(struct feed *f, int opcode, bool fin, const void *bytes, size_t len);

/* Sends raw bytes to all connected clients: broken frames, half frames. */
void feed_send_raw(struct feed *f, const void *bytes, size_t len);

/* Waits until everything was passed to the clients' sockets (clients may not have read it). False if not within
 * deadline_ms (stretched). */
bool feed_flush(struct feed *f, int deadline_ms);

/* Resets the connections of all clients, and discards queued data. */
void feed_drop_all(struct feed *f);

/* Send a close frame with this code to all; each connection ends when the client has answered. */
void feed_close_all(struct feed *f, int code);

/* From now on, answers handshakes with this HTTP status and closes; 0 accepts them again. */
void feed_refuse(struct feed *f, int http_status);

/* From now on, adds these header lines, each ending in CRLF, to the answer that accepts. */
void feed_accept_with(struct feed *f, const char *lines);

/* From now on, answers handshakes for paths with this prefix with this text, and closes. NULL: accepts them, and
 * closes the connection at once, without a close frame. */
void feed_answer(struct feed *f, const char *path, const char *answer);

/* Turns the answering of pings on (the default) or off. */
void feed_answer_pings(struct feed *f, bool answer);

/* Freezes the feed: it does not accept, read or write, but keeps all connections. feed_thaw continues. */
void feed_freeze(struct feed *f);
void feed_thaw(struct feed *f);

/* Counts: completed handshakes, open connections, text and binary frames and pings received from clients,
 * refused handshakes. */
int feed_connections(struct feed *f);
int feed_clients(struct feed *f);
long feed_received(struct feed *f);
long feed_pings(struct feed *f);
int feed_refusals(struct feed *f);

/* Has a client sent a message that contains this text? */
bool feed_has_heard(struct feed *f, const char *text);
bool feed_has_heard_bytes(struct feed *f, const char *bytes, size_t len);

/* The feed is also a proxy to itself: the number of CONNECT requests. */
int feed_tunnels(struct feed *f);

/* The header of the last handshake request, or NULL before the first. */
char *feed_request(struct feed *f);

/* End the thread, cut all connections (RST), close the port, free f. NULL is allowed. */
void feed_free(struct feed *f);

#endif
