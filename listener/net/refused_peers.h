/* refused_peers.h: logs refused producers, with a rate limit. */
#ifndef WSONCE_REFUSED_PEERS_H
#define WSONCE_REFUSED_PEERS_H

#include <stddef.h>
#include <stdint.h>

#define REFUSED_PEERS_MOST 20 /* logged in a minute */

/* All zeros at first. */
struct refused_peers {
	char logged[REFUSED_PEERS_MOST][64]; /* their addresses, in this minute */
	size_t count;
	int64_t since_ms; /* loop clock, when the minute began */
	unsigned long unnamed;
};

struct refusal {
	const char *peer;
	unsigned int status; /* HTTP status; 0: the TLS handshake failed */
	const char *reason;  /* if status is 0 */
	const char *token;   /* name of its token or certificate; NULL: unknown */
};

/* Logs a refusal at most once a minute per peer, and at most REFUSED_PEERS_MOST peers a minute, so that strangers
 * cannot fill the log. now_ms is the loop clock. */
void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms);

#endif
