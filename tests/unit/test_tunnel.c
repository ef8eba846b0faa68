/* The request to a proxy, and which answers open the tunnel. */
#include "net/tunnel.h"

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
	cr_assert_str_eq(reason, "the proxy answered 407 to CONNECT");
	cr_assert_eq(judge("\x05\x01", &used, reason), TUNNEL_REFUSED);
	cr_assert(strstr(reason, "not HTTP"), "%s", reason);
	cr_assert_eq(judge("HTTP/1.1 20", &used, reason), TUNNEL_MORE);
}
