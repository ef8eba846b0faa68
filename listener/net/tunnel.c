/* tunnel.c owns the CONNECT request to an HTTP proxy (RFC 9110, section 9.3.6) and reads its answer. */
#include "net/tunnel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/head.h"

struct tunnel {
	struct head head;
	char reason[120];
};

struct tunnel *tunnel_new(const struct url *proxy, const char *host, int port)
{
	struct tunnel *t = memory_calloc(1, sizeof(*t));
	char *authorization = head_authorization("Proxy-Authorization", proxy), *to = url_authority(host, port);

	t->head.request =
		memory_printf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wsonce/" WSONCE_VERSION "\r\n%s\r\n", to,
			      to, authorization);
	free(authorization);
	free(to);
	return t;
}

void tunnel_free(struct tunnel *t)
{
	if (!t)
		return;
	free(t->head.request);
	free(t);
}

size_t tunnel_take(struct tunnel *t, char *room, size_t size)
{
	return head_take(&t->head, room, size);
}

enum tunnel_result tunnel_receive(struct tunnel *t, const char *bytes, size_t len, size_t *used)
{
	int status;

	switch (head_receive(&t->head, bytes, len, used)) {
	case HEAD_MORE:
		return TUNNEL_MORE;
	case HEAD_BAD:
		snprintf(t->reason, sizeof(t->reason), "the proxy's answer is %s", t->head.reason);
		return TUNNEL_REFUSED;
	case HEAD_DONE:
		break;
	}
	status = head_status(&t->head);
	if (status / 100 == 2)
		return TUNNEL_OPEN;
	if (status < 0)
		snprintf(t->reason, sizeof(t->reason), "the proxy's answer is not HTTP");
	else
		snprintf(t->reason, sizeof(t->reason), "the proxy answered %d to CONNECT", status);
	return TUNNEL_REFUSED;
}

const char *tunnel_reason(const struct tunnel *t)
{
	return t->reason;
}
