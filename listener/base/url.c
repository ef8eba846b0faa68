/* url.c parses the URLs in settings: the part of RFC 3986 that server addresses use. */
#include "base/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/text.h"

static int hex(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c | 0x20) : NULL;

	return at ? (int)(at - digits) : -1;
}

int url_decode(char *text)
{
	char *out = text;
	int result = 0;

	for (const char *s = text; *s; s++) {
		int high = *s == '%' ? hex(s[1]) : -1, low = high < 0 ? -1 : hex(s[2]);
		int byte = low < 0 ? 0 : high << 4 | low;
		bool is_code = low >= 0 && byte;

		if (*s == '%' && !is_code)
			result = -1;
		*out = *s;
		if (is_code)
			*out = (char)byte;
		out++;
		s += is_code ? 2 : 0;
	}
	*out = '\0';
	return result;
}

static int parse_port(const char *text, int *port)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > 65535)
		return -1;
	*port = (int)n;
	return 0;
}

/* Splits host, host:port, [v6] or [v6]:port in place. */
static int split_host(struct url *u, char *at, bool port_needed)
{
	char *colon;

	u->host = at;
	if (*at == '[') {
		char *close = strchr(at, ']');

		if (!close || (close[1] && close[1] != ':'))
			return -1;
		u->host = at + 1;
		colon = close[1] ? close + 1 : NULL;
		*close = '\0';
	} else {
		colon = strrchr(at, ':');
	}
	if (!colon)
		return port_needed ? -1 : 0;
	*colon = '\0';
	u->has_port = true;
	return parse_port(colon + 1, &u->port);
}

static int split_user(struct url *u, char *at)
{
	char *colon = strchr(at, ':');

	if (colon) {
		*colon = '\0';
		u->password = colon + 1;
		if (url_decode(u->password))
			return -1;
	}
	u->user = at;
	return url_decode(u->user);
}

/* True if text has a blank or a control character, which would end the request line that contains the URL. */
static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == 0x7f)
			return true;
	return false;
}

static bool is_host_name(const char *host)
{
	return !host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")];
}

/* RFC 3986, section 3.1. libcurl reads http:/a/x://b as http://a/. */
static bool is_scheme(const char *text)
{
	return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")];
}

/* True if host, from between brackets, is an IPv6 address, perhaps with a zone (RFC 6874). */
static bool is_v6(const char *host)
{
	size_t len = strcspn(host, "%");
	char address[INET6_ADDRSTRLEN] = "";
	struct in6_addr unused;

	if (len >= sizeof(address) || (host[len] && !is_host_name(host + len + 1)))
		return false;
	memcpy(address, host, len);
	return inet_pton(AF_INET6, address, &unused) == 1;
}

int url_parse(struct url *u, const char *text)
{
	size_t len = strlen(text);
	char *authority, *end, *at;
	bool is_bracketed;

	memset(u, 0, sizeof(*u));
	u->text = memory_calloc(1, len + 2);
	memcpy(u->text, text, len);
	if (has_control(text))
		return -1;
	authority = strstr(u->text, "://");
	if (!authority || authority == u->text)
		return -1;
	*authority = '\0';
	authority += 3;
	u->scheme = u->text;
	if (!is_scheme(u->scheme))
		return -1;
	end = authority + strcspn(authority, "/?#");
	/* Moves the authority one byte to the left, so that its NUL does not overwrite the path's first character. */
	memmove(authority - 1, authority, (size_t)(end - authority));
	end[-1] = '\0';
	authority--;
	u->path = end;
	at = strrchr(authority, '@');
	if (at) {
		*at = '\0';
		if (split_user(u, authority))
			return -1;
		authority = at + 1;
	}
	is_bracketed = *authority == '[';
	if (split_host(u, authority, false))
		return -1;
	return (is_bracketed ? is_v6(u->host) : is_host_name(u->host)) ? 0 : -1;
}

int url_parse_address(struct url *u, const char *text)
{
	memset(u, 0, sizeof(*u));
	u->text = memory_strdup(text);
	u->scheme = u->path = u->text + strlen(text);
	return split_host(u, u->text, true) || !u->host[0] ? -1 : 0;
}

void url_clear(struct url *u)
{
	free(u->text);
	memset(u, 0, sizeof(*u));
}

int url_port(const struct url *u)
{
	return u->port ? u->port : strcmp(u->scheme, "wss") == 0 ? 443 : strcmp(u->scheme, "socks5") == 0 ? 1080 : 80;
}

char *url_login(const struct url *u)
{
	AUTO_FREE char *plain = memory_printf("%s:%s", u->user ? u->user : "", u->password ? u->password : "");
	struct bytes coded = {NULL, 0, 0};

	base64_add(&coded, plain, u->user ? strlen(plain) : 0);
	bytes_text(&coded);
	return coded.at;
}

char *url_authority(const char *host, int port)
{
	bool has_colons = strchr(host, ':') != NULL;

	return memory_printf(port ? "%s%s%s:%d" : "%s%s%s", has_colons ? "[" : "", host, has_colons ? "]" : "", port);
}

bool url_has_scheme(const struct url *u, const char *words)
{
	return is_one_of(words, u->scheme);
}

char *url_redact(const char *text)
{
	const char *authority = strstr(text, "://");
	const char *begin = authority ? authority + 3 : text;
	const char *end = begin + strcspn(begin, "/?#");
	const char *query = end + strcspn(end, "?#");
	bool is_path_shown = strncmp(text, "redis", 5) == 0 || strncmp(text, "unix:", 5) == 0 || query - end < 2;
	const char *path_end = is_path_shown ? query : end + 1;
	const char *at = NULL;

	for (const char *c = begin; c < end; c++)
		if (*c == '@')
			at = c;
	return memory_printf("%.*s%s%.*s%s%s", (int)(begin - text), text, at ? "***" : "",
			     (int)(path_end - (at ? at : begin)), at ? at : begin, is_path_shown ? "" : "***",
			     *query ? "?***" : "");
}

bool url_is_loopback(const char *address)
{
	struct url url;
	bool is_local;

	if (strncmp(address, "unix:", 5) == 0)
		return true;
	is_local = url_parse_address(&url, address) == 0 &&
		   (strcmp(url.host, "localhost") == 0 || strcmp(url.host, "::1") == 0 ||
		    (strncmp(url.host, "127.", 4) == 0 && !url.host[strspn(url.host, "0123456789.")]));
	url_clear(&url);
	return is_local;
}
