/* What envelope.c reads from a message. */
#include "event/envelope.h"

#include "unit.h"

static struct envelope *reader;
static struct envelope_view view;
static char *kept; /* the current message, in a block of its exact size, so that ASan notices a read beyond it */

static void use_pointers(struct config_list ids, const char *type, const char *payload)
{
	envelope_free(reader);
	reader = envelope_new(&ids, type, payload);
	cr_assert_not_null(reader);
}

static void use_ids(size_t count, char **ids)
{
	use_pointers((struct config_list){ids, count}, "/event_type", "/payload");
}

#define USE_ID(pointer) use_ids(1, (char *[]){pointer})
#define USE_IDS(...)    use_ids(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *), (char *[]){__VA_ARGS__})

static void use_payload(const char *pointer)
{
	use_pointers((struct config_list){(char *[]){"/event_id"}, 1}, "/event_type", pointer);
}

static const char *read_bytes(const char *message, size_t len)
{
	free(kept);
	kept = malloc(len ? len : 1);
	memcpy(kept, message, len);
	return envelope_read(reader, kept, len, &view);
}

static const char *read_text(const char *message)
{
	return read_bytes(message, strlen(message));
}

static bool is_text(struct slice slice, const char *text)
{
	return slice.len == strlen(text) && memcmp(slice.at, text, slice.len) == 0;
}

static void assert_slice(const char *message, const char *name, struct slice slice, const char *text)
{
	cr_assert(is_text(slice, text), "%s: %s is '%.*s', not '%s'", message, name, (int)slice.len, slice.at, text);
}

static void assert_event(const char *message, const char *id, const char *type, const char *payload)
{
	const char *why = read_text(message);

	cr_assert_null(why, "%s: refused: %s", message, why);
	assert_slice(message, "id", view.id, id);
	assert_slice(message, "type", view.type, type);
	assert_slice(message, "payload", view.payload, payload);
}

static void assert_id(const char *message, const char *id)
{
	const char *why = read_text(message);

	cr_assert_null(why, "%s: refused: %s", message, why);
	assert_slice(message, "id", view.id, id);
}

static void assert_payload(const char *message, const char *payload)
{
	const char *why = read_text(message);

	cr_assert_null(why, "%s: refused: %s", message, why);
	assert_slice(message, "payload", view.payload, payload);
}

static void assert_refused(const char *message, const char *reason)
{
	const char *why = read_text(message);

	cr_assert_not_null(why, "%s: taken", message);
	cr_assert_not_null(strstr(why, reason), "%s: '%s' does not say '%s'", message, why, reason);
	cr_assert_null(strchr(why, '\n'), "%s: more than one line", message);
	cr_assert_eq(view.id.len, 0, "%s: refused, and has an id", message);
}

static void open_reader(void)
{
	use_payload("/payload");
}

static void close_reader(void)
{
	envelope_free(reader);
	free(kept);
}

TestSuite(envelope, .init = open_reader, .fini = close_reader, .timeout = 60);

/* --- members --- */

Test(envelope, absent_type_is_empty_and_absent_payload_is_an_empty_object)
{
	assert_event("{\"event_id\":\"a\"}", "a", "", "{}");
	assert_event("{\"event_id\":\"a\",\"event_type\":null}", "a", "", "{}");
	assert_event("{\"event_id\":\"a\",\"event_type\":\"\",\"payload\":null}", "a", "", "null");
}

Test(envelope, message_without_an_id_is_refused)
{
	assert_refused("{}", "/event_id is missing");
	assert_refused("[\"event_id\"]", "/event_id is missing");
	assert_refused("\"event_id\"", "/event_id is missing");
	assert_refused("{\"Event_id\":\"a\",\"event_id \":\"b\",\"event_i\":\"c\"}", "/event_id is missing");
	assert_refused("{\"event_id\":null}", "/event_id is missing");
	assert_refused("{\"event_id\":\"\"}", "/event_id is empty");
}

