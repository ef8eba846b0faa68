/* Payloads come out of the table as they were sent, digit by digit, and ids, types and payloads are
 * found wherever the pointers say. One listener, one producer, acks awaited. */
#include "support.h"
#include "bench.h"

#define ACKS "wsonce.ack.v1"

static void start(const char *flags, const char *const *env)
{
	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .redis = "none", .env = env}, "%s", flags);
	producer = peer_open_events(listener_ingest_port(listener), ACKS);
}

static void set_up(void)
{
	start("", NULL);
}

/* One value of the only row with this id. */
static char *column(const char *name, const char *event_id)
{
	return database_text(db, "SELECT %s FROM events WHERE event_id = $wsonce$%s$wsonce$", name, event_id);
}

static void expect_column(const char *name, const char *event_id, const char *expected)
{
	char *text = column(name, event_id);

	cr_assert_str_eq(text, expected, "%s of %s is %s, not %s", name, event_id, text, expected);
}

/* Send a payload and find it in the table as jsonb prints it; expected NULL: as it was sent. */
static void expect_kept(const char *payload, const char *expected)
{
	static int number;
	char id[32];

	snprintf(id, sizeof id, "payload-%d", ++number);
	peer_sendf(producer, "{\"event_id\":\"%s\",\"event_type\":\"t\",\"payload\":%s}", id, payload);
	ack_expect(producer, id, "persisted");
	expect_column("payload::text", id, expected ? expected : payload);
}

/* Send a whole message, whose event then has this id, type and payload. */
static void expect_row(const char *message, const char *event_id, const char *type, const char *payload)
{
	peer_send_text(producer, message);
	ack_expect(producer, event_id, "persisted");
	expect_column("event_type", event_id, type);
	expect_column("payload::text", event_id, payload);
}

/* What jsonb itself cannot keep (the sign of zero, the exponent's form) is as it prints it. */
Test(payload, numbers_keep_every_digit, .init = set_up, .fini = bench_close)
{
	expect_kept("0.1", NULL);
	expect_kept("100.00", NULL);
	expect_kept("18446744073709551615", NULL);
	expect_kept("-9223372036854775809", NULL);
	expect_kept("0.1234567890123456789012345678901234567891", NULL);
	expect_kept("12345678901234567890.12345678901234567890", NULL);
	expect_kept("1234567890123456789012345678901234567890", NULL);
	expect_kept("-0.0", "0.0");
	expect_kept("1e3", "1000");
	expect_kept("1.50E-3", "0.00150");
	expect_kept("0", NULL);
	expect_kept("{\"a\":[0.10,1.0,3.00000000000000000000001]}", "{\"a\": [0.10, 1.0, 3.00000000000000000000001]}");
}

Test(payload, strings_keep_escapes_and_surrogate_pairs, .init = set_up, .fini = bench_close)
{
	expect_kept("\"\"", NULL);
	expect_kept("\"text\"", NULL);
	expect_kept("\"caf\\u00e9 \\u20AC\"", "\"café €\"");
	expect_kept("\"\\ud83d\\ude00\"", "\"😀\"");
	expect_kept("\"\\uD83D\\uDE00 😀\"", "\"😀 😀\"");
	expect_kept("\"\\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u0001\"", "\"\\\" \\\\ / \\b\\f\\n\\r\\t \\u0001\"");
	expect_kept("\"\\\\u0000 is text\"", "\"\\\\u0000 is text\"");
	expect_kept("{\"k\\u00e9y\":\"\\u007f\"}", "{\"kéy\": \"\x7f\"}");
}

Test(payload, any_json_value_is_a_payload, .init = set_up, .fini = bench_close)
{
	expect_kept("true", NULL);
	expect_kept("false", NULL);
	expect_kept("null", NULL);
	expect_kept("[]", NULL);
	expect_kept("{}", NULL);
	expect_kept("[[[]]]", NULL);
	expect_kept("[1,\"two\",null,{\"three\":3}]", "[1, \"two\", null, {\"three\": 3}]");
	expect_kept("{\"event_id\":\"inner\",\"payload\":{\"payload\":1}}",
		    "{\"payload\": {\"payload\": 1}, \"event_id\": \"inner\"}");
}

