/* Where redirects of a handshake may lead. */
#include "net/redirect.h"

#include "unit.h"

static void expect(const char *from, const char *location, const char *to)
{
	struct url url;
	const char *why = NULL;

	cr_assert_eq(url_parse(&url, from), 0);
	char *text = redirect_follow(&url, location, &why);
	if (strstr(to, "://"))
		cr_assert(text && strcasecmp(text, to) == 0, "%s and %s: %s (%s)", from, location, text, why);
	else
		cr_assert(!text && strstr(why, to), "%s and %s: %s (%s)", from, location, text, why);
	free(text);
	url_clear(&url);
}

Test(redirect, the_same_place_is_followed)
{
	expect("ws://h:81/a/b?c", "/x?y#z", "ws://h:81/x?y");
	expect("ws://h:81/a/b?c", "x", "ws://h:81/a/x");
	expect("ws://h:81/a/b?c", "?x", "ws://h:81/a/b?x");
	expect("ws://h", "x", "ws://h/x");
	expect("ws://h/a", "http://H/x", "ws://h/x");
	expect("wss://h/a", "//h:443/x", "wss://h:443/x");
	expect("wss://h/a", "https://h", "wss://h/");
	expect("ws://h/a/b", "../x/./y", "ws://h/x/y");
	expect("ws://h/a", "http-x", "ws://h/http-x");
	expect("ws://h:81/a", "wss://h/x", "wss://h/x");
	expect("ws://[::1]:81/a", "ws://[::1]:81/x", "ws://[::1]:81/x");
	expect("ws://h/a", "/x?to=http://other/", "ws://h/x?to=http://other/");
}

Test(redirect, user_and_password_go_along)
{
	expect("ws://us%40r:p%3Aw@h/a", "/x", "ws://us%40r:p%3Aw@h/x");
	expect("ws://us%40r@h/a", "ws://other:pw@h/x", "ws://us%40r@h/x");
}

Test(redirect, other_places_are_not_followed)
{
	expect("ws://h/a", "ws://other/x", "another host");
	expect("ws://h/a", "//other/x", "another host");
	expect("ws://h/a", "ws://h@other/x", "another host");
	expect("wss://h/a", "ws://h/x", "without TLS");
	expect("ws://h:81/a", "ws://h:82/x", "another port");
	expect("wss://h/a", "wss://h:444/x", "another port");
	expect("ws://h/a", "ftp://h/x", "nowhere");
	expect("ws://h/a", "ws://", "nowhere");
	expect("ws://h/a", "/a b", "nowhere");
	expect("ws://h/a", "/\x7f", "nowhere");
}
