/* Where reach.c lets a feed lead its listeners. */

#include "feed/reach.h"
#include "unit.h"

TestSuite(reach, .timeout = 60);

static bool is_own; /* is_own of the last URL */

static const char *judge(const char *members, const char *url)
{
	struct profile_fault fault = {""};
	char text[500];

	snprintf(text, sizeof(text), "{\"name\": \"p\", %s, \"default\": \"ignore\", \"rules\": []}", members);
	struct profile *p = profile_parse(text, strlen(text), "p", NULL, &fault);
	cr_assert(p, "%s", fault.text);
	const char *why = reach_fault(p, url, &is_own);
	profile_free(p);
	return why ? why : "";
}

static bool is_lost(const char *members, const char *url)
{
	return strstr(judge(members, url), "does not name") != NULL;
}

static bool is_bare(const char *members, const char *url)
{
	return strstr(judge(members, url), "without TLS") != NULL;
}

#define OWN "\"url\": \"wss://a.example/x?k=${k}\""

Test(reach, the_profile_s_own_hosts_need_no_list)
{
	cr_assert_str_eq(judge(OWN, "wss://A.example:8443/y"), "");
	cr_assert_str_eq(judge("\"vars\": {\"h\": \"b.example\"}, \"url\": \"wss://${h}/\"", "wss://b.example"), "");
	cr_assert_str_eq(judge(OWN ", \"mirrors\": [\"wss://c.example\"]", "wss://c.example"), "");
	cr_assert(is_lost(OWN, "wss://b.example/"));
	cr_assert(is_lost(OWN, "wss://a.example@b.example/"));
	cr_assert(is_lost("\"url\": \"${there}\"", "wss://b.example/"));
}

Test(reach, others_are_listed_by_name_or_domain)
{
	const char *listed = OWN ", \"hosts\": [\"*.b.example\", \"10.0.0.1\"]";

	cr_assert_str_eq(judge(listed, "wss://x.y.B.example/"), "");
	cr_assert_str_eq(judge(listed, "wss://10.0.0.1/"), "");
	cr_assert_not(is_own, "it would get headers with secrets");
	cr_assert_str_eq(judge(listed, "wss://a.example/"), "");
	cr_assert(is_own);
	cr_assert(is_lost(listed, "wss://b.example/"));
	cr_assert(is_lost(listed, "wss://xb.example/"));
	cr_assert(is_lost(listed, "wss://x.b.example.evil/"));
}

Test(reach, tls_is_never_left)
{
	const char *listed = ", \"hosts\": [\"b.example\"]";
	char text[200];

	cr_assert(is_bare(OWN, "ws://a.example/x"));
	snprintf(text, sizeof(text), "%s%s", OWN, listed);
	cr_assert(is_bare(text, "ws://b.example/"));
	snprintf(text, sizeof(text), "\"url\": \"ws://a.example/\"%s", listed);
	cr_assert_str_eq(judge(text, "ws://b.example/"), "");
	cr_assert_str_eq(judge(text, "wss://a.example/"), "");
}

Test(reach, what_is_no_url_leads_nowhere)
{
	cr_assert(strstr(judge(OWN, "wss://a.example/\r\nX"), "blank") != NULL);
	cr_assert(strstr(judge(OWN, ""), "blank") != NULL);
}

/* libcurl would read both refused URLs as http://b.example/. */
Test(reach, a_path_is_not_taken_for_a_scheme)
{
	const char *own = "\"url\": \"ws://a.example/\"";

	cr_assert_str_eq(judge(own, "http://a.example/"), "");
	cr_assert(strstr(judge(own, "http:/b.example/x://a.example/"), "no valid host") != NULL);
	cr_assert(strstr(judge(own, "b.example/x://a.example/"), "no valid host") != NULL);
}

/* A value that the feed sent, in the path of a URL, is not encoded if it is .. */
/* When the server refuses it, each part of its path is masked in the reason. */
Test(reach, a_url_has_at_most_64_kib)
{
	char url[65538];

	sprintf(url, "wss://a.example/%065521d", 0);
	cr_assert_str_eq(judge(OWN, url), "the URL is longer than 64 KiB");
	url[65536] = '\0';
	cr_assert_str_eq(judge(OWN, url), "");
}

Test(reach, a_path_does_not_climb)
{
	cr_assert(strstr(judge(OWN, "wss://a.example/users/../x"), "in its path"));
	cr_assert(strstr(judge(OWN, "wss://a.example/./x"), "in its path"));
	cr_assert(strstr(judge(OWN, "wss://a.example/users/.."), "in its path"));
	cr_assert(strstr(judge(OWN, "wss://a.example/.?x"), "in its path"));
	cr_assert_str_eq(judge(OWN, "wss://a.example/.../..x/x../.x/?at=/../#/../"), "");
	cr_assert_str_eq(judge(OWN, "wss://a.example"), "");
}
