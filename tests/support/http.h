/* One HTTP request to a loopback port, for the admin endpoints. */
#ifndef SUPPORT_HTTP_H
#define SUPPORT_HTTP_H

#include <stddef.h>

/* GET path from 127.0.0.1:port, waiting up to deadline_ms (stretched) for the whole answer. Returns
 * the body, and sets *status; or NULL and *status 0 if there was no answer
 * (refused, cut off, late). status may be NULL. */
char *http_get(int port, const char *path, int deadline_ms, int *status);

/* Sends a request as given, valid or not, to 127.0.0.1:port. Returns everything the server answered until it closed,
 * switched to WebSocket, or deadline_ms (stretched) passed; "" if nothing. NULL if the port refuses. The server need
 * not read the whole request. */
char *http_ask(int port, const char *request, size_t len, int deadline_ms);

/* POST /events with these header lines, each ended by CRLF, and this body. Returns the whole answer; fails without one.
 */
char *http_post(int port, const char *headers, const char *body);

/* The status of a whole answer; 0 if it has none. */
int http_status(const char *answer);

/* Fails unless the answer has status 200 and this body. */
void http_expect(const char *answer, const char *body);

/* The status that answers a WebSocket handshake at /events with these header lines, each ended by CRLF, in it; 0 if
 * there was no answer. */
int http_handshake(int port, const char *headers);

#endif
