/* Masking secrets in texts. */
#include "base/secret.h"

#include "base/url.h"

#include "unit.h"

static void expect_masked(const char *text, const char *secret, const char *shown)
{
	char copy[200];

	strcpy(copy, text);
	secret_mask(copy, secret);
	cr_assert_str_eq(copy, shown);
}

Test(secret, each_place_is_masked)
{
	expect_masked("ERR unknown command AUTH, with args: 'hush'", "hush",
		      "ERR unknown command AUTH, with args: '****'");
	expect_masked("hushhush hus hush", "hush", "******** hus ****");
	expect_masked("cut off: hush-hus", "hush-hush", "cut off: ********");
	expect_masked("cut off: hus", "hush-hush", "cut off: hus");
	expect_masked("nothing", "hush", "nothing");
	expect_masked("nothing", NULL, "nothing");
}

Test(secret, one_within_a_json_string_is_masked)
{
	expect_masked("{\"bad\":\"ab\\/cd\\\"ef\"}", "ab/cd\"ef", "{\"bad\":\"**********\"}");
	expect_masked("{\"bad\":\"a\\\\b/c", "a\\b/cdef", "{\"bad\":\"******");
	expect_masked("\\u0075sed", "used", "*********");
	expect_masked("{\"bad\":\"\\u002bab\\u003D\\u003d\"}", "+ab==", "{\"bad\":\"********************\"}");
	expect_masked("{\"bad\":\"abcd\\u003", "abcd==", "{\"bad\":\"*********");
}

Test(secret, one_that_is_not_ascii_is_masked_as_a_code)
{
	expect_masked("bad caf\\u00e9-x, caf\\\\u00E9-x, caf\xc3\xa9-x", "caf\xc3\xa9-x",
		      "bad ***********, ************, *******");
	expect_masked("{\"bad\":\"key\\ud83d\\uDE00\"}", "key\xf0\x9f\x98\x80", "{\"bad\":\"***************\"}");
	expect_masked("{\"bad\":\"keys\\ud83d\\ude", "keys\xf0\x9f\x98\x80", "{\"bad\":\"**************");
	expect_masked("caf\\u00e8-x caf%c3%a9-x", "caf\xc3\xa9-x", "caf\\u00e8-x ***********");
	expect_masked("b\\u00e9d",
		      "b\xe9"
		      "d-",
		      "b\\u00e9d"); /* not UTF-8 */
}

Test(secret, one_that_a_server_encodes_for_a_url_is_masked)
{
	expect_masked("no key=a%2fb%2Bcd%3D&x=%2B", "a/b+cd=", "no key=*************&x=%2B");
	expect_masked("no key=a%2fb%2Bcd%3", "a/b+cd=", "no key=************");
	expect_masked("no key=ab+cd%20ef", "ab cd ef", "no key=**********");
}

Test(secret, one_that_looks_like_a_code_is_masked)
{
	expect_masked("no ab%25cd\\u005ce", "ab%25cd\\u005ce", "no **************");
	expect_masked("no \\\\\\\\", "\\\\\\\\", "no ****");
	expect_masked("no \\\\a\\u002fbc", "\\a/bc", "no ***********");
}

Test(secret, what_is_as_short_as_a_word_is_not_looked_for)
{
	expect_masked("a cat", "", "a cat");
	expect_masked("a cat", "cat", "a cat");
}

