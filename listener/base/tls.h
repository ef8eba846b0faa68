/* tls.h: a TLS client that works on buffers. */
#ifndef WSONCE_TLS_H
#define WSONCE_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_trust;
struct tls;

/* Trusts the certificates in a file. Returns NULL if it holds none. */
struct tls_trust *tls_trust_new(const char *ca_file);

/* True if the file can be read and holds certificates. */
bool tls_holds_certificates(const char *ca_file);

/* Presents a certificate (with its chain) to servers that ask for one. Returns 0, or -1 if the files are not a
 * certificate and its key. */
int tls_trust_identify(struct tls_trust *trust, const char *cert_file, const char *key_file);

void tls_trust_free(struct tls_trust *trust);

/* Rereads the files of all trusts. If it returns 0, call tls_trusts_take() to use them for new connections, which
 * returns the number of trusts, or tls_trusts_leave() to discard them. If a file is bad, returns -1 and an error, and
 * changes nothing. */
int tls_trusts_read(char *error, size_t size);
size_t tls_trusts_take(void);
void tls_trusts_leave(void);

/* Makes the context present a certificate (with its chain). Returns 0, or -1 if the files are not a certificate and its
 * key, or the key has a password. */
int tls_show(SSL_CTX *context, const char *cert_file, const char *key_file);

/* Returns NULL if the first certificate in the file is valid now, and will not have expired in ahead_s; else why it is
 * not, and what to do. */
const char *tls_judge_time(const char *cert_file, int64_t ahead_s);

/* Starts TLS on one connection to host. The server's certificate must be for that name or address. protocols are
 * offered by ALPN, each after a byte with its length; NULL offers none. Returns NULL if OpenSSL refuses. */
struct tls *tls_new(const struct tls_trust *trust, const char *host, const char *protocols);
void tls_free(struct tls *t);

/* Takes encrypted bytes from the server, for tls_read. */
void tls_receive(struct tls *t, const char *bytes, size_t len);

/* Continues the handshake, then decrypts into room. Returns the number of bytes, 0 if it needs more from the server, or
 * -1 at the end, and tls_reason then says why. */
ssize_t tls_read(struct tls *t, char *room, size_t size);

/* True once the handshake is done, so that bytes may be written. */
bool tls_is_ready(const struct tls *t);

/* Encrypts bytes for tls_take. Returns 0, or -1 if the connection is broken. */
int tls_write(struct tls *t, const char *bytes, size_t len);

/* Returns how many bytes tls_take has for the server. */
size_t tls_due(const struct tls *t);

/* Moves encrypted bytes for the server into room. Returns their number. */
size_t tls_take(struct tls *t, char *room, size_t size);

const char *tls_reason(const struct tls *t);

#endif
