/* What is said to a proxy, and which answers open the tunnel. */
#include "net/tunnel.h"

#include "base/slice.h"
#include "unit.h"

static enum tunnel_result judge(const char *answer, size_t *used, char *reason)
{
	struct url proxy;
	char request[500];
	size_t n = 0, more;

	cr_assert_eq(url_parse(&proxy, "http://u:p@proxy:3128"), 0);
	struct tunnel *t = tunnel_new(&proxy, "::1", 443);
	while ((more = tunnel_take(t, request + n, 9)))
		n += more;
	request[n] = '\0';
	cr_assert_str_eq(request, "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nUser-Agent: wsonce/" WSONCE_VERSION
				  "\r\nProxy-Authorization: Basic dTpw\r\n\r\n");
	enum tunnel_result result = tunnel_receive(t, answer, strlen(answer), used);
	strcpy(reason, tunnel_reason(t));
	tunnel_free(t);
	url_clear(&proxy);
	return result;
}

Test(tunnel, a_proxy_may_open_refuse_or_speak_something_else)
{
	char reason[200];
	size_t used;

	cr_assert_eq(judge("HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\nbytes", &used, reason), TUNNEL_OPEN);
	cr_assert_eq(used, strlen("HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n"));
	cr_assert_eq(judge("HTTP/1.1 407 No\r\n\r\n", &used, reason), TUNNEL_REFUSED);
	cr_assert_str_eq(reason, "the proxy proxy:3128 answered 407 to CONNECT");
	cr_assert_eq(judge("\x05\x01", &used, reason), TUNNEL_REFUSED);
	cr_assert(strstr(reason, "not HTTP"), "%s", reason);
	cr_assert_eq(judge("HTTP/1.1 20", &used, reason), TUNNEL_MORE);
}

/* ---- SOCKS5 ---- */

static struct {
	char sent[1000], reason[500];
	size_t sent_len, used;
	enum tunnel_result result;
} talk;

static void take_all(struct tunnel *t, size_t step)
{
	size_t more;

	while ((more = tunnel_take(t, talk.sent + talk.sent_len, step)))
		talk.sent_len += more;
}

/* Talks with a proxy that answers these bytes, which come `step` at a time. */
static void talk_by(const char *url, const char *host, const char *answer, size_t len, size_t step)
{
	struct url proxy;

	cr_assert_eq(url_parse(&proxy, url), 0);
	struct tunnel *t = tunnel_new(&proxy, host, 8080);
	talk.sent_len = talk.used = 0;
	talk.result = TUNNEL_MORE;
	take_all(t, step);
	while (talk.result == TUNNEL_MORE && talk.used < len) {
		size_t n = len - talk.used < step ? len - talk.used : step, used = 0;

		talk.result = tunnel_receive(t, answer + talk.used, n, &used);
		talk.used += used;
		take_all(t, step);
	}
	strcpy(talk.reason, tunnel_reason(t));
	tunnel_free(t);
	url_clear(&proxy);
}

static void expect_open(const char *url, const char *host, struct slice answer, struct slice sent)
{
	for (size_t step = 1; step < 30; step++) {
		talk_by(url, host, answer.at, answer.len, step);
		cr_assert_eq(talk.result, TUNNEL_OPEN, "%s", talk.reason);
		cr_assert_eq(talk.used, answer.len - 5, "the feed's first bytes stay");
		cr_assert_eq(talk.sent_len, sent.len);
		cr_assert_eq(memcmp(talk.sent, sent.at, sent.len), 0);
	}
}

/* clang-format off */
#define ANSWER(text) {text, sizeof(text) - 1}
/* clang-format on */
#define BYTES(text) (struct slice) ANSWER(text)

Test(tunnel, a_socks5_proxy_looks_up_the_name)
{
	expect_open("socks5://proxy", "feed.invalid", BYTES("\5\0\5\0\0\1\0\0\0\0\0\0feed!"),
		    BYTES("\5\1\0\5\1\0\3\x0c"
			  "feed.invalid\x1f\x90"));
}

Test(tunnel, a_socks5_proxy_is_given_addresses_as_such)
{
	expect_open("socks5://proxy", "127.0.0.1", BYTES("\5\0\5\0\0\3\3abc\0\0feed!"),
		    BYTES("\5\1\0\5\1\0\1\x7f\0\0\1\x1f\x90"));
	expect_open("socks5://proxy", "::1", BYTES("\5\0\5\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0feed!"),
		    BYTES("\5\1\0\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\x1f\x90"));
	expect_open("socks5://proxy", "1.2.3", BYTES("\5\0\5\0\0\3\0\0\0feed!"),
		    BYTES("\5\1\0\5\1\0\3\5"
			  "1.2.3\x1f\x90"));
}