Test(payload, the_last_of_duplicate_keys_inside_it_is_kept, .init = set_up, .fini = bench_close)
{
	expect_kept("{\"a\":1,\"a\":2}", "{\"a\": 2}");
	expect_kept("{\"event_id\":1,\"event_id\":2}", "{\"event_id\": 2}");
	expect_kept("[{\"a\":1,\"b\":0,\"a\":2.0}]", "[{\"a\": 2.0, \"b\": 0}]");
}

Test(payload, white_space_around_tokens_does_not_matter, .init = set_up, .fini = bench_close)
{
	expect_row(" \t\r\n{ \"payload\" : \n[ 1 , 2 ]\t, \"event_id\"\r\n:\t\"spaces\" , \"event_type\" :\"t\" } \n ",
		   "spaces", "t", "[1, 2]");
	expect_row("{\"event_id\":\"last\",\"event_type\":\"t\",\"payload\":  7  }", "last", "t", "7");
	expect_kept("  \"  inner  \"  ", "\"  inner  \"");
}

Test(payload, a_missing_payload_is_an_empty_object, .init = set_up, .fini = bench_close)
{
	expect_row("{\"event_id\":\"no-payload\",\"event_type\":\"t\"}", "no-payload", "t", "{}");
	expect_row("{\"event_id\":\"null-payload\",\"event_type\":\"t\",\"payload\":null}", "null-payload", "t",
		   "null");
}

Test(payload, a_missing_type_is_empty, .init = set_up, .fini = bench_close)
{
	expect_row("{\"event_id\":\"no-type\",\"payload\":1}", "no-type", "", "1");
	expect_row("{\"event_id\":\"only-id\"}", "only-id", "", "{}");
	expect_row("{\"event_id\":\"null-type\",\"event_type\":null}", "null-type", "", "{}");
	expect_row("{\"event_id\":\"number-type\",\"event_type\":42.0}", "number-type", "42.0", "{}");
}

Test(payload, nine_hundred_kilobytes_are_kept, .init = set_up, .fini = bench_close)
{
	size_t len = 900 << 10;
	char *text = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + i % 26);
	text[len] = '\0';
	peer_sendf(producer, "{\"event_id\":\"long\",\"payload\":\"%s\"}", text);
	ack_expect(producer, "long", "persisted");
	char *stored = column("payload #>> '{}'", "long");
	cr_assert(strcmp(stored, text) == 0, "%zu bytes were stored", strlen(stored));
}

Test(payload, nesting_of_two_thousand_levels_is_kept, .init = set_up, .fini = bench_close)
{
	char text[4001];

	memset(text, '[', 2000);
	memset(text + 2000, ']', 2000);
	text[4000] = '\0';
	expect_kept(text, NULL);
}

/* ---- ids ---- */

/* An event of this id, given as JSON, is stored and acked under this text. */
static void expect_id(const char *json, const char *event_id)
{
	peer_sendf(producer, "{\"event_id\":%s,\"payload\":\"of this id\"}", json);
	ack_expect(producer, event_id, "persisted");
	expect_column("payload::text", event_id, "\"of this id\"");
}

Test(payload, an_id_has_1_to_512_bytes, .init = set_up, .fini = bench_close)
{
	char id[513], json[515];

	memset(id, 'x', 512);
	id[512] = '\0';
	snprintf(json, sizeof json, "\"%s\"", id);
	expect_id(json, id);
	expect_id("\"i\"", "i");
	expect_id("\" \"", " ");
}

Test(payload, a_number_is_an_id_as_it_is_written, .init = set_up, .fini = bench_close)
{
	expect_id("1", "1");
	expect_id("1.0", "1.0");
	expect_id("-0", "-0");
	expect_id("1e3", "1e3");
	expect_id("18446744073709551616", "18446744073709551616");
	expect_id("0.1000", "0.1000");
	peer_send_text(producer, "{\"event_id\":\"1\"}");
	ack_expect(producer, "1", "duplicate");
}

