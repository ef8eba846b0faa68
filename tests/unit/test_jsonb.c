/* What jsonb cannot hold. numeric has at most 131,072 digits before the point and 16,383 after it. */
#include "postgres/jsonb.h"
#include "unit.h"

TestSuite(jsonb, .timeout = 60);

static bool is_held(const char *value)
{
	return !jsonb_fault((struct slice){value, strlen(value)});
}

Test(jsonb, it_holds_what_looks_like_a_fault_and_is_none)
{
	static const char *const held[] = {
		"1",
		"-0.0e0",
		"1e131071",
		"0e999999",
		"0.0001e131075",
		"\"1e999999\"",
		"{\"1e999999\":1}",
		"\"\"",
		"[\"\\n\"]",
		"1e-16383",
		"\"\\\\u0000\"",
		"\"\\ud800\\udc00\"",
		"1.5e-16382",
	};

	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		cr_assert(is_held(held[i]), "%s", held[i]);
}

Test(jsonb, it_does_not_hold_nul_half_pairs_and_huge_numbers)
{
	static const char *const refused[] = {
		"\"\\u0000\"",  "{\"\\u0000\":1}", "\"\\\\\\u0000\"",   "\"\\ud800\"",
		"\"\\udc00\"",  "[0,-1e131072]",   "1.5e-16383",        "0e-16384",
		"0e1073741823", "0.0001e131076",   "{\"a\":10e131071}", "1e-99999999999999999999",
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		cr_assert(!is_held(refused[i]), "%s", refused[i]);
}
