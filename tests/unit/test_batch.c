/* What a batch takes, in which order, and how an event is found in it. */
#include "store/batch.h"
#include "unit.h"

static struct batch batch;

static void init(void)
{
	batch_init(&batch, 100, 1000);
}

static void fini(void)
{
	batch_free(&batch);
}

TestSuite(batch, .init = init, .fini = fini, .timeout = 60);

static struct event event_of(const char *id)
{
	return (struct event){.id = id, .id_len = (uint16_t)strlen(id), .message_len = 10};
}

/* Fills the batch with events of these ids, sorts it, and returns the ids with commas between. */
static const char *sorted(struct event *evs, size_t n)
{
	static char text[300];

	for (size_t i = 0; i < n; i++)
		cr_assert(batch_add(&batch, &evs[i]));
	batch_sort(&batch, 0, n);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		strncat(strcat(text, i ? "," : ""), batch.events[i]->id, batch.events[i]->id_len);
	return text;
}

static long find(size_t from, size_t to, size_t guess, const char *id)
{
	return batch_find(&batch, from, to, guess, id, strlen(id));
}

Test(batch, takes_events_up_to_its_count)
{
	struct event ev = event_of("a");

	for (int i = 0; i < 100; i++)
		cr_assert(batch_add(&batch, &ev));
	cr_assert_not(batch_add(&batch, &ev));
	cr_assert_eq(batch.count, 100);
	cr_assert_eq(batch.bytes, 1000);
}

Test(batch, takes_events_up_to_its_bytes)
{
	struct event big = {.id = "a", .id_len = 1, .message_len = 600};
	struct event rest = {.id = "b", .id_len = 1, .message_len = 400};
	struct event small = {.id = "c", .id_len = 1, .message_len = 1};

	cr_assert(batch_add(&batch, &big));
	cr_assert_not(batch_add(&batch, &big));
	cr_assert(batch_add(&batch, &rest));
	cr_assert_not(batch_add(&batch, &small));
	cr_assert_eq(batch.count, 2);
}

Test(batch, cleared_batch_has_room_again_even_for_more_than_its_bytes)
{
	struct event big = {.id = "a", .id_len = 1, .message_len = 5000};

	cr_assert(batch_add(&batch, &big));
	batch_clear(&batch);
	cr_assert_eq(batch.count, 0);
	cr_assert_eq(batch.bytes, 0);
	cr_assert(batch_add(&batch, &big));
	cr_assert_not(batch_add(&batch, &big));
}

Test(batch, order_is_bytewise)
{
	struct event evs[] = {event_of("b"),  event_of("\xff"), event_of("a"),       event_of("B"),
			      event_of("10"), event_of("9"),    event_of("\xc3\xa9")};

	cr_assert_str_eq(sorted(evs, 7), "10,9,B,a,b,\xc3\xa9,\xff");
}

Test(batch, beginning_of_another_id_comes_before_it)
{
	struct event evs[] = {event_of("abc"), event_of("ab"), event_of("a"), event_of("abd"), event_of("abca")};

	cr_assert_str_eq(sorted(evs, 5), "a,ab,abc,abca,abd");
}

Test(batch, a_part_is_sorted_by_itself)
{
	struct event evs[] = {event_of("d"), event_of("c"), event_of("b"), event_of("a")};

	for (int i = 0; i < 4; i++)
		batch_add(&batch, &evs[i]);
	batch_sort(&batch, 1, 3);
	cr_assert_eq(batch.events[0], &evs[0]);
	cr_assert_eq(batch.events[1], &evs[2]);
	cr_assert_eq(batch.events[2], &evs[1]);
	cr_assert_eq(batch.events[3], &evs[3]);
}

/* 50 events "000", "002", ... "098". */
static void fill_even(struct event *evs, char ids[50][4])
{
	for (int i = 0; i < 50; i++) {
		snprintf(ids[i], 4, "%03d", i * 2);
		evs[i] = event_of(ids[i]);
	}
	sorted(evs, 50);
}

Test(batch, every_event_is_found_whatever_the_guess)
{
	struct event evs[50];
	char ids[50][4];

	fill_even(evs, ids);
	for (size_t i = 0; i < 50; i++)
		for (size_t guess = 0; guess < 60; guess++)
			cr_assert_eq(find(0, 50, guess, ids[i]), (long)i);
}

Test(batch, id_that_is_not_there_is_not_found)
{
	struct event evs[50];
	char ids[50][4], id[5];

	fill_even(evs, ids);
	for (int i = 0; i < 50; i++) {
		snprintf(id, sizeof(id), "%03d", i * 2 + 1);
		cr_assert_eq(find(0, 50, (size_t)i, id), -1);
	}
	cr_assert_eq(find(0, 50, 0, ""), -1);
	cr_assert_eq(find(0, 50, 0, "00"), -1);
	cr_assert_eq(find(0, 50, 0, "0000"), -1);
	cr_assert_eq(find(0, 0, 0, "000"), -1);
}

Test(batch, only_the_given_range_is_searched)
{
	struct event evs[50];
	char ids[50][4];

	fill_even(evs, ids);
	for (size_t i = 0; i < 50; i++)
		for (size_t guess = 0; guess < 50; guess += 7)
			cr_assert_eq(find(10, 20, guess, ids[i]), i >= 10 && i < 20 ? (long)i : -1);
	cr_assert_eq(find(10, 20, 5, ids[5]), -1);
	cr_assert_eq(find(10, 20, 20, ids[20]), -1);
}
