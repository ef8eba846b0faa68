/* tunnel.c connects through a proxy, with libcurl: by a CONNECT request to an HTTP proxy, or through a SOCKS5 proxy,
 * which looks up the feed's name. */
#include "net/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct tunnel {
	struct curl_loop *all;
	const struct url *proxy;
	CURL *easy;
	tunnel_cb *cb;
	void *arg;
	char error[CURL_ERROR_SIZE];
};

/* RFC 1928, section 6. */
static const struct {
	CURLproxycode code;
	const char *words;
} replies[] = {
	{CURLPX_REPLY_GENERAL_SERVER_FAILURE, "cannot connect to the feed: general failure (1)"},
	{CURLPX_REPLY_NOT_ALLOWED, "cannot connect to the feed: not allowed by its rules (2)"},
	{CURLPX_REPLY_NETWORK_UNREACHABLE, "cannot connect to the feed: network unreachable (3)"},
	{CURLPX_REPLY_HOST_UNREACHABLE, "cannot connect to the feed: host unreachable (4)"},
	{CURLPX_REPLY_CONNECTION_REFUSED, "cannot connect to the feed: connection refused (5)"},
	{CURLPX_REPLY_TTL_EXPIRED, "cannot connect to the feed: TTL expired (6)"},
	{CURLPX_REPLY_COMMAND_NOT_SUPPORTED, "cannot connect to the feed: command not supported (7)"},
	{CURLPX_REPLY_ADDRESS_TYPE_NOT_SUPPORTED, "cannot connect to the feed: address type not supported (8)"},
	{CURLPX_USER_REJECTED, "refused the user and password"},
	{CURLPX_NO_AUTH, "wants a login, and --source-proxy has none or another one"},
};

void tunnel_cancel(struct tunnel *t)
{
	if (!t)
		return;
	curl_multi_remove_handle(curl_loop_multi(t->all), t->easy);
	curl_easy_cleanup(t->easy);
	free(t);
}

void tunnel_describe(const struct url *proxy, const char *words, char *why, size_t size)
{
	AUTO_FREE char *name = url_authority(proxy->host, url_port(proxy));

	snprintf(why, size, "the proxy %.200s %s", name, words);
}

/* Writes why the proxy gave no connection, as words that follow its name. */
static void find_words(const struct tunnel *t, CURLcode result, char *words, size_t size)
{
	long status = 0, error = 0, code = 0;

	curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &status);
	curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
	curl_easy_getinfo(t->easy, CURLINFO_PROXY_ERROR, &code);
	snprintf(words, size, "cannot be used: %s",
		 *t->error ? t->error
		 : result  ? curl_easy_strerror(result)
			   : strerror(errno));
	if (status && status / 100 != 2) /* otherwise the rest of the answer, or the descriptor, is at fault */
		snprintf(words, size, "answered %ld to CONNECT", status);
	else if (result == CURLE_COULDNT_CONNECT && error)
		snprintf(words, size, "cannot be connected to: %s", uv_strerror((int)-error));
	for (size_t i = 0; result == CURLE_PROXY && i < sizeof(replies) / sizeof(replies[0]); i++)
		if (replies[i].code == (CURLproxycode)code)
			snprintf(words, size, "%s", replies[i].words);
}

/* libcurl closes its own descriptor. */
static void on_done(CURL *easy, CURLcode result)
{
	struct tunnel *t = NULL;
	curl_socket_t active = CURL_SOCKET_BAD;
	char words[CURL_ERROR_SIZE + 40], why[CURL_ERROR_SIZE + 300];
	tunnel_cb *cb;
	void *arg;
	int fd = -1;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
	if (!result && !curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &active) && active != CURL_SOCKET_BAD)
		fd = fcntl(active, F_DUPFD_CLOEXEC, 0);
	find_words(t, result, words, sizeof(words));
	tunnel_describe(t->proxy, words, why, sizeof(why));
	cb = t->cb;
	arg = t->arg;
	tunnel_cancel(t);
	cb(arg, fd, why);
}

struct curl_loop *tunnels_open(uv_loop_t *loop)
{
	return curl_loop_open(loop, 1, on_done);
}

/* With socks5h:// the proxy looks up the name. An empty CURLOPT_PROXY means none. Sets NOPROXY, or libcurl would take
 * it from the environment, and names the port, because libcurl's default is another one. */
int tunnel_use(CURL *e, const struct url *proxy)
{
	AUTO_FREE char *at = proxy->text ? url_authority(proxy->host, url_port(proxy)) : NULL;
	AUTO_FREE char *way = at ? memory_printf("%s://%s", url_has_scheme(proxy, "socks5") ? "socks5h" : "http", at)
				 : memory_strdup("");
	int failed = curl_easy_setopt(e, CURLOPT_PROXY, way);

	failed |= (int)curl_easy_setopt(e, CURLOPT_NOPROXY, "");
	failed |= (int)curl_easy_setopt(e, CURLOPT_PROXYUSERNAME, proxy->user);
	failed |= (int)curl_easy_setopt(e, CURLOPT_PROXYPASSWORD, proxy->password);
	failed |= (int)curl_easy_setopt(e, CURLOPT_SOCKS5_AUTH, CURLAUTH_BASIC);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L);
	return failed;
}

struct tunnel *tunnel_start(struct curl_loop *all, const struct url *proxy, const char *host, int port, tunnel_cb *cb,
			    void *arg)
{
	struct tunnel *t = memory_calloc(1, sizeof(*t));
	CURL *e = curl_loop_request(t, t->error);
	AUTO_FREE char *to = url_authority(host, port);
	AUTO_FREE char *url = memory_printf("http://%s/", to);
	int failed = curl_easy_setopt(e, CURLOPT_URL, url);

	*t = (struct tunnel){.all = all, .proxy = proxy, .easy = e, .cb = cb, .arg = arg};
	failed |= tunnel_use(e, proxy);
	failed |= (int)curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
	if (!failed && !curl_multi_add_handle(curl_loop_multi(all), e))
		return t;
	tunnel_cancel(t);
	return NULL;
}
