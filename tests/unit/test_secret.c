/* Keeping secrets out of texts. */
#include "base/secret.h"

#include "unit.h"
#include <errno.h>

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
	expect_masked("nothing", "hush", "nothing");
	expect_masked("nothing", NULL, "nothing");
}

Test(secret, what_is_as_short_as_a_word_is_not_looked_for)
{
	expect_masked("a cat", "", "a cat");
	expect_masked("a cat", "cat", "a cat");
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
