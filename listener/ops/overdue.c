/* overdue.c detects and reports events that are stuck: Postgres refuses them, another listener holds their claims
 * without finishing, or a feed is faster than the store. */
#include "ops/overdue.h"

#include <stdio.h>

#include "base/log.h"

#define AGAIN_MS 60000

static int64_t age_ms(const struct event *ev, int64_t now_ms)
{
	return now_ms - ev->received_us / 1000;
}

int64_t overdue_oldest_ms(const struct events *es, int64_t now_ms)
{
	const struct event *oldest = events_oldest(es);

	return oldest ? age_ms(oldest, now_ms) : 0;
}

int64_t overdue_ms(const struct events *es, int64_t now_ms, int64_t limit_s)
{
	int64_t oldest_ms = overdue_oldest_ms(es, now_ms);

	return limit_s && oldest_ms > limit_s * 1000 ? oldest_ms : 0;
}

void overdue_watch(struct overdue_watch *w, const struct events *es, int64_t now_ms, int64_t limit_ms)
{
	const struct event *oldest = events_oldest(es);
	char id[ENVELOPE_ID_MAX + 1];

	if (!limit_ms || !oldest || age_ms(oldest, now_ms) <= limit_ms) {
		if (w->is_told)
			log_info("all overdue events have settled", "limit_s=%lld", (long long)limit_ms / 1000);
		w->is_told = false;
		return;
	}
	if (w->warned_ms && now_ms - w->warned_ms < AGAIN_MS)
		return;
	w->warned_ms = now_ms;
	w->is_told = true;
	snprintf(id, sizeof(id), "%.*s", (int)oldest->id_len, oldest->id ? oldest->id : "");
	log_warn("events are overdue", "events=%zu limit_s=%lld oldest=%s oldest_s=%lld state=%s",
		 events_before(es, (now_ms - limit_ms) * 1000), (long long)limit_ms / 1000, id,
		 (long long)age_ms(oldest, now_ms) / 1000, event_state_name(oldest->state));
}
