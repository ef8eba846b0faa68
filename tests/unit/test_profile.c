/* Profiles with one mistake each, and the error about it. */
#include "unit.h"

#include "config/profile.h"

#define RULE       "\"rules\": [{\"action\": \"event\", \"id\": [[\"/a\"]]"
#define WITH(text) "{\"url\": \"wss://h/\",\n" text ",\n" RULE "}]}"

static const struct {
	const char *text;
	const char *fault; /* the whole text, or its beginning if this ends in ... */
} wrong[] = {
	{"", "p.json, line 1: not JSON at column 0: '[' or '{' expected near end of file"},
	{"[]", "p.json, line 1: a profile is a JSON object"},
	{"{\"url\": 1}", "p.json, line 1, url: must be a string"},
	{"{\"rules\": []}", "p.json, line 1: url is missing; a profile for --ingest-profile needs ack instead"},
	{"{\"url\": \"wss://h/\"}", "p.json, line 1: rules are missing: without one, no frame is an event"},
	{WITH("\"idle_timout_s\": 3"), "p.json, line 2, idle_timout_s: a profile has no key \"idle_timout_s\"; did you "
				       "mean \"idle_timeout_s\"?"},
	{WITH("\"zzzzzzzzzzz\": 3"), "p.json, line 2, zzzzzzzzzzz: a profile has no key \"zzzzzzzzzzz\""},
	{WITH("\"gap\": {\"sequence\": \"/a\"}"),
	 "p.json, line 2, gap.sequence: gap has no key \"sequence\": it has key seq contiguous"},
	{WITH("\"backoff\": {\"min_ms\": 2, \"max_ms\": 1}"),
	 "p.json, line 1: backoff: min_ms must not be more than max_ms"},
	{WITH("\"on_open\": [\"${cursor}\"]"),
	 "doubt p.json, line 2, on_open[0]: nothing sets a variable \"cursor\": the profile has no cursor"},
	{WITH("\"fleet\": \"all\""), "p.json, line 2, fleet: must be one of: broadcast shared exclusive session"},
	{WITH("\"ws_ping_s\": -1"), "p.json, line 2, ws_ping_s: must be a whole number from 0 to 86400"},
	{WITH("\"never_send\": 1"), "p.json, line 2, never_send: must be true or false"},
	{WITH("\"on_open\": {}"), "p.json, line 2, on_open: must be an array of messages"},
	{WITH("\"on_open\": [{\"a\":\n[\"${nobody}\"]}]"), "doubt p.json, line 3, on_open[0].a[0]: nothing sets a "
							   "variable \"nobody\""},
	{WITH("\"on_open\": [\"${/a}\"]"),
	 "doubt p.json, line 2, on_open[0]: ${/a}: a template here has no frame to point into"},
	{WITH("\"on_open\": [\"${a\"]"), "p.json, line 2, on_open[0]: \"${a\": a ${ without its }"},
	{WITH("\"on_open\": [\"${env:}\"]"), "p.json, line 2, on_open[0]: ${env:} has no name"},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:${env:}:a}\"]"), "p.json, line 2, on_open[0]: ${env:} has no name"},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:secret:a}\"]"),
	 "p.json, line 2, on_open[0]: \"${hmac_sha256_hex:secret:a}\": the key of a signature must be ${env:NAME} or "
	 "${file:/path}, and then a colon"},
	{WITH("\"vars\": {\"k\": \"\"}, \"on_open\": [\"${hmac_sha256_base64:${k}:a}\"]"),
	 "p.json, line 2, on_open[0]: \"${hmac_sha256_base64:${k}:a}\": the key of a signature must be ..."},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:${env:K}}\"]"),
	 "p.json, line 2, on_open[0]: \"${hmac_sha256_hex:${env:K}}\": the key of a signature must be ..."},
	{WITH("\"headers\": {\"A\": \"${rsa_pss_sha256_base64:${env:K}:a}\"}"),
	 "p.json, line 2, headers.A: \"${rsa_pss_sha256_base64:${env:K}:a}\": the key of an RSA signature must be "
	 "${file:/path}, and then a colon"},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:${env:K}:{a}\"]"),
	 "p.json, line 2, on_open[0]: \"${hmac_sha256_hex:${env:K}:{a}\": a ${ without its }"},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:${env:K}:${now_ms}${nobody}}\"]"),
	 "doubt p.json, line 2, on_open[0]: nothing sets a variable \"nobody\""},
	{WITH("\"on_open\": [\"${hmac_sha256_hex:${env:K}:${hmac_sha256_hex:${env:L}:a}}\"]"),
	 "p.json, line 2, on_open[0]: \"${hmac_sha256_hex:${env:L}:a\": a signature in a signature"},
	{WITH("\"on_open\": [\"${hmac_sha512_hex:${env:K}:a}\"]"),
	 "p.json, line 2, on_open[0]: \"hmac_sha512_hex:${env:K\" is neither a variable nor one of text: env: file: "
	 "hmac_sha256_hex: hmac_sha256_base64: rsa_pss_sha256_base64:"},
	{WITH("\"on_open\": [\"${now_ms+}\"]"),
	 "doubt p.json, line 2, on_open[0]: nothing sets a variable \"now_ms+\""},
	{WITH("\"vars\": {\"now_s\": 1}, \"on_open\": [\"${now_s}\"]"),
	 "p.json, line 2, on_open[0]: now_s is the time: give the variable another name"},
	{WITH("\"on_open\": [{\"a\": {\"each\": \"$x\", \"give\": 1}}]"),
	 "p.json, line 2, on_open[0].a: \"each\" and \"give\" make a list, which must be in an array"},
	{WITH("\"on_open\": [{\"each\": [1], \"give\": 1}]"),
	 "p.json, line 2, on_open[0].each: must be a string, \"$variable\""},
	{WITH("\"on_open\": [{\"each\": \"$x\", \"give\": 1}]"),
	 "doubt p.json, line 2, on_open[0].each: nothing sets a variable \"x\"..."},
	{WITH("\"headers\": {\"A\": 1}"), "p.json, line 2, headers.A: must be a string"},
	{WITH("\"headers\": {\"A B\": \"1\"}"), "p.json, line 2, headers.A B: is not the name of a header"},
	{WITH("\"headers\": {\"HOST\": \"1\"}"), "p.json, line 2, headers.HOST: is a header that wsonce sets itself"},
	{WITH("\"headers\": {\"Sec-WebSocket-Key\": \"1\"}"),
	 "p.json, line 2, headers.Sec-WebSocket-Key: is a header that wsonce sets itself"},
	{WITH("\"subprotocols\": [\"a\\r\\nb\"]"), "p.json, line 2, subprotocols[0]: is not the name of a subprotocol"},
	{WITH("\"cursor\": {\"scope\": \"host\"}"), "p.json, line 2, cursor: kind is missing"},
	{WITH("\"cursor\": {\"kind\": \"max\", \"hold_until\": {\"a\": 1}}"),
	 "p.json, line 2, cursor.hold_until.a: \"a\" is not a JSON pointer: ..."},
	{WITH("\"gap\": {\"key\": \"/a\"}"), "p.json, line 2, gap: seq is missing"},
	{WITH("\"fill\": {\"events\": \"/a\"}"), "p.json, line 2, fill: http is missing"},
	{WITH("\"fill\": {\"http\": {\"url\": \"http://a/${gap_from}\"}, \"events\": \"\"}"),
	 "p.json, line 1: fill needs a contiguous gap or a cursor, which say what is missing"},
	{WITH("\"fill\": {\"http\": {\"url\": \"http://a/\"}, \"events\": \"\", \"on\": [\"hol\"]}"),
	 "p.json, line 2, fill.on[0]: must be hole or reconnect"},
	{WITH("\"frame\": {\"strip\": \"\"}"), "p.json, line 2, frame.strip: must be a string, and not empty"},
	{WITH("\"not_json\": \"drop\""), "p.json, line 2, not_json: must be one of: reject ignore"},
	{WITH("\"binary\": \"brotli\""), "p.json, line 2, binary: must be one of: gzip zlib deflate zstd"},
	{WITH("\"binary\": true"), "p.json, line 2, binary: must be one of: gzip zlib deflate zstd"},
	{WITH("\"binary\": \"gzip\", \"binary_dictionary\": \"/none\""),
	 "p.json, line 2, binary_dictionary: /none cannot be read: No such file or directory"},
	{WITH("\"binary_dictionary\": \"/proc/self/comm\""),
	 "p.json, line 2, binary_dictionary: /proc/self/comm is not a zstd dictionary"},
	{WITH("\"binary_dictionary\": 1"), "p.json, line 2, binary_dictionary: must be a string"},
	{"{\"ack\": 1, \"rules\": [], \"binary\": \"gzip\"}",
	 "p.json, line 1: binary is for messages of a feed: producers send text"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"text\": {\"begin\": \"a\"}}]}",
	 "p.json, line 1, rules[0].text: must be a string, or {\"prefix\": STRING}"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"text\": \"a\", \"when\": {\"/a\": 1}}]}",
	 "p.json, line 1, rules[0]: the message of a rule with text is not JSON: it has no when, capture, cursor or "
	 "ack, and is no event"},
	{WITH("\"ping\": {\"every_s\": 3}"), "p.json, line 2, ping: send is missing"},
	{WITH("\"ping\": {\"send\": 3}"), "p.json, line 1: ping needs every_s or every"},
	{WITH("\"json_strings\": [\"/~2\"]"), "p.json, line 2, json_strings[0]: \"/~2\" is not a JSON pointer: ..."},
	{WITH("\"json_strings\": [\"/Entries/*/Detail\"]"),
	 "doubt p.json, line 2, json_strings[0]: \"/Entries/*/Detail\": * means each element only in explode; set "
	 "explode to \"/Entries/*\", and this to \"/Detail\""},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"action\": \"event\", \"explode\": \"/a/*\", \"id\": [[\"^/a/*\"]]}]}",
	 "doubt p.json, line 1, rules[0].id[0][0]: \"/a/*\": * means each element only in explode; ..."},
	{WITH("\"close_policy\": {\"99\": \"fatal\"}"),
	 "p.json, line 2, close_policy: \"99\" is not a close code or a range such as 4000-4099"},
	{WITH("\"idle_timeout_s\": \"10s\""),
	 "p.json, line 2, idle_timeout_s: must be a number of seconds, such as 10, or an object with var, unit, factor "
	 "and default_s"},
	{WITH("\"lines\": 5, \"mirrors\": []"), "p.json, line 2, lines: must be a whole number from 1 to 4"},
	{WITH("\"lines\": 3, \"mirrors\": [\"wss://i/\"]"),
	 "p.json, line 1: lines is 3, which needs as many URLs, but url and mirrors are 2"},
	{WITH("\"lines\": 2, \"mirrors\": [\"wss://i/\"], \"fleet\": \"shared\""),
	 "p.json, line 1: lines must be 1 if fleet is shared or exclusive: each event comes once"},
	{WITH("\"mirrors\": [\"wss://i/\"], \"cursor\": {\"kind\": \"max\", \"scope\": \"host\"}"),
	 "p.json, line 1: mirrors need a cursor of scope source: they cannot use that of a host or session"},
	{"{\"url\": \"wss://h/\", \"cursor\": {\"kind\": \"max\", \"scope\": \"host\"}, \"rules\": ["
	 "{\"when\": {\"/move\": true}, \"action\": \"reconnect\", \"url\": \"${/to}\"},"
	 "{\"action\": \"event\", \"id\": [[\"/id\"]], \"cursor\": \"/id\"}]}",
	 "doubt p.json, line 1, rules[0]: url may lead to another host, which cannot use a cursor of scope host"},
	{WITH("\"shard\": {\"var\": \"s\"}, \"vars\": {\"s\": [1]}"),
	 "p.json, line 2, shard: per_connection is missing"},
	{WITH("\"shard\": {\"var\": \"t\", \"per_connection\": 1}, \"vars\": {\"s\": [1]}"),
	 "p.json, line 2, shard: t of vars must be an array with an item or more, or \"${file:PATH}\""},
	{WITH("\"shard\": {\"var\": \"s\", \"per_connection\": 1}, \"vars\": {\"s\": []}"),
	 "p.json, line 2, shard: s of vars must be an array with an item or more, or \"${file:PATH}\""},
	{WITH("\"shard\": {\"var\": \"s\", \"per_connection\": 2, \"most\": 2}, \"vars\": {\"s\": [1, 2, 3, 4, 5]}"),
	 "p.json, line 2, shard: 5 items need 3 connections of 2 each, more than the 2 of most (up to 256): raise most "
	 "or per_connection"},
	{WITH("\"shard\": {\"var\": \"s\", \"per_connection\": 1}, \"vars\": {\"s\": [1]}, \"fleet\": \"exclusive\""),
	 "p.json, line 2, shard: shard needs lines 1 and the fleet broadcast or session"},
	{WITH("\"shard\": {\"var\": \"s\", \"per_connection\": 1}, \"vars\": {\"s\": [1]}, \"cursor\": {\"kind\": "
	      "\"max\"}"),
	 "p.json, line 2, shard: shard cannot have a cursor: an item that moves to another connection would go on "
	 "where that one stopped"},
	{WITH("\"on_change\": {\"subscribe\": 1, \"unsubscribe\": 2}"),
	 "p.json, line 1: var_http and on_change need shard"},
	{WITH("\"on_change\": {\"subscribe\": 1}"), "p.json, line 2, on_change: unsubscribe is missing"},
	{WITH("\"var_http\": {}"),
	 "p.json, line 2, var_http: must be an object of the variable that shard names, with its HTTP call"},
	{WITH("\"var_http\": {\"s\": {\"url\": \"http://h/\", \"every_s\": 0}}"),
	 "p.json, line 2, var_http.s.every_s: must be a number of seconds from 1 to 86400"},
	{WITH("\"var_http\": {\"s\": {\"url\": \"http://h/\", \"capture\": {\"t\": \"/t\"}}}"),
	 "p.json, line 2, var_http.s: capture must have one key, s, with its pointer"},
	{WITH("\"var_http\": {\"s\": {\"url\": \"http://h/\"}}, \"vars\": {\"t\": [1]}, "
	      "\"shard\": {\"var\": \"t\", \"per_connection\": 1}"),
	 "p.json, line 2, shard: var_http must set t, the variable of shard"},
	{WITH("\"backoff\": 3"), "p.json, line 2, backoff: must be an object, such as {\"min_ms\": ...}"},
	{WITH("\"on_open\": [\"${TIDE_TOKEN}\"]"),
	 "doubt p.json, line 2, on_open[0]: nothing sets a variable \"TIDE_TOKEN\"; a variable of the environment is "
	 "${env:TIDE_TOKEN}"},
	{WITH("\"default\": \"event\""), "p.json, line 1: id is missing: the default action is event, which needs one"},
	{WITH("\"subprotocols\": [\"a\\u0000${env:B}\"]"), "p.json, line 2, subprotocols[0]: must not hold \\u0000"},
	{WITH("\"hosts\": [\"a\\u0000b\"]"), "p.json, line 2, hosts[0]: must not hold \\u0000"},
	{WITH("\"tokens\": [\"${env:A}\\u0000${env:B}\"]"), "p.json, line 2, tokens[0]: must not hold \\u0000"},
	{WITH("\"tokens\": 1"),
	 "p.json, line 2, tokens: must be an object of names, each with its token, or an array of tokens"},
	{WITH("\"tokens\": {\"a\":\n\"secret\"}"), "doubt p.json, line 3, tokens.a: a token must be ${env:NAME} or "
						   "${file:/path}, and nothing else"},
	{WITH("\"tokens\": [\"${env:A}b\"]"), "doubt p.json, line 2, tokens[0]: a token must be ${env:NAME} or "
					      "${file:/path}, and nothing else"},
	{WITH("\"ack\": [\"${/a}\", \"${nobody}\"]"),
	 "doubt p.json, line 2, ack[1]: nothing sets a variable \"nobody\""},
	{WITH("\"ack_error\": [\"${a\"]"), "p.json, line 2, ack_error[0]: \"${a\": a ${ without its }"},
	{WITH("\"on_open\": [\"${reason}\"]"), "doubt p.json, line 2, on_open[0]: nothing sets a variable \"reason\""},
	{WITH("\"vars\": {\"a\": null}"),
	 "p.json, line 2, vars.a: must be a string, a number, true, false or an array"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"action\": \"event\"}]}",
	 "p.json, line 1, rules[0]: id is missing: a rule whose action is event needs one"},
	{"{\"url\": \"wss://h/\", \"rules\": [\n{\"action\": \"reject\", \"ack\": 1}]}",
	 "doubt p.json, line 2, rules[0]: ack answers events, and this rule has none: use send"},
	{"{\"url\": \"wss://h/\", \"rules\": [\n{\"action\": \"events\"}]}",
	 "p.json, line 2, rules[0].action: must be one of: ignore event reject reconnect fatal"},
	{"{\"url\": \"wss://h/\", \"rules\": [\n{\"whem\": {}}]}",
	 "p.json, line 2, rules[0].whem: a rule has no key \"whem\"; did you mean \"when\"?"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"when\": {\n\"/a\": {\"exist\": true}}}]}",
	 "p.json, line 2, rules[0].when./a.exist: is not a condition: these are exists, ..."},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"when\": {\"/a\": []}}]}",
	 "p.json, line 1, rules[0].when./a: an empty list matches nothing"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"when\": {\"/a\": {\"type\": \"number\"}}}]}",
	 "p.json, line 1, rules[0].when./a.type: must be object, array, string, boolean or integer"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"action\": \"event\", \"id\": [[\"a\"]]}]}",
	 "p.json, line 1, rules[0].id[0][0]: \"a\" is not a part: ..."},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"action\": \"event\", \"id\": [[]]}]}",
	 "p.json, line 1, rules[0].id[0]: must be an array of 1 to 16 parts"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"cursor\": \"/a\"}]}",
	 "p.json, line 1, rules[0]: the profile needs a cursor, too, such as {\"kind\": \"max\"}"},
	{WITH("\"cursor\": {\"kind\": \"max\"}"),
	 "doubt p.json, line 1: the profile has a cursor, but no rule moves it: give one a cursor"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"id\": [[\"/id\"]]}]}",
	 "doubt p.json, line 1, rules: no rule has the action event, so nothing would be stored: give one that action"},
	{WITH("\"url_resume\": \"wss://h/?c=${cursor}\""),
	 "doubt p.json, line 2, url_resume: nothing sets a variable \"cursor\": the profile has no cursor"},
	{"{\"url\": \"wss://h/\", \"vars\": {\"seen\": 0}, \"rules\": [{\"clear\": [\"seen\", \"sen\"]}]}",
	 "doubt p.json, line 1, rules[0].clear[1]: nothing sets a variable \"sen\"; did you mean \"seen\"?"},
	{WITH("\"reset_close\": {\"codes\": [4009], \"clear\": [\"cursor\"]}"),
	 "doubt p.json, line 2, reset_close.clear[0]: nothing sets a variable \"cursor\": the profile has no cursor"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"capture\": {\"seq\": \"/s\"}, \"send\": [\"${sek}\"]}]}",
	 "doubt p.json, line 1, rules[0].send[0]: nothing sets a variable \"sek\"; did you mean \"seq\"?"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"http\": [{\"method\": \"GET\"}]}]}",
	 "p.json, line 1, rules[0].http[0]: url is missing"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"when\":\n{\"/a\": 9223372036854775808}}]}",
	 "p.json, line 2: column 26: a profile cannot hold a number that needs more than 64 bits; a condition may ask "
	 "for {\"type\": \"integer\"}"},
	{"{\"url\": \"https://h/\", " RULE "}]}",
	 "p.json, line 1, url: \"https://h/\" is not a WebSocket URL, which begins with ws:// or wss://"},
	{"{\"url\": \"${u}/x\", \"vars\": {\"u\": \"http://h\"}, " RULE "}]}",
	 "p.json, line 1, url: \"http://h\" is not a WebSocket URL, ..."},
	{WITH("\"mirrors\": [\"WSS://h/\",\n\"ftp://h/\"]"), "p.json, line 2, mirrors: \"ftp://h/\" is not a ..."},
	{WITH("\"url_resume\": \"http://${k}\", \"vars\": {\"k\": 1}"),
	 "p.json, line 2, url_resume: \"http://${k}\" is not a ..."},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"name\": \"a\", \"when\": {\"/a\": 1}},\n{\"name\": \"a\"}]}",
	 "p.json, line 2, rules[1]: another rule is named a, too: counters tell rules apart by name"},
	{"{\"url\": \"wss://h/\", \"rules\": [{\"name\": \"a\", \"when\": {}}, {\"text\": \"b\"},\n{\"when\": {\"/c\": "
	 "1}}]}",
	 "p.json, line 2, rules[2]: no message gets here: the rule a, which has no conditions, fits all"},
	{"{\"url\": \"a\", \"url\": \"b\"}",
	 "p.json, line 1: not JSON at column 18: duplicate object key near '\"url\"'"},
};

