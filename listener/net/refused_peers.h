/* refused_peers.h: logs refused clients, with a rate limit. */
#ifndef WSONCE_REFUSED_PEERS_H
#define WSONCE_REFUSED_PEERS_H

#include <stddef.h>
#include <stdint.h>

#define REFUSED_PEERS_MOST 20 /* logged in a minute */

/* The refused peers of one port. Starts as all zeros. */
struct refused_peers {
	uint64_t logged[REFUSED_PEERS_MOST]; /* their addresses, in this minute */
	size_t count;
	int64_t since_ms; /* loop clock, when the minute began */
	unsigned long unnamed;
};

struct refusal {
	const char *flag;    /* the setting of the port */
	uint64_t peer;       /* from port_peer_key(); 0: unknown */
	unsigned int status; /* HTTP status; 0: the connection was closed without one of ours */
	const char *reason;  /* if status is 0 */
	const char *token;   /* name of its token or certificate; NULL: unknown */
};

/* Logs a refusal at most once a minute per peer, and at most REFUSED_PEERS_MOST peers a minute, so that strangers
 * cannot fill the log. now_ms is the loop clock. */
void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms);

#endif
