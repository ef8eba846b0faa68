/* tunnel.c owns the CONNECT request to an HTTP proxy (RFC 9110, section 9.3.6) and reads its answer. */
#include "net/tunnel.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/head.h"

struct tunnel {
	char *request;
	size_t sent; /* bytes of the request */
	struct head head;
	char reason[120];
};

/* The header for the user and password of the proxy's URL, or "", on the heap. */
static char *write_authorization(const struct url *proxy)
{
	char *plain, *coded, *header;

	if (!proxy->user)
		return memory_strdup("");
	plain = memory_printf("%s:%s", proxy->user, proxy->password ? proxy->password : "");
	coded = memory_alloc((strlen(plain) + 2) / 3 * 4 + 1);
	EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)plain, (int)strlen(plain));
	header = memory_printf("Proxy-Authorization: Basic %s\r\n", coded);
	free(coded);
	free(plain);
	return header;
}

struct tunnel *tunnel_new(const struct url *proxy, const char *host, int port)
{
	struct tunnel *t = memory_calloc(1, sizeof(*t));
	bool is_v6 = strchr(host, ':') != NULL;
	char *authorization = write_authorization(proxy);
	char *to = memory_printf("%s%s%s:%d", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);

	t->request = memory_printf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wsonce/" WSONCE_VERSION "\r\n%s\r\n",
				   to, to, authorization);
	free(authorization);
	free(to);
	return t;
}

void tunnel_free(struct tunnel *t)
{
	if (!t)
		return;
	free(t->request);
	free(t);
}

size_t tunnel_take(struct tunnel *t, char *room, size_t size)
{
	size_t n = strnlen(t->request + t->sent, size);

	memcpy(room, t->request + t->sent, n);
	t->sent += n;
	return n;
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
