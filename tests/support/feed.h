/* A WebSocket feed inside the test: the server that listeners dial as --source. A thread of its own
 * serves any number of clients and queues what they do not take yet, so no call here waits for a
 * client, unless it says so.
 *
 * Clients are numbered from 0 in the order in which they connected; a number is never used again. */
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

/* Send a text message to all who are connected now. */
void feed_send_text(struct feed *f, const char *text);

/* The same with a printf-like text. */
void feed_sendf(struct feed *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Send one frame to all who are connected now; opcode is an enum frame_opcode, or a wrong one. */
void feed_send(struct feed *f, int opcode, bool fin, const void *bytes, size_t len);

/* Send one frame to one client; nothing happens if it has gone. */
void feed_send_to(struct feed *f, int client, int opcode, bool fin, const void *bytes, size_t len);

/* Send bytes as they are to all who are connected now: broken frames, half frames. */
void feed_send_raw(struct feed *f, const void *bytes, size_t len);

/* Wait until all that was sent has left for the clients' sockets (they may not have read it yet). False if
 * not within deadline_ms (stretched). */
bool feed_flush(struct feed *f, int deadline_ms);

/* Cut the connection of one client, or of all, by RST; what is queued for them is thrown away. */
void feed_drop(struct feed *f, int client);
void feed_drop_all(struct feed *f);

/* Send a close frame with this code to all; each connection ends when the client has answered. */
void feed_close_all(struct feed *f, int code);

/* From now on answer handshakes by this HTTP status and close; 0 accepts them again. */
void feed_refuse(struct feed *f, int http_status);

/* From now on these header lines, each ended by CRLF, are among those of the answer that accepts. */
void feed_accept_with(struct feed *f, const char *lines);

/* From now on handshakes for paths that begin so are answered by this text, and closed. */
void feed_answer(struct feed *f, const char *path, const char *answer);

/* Whether pings are answered (they are at first). */
void feed_answer_pings(struct feed *f, bool answer);

/* Stand still: neither accept, read nor write, with all connections open. feed_thaw goes on. */
void feed_freeze(struct feed *f);
void feed_thaw(struct feed *f);

/* Counts. Connections of all time (handshake done), those open now, text and binary frames and pings
 * that clients sent, bytes sent here but not yet taken by the kernel, refused handshakes. */
int feed_connections(struct feed *f);
int feed_clients(struct feed *f);
long feed_received(struct feed *f);
long feed_pings(struct feed *f);
size_t feed_backlog(struct feed *f);
int feed_refusals(struct feed *f);

/* Has a client sent this text, as a message or in one? */
bool feed_has_heard(struct feed *f, const char *text);

/* The feed is a proxy to itself, too: how many connections were asked for by CONNECT. */
int feed_tunnels(struct feed *f);

/* The head of the latest handshake request, or NULL before the first. */
char *feed_request(struct feed *f);

/* End the thread, cut all connections (RST), close the port, free f. NULL is allowed. */
void feed_free(struct feed *f);

#endif
