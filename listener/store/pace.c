/* pace.c computes the pause between two statements of a listener that receives many events from feeds.
 *
 * An INSERT costs Postgres about 0.5 ms per statement and commit, and 6 us per row; COPY costs less of both. Without a
 * pause, at half of the maximum rate, statements have 30 rows and three listeners keep two cores busy, so events are
 * late because processes wait for a core. With the pause, statements have 40 rows and a quarter of the machine is idle.
 * There is no pause when few events arrive, or when a sender waits for an ack. */
#include "store/pace.h"

#define PAUSE_MS   3
#define MANY_ROWS  16   /* no pause after a statement with fewer rows */
#define ENOUGH     256  /* no pause when this many rows wait */
#define AWAITED_MS 1000 /* no pause for this long after an event whose sender waits for an ack */

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
