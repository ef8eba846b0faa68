/* What json_check() accepts, and its errors. jansson must agree about a text with all of JSON's syntax, with each byte
 * replaced by every significant one, removed or doubled, and with the text cut off at each place. */
#include "base/json.h"

#include <jansson.h>

#include "unit.h"

static const char sample[] =
	" {\"a\":[1,-0,2.50,1e5,-3.25E-7,\n0],\"b\\n\\u00e9\\\"\":{\"c\":null,\"\":true , \"d\":false},\t"
	"\"long enough for a word of eight\":\"and \\\\ more of it\",\"e\":[[],{},[{}]]} \r";

static bool passes_bytes(const char *text, size_t len)
{
	char *kept = malloc(len ? len : 1); /* of its exact size, so that ASan notices a read beyond it */
	struct slice value;

	memcpy(kept, text, len);
	bool result = !json_check(kept, len, &value);
	free(kept);
	return result;
}

static bool is_json(const char *text, size_t len)
{
	json_t *tree = json_loadb(text, len, JSON_DECODE_ANY, NULL);

	json_decref(tree);
	return tree;
}

/* jansson accepts a NUL byte after a number. */
static void assert_judged_alike(const char *text, size_t len)
{
	if (!memchr(text, '\0', len))
		cr_assert_eq(passes_bytes(text, len), is_json(text, len), "%.*s", (int)len, text);
	else
		cr_assert_not(passes_bytes(text, len), "%.*s", (int)len, text);
}

Test(json_scan, value_is_without_the_blanks)
{
	struct slice value;

	cr_assert_null(json_check("\n [1, 2]\t ", 10, &value));
	cr_assert_eq(value.len, 6);
	cr_assert_eq(memcmp(value.at, "[1, 2]", 6), 0);
}

Test(json_scan, says_what_is_wrong_and_where)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "unexpected end at byte 1"},
		{"{\"a\":[1,", "unexpected end at byte 9"},
		{"\"\\u12", "unexpected end at byte 6"},
		{"[1 2]", "expected a comma or ] at byte 4"},
		{"{\"a\":1 \"b\":2}", "expected a comma or } at byte 8"},
		{"{\"a\" 1}", "expected a colon at byte 6"},
		{"{a:1}", "expected a member's name in quotes at byte 2"},
		{"[nul]", "expected a value at byte 2"},
		{"[1,]", "expected a value at byte 4"},
		{"[-x]", "expected a digit at byte 3"},
		{"\"\\x\"", "invalid escape at byte 3"},
		{"\"\\u12g4\"", "expected a hexadecimal digit at byte 6"},
		{"\"a\tb\"", "control character in a string at byte 3"},
		{"{} {}", "something follows the message at byte 4"},
	};
	struct slice value;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *why = json_check(cases[i].text, strlen(cases[i].text), &value);

		cr_assert(why && strncmp(why, "not JSON: ", 10) == 0, "%s", cases[i].text);
		cr_assert_str_eq(why + 10, cases[i].why, "%s: %s", cases[i].text, why);
	}
}

Test(json_scan, counts_levels)
{
	char text[2 * JSON_DEPTH_MAX + 2];

	memset(text, '[', JSON_DEPTH_MAX + 1);
	memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
	cr_assert_not(passes_bytes(text, sizeof(text)));
	cr_assert(passes_bytes(text + 1, sizeof(text) - 2));
	text[JSON_DEPTH_MAX] = '1'; /* instead of the innermost container */
	cr_assert_not(passes_bytes(text, sizeof(text)));
}

Test(json_scan, passes_what_jansson_does)
{
	static const char bytes[] = "{}[]\",:\\/bu0159-+.eEtfn \n\t\v\f\x01\x1f\x7f";
	char text[2 * sizeof(sample)];
	size_t len = strlen(sample);

	for (size_t i = 0; i < len; i++) {
		assert_judged_alike(sample, i);
		memcpy(text, sample, len);
		for (size_t j = 0; j < sizeof(bytes); j++) {
			text[i] = bytes[j];
			assert_judged_alike(text, len);
		}
		memcpy(text + i, sample + i + 1, len - i - 1);
		assert_judged_alike(text, len - 1);
		memcpy(text + i, sample + i, len - i);
		memcpy(text + i + 1, sample + i, len - i);
		assert_judged_alike(text, len + 1);
	}
}
