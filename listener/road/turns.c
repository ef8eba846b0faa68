/* turns.c owns the times by which a fleet without Redis keeps its work in Postgres from growing with its size. What is
 * done then is pipeline_claim.c's business.
 *
 * One listener stores an event at once, the others later if it is not there by then. That it is there they learn from
 * what is new in the table, read some times a second by its primary key: that costs a sixth of looking for each event.
 * And since each of N listeners stores a part of the events, it sends its statements N times less often, so that they
 * are as large, and as many in all, as those of one. */
#include "road/turns.h"

#include "road/hold.h"

#define SECOND_STEP     2   /* of hold.h: 200 ms for the first of the fleet to store an event, */
#define THIRD_STEP      3   /* 400 ms for the second, */
#define REST_STEP       6   /* and 3.2 s for the third, for all others */
#define LATE_TIMES      3   /* and more where rows come late: three times as long as they take, */
#define LATE_FADES      8   /* of which each question forgets an eighth */
#define ASK_MS          200 /* between two questions, or so many for each listener: fifty a second in all, */
#define ASK_EACH_MS     20  /* until the most is reached; */
#define ASK_MOST_MS     1000
#define ASK_PRESSED_MS  100 /* or this, where many events wait */
#define STORE_TENTHS_MS 25  /* tenths of ms between two batches, for each listener: 400 batches a second in all, */
#define STORE_MOST_MS   100 /* until this is reached */

void turns_init(struct turns *t)
{
	*t = (struct turns){.asked_ms = 0};
	list_init(&t->due);
}

/* Where all are busy, who is preferred is late as well, and would find its rows there. */
unsigned int turns_step(const struct turns *t, size_t rank)
{
	unsigned int step = rank == 1 ? SECOND_STEP : rank == 2 ? THIRD_STEP : REST_STEP;

	while (step < REST_STEP && HOLD_FIRST_MS << step < LATE_TIMES * t->late_ms)
		step++;
	return step;
}

void turns_saw(struct turns *t, int64_t since_ms)
{
	if (t->before_ms - since_ms > t->late_ms)
		t->late_ms = t->before_ms - since_ms;
}

void turns_add(struct turns *t, struct event *ev, int64_t now_ms)
{
	ev->due_ms = now_ms;
	list_append(&t->due, &ev->wait_link);
}

static int64_t wait_from(int64_t since_ms, int64_t ms, int64_t now_ms)
{
	return now_ms - since_ms >= ms ? 0 : since_ms + ms - now_ms;
}

int64_t turns_ask_wait(const struct turns *t, size_t others, bool is_pressed, int64_t now_ms)
{
	int64_t ms = ASK_EACH_MS * ((int64_t)others + 1);

	if (t->is_asked || (list_is_empty(&t->due) && !is_pressed))
		return -1;
	if (is_pressed)
		ms = ASK_PRESSED_MS;
	else
		ms = ms < ASK_MS ? ASK_MS : ms > ASK_MOST_MS ? ASK_MOST_MS : ms;
	return wait_from(t->asked_ms, ms, now_ms);
}

void turns_asked(struct turns *t, int64_t now_ms)
{
	t->before_ms = t->asked_ms;
	t->asked_ms = now_ms;
	t->late_ms -= t->late_ms / LATE_FADES;
	t->is_asked = true;
}

struct event *turns_answered(struct turns *t)
{
	struct event *ev = list_is_empty(&t->due) ? NULL : list_entry(t->due.next, struct event, wait_link);

	t->is_asked = false;
	if (!ev || ev->due_ms > t->asked_ms)
		return NULL;
	list_remove(&ev->wait_link);
	return ev;
}

int64_t turns_store_wait(const struct turns *t, size_t others, int64_t now_ms)
{
	int64_t ms = STORE_TENTHS_MS * (int64_t)others / 10;

	return wait_from(t->stored_ms, ms > STORE_MOST_MS ? STORE_MOST_MS : ms, now_ms);
}
