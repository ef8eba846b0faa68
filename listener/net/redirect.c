/* redirect.c decides which redirects of a handshake are followed: to the same host and port, or from ws:// to wss:// on
 * the same host. */
#include "net/redirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool is_secure(const struct url *url)
{
	return strcmp(url->scheme, "wss") == 0;
}

/* RFC 3986, section 3.2.1: everything else is percent-encoded. */
static char *encode(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	char *out = memory_alloc(3 * strlen(text) + 1), *at = out;

	for (; *text; text++)
		at += strchr(plain, *text) ? sprintf(at, "%c", *text) : sprintf(at, "%%%02X", (unsigned char)*text);
	*at = '\0';
	return out;
}

/* Writes the URL with user and password, on the heap. */
static char *write_url(const struct url *from, const char *scheme, int port, const char *path)
{
	char *user = from->user ? encode(from->user) : NULL, *password = from->password ? encode(from->password) : NULL;
	char *authority = url_authority(from->host, port);
	char *text = memory_printf("%s://%s%s%s%s%s%.*s", scheme, user ? user : "", password ? ":" : "",
				   password ? password : "", user ? "@" : "", authority, (int)strcspn(path, "#"), path);

	free(user);
	free(password);
	free(authority);
	return text;
}

/* Resolves a reference without a host: an absolute path, a query, or a relative path. */
static char *follow_path(const struct url *from, const char *location)
{
	bool is_absolute = *location == '/';
	int folder = is_absolute ? 0 : (int)strcspn(from->path, "?#");
	char *path, *text;

	while (*location != '?' && folder && from->path[folder - 1] != '/')
		folder--;
	path = memory_printf("%s%.*s%s", folder || is_absolute ? "" : "/", folder, from->path, location);
	text = write_url(from, from->scheme, from->port, path);
	free(path);
	return text;
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

static char *follow_url(const struct url *from, const char *location, const char **why)
{
	bool has_scheme = *location != '/';
	char *text = memory_printf("%s%s%s", has_scheme ? "" : from->scheme, has_scheme ? "" : ":", location);
	bool is_http = strncasecmp(text, "http", 4) == 0;
	char *as_ws = memory_printf("%s%s", is_http ? "ws" : "", text + (is_http ? 4 : 0)), *result = NULL;
	struct url to;

	*why = "its redirect leads nowhere";
	if (url_parse(&to, as_ws) == 0 && url_has_scheme(&to, "ws wss") && to.host[0])
		*why = judge(from, &to);
	if (!*why)
		result = write_url(from, to.scheme, to.port, to.path);
	url_clear(&to);
	free(as_ws);
	free(text);
	return result;
}

char *redirect_follow(const struct url *url, const char *location, const char **why)
{
	const char *colon = strstr(location, "://");

	*why = "its redirect leads nowhere";
	for (const char *c = location; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			return NULL;
	if (strncmp(location, "//", 2) == 0 || (colon && colon < location + strcspn(location, "/?#") + 1))
		return follow_url(url, location, why);
	*why = NULL;
	return follow_path(url, location);
}
