/* http_policy.c owns what libwebsockets may speak on our ports. It knows much that nobody here asked for: HTTP/2, by
 * ALPN and by Upgrade: h2c, with WebSockets in its streams; CONNECT, after which it reads bytes; keeping a connection
 * for more requests. What of it can be switched off is switched off here; the rest is refused by who is asked. Who may
 * come at all is the business of intake/. */
#include "net/http_policy.h"

#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

void http_policy_apply(struct lws_context_creation_info *info)
{
	info->alpn = "http/1.1";
	info->ssl_options_set = (long)(SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_RENEGOTIATION);
}

/* libwebsockets may have given the headers back already, and then knows none. */
bool http_policy_is_websocket(struct lws *wsi)
{
	char upgrade[16];

	return lws_hdr_copy(wsi, upgrade, sizeof(upgrade), WSI_TOKEN_UPGRADE) > 0 &&
	       strcasecmp(upgrade, "websocket") == 0;
}

static const char *reason_of(unsigned int status)
{
	switch (status) {
	case HTTP_STATUS_BAD_REQUEST:
		return "Bad Request";
	case HTTP_STATUS_UNAUTHORIZED:
		return "Unauthorized";
	case HTTP_STATUS_FORBIDDEN:
		return "Forbidden";
	case HTTP_STATUS_NOT_FOUND:
		return "Not Found";
	case HTTP_STATUS_METHOD_NOT_ALLOWED:
		return "Method Not Allowed";
	case 426:
		return "Upgrade Required";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case HTTP_STATUS_SERVICE_UNAVAILABLE:
		return "Service Unavailable";
	}
	return "Refused";
}

/* libwebsockets would call it HTTP/1.0, and some clients then tell nobody the status. */
int http_policy_refuse(struct lws *wsi, unsigned int status, const char *extra)
{
	char room[LWS_PRE + 512];
	int n = snprintf(room + LWS_PRE, sizeof(room) - LWS_PRE,
			 "HTTP/1.1 %u %s\r\nContent-Length: 0\r\n%sConnection: close\r\n\r\n", status,
			 reason_of(status), extra);

	if (n > 0 && (size_t)n < sizeof(room) - LWS_PRE)
		lws_write(wsi, (unsigned char *)room + LWS_PRE, (size_t)n, LWS_WRITE_RAW);
	return -1;
}