static void expect_fault(const char *found, const char *fault)
{
	size_t len = strlen(fault);

	if (len > 3 && strcmp(fault + len - 3, "...") == 0)
		cr_assert(strncmp(found, fault, len - 3) == 0, "%s\nis not\n%s", found, fault);
	else
		cr_assert_str_eq(found, fault);
}

Test(profile, wrong_one_is_named_by_key_and_line)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *text = wrong[i].text, *fault = wrong[i].fault;
		bool is_doubt = strncmp(fault, "doubt ", 6) == 0;
		struct profile_fault found;
		struct profile *p = profile_parse(text, strlen(text), "p.json", NULL, &found);

		cr_assert((p != NULL) == is_doubt, "%s", text);
		expect_fault(p ? p->doubt.text : found.text, fault + (is_doubt ? 6 : 0));
		profile_free(p);
	}
}

static struct profile *parse(const char *text, const char *overrides)
{
	json_t *over = overrides ? json_loads(overrides, 0, NULL) : NULL;
	struct profile_fault fault = {""};
	struct profile *p = profile_parse(text, strlen(text), "p.json", over, &fault);

	json_decref(over);
	cr_assert(p, "%s", fault.text);
	return p;
}

/* The feed itself sends again what is behind the cursor. */
Test(profile, without_fill_nothing_is_asked_for)
{
	struct profile *p = parse(WITH("\"cursor\": {\"kind\": \"max\"}, \"gap\": {\"key\": \"/k\", \"seq\": "
				       "\"/n\", \"contiguous\": true}"),
				  NULL);

	cr_assert(!p->fill.on_reconnect && !p->fill.on_hole);
	profile_free(p);
}

