/* lateness.c counts late acks and logs them. An ack cannot be sent before the row is committed. A late one is still
 * sent, because it stops the sender from resending. */
#include "intake/lateness.h"

#include "base/counters.h"
#include "base/log.h"

#define TELL_MS 60000

void lateness_note(struct lateness *l, const char *source, int64_t came_ms, int64_t now_ms, int64_t deadline_ms)
{
	if (!deadline_ms || now_ms - came_ms <= deadline_ms)
		return;
	counters.acks_late++;
	l->late++;
	if (now_ms - came_ms > l->longest_ms)
		l->longest_ms = now_ms - came_ms;
	if (l->told_ms && now_ms - l->told_ms < TELL_MS)
		return;
	log_warn("acks are later than ack_deadline_ms allows: the sender will resend",
		 "source=%s acks=%llu longest_ms=%lld", source, (unsigned long long)l->late, (long long)l->longest_ms);
	*l = (struct lateness){.told_ms = now_ms};
}