static const char *file_of(const char *folder, const char *name, const char *text)
{
	static char path[200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *out = fopen(path, "w");
	cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
	return path;
}

Test(secret, one_with_a_name_is_in_the_environment_or_its_file_or_a_credential)
{
	char folder[] = "/tmp/wsonce-secret-XXXXXX";

	cr_assert(mkdtemp(folder));
	cr_assert_null(secret_named("A_KEY"));
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	cr_assert_null(secret_named("A_KEY"));
	file_of(folder, "A_KEY", "of the credential\n");
	cr_assert_str_eq(secret_named("A_KEY"), "of the credential");
	setenv("A_KEY_FILE", file_of(folder, "file", "of the file\nmore\n"), 1);
	cr_assert_str_eq(secret_named("A_KEY"), "of the file");
	setenv("A_KEY_FILE", "/nowhere", 1);
	cr_assert_null(secret_named("A_KEY"), "what is named and is not there must not become another");
	setenv("A_KEY", "of the variable", 1);
	cr_assert_str_eq(secret_named("A_KEY"), "of the variable");
	cr_assert_null(secret_named("../etc/passwd"));
	cr_assert_null(secret_named(""));
	cr_assert_eq(system("rm -r $CREDENTIALS_DIRECTORY"), 0);
}

Test(secret, a_file_that_has_none_is_told_from_one_that_is_not_there)
{
	cr_assert_null(secret_read("/nowhere/x"));
	cr_assert_eq(errno, ENOENT);
	cr_assert_null(secret_read("/dev/null"));
	cr_assert_eq(errno, 0);
	cr_assert_null(secret_read("/"));
	cr_assert_eq(errno, EISDIR);
}

/* A key cut off at a NUL would sign, and each login would fail. */
Test(secret, first_line_ends_at_its_end_and_not_at_a_nul)
{
	char path[] = "/tmp/wsonce-secret-XXXXXX", longest[8194];
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "ke\0y\n", 5), 5);
	cr_assert_null(secret_read(path));
	cr_assert_eq(errno, 0);
	cr_assert(pwrite(fd, "key\r\n\0", 6, 0) == 6);
	cr_assert_str_eq(secret_read(path), "key");
	memset(longest, 'x', sizeof(longest));
	cr_assert_eq(pwrite(fd, longest, 8193, 0), 8193);
	cr_assert_null(secret_read(path));
	cr_assert_eq(ftruncate(fd, 8192), 0);
	cr_assert_eq(strlen(secret_read(path)), 8192);
	unlink(path);
}

static void mask_url(char *text, const char *link)
{
	struct url url;

	cr_assert_eq(url_parse(&url, link), 0);
	secret_mask_url(text, &url);
	url_clear(&url);
}

Test(secret, the_path_and_the_query_of_a_url_are_masked_where_they_are_echoed)
{
	char text[] = "Cannot GET /hook/token?key=value-1&x=1#frag: value-1, Authorization: Basic bWU6YSBwYXNz, a pass";

	mask_url(text, "https://me:a%20pass@h/hook/token?key=value-1&x=1#frag");
	cr_assert_str_eq(
		text,
		"Cannot GET ***********?key=*******&x=1#****: *******, Authorization: Basic ************, ******");
}

Test(secret, what_looks_like_a_login_is_masked_in_an_error)
{
	char text[] = "\"redis://:a@b@h\", postgresql://u:pw@h/x?password=pw host=h password=pw; sqlite:///a a@b "
		      "password='p w' password = pw password=\"pw\" wss://h/x?key=k: whsec_ab+/ whsec_ followed by, ?x";

	secret_mask_logins(text);
	cr_assert_str_eq(
		text,
		"\"redis://****@h\", postgresql://****@h/x?*********** host=h password=*** sqlite:///a a@b "
		"password='***' password = ** password=\"**\" wss://h/x?****** whsec_**** whsec_ followed by, ?x");
}

Test(secret, a_part_of_a_path_is_masked_and_so_is_what_was_decoded)
{
	char text[] = "redirects: no key abcd-1234 in v1, nor a/b+c%d: {\"at\": \"\\/v1\\/abcd-1234\\/x\"}, abcd-123";

	mask_url(text, "https://h/redirect/abcd-1234/x?key=a%2Fb+c%25d");
	cr_assert_str_eq(
		text, "redirects: no key ********* in v1, nor *******: {\"at\": \"\\/v1\\/*********\\/x\"}, ********");
}
