/* The signatures in templates, by the vectors of RFC 4231 and by what feeds document. */
#include "feed/sign.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "unit.h"

static struct bytes out;

static const char *signed_text(enum placeholder_signature how, const char *key, const char *text)
{
	out.len = 0;
	cr_assert_null(sign(&out, how, key, (struct slice){text, strlen(text)}));
	return bytes_text(&out);
}

/* RFC 4231, cases 1 to 4, 6 and 7: short and long keys, bytes that are not ASCII. */
Test(sign, hmac_is_that_of_rfc_4231)
{
	char aa[132] = {0}, b0[21] = {0}, dd[51] = {0}, cd[51] = {0}, counting[26] = {0};

	memset(aa, 0xaa, 131);
	memset(b0, 0x0b, 20);
	memset(dd, 0xdd, 50);
	memset(cd, 0xcd, 50);
	for (int i = 0; i < 25; i++)
		counting[i] = (char)(i + 1);
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, b0, "Hi There"),
			 "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, "Jefe", "what do ya want for nothing?"),
			 "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, counting, cd),
			 "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, aa, "Test Using Larger Than Block-Size Key - Hash Key First"),
			 "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, aa,
				     "This is a test using a larger than block-size key and a larger than block-size "
				     "data. The key needs to be hashed before being used by the HMAC algorithm."),
			 "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
	aa[20] = '\0';
	cr_expect_str_eq(signed_text(SIGN_HMAC_HEX, aa, dd),
			 "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
	cr_expect_str_eq(signed_text(SIGN_HMAC_BASE64, "Jefe", "what do ya want for nothing?"),
			 "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
}

Test(sign, empty_key_signs_nothing)
{
	cr_assert_str_eq(sign(&out, SIGN_HMAC_HEX, "", (struct slice){"x", 1}), "is empty");
	cr_assert_eq(out.len, 0);
}

/* Writes a new key, and returns it. passphrase may be NULL. */
static EVP_PKEY *write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
	FILE *file = fopen(path, "w");

	cr_assert(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
				       (void *)(uintptr_t)passphrase));
	fclose(file);
	return key;
}

static bool is_right(EVP_PKEY *key, const char *base64, const char *text)
{
	unsigned char bytes[300];
	int len = EVP_DecodeBlock(bytes, (const unsigned char *)base64, (int)strlen(base64));
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	EVP_PKEY_CTX *how;

	cr_assert_eq(len, 258, "256 bytes and the padding");
	cr_assert(EVP_DigestVerifyInit(md, &how, EVP_sha256(), NULL, key));
	cr_assert(EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) > 0);
	cr_assert(EVP_PKEY_CTX_set_rsa_pss_saltlen(how, 32) > 0);
	bool result = EVP_DigestVerify(md, bytes, 256, (const unsigned char *)text, strlen(text)) == 1;
	EVP_MD_CTX_free(md);
	return result;
}

Test(sign, rsa_pss_is_right_and_other_files_are_refused)
{
	static const char request[] = "1704398400000GET/trade-api/ws/v2";
	char path[] = "/tmp/keyXXXXXX";

	close(mkstemp(path));
	EVP_PKEY *key = write_key(path, EVP_RSA_gen(2048), NULL);
	const char *text = signed_text(SIGN_RSA_PSS, path, request);
	cr_expect(is_right(key, text, request));
	cr_expect(!is_right(key, text, "1704398400001GET/trade-api/ws/v2"));
	EVP_PKEY_free(write_key(path, key, "secret"));
	struct slice of = {request, strlen(request)};
	cr_expect(sign(&out, SIGN_RSA_PSS, path, of), "a passphrase is not asked for");
	EVP_PKEY_free(write_key(path, EVP_EC_gen("P-256"), NULL));
	cr_expect(sign(&out, SIGN_RSA_PSS, path, of), "not RSA");
	unlink(path);
	cr_expect(sign(&out, SIGN_RSA_PSS, path, of), "no file");
}