Test(profile, a_cursor_in_any_form_is_sent_to_the_feed, .timeout = 10)
{
	static const char *const forms[] = {"\"${cursor}\"", "\"${text:cursor}\"", "{\"if\": \"$cursor\", \"then\": 1}",
					    "1"};

	for (size_t i = 0; i < 4; i++) {
		char text[400];
		struct profile *p;

		snprintf(text, sizeof(text),
			 WITH("\"cursor\": {\"kind\": \"max\"}, \"fill\": {\"http\": {\"url\": "
			      "\"http://h/?c=${cursor}\"}, "
			      "\"events\": \"\"}, \"on_open\": [%s]"),
			 forms[i]);
		p = parse(text, NULL);
		cr_assert_eq(p->cursor.is_for_fill, i == 3, "%s", forms[i]);
		profile_free(p);
	}
}

Test(profile, members_have_their_defaults)
{
	struct profile *p =
		parse("{\"url\": \"wss://h/\", \"rules\": [{\"id\": [[\"/a\"]], \"action\": \"event\"}]}", NULL);

	cr_assert_str_eq(p->name, "feed");
	cr_assert_eq(p->fallback.action, ACTION_IGNORE);
	cr_assert_str_eq(p->rules[0].id_join, "|");
	cr_assert_str_eq(p->rules[0].payload, "");
	cr_assert_eq(p->idle_timeout.ms, -1);
	cr_assert_eq(p->cursor.kind, CURSOR_NONE);
	profile_free(p);
}

