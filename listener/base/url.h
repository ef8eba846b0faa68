/* url.h: parses the URLs and addresses in settings. */
#ifndef WSONCE_URL_H
#define WSONCE_URL_H

#include <stdbool.h>

struct url {
	char *text;     /* owns the memory of the other texts */
	char *scheme;   /* never NULL after a successful parse, like host and path */
	char *user;     /* percent-decoded; NULL if there is none */
	char *password; /* percent-decoded; NULL if there is none */
	char *host;     /* without the brackets of an IPv6 address; "" if there is none */
	int port;       /* 0 if none is given */
	bool has_port;
	char *path; /* begins with / (query included), or "" */
};

/* Percent-decodes text in place. Returns 0, or -1 if it is malformed or contains %00. */
int url_decode(char *text);

/* Splits scheme://[user[:password]@]host[:port][/path]. Returns 0; or -1 if text is malformed, contains a blank or a
 * control character, or has a host that is neither a name, an address nor empty. Call url_clear in both cases. */
int url_parse(struct url *u, const char *text);

/* Splits ADDR:PORT or [IPV6]:PORT into host and port. Returns like url_parse. */
int url_parse_address(struct url *u, const char *text);

void url_clear(struct url *u);

/* Returns the port, or the default of the scheme: 443 for wss://, 1080 for socks5://, else 80. */
int url_port(const struct url *u);

/* Returns user and password in base64 (RFC 7617) on the heap, or "" without a user. */
char *url_login(const struct url *u);

/* Returns host:port, or host if port is 0, on the heap. An IPv6 address gets brackets. */
char *url_authority(const char *host, int port);

/* True if only this machine can reach ADDR:PORT or unix:PATH. False for names other than localhost. */
bool url_is_loopback(const char *address);

/* True if the scheme is one of words, which have one blank between them. */
bool url_has_scheme(const struct url *u, const char *words);

/* Returns a copy of text, on the heap, without secrets: *** replaces user and password, and the path and the query,
 * which may contain tokens. The path of a Redis URL stays: it is a database number or a socket. */
char *url_redact(const char *text);

#endif
