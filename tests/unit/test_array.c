/* The bytes of Postgres arrays: 20 bytes of head (dimensions, NULL allowed, element type, count,
 * lowest index), then each element as a length and its bytes. */
#include "postgres/array.h"
#include "unit.h"

static struct array array;

static void fini(void)
{
	array_free(&array);
}

TestSuite(array, .fini = fini, .timeout = 60);

#define assert_bytes(literal) \
	do { \
		cr_assert_eq(array.len, sizeof(literal) - 1, "%zu bytes", array.len); \
		cr_assert_eq(memcmp(array.bytes, literal, sizeof(literal) - 1), 0); \
	} while (0)

Test(array, of_texts)
{
	array_start(&array, ARRAY_TEXT, 3);
	array_add(&array, "ab", 2);
	array_add(&array, "", 0);
	array_add_null(&array);
	assert_bytes("\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1"
		     "\0\0\0\2ab\0\0\0\0"
		     "\xff\xff\xff\xff");
}

Test(array, of_jsonb_has_the_version_before_each_text)
{
	array_start(&array, ARRAY_JSONB, 2);
	array_add(&array, "{}", 2);
	array_add(&array, "0.1", 3);
	assert_bytes("\0\0\0\1\0\0\0\1\0\0\x0e\xda\0\0\0\2\0\0\0\1"
		     "\0\0\0\3\1{}\0\0\0\4\1"
		     "0.1");
}

Test(array, length_has_four_bytes_in_network_order)
{
	char *text = calloc(1, 0x12345);

	array_start(&array, ARRAY_TEXT, 0x010203);
	array_add(&array, text, 0x12345);
	cr_assert_eq(array.len, 20 + 4 + 0x12345);
	cr_assert_eq(memcmp(array.bytes + 12, "\0\1\2\3", 4), 0);
	cr_assert_eq(memcmp(array.bytes + 20, "\0\1\x23\x45", 4), 0);
	free(text);
}

/* Returns the text of the only element. */
static void assert_text(const char *text, bool is_ascii, const char *expected)
{
	array_start(&array, ARRAY_TEXT, 1);
	array_add_text(&array, text, strlen(text), is_ascii);
	cr_assert_eq(array.len, 24 + strlen(expected), "%s", text);
	cr_assert_eq(memcmp(array.bytes + 24, expected, strlen(expected)), 0, "%.*s", (int)strlen(expected),
		     array.bytes + 24);
}

Test(array, what_is_no_text_of_the_database_becomes_question_marks)
{
	assert_text("", false, "");
	assert_text("plain", false, "plain");
	assert_text("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", false, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_text("\xff", false, "?");
	assert_text("a\xff\xfe"
		    "b",
		    false, "a??b");
	assert_text("\xc3", false, "?");
	assert_text("\xc3(", false, "?(");
	assert_text("\xc0\x80", false, "??");
	assert_text("\xed\xa0\x80", false, "???");
	assert_text("\xf4\x90\x80\x80", false, "????");
	assert_text("\xc3\xa9\xe2\x82", false, "\xc3\xa9??");
	assert_text("", true, "");
	assert_text("plain~", true, "plain~");
	assert_text("a\xc3\xa9"
		    "b",
		    true, "a??b");
	assert_text("\xff\x7f", true, "?\x7f");
}

Test(array, only_the_text_at_hand_is_checked)
{
	array_start(&array, ARRAY_TEXT, 2);
	array_add(&array, "\xff", 1);
	array_add_text(&array, "\xfe", 1, false);
	cr_assert_eq(memcmp(array.bytes + 24, "\xff\0\0\0\1?", 6), 0);
}

Test(array, next_array_starts_anew)
{
	array_start(&array, ARRAY_JSONB, 1);
	array_add(&array, "[]", 2);
	array_start(&array, ARRAY_TEXT, 1);
	array_add(&array, "x", 1);
	assert_bytes("\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\1\0\0\0\1"
		     "\0\0\0\1x");
}