Test(profile, overrides_replace_members_and_single_variables)
{
	struct profile *p = parse(WITH("\"vars\": {\"a\": 1, \"b\": 2}"),
				  "{\"url\": \"wss://other/\", \"name\": \"mine\", \"vars\": {\"b\": 3}}");

	cr_assert_str_eq(p->url, "wss://other/");
	cr_assert_str_eq(p->name, "mine");
	cr_assert_eq(json_integer_value(json_object_get(p->vars, "a")), 1);
	cr_assert_eq(json_integer_value(json_object_get(p->vars, "b")), 3);
	profile_free(p);
}

Test(profile, close_codes_have_their_meaning)
{
	struct profile *p = parse(WITH("\"fatal_close\": [4004], \"reset_close\": {\"codes\": [4007], \"clear\": []},"
				       "\"close_policy\": {\"4100-4199\": \"at_once\", \"4200\": \"backoff\"}"),
				  NULL);

	cr_assert_eq(profile_close(p, 4004), CLOSE_FATAL);
	cr_assert_eq(profile_close(p, 4007), CLOSE_RESET);
	cr_assert_eq(profile_close(p, 4150), CLOSE_AT_ONCE);
	cr_assert_eq(profile_close(p, 4200), CLOSE_BACKOFF);
	cr_assert_eq(profile_close(p, 1006), -1);
	profile_free(p);
}

