/* How url.c parses and redacts URLs and addresses. */
#include "base/url.h"
#include "unit.h"

static struct url url;

static void fini(void)
{
	url_clear(&url);
}

TestSuite(url, .fini = fini, .timeout = 60);

static int parse(const char *text)
{
	url_clear(&url);
	return url_parse(&url, text);
}

static int parse_address(const char *text)
{
	url_clear(&url);
	return url_parse_address(&url, text);
}

Test(url, all_parts_are_split)
{
	cr_assert_eq(parse("wss://me:pass@example.com:8443/feed/1?since=2#x"), 0);
	cr_assert_str_eq(url.scheme, "wss");
	cr_assert_str_eq(url.user, "me");
	cr_assert_str_eq(url.password, "pass");
	cr_assert_str_eq(url.host, "example.com");
	cr_assert_eq(url.port, 8443);
	cr_assert_str_eq(url.path, "/feed/1?since=2#x");
}

Test(url, absent_parts_are_empty)
{
	cr_assert_eq(parse("ws://h"), 0);
	cr_assert_null(url.user);
	cr_assert_null(url.password);
	cr_assert_str_eq(url.host, "h");
	cr_assert_eq(url.port, 0);
	cr_assert_str_eq(url.path, "");
	cr_assert_eq(parse("unix:///run/redis.sock"), 0);
	cr_assert_str_eq(url.host, "");
	cr_assert_str_eq(url.path, "/run/redis.sock");
}

Test(url, user_and_password_are_percent_decoded)
{
	cr_assert_eq(parse("redis://a%40b:p%2Fw%3a%25@h/0"), 0);
	cr_assert_str_eq(url.user, "a@b");
	cr_assert_str_eq(url.password, "p/w:%");
	cr_assert_eq(parse("redis://:secret@h"), 0);
	cr_assert_str_eq(url.user, "");
	cr_assert_str_eq(url.password, "secret");
	cr_assert_eq(parse("redis://me@h"), 0);
	cr_assert_str_eq(url.user, "me");
	cr_assert_null(url.password);
}

Test(url, password_may_hold_colons_and_at_signs)
{
	cr_assert_eq(parse("redis://u:a:b@c@h:1"), 0);
	cr_assert_str_eq(url.password, "a:b@c");
	cr_assert_str_eq(url.host, "h");
}

Test(url, broken_percent_signs_are_refused)
{
	static const char *const texts[] = {"ws://%@h", "ws://%4@h", "ws://%zz@h", "ws://u:%4g@h", "ws://u:%00@h"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_eq(parse(texts[i]), -1, "%s", texts[i]);
}

Test(url, no_byte_can_end_a_line_of_a_request)
{
	static const char *const texts[] = {"ws://h/\r\nSET a 1", "ws://h\r\nX: y/", "ws://h/a b",  "ws://h/a\tb",
					    "ws://h/a\x7f",       "ws://u\n@h",      "w\ns://h",    " ws://h",
					    "ws://h/?a=\n",       "ws://h/#\x01",    "ws://h:80 /", "ws://h\x7f"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_eq(parse(texts[i]), -1, "%s", texts[i]);
	cr_assert_eq(parse("ws://h/\xc3\xa4?%0d%0a"), 0);
}

Test(url, hosts_are_names_or_addresses)
{
	static const char *const bad[] = {"ws://a,b",     "ws://a<b",   "ws://[a]",       "ws://[1.2.3.4]",
					  "ws://a%0d%0a", "ws://::1/x", "ws://[::1%a;b]", "ws://\xc3\xa4"};
	static const char *const good[] = {"ws://a_b.c-d.example.", "ws://10.0.0.1", "ws://[fe80::1%eth0]",
					   "ws://[::]"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_eq(parse(bad[i]), -1, "%s", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert_eq(parse(good[i]), 0, "%s", good[i]);
}

Test(url, ipv6_addresses_are_in_brackets)
{
	cr_assert_eq(parse("ws://[::1]:80/x"), 0);
	cr_assert_str_eq(url.host, "::1");
	cr_assert_eq(url.port, 80);
	cr_assert_eq(parse("ws://[fe80::1]"), 0);
	cr_assert_str_eq(url.host, "fe80::1");
	cr_assert_eq(url.port, 0);
	cr_assert_eq(parse("ws://[::1"), -1);
	cr_assert_eq(parse("ws://[::1]80"), -1);
}

Test(url, wrong_forms_are_refused)
{
	static const char *const texts[] = {
		"",          "h",         "ws:/h",        "://h",      "ws://h:",   "ws://h:x",
		"ws://h:-1", "ws://h:+1", "ws://h:65536", "ws://h: 1", "ws://h:1x", "ws://h:99999999999999999999"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_eq(parse(texts[i]), -1, "%s", texts[i]);
	cr_assert_eq(parse("ws://h:65535"), 0);
}

Test(url, address_is_a_host_and_a_port)
{
	cr_assert_eq(parse_address("127.0.0.1:8080"), 0);
	cr_assert_str_eq(url.host, "127.0.0.1");
	cr_assert_eq(url.port, 8080);
	cr_assert_eq(parse_address("[::]:0"), 0);
	cr_assert_str_eq(url.host, "::");
	cr_assert_eq(url.port, 0);
}

Test(url, address_without_host_or_port_is_refused)
{
	static const char *const texts[] = {"", "8080", ":8080", "h", "h:", "h:x", "[::1]", "h:65536", "[]:1"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_eq(parse_address(texts[i]), -1, "%s", texts[i]);
}

Test(url, scheme_is_one_of_the_words)
{
	cr_assert_eq(parse("ws://h"), 0);
	cr_assert(url_has_scheme(&url, "ws wss"));
	cr_assert(url_has_scheme(&url, "wss ws"));
	cr_assert_not(url_has_scheme(&url, "wss"));
	cr_assert_not(url_has_scheme(&url, "xws"));
	cr_assert_eq(parse("s://h"), 0);
	cr_assert_not(url_has_scheme(&url, "ws wss"));
	cr_assert(parse("ws wss://h") || !url_has_scheme(&url, "ws wss"));
}

static void assert_shown(const char *text, const char *shown)
{
	char *out = url_redact(text);

	cr_assert_str_eq(out, shown, "%s is shown as %s", text, out);
	free(out);
}

Test(url, shown_url_has_no_user_no_password_no_query_and_no_path_but_that_of_redis)
{
	assert_shown("ws://h:1/", "ws://h:1/");
	assert_shown("ws://u:secret@h:1/", "ws://***@h:1/");
	assert_shown("redis://:se@cr:et@h/0", "redis://***@h/0");
	assert_shown("ws://token@h", "ws://***@h");
	assert_shown("secret@h", "***@h");
	assert_shown("ws://h/a@b", "ws://h/***");
	assert_shown("wss://h:1/feed/secret/", "wss://h:1/***");
	assert_shown("redis://h/0", "redis://h/0");
	assert_shown("unix:///run/redis.sock", "unix:///run/redis.sock");
	assert_shown("ws://h/feed?token=secret", "ws://h/***?***");
	assert_shown("ws://h?token=secret", "ws://h?***");
	assert_shown("ws://u:secret@h/x?token=secret#secret", "ws://***@h/***?***");
	assert_shown("ws://h/x#secret", "ws://h/***?***");
}
