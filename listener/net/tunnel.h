/* tunnel.h: connects to a feed through an HTTP proxy. */
#ifndef WSONCE_TUNNEL_H
#define WSONCE_TUNNEL_H

#include <stddef.h>

#include "base/url.h"

struct tunnel;

enum tunnel_result {
	TUNNEL_MORE, /* the proxy's answer is incomplete */
	TUNNEL_OPEN, /* all further bytes are the feed's */
	TUNNEL_REFUSED,
};

/* Prepares a CONNECT request to host and port. */
struct tunnel *tunnel_new(const struct url *proxy, const char *host, int port);
void tunnel_free(struct tunnel *t);

/* As upgrade_take and upgrade_receive. */
size_t tunnel_take(struct tunnel *t, char *room, size_t size);
enum tunnel_result tunnel_receive(struct tunnel *t, const char *bytes, size_t len, size_t *used);

/* Why the proxy refused: one sentence that does not quote the proxy. */
const char *tunnel_reason(const struct tunnel *t);

#endif
