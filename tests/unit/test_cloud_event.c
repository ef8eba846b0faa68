/* CloudEvents in HTTP requests: their mode, their headers, and data of each kind. */
#include "intake/cloud_event.h"
#include "unit.h"

Test(cloud_event, content_type_or_else_the_version_says_the_mode)
{
	cr_assert_eq(cloud_event_mode("application/cloudevents+json", NULL), CLOUD_STRUCTURED);
	cr_assert_eq(cloud_event_mode("Application/CloudEvents+JSON; charset=UTF-8", "1.0"), CLOUD_STRUCTURED);
	cr_assert_eq(cloud_event_mode("application/cloudevents-batch+json;charset=utf-8", "1.0"), CLOUD_BATCH);
	cr_assert_eq(cloud_event_mode("application/cloudevents+avro", "1.0"), CLOUD_FOREIGN);
	cr_assert_eq(cloud_event_mode("application/cloudevents+jsonx", NULL), CLOUD_FOREIGN);
	cr_assert_eq(cloud_event_mode("application/cloudevents", NULL), CLOUD_FOREIGN);
	cr_assert_eq(cloud_event_mode("application/json", "1.0"), CLOUD_BINARY);
	cr_assert_eq(cloud_event_mode(NULL, "1.0"), CLOUD_BINARY);
	cr_assert_eq(cloud_event_mode("application/json", NULL), CLOUD_NONE);
	cr_assert_eq(cloud_event_mode(NULL, NULL), CLOUD_NONE);
}

static void expect_header(const char *name, const char *value, const char *member)
{
	struct bytes b = {NULL, 0, 0};
	const char *why = cloud_event_add_header(&b, name, value);

	cr_assert(!why && strcmp(bytes_text(&b), member) == 0, "%s: %s makes %s, not %s (%s)", name, value,
		  bytes_text(&b), member, why);
	bytes_free(&b);
}

/* The third one is the example of the HTTP binding, section 3.1.3.2. */
Test(cloud_event, headers_are_unquoted_and_decoded_once)
{
	expect_header("ce-id", "1234-1234-1234", ",\"id\":\"1234-1234-1234\"");
	expect_header("CE-Id", "a", ",\"id\":\"a\"");
	expect_header("ce-subject", "Euro%20%E2%82%AC%20%f0%9f%98%80", ",\"subject\":\"Euro € 😀\"");
	expect_header("ce-subject", "%2541", ",\"subject\":\"%41\"");
	expect_header("ce-subject", "\"a \\\"b\\\" \\\\ %22\"", ",\"subject\":\"a \\\"b\\\" \\\\ \\\"\"");
	expect_header("ce-subject", "100%", ",\"subject\":\"100%\"");
	expect_header("ce-subject", "%00", ",\"subject\":\"%00\"");
	expect_header("ce-subject", "\"", ",\"subject\":\"\\\"\"");
	expect_header("ce-subject", "\"\\\"", ",\"subject\":\"\\\\\"");
	expect_header("ce-subject", "\"\"", ",\"subject\":\"\"");
	expect_header("ce-subject", NULL, ",\"subject\":\"\"");
	expect_header("content-type", "text/plain; charset=\"%41\"",
		      ",\"datacontenttype\":\"text/plain; charset=\\\"%41\\\"\"");
	expect_header("cepheid", "x", "");
	expect_header("host", "x", "");
}

static void expect_wrong(const char *name, const char *value, const char *part)
{
	struct bytes b = {NULL, 0, 0};

	cr_assert_null(cloud_event_add_header(&b, "ce-id", "x"));
	cr_assert_null(cloud_event_add_header(&b, "ce-source", "a,\",\"type\":\"b"));
	const char *why = cloud_event_add_header(&b, name, value);
	cr_assert(why && strstr(why, part), "%s: %s: %s", name, value, why);
	cr_assert_str_eq(bytes_text(&b), ",\"id\":\"x\",\"source\":\"a,\\\",\\\"type\\\":\\\"b\"");
	cr_assert_null(cloud_event_add_header(&b, "ce-type", "x"));
	bytes_free(&b);
}

Test(cloud_event, header_that_is_no_attribute_is_wrong)
{
	expect_wrong("ce-", "x", "letters and digits");
	expect_wrong("ce-data_base64", "x", "letters and digits");
	expect_wrong("ce-data", "x", "in the body");
	expect_wrong("ce-DataContentType", "x", "in the body");
	expect_wrong("ce-ID", "y", "twice");
	expect_wrong("ce-subject", "%C0%A0", "not UTF-8");
	expect_wrong("ce-subject", "%ED%A0%80", "not UTF-8");
	expect_wrong("ce-subject", "\xff", "not UTF-8");
	expect_wrong("content-type", "\xff", "not UTF-8");
}

static void expect_event(const char *type, const char *data, size_t len, const char *member, bool is_good)
{
	struct bytes event = {NULL, 0, 0};
	char *copy = memcpy(malloc(len ? len : 1), data, len), *whole = memory_printf("{\"id\":\"x\"%s}", member);

	cr_assert_eq(cloud_event_write(&event, (struct slice){",\"id\":\"x\"", 9}, type, (struct slice){copy, len}),
		     is_good);
	cr_assert_str_eq(bytes_text(&event), whole);
	bytes_free(&event);
	free(copy);
	free(whole);
}

#define EXPECT(type, data, member) expect_event(type, data, sizeof(data) - 1, member, true)

Test(cloud_event, data_is_json_or_a_text_or_bytes)
{
	EXPECT("application/json", " {\"n\":0.10} ", ",\"data\":{\"n\":0.10}");
	EXPECT("text/JSON; charset=utf-8", "null", ",\"data\":null");
	EXPECT("application/vnd.x+json", "\"1\"", ",\"data\":\"1\"");
	EXPECT("application/xml", "<much wow=\"xml\"/>\n", ",\"data\":\"<much wow=\\\"xml\\\"/>\\n\"");
	EXPECT("text/plain", "12", ",\"data\":\"12\"");
	EXPECT("application/octet-stream", "\xff\xfe", ",\"data_base64\":\"//4=\"");
	EXPECT("application/octet-stream", "\xff\xfe\xfd", ",\"data_base64\":\"//79\"");
	EXPECT("text/plain", "a\0b", ",\"data_base64\":\"YQBi\"");
	EXPECT("application/json", "", "");
	EXPECT(NULL, "{}", ",\"data\":{}");
	EXPECT(NULL, "{", ",\"data\":\"{\"");
	EXPECT("json", "{}", ",\"data\":\"{}\"");
	expect_event("application/json", "{", 1, ",\"data_base64\":\"ew==\"", false);
	expect_event("application/json", "\xff", 1, ",\"data_base64\":\"/w==\"", false);
}

Test(cloud_event, bytes_of_any_number_are_base64)
{
	char zeros[100] = "";

	for (size_t len = 1; len < sizeof zeros; len++) {
		struct bytes event = {NULL, 0, 0};

		cr_assert(cloud_event_write(&event, (struct slice){",\"id\":\"x\"", 9}, "a/b",
					    (struct slice){zeros, len}));
		cr_assert_eq(event.len, 27 + (len + 2) / 3 * 4);
		bytes_free(&event);
	}
}
