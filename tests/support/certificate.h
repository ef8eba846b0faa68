/* TLS certificates for one test, made by the openssl program in the test's directory: an authority of
 * the test's own, and what it signs. */
#ifndef SUPPORT_CERTIFICATE_H
#define SUPPORT_CERTIFICATE_H

#include <stdbool.h>

struct certificate {
	char *cert; /* paths of PEM files */
	char *key;
};

/* A new authority. */
struct certificate *certificate_authority_new(void);

/* A server's certificate, signed by the authority, for these names as openssl writes them:
 * "DNS:localhost,IP:127.0.0.1". */
struct certificate *certificate_new(const struct certificate *authority, const char *names);

/* What is written into a certificate. */
struct certificate_text {
	const char *subject; /* as openssl writes it, "/CN=shop"; NULL: "/CN=wsonce test server" */
	const char *names;   /* subjectAltName; NULL: none */
	const char *usage;   /* extendedKeyUsage; NULL: none */
	bool is_expired;     /* since it was made */
};

/* The same with this text. */
struct certificate *certificate_new_of(const struct certificate *authority, const struct certificate_text *text);

#endif
