/* log_spell.c decides how often a repeated failure is logged. */
#include "base/log_spell.h"

#include "base/log.h"

#define SPELL_TELL_MS 60000
#define SPELL_OVER_MS 10000

bool log_spell_on(struct log_spell *s, int64_t now_ms, const char *event, const char *reason)
{
	bool is_first = s->times++ == 0;

	s->last_ms = now_ms;
	if (!is_first && now_ms - s->told_ms < SPELL_TELL_MS)
		return false;
	s->told_ms = now_ms;
	if (is_first) {
		s->began_ms = now_ms;
		log_warn(event, "target=%s reason=%s", s->target, reason);
	} else {
		log_warn(event, "target=%s times=%lld for_s=%lld reason=%s", s->target, (long long)s->times,
			 (long long)(now_ms - s->began_ms) / 1000, reason);
	}
	return true;
}

void log_spell_off(struct log_spell *s, int64_t now_ms, const char *event)
{
	if (!s->times || now_ms - s->last_ms < SPELL_OVER_MS)
		return;
	if (event)
		log_info(event, "target=%s times=%lld for_s=%lld", s->target, (long long)s->times,
			 (long long)(s->last_ms - s->began_ms) / 1000);
	s->times = 0;
}
