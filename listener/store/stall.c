/* stall.c decides whether this listener can store rows, from the results of the last ones. claiming.c decides what a
 * stalled listener leaves to others. */
#include "store/stall.h"

#define STEP_MS 500 /* the most that one check adds: in a longer gap the process did not run */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void stall_took(struct stall *s, int64_t ms)
{
	s->took_ms = ms;
}

void stall_stored(struct stall *s)
{
	s->unable_ms = 0;
	s->blocked = 0;
	s->has_failed = s->is_stalled = s->is_of_rows = false;
}

void stall_failed(struct stall *s)
{
	s->has_failed = true;
}

void stall_blocked(struct stall *s)
{
	if (++s->blocked >= STALL_BLOCKED) {
		stall_failed(s);
		return;
	}
	s->unable_ms = 0;
}

bool stall_check(struct stall *s, bool has_rows, bool is_late, int64_t now_ms)
{
	bool is_of_rows = has_rows || s->has_failed;
	int64_t most_ms = is_of_rows ? least(STALL_MS + 2 * s->took_ms, STALL_MOST_MS) : STALL_LATE_MS;

	s->unable_ms = is_of_rows || is_late ? s->unable_ms + least(now_ms - s->checked_ms, STEP_MS) : 0;
	s->checked_ms = now_ms;
	s->is_stalled = s->is_of_rows || s->unable_ms >= most_ms;
	s->is_of_rows |= s->is_stalled && is_of_rows;
	return s->is_stalled;
}
