/* idle.c: a message soon after the opening may be the answer to a subscription, and a feed may forget that. An answer
 * to a ping, or a later message, shows that the feed goes on sending. */
#include "intake/idle.h"

#define PINGED_MS   90000  /* default limit if pings are sent, */
#define PINGS       3      /* or this many of their intervals, if that is longer */
#define UNPINGED_MS 600000 /* default limit if not */
#define GREETING_MS 5000

struct idle_limit idle_limit(const struct profile *p, int64_t idle_s, int64_t told_ms, int64_t ping_ms)
{
	bool is_pinged = !p->never_send && (p->ws_ping_s || p->ping.send);
	bool is_set = told_ms || idle_s || p->idle_timeout.ms >= 0;
	int64_t ms = told_ms                       ? told_ms
		     : p->idle_timeout.ms >= 0     ? p->idle_timeout.ms
		     : idle_s                      ? idle_s * 1000
		     : PINGS * ping_ms > PINGED_MS ? PINGS * ping_ms
		     : is_pinged                   ? PINGED_MS
						   : UNPINGED_MS;

	return (struct idle_limit){
		.ms = ms, .is_guess = !is_set && !is_pinged, .is_only_messages = p->redacted_url && ms};
}

static int64_t last_ms(const struct idle_limit *limit, const struct idle_signs *signs)
{
	return limit->is_only_messages ? signs->message_ms : signs->heard_ms;
}

int64_t idle_length(const struct idle_limit *limit, const struct idle_signs *signs, int64_t now_ms)
{
	int64_t length = now_ms - last_ms(limit, signs);

	return limit->ms && length >= limit->ms ? length : 0;
}

/* True if what came at this time shows that the feed goes on sending. A message before soon_ms may answer ours. */
static bool is_proof(const struct idle_signs *signs, int64_t at_ms, int64_t soon_ms)
{
	bool is_pong = at_ms > signs->message_ms || (signs->pinged_ms && at_ms >= signs->pinged_ms);

	return at_ms - signs->opened_ms > (is_pong ? 0 : soon_ms);
}

enum idle idle_look(enum idle before, const struct idle_limit *limit, const struct idle_signs *signs, int64_t now_ms)
{
	bool is_over = false;

	if (idle_length(limit, signs, now_ms))
		return limit->is_guess ? before : IDLE_TIMED_OUT;
	if (before == IDLE_UNANSWERED)
		is_over = is_proof(signs, signs->heard_ms, GREETING_MS);
	else if (before == IDLE_TIMED_OUT)
		is_over = is_proof(signs, last_ms(limit, signs), limit->ms / 2);
	return is_over ? IDLE_NOT : before;
}

enum idle idle_unanswered(enum idle before, const struct idle_signs *signs)
{
	return before == IDLE_NOT && !is_proof(signs, signs->heard_ms, GREETING_MS) ? IDLE_UNANSWERED : before;
}
