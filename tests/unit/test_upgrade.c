/* The request of upgrade.c, and which answers it accepts. */
#include "net/upgrade.h"

#include "unit.h"
#include <openssl/evp.h>

static struct url url;
static struct upgrade *upgrade;
static struct upgrade_offer offer;
static char request[4000];
static char accept[40];

/* Computes the accept value for the key in request independently. */
static void find_accept(void)
{
	char *key = strstr(request, "Sec-WebSocket-Key: ") + 19, joined[100];
	unsigned char digest[20];

	snprintf(joined, sizeof joined, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	EVP_Digest(joined, strlen(joined), digest, NULL, EVP_sha1(), NULL);
	EVP_EncodeBlock((unsigned char *)accept, digest, sizeof digest);
}

static void ask(const char *to)
{
	size_t len = 0, n;

	upgrade_free(upgrade);
	url_clear(&url);
	cr_assert_eq(url_parse(&url, to), 0);
	upgrade = upgrade_new(&url, &offer);
	cr_assert_not_null(upgrade);
	while ((n = upgrade_take(upgrade, request + len, 7)))
		len += n;
	request[len] = '\0';
	find_accept();
}

static void init(void)
{
	ask("ws://127.0.0.1:1/feed");
}

static void fini(void)
{
	upgrade_free(upgrade);
	url_clear(&url);
}

TestSuite(upgrade, .init = init, .fini = fini, .timeout = 60);

#define RIGHT "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"

/* Returns the verdict on an answer, in which %s is the correct accept value. */
static enum upgrade_result judge(const char *format)
{
	char answer[600];
	size_t used = 0;
	int n;

	init();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	n = snprintf(answer, sizeof answer, format, accept);
#pragma GCC diagnostic pop
	return upgrade_receive(upgrade, answer, (size_t)n, &used);
}

Test(upgrade, the_request_has_what_rfc_6455_demands)
{
	ask("ws://example.com:81/a/b?c=d#e");
	cr_assert(strstr(request,
			 "GET /a/b?c=d HTTP/1.1\r\nHost: example.com:81\r\nUser-Agent: wsonce/" WSONCE_VERSION "\r\n"
			 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ") == request,
		  "%s", request);
	cr_assert(strstr(request, "==\r\nSec-WebSocket-Version: 13\r\n\r\n"), "%s", request);
}

Test(upgrade, wrong_answers_are_refused_with_the_reason)
{
	static const struct {
		const char *answer, *reason;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\n" RIGHT "\r\n", "answered 200 instead of 101"},
		{"HTTP/1.1 302 Found\r\n\r\n", "302 instead of 101"},
		{"HTTP/1.1 304 Not Modified\r\nLocation: /x\r\n\r\n", "304 instead of 101"},
		{"SSH-2.0-x", "not HTTP"},
		{"HTTP/1.1 1010 x\r\n" RIGHT "\r\n", "not HTTP"},
		{"HTTP/1.1  101 x\r\n" RIGHT "\r\n", "not HTTP"},
		{"HTTP/1.1 101 x\r\n" RIGHT "no colon\r\n\r\n", "a header of"},
		{"HTTP/1.1 101 x\r\n" RIGHT "blank : x\r\n\r\n", "a header of"},
		{"HTTP/1.1 101 x\r\n" RIGHT " folded: x\r\n\r\n", "a header of"},
		{"HTTP/1.1 101 x\r\n" RIGHT "Upgrade: h2c\r\n\r\n", "something other than websocket"},
		{"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", "no Upgrade"},
		{"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgraded\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		 "no Connection"},
		{"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "no Sec-WebSocket-Accept"},
		{"HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Accept: x\r\n\r\n", "does not match our key"},
		{"HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "extension"},
		{"HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Protocol: x\r\n\r\n", "subprotocol"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cr_assert_eq(judge(cases[i].answer), UPGRADE_REFUSED, "%s", cases[i].answer);
		cr_assert(strstr(upgrade_answer(upgrade)->reason, cases[i].reason), "%s",
			  upgrade_answer(upgrade)->reason);
	}
}

Test(upgrade, an_answer_has_an_end)
{
	static const char header[] = "X: a header of the server\r\n";
	size_t used = 0;
	int lines = 0;

	cr_assert_eq(upgrade_receive(upgrade, "HTTP/1.1 101 x\r\n", 16, &used), UPGRADE_MORE);
	while (upgrade_receive(upgrade, header, strlen(header), &used) == UPGRADE_MORE)
		cr_assert_lt(lines++, 500);
	cr_assert(strstr(upgrade_answer(upgrade)->reason, "longer than 8 KiB"), "%s", upgrade_answer(upgrade)->reason);
}

/* --- what may be offered --- */

Test(upgrade, headers_are_sent_as_they_are)
{
	offer.headers = "X-Key: secret\r\nauthorization: Bearer t\r\nuser-agent: mine\r\n";
	ask("ws://u:p@h/");
	cr_assert(strstr(request, "\r\nX-Key: secret\r\nauthorization: Bearer t\r\nuser-agent: mine\r\n\r\n"), "%s",
		  request);
	cr_assert(!strstr(request, "Basic") && !strstr(request, "wsonce/"), "%s", request);
}

Test(upgrade, one_of_the_subprotocols_has_to_be_chosen)
{
	char *names[] = {"b.v2", "b.v1"};

	offer = (struct upgrade_offer){.subprotocols = names, .subprotocol_count = 2};
	ask("ws://h/");
	cr_assert(strstr(request, "\r\nSec-WebSocket-Protocol: b.v2, b.v1\r\n"), "%s", request);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Protocol: b.v1\r\n\r\n"), UPGRADE_DONE);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "\r\n"), UPGRADE_REFUSED);
	cr_assert(strstr(upgrade_answer(upgrade)->reason, "chooses none"), "%s", upgrade_answer(upgrade)->reason);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Protocol: b.v3\r\n\r\n"), UPGRADE_REFUSED);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Protocol: b.v1, b.v2\r\n\r\n"), UPGRADE_REFUSED);
}

Test(upgrade, compression_is_agreed_where_it_was_offered)
{
	offer.has_deflate = true;
	ask("ws://h/");
	cr_assert(strstr(request, "\r\nSec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover"), "%s",
		  request);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "\r\n"), UPGRADE_DONE);
	cr_assert(!upgrade_answer(upgrade)->terms.is_agreed);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
		     UPGRADE_DONE);
	cr_assert(upgrade_answer(upgrade)->terms.is_agreed && !upgrade_answer(upgrade)->terms.is_forgetful);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Extensions: permessage-deflate\r\n"
			   "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
		     UPGRADE_REFUSED);
	cr_assert_eq(judge("HTTP/1.1 101 x\r\n" RIGHT "Sec-WebSocket-Extensions: x-other\r\n\r\n"), UPGRADE_REFUSED);
}

