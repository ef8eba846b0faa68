/* refused_peers.c remembers which peers were logged in the last minute. */
#include "net/refused_peers.h"

#include <stdbool.h>

#include "base/log.h"
#include "base/port.h"

#define MINUTE_MS 60000

/* Returns false if the peer was logged in this minute already, or too many others were. */
static bool remember(struct refused_peers *r, uint64_t peer)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->logged[i] == peer)
			return false;
	if (r->count == REFUSED_PEERS_MOST)
		return false;
	r->logged[r->count++] = peer;
	return true;
}

void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms)
{
	char room[PORT_KEY_TEXT];
	const char *peer = port_key_text(what->peer, room);

	if (now_ms - r->since_ms >= MINUTE_MS) {
		if (r->unnamed)
			log_info("more clients refused", "setting=%s count=%lu", what->flag, r->unnamed);
		*r = (struct refused_peers){.since_ms = now_ms};
	}
	if (!remember(r, what->peer))
		r->unnamed++;
	else if (what->status)
		log_info("client refused", "setting=%s peer=%s status=%u token=%s", what->flag, peer, what->status,
			 what->token);
	else
		log_info("client refused", "setting=%s peer=%s reason=%s token=%s", what->flag, peer, what->reason,
			 what->token);
}
