/* Payloads are stored as they were sent, digit by digit, and ids, types and payloads are found at their pointers. One
 * listener, one producer, acks awaited. */
#include "support.h"
#include "bench.h"

static void set_up(void)
{
	bench_serve((struct listener_options){.redis = "none"}, NULL);
}

/* Returns one value of the only row with this id. */
static char *column(const char *name, const char *event_id)
{
	return database_text(db, "SELECT %s FROM events WHERE event_id = $wsonce$%s$wsonce$", name, event_id);
}

static void expect_column(const char *name, const char *event_id, const char *expected)
{
	char *text = column(name, event_id);

	cr_assert_str_eq(text, expected, "%s of %s is %s, not %s", name, event_id, text, expected);
}

/* Sends a payload and expects it in the table as jsonb prints it. expected NULL: unchanged. */
static void expect_kept(const char *payload, const char *expected)
{
	static int number;
	char *id = suite_text("payload-%d", ++number);
	peer_sendf(producer, "{\"event_id\":\"%s\",\"event_type\":\"t\",\"payload\":%s}", id, payload);
	ack_expect(producer, id, "persisted");
	expect_column("payload::text", id, expected ? expected : payload);
}

/* Sends a message and expects an event with this id, type and payload. */
static void expect_row(const char *message, const char *event_id, const char *type, const char *payload)
{
	peer_send_text(producer, message);
	ack_expect(producer, event_id, "persisted");
	expect_column("event_type", event_id, type);
	expect_column("payload::text", event_id, payload);
}

Test(payload, values_of_any_kind_are_kept_as_jsonb_prints_them, .init = set_up, .fini = bench_close)
{
	static const char *const kept[][2] = {
		/* sent, and what is printed; NULL: the same */
		/* jsonb itself does not keep the sign of zero and the form of exponents */
		{"0.1", NULL},
		{"100.00", NULL},
		{"18446744073709551615", NULL},
		{"-9223372036854775809", NULL},
		{"0.1234567890123456789012345678901234567891", NULL},
		{"12345678901234567890.12345678901234567890", NULL},
		{"1234567890123456789012345678901234567890", NULL},
		{"-0.0", "0.0"},
		{"1e3", "1000"},
		{"1.50E-3", "0.00150"},
		{"0", NULL},
		{"{\"a\":[0.10,1.0,3.00000000000000000000001]}", "{\"a\": [0.10, 1.0, 3.00000000000000000000001]}"},
		/* escapes and surrogate pairs */
		{"\"\"", NULL},
		{"\"text\"", NULL},
		{"\"caf\\u00e9 \\u20AC\"", "\"café €\""},
		{"\"\\ud83d\\ude00\"", "\"😀\""},
		{"\"\\uD83D\\uDE00 😀\"", "\"😀 😀\""},
		{"\"\\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u0001\"", "\"\\\" \\\\ / \\b\\f\\n\\r\\t \\u0001\""},
		{"\"\\\\u0000 is text\"", "\"\\\\u0000 is text\""},
		{"{\"k\\u00e9y\":\"\\u007f\"}", "{\"kéy\": \"\x7f\"}"},
		/* values of any kind */
		{"true", NULL},
		{"false", NULL},
		{"null", NULL},
		{"[]", NULL},
		{"{}", NULL},
		{"[[[]]]", NULL},
		{"[1,\"two\",null,{\"three\":3}]", "[1, \"two\", null, {\"three\": 3}]"},
		{"{\"event_id\":\"inner\",\"payload\":{\"payload\":1}}",
		 "{\"payload\": {\"payload\": 1}, \"event_id\": \"inner\"}"},
		/* the last of duplicate keys is kept */
		{"{\"a\":1,\"a\":2}", "{\"a\": 2}"},
		{"{\"event_id\":1,\"event_id\":2}", "{\"event_id\": 2}"},
		{"[{\"a\":1,\"b\":0,\"a\":2.0}]", "[{\"a\": 2.0, \"b\": 0}]"},
		/* white space */
		{"  \"  inner  \"  ", "\"  inner  \""},
	};
	char nested[4001];

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		expect_kept(kept[i][0], kept[i][1]);
	memset(nested, '[', 2000);
	memset(nested + 2000, ']', 2000);
	nested[4000] = '\0';
	expect_kept(nested, NULL);
}