Test(upgrade, a_redirect_has_a_place)
{
	static const int statuses[] = {301, 302, 303, 307, 308};
	char answer[100];
	size_t used;

	for (size_t i = 0; i < 5; i++) {
		int n = sprintf(answer, "HTTP/1.1 %d Moved\r\nLocation:  /there?x \r\n\r\n", statuses[i]);

		init();
		cr_assert_eq(upgrade_receive(upgrade, answer, (size_t)n, &used), UPGRADE_MOVED);
		cr_assert_str_eq(upgrade_answer(upgrade)->location, "/there?x");
	}
}

/* --- texts of refusals --- */

Test(upgrade, a_refusal_is_told_with_its_first_words)
{
	char answer[600];
	int n = sprintf(answer, "HTTP/1.1 403 No\r\n\r\nyour\x1b\r\nkey %0300d", 0);
	size_t used;

	init();
	cr_assert_eq(upgrade_receive(upgrade, answer, (size_t)n, &used), UPGRADE_REFUSED);
	cr_assert(strstr(upgrade_answer(upgrade)->reason, "403 instead of 101: your???key 000"), "%s",
		  upgrade_answer(upgrade)->reason);
	cr_assert_eq(strlen(strstr(upgrade_answer(upgrade)->reason, "your")), 200);
	cr_assert_eq(judge("HTTP/1.1 403 No\r\n\r\n"), UPGRADE_REFUSED);
	cr_assert_str_eq(upgrade_answer(upgrade)->reason, "the server answered 403 instead of 101");
}

Test(upgrade, a_refusal_s_words_may_come_behind_its_head)
{
	size_t used;

	cr_assert_eq(judge("HTTP/1.1 400 No\r\nContent-Length: 5\r\n\r\n"), UPGRADE_MORE);
	cr_assert_eq(upgrade_answer(upgrade)->status, 400);
	cr_assert_eq(upgrade_receive(upgrade, "too\nold", 7, &used), UPGRADE_REFUSED);
	cr_assert_str_eq(upgrade_answer(upgrade)->reason, "the server answered 400 instead of 101: too?old");
	cr_assert_eq(judge("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"), UPGRADE_REFUSED);
}

/* --- when to come back --- */

Test(upgrade, a_refusal_may_ask_for_a_time)
{
	static const struct {
		const char *answer;
		int64_t wait_s;
	} cases[] = {
		{"HTTP/1.1 404 Not Found\r\n\r\n", 0},
		{"HTTP/1.1 429 Too Many Requests\r\n\r\n", 1},
		{"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1},
		{"HTTP/1.1 503 Service Unavailable\r\nServer: x\r\nretry-after: 7\r\n\r\n", 7},
		{"HTTP/1.1 500 Oh\r\nRetry-After: 120\r\n\r\n", 120},
		{"HTTP/1.1 503 Oh\r\nRetry-After: 99999999999999999999\r\n\r\n", 3600},
		{"HTTP/1.1 503 Oh\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", 0},
		{"HTTP/1.1 503 Oh\r\nRetry-After: Wed, 06 Nov 2999 08:49:37 GMT\r\n\r\n", 3600},
		{"HTTP/1.1 503 Oh\r\nRetry-After: soon\r\n\r\n", 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cr_assert_eq(judge(cases[i].answer), UPGRADE_REFUSED);
		cr_assert_eq(upgrade_answer(upgrade)->wait_s, cases[i].wait_s, "%s", cases[i].answer);
	}
}