Test(envelope, id_is_a_string_or_a_number)
{
	assert_refused("{\"event_id\":true}", "/event_id is not a string or a number");
	assert_refused("{\"event_id\":{}}", "/event_id is not a string or a number");
	assert_refused("{\"event_id\":[1]}", "/event_id is not a string or a number");
	assert_refused("{\"event_id\":\"a\",\"event_type\":{}}", "/event_type is not a string or a number");
}

Test(envelope, nothing_is_folded_in_an_id)
{
	assert_id("{\"event_id\":\" a A \"}", " a A ");
	assert_id("{\"event_id\":\"e\\u0301\"}", "e\xcc\x81");
	assert_id("{\"event_id\":\"\xc3\xa9\"}", "\xc3\xa9");
}

Test(envelope, escapes_in_an_id_are_decoded)
{
	assert_id("{\"event_id\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"}",
		  "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac");
	assert_id("{\"event_id\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80");
}

/* --- the payload as it was sent --- */

Test(envelope, payload_points_into_the_message)
{
	assert_payload("{\"event_id\":\"a\",\"payload\":{\"x\":1}}", "{\"x\":1}");
	cr_assert_eq(view.payload.at, kept + 26);
}

Test(envelope, payload_keeps_its_bytes)
{
	assert_event("{\n  \"event_id\": \"order-1\",\n  \"event_type\": \"created\",\n  \"payload\": {\n    \"x\": "
		     "12.50\n  }\n}",
		     "order-1", "created", "{\n    \"x\": 12.50\n  }");
	assert_event("{\"event_id\":18446744073709551615,\"payload\":[0.1,18446744073709551615,3.14159265358979323846,"
		     "1e400]}",
		     "18446744073709551615", "", "[0.1,18446744073709551615,3.14159265358979323846,1e400]");
	assert_event(
		"{\"event_id\":\"a\",\"event_type\":\"\xc3\xa9t\",\"payload\":\"\\ud83d\\ude00 \xf0\x9f\x98\x80\"}",
		"a", "\xc3\xa9t", "\"\\ud83d\\ude00 \xf0\x9f\x98\x80\"");
	assert_payload("{\"event_id\":\"a\",\"payload\":{\"event_id\":1,\"event_id\":2,\"payload\":{}}}",
		       "{\"event_id\":1,\"event_id\":2,\"payload\":{}}");
}

Test(envelope, payload_that_holds_the_id_is_kept_whole)
{
	use_pointers((struct config_list){(char *[]){"/payload/id"}, 1}, "/payload/kind", "/payload");
	assert_event("{\"payload\":{\"id\":7, \"kind\":\"k\" }}", "7", "k", "{\"id\":7, \"kind\":\"k\" }");
}

/* --- pointers --- */

Test(envelope, empty_pointer_is_the_whole_message)
{
	use_payload("");
	assert_payload(" {\"event_id\":\"a\", \"x\":[1]} \n", "{\"event_id\":\"a\", \"x\":[1]}");
	use_pointers((struct config_list){(char *[]){""}, 1}, "/event_type", "");
	assert_event("\"a\"", "a", "", "\"a\"");
	assert_event(" \"a\\n\" ", "a\n", "", "\"a\\n\"");
	assert_event("42", "42", "", "42");
	assert_event("42 ", "42", "", "42");
	assert_event(" 4.2e1", "4.2e1", "", "4.2e1");
	assert_refused("{}", "the message is not a string or a number");
	assert_refused("null", "the message is missing");
}

Test(envelope, pointer_enters_arrays_by_index)
{
	USE_ID("/items/1/id");
	assert_id("{\"items\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}]}", "b");
	assert_id("{\"items\":[[[1,2],3],{\"x\":[0,1],\"id\":\"b\"}]}", "b");
	assert_refused("{\"items\":[{\"id\":\"a\"}]}", "/items/1/id is missing");
	USE_ID("/0");
	assert_id("[\"a\",\"b\"]", "a");
	USE_ID("/10");
	assert_id("[0,1,2,3,4,5,6,7,8,[9],\"ten\",11]", "ten");
	USE_ID("/1/1");
	assert_id("[[\"a\",\"b\"],[\"c\",\"d\"],[\"e\",\"f\"]]", "d");
	use_pointers((struct config_list){(char *[]){"/1/seq"}, 1}, "/0", "/2/1");
	assert_event("[\"trade\",{\"seq\":1001},[{\"px\":1.0},{\"px\":2.0}]]", "1001", "trade", "{\"px\":2.0}");
}

