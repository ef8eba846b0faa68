/* tls.c is a TLS client, with OpenSSL: the handshake, the check of the server's certificate, and encryption. It does no
 * I/O: dial.c and wire.c own the sockets. */
#include "base/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/list.h"
#include "base/memory.h"

struct tls_trust {
	struct list node;
	char *ca; /* paths */
	char *cert;
	char *key;
	SSL_CTX *context;
	SSL_CTX *next; /* reread but not yet in use, or NULL */
};

static struct list trusts = {&trusts, &trusts};
static pthread_mutex_t trusts_lock = PTHREAD_MUTEX_INITIALIZER;

struct tls {
	SSL *ssl;
	BIO *from_server; /* ssl owns both */
	BIO *to_server;
	char reason[200];
};

/* Without this, OpenSSL asks for the password at the terminal and blocks. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is OpenSSL's */
static int on_password(char *room, int size, int is_writing, void *arg)
{
	(void)room, (void)size, (void)is_writing, (void)arg;
	return -1;
}

int tls_show(SSL_CTX *context, const char *cert_file, const char *key_file)
{
	SSL_CTX_set_default_passwd_cb(context, on_password);
	return file_is_readable(cert_file) && file_is_readable(key_file) &&
			       SSL_CTX_use_certificate_chain_file(context, cert_file) == 1 &&
			       SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) == 1 &&
			       SSL_CTX_check_private_key(context) == 1
		       ? 0
		       : -1;
}

const char *tls_judge_time(const char *cert_file, int64_t ahead_s)
{
	time_t then = time(NULL) + ahead_s;
	FILE *in = file_open(cert_file);
	X509 *first = in ? PEM_read_X509(in, NULL, NULL, NULL) : NULL;
	bool is_early = first && X509_cmp_current_time(X509_get0_notBefore(first)) > 0;
	bool is_late = first && X509_cmp_time(X509_get0_notAfter(first), &then) < 0;

	if (in)
		fclose(in);
	X509_free(first);
	return is_early ? "is not valid yet: check the clock" : is_late ? "has expired: renew it" : NULL;
}

/* Returns NULL if the file holds no certificates. */
static SSL_CTX *new_context(const char *ca_file)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) || !file_is_readable(ca_file) ||
	    X509_load_cert_file(X509_STORE_add_lookup(SSL_CTX_get_cert_store(context), X509_LOOKUP_file()), ca_file,
				X509_FILETYPE_PEM) < 1) {
		SSL_CTX_free(context);
		return NULL;
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	return context;
}

bool tls_holds_certificates(const char *ca_file)
{
	SSL_CTX *context = new_context(ca_file);

	SSL_CTX_free(context);
	return context;
}

struct tls_trust *tls_trust_new(const char *ca_file)
{
	SSL_CTX *context = new_context(ca_file);
	struct tls_trust *trust;

	if (!context)
		return NULL;
	trust = memory_calloc(1, sizeof(*trust));
	trust->context = context;
	trust->ca = memory_strdup(ca_file);
	pthread_mutex_lock(&trusts_lock);
	list_append(&trusts, &trust->node);
	pthread_mutex_unlock(&trusts_lock);
	return trust;
}

int tls_trust_identify(struct tls_trust *trust, const char *cert_file, const char *key_file)
{
	if (tls_show(trust->context, cert_file, key_file))
		return -1;
	trust->cert = memory_strdup(cert_file);
	trust->key = memory_strdup(key_file);
	return 0;
}

void tls_trust_free(struct tls_trust *trust)
{
	if (!trust)
		return;
	pthread_mutex_lock(&trusts_lock);
	list_remove(&trust->node);
	pthread_mutex_unlock(&trusts_lock);
	SSL_CTX_free(trust->next);
	SSL_CTX_free(trust->context);
	free(trust->ca);
	free(trust->cert);
	free(trust->key);
	free(trust);
}

/* --- files that have changed --- */

int tls_trusts_read(char *error, size_t size)
{
	list_each(node, after, &trusts) {
		struct tls_trust *t = list_entry(node, struct tls_trust, node);

		t->next = new_context(t->ca);
		if (t->next && !(t->cert && tls_show(t->next, t->cert, t->key)))
			continue;
		if (t->next)
			snprintf(error, size, "%s and %s are not a certificate and its key (PEM)", t->cert, t->key);
		else
			snprintf(error, size, "%s cannot be read, or holds no certificates", t->ca);
		tls_trusts_leave();
		return -1;
	}
	return 0;
}

/* Open connections keep a reference to the old context. */
size_t tls_trusts_take(void)
{
	size_t n = 0;

	list_each(node, after, &trusts) {
		struct tls_trust *t = list_entry(node, struct tls_trust, node);

		SSL_CTX_free(t->context);
		t->context = t->next;
		t->next = NULL;
		n++;
	}
	return n;
}

void tls_trusts_leave(void)
{
	list_each(node, after, &trusts) {
		struct tls_trust *t = list_entry(node, struct tls_trust, node);

		SSL_CTX_free(t->next);
		t->next = NULL;
	}
}

/* Sends the name as SNI, unless it is an address (RFC 6066, section 3). A common name does not count as a host name
 * (RFC 9525, section 6.3). */
static bool expect_host(SSL *ssl, const char *host)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
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
