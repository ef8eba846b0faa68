/* A WebSocket client inside the test: a producer at /events, well-behaved or not. Each call returns by its deadline.
 * Control frames are handled while receiving: pings are answered, a close is echoed. */
#ifndef SUPPORT_PEER_H
#define SUPPORT_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct peer;

/* Connect to ws://127.0.0.1:port<path>, offering subprotocol (or NULL), with "Authorization: Bearer
 * token" (or NULL). Returns the peer with *status 101; or NULL with *status the HTTP status of the
 * refusal, 0 when there was no answer (refused, cut off, nothing within 10 s, stretched). status may
 * be NULL. A wrong handshake answer fails the test. */
struct peer *peer_open(int port, const char *path, const char *subprotocol, const char *token, int *status);

/* The same, but a refusal fails the test: the path is /events, there is no token. */
struct peer *peer_open_events(int port, const char *subprotocol);

/* Connects by TCP and sends nothing: for half handshakes and garbage with peer_send_raw. NULL if refused. */
struct peer *peer_dial(int port);

/* The subprotocol that the server chose, or NULL. Lives as long as p. */
const char *peer_subprotocol(const struct peer *p);

/* Sends a text message. All sending functions return true when the kernel has accepted everything within the deadline
 * (10 s, stretched; see peer_set_deadline), and false if the connection broke or the server does not read. Then the
 * rest is kept and sent first at the next call. */
bool peer_send_text(struct peer *p, const char *text);

/* The same with a printf-like text. */
bool peer_sendf(struct peer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Send one frame, masked as a client must; opcode is an enum frame_opcode, or a wrong one. */
bool peer_send(struct peer *p, int opcode, bool fin, const void *bytes, size_t len);

/* Sends raw bytes. */
bool peer_send_raw(struct peer *p, const void *bytes, size_t len);

/* Sends what an earlier call kept. */
bool peer_flush(struct peer *p);

/* How long sending may take, in milliseconds (stretched). */
void peer_set_deadline(struct peer *p, int ms);

/* The next text or binary message, joined from its frames. NULL if the connection has ended or none came within
 * deadline_ms (stretched); peer_is_open tells which. */
char *peer_recv(struct peer *p, int deadline_ms);

/* Reads and discards messages until the connection ends. Returns the code of the server's close frame, 1005 if it has
 * none, 1006 if the connection ended without one; 0 if it is still open after deadline_ms (stretched). */
int peer_recv_close(struct peer *p, int deadline_ms);

/* True until a close frame or the end of the connection was received. */
bool peer_is_open(const struct peer *p);

/* Pongs received so far (while receiving). */
long peer_pongs(const struct peer *p);

/* Send a close frame with this code. peer_recv_close waits for the answer. */
bool peer_send_close(struct peer *p, int code);

/* End the connection by RST, at once. */
void peer_reset(struct peer *p);

/* End the connection by FIN without a close frame, at once. */
void peer_close(struct peer *p);

/* Close it (as peer_close) if that is not done yet, and free p. NULL is allowed. */
void peer_free(struct peer *p);

#endif
