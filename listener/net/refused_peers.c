/* refused_peers.c remembers which peers were logged in the last minute. */
#include "net/refused_peers.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define MINUTE_MS 60000

/* Returns false if the peer was logged in this minute already, or too many others were. */
static bool remember(struct refused_peers *r, const char *peer)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->logged[i], peer) == 0)
			return false;
	if (r->count == REFUSED_PEERS_MOST)
		return false;
	snprintf(r->logged[r->count++], sizeof(r->logged[0]), "%s", peer);
	return true;
}

void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms)
{
	if (now_ms - r->since_ms >= MINUTE_MS) {
		if (r->unnamed)
			log_info("more producers refused", "count=%lu", r->unnamed);
		*r = (struct refused_peers){.since_ms = now_ms};
	}
	if (!remember(r, what->peer))
		r->unnamed++;
	else if (what->status)
		log_info("producer refused", "peer=%s status=%u token=%s", what->peer, what->status, what->token);
	else
		log_info("producer refused", "peer=%s reason=%s", what->peer, what->reason);
}