Test(envelope, index_with_a_leading_zero_or_a_dash_names_a_member_only)
{
	USE_ID("/01");
	assert_refused("[1,2]", "/01 is missing");
	assert_id("{\"1\":\"a\",\"01\":\"b\"}", "b");
	USE_ID("/-");
	assert_refused("[1,2]", "/- is missing");
	USE_ID("/1x");
	assert_refused("[1,2]", "/1x is missing");
	USE_ID("/1");
	assert_id("{\"0\":\"a\",\"1\":\"b\"}", "b");
}

Test(envelope, escapes_in_a_pointer_are_decoded_once)
{
	USE_ID("/a~1b");
	assert_id("{\"a\":{\"b\":1},\"a/b\":\"x\"}", "x");
	USE_ID("/a~0b");
	assert_id("{\"a~b\":\"x\"}", "x");
	USE_ID("/~01");
	assert_id("{\"/\":\"no\",\"~1\":\"x\"}", "x");
	USE_ID("/~1~0");
	assert_id("{\"/~\":\"x\"}", "x");
}

Test(envelope, empty_step_is_the_member_without_a_name)
{
	USE_ID("/");
	assert_id("{\"a\":1,\"\":\"x\"}", "x");
	USE_ID("/a//b");
	assert_id("{\"a\":{\"b\":\"no\",\"\":{\"b\":\"x\"}}}", "x");
}

Test(envelope, pointer_into_a_scalar_finds_nothing)
{
	use_payload("/payload/data");
	assert_payload("{\"event_id\":\"a\",\"payload\":\"data\"}", "{}");
	assert_payload("{\"event_id\":\"a\",\"payload\":[{\"data\":1}]}", "{}");
}

Test(envelope, pointer_has_up_to_sixteen_steps)
{
	char message[200] = "";

	USE_ID("/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a");
	for (int i = 0; i < 16; i++)
		strcat(message, "{\"a\":");
	strcat(message, "\"deep\"}}}}}}}}}}}}}}}}");
	assert_id(message, "deep");
}

/* --- ids of several parts --- */

Test(envelope, parts_of_an_id_are_joined_in_the_order_of_the_pointers)
{
	USE_IDS("/a", "/b/0", "/c");
	assert_id("{\"c\":\"z\",\"b\":[7],\"a\":\"x\"}", "x|7|z");
}

Test(envelope, bar_and_backslash_inside_a_part_are_escaped)
{
	USE_IDS("/a", "/b");
	assert_id("{\"a\":\"x|y\",\"b\":\"z\"}", "x\\|y|z");
	assert_id("{\"a\":\"x\",\"b\":\"y|z\"}", "x|y\\|z");
	assert_id("{\"a\":\"x\\\\\",\"b\":\"|\"}", "x\\\\|\\|");
	USE_ID("/a");
	assert_id("{\"a\":\"x|y\\\\\"}", "x|y\\");
}

Test(envelope, each_part_of_an_id_is_needed)
{
	USE_IDS("/a", "/b");
	assert_refused("{\"a\":\"x\"}", "/b is missing");
	assert_refused("{\"b\":\"x\"}", "/a is missing");
	assert_refused("{\"a\":\"x\",\"b\":\"\"}", "/b is empty");
}

Test(envelope, id_may_have_eight_parts)
{
	USE_IDS("/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7");
	assert_id("[1,2,3,4,5,6,7,8]", "1|2|3|4|5|6|7|8");
}

/* --- ambiguous messages --- */

Test(envelope, member_named_twice_is_refused)
{
	assert_refused("{\"event_id\":\"a\",\"event_id\":\"b\"}", "/event_id is named twice");
	assert_refused("{\"event_id\":\"a\",\"event_id\":\"a\"}", "/event_id is named twice");
	assert_refused("{\"event_id\":null,\"event_id\":\"a\"}", "/event_id is named twice");
	assert_refused("{\"event_id\":\"a\",\"event_type\":1,\"event_type\":2}", "/event_type is named twice");
	assert_refused("{\"event_id\":\"a\",\"payload\":{},\"x\":0,\"payload\":{}}", "/payload is named twice");
}

