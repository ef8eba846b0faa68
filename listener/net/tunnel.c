/* tunnel.c connects through a proxy: by a CONNECT request to an HTTP proxy (RFC 9110, section 9.3.6), or through a
 * SOCKS5 proxy (RFC 1928, RFC 1929), which looks up the feed's name. */
#include "net/tunnel.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/head.h"

#define TEXT_MAX 255 /* bytes of a user, a password and a name */

enum tunnel_state {
	TUNNEL_HTTP,   /* CONNECT was sent */
	TUNNEL_OFFER,  /* the login methods were sent: the proxy chooses one */
	TUNNEL_LOGIN,  /* user and password were sent */
	TUNNEL_TARGET, /* host and port were sent: the proxy connects */
};

struct tunnel {
	enum tunnel_state state;
	const struct url *proxy;
	const char *host;
	int port;
	char *name;             /* HOST:PORT of the proxy */
	struct head head;       /* HTTP */
	char out[4 * TEXT_MAX]; /* SOCKS5: all bytes to send */
	size_t out_len, sent;
	unsigned char in[7 + TEXT_MAX]; /* the answer so far */
	size_t in_len;
	char reason[500];
};

enum tunnel_result tunnel_refuse(struct tunnel *t, const char *format, ...)
{
	int n = snprintf(t->reason, sizeof(t->reason), "the proxy %.200s ", t->name);
	va_list ap;

	va_start(ap, format);
	vsnprintf(t->reason + n, sizeof(t->reason) - (size_t)n, format, ap);
	va_end(ap);
	return TUNNEL_REFUSED;
}

/* --- SOCKS5 --- */

/* Adds bytes to send; %c may be a NUL. */
static __attribute__((format(printf, 3, 4))) enum tunnel_result say(struct tunnel *t, enum tunnel_state next,
								    const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	t->out_len += (size_t)vsnprintf(t->out + t->out_len, sizeof(t->out) - t->out_len, format, ap);
	va_end(ap);
	t->state = next;
	t->in_len = 0;
	return TUNNEL_MORE;
}

static enum tunnel_result say_target(struct tunnel *t)
{
	char address[16];
	int family = strchr(t->host, ':') ? AF_INET6 : AF_INET, len = family == AF_INET6 ? 16 : 4;

	if (strlen(t->host) > TEXT_MAX)
		return tunnel_refuse(t, "cannot be asked for a name of more than %d bytes", TEXT_MAX);
	say(t, TUNNEL_TARGET, "\5\1%c", 0);
	if (inet_pton(family, t->host, address) == 1) {
		say(t, TUNNEL_TARGET, "%c", family == AF_INET6 ? 4 : 1);
		memcpy(t->out + t->out_len, address, (size_t)len);
		t->out_len += (size_t)len;
	} else {
		say(t, TUNNEL_TARGET, "\3%c%s", (int)strlen(t->host), t->host);
	}
	return say(t, TUNNEL_TARGET, "%c%c", t->port >> 8, t->port & 0xff);
}

/* RFC 1928, section 6. The address at the end is not used. */
static enum tunnel_result take_reply(struct tunnel *t, unsigned int code)
{
	static const char *const words[] = {
		"",
		"general failure",
		"not allowed by its rules",
		"network unreachable",
		"host unreachable",
		"connection refused",
		"TTL expired",
		"command not supported",
		"address type not supported",
	};
	size_t size = t->in[3] == 1 ? 4 : t->in[3] == 4 ? 16 : 1U + t->in[4];

	if (code)
		return tunnel_refuse(t, "cannot connect to the feed: %s (%u)",
				     code < 9 ? words[code] : "unknown reason", code);
	return t->in_len < 5 || t->in_len < 6 + size ? TUNNEL_MORE : TUNNEL_OPEN;
}

/* Parses the answer after each byte. Does not check the version of RFC 1929, for which some proxies send 5. */
static enum tunnel_result take_byte(struct tunnel *t, char byte)
{
	const char *user = t->proxy->user, *password = t->proxy->password ? t->proxy->password : "";

	t->in[t->in_len++] = (unsigned char)byte;
	if (t->in_len < 2)
		return TUNNEL_MORE;
	if (t->state == TUNNEL_LOGIN)
		return t->in[1] ? tunnel_refuse(t, "refused the user and password") : say_target(t);
	if (t->in[0] != 5)
		return tunnel_refuse(t, "does not speak SOCKS5");
	if (t->state == TUNNEL_TARGET)
		return take_reply(t, t->in[1]);
	if (t->in[1] == 0)
		return say_target(t);
	if (t->in[1] == 2 && user)
		return say(t, TUNNEL_LOGIN, "\1%c%s%c%s", (int)strlen(user), user, (int)strlen(password), password);
	return tunnel_refuse(t, user ? "takes no user and password" : "wants a login, and --source-proxy has none");
}

/* --- HTTP --- */

static void say_connect(struct tunnel *t)
{
	AUTO_FREE char *authorization = head_authorization("Proxy-Authorization", t->proxy),
		       *to = url_authority(t->host, t->port);

	t->head.request =
		memory_printf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wsonce/" WSONCE_VERSION "\r\n%s\r\n", to,
			      to, authorization);
}

static enum tunnel_result receive_head(struct tunnel *t, const char *bytes, size_t len, size_t *used)
{
	int status;

	switch (head_receive(&t->head, bytes, len, used)) {
	case HEAD_MORE:
		return TUNNEL_MORE;
	case HEAD_BAD:
		return tunnel_refuse(t, "sent an answer that is %s", t->head.reason);
	case HEAD_DONE:
		break;
	}
	status = head_status(&t->head);
	if (status / 100 == 2)
		return TUNNEL_OPEN;
	return status < 0 ? tunnel_refuse(t, "sent an answer that is not HTTP")
			  : tunnel_refuse(t, "answered %d to CONNECT", status);
}

/* --- both --- */

struct tunnel *tunnel_new(const struct url *proxy, const char *host, int port)
{
	struct tunnel *t = memory_calloc(1, sizeof(*t));

	t->proxy = proxy;
	t->host = host;
	t->port = port;
	t->name = url_authority(proxy->host, url_port(proxy));
	if (!url_has_scheme(proxy, "socks5"))
		say_connect(t);
	else if (proxy->user)
		say(t, TUNNEL_OFFER, "\5\2%c\2", 0);
	else
		say(t, TUNNEL_OFFER, "\5\1%c", 0);
	return t;
}

void tunnel_free(struct tunnel *t)
{
	if (!t)
		return;
	free(t->head.request);
	free(t->name);
	free(t);
}

size_t tunnel_take(struct tunnel *t, char *room, size_t size)
{
	size_t left = t->out_len - t->sent, n = left < size ? left : size;

	if (t->state == TUNNEL_HTTP)
		return head_take(&t->head, room, size);
	memcpy(room, t->out + t->sent, n);
	t->sent += n;
	return n;
}

enum tunnel_result tunnel_receive(struct tunnel *t, const char *bytes, size_t len, size_t *used)
{
	enum tunnel_result result = TUNNEL_MORE;

	if (t->state == TUNNEL_HTTP)
		return receive_head(t, bytes, len, used);
	for (*used = 0; result == TUNNEL_MORE && *used < len; ++*used)
		result = take_byte(t, bytes[*used]);
	return result;
}

const char *tunnel_reason(const struct tunnel *t)
{
	return t->reason;
}