Test(payload, ids_of_any_script_stay_apart, .init = set_up, .fini = bench_close)
{
	expect_id("\"café\"", "café");
	expect_id("\"cafe\\u0301\"", "cafe\xcc\x81");
	expect_id("\"CAFÉ\"", "CAFÉ");
	expect_id("\"\\ud83d\\ude00\"", "😀");
	expect_id("\"日本語\"", "日本語");
	peer_send_text(producer, "{\"event_id\":\"caf\\u00e9\"}");
	ack_expect(producer, "café", "duplicate");
}

Test(payload, ids_with_quotes_and_control_characters_are_acked_as_json, .init = set_up, .fini = bench_close)
{
	expect_id("\"say \\\"hi\\\"\"", "say \"hi\"");
	expect_id("\"back\\\\slash\"", "back\\slash");
	expect_id("\"two\\nlines\\r\\n\"", "two\nlines\r\n");
	expect_id("\"tab\\t and \\u0001 and \\u007f\"", "tab\t and \x01 and \x7f");
	expect_id("\"{\\\"event_id\\\":null}\"", "{\"event_id\":null}");
	expect_id("\"'; DROP TABLE events; --\"", "'; DROP TABLE events; --");
}

/* ---- pointers ---- */

static void set_up_nested(void)
{
	start("--id-pointer /meta/key/0 --type-pointer /meta/a~1b~0c --payload-pointer /list/1/body", NULL);
}

Test(payload, pointers_lead_into_objects_and_arrays, .init = set_up_nested, .fini = bench_close)
{
	expect_row("{\"meta\":{\"key\":[\"first\",\"second\"],\"a/b~c\":\"odd\"},\"list\":[0,{\"body\":[0.10]},2]}",
		   "first", "odd", "[0.10]");
	expect_row("{\"list\":[{\"body\":1},{\"other\":2}],\"meta\":{\"key\":[7]},\"event_id\":\"no\"}", "7", "", "{}");
	peer_send_text(producer, "{\"meta\":{\"key\":{\"1\":\"no\"}}}");
	ack_expect_rejected(producer, NULL, "/meta/key/0");
}

static void set_up_whole(void)
{
	static const char *const env[] = {"WSONCE_PAYLOAD_POINTER=", "WSONCE_ID_POINTER=/a,/b", NULL};

	start("", env);
}

Test(payload, an_empty_pointer_is_the_whole_message_and_an_id_may_have_parts, .init = set_up_whole, .fini = bench_close)
{
	expect_row("{\"a\":\"x\",\"b\":1.50,\"event_type\":\"t\"}", "x|1.50", "t",
		   "{\"a\": \"x\", \"b\": 1.50, \"event_type\": \"t\"}");
	expect_row(" {\"a\":\"x|y\",\"b\":\"z\"} ", "x\\|y|z", "", "{\"a\": \"x|y\", \"b\": \"z\"}");
	expect_row("{\"a\":\"x\",\"b\":\"y|z\"}", "x|y\\|z", "", "{\"a\": \"x\", \"b\": \"y|z\"}");
	expect_row("{\"a\":\"x\\\\\",\"b\":\"z\"}", "x\\\\|z", "", "{\"a\": \"x\\\\\", \"b\": \"z\"}");
	peer_send_text(producer, "{\"a\":\"x\"}");
	ack_expect_rejected(producer, NULL, "/b is missing");
}

static void set_up_scalar(void)
{
	static const char *const env[] = {"WSONCE_ID_POINTER=/id", NULL};

	start("--payload-pointer= --id-pointer=", env);
}

Test(payload, a_message_may_be_its_own_id, .init = set_up_scalar, .fini = bench_close)
{
	expect_row("\"alone\"", "alone", "", "\"alone\"");
	expect_row("42", "42", "", "42");
	expect_row(" 4.20 ", "4.20", "", "4.20");
	peer_send_text(producer, "[]");
	ack_expect_rejected(producer, NULL, "not a string or a number");
}
