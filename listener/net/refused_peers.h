/* refused_peers.h: logs refused producers, with a rate limit. */
#ifndef WSONCE_REFUSED_PEERS_H
#define WSONCE_REFUSED_PEERS_H

#include <stdint.h>

struct refused_peers;

struct refused_peers *refused_peers_new(void);
void refused_peers_free(struct refused_peers *r);

struct refusal {
	const char *peer;
	unsigned int status; /* HTTP status; 0: the TLS handshake failed */
	const char *reason;  /* if status is 0 */
	const char *token;   /* name of its token or certificate; NULL: unknown */
};

/* Logs a refusal at most once a minute per peer, and at most 20 peers a minute, so that strangers cannot fill the log.
 * now_ms is the loop clock. */
void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms);

#endif