Test(payload, what_is_missing_in_a_message_is_empty, .init = set_up, .fini = bench_close)
{
	static const char *const rows[][4] = {
		/* message, id, type, payload */
		{" \t\r\n{ \"payload\" : \n[ 1 , 2 ]\t, \"event_id\"\r\n:\t\"spaces\" , \"event_type\" :\"t\" } \n ",
		 "spaces", "t", "[1, 2]"},
		{"{\"event_id\":\"last\",\"event_type\":\"t\",\"payload\":  7  }", "last", "t", "7"},
		{"{\"event_id\":\"no-payload\",\"event_type\":\"t\"}", "no-payload", "t", "{}"},
		{"{\"event_id\":\"null-payload\",\"event_type\":\"t\",\"payload\":null}", "null-payload", "t", "null"},
		{"{\"event_id\":\"no-type\",\"payload\":1}", "no-type", "", "1"},
		{"{\"event_id\":\"only-id\"}", "only-id", "", "{}"},
		{"{\"event_id\":\"null-type\",\"event_type\":null}", "null-type", "", "{}"},
		{"{\"event_id\":\"number-type\",\"event_type\":42.0}", "number-type", "42.0", "{}"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		expect_row(rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
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

/* ---- ids ---- */

/* Expects an event with this id, given as JSON, to be stored and acked with this text. */
static void expect_id(const char *json, const char *event_id)
{
	peer_sendf(producer, "{\"event_id\":%s,\"payload\":\"of this id\"}", json);
	ack_expect(producer, event_id, "persisted");
	expect_column("payload::text", event_id, "\"of this id\"");
}

Test(payload, ids_are_kept_and_told_apart_by_their_bytes, .init = set_up, .fini = bench_close)
{
	static const char *const ids[][2] = {
		/* as JSON, and as text */
		{"\"i\"", "i"},
		{"\" \"", " "},
		{"1", "1"},
		{"1.0", "1.0"},
		{"-0", "-0"},
		{"1e3", "1e3"},
		{"18446744073709551616", "18446744073709551616"},
		{"0.1000", "0.1000"},
		{"\"café\"", "café"},
		{"\"cafe\\u0301\"", "cafe\xcc\x81"},
		{"\"CAFÉ\"", "CAFÉ"},
		{"\"\\ud83d\\ude00\"", "😀"},
		{"\"日本語\"", "日本語"},
		{"\"say \\\"hi\\\"\"", "say \"hi\""},
		{"\"back\\\\slash\"", "back\\slash"},
		{"\"two\\nlines\\r\\n\"", "two\nlines\r\n"},
		{"\"tab\\t and \\u0001 and \\u007f\"", "tab\t and \x01 and \x7f"},
		{"\"{\\\"event_id\\\":null}\"", "{\"event_id\":null}"},
		{"\"'; DROP TABLE events; --\"", "'; DROP TABLE events; --"},
	};
	char id[513];

	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		expect_id(ids[i][0], ids[i][1]);
	memset(id, 'x', 512);
	id[512] = '\0';
	char *json = suite_text("\"%s\"", id);
	expect_id(json, id);
	peer_send_text(producer, "{\"event_id\":\"1\"}");
	ack_expect(producer, "1", "duplicate");
	peer_send_text(producer, "{\"event_id\":\"caf\\u00e9\"}");
	ack_expect(producer, "café", "duplicate");
}

/* ---- pointers ---- */

static void set_up_nested(void)
{
	bench_serve((struct listener_options){.redis = "none"},
		    "--id-pointer /meta/key/0 --type-pointer /meta/a~1b~0c --payload-pointer /list/1/body");
}

Test(payload, pointers_lead_into_objects_and_arrays, .init = set_up_nested, .fini = bench_close)
{
	expect_row("{\"meta\":{\"key\":[\"first\",\"second\"],\"a/b~c\":\"odd\"},\"list\":[0,{\"body\":[0.10]},2]}",
		   "first", "odd", "[0.10]");
	expect_row("{\"list\":[{\"body\":1},{\"other\":2}],\"meta\":{\"key\":[7]},\"event_id\":\"no\"}", "7", "", "{}");
	peer_send_text(producer, "{\"meta\":{\"key\":{\"1\":\"no\"}}}");
	ack_expect_rejected(producer, NULL, "/meta/key/0");
}
