/* url.h: the parts of the URLs and addresses that settings name. */
#ifndef WSONCE_URL_H
#define WSONCE_URL_H

#include <stdbool.h>

struct url {
	char *text;     /* owns all the others */
	char *scheme;   /* never NULL after a successful parse, like host and path */
	char *user;     /* percent-decoded; NULL: none */
	char *password; /* percent-decoded; NULL: none */
	char *host;     /* without the brackets of an IPv6 address; "" if there is none */
	int port;       /* 0 if none is given */
	bool has_port;
	char *path; /* begins with / (query included), or "" */
};

/* Percent-decodes in place. Returns 0; or -1, and the text is none. */
int url_decode(char *text);

/* Splits scheme://[user[:password]@]host[:port][/path]. Returns 0, or -1 if text is not of this
 * form, has a blank or a control character, or its host is neither a name, an address nor empty. In both cases
 * url_clear frees what is held. */
int url_parse(struct url *u, const char *text);

/* Splits ADDR:PORT or [IPV6]:PORT into host and port. Returns as url_parse. */
int url_parse_address(struct url *u, const char *text);

void url_clear(struct url *u);

/* Is what listens at ADDR:PORT or unix:PATH out of reach from elsewhere? A name other than localhost may be any
 * address. */
bool url_is_loopback(const char *address);

/* Is the scheme one of these words, which have one blank between? */
bool url_has_scheme(const struct url *u, const char *words);

/* For Redis: is the path empty, or / and a database number; or the path of a socket (unix)? */
bool url_is_database(const struct url *u);

/* A copy of text, on the heap, that may be shown: everything between :// and @, the path and the query,
 * where tokens live, replaced by ***. The path of Redis is a number or a socket, and stays. */
char *url_redact(const char *text);

#endif