#define JETS \
	WITH("\"url_resume\": \"wss://h/?c=${cursor}\", \"mirrors\": [\"wss://i/\"], \"lines\": 2, " \
	     "\"vars\": {\"host\": \"x\"}, \"cursor\": {\"kind\": \"max\"}")

Test(profile, url_takes_the_place_of_resuming_with_it)
{
	static const struct {
		const char *url;
		const char *resume;
	} moved[] = {
		{"ws://127.0.0.1:1/sub", "ws://127.0.0.1:1/?c=${cursor}"},
		{"ws://127.0.0.1:1", "ws://127.0.0.1:1/?c=${cursor}"},
		{"ws://${host}?a", "ws://${host}/?c=${cursor}"},
	};

	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		char over[100];

		snprintf(over, sizeof(over), "{\"url\": \"%s\"}", moved[i].url);
		struct profile *p = parse(JETS, over);
		cr_assert_str_eq(p->url, moved[i].url);
		cr_assert_str_eq(p->url_resume, moved[i].resume);
		cr_assert_null(p->mirrors, "they are of the host that was left");
		cr_assert_eq(p->lines, 1);
		profile_free(p);
	}
}

Test(profile, url_with_members_of_its_own_keeps_them)
{
	struct profile *p =
		parse(JETS, "{\"url\": \"ws://a/\", \"url_resume\": \"ws://b/\", \"mirrors\": [\"ws://c/\"]}");

	cr_assert_str_eq(p->url_resume, "ws://b/");
	cr_assert_eq(json_array_size(p->mirrors), 1);
	cr_assert_eq(p->lines, 2);
	profile_free(p);
	p = parse(JETS, "{\"url\": \"${host}\", \"url_resume\": null}");
	cr_assert_null(p->url_resume);
	profile_free(p);
}

