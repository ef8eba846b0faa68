/* http_policy.h: restricts a port that libwebsockets serves to WebSocket over HTTP/1.1. */
#ifndef WSONCE_HTTP_POLICY_H
#define WSONCE_HTTP_POLICY_H

#include <libwebsockets.h>
#include <stdbool.h>

/* Sets info so that the vhost speaks HTTP/1.1 only, and TLS 1.2 or later if it has TLS. */
void http_policy_apply(struct lws_context_creation_info *info);

/* True if the current request is an upgrade to WebSocket and nothing else. */
bool http_policy_is_websocket(struct lws *wsi);

/* Answers with a status, Connection: close, and the header lines in extra (each with its CR LF, or ""). Returns -1,
 * which tells libwebsockets to close the connection. */
int http_policy_refuse(struct lws *wsi, unsigned int status, const char *extra);

#endif
