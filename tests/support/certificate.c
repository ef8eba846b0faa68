/* Certificates by the openssl program. */
#include "certificate.h"
#include "support.h"

#define OPENSSL_MS 20000

static struct certificate *name_files(void)
{
	struct certificate *c = calloc(1, sizeof *c);
	int number = suite_number();

	c->cert = suite_path("cert-%d.pem", number);
	c->key = suite_path("key-%d.pem", number);
	return c;
}

static void make_self_signed(const struct certificate *c)
{
	const char *argv[] = {"openssl",
			      "req",
			      "-x509",
			      "-newkey",
			      "ec",
			      "-pkeyopt",
			      "ec_paramgen_curve:P-256",
			      "-nodes",
			      "-days",
			      "2",
			      "-subj",
			      "/CN=wsonce test authority",
			      "-keyout",
			      c->key,
			      "-out",
			      c->cert,
			      NULL};

	if (process_run(argv, OPENSSL_MS) != 0)
		cr_assert_fail("openssl cannot make a certificate");
}

/* openssl req makes a request, which openssl x509 signs (-x509 with -CA is newer). */
static void make_signed(const struct certificate *c, const struct certificate *authority,
			const struct certificate_text *text)
{
	char *request = suite_path("request-%d.pem", suite_number());
	const char *subject = text->subject ? text->subject : "/CN=wsonce test server";
	char lines[400];
	const char *ask[] = {"openssl", "req",   "-newkey", "ec",    "-pkeyopt", "ec_paramgen_curve:P-256",
			     "-nodes",  "-utf8", "-subj",   subject, "-keyout",  c->key,
			     "-out",    request, NULL};

	if (process_run(ask, OPENSSL_MS) != 0)
		cr_assert_fail("openssl cannot make a request for a certificate");
	snprintf(lines, sizeof lines, "%s%s\n%s%s\n", text->names ? "subjectAltName=" : "",
		 text->names ? text->names : "", text->usage ? "extendedKeyUsage=" : "",
		 text->usage ? text->usage : "");
	char *extensions = suite_file("extensions.cnf", lines);
	const char *sign[] = {"openssl",
			      "x509",
			      "-req",
			      "-in",
			      request,
			      "-days",
			      text->is_expired ? "0" : "2",
			      "-CA",
			      authority->cert,
			      "-CAkey",
			      authority->key,
			      "-CAcreateserial",
			      "-extfile",
			      extensions,
			      "-out",
			      c->cert,
			      NULL};
	if (process_run(sign, OPENSSL_MS) != 0)
		cr_assert_fail("openssl cannot sign a certificate");
}

struct certificate *certificate_authority_new(void)
{
	struct certificate *c = name_files();

	make_self_signed(c);
	return c;
}

struct certificate *certificate_new(const struct certificate *authority, const char *names)
{
	return certificate_new_of(authority, &(struct certificate_text){.names = names});
}

struct certificate *certificate_new_of(const struct certificate *authority, const struct certificate_text *text)
{
	struct certificate *c = name_files();

	make_signed(c, authority, text);
	return c;
}