Test(envelope, member_above_a_pointer_named_twice_is_refused)
{
	USE_ID("/meta/id");
	assert_refused("{\"meta\":{\"id\":\"a\"},\"meta\":{}}", "/meta/id is named twice");
	assert_refused("{\"meta\":{},\"meta\":{\"id\":\"a\"}}", "/meta/id is named twice");
	assert_refused("{\"meta\":0,\"meta\":{\"id\":\"a\"}}", "/meta/id is named twice");
	assert_refused("{\"meta\":{\"id\":\"a\",\"id\":\"b\"}}", "/meta/id is named twice");
	USE_ID("/items/0/id");
	assert_refused("{\"items\":[{\"id\":1,\"id\":2}]}", "/items/0/id is named twice");
}

Test(envelope, names_twice_elsewhere_do_not_matter)
{
	assert_id("{\"event_id\":\"a\",\"x\":1,\"x\":2,\"payload\":{\"event_id\":1,\"event_id\":2}}", "a");
	USE_ID("/items/0/id");
	assert_id("{\"items\":[{\"id\":\"a\"},{\"id\":1,\"id\":2}],\"id\":0,\"id\":1}", "a");
}

Test(envelope, escaped_spelling_of_a_member_is_the_same_member)
{
	assert_id("{\"\\u0065vent_id\":\"a\"}", "a");
	assert_refused("{\"event_id\":\"a\",\"\\u0065vent_id\":\"b\"}", "/event_id is named twice");
	assert_refused("{\"event\\u005fid\":\"a\",\"event_id\":\"b\"}", "/event_id is named twice");
}

Test(envelope, half_of_a_surrogate_pair_in_an_id_is_refused)
{
	static const char *const halves[] = {"\\ud800",        "\\uDFFF",    "x\\ud83dx",      "\\ud83d\\ud83d",
					     "\\ude00\\ud83d", "\\ud83d\\n", "\\ud83d\\u0041", "\\ud83d\\ude00\\ud83d",
					     "\\\\\\ud83d"};
	char message[100];

	for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++) {
		snprintf(message, sizeof(message), "{\"event_id\":\"%s\"}", halves[i]);
		assert_refused(message, "/event_id contains an unpaired surrogate");
		snprintf(message, sizeof(message), "{\"event_id\":\"a\",\"event_type\":\"%s\"}", halves[i]);
		assert_refused(message, "/event_type contains an unpaired surrogate");
	}
}

Test(envelope, half_of_a_surrogate_pair_in_a_name_is_no_question_mark)
{
	USE_ID("/?");
	assert_refused("{\"\\ud800\":\"a\"}", "/? is missing");
	assert_id("{\"\\ud800\":\"a\",\"?\":\"b\"}", "b");
	assert_id("{\"\\u003f\":\"b\",\"\\udbff\":\"a\"}", "b");
}

Test(envelope, escaped_backslash_before_u_is_no_surrogate)
{
	assert_id("{\"event_id\":\"\\\\ud83d\"}", "\\ud83d");
	assert_id("{\"event_id\":\"\\ud83d\\ude00\\\\ud83d\"}", "\xf0\x9f\x98\x80\\ud83d");
}

Test(envelope, nul_in_an_id_or_type_is_refused)
{
	assert_refused("{\"event_id\":\"a\\u0000b\"}", "/event_id contains \\u0000");
	assert_refused("{\"event_id\":\"\\u0000\"}", "/event_id contains \\u0000");
	assert_refused("{\"event_id\":\"a\",\"event_type\":\"\\u0000\"}", "/event_type contains \\u0000");
}

/* --- limits --- */

/* Returns true if an id of n times text is accepted unchanged. */
static bool is_id_taken(const char *text, size_t n)
{
	char message[8000] = "{\"event_id\":\"", id[4000] = "";

	for (size_t i = 0; i < n; i++) {
		strcat(message, text);
		strcat(id, text);
	}
	strcat(message, "\"}");
	return !read_text(message) && is_text(view.id, id);
}

