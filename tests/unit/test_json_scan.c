/* What json_scan.c passes. That it passes nothing that is not JSON is asked of yajl, for a text that has everything,
 * with each of its bytes replaced by each that means something, left out, and doubled, and cut off at each place. */
#include "base/json_scan.h"

#include <yajl/yajl_parse.h>

#include "base/json.h"
#include "unit.h"

static const char sample[] =
	" {\"a\":[1,-0,2.50,1e5,-3.25E-7,\n0],\"b\\n\\u00e9\\\"\":{\"c\":null,\"\":true , \"d\":false},\t"
	"\"long enough for a word of eight\":\"and \\\\ more of it\",\"e\":[[],{},[{}]]} \r";

static bool passes_bytes(const char *text, size_t len)
{
	char *kept = malloc(len ? len : 1); /* of its exact size: ASan sees a step beyond it */
	struct slice value;
	bool result;

	memcpy(kept, text, len);
	result = json_scan(kept, len, &value);
	free(kept);
	return result;
}

static bool passes(const char *text)
{
	return passes_bytes(text, strlen(text));
}

static bool is_json(const char *text, size_t len)
{
	yajl_handle parser = yajl_alloc(NULL, NULL, NULL);
	bool result = yajl_parse(parser, (const unsigned char *)text, len) == yajl_status_ok &&
		      yajl_complete_parse(parser) == yajl_status_ok;

	yajl_free(parser);
	return result;
}

static void assert_sound(const char *text, size_t len)
{
	cr_assert(!passes_bytes(text, len) || is_json(text, len), "not JSON: %.*s", (int)len, text);
}

Test(json_scan, passes_what_messages_are_like)
{
	static const char *const texts[] = {sample,    "{}",       "[]",           "0",     "-1.5e+3",
					    "\"\"",    "true",     " null ",       "[1,2]", "[[1]]",
					    "\"\\/\"", "\"\x7f\"", "\"\xc3\xa9\"", "1E5",   "{\"a\":{}}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert(passes(texts[i]), "%s", texts[i]);
}

Test(json_scan, has_doubts_about_the_rest)
{
	static const char *const texts[] = {
		"",     " ",   "{",   "[1,]",  "{\"a\":1,}", "{\"a\"}", "{1:2}",   "[1 2]",       "01",     "-",  "1.",
		".5",   "1e",  "+1",  "nul",   "truex",      "\"a",     "\"\\x\"", "\"\\u12g4\"", "\"\t\"", "[}", "{]",
		"[1]]", "1 2", "\v1", "[1]\f", "'a'",        "{,}",     "[,1]",    "{\"a\"::1}",  "\"\\u12"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(passes(texts[i]), "%s", texts[i]);
	cr_assert_not(passes_bytes("\"a\0b\"", 5));
	cr_assert_not(passes_bytes("1\0", 2));
}

Test(json_scan, value_is_without_the_blanks)
{
	struct slice value;

	cr_assert(json_scan("\n [1, 2]\t ", 10, &value));
	cr_assert_eq(value.len, 6);
	cr_assert_eq(memcmp(value.at, "[1, 2]", 6), 0);
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

Test(json_scan, passes_nothing_that_the_parser_does_not)
{
	static const char bytes[] = "{}[]\",:\\/bu0159-+.eEtfn \n\t\v\f\x01\x1f\x7f";
	char text[2 * sizeof(sample)];
	size_t len = strlen(sample);

	for (size_t i = 0; i < len; i++) {
		assert_sound(sample, i);
		memcpy(text, sample, len);
		for (size_t j = 0; j < sizeof(bytes); j++) {
			text[i] = bytes[j];
			assert_sound(text, len);
		}
		memcpy(text + i, sample + i + 1, len - i - 1);
		assert_sound(text, len - 1);
		memcpy(text + i, sample + i, len - i);
		memcpy(text + i + 1, sample + i, len - i);
		assert_sound(text, len + 1);
	}
}
