/* log_spell.c decides how often a repeated failure, or one that many share, is logged. */
#include "base/log_spell.h"

#define SPELL_TELL_MS 60000
#define SPELL_OVER_MS 10000
#define LINES_MOST    20 /* warnings of a kind in SPELL_TELL_MS, and other lines */

bool log_spell_on(struct log_spell *s, int64_t now_ms, const char *event, const char *reason)
{
	bool is_first = s->times++ == 0;
	long long for_s;

	s->last_ms = now_ms;
	if (!is_first && now_ms - s->told_ms < SPELL_TELL_MS)
		return false;
	s->told_ms = now_ms;
	s->began_ms = is_first ? now_ms : s->began_ms;
	for_s = (now_ms - s->began_ms) / 1000;
	if (s->target && is_first)
		log_of_many(LOG_NEW_OF_WEBHOOKS, LOG_WARN, now_ms, event, "target=%s reason=%s", s->target, reason);
	else if (s->target)
		log_of_many(LOG_AGAIN_OF_WEBHOOKS, LOG_WARN, now_ms, event, "target=%s times=%lld for_s=%lld reason=%s",
			    s->target, (long long)s->times, for_s, reason);
	else if (is_first)
		log_warn(event, "reason=%s", reason);
	else
		log_warn(event, "times=%lld for_s=%lld reason=%s", (long long)s->times, for_s, reason);
	return true;
}

void log_spell_off(struct log_spell *s, int64_t now_ms, const char *event)
{
	if (now_ms - s->last_ms >= SPELL_OVER_MS)
		log_spell_end(s, event);
}

void log_spell_end(struct log_spell *s, const char *event)
{
	if (s->times && event)
		log_info(event, "target=%s times=%lld for_s=%lld", s->target, (long long)s->times,
			 (long long)(s->last_ms - s->began_ms) / 1000);
	s->times = 0;
}

bool log_goes_on(int64_t told_ms, int64_t now_ms)
{
	return told_ms && now_ms - told_ms < (int64_t)2 * SPELL_TELL_MS;
}

enum log_level log_limit_lines(enum log_kind kind, enum log_level level, int64_t now_ms, size_t *more)
{
	static struct {
		int64_t since_ms;
		size_t lines;
	} kinds[5], *k;

	if (level == LOG_DEBUG)
		return level;
	k = &kinds[level == LOG_WARN ? 1 + kind : 0];
	if (now_ms - k->since_ms >= SPELL_TELL_MS) {
		*more = k->lines > LINES_MOST ? k->lines - LINES_MOST : 0;
		k->since_ms = now_ms;
		k->lines = 0;
	}
	return ++k->lines > LINES_MOST ? LOG_DEBUG : level;
}