Test(envelope, id_has_at_most_512_bytes)
{
	char message[600];

	snprintf(message, sizeof(message), "{\"event_id\":\"%0513d\"}", 0);
	assert_refused(message, "/event_id makes an id of more than 512 bytes");
	cr_assert(is_id_taken("x", 511));
	cr_assert(is_id_taken("x", 512));
	cr_assert_not(is_id_taken("x", 513));
	cr_assert(is_id_taken("\xc3\xa9", 256));
	cr_assert_not(is_id_taken("\xc3\xa9", 257));
	cr_assert(is_id_taken("|", 512));
	cr_assert_not(is_id_taken("x", 3000));
}

/* A message with the id parts a, of n bytes, and b. */
static bool are_parts_taken(size_t n, const char *b)
{
	char message[1000];

	snprintf(message, sizeof(message), "{\"a\":\"%0*d\",\"b\":\"%s\"}", (int)n, 0, b);
	return !read_text(message);
}

Test(envelope, bars_and_escapes_count_for_the_length_of_an_id)
{
	USE_IDS("/a", "/b");
	cr_assert(are_parts_taken(510, "b"));
	cr_assert_eq(view.id.len, 512);
	cr_assert_not(are_parts_taken(511, "b"));
	cr_assert(are_parts_taken(509, "|"));
	cr_assert_eq(view.id.len, 512);
	cr_assert_not(are_parts_taken(510, "|"));
	cr_assert_not(are_parts_taken(512, "b"));
	cr_assert_not(are_parts_taken(513, "b"));
}

static const char *read_nested(const char *open, size_t opens, const char *close, size_t closes)
{
	char *message = NULL;
	size_t len;
	FILE *out = open_memstream(&message, &len);

	fprintf(out, "{\"event_id\":\"a\",\"payload\":");
	for (size_t i = 0; i < opens; i++)
		fputs(open, out);
	fputs("1", out);
	for (size_t i = 0; i < closes; i++)
		fputs(close, out);
	fprintf(out, "}");
	fclose(out);
	const char *why = read_bytes(message, len);
	free(message);
	return why;
}

Test(envelope, nesting_of_2048_levels_is_taken_and_of_2049_refused)
{
	cr_assert_null(read_nested("[", 2047, "]", 2047));
	cr_assert_eq(view.payload.len, 2 * 2047 + 1);
	cr_assert_not_null(strstr(read_nested("[", 2048, "]", 2048), "nested too deeply"));
	cr_assert_null(read_nested("{\"a\":", 2047, "}", 2047));
	cr_assert_eq(view.payload.len, 6 * 2047 + 1);
	cr_assert_not_null(strstr(read_nested("{\"a\":", 2048, "}", 2048), "nested too deeply"));
	cr_assert_not_null(strstr(read_nested("[", 100000, "]", 0), "nested too deeply"));
}

/* --- what is not JSON --- */

Test(envelope, what_is_not_one_text_of_json_is_refused)
{
	static const char *const messages[] = {"",
					       "hello",
					       "\xef\xbb\xbf{\"event_id\":\"a\"}",
					       "{\"event_id\":\"a\",}",
					       "{\"event_id\":\"a\",\"payload\":{\"x\":[1,2",
					       "{\"event_id\":\"a\"}\n{\"event_id\":\"b\"}",
					       "{\"event_id\":\"a\"}\""};

	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++)
		assert_refused(messages[i], "not JSON: ");
	assert_refused("{\"event_id\":\"a\",\"payload\":\"\xff\"}", "the message is not valid UTF-8");
	assert_refused("{\"event_id\":\"\xc0\xaf\"}", "the message is not valid UTF-8");
}

/* --- the time --- */

static void assert_time(const char *message, const char *time)
{
	cr_assert_null(read_text(message), "%s: refused", message);
	if (time)
		assert_slice(message, "time", envelope_time(reader), time);
	else
		cr_assert_null(envelope_time(reader).at, "%s: has a time", message);
}

