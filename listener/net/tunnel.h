/* tunnel.h: connects to a feed through an HTTP or a SOCKS5 proxy. */
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

/* Prepares the way to host and port through an http:// or socks5:// proxy. proxy and host must outlive it. */
struct tunnel *tunnel_new(const struct url *proxy, const char *host, int port);
void tunnel_free(struct tunnel *t);

/* As upgrade_take and upgrade_receive. There may be more to take after each call of tunnel_receive. */
size_t tunnel_take(struct tunnel *t, char *room, size_t size);
enum tunnel_result tunnel_receive(struct tunnel *t, const char *bytes, size_t len, size_t *used);

/* Why the proxy refused: one sentence that names the proxy without its password and does not quote it. */
const char *tunnel_reason(const struct tunnel *t);
/* Sets that sentence: "the proxy NAME " and the formatted words. Returns TUNNEL_REFUSED. */
enum tunnel_result tunnel_refuse(struct tunnel *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
