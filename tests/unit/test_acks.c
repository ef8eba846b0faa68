/* The queue of acks: whole frames, in order, and memory that is given back. */
#include "intake/acks.h"
#include "unit.h"

static struct acks acks;

static void fini(void)
{
	acks_clear(&acks);
}

TestSuite(acks, .fini = fini, .timeout = 60);

static void add(const char *id)
{
	struct event ev = {.id = id, .id_len = (uint16_t)strlen(id)};

	acks_add(&acks, &ev, OUTCOME_PERSISTED, 7);
}

Test(acks, go_out_as_whole_frames_in_order)
{
	size_t len, count;

	add("first");
	add("second");
	char *at = acks_first(&acks, 60, &len, &count);
	cr_assert_eq(count, 1);
	cr_assert_eq(len, (size_t)(unsigned char)at[1] + 2);
	cr_assert(memmem(at, len, "first", 5));
	acks_sent(&acks, len);
	at = acks_first(&acks, 1, &len, &count);
	cr_assert(count == 1 && memmem(at, len, "second", 6), "one that is longer than asked for goes alone");
	acks_sent(&acks, len);
	cr_assert_eq(acks_waiting(&acks), 0);
	acks_first(&acks, 1000, &len, &count);
	cr_assert(len == 0 && count == 0);
}

Test(acks, memory_of_many_is_given_back_and_that_of_few_is_kept)
{
	size_t len, count;

	for (int i = 0; i < 1000; i++)
		add("of-many");
	cr_assert_lt(acks.size, acks_waiting(&acks) * 13 / 10);
	cr_assert_eq(acks_memory(&acks), acks.size);
	acks_first(&acks, SIZE_MAX, &len, &count);
	cr_assert_eq(count, 1000);
	acks_sent(&acks, len);
	cr_assert_eq(acks.size, 0);
	add("of-few");
	cr_assert_eq(acks_memory(&acks), 0);
	acks_sent(&acks, acks_waiting(&acks));
	cr_assert_gt(acks.size, 0);
}

Test(acks, room_in_front_is_used_before_more_is_asked_for)
{
	size_t size;

	for (int i = 0; i < 6; i++)
		add("x");
	size = acks.size;
	for (int i = 0; i < 1000; i++) {
		size_t len, count;

		acks_first(&acks, 1, &len, &count);
		acks_sent(&acks, len);
		add("x");
	}
	cr_assert_eq(acks.size, size);
}

/* Returns the text of the only ack. */
static const char *text_of(enum outcome outcome, uint64_t n)
{
	static char text[600];
	char why[] = "because";
	struct event ev = {.id = "one", .id_len = 3, .reason = outcome == OUTCOME_REJECTED ? why : NULL};
	size_t len, count;

	acks_add(&acks, &ev, outcome, n);
	char *at = acks_first(&acks, SIZE_MAX, &len, &count);
	snprintf(text, sizeof text, "%.*s", (int)(len - 2), at + 2);
	acks_sent(&acks, len);
	return text;
}

Test(acks, say_the_number_of_the_message)
{
	cr_assert_str_eq(text_of(OUTCOME_PERSISTED, 1), "{\"event_id\":\"one\",\"status\":\"persisted\",\"n\":1}");
	cr_assert_str_eq(text_of(OUTCOME_DUPLICATE, UINT64_MAX),
			 "{\"event_id\":\"one\",\"status\":\"duplicate\",\"n\":18446744073709551615}");
	cr_assert_str_eq(text_of(OUTCOME_REJECTED, 30),
			 "{\"event_id\":\"one\",\"status\":\"rejected\",\"reason\":\"because\",\"n\":30}");
}

/* RFC 6455, section 5.2: the length in seven bits, in 16, in 64. */
Test(acks, other_words_may_be_of_any_length)
{
	static const size_t lens[] = {0, 125, 126, 65535, 65536, 300000}, heads[] = {2, 2, 4, 4, 10, 10};
	char *text = calloc(1, 300000);

	for (size_t i = 0; i < 6; i++)
		acks_add_text(&acks, text, lens[i]);
	for (size_t i = 0; i < 6; i++) {
		size_t len, count;

		acks_first(&acks, 1, &len, &count);
		cr_assert_eq(len, heads[i] + lens[i]);
		acks_sent(&acks, len);
	}
	cr_assert_eq(acks_waiting(&acks), 0);
	free(text);
}