Test(tunnel, a_socks5_proxy_may_want_a_login_or_not)
{
	expect_open("socks5://us:p%40@proxy", "h", BYTES("\5\2\1\0\5\0\0\1\0\0\0\0\0\0feed!"),
		    BYTES("\5\2\0\2\1\2us\2p@\5\1\0\3\1h\x1f\x90"));
	expect_open("socks5://us:p%40@proxy", "h", BYTES("\5\0\5\0\0\1\0\0\0\0\0\0feed!"),
		    BYTES("\5\2\0\2\5\1\0\3\1h\x1f\x90"));
	expect_open("socks5://us@proxy", "h", BYTES("\5\2\5\0\5\0\0\1\0\0\0\0\0\0feed!"),
		    BYTES("\5\2\0\2\1\2us\0\5\1\0\3\1h\x1f\x90"));
}

Test(tunnel, what_a_socks5_proxy_refuses_is_said_in_words)
{
	static const struct {
		const char *url, *reason;
		struct slice answer;
	} refusals[] = {
		{"socks5://u:secret@p", "the proxy p:1080 refused the user and password", ANSWER("\5\2\1\1")},
		{"socks5://u:secret@p", "the proxy p:1080 takes no user and password", ANSWER("\5\xff")},
		{"socks5://u:secret@p", "the proxy p:1080 takes no user and password", ANSWER("\5\1")},
		{"socks5://p:1", "the proxy p:1 wants a login, and --source-proxy has none", ANSWER("\5\xff")},
		{"socks5://p:1", "the proxy p:1 wants a login, and --source-proxy has none", ANSWER("\5\2")},
		{"socks5://[::1]:1", "the proxy [::1]:1 does not speak SOCKS5", ANSWER("\4\0")},
		{"socks5://p:1", "the proxy p:1 does not speak SOCKS5", ANSWER("HTTP/1.0 400 Bad\r\n\r\n")},
		{"socks5://p:1", "the proxy p:1 does not speak SOCKS5", ANSWER("\5\0\4\0")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: general failure (1)", ANSWER("\5\0\5\1")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: connection refused (5)",
		 ANSWER("\5\0\5\5\0\1\0\0\0\0\0\0")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: command not supported (7)",
		 ANSWER("\5\0\5\7")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: address type not supported (8)",
		 ANSWER("\5\0\5\x8")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: unknown reason (9)", ANSWER("\5\0\5\x9")},
		{"socks5://p:1", "the proxy p:1 cannot connect to the feed: unknown reason (255)",
		 ANSWER("\5\0\5\xff")},
	};

	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		for (size_t step = 1; step < 20; step += 3) {
			talk_by(refusals[i].url, "h", refusals[i].answer.at, refusals[i].answer.len, step);
			cr_assert_eq(talk.result, TUNNEL_REFUSED);
			cr_assert_str_eq(talk.reason, refusals[i].reason);
		}
}

Test(tunnel, a_name_is_as_long_as_socks5_allows)
{
	char name[257];

	memset(name, 'a', sizeof name);
	name[256] = '\0';
	talk_by("socks5://p", name, "\5\0", 2, 9);
	cr_assert_str_eq(talk.reason, "the proxy p:1080 cannot be asked for a name of more than 255 bytes");
	name[255] = '\0';
	talk_by("socks5://p", name, "\5\0", 2, 9);
	cr_assert_eq(talk.result, TUNNEL_MORE);
	cr_assert_eq(talk.sent_len, 3 + 4 + 1 + 255 + 2);
}

Test(tunnel, a_socks5_proxy_may_answer_anything)
{
	char url[600], text[256], name[256], answer[400];
	unsigned int seed = 1;

	memset(text, 'a', 255);
	memset(name, 'b', 255);
	text[255] = name[255] = '\0';
	snprintf(url, sizeof url, "socks5://%s:%s@p", text, text);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)rand_r(&seed) % sizeof answer;

		for (size_t k = 0; k < len; k++)
			answer[k] = (char)(rand_r(&seed) % 3 ? rand_r(&seed) % 6 : rand_r(&seed));
		answer[0] = 5;
		talk_by(url, name, answer, len, 1 + (size_t)rand_r(&seed) % 300);
		cr_assert(talk.result == TUNNEL_REFUSED || talk.used <= len);
	}
}
