/* TLS certificates for one test, made by the openssl program in the test's directory: an authority, and certificates
 * that it signs. */
#ifndef SUPPORT_CERTIFICATE_H
#define SUPPORT_CERTIFICATE_H

#include <stdbool.h>

struct certificate {
	char *cert; /* paths of PEM files */
	char *key;
};

/* A new authority. */
struct certificate *certificate_authority_new(void);

/* A server's certificate, signed by the authority, for names in openssl's format: "DNS:localhost,IP:127.0.0.1". */
struct certificate *certificate_new(const struct certificate *authority, const char *names);

/* The contents of a certificate. */
struct certificate_text {
	const char *subject; /* in openssl's format, "/CN=shop"; NULL for "/CN=wsonce test server" */
	const char *names;   /* subjectAltName, or NULL */
	const char *usage;   /* extendedKeyUsage, or NULL */
	bool is_expired;     /* already expired */
};

/* The same with these contents. */
struct certificate *certificate_new_of(const struct certificate *authority, const struct certificate_text *text);

#endif
