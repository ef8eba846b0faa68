/* refused_peers.c remembers which peers were logged in the last minute. */
#include "net/refused_peers.h"

#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

#include <uthash.h> /* asks memory.h */

#define SPELL_MS  60000
#define PEERS_MAX 20

struct peer {
	char address[64];
	UT_hash_handle hh;
};

struct refused_peers {
	struct peer *peers; /* logged in this minute */
	int64_t spell_ms;   /* when the minute began */
	unsigned long unnamed;
};

static void forget(struct refused_peers *r)
{
	struct peer *peer = r->peers, *next;

	HASH_CLEAR(hh, r->peers);
	for (; peer; peer = next) {
		next = peer->hh.next;
		free(peer);
	}
}

static void begin_spell(struct refused_peers *r, int64_t now_ms)
{
	if (r->unnamed)
		log_info("more producers refused", "count=%lu", r->unnamed);
	r->unnamed = 0;
	r->spell_ms = now_ms;
	forget(r);
}

/* Returns false if the peer was logged in this minute, or there are too many. */
static bool remember(struct refused_peers *r, const char *address)
{
	struct peer *peer;

	HASH_FIND_STR(r->peers, address, peer);
	if (peer || HASH_COUNT(r->peers) >= PEERS_MAX)
		return false;
	peer = memory_calloc(1, sizeof(*peer));
	strncpy(peer->address, address, sizeof(peer->address) - 1);
	HASH_ADD_STR(r->peers, address, peer);
	return true;
}

void refused_peers_log(struct refused_peers *r, const struct refusal *what, int64_t now_ms)
{
	if (now_ms - r->spell_ms >= SPELL_MS)
		begin_spell(r, now_ms);
	if (!remember(r, what->peer))
		r->unnamed++;
	else if (what->status)
		log_info("producer refused", "peer=%s status=%u token=%s", what->peer, what->status, what->token);
	else
		log_info("producer refused", "peer=%s reason=%s", what->peer, what->reason);
}

struct refused_peers *refused_peers_new(void)
{
	return memory_calloc(1, sizeof(struct refused_peers));
}

void refused_peers_free(struct refused_peers *r)
{
	if (!r)
		return;
	forget(r);
	free(r);
}
