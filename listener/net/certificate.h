/* certificate.h: the certificates of a TLS server: its own, which may be replaced, and those that clients show. */
#ifndef WSONCE_CERTIFICATE_H
#define WSONCE_CERTIFICATE_H

#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* What a server shows, which certificates it accepts, and who is told of the others. It must outlive the server. */
struct certificate_rules {
	const char *cert_file; /* PEM: the server's own chain, */
	const char *key_file;
	const char *ca_file; /* and the authorities of clients; NULL: clients show nothing */
	bool is_optional;    /* a client may show none */
	/* A handshake on this socket ends, for this reason. */
	void (*on_refused)(void *owner, int fd, const char *why);
	void *owner;
	SSL_CTX *in_use; /* what certificate_take() put there; NULL: what the server was opened with */
	SSL_CTX *next;
};

/* Makes a server, which shows its own already, follow the rules. Where it asks for certificates, no handshake is
 * shortened: each client shows its own each time. Returns 0, or -1 if the file holds no certificate, or memory is out.
 */
int certificate_demand(SSL_CTX *tls, struct certificate_rules *rules);

/* Reads the files of the rules again. Returns 0, and then certificate_take() puts them to use for new connections, or
 * certificate_leave() forgets them; or -1 and a sentence, and nothing has changed. */
int certificate_read(struct certificate_rules *rules, char *error, size_t size);
void certificate_take(struct certificate_rules *rules);
void certificate_leave(struct certificate_rules *rules);

/* Frees what certificate_take() put there. */
void certificate_clear(struct certificate_rules *rules);

/* Would the certificate that this connection has shown, if any, be accepted now? */
bool certificate_is_accepted(struct lws *wsi, const struct certificate_rules *rules);

/* Has this connection shown a certificate, which was accepted? Then name is its common name, or else the first of its
 * other names (DNS, e-mail, URI), or else "unnamed": printable, and cut to size. */
bool certificate_name(struct lws *wsi, char *name, size_t size);

#endif
