/* certificate.h: a TLS server's own certificate, which can be replaced, and the check of client certificates. */
#ifndef WSONCE_CERTIFICATE_H
#define WSONCE_CERTIFICATE_H

#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* The server's certificate, the client certificates that it accepts, and the callback for refusals. Must outlive the
 * server. */
struct certificate_rules {
	const char *cert_file; /* PEM: the server's chain */
	const char *key_file;
	const char *ca_file; /* authorities for client certificates; NULL: none are requested */
	bool is_optional;    /* a client certificate is optional */
	/* Called when the handshake on socket fd has failed. is_stranger: the client has no accepted certificate. */
	void (*on_refused)(void *owner, int fd, const char *why, bool is_stranger);
	void *owner;
	SSL_CTX *in_use; /* from certificate_take(); NULL: the server's first context */
	SSL_CTX *next;
};

/* Applies the rules to a server that has its own certificate. If client certificates are requested, turns off session
 * resumption, so that every handshake checks one. Returns 0, or -1 if ca_file holds no certificate. */
int certificate_demand(SSL_CTX *tls, struct certificate_rules *rules);

/* Rereads the files. Returns 0; then call certificate_take() to use them for new connections, or
 * certificate_leave() to discard them. Returns -1 and a sentence if they cannot be read; nothing has changed then. */
int certificate_read(struct certificate_rules *rules, char *error, size_t size);
void certificate_take(struct certificate_rules *rules);
void certificate_leave(struct certificate_rules *rules);

/* Frees the context of certificate_take(). */
void certificate_clear(struct certificate_rules *rules);

/* True if the connection has no client certificate, or one that would be accepted now. */
bool certificate_is_accepted(struct lws *wsi, const struct certificate_rules *rules);

/* Returns true if the connection has an accepted client certificate. Sets name to its common name, else to its first
 * alternative name (DNS, e-mail, URI), else to "unnamed": printable and cut to size. */
bool certificate_name(struct lws *wsi, char *name, size_t size);

#endif