Test(envelope, nobody_asks_for_a_time_without_a_pointer)
{
	assert_time("{\"event_id\":\"a\",\"time\":1}", NULL);
}

Test(envelope, time_is_a_string_or_a_number_wherever_its_pointer_leads)
{
	envelope_add_time(reader, "/payload/at/0", false);
	assert_time("{\"event_id\":\"a\",\"payload\":{\"at\":[\"2024-01-01T00:00:00\\u002B01:00\"]}}",
		    "2024-01-01T00:00:00+01:00");
	assert_slice("the last message", "payload", view.payload, "{\"at\":[\"2024-01-01T00:00:00\\u002B01:00\"]}");
	assert_time("{\"event_id\":\"a\",\"payload\":{\"at\":[17e8,2]}}", "17e8");
	assert_time("{\"event_id\":\"a\",\"payload\":{\"at\":[\"\"]}}", "");
}

Test(envelope, event_whose_time_is_no_text_is_an_event_without_a_time)
{
	static const char *const values[] = {"null", "true", "{}", "[1]", "\"1\\u0000\"", "\"\\ud800\"", "{\"/t\":1}"};
	char message[100];

	envelope_add_time(reader, "/t", false);
	assert_time("{\"event_id\":\"a\"}", NULL);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		snprintf(message, sizeof(message), "{\"event_id\":\"a\",\"t\":%s,\"payload\":[0.10]}", values[i]);
		assert_time(message, NULL);
		assert_slice(message, "payload", view.payload, "[0.10]");
	}
	assert_time("{\"event_id\":\"a\",\"t\":1}", "1");
	assert_time("{\"event_id\":\"b\"}", NULL);
	assert_refused("{\"event_id\":\"a\",\"t\":1,\"t\":2}", "/t is named twice");
}

Test(envelope, time_named_twice_may_be_forgiven)
{
	envelope_add_time(reader, "/t", true);
	assert_time("{\"event_id\":\"a\",\"t\":1,\"t\":2}", NULL);
	assert_time("{\"event_id\":\"b\",\"t\":3}", "3");
	assert_refused("{\"event_id\":\"a\",\"event_id\":\"a\",\"t\":1}", "/event_id is named twice");
}

Test(envelope, time_may_be_what_the_id_is_or_the_whole_message)
{
	envelope_add_time(reader, "/event_id", false);
	assert_time("{\"event_id\":1700000000.5}", "1700000000.5");
	assert_refused("{\"event_id\":[1]}", "/event_id is not a string or a number");
	USE_ID("");
	envelope_add_time(reader, "", false);
	assert_time("17", "17");
}

/* --- a reader is used for many messages --- */

Test(envelope, key_of_a_payload_is_found_by_the_pointer_into_its_message_too)
{
	use_payload("/payload");
	envelope_add_order(reader, "/payload/key");
	cr_assert(is_text(envelope_find_order(reader, (struct slice){"{\"key\":7}", 9}), "7"));
	cr_assert(is_text(envelope_find_order(reader, (struct slice){"{\"payload\":{\"key\":8}}", 21}), "8"));
	use_payload("/pay");
	envelope_add_order(reader, "/payload");
	cr_assert_null(envelope_find_order(reader, (struct slice){"{\"load\":7}", 10}).at);
	use_payload("/a/b");
	envelope_add_order(reader, "/a/b");
	cr_assert(is_text(envelope_find_order(reader, (struct slice){"\"k\"", 3}), "k"));
}

Test(envelope, one_message_leaves_nothing_to_the_next)
{
	assert_event("{\"event_id\":\"a\",\"event_type\":\"t\",\"payload\":1}", "a", "t", "1");
	assert_event("{\"event_id\":\"b\"}", "b", "", "{}");
	assert_refused("{\"payload\":1,\"event_type\":\"t\"}", "missing");
	assert_refused("{\"event_id\":\"c\",\"payload\":{", "not JSON");
	assert_refused("{\"event_id\":\"d\",\"event_id\":\"d\"}", "named twice");
	assert_event("{\"event_id\":\"e\"}", "e", "", "{}");
}