Test(profile, url_that_the_feed_says_is_where_it_resumes)
{
	struct profile *p =
		parse(WITH("\"url_resume\": \"${to}/?c=1\", \"vars\": {\"to\": \"\"}"), "{\"url\": \"ws://a/\"}");

	cr_assert_str_eq(p->url_resume, "${to}/?c=1");
	profile_free(p);
}

Test(profile, url_without_a_host_asks_where_to_resume)
{
	struct profile_fault fault;
	json_t *over = json_loads("{\"url\": \"${host}\"}", 0, NULL);

	cr_assert_null(profile_parse(JETS, strlen(JETS), "p.json", over, &fault));
	cr_assert_str_eq(fault.text,
			 "p.json, url: the profile's url_resume cannot be moved to this host: give url_resume, too, "
			 "or set it to null");
	json_decref(over);
}

/* In a settings file; PROFILE stands for a profile in a file. */
static const struct {
	const char *sources;
	const char *fault;
} wrong_sources[] = {
	{"[\n1]", "s.json, line 3, sources[0]: must be an object: {\"profile\": NAME} or a whole profile"},
	{"[\n{\"profil\": \"kraken\"}]",
	 "s.json, line 3, sources[0]: must be an object: {\"profile\": NAME} or a whole profile"},
	{"[{},\n{\"profile\":\n3}]",
	 "s.json, line 4, sources[1].profile: must be a string: the name of a shipped profile, or a path"},
	{"[{},\n{\"url\": \"ws://a\",\n \"idle_timout_s\": 3}]",
	 "s.json, line 4, sources[1].idle_timout_s: a profile has no key \"idle_timout_s\"; did you mean "
	 "\"idle_timeout_s\"?"},
	{"[{\"url\": \"ws://a\", \"rules\": [\n{},\n{\"when\": 1}]}]",
	 "s.json, line 4, sources[0].rules[1].when: must be an object of pointers and conditions"},
	{"[{\"profile\": \"PROFILE\",\n\"fleet\": \"all\"}]",
	 "s.json, line 3, sources[0].fleet: must be one of: broadcast shared exclusive session"},
	{"[{\"profile\": \"PROFILE\",\n\"rules\": null}]",
	 "s.json, line 2, sources[0]: rules are missing: without one, no frame is an event"},
	{"[{\"profile\": \"PROFILE\",\n\"vars\": {\n\"hist\": 1}}]",
	 "s.json, line 4, sources[0].vars.hist: the profile has no variable \"hist\"; did you mean \"host\"?"},
	{"[{\"profile\": \"PROFILE\",\n\"vars\": {\n\"host\": {}}}]",
	 "s.json, line 4, sources[0].vars.host: must be a string, a number, true, false or an array"},
	{"[{\"profile\": \"PROFILE\",\n\"vars\": 3}]",
	 "s.json, line 3, sources[0].vars: must be an object of variables and their values"},
	{"[{\"profile\": \"PROFILE\",\n\"url\": \"${host}\"}]",
	 "s.json, line 3, sources[0].url: the profile's url_resume cannot ..."},
};

