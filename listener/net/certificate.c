/* certificate.c owns a TLS server's certificates, with OpenSSL: its own, the accepted authorities, and the name in a
 * client certificate. intake/ decides what a name may do.
 *
 * libwebsockets cannot replace its SSL_CTX, and OpenSSL keeps one certificate per key type in it: an old RSA
 * certificate would stay beside a new one of another type. So reloaded files go into a second SSL_CTX, and each
 * handshake takes its certificate from there. */
#include "net/certificate.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/tls.h"

#define UNNAMED "unnamed"

/* --- which clients are accepted --- */

/* OpenSSL calls no verify callback if the client sends no certificate, but it calls this whenever it leaves the
 * handshake. A client that hangs up is not refused. */
static void on_info(const SSL *ssl, int where, int result)
{
	const struct certificate_rules *rules = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	long verified = SSL_get_verify_result(ssl);
	unsigned long error = ERR_peek_last_error();
	int reason = ERR_GET_REASON(error);
	bool is_bare = reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;

	if (where != SSL_CB_ACCEPT_EXIT || result > 0 || ERR_GET_LIB(error) != ERR_LIB_SSL ||
	    reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return;
	rules->on_refused(rules->owner, SSL_get_fd(ssl),
			  verified != X509_V_OK ? X509_verify_cert_error_string(verified)
			  : is_bare             ? "no certificate"
						: ERR_reason_error_string(error),
			  verified != X509_V_OK || is_bare);
}

/* Trusts only the authorities in the file, including intermediate ones, and not those of the system. */
static int trust(SSL_CTX *tls, const char *ca_file)
{
	STACK_OF(X509_NAME) *names = file_is_readable(ca_file) ? SSL_load_client_CA_file(ca_file) : NULL;
	X509_STORE *store = X509_STORE_new();

	if (!names || !store || !X509_STORE_load_file(store, ca_file)) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		X509_STORE_free(store);
		return -1;
	}
	X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
	SSL_CTX_set_client_CA_list(tls, names);
	SSL_CTX_set_cert_store(tls, store);
	return 0;
}

/* A resumed session sends no certificate, even if the first one has expired, so resumption is off. */
static int ask_clients(SSL_CTX *tls, const struct certificate_rules *rules)
{
	if (trust(tls, rules->ca_file))
		return -1;
	SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(tls, SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(tls, 0);
	return 0;
}

/* Uses the certificate and authorities of another context for this handshake. */
static bool show_from(SSL *ssl, SSL_CTX *from)
{
	STACK_OF(X509) *chain = NULL;

	SSL_certs_clear(ssl);
	SSL_CTX_get0_chain_certs(from, &chain);
	return SSL_use_cert_and_key(ssl, SSL_CTX_get0_certificate(from), SSL_CTX_get0_privatekey(from), chain, 1) == 1;
}

static bool trust_from(SSL *ssl, SSL_CTX *from)
{
	SSL_set_client_CA_list(ssl, SSL_dup_CA_list(SSL_CTX_get_client_CA_list(from)));
	return SSL_set1_verify_cert_store(ssl, SSL_CTX_get_cert_store(from)) == 1;
}

/* Called by OpenSSL after the ClientHello, before it chooses a certificate. */
static int on_choice(SSL *ssl, void *arg)
{
	const struct certificate_rules *rules = arg;
	int demand = rules->is_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;

	if (rules->ca_file)
		SSL_set_verify(ssl, SSL_VERIFY_PEER | demand, NULL);
	return !rules->in_use || (show_from(ssl, rules->in_use) && (!rules->ca_file || trust_from(ssl, rules->in_use)));
}

/* By default one SSL_read() goes on for as long as KeyUpdates arrive, for which a client needs no token. */
int certificate_demand(SSL_CTX *tls, struct certificate_rules *rules)
{
	SSL_CTX_clear_mode(tls, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_cert_cb(tls, on_choice, rules);
	SSL_CTX_set_app_data(tls, rules);
	SSL_CTX_set_info_callback(tls, on_info);
	return rules->ca_file ? ask_clients(tls, rules) : 0;
}

/* --- files that have changed --- */

int certificate_read(struct certificate_rules *rules, char *error, size_t size)
{
	rules->next = SSL_CTX_new(TLS_server_method());
	if (!rules->next || tls_show(rules->next, rules->cert_file, rules->key_file))
		snprintf(error, size, "--ingest-cert, --ingest-key: %s and %s are not a certificate and its key (PEM)",
			 rules->cert_file, rules->key_file);
	else if (rules->ca_file && trust(rules->next, rules->ca_file))
		snprintf(error, size, "--ingest-client-ca: %s cannot be read, or holds no certificate", rules->ca_file);
	else
		return 0;
	certificate_leave(rules);
	return -1;
}

void certificate_take(struct certificate_rules *rules)
{
	certificate_clear(rules);
	rules->in_use = rules->next;
	rules->next = NULL;
}

void certificate_leave(struct certificate_rules *rules)
{
	SSL_CTX_free(rules->next);
	rules->next = NULL;
}

void certificate_clear(struct certificate_rules *rules)
{
	SSL_CTX_free(rules->in_use);
	rules->in_use = NULL;
}

bool certificate_is_accepted(struct lws *wsi, const struct certificate_rules *rules)
{
	SSL *ssl = lws_get_ssl(wsi);
	X509 *peer = ssl ? SSL_get1_peer_certificate(ssl) : NULL;
	const SSL_CTX *tls = !rules->in_use && ssl ? SSL_get_SSL_CTX(ssl) : rules->in_use;
	X509_STORE_CTX *c = peer ? X509_STORE_CTX_new() : NULL;
	bool is_accepted =
		!c || (X509_STORE_CTX_init(c, SSL_CTX_get_cert_store(tls), peer, SSL_get_peer_cert_chain(ssl)) &&
		       X509_STORE_CTX_set_default(c, "ssl_client") && X509_verify_cert(c) == 1);

	X509_STORE_CTX_free(c);
	X509_free(peer);
	return is_accepted;
}

/* --- the client's name --- */

static bool is_printable(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Returns false if the name is empty. */
static bool take(const ASN1_STRING *from, char *name, size_t size)
{
	unsigned char *text = NULL;
	int len = from ? ASN1_STRING_to_UTF8(&text, from) : 0;
	size_t n = 0;

	for (; len > 0 && n < (size_t)len && n + 1 < size; n++)
		name[n] = (char)(is_printable(text[n]) ? text[n] : '_');
	name[n] = '\0';
	OPENSSL_free(text);
	return n > 0;
}

static bool take_common_name(const X509 *certificate, char *name, size_t size)
{
	const X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	return at >= 0 && take(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), name, size);
}

static bool take_other_name(const X509 *certificate, char *name, size_t size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool is_found = false;

	for (int i = 0; !is_found && i < sk_GENERAL_NAME_num(names); i++) {
		int type;
		const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

		is_found = (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI) && take(value, name, size);
	}
	GENERAL_NAMES_free(names);
	return is_found;
}

bool certificate_name(struct lws *wsi, char *name, size_t size)
{
	SSL *ssl = lws_get_ssl(wsi);
	X509 *certificate = ssl ? SSL_get1_peer_certificate(ssl) : NULL;

	if (!certificate)
		return false;
	if (!take_common_name(certificate, name, size) && !take_other_name(certificate, name, size))
		snprintf(name, size, UNNAMED);
	X509_free(certificate);
	return true;
}
