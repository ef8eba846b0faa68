/* pace.c owns the pause between two statements of a listener that gets many events from feeds.
 *
 * As measured with INSERT, Postgres works about 0.5 ms for a statement and its commit, and 6 us for each row; with COPY
 * less, for both. One that is sent as soon as the one before has ended has 30 rows at half of the maximum rate of two
 * cores, and then three listeners keep both cores busy with statements: what is late there is late because its process
 * waits for a core. With a pause a statement has 40 rows, and a quarter of the machine is idle. Few events are not
 * delayed, nor are those whose sender waits for an ack. */
#include "road/pace.h"

#define PAUSE_MS   3
#define MANY_ROWS  16   /* of the statement before; with fewer there is no pause, */
#define ENOUGH     256  /* nor when so many wait */
#define AWAITED_MS 1000 /* nor so long after an event that somebody waited for */

void pace_await(struct pace *p, int64_t now_ms)
{
	p->is_awaited = true;
	p->awaited_ms = now_ms;
}

void pace_sent(struct pace *p, size_t rows, int64_t now_ms)
{
	p->sent_ms = now_ms;
	p->sent_rows = rows;
}

int64_t pace_wait(struct pace *p, size_t rows, int64_t now_ms)
{
	p->is_awaited &= now_ms - p->awaited_ms < AWAITED_MS;
	if (p->is_awaited || p->sent_rows < MANY_ROWS || rows >= ENOUGH || now_ms - p->sent_ms >= PAUSE_MS)
		return 0;
	return p->sent_ms + PAUSE_MS - now_ms;
}
