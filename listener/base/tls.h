/* tls.h: TLS of a client, from bytes and to bytes. */
#ifndef WSONCE_TLS_H
#define WSONCE_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_trust;
struct tls;

/* Whom to trust, by the certificates in a file. NULL if it holds none. */
struct tls_trust *tls_trust_new(const char *ca_file);

/* From now on shows a certificate (with its chain) to servers that ask for one. Returns 0, or -1 if the files are not a
 * certificate and its key. */
int tls_trust_identify(struct tls_trust *trust, const char *cert_file, const char *key_file);

void tls_trust_free(struct tls_trust *trust);

/* Reads the files of every trust that there is again. Returns 0, and then tls_trusts_take() puts them to use for new
 * connections and says how many trusts there are, or tls_trusts_leave() forgets them; or -1 and a sentence, and nothing
 * has changed. */
int tls_trusts_read(char *error, size_t size);
size_t tls_trusts_take(void);
void tls_trusts_leave(void);

/* Has the context show a certificate (with its chain). Returns 0, or -1 if the files are not a certificate and its key;
 * a key with a password is none. */
int tls_show(SSL_CTX *context, const char *cert_file, const char *key_file);

/* For one connection to host, whose certificate must be for that name or address. protocols are offered (ALPN, each
 * with its length before it); NULL: none is. NULL if OpenSSL refuses. */
struct tls *tls_new(const struct tls_trust *trust, const char *host, const char *protocols);
void tls_free(struct tls *t);

/* Keeps bytes from the server for tls_read. */
void tls_receive(struct tls *t, const char *bytes, size_t len);

/* Goes on with the handshake, then decrypts into room. Returns how many bytes, 0 if it needs more from
 * the server, or -1 at the end, and tls_reason then says why. */
ssize_t tls_read(struct tls *t, char *room, size_t size);

/* The server is known, and bytes may be written. */
bool tls_is_ready(const struct tls *t);

/* Encrypts bytes for tls_take. Returns 0, or -1 if the connection is broken. */
int tls_write(struct tls *t, const char *bytes, size_t len);

/* How many bytes are there to be sent? */
size_t tls_due(const struct tls *t);

/* Moves what is to be sent to the server into room. Returns its length. */
size_t tls_take(struct tls *t, char *room, size_t size);

const char *tls_reason(const struct tls *t);

#endif
