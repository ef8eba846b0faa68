/* backlog.c owns what is known of the outbox as a whole; it is asked for by relay.c. */
#include "outbox/backlog.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define AGAIN_MS 60000

void backlog_read(struct backlog *b, const char *const cells[5])
{
	b->pending = strtoll(cells[0], NULL, 10);
	b->overdue = strtoll(cells[1], NULL, 10);
	b->oldest_ms = strtoll(cells[2], NULL, 10);
	snprintf(b->oldest_id, sizeof(b->oldest_id), "%s", cells[3]);
	snprintf(b->oldest_target, sizeof(b->oldest_target), "%s", cells[4]);
}

void backlog_watch(struct backlog *b, int64_t now_ms, int64_t limit_ms)
{
	if (!limit_ms || !b->overdue) {
		if (b->warned_ms)
			log_info("all overdue deliveries have ended", "limit_s=%lld", (long long)limit_ms / 1000);
		b->warned_ms = 0;
		return;
	}
	if (b->warned_ms && now_ms - b->warned_ms < AGAIN_MS)
		return;
	b->warned_ms = now_ms;
	log_warn("deliveries are overdue", "deliveries=%lld limit_s=%lld oldest=%s target=%s oldest_s=%lld",
		 (long long)b->overdue, (long long)limit_ms / 1000, b->oldest_id, b->oldest_target,
		 (long long)b->oldest_ms / 1000);
}
