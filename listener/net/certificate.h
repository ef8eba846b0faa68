/* certificate.h: the certificates that clients of a TLS server show. */
#ifndef WSONCE_CERTIFICATE_H
#define WSONCE_CERTIFICATE_H

#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* Which certificates are accepted, and who is told of the others. It must outlive the server. */
struct certificate_rules {
	const char *ca_file; /* PEM: the authorities */
	bool is_optional;    /* a client may show none */
	/* A handshake on this socket ends, for this reason. */
	void (*on_refused)(void *owner, int fd, const char *why);
	void *owner;
};

/* Makes a server ask for certificates. No handshake is shortened then: each client shows its own each time.
 * Returns 0, or -1 if the file holds no certificate, or memory is out. */
int certificate_demand(SSL_CTX *tls, struct certificate_rules *rules);

/* Has this connection shown a certificate, which was accepted? Then name is its common name, or else the first of its
 * other names (DNS, e-mail, URI), or else "unnamed": printable, and cut to size. */
bool certificate_name(struct lws *wsi, char *name, size_t size);

#endif
