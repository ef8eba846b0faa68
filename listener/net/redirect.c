/* redirect.c decides which redirects of a handshake are followed: to the same host and port, or from ws:// to wss:// on
 * the same host. libcurl resolves the references. */
#include "net/redirect.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool is_secure(const struct url *url)
{
	return strcmp(url->scheme, "wss") == 0;
}

static const char *judge(const struct url *from, const struct url *to)
{
	if (strcasecmp(from->host, to->host) != 0)
		return "its redirect to another host is not followed";
	if (is_secure(from) && !is_secure(to))
		return "its redirect to a connection without TLS is not followed";
	if (is_secure(from) == is_secure(to) && url_port(from) != url_port(to))
		return "its redirect to another port is not followed";
	return NULL;
}

static bool set(CURLU *u, CURLUPart part, const char *text)
{
	unsigned int flags = CURLU_NON_SUPPORT_SCHEME | (part == CURLUPART_URL ? 0 : CURLU_URLENCODE);
	CURLUcode result = curl_url_set(u, part, text, flags);

	if (result == CURLUE_OUT_OF_MEMORY)
		memory_exhausted("libcurl", 0);
	return result == CURLUE_OK;
}

/* Returns where location leads, on the heap, without a fragment and with the user and password of from; NULL if it is
 * not a reference. http and https mean ws and wss. */
static char *resolve(const struct url *from, const char *location)
{
	CURLU *u = memory_given(curl_url(), "libcurl");
	bool is_http = strncasecmp(location, "http:", 5) == 0 || strncasecmp(location, "https:", 6) == 0;
	AUTO_FREE char *authority = url_authority(from->host, from->port);
	AUTO_FREE char *base = memory_printf("%s://%s%s", from->scheme, authority, from->path);
	char *text = NULL, *copy = NULL;
	AUTO_FREE char *reference = memory_printf("%s%s", is_http ? "ws" : "", location + (is_http ? 4 : 0));

	if (set(u, CURLUPART_URL, base) && set(u, CURLUPART_URL, reference) && set(u, CURLUPART_FRAGMENT, NULL) &&
	    set(u, CURLUPART_USER, from->user) && set(u, CURLUPART_PASSWORD, from->password) &&
	    curl_url_get(u, CURLUPART_URL, &text, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK)
		copy = memory_strdup(text);
	curl_free(text);
	curl_url_cleanup(u);
	return copy;
}

static bool is_printable(const char *text)
{
	while (*text > ' ' && *text < 0x7f)
		text++;
	return !*text;
}

char *redirect_follow(const struct url *url, const char *location, const char **why)
{
	char *text = is_printable(location) ? resolve(url, location) : NULL;
	struct url to = {0};

	*why = "its redirect leads nowhere";
	if (text && url_parse(&to, text) == 0 && url_has_scheme(&to, "ws wss") && to.host[0])
		*why = judge(url, &to);
	url_clear(&to);
	if (!*why)
		return text;
	free(text);
	return NULL;
}
