/* http_policy.h: what may be spoken on a port that libwebsockets serves: WebSocket over HTTP/1.1, and nothing else. */
#ifndef WSONCE_HTTP_POLICY_H
#define WSONCE_HTTP_POLICY_H

#include <libwebsockets.h>
#include <stdbool.h>

/* Sets in info what keeps a vhost to HTTP/1.1, and to TLS 1.2 or later if it has TLS. */
void http_policy_apply(struct lws_context_creation_info *info);

/* Does the request that is being read ask for WebSocket, and for nothing else? */
bool http_policy_is_websocket(struct lws *wsi);

/* Answers a request by a status, with the header lines in extra ("" for none, else each with its CR LF), and says that
 * the connection ends. Returns -1, for libwebsockets to end it. */
int http_policy_refuse(struct lws *wsi, unsigned int status, const char *extra);

#endif
