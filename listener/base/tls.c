/* tls.c owns the TLS of a client, by OpenSSL: the handshake, whether the server is who it should be, and
 * bytes to records and back. It knows no sockets: those of feeds are libwebsockets's, which in 4.1 has no
 * TLS on connections that it is not to speak HTTP on, and those of Redis are hiredis's, which has none. */
#include "base/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct tls_trust {
	SSL_CTX *context;
};

struct tls {
	SSL *ssl;
	BIO *from_server; /* both belong to ssl */
	BIO *to_server;
	char reason[200];
};

struct tls_trust *tls_trust_new(const char *ca_file)
{
	struct tls_trust *trust = memory_calloc(1, sizeof(*trust));

	trust->context = SSL_CTX_new(TLS_client_method());
	if (!trust->context || !SSL_CTX_set_min_proto_version(trust->context, TLS1_2_VERSION) ||
	    !SSL_CTX_load_verify_file(trust->context, ca_file)) {
		tls_trust_free(trust);
		return NULL;
	}
	SSL_CTX_set_verify(trust->context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_options(trust->context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(trust->context, SSL_MODE_RELEASE_BUFFERS);
	return trust;
}

int tls_trust_identify(struct tls_trust *trust, const char *cert_file, const char *key_file)
{
	return SSL_CTX_use_certificate_chain_file(trust->context, cert_file) == 1 &&
			       SSL_CTX_use_PrivateKey_file(trust->context, key_file, SSL_FILETYPE_PEM) == 1 &&
			       SSL_CTX_check_private_key(trust->context) == 1
		       ? 0
		       : -1;
}

void tls_trust_free(struct tls_trust *trust)
{
	if (!trust)
		return;
	SSL_CTX_free(trust->context);
	free(trust);
}

/* The name is sent, too (SNI); an address must not be (RFC 6066, section 3). */
static bool expect_host(SSL *ssl, const char *host)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

static bool set_up(struct tls *t, const struct tls_trust *trust, const char *host, const char *protocols)
{
	t->ssl = SSL_new(trust->context);
	t->from_server = BIO_new(BIO_s_mem());
	t->to_server = BIO_new(BIO_s_mem());
	if (!t->ssl || !t->from_server || !t->to_server) {
		BIO_free(t->from_server);
		BIO_free(t->to_server);
		return false;
	}
	SSL_set_bio(t->ssl, t->from_server, t->to_server);
	SSL_set_connect_state(t->ssl);
	return expect_host(t->ssl, host) && (!protocols || SSL_set_alpn_protos(t->ssl, (const unsigned char *)protocols,
									       (unsigned int)strlen(protocols)) == 0);
}

struct tls *tls_new(const struct tls_trust *trust, const char *host, const char *protocols)
{
	struct tls *t = memory_calloc(1, sizeof(*t));

	if (!set_up(t, trust, host, protocols)) {
		tls_free(t);
		return NULL;
	}
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	free(t);
}

void tls_receive(struct tls *t, const char *bytes, size_t len)
{
	if (BIO_write(t->from_server, bytes, (int)len) != (int)len)
		memory_exhausted("OpenSSL", len);
}

static ssize_t give_up(struct tls *t)
{
	long result = SSL_get_verify_result(t->ssl);
	unsigned long error = ERR_peek_last_error();

	if (result != X509_V_OK)
		snprintf(t->reason, sizeof(t->reason), "the certificate is not trusted: %s",
			 X509_verify_cert_error_string(result));
	else
		snprintf(t->reason, sizeof(t->reason), "TLS failed: %s",
			 error ? ERR_reason_error_string(error) : "the connection is broken");
	return -1;
}

ssize_t tls_read(struct tls *t, char *room, size_t size)
{
	int n;

	ERR_clear_error();
	n = SSL_read(t->ssl, room, (int)size);
	if (n > 0)
		return n;
	switch (SSL_get_error(t->ssl, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		snprintf(t->reason, sizeof(t->reason), "the connection ended");
		return -1;
	}
	return give_up(t);
}

bool tls_is_ready(const struct tls *t)
{
	return SSL_is_init_finished(t->ssl);
}

int tls_write(struct tls *t, const char *bytes, size_t len)
{
	return SSL_write(t->ssl, bytes, (int)len) == (int)len ? 0 : -1;
}

size_t tls_due(const struct tls *t)
{
	return BIO_ctrl_pending(t->to_server);
}

size_t tls_take(struct tls *t, char *room, size_t size)
{
	int n = BIO_read(t->to_server, room, (int)size);

	return n > 0 ? (size_t)n : 0;
}

const char *tls_reason(const struct tls *t)
{
	return t->reason;
}
