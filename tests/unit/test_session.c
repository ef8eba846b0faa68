/* How a profile reads frames, where recordings do not show it: limits, live ids, lines, mirrors, and state kept between
 * connections. */
#include "unit.h"

#include "base/bytes.h"
#include "cursor_order.h"
#include "feed/secrets.h"
#include "feed/session.h"

/* All callbacks, one line each. */
struct heard {
	struct session *session;
	struct bytes lines;
};

static void hear(struct heard *h, const char *what, struct slice bytes)
{
	bytes_add_text(&h->lines, what);
	bytes_add(&h->lines, bytes.at, bytes.len);
	bytes_add_byte(&h->lines, '\n');
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct heard *h = ctx;

	hear(h, "event ", event->id);
	if (event->time.at)
		hear(h, "time ", event->time);
	if (event->gap_seq.at)
		hear(h, "number ", event->gap_seq);
	if (event->cursor.at)
		session_advance(h->session, event->cursor, 1000);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	hear(ctx, "reject ", bytes);
}

static void on_send(void *ctx, struct slice frame)
{
	hear(ctx, "send ", frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	hear(ctx, rule->action == ACTION_FATAL ? "fatal " : "reconnect ", frame);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	hear(ctx, "cursor ", cursor);
}

static void on_ack(void *ctx, struct slice frame)
{
	hear(ctx, "ack ", frame);
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
}

static void on_no_list(void *ctx, struct slice frame)
{
	hear(ctx, "no list ", frame);
}

static void on_filtered(void *ctx)
{
	hear(ctx, "filtered", (struct slice){"", 0});
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_rule = on_rule,
	.on_no_list = on_no_list,
	.on_filtered = on_filtered,
};

static struct profile *profile;
static struct heard heard;

/* members are the profile's members besides its URL. */
static void begin(const char *members)
{
	char *text = memory_printf("{\"url\": \"wss://h/p?q=1\", %s}", members);
	struct profile_fault fault;

	profile = profile_parse(text, strlen(text), "test", NULL, &fault);
	cr_assert(profile, "%s", fault.text);
	free(text);
	heard = (struct heard){.session = session_new(profile, false)};
}

static void end(void)
{
	session_free(heard.session);
	profile_free(profile);
	bytes_free(&heard.lines);
}

static void expect(const char *message, size_t len, const char *lines)
{
	heard.lines.len = 0;
	session_read(heard.session, message, len, &handler, &heard);
	cr_assert_str_eq(bytes_text(&heard.lines), lines);
}

#define EXPECT(message, lines) expect(message, strlen(message), lines)
#define EVENT                  "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]"

Test(session, id_over_the_limit_becomes_its_sha256, .fini = end)
{
	char message[700], id[601];

	begin(EVENT);
	memset(id, 'x', 600);
	id[600] = '\0';
	snprintf(message, sizeof(message), "{\"id\": \"%s\"}", id);
	EXPECT(message, "event 5130b33e6b87fbf5316ed9049e98924eb110800bcbaaad8050f642fba6df37c9\n");
}

/* A double would hold the first two, the next two and the last two as the same number. Equal numbers are one event. */
Test(session, hash_of_a_number_is_of_all_its_digits, .fini = end)
{
	static const char *const others[] = {
		"1.000000000000000001", "1.000000000000000002", "1e400", "1e500", "1e-400", "2e-400", "0.1"};
	char *ids[7];

	begin("\"rules\": [{\"action\": \"event\", \"id\": [[\"#/p\"]]}]");
	for (int i = 0; i < 7; i++) {
		char *message = memory_printf("{\"p\": [%s]}", others[i]);

		heard.lines.len = 0;
		session_read(heard.session, message, strlen(message), &handler, &heard);
		ids[i] = strdup(bytes_text(&heard.lines));
		for (int j = 0; j < i; j++)
			cr_expect_str_neq(ids[i], ids[j], "%s and %s", others[i], others[j]);
		free(message);
	}
	EXPECT("{\"p\": [0.10]}", ids[6]);
	EXPECT("{\"p\": [1e-1]}", ids[6]);
	for (int i = 0; i < 7; i++)
		free(ids[i]);
}

Test(session, id_that_postgres_cannot_store_is_rejected, .fini = end)
{
	begin(EVENT);
	EXPECT("{\"id\": \"a\\u0000\"}", "reject {\"id\": \"a\\u0000\"}\n");
	EXPECT("{\"id\": \"a\\ud800\"}", "reject {\"id\": \"a\\ud800\"}\n");
	EXPECT("{\"id\": \"a\"}", "event a\n");
}

Test(session, number_with_a_fraction_may_be_a_time, .fini = end)
{
	begin("\"rules\": [{\"action\": \"event\", \"id\": [[\"/i\"]], \"time\": \"/t\", \"time_unit\": \"s\"}]");
	EXPECT("{\"i\": 1, \"t\": 1764064800.250}", "event 1\ntime 1764064800.250\n");
	EXPECT("{\"i\": 2, \"t\": null}", "event 2\n");
}

Test(session, number_of_a_series_may_be_a_text_of_digits, .fini = end)
{
	begin("\"gap\": {\"key\": \"/k\", \"seq\": \"/n\"}, " EVENT);
	EXPECT("{\"id\": 1, \"n\": 17}", "event 1\nnumber 17\n");
	EXPECT("{\"id\": 1, \"n\": \"0130639474\"}", "event 1\nnumber 0130639474\n");
	EXPECT("{\"id\": 1, \"n\": \"1x\"}", "event 1\nnumber \"1x\"\n");
	EXPECT("{\"id\": 1, \"n\": \"\"}", "event 1\nnumber \"\"\n");
}

Test(session, lines_of_a_message_are_frames, .fini = end)
{
	begin("\"split\": \"ndjson\", " EVENT);
	EXPECT("{\"id\": 1}\n{\n \r\n{\"id\": true}", "event 1\nreject {\nevent true\n");
}

Test(session, message_of_commas_is_not_blank, .fini = end)
{
	begin(EVENT);
	EXPECT(" \t\r\n", "");
	EXPECT(",", "reject ,\n");
	EXPECT(" : ,", "reject  : ,\n");
}

Test(session, frame_of_too_many_elements_is_one_letter, .fini = end)
{
	begin("\"max_elements\": 2, \"rules\": [{\"action\": \"event\", \"explode\": \"/*\", \"id\": [[\"\"]]}]");
	EXPECT("[1,2]", "event 1\nevent 2\n");
	EXPECT("[1,2,3]", "reject [1,2,3]\n");
}

/* [1,1,...] */
static char *make_ones(size_t count)
{
	char *text = malloc(2 * count + 2), *at = text;

	for (size_t i = 0; i < count; i++)
		at = mempcpy(at, i ? ",1" : "[1", 2);
	memcpy(at, "]", 2);
	return text;
}

static void expect_one_letter(const char *message)
{
	char *heard_text = memory_printf("reject %s\n", message);

	EXPECT(message, heard_text);
	free(heard_text);
}

/* Two bytes of a frame would take 500 bytes of memory. */
Test(session, frame_of_tiny_elements_is_one_letter, .fini = end)
{
	begin("\"rules\": [{\"action\": \"event\", \"explode\": \"/*\", \"id\": [[\"/id\"]]}]");
	EXPECT("[{\"id\":1},2]", "event 1\nreject 2\n");
	expect_one_letter(make_ones(20000));
}

Test(session, message_of_tiny_frames_is_one_letter, .fini = end)
{
	begin("\"split\": \"array\", \"default\": \"reject\", " EVENT);
	expect_one_letter(make_ones(20000));
}

/* No single frame has 10,000. */
Test(session, tiny_elements_count_for_all_frames_of_a_message, .fini = end)
{
	char *ones = make_ones(9000), *message = memory_printf("%s\n%s\n%s\n", ones, ones, ones);
	size_t letters = 0;

	begin("\"split\": \"ndjson\", \"rules\": [{\"action\": \"event\", \"explode\": \"/*\", \"id\": [[\"/id\"]]}]");
	session_read(heard.session, message, strlen(message), &handler, &heard);
	for (const char *at = bytes_text(&heard.lines); (at = strstr(at, "reject")); at++)
		letters++;
	cr_assert_eq(letters, 9002, "%zu", letters);
}

static size_t count(const char *what)
{
	size_t n = 0;

	for (const char *at = bytes_text(&heard.lines); (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* This happens when a feed changes its format. A list may be empty. */
Test(session, a_frame_without_the_list_of_its_rule_is_told, .fini = end)
{
	begin("\"rules\": [{\"when\": {\"/t\": 1}, \"action\": \"event\", \"explode\": \"/l/*\", \"id\": [[\"/i\"]]}, "
	      "{\"action\": \"event\", \"explode\": \"/o\", \"id\": [[\"/i\"]]}]");
	EXPECT("{\"t\":1,\"m\":[]}", "no list {\"t\":1,\"m\":[]}\n");
	EXPECT("{\"t\":1,\"l\":{\"a\":1}}", "no list {\"t\":1,\"l\":{\"a\":1}}\n");
	EXPECT("{\"t\":1,\"l\":[]}", "");
	EXPECT("{\"t\":1,\"l\":null}", "");
	EXPECT("{\"p\":1}", "no list {\"p\":1}\n");
	EXPECT("{\"o\":{\"i\":1}}", "event 1\n");
}

/* The feed keeps what is not acked, until the profile fits again. */
Test(session, a_frame_without_the_list_of_its_rule_is_not_acked, .fini = end)
{
#define LISTS "\"action\": \"event\", \"explode\": \"/l/*\", \"id\": [[\"/i\"]], \"ack\": \"${/n}\"}]"
	begin("\"ack_mode\": \"each\", \"rules\": [{" LISTS);
	EXPECT("{\"n\":1,\"l\":[]}", "ack 1\n");
	EXPECT("{\"n\":2,\"m\":[{\"i\":1}]}", "no list {\"n\":2,\"m\":[{\"i\":1}]}\n");
	end();
	begin("\"ack_mode\": \"each\", \"default\": \"reject\", \"rules\": [{" LISTS);
	EXPECT("{\"n\":3}", "no list {\"n\":3}\nreject {\"n\":3}\n");
#undef LISTS
}

/* As Ably's profile: each of 9,000 ids would be made of 400 KB. */
Test(session, tiny_elements_do_not_multiply_what_they_share, .fini = end)
{
	char *ones = make_ones(9000), *message = memory_printf("{\"big\":\"%0400000d\",\"l\":%s}", 7, ones);

	begin("\"rules\": [{\"action\": \"event\", \"explode\": \"/l/*\", \"id\": [[\"^/big\", \"@\"]]}]");
	expect_one_letter(message);
}

Test(session, frames_do_not_multiply_a_variable, .fini = end)
{
	char *ones = make_ones(9000), *message = memory_printf("{\"v\":\"%060000d\"}", 7);

	begin("\"split\": \"array\", \"rules\": [{\"when\": {\"/v\": {\"exists\": true}}, \"capture\": {\"v\": "
	      "\"/v\"}}, "
	      "{\"action\": \"event\", \"id\": [[\"\"]], \"type\": \"$v\", \"send\": [\"${v}\"]}]");
	session_read(heard.session, message, strlen(message), &handler, &heard);
	session_read(heard.session, ones, strlen(ones), &handler, &heard);
	cr_assert_eq(count("event ") + count("reject "), 9000);
	cr_assert_lt(heard.lines.len, 20 << 20);
	cr_assert(strstr(session_trouble(heard.session), "were not all sent"));
}

/* Each of 30,000 elements would search 300 KB for /ref. */
Test(session, list_of_a_feed_does_not_search_a_message_for_each_element, .fini = end)
{
	char *ones = make_ones(30000), *more = make_ones(150000);
	char *message = memory_printf("{\"l\":%s,\"pad\":%s,\"ref\":1}", ones, more);

	begin("\"rules\": [{\"capture\": {\"l\": \"/l\"}, \"send\": [[{\"each\": \"$l\", \"give\": \"${/ref}\"}], "
	      "{\"each\": \"$l\", \"give\": \"${/ref}\"}]}]");
	session_read(heard.session, message, strlen(message), &handler, &heard);
	cr_assert_lt(count("send "), 4000, "%zu", count("send "));
	cr_assert(session_trouble(heard.session));
}

Test(session, list_of_a_feed_does_not_multiply_its_other_values, .fini = end)
{
	char *ones = make_ones(30000), *message = memory_printf("{\"v\":\"%060000d\",\"l\":%s}", 7, ones);
	struct session_dial dial;

	begin("\"on_open\": [[{\"each\": \"$l\", \"give\": [\"$each\", \"${v}\"]}]], "
	      "\"rules\": [{\"capture\": {\"v\": \"/v\", \"l\": \"/l\"}}]");
	session_read(heard.session, message, strlen(message), &handler, &heard);
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert(dial.fault && strstr(dial.fault, "longer than 16 MiB"));
}

Test(session, value_of_the_profile_may_be_long, .fini = end)
{
	char *members = memory_printf("\"vars\": {\"v\": \"%070000d\"}, " EVENT, 7);

	begin(members);
	free(members);
	cr_assert_eq(session_var(heard.session, "v").len, 70002);
}

Test(session, value_too_long_to_be_kept_leaves_the_variable, .fini = end)
{
	char *message = memory_printf("{\"x\": \"%0*d\"}", 70000, 0);

	begin("\"rules\": [{\"capture\": {\"v\": \"/x\"}, \"send\": [\"${v}\"]}]");
	EXPECT("{\"x\": 1.50}", "send 1.50\n");
	cr_assert_null(session_trouble(heard.session));
	EXPECT(message, "send 1.50\n");
	cr_assert(strstr(session_trouble(heard.session), "longer than"));
	free(message);
}

Test(session, what_a_source_sends_is_no_template, .fini = end)
{
	struct session_dial dial;

	setenv("SECRET", "hidden", 1);
	begin("\"rules\": [{\"action\": \"reconnect\", \"url\": \"${/u}\", \"send\": [\"${/u}\", \"${env:SECRET}\"]}]");
	EXPECT("{\"u\": \"wss://x/${env:SECRET}\"}",
	       "send \"wss://x/${env:SECRET}\"\nsend \"hidden\"\nreconnect {\"u\": \"wss://x/${env:SECRET}\"}\n");
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_eq(dial.how, HOW_REDIRECT);
	cr_assert_str_eq(dial.url, "wss://x/${env:SECRET}");
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_eq(dial.how, HOW_FRESH);
}

Test(session, list_gives_its_template_once_for_each_element, .fini = end)
{
	struct session_dial dial;

	begin("\"vars\": {\"x\": [\"a\", 2], \"y\": [\"b${x}\"], \"none\": [], \"text\": \"t\"}, \"on_open\": "
	      "[{\"each\": \"$x\", \"give\": {\"text\": \"to ${each}\"}}, "
	      "[0, {\"each\": \"$x\", \"give\": [\"${each}\", {\"each\": \"$y\", \"give\": \"${each}\"}, "
	      "\"${each}\"]}], [{\"each\": \"$none\", \"give\": 1}, {\"each\": \"$text\", \"give\": 1}, \"${each}\"]], "
	      "\"rules\": [{\"send\": [{\"each\": \"$z\", \"give\": {\"of\": \"${each}\", \"at\": \"${/at}\"}}], "
	      "\"capture\": {\"z\": \"/z\"}}]");
	session_connect(heard.session, 1, 0, 0, &dial);
	for (size_t i = 0; i < dial.on_open_count; i++)
		hear(&heard, "", dial.on_open[i]);
	cr_assert_str_eq(bytes_text(&heard.lines), "to a\nto 2\n"
						   "[0,[\"a\",\"b${x}\",\"a\"],[2,\"b${x}\",2]]\n"
						   "[null]\n");
	EXPECT("{\"z\": [1, {\"q\": 2}], \"at\": 7}", "send {\"of\":1,\"at\":7}\nsend {\"of\":{\"q\": 2},\"at\":7}\n");
}

Test(session, secret_that_is_missing_is_named, .fini = end)
{
	struct session_dial dial;

	unsetenv("NOT_SET");
	begin("\"on_open\": [\"${env:NOT_SET}\"], " EVENT);
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_str_eq(dial.fault, "the variable NOT_SET is not set");
}

/* --- signatures --- */

static const char *first_word(const char *members)
{
	static char word[400];
	struct session_dial dial;

	setenv("KEY", "AMANDASECRECT", 1);
	begin(members);
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_null(dial.fault, "%s", dial.fault);
	snprintf(word, sizeof(word), "%.*s", (int)dial.on_open[0].len, dial.on_open[0].at);
	return word;
}

#define SIGN(text) "${hmac_sha256_hex:${env:KEY}:" text "}"

/* The example of its section on public/auth. */
Test(session, signature_is_what_deribit_documents, .fini = end)
{
	cr_assert_str_eq(first_word("\"vars\": {\"ts\": 1576074319000, \"nonce\": \"1iqt2wls\"}, \"on_open\": [\"" SIGN(
				 "${ts}\\n${nonce}\\n") "\"], " EVENT),
			 "\"56590594f97921b09b18f166befe0d1319b198bbcdad7ca73382de2f88fe9aa1\"");
}

/* HMAC-SHA-256 of a:{"b":{}}}${x} with this key. */
Test(session, text_of_a_signature_ends_at_the_brace_of_no_pair, .fini = end)
{
	cr_assert_str_eq(first_word("\"vars\": {\"x\": \"}${x}\"}, \"on_open\": [\"<" SIGN(
				 "a:{\\\"b\\\":{}}${x}") "}>\"], " EVENT),
			 "\"<40e5c9a14268a154996a5240bc4b59fc673d3bb624a9b091a8478737f6d3f46b}>\"");
}

Test(session, times_of_a_connection_are_one_reading, .fini = end)
{
	const char *word = first_word(
			   "\"on_open\": [[\"${now_ms}\", \"${text:now_s}\", \"${now_ms+10000}\", \"${now_s-5}\", "
			   "\"" SIGN("${now_ms}") "\"]], " EVENT),
		   *fault;
	long long ms = strtoll(word + 1, NULL, 10);
	char *same = memory_printf("[%lld,\"%lld\",%lld,%lld,\"", ms, ms / 1000, ms + 10000, ms / 1000 - 5),
	     signature[65];

	cr_assert(llabs(ms / 1000 - time(NULL)) < 100);
	cr_assert(strncmp(word, same, strlen(same)) == 0, "%s is not %s", word, same);
	memcpy(signature, word + strlen(same), 64);
	signature[64] = '\0';
	free(same);
	usleep(2000); /* so that another reading would differ */
	same = memory_strdup(session_render_text(heard.session, "${now_ms} " SIGN("${now_ms}"), false, &fault));
	cr_assert_eq(strtoll(same, NULL, 10), ms);
	cr_assert_str_eq(strchr(same, ' ') + 1, signature);
	free(same);
	same = memory_strdup(session_render_text(heard.session, "http://h/${now_ms}", true, &fault));
	cr_assert_gt(strtoll(same + 9, NULL, 10), ms, "another request");
	cr_assert_str_eq(session_render_text(heard.session, "http://h/${now_ms}", false, &fault), same);
	free(same);
}

Test(session, a_list_that_came_by_http_is_encoded_in_a_url, .fini = end)
{
	const char *fault;

	begin("\"vars\": {\"s\": [\"a&b#\"], \"own\": \"c&d\"}, \"shard\": {\"var\": \"s\", \"per_connection\": 1}, "
	      "\"var_http\": {\"s\": {\"url\": \"http://h/\"}}, " EVENT);
	cr_assert_str_eq(session_render_text(heard.session, "ws://h/?s=${s}&t=${own}", true, &fault),
			 "ws://h/?s=%5B%22a%26b%23%22%5D&t=c&d");
}

/* Of the same key and text: +LdIr8lkkvhr5hoA3g9TMC0+uQJ849ftAcocA/ouu4M= */
Test(session, base64_is_encoded_in_a_url, .fini = end)
{
	static const char text[] = "?s=${hmac_sha256_base64:${env:KEY}:1538054050GET/users/self/verify}";
	const char *fault;

	begin(EVENT);
	setenv("KEY", "22582BD0CFF14C41EDBF1AB98506286D", 1);
	cr_assert_str_eq(session_render_text(heard.session, text, false, &fault),
			 "?s=+LdIr8lkkvhr5hoA3g9TMC0+uQJ849ftAcocA/ouu4M=");
	cr_assert_str_eq(session_render_text(heard.session, text, true, &fault),
			 "?s=%2BLdIr8lkkvhr5hoA3g9TMC0%2BuQJ849ftAcocA%2Fouu4M%3D");
}

Test(session, key_that_is_missing_or_empty_is_named, .fini = end)
{
	const char *fault;

	begin(EVENT);
	setenv("KEY", "", 1);
	session_render_text(heard.session, SIGN(""), false, &fault);
	cr_assert_str_eq(fault, "the key env:KEY is empty");
	unsetenv("KEY");
	session_render_text(heard.session, SIGN(""), false, &fault);
	cr_assert_str_eq(fault, "the variable KEY is not set");
	session_render_text(heard.session, "${rsa_pss_sha256_base64:${file:/none}:x}", false, &fault);
	cr_assert_str_eq(fault, "the key file:/none cannot be read, is not an RSA key in PEM, or has a passphrase");
}

Test(session, signature_is_hidden_where_the_source_echoes_it, .fini = end)
{
	struct secrets *secrets = secrets_new();
	const char *fault;
	char echo[100];

	begin(EVENT);
	setenv("KEY", "key", 1);
	session_hide_secrets(heard.session, secrets);
	snprintf(echo, sizeof(echo), "wrong: %s", session_render_text(heard.session, SIGN("x"), false, &fault));
	secrets_mask(secrets, echo);
	cr_assert_eq(strspn(echo + 7, "*"), 64, "%s", echo);
	secrets_free(secrets);
}

Test(session, profile_of_producers_leads_nowhere)
{
	static const char text[] = "{\"accept_subprotocols\": [\"x\"], " EVENT "}";
	struct profile_fault fault;
	struct session_dial dial;

	profile = profile_parse(text, strlen(text), "test", NULL, &fault);
	heard.session = session_new(profile, false);
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_null(dial.url);
	end();
}

Test(session, mirror_takes_the_query_of_the_url, .fini = end)
{
	struct session_dial dial;

	begin("\"mirrors\": [\"wss://m1/x\", \"wss://m2/y?z=2\"], " EVENT);
	session_connect(heard.session, 1, 0, 1, &dial);
	cr_assert_str_eq(dial.url, "wss://m1/x?q=1");
	session_connect(heard.session, 1, 0, 2, &dial);
	cr_assert_str_eq(dial.url, "wss://m2/y?z=2");
	session_connect(heard.session, 1, 0, 3, &dial);
	cr_assert_str_eq(dial.url, "wss://h/p?q=1", "the URL itself");
	session_connect(heard.session, 1, 0, 4, &dial);
	cr_assert_str_eq(dial.url, "wss://m1/x?q=1");
}

#define RESUME \
	"\"cursor\": {\"kind\": \"max\", \"rewind\": 5}, \"url_resume\": \"wss://r/${cursor}\", \"resume_window_s\": " \
	"30, " \
	"\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]], \"cursor\": \"/id\"}]"

Test(session, resume_is_for_its_window, .fini = end)
{
	struct session_dial dial;

	begin(RESUME);
	EXPECT("{\"id\": 12}", "event 12\n");
	session_connect(heard.session, 130000, 100000, 0, &dial);
	cr_assert_str_eq(dial.url, "wss://r/7");
	session_connect(heard.session, 130001, 100000, 0, &dial);
	cr_assert_str_eq(dial.url, "wss://h/p?q=1");
}

/* As after a restart. */
Test(session, a_stored_cursor_is_for_the_window_too, .fini = end)
{
	struct session_dial dial;

	begin(RESUME);
	cr_assert(session_restore(heard.session, (struct slice){"12", 2}, time(NULL) - 40));
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_str_eq(dial.url, "wss://h/p?q=1");
	cr_assert(session_restore(heard.session, (struct slice){"12", 2}, time(NULL) - 20));
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_str_eq(dial.url, "wss://r/7");
}

Test(session, successor_goes_on_with_variables_and_cursor, .fini = end)
{
	begin("\"cursor\": {\"kind\": \"last\"}, \"vars\": {\"own\": 1}, "
	      "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]], \"cursor\": \"/id\", \"capture\": {\"s\": "
	      "\"/id\"}}]");
	EXPECT("{\"id\": \"k\"}", "event k\n");
	struct session *next = session_new(profile, false);
	struct slice mark = session_mark(heard.session);
	cr_assert(session_restore(next, mark, 0));
	struct slice saved = session_save(heard.session);
	cr_assert(strncmp(saved.at, "{\"s\":\"k\"", 8) == 0, "%s", saved.at);
	cr_assert(session_load(next, saved));
	cr_assert_str_eq(session_cursor(next).at, "\"k\"");
	cr_assert_str_eq(session_var(next, "s").at, "\"k\"");
	session_free(next);
}

static bool is_hidden(const struct secrets *secrets)
{
	char text[] = "no such session: ticket-7/a";

	secrets_mask(secrets, text);
	return !strstr(text, "ticket-7/a");
}

/* A variable costs nothing where a frame does not set it: its text may be long, and the frames may be many. */
Test(session, texts_that_a_feed_has_set_are_hidden_by_its_successor_too, .fini = end)
{
	struct secrets *secrets = secrets_new(), *others = secrets_new();

	begin("\"split\": \"array\", \"rules\": [{\"capture\": {\"s\": \"/s\"}}]");
	session_hide_secrets(heard.session, secrets);
	EXPECT("[{\"s\": \"ticket-7\\/a\"}, {\"s\": 12345678}]", "");
	cr_assert(is_hidden(secrets));
	EXPECT("{\"s\": \"ticket-7\\/a\"}", "");
	struct session *next = session_new(profile, false);
	session_hide_secrets(next, others);
	cr_assert(!is_hidden(others));
	cr_assert(session_load(next, session_save(heard.session)));
	cr_assert(is_hidden(others));
	session_free(next);
	secrets_free(secrets);
	secrets_free(others);
}

Test(session, cursor_of_another_kind_is_ignored_and_told, .fini = end)
{
	begin(RESUME);
	EXPECT("{\"id\": 12}", "event 12\n");
	EXPECT("{\"id\": \"x\"}", "event x\n");
	cr_assert(strstr(session_trouble(heard.session), "of another kind"));
	cr_assert_str_eq(session_mark(heard.session).at, "12");
	EXPECT("{\"id\": 3}", "event 3\n");
	cr_assert_str_eq(session_mark(heard.session).at, "12");
}

static bool is_like(struct slice mark, const char *text)
{
	return mark.len == strlen(text) && memcmp(mark.at, text, mark.len) == 0;
}

Test(session, long_cursor_is_not_compared, .fini = end)
{
	char *message = memory_printf("{\"c\":\"%01022d\"}", 7), *longer = memory_printf("{\"c\":\"8%01022d\"}", 7);

	begin("\"cursor\": {\"kind\": \"max\"}, \"rules\": [{\"action\": \"event\", \"id\": [[\"=e\"]], \"cursor\": "
	      "\"/c\"}]");
	EXPECT(message, "event e\n");
	cr_assert_eq(session_cursor(heard.session).len, 1024);
	cr_assert_null(session_trouble(heard.session));
	EXPECT(longer, "event e\n");
	cr_assert_eq(session_cursor(heard.session).len, 1024);
	cr_assert_str_eq(session_trouble(heard.session), "ignored a cursor that is longer than 1024 bytes");
	free(message);
	free(longer);
}

/* After a number, a session ignores a string; a store accepts it as the cursor of another profile. */
Test(session, largest_cursor_is_the_one_that_the_stores_take_for_it, .fini = end)
{
	begin(RESUME);
	for (size_t i = 0; i < CURSORS_IN_ORDER; i++)
		for (size_t j = 0; j < CURSORS_IN_ORDER; j++) {
			const char *old = cursor_in_order(i), *new = cursor_in_order(j);
			bool is_new = cursor_is_beyond(i, j) && (*old == '"') == (*new == '"');
			struct session *s = session_new(profile, false);

			session_advance(s, (struct slice){old, strlen(old)}, 0);
			session_advance(s, (struct slice){new, strlen(new)}, 0);
			struct slice mark = session_mark(s);
			cr_expect(is_like(mark, is_new ? new : old), "%s after %s: %.*s", new, old, (int)mark.len,
				  mark.at);
			session_free(s);
		}
}

static void advance(const char *cursor, int64_t now_s, const char *mark)
{
	session_advance(heard.session, (struct slice){cursor, strlen(cursor)}, now_s);
	cr_assert(is_like(session_mark(heard.session), mark), "%s after %s", mark, cursor);
}

Test(session, cursor_beyond_the_present_is_set_to_it, .fini = end)
{
	begin("\"cursor\": {\"kind\": \"max\", \"clamp_now\": true}, " EVENT);
	advance("999", 1000, "999");
	advance("2000", 1000, "1000");
	advance("2000", 1400, "1400");
	advance("1300", 1500, "1400");
}

/* As a double, it would be beyond events that have not come. */
Test(session, cursor_in_a_url_has_all_its_digits, .fini = end)
{
	struct session_dial dial;

	begin("\"url_resume\": \"wss://h/p?c=${cursor}\", \"cursor\": {\"kind\": \"max\"}, " EVENT);
	advance("9007199254740993.5", 1000, "9007199254740993.5");
	session_connect(heard.session, 0, 0, 0, &dial);
	cr_assert_str_eq(dial.url, "wss://h/p?c=9007199254740993.5");
}

/* The store may have the mark of a feed that has begun again with lower numbers. */
Test(session, first_cursor_after_a_restored_one_counts_though_it_is_less, .fini = end)
{
	begin("\"cursor\": {\"kind\": \"max\"}, " EVENT);
	advance("70", 900, "70");
	cr_assert(session_restore(heard.session, (struct slice){"50", 2}, 800));
	cr_assert(is_like(session_mark(heard.session), "50"));
	cr_assert_eq(session_moved_s(heard.session), 800);
	advance("40", 1000, "40");
	cr_assert_eq(session_moved_s(heard.session), 1000);
	advance("30", 1001, "40");
	advance("41", 1002, "41");
}

/* A statement with such a cursor would fail, and no source's cursor would be stored. */
Test(session, cursor_that_postgres_cannot_compare_is_ignored, .fini = end)
{
	static const char *const wrong[] = {"1e99999", "1E-99999", "\"a\\u0000\"", "\"\\ud83d\""};
	char long_one[200] = "0.";

	begin(RESUME);
	memset(long_one + 2, '1', 150);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		session_advance(heard.session, (struct slice){wrong[i], strlen(wrong[i])}, 0);
	session_advance(heard.session, (struct slice){long_one, strlen(long_one)}, 0);
	cr_assert_null(session_mark(heard.session).at);
	cr_assert(strstr(session_trouble(heard.session), "0.111"));
}

/* Two connections in one session, each with its own hold. */
struct connection {
	struct heard heard;
	bool is_held;
};

static void on_release(void *ctx)
{
	((struct connection *)ctx)->is_held = false;
}

Test(session, end_of_stored_frames_is_of_the_connection_that_it_came_by)
{
	struct session_handler two = handler;
	struct connection old = {.is_held = true}, new = {.is_held = true};

	two.on_release = on_release;
	begin("\"cursor\": {\"kind\": \"max\", \"hold_until\": {\"/type\": \"live\"}}, \"rules\": [{\"id\": "
	      "[[\"/n\"]], \"cursor\": \"/at\"}]");
	session_read(heard.session, "{\"type\": \"live\"}", 16, &two, &old);
	cr_assert_not(old.is_held);
	cr_assert(new.is_held);
	session_read(heard.session, "{\"n\": 1, \"at\": 7}", 17, &two, &new);
	cr_assert(new.is_held);
	session_read(heard.session, "{\"type\": \"live\"}", 16, &two, &new);
	cr_assert_not(new.is_held);
	bytes_free(&old.heard.lines);
	bytes_free(&new.heard.lines);
	end();
}

static bool is_mark(const char *text)
{
	struct slice mark = session_mark(heard.session);

	return mark.len == strlen(text) && memcmp(mark.at, text, mark.len) == 0;
}

Test(session, each_connection_holds_the_cursor_until_its_own_stored_frames_end, .fini = end)
{
	struct session_dial dial;

	begin("\"cursor\": {\"kind\": \"max\", \"hold_until\": {\"/type\": \"live\"}}, \"rules\": [{\"when\": {\"/n\": "
	      "{\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/n\"]], \"cursor\": \"/at\"}]");
	for (int i = 1; i <= 2; i++) {
		char message[60], mark[20];

		session_connect(heard.session, i, 0, 0, &dial);
		snprintf(mark, sizeof(mark), "%d", 10 * i);
		snprintf(message, sizeof(message), "{\"n\": %d, \"at\": %s}", i, mark);
		session_read(heard.session, message, strlen(message), &handler, &heard);
		cr_assert(!is_mark(mark), "connection %d", i);
		session_read(heard.session, "{\"type\": \"live\"}", 16, &handler, &heard);
		cr_assert(is_mark(mark), "connection %d", i);
	}
}

Test(session, cursor_of_a_caller_that_holds_for_itself_moves_at_once)
{
	begin("\"cursor\": {\"kind\": \"max\", \"hold_until\": {\"/type\": \"live\"}}, \"rules\": [{\"id\": "
	      "[[\"/n\"]]}]");
	session_advance_at_once(heard.session, (struct slice){"7", 1}, 0);
	cr_assert_eq(session_mark(heard.session).len, 1);
	end();
}

Test(session, url_of_a_plain_source_is_no_template)
{
	struct session_dial dial;

	profile = profile_of_url("ws://feed.test/${env:HOME}?\xe9", "feed", "feed", 7);
	heard.session = session_new(profile, false);
	session_connect(heard.session, 1, 0, 0, &dial);
	cr_assert_str_eq(dial.url, "ws://feed.test/${env:HOME}?%E9");
	cr_assert_str_eq(profile->row_source, "feed");
	end();
}
