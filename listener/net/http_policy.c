/* http_policy.c restricts what libwebsockets speaks on our ports. It also supports HTTP/2 by ALPN and by Upgrade: h2c,
 * with WebSockets in streams; CONNECT with raw bytes; and keep-alive. What can be switched off is switched off here;
 * ingest.c refuses the rest, and decides who may connect. */
#include "net/http_policy.h"

#include <microhttpd.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

void http_policy_apply(struct lws_context_creation_info *info)
{
	info->alpn = "http/1.1";
	info->ssl_options_set = (long)(SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_RENEGOTIATION);
}

/* libwebsockets may have freed the headers already and then reports none. */
bool http_policy_is_websocket(struct lws *wsi)
{
	char upgrade[16];

	return lws_hdr_copy(wsi, upgrade, sizeof(upgrade), WSI_TOKEN_UPGRADE) > 0 &&
	       strcasecmp(upgrade, "websocket") == 0;
}

/* Writes the answer itself: libwebsockets would send HTTP/1.0, and some clients do not report the status then. */
int http_policy_refuse(struct lws *wsi, unsigned int status, const char *extra)
{
	char room[LWS_PRE + 512];
	int n = snprintf(room + LWS_PRE, sizeof(room) - LWS_PRE,
			 "HTTP/1.1 %u %s\r\nContent-Length: 0\r\n%sConnection: close\r\n\r\n", status,
			 MHD_get_reason_phrase_for(status), extra);

	if (n > 0 && (size_t)n < sizeof(room) - LWS_PRE)
		lws_write(wsi, (unsigned char *)room + LWS_PRE, (size_t)n, LWS_WRITE_RAW);
	return -1;
}
