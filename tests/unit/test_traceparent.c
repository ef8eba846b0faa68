/* Which traceparents are sent to webhooks. */
#include "outbox/traceparent.h"

#include "unit.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define GOOD   "00-" TRACE "-" PARENT "-01"

static char out[TRACEPARENT_SIZE];

/* Returns what is sent for a payload with this text at /meta/trace; "": nothing. */
static const char *sent(const char *text)
{
	char body[400];
	int len = snprintf(
		body, sizeof body,
		"{\"type\":\"t\",\"timestamp\":\"x\",\"id\":\"1\",\"data\":{\"a\": [1], \"meta\": {\"trace\": %s}}}",
		text);

	memset(out, 'x', sizeof out);
	return traceparent_find(out, body, (size_t)len, "/meta/trace") ? out : "";
}

Test(traceparent, a_good_one_is_sent_as_it_is)
{
	cr_expect_str_eq(sent("\"" GOOD "\""), GOOD);
	cr_expect_str_eq(sent("\"00-" TRACE "-" PARENT "-00\""), "00-" TRACE "-" PARENT "-00");
	cr_expect_str_eq(sent("\"00-" TRACE "-" PARENT "-ff\""), "00-" TRACE "-" PARENT "-ff");
}

Test(traceparent, a_later_version_is_sent_as_the_first)
{
	cr_expect_str_eq(sent("\"cc-" TRACE "-" PARENT "-01\""), GOOD);
	cr_expect_str_eq(sent("\"cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like\""), GOOD);
	cr_expect_str_eq(sent("\"cc-" TRACE "-" PARENT "-01.what\""), "");
}

Test(traceparent, what_is_none_is_not_sent)
{
	static const char *const wrong[] = {
		"\"\"",
		"null",
		"17",
		"{}",
		"[\"" GOOD "\"]",
		"\"" GOOD " \"",
		"\" " GOOD "\"",
		"\"" GOOD "-\"",
		"\"" GOOD "\\r\\nx: y\"",
		"\"\\u0030"
		"0-" TRACE "-" PARENT "-01\"",
		"\"ff-" TRACE "-" PARENT "-01\"",
		"\"00-" TRACE "-" PARENT "-1\"",
		"\"00-" TRACE "-" PARENT "-0g\"",
		"\"00-00000000000000000000000000000000-" PARENT "-01\"",
		"\"00-" TRACE "-0000000000000000-01\"",
		"\"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01\"",
		"\"00_" TRACE "-" PARENT "-01\"",
		"\"00-" TRACE "_" PARENT "-01\"",
		"\"00-" TRACE "-" PARENT "_01\"",
		"\"00-" TRACE "0" PARENT "-01\"",
		"\"0-" TRACE "0-" PARENT "-01\"",
		"\"\\\"-" TRACE "-" PARENT "-01\"",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_str_empty(sent(wrong[i]), "%s", wrong[i]);
}

Test(traceparent, a_payload_that_has_no_such_place_or_is_one_itself)
{
	static const char plain[] = "{\"type\":\"t\",\"id\":\"1\",\"data\":\"" GOOD "\"}", none[] = "{\"type\":\"t\"}";

	cr_expect_not(traceparent_find(out, plain, sizeof(plain) - 1, "/meta/trace"));
	cr_expect(traceparent_find(out, plain, sizeof(plain) - 1, ""));
	cr_expect_str_eq(out, GOOD);
	cr_expect_not(traceparent_find(out, none, sizeof(none) - 1, ""));
}
