/* TLS of strangers: one read takes at most one message that carries no data, so that one connection cannot keep the
 * loop. */
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/curl_loop.h"
#include "net/certificate.h"
#include "unit.h"

static X509 *certificate;
static int bodies;

/* A server's context with a new certificate for 127.0.0.1. */
static SSL_CTX *make_server(void)
{
	SSL_CTX *server = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	const unsigned char name[] = "server";
	X509V3_CTX none = {0};
	X509_EXTENSION *names;

	certificate = X509_new();
	X509_set_version(certificate, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, name, -1, -1, 0);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	names = X509V3_EXT_conf_nid(NULL, &none, NID_subject_alt_name, "IP:127.0.0.1");
	X509_add_ext(certificate, names, -1);
	X509_EXTENSION_free(names);
	cr_assert_gt(X509_sign(certificate, key, EVP_sha256()), 0);
	cr_assert_eq(SSL_CTX_use_cert_and_key(server, certificate, key, NULL, 1), 1);
	EVP_PKEY_free(key);
	return server;
}

static SSL *begin(SSL_CTX *context, BIO *in, BIO *out)
{
	SSL *ssl = SSL_new(context);

	BIO_up_ref(in);
	BIO_up_ref(out);
	SSL_set_bio(ssl, in, out);
	return ssl;
}

Test(turns, a_producer_s_key_updates_are_taken_one_at_a_time)
{
	struct certificate_rules rules = {0};
	SSL_CTX *server = make_server(), *client = SSL_CTX_new(TLS_client_method());
	BIO *up = BIO_new(BIO_s_mem()), *down = BIO_new(BIO_s_mem());
	SSL *ours, *theirs;
	char byte;

	cr_assert_eq(certificate_demand(server, &rules), 0);
	ours = begin(server, up, down);
	theirs = begin(client, down, up);
	while (SSL_connect(theirs) != 1)
		SSL_accept(ours);
	SSL_accept(ours);
	for (int i = 0; i < 100; i++) {
		SSL_key_update(theirs, SSL_KEY_UPDATE_NOT_REQUESTED);
		cr_assert_eq(SSL_do_handshake(theirs), 1);
	}
	for (size_t before = BIO_ctrl_pending(up), i = 0; i < 100; i++) {
		cr_assert_eq(SSL_get_error(ours, SSL_read(ours, &byte, 1)), SSL_ERROR_WANT_READ);
		cr_assert_eq(BIO_ctrl_pending(up), before / 100 * (99 - i));
	}
	SSL_free(ours);
	SSL_free(theirs);
	BIO_free(up);
	BIO_free(down);
	SSL_CTX_free(server);
	SSL_CTX_free(client);
	X509_free(certificate);
}

static void *serve(void *arg)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\n\r\nx";
	SSL *ssl = arg;
	int fd = accept(SSL_get_fd(ssl), NULL, NULL);
	char request[1000];

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof(request)) > 0)
		SSL_write(ssl, answer, sizeof(answer) - 1);
	close(fd);
	return NULL;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *easy)
{
	struct curl_tlssessioninfo *found = NULL;

	curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &found);
	cr_expect_eq(SSL_get_mode(found->internals) & SSL_MODE_AUTO_RETRY, 0);
	bodies++;
	return size * n;
}

Test(turns, so_are_those_of_whom_libcurl_calls)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char ca[] = "/tmp/wsonce-turns-XXXXXX", url[60], error[CURL_ERROR_SIZE] = "";
	FILE *out = fdopen(mkstemp(ca), "w");
	SSL_CTX *server = make_server();
	SSL *theirs = SSL_new(server);
	CURL *easy = curl_loop_request(NULL, error);
	pthread_t thread;

	PEM_write_X509(out, certificate);
	fclose(out);
	cr_assert_eq(bind(listener, (struct sockaddr *)&at, size), 0);
	cr_assert_eq(listen(listener, 1), 0);
	getsockname(listener, (struct sockaddr *)&at, &size);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/", ntohs(at.sin_port));
	SSL_set_fd(theirs, listener);
	cr_assert_eq(pthread_create(&thread, NULL, serve, theirs), 0);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, easy);
	cr_expect_eq(curl_easy_perform(easy), CURLE_OK, "%s", error);
	cr_expect_eq(bodies, 1);
	unlink(ca);
	curl_easy_cleanup(easy);
	pthread_join(thread, NULL);
	SSL_free(theirs);
	SSL_CTX_free(server);
	X509_free(certificate);
	close(listener);
}