static struct profile *read_source(const char *text, const json_t *root, struct profile_fault *fault)
{
	const json_t *sources = json_object_get(root, "sources");
	size_t i = json_array_size(sources) - 1;
	char path[40];
	struct profile_origin origin =
		profile_origin_of_source("s.json", (struct slice){text, strlen(text)}, i, path, sizeof(path));

	return profile_read_source(json_array_get(sources, i), &origin, fault);
}

static char *write_profile(const char *text)
{
	static char path[] = "/tmp/profile-XXXXXX";
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	return path;
}

#define DICTIONARY "\"binary\": \"zstd\", \"binary_dictionary\": \"d\""

Test(profile, a_dictionary_is_beside_the_file_that_names_it)
{
	char folder[] = "/tmp/profile-XXXXXX", settings[60], *base = write_profile(WITH("\"name\": \"n\""));
	struct profile_origin given = {settings, "", {NULL, 0}, 0};
	struct profile_fault fault = {""};
	struct profile *p;

	cr_assert(mkdtemp(folder) && chdir(folder) == 0);
	snprintf(settings, sizeof(settings), "%s/s.json", folder);
	p = profile_parse(WITH(DICTIONARY), strlen(WITH(DICTIONARY)), settings, NULL, &fault);
	cr_assert(!p && strstr(fault.text, "/d cannot be read"), "%s", fault.text);
	FILE *out = fopen("d", "w");
	fprintf(out, "\x37\xa4\x30\xecwords, words");
	fclose(out);
	cr_assert_eq(chdir("/"), 0);
	p = profile_parse(WITH(DICTIONARY), strlen(WITH(DICTIONARY)), settings, NULL, &fault);
	cr_assert(p, "%s", fault.text);
	cr_assert_eq(p->binary, BINARY_ZSTD);
	cr_assert_eq(p->dictionary.len, 16);
	profile_free(p);
	cr_assert_null(profile_parse(WITH("\"binary_dictionary\": \"d\""), strlen(WITH("\"binary_dictionary\": \"d\"")),
				     settings, NULL, &fault));
	cr_assert(strstr(fault.text, "binary_dictionary goes with \"binary\": \"zstd\""), "%s", fault.text);
	json_t *source = json_pack("{s:s, s:s, s:s}", "profile", base, "binary", "zstd", "binary_dictionary", "d");
	p = profile_read_source(source, &given, &fault);
	cr_assert(p, "beside the settings that override the profile: %s", fault.text);
	cr_assert_str_eq(strrchr(p->dictionary_path, '/'), "/d");
	profile_free(p);
	json_decref(source);
	cr_assert_eq(unlink(base), 0);
	cr_assert(chdir(folder) == 0 && unlink("d") == 0 && rmdir(folder) == 0);
}

Test(profile, wrong_source_is_named_by_key_and_line_of_the_settings)
{
	char *file = write_profile(JETS);

	for (size_t i = 0; i < sizeof(wrong_sources) / sizeof(wrong_sources[0]); i++) {
		const char *given = wrong_sources[i].sources, *at = strstr(given, "PROFILE");
		struct profile_fault fault;
		char text[1000];

		snprintf(text, sizeof(text), "{\"ingest\": \"1\",\n\"sources\": %.*s%s%s}", (int)(at ? at - given : 0),
			 given, at ? file : "", at ? at + 7 : given);
		json_t *root = json_loads(text, 0, NULL);
		cr_assert(root, "%s", text);
		cr_assert_null(read_source(text, root, &fault), "%s", text);
		expect_fault(fault.text, wrong_sources[i].fault);
		json_decref(root);
	}
	unlink(file);
}
