/* refused_peers.h: a log line for a producer that was turned away, and not more than that. */
#ifndef WSONCE_REFUSED_PEERS_H
#define WSONCE_REFUSED_PEERS_H

#include <stdint.h>

struct refused_peers;

struct refused_peers *refused_peers_new(void);
void refused_peers_free(struct refused_peers *r);

struct refusal {
	const char *peer;
	unsigned int status; /* of HTTP; 0: TLS ended before there was one, */
	const char *reason;  /* for this reason */
	const char *token;   /* the name of the token or certificate that was shown; NULL: none that is known */
};

/* Logs it: once a minute for each peer, and for at most 20 peers a minute, so that nobody can fill the log from
 * outside. now_ms is the loop clock. */
void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms);

#endif
