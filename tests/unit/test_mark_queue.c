/* Marks come out of the queue complete, in order, and once. */
#include "unit.h"
#include "claim/mark_queue.h"

#define EPOCH 0x0123abcd

static void add(struct mark_queue *o, const char *id, bool is_dead)
{
	cr_assert_eq(
		mark_queue_add(o, &(struct queued_mark){id, strlen(id), is_dead, EPOCH, is_dead ? strlen(id) : 0, 0}),
		0);
}

static void must_take(struct mark_queue *o, const char *id, bool is_dead)
{
	struct queued_mark mark;

	cr_assert(mark_queue_take(o, &mark));
	cr_assert_eq(mark.len, strlen(id));
	cr_assert_eq(memcmp(mark.id, id, mark.len), 0);
	cr_assert_eq(mark.is_dead, is_dead);
	cr_assert_eq(mark.digest, is_dead ? strlen(id) : 0);
	cr_assert_eq(mark.epoch, EPOCH);
}

Test(mark_queue, marks_come_out_in_order_and_once)
{
	struct mark_queue o = {0};
	struct queued_mark mark;

	add(&o, "a", false);
	add(&o, "bb", true);
	must_take(&o, "a", false);
	add(&o, "ccc", false);
	must_take(&o, "bb", true);
	must_take(&o, "ccc", false);
	cr_assert_not(mark_queue_take(&o, &mark));
	mark_queue_free(&o);
}

Test(mark_queue, a_long_run_of_marks_keeps_its_order)
{
	struct mark_queue o = {0};
	struct queued_mark mark;
	char id[20];

	for (int i = 0; i < 30000; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		add(&o, id, i % 2);
		if (i >= 100) {
			snprintf(id, sizeof(id), "id-%d", i - 100);
			must_take(&o, id, i % 2);
		}
	}
	for (int i = 0; i < 100; i++)
		cr_assert(mark_queue_take(&o, &mark));
	cr_assert_not(mark_queue_take(&o, &mark));
	cr_assert_lt(o.size, 100000);
	mark_queue_free(&o);
}

Test(mark_queue, more_than_some_megabytes_are_refused)
{
	struct mark_queue o = {0};
	char id[500];
	int kept = 0;

	memset(id, 'x', sizeof(id));
	while (kept < 100000 && mark_queue_add(&o, &(struct queued_mark){id, sizeof(id), false, EPOCH, 0, 0}) == 0)
		kept++;
	cr_assert_gt(kept, 10000);
	cr_assert_lt(kept, 40000);
	mark_queue_free(&o);
}
