/* tunnel.h: connects to a feed through an HTTP or a SOCKS5 proxy. */
#ifndef WSONCE_TUNNEL_H
#define WSONCE_TUNNEL_H

#include "base/curl_loop.h"
#include "base/url.h"

struct tunnel;

/* fd is a socket, which the caller must close and which carries only the feed's bytes; or -1, and why is one sentence
 * that names the proxy without its password. */
typedef void tunnel_cb(void *arg, int fd, const char *why);

/* Writes such a sentence: "the proxy NAME " and the words. */
void tunnel_describe(const struct url *proxy, const char *words, char *why, size_t size);

/* Makes a request of libcurl go through a proxy; if its text is NULL, through none, whatever the environment says.
 * Returns nonzero if libcurl refuses. */
int tunnel_use(CURL *easy, const struct url *proxy);

/* Runs the tunnels of a loop; see curl_loop_close(). */
struct curl_loop *tunnels_open(uv_loop_t *loop);

/* Asks an http:// or socks5:// proxy to connect to host and port. proxy must outlive the result. cb is called once,
 * later, and ends the tunnel. */
struct tunnel *tunnel_start(struct curl_loop *all, const struct url *proxy, const char *host, int port, tunnel_cb *cb,
			    void *arg);
/* cb will not be called. NULL is allowed. */
void tunnel_cancel(struct tunnel *t);

#endif
