/* backlog.c owns the counts of the whole outbox. relay.c queries them. */
#include "outbox/backlog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define AGAIN_MS 60000

/* Stores the names. Returns true if they have changed and there are any. */
static bool is_news(char *names, size_t size, const char *now)
{
	bool is_new = *now && strncmp(names, now, size - 1) != 0;

	snprintf(names, size, "%s", now);
	return is_new;
}

/* Warns about rows of a webhook that was renamed or removed, which wait for ever, and about names with two URLs, whose
 * rows go to the URL of the listener that leases them first. */
static void read_names(struct backlog *b, const char *strays, const char *rows, const char *disputed)
{
	if (is_news(b->strays, sizeof(b->strays), strays))
		log_warn("deliveries are pending for webhooks that no listener has; see wsonce dead-letters discard",
			 "targets=%s deliveries=%s", b->strays, rows);
	if (is_news(b->disputed, sizeof(b->disputed), disputed))
		log_warn("webhooks have different URLs on different listeners: give all listeners the same settings, "
			 "or rename one",
			 "targets=%s", b->disputed);
}

void backlog_read(struct backlog *b, const char *const cells[BACKLOG_CELLS])
{
	b->pending = strtoll(cells[0], NULL, 10);
	b->overdue = strtoll(cells[1], NULL, 10);
	b->oldest_ms = strtoll(cells[2], NULL, 10);
	snprintf(b->oldest_id, sizeof(b->oldest_id), "%s", cells[3]);
	snprintf(b->oldest_target, sizeof(b->oldest_target), "%s", cells[4]);
	read_names(b, cells[5], cells[6], cells[7]);
	json_decref(b->pauses);
	b->pauses = json_loads(cells[8], 0, NULL);
}

void backlog_watch(struct backlog *b, int64_t now_ms, int64_t limit_ms)
{
	if (!limit_ms || !b->overdue) {
		if (b->is_told)
			log_info("all overdue deliveries have ended", "limit_s=%lld", (long long)limit_ms / 1000);
		b->is_told = false;
		return;
	}
	if (b->warned_ms && now_ms - b->warned_ms < AGAIN_MS)
		return;
	b->warned_ms = now_ms;
	b->is_told = true;
	log_warn("deliveries are overdue", "deliveries=%lld limit_s=%lld oldest=%s target=%s oldest_s=%lld",
		 (long long)b->overdue, (long long)limit_ms / 1000, b->oldest_id, b->oldest_target,
		 (long long)b->oldest_ms / 1000);
}
