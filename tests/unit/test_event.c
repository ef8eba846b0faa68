/* The table, lists and sums of events, and the answers to senders. */
#include "base/sha256.h"
#include <uthash.h>
#include "event/event.h"

#include "view.h"

#include "unit.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define ANSWERS_MAX 10

static struct events events;

/* A sender that notes its answers; ended by -1. */
struct witness {
	struct sender sender;
	int answers[ANSWERS_MAX];
	uint64_t numbers[ANSWERS_MAX]; /* the sender's numbers of the answered messages */
	int count;
};

static void on_answer(struct sender *s, const struct event *ev, enum outcome outcome)
{
	struct witness *w = (struct witness *)s;

	cr_assert_eq(ev->state, EV_DONE);
	w->numbers[w->count] = s->n;
	w->answers[w->count++] = (int)outcome;
}

static void init(void)
{
	events_init(&events);
}

static void fini(void)
{
	events_clear(&events);
	cr_expect_eq(events.bytes, 0);
	cr_expect_eq(events.messages, 0);
	cr_expect_eq(events.in_table, 0);
	cr_expect(list_is_empty(&events.ordered));
	for (int state = 0; state < EVENT_STATES; state++) {
		cr_expect_eq(events.counts[state], 0);
		cr_expect(list_is_empty(&events.lists[state]));
	}
}

TestSuite(event, .init = init, .fini = fini, .timeout = 60);

static struct event *add(const char *id, struct sender *sender)
{
	struct envelope_view view = view_of(&events, id, "type", "{}");

	return event_new(&events, EV_CLAIMING, "message", 7, &view, sender, 5);
}

/* --- ids made to collide --- */

static unsigned int longest_chain(void)
{
	unsigned int longest = 0;

	for (size_t i = 0; i < events.chains; i++) {
		unsigned int length = 0;

		for (const struct event *ev = events.table[i]; ev; ev = ev->in_chain)
			length++;
		if (length > longest)
			longest = length;
	}
	return longest;
}

Test(event, ids_that_are_made_to_collide_do_not)
{
	unsigned int common, hash;
	char id[24];

	make_colliding_key(0, id);
	HASH_JEN(id, sizeof(id), common);
	for (uint32_t n = 0; n < 5000; n++) {
		struct envelope_view view = {.id = {id, sizeof(id)}, .type = {"", 0}};

		make_colliding_key(n, id);
		HASH_JEN(id, sizeof(id), hash);
		cr_assert_eq(hash, common);
		events_hash(&events, &view);
		cr_assert(event_new(&events, EV_CLAIMING, "m", 1, &view, NULL, 5));
	}
	cr_assert_leq(longest_chain(), 15);
}

/* The table has room for events in flight, so use a hundred times as many one after the other. */
Test(event, table_does_not_grow_with_the_events_that_have_gone)
{
	struct event *at_work[1000] = {NULL}, **ev;
	char id[20];

	for (int i = 0; i < 100000; i++) {
		ev = &at_work[i % 1000];
		if (*ev) {
			event_move(&events, *ev, EV_DONE);
			event_finish(&events, *ev, OUTCOME_DUPLICATE);
		}
		snprintf(id, sizeof(id), "id-%d", i);
		*ev = add(id, NULL);
		cr_assert_eq(find_event(&events, id), *ev);
	}
	cr_assert_eq(events.in_table, 1000);
	cr_assert_leq(events.chains, 1024);
}

/* The shortest allowed way to EV_DONE. */
static void finish(struct event *ev, enum outcome outcome)
{
	event_move(&events, ev, EV_DONE);
	event_finish(&events, ev, outcome);
}

static size_t length(const struct list *l)
{
	size_t n = 0;

	for (const struct list *node = l->next; node != l; node = node->next)
		n++;
	return n;
}

static void assert_counts_are_lengths(void)
{
	for (int state = 0; state < EVENT_STATES; state++)
		cr_assert_eq(events.counts[state], length(&events.lists[state]), "%s",
			     event_state_name((enum event_state)state));
}

/* --- a new event --- */

Test(event, new_event_has_copies_of_all_its_parts)
{
	char message[] = "{\"event_id\":\"a\",\"payload\":[1,2]}", id[] = "a", type[] = "t";
	struct envelope_view view = view_of(&events, id, type, "");
	view.payload = (struct slice){message + 26, 5};
	struct event *ev = event_new(&events, EV_CLAIMING, message, strlen(message), &view, NULL, 1234);

	memset(message, 'x', sizeof(message));
	id[0] = type[0] = 'x';
	cr_assert_eq(ev->id_len, 1);
	cr_assert_eq(memcmp(ev->id, "a", 1), 0);
	cr_assert_eq(ev->type_len, 1);
	cr_assert_eq(memcmp(ev->type, "t", 1), 0);
	cr_assert_eq(ev->message_len, 32);
	cr_assert_eq(memcmp(ev->message, "{\"event_id\":\"a\",\"payload\":[1,2]}", 32), 0);
	cr_assert_eq(ev->payload.at, ev->message + 26);
	cr_assert_eq(ev->payload.len, 5);
	cr_assert_eq(ev->received_us, 1234);
	cr_assert_eq(ev->copies, 1);
}

Test(event, payload_that_is_not_in_the_message_stays_where_it_is)
{
	static const char constant[] = "{}";
	struct envelope_view view = view_of(&events, "a", "", constant);
	struct event *ev = event_new(&events, EV_CLAIMING, "message", 7, &view, NULL, 0);

	cr_assert_eq(ev->payload.at, constant);
}

Test(event, message_without_an_id_is_not_in_the_table)
{
	struct event *ev = event_new(&events, EV_REFUSED, "garbage", 7, NULL, NULL, 0);

	cr_assert_eq(ev->state, EV_REFUSED);
	cr_assert_eq(ev->id_len, 0);
	cr_assert_eq(events.in_table, 0);
	ev = event_new(&events, EV_REFUSED, "", 0, NULL, NULL, 0);
	cr_assert_eq(ev->message_len, 0);
	cr_assert_eq(events.messages, 2);
}

Test(event, event_refused_at_the_door_has_its_id_and_is_not_in_the_table)
{
	struct envelope_view view = view_of(&events, "a", "", "{}");
	struct event *stale = event_new(&events, EV_REFUSED, "message", 7, &view, NULL, 0);

	cr_assert(stale->is_loose);
	cr_assert_eq(stale->id_len, 1);
	cr_assert_null(find_event(&events, "a"));
	struct event *fresh = add("a", NULL);
	cr_assert(!fresh->is_loose);
	cr_assert_eq(find_event(&events, "a"), fresh);
	event_move(&events, stale, EV_DEAD_LETTERING);
	finish(stale, OUTCOME_REJECTED);
	cr_assert_eq(find_event(&events, "a"), fresh);
	cr_assert_eq(events.messages, 1);
}

/* --- the table --- */

Test(event, event_is_found_by_its_whole_id)
{
	struct event *a = add("a", NULL), *ab = add("ab", NULL);

	cr_assert_eq(find_event(&events, "a"), a);
	cr_assert_eq(find_event(&events, "ab"), ab);
	cr_assert_null(find_event(&events, "b"));
	cr_assert_null(find_event(&events, ""));
	cr_assert_null(find_event(&events, "abc"));
}

Test(event, many_events_are_all_found)
{
	char id[20];

	for (int i = 0; i < 5000; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		add(id, NULL);
	}
	for (int i = 0; i < 5000; i += 2) {
		snprintf(id, sizeof(id), "id-%d", i);
		finish(find_event(&events, id), OUTCOME_DUPLICATE);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		cr_assert_eq(find_event(&events, id) != NULL, i % 2 == 1, "%s", id);
	}
	cr_assert_eq(events.messages, 2500);
	assert_counts_are_lengths();
}

/* --- lists and sums --- */

Test(event, count_of_a_state_is_the_length_of_its_list)
{
	struct event *a = add("a", NULL), *b = add("b", NULL), *c = add("c", NULL);

	assert_counts_are_lengths();
	event_move(&events, a, EV_HELD);
	event_move(&events, b, EV_BATCHED);
	event_move(&events, c, EV_BATCHED);
	event_move(&events, b, EV_STORING);
	assert_counts_are_lengths();
	cr_assert_eq(events.counts[EV_CLAIMING], 0);
	cr_assert_eq(events.counts[EV_HELD], 1);
	cr_assert_eq(events.counts[EV_BATCHED], 1);
	cr_assert_eq(events.counts[EV_STORING], 1);
	cr_assert_eq(a->state, EV_HELD);
}

Test(event, list_of_a_state_is_in_the_order_of_coming)
{
	struct event *a = add("a", NULL), *b = add("b", NULL);

	event_move(&events, b, EV_BATCHED);
	event_move(&events, a, EV_BATCHED);
	cr_assert_eq(list_entry(events.lists[EV_BATCHED].next, struct event, link), b);
	cr_assert_eq(list_entry(events.lists[EV_BATCHED].prev, struct event, link), a);
}

Test(event, bytes_are_the_sum_of_what_the_events_take)
{
	struct event *small = add("a", NULL), *big;
	struct envelope_view view = view_of(&events, "b", "", "{}");
	char message[1000] = "";

	cr_assert_geq(small->bytes, sizeof(struct event) + 1 + 4 + 7);
	cr_assert_eq(events.bytes, small->bytes);
	big = event_new(&events, EV_CLAIMING, message, sizeof(message), &view, NULL, 0);
	cr_assert_geq(big->bytes, sizeof(struct event) + 1000);
	cr_assert_eq(events.bytes, small->bytes + big->bytes);
	size_t before = small->bytes;
	finish(big, OUTCOME_DUPLICATE);
	cr_assert_eq(events.bytes, before);
}

Test(event, copy_with_a_sender_takes_bytes_and_one_without_takes_none)
{
	struct witness w = {.sender = {on_answer}};
	struct event *ev = add("a", NULL);
	size_t before = events.bytes;

	event_add_copy(&events, ev, NULL);
	cr_assert_eq(events.bytes, before);
	event_add_copy(&events, ev, &w.sender);
	cr_assert_gt(events.bytes, before);
	cr_assert_eq(events.bytes, ev->bytes);
	cr_assert_eq(ev->copies, 3);
	cr_assert_eq(events.messages, 3);
	finish(ev, OUTCOME_DUPLICATE);
	cr_assert_eq(events.messages, 0);
	cr_assert_eq(events.bytes, 0);
}

Test(event, finished_event_leaves_the_waiting_list)
{
	struct event *ev = add("a", NULL);
	struct list queue;

	list_init(&queue);
	list_append(&queue, &ev->wait_link);
	finish(ev, OUTCOME_DUPLICATE);
	cr_assert(list_is_empty(&queue));
}

Test(event, reason_and_digest_are_copies)
{
	uint8_t digest[32] = {1, 2, 3};
	struct event *ev = event_new(&events, EV_REFUSED, "x", 1, NULL, NULL, 0);
	char text[] = "first";

	event_set_reason(ev, text);
	text[0] = 'x';
	cr_assert_str_eq(ev->reason, "first");
	event_set_reason(ev, "second");
	cr_assert_str_eq(ev->reason, "second");
	event_set_digest(ev, digest);
	digest[0] = 9;
	cr_assert_eq(ev->digest[0], 1);
}

/* --- answers --- */

static void assert_answers(enum outcome outcome, int first, int others)
{
	struct witness one = {.sender = {on_answer}}, many = {.sender = {on_answer}};
	struct event *ev = add("a", &one.sender);

	event_add_copy(&events, ev, &many.sender);
	event_add_copy(&events, ev, NULL);
	event_add_copy(&events, ev, &many.sender);
	finish(ev, outcome);
	cr_assert_eq(one.count, 1);
	cr_assert_eq(one.answers[0], first);
	cr_assert_eq(many.count, 2);
	cr_assert_eq(many.answers[0], others);
	cr_assert_eq(many.answers[1], others);
}

Test(event, copies_are_answered_like_the_event_but_only_one_is_persisted)
{
	assert_answers(OUTCOME_PERSISTED, OUTCOME_PERSISTED, OUTCOME_DUPLICATE);
	assert_answers(OUTCOME_DUPLICATE, OUTCOME_DUPLICATE, OUTCOME_DUPLICATE);
	assert_answers(OUTCOME_REJECTED, OUTCOME_REJECTED, OUTCOME_REJECTED);
}

Test(event, first_copy_is_the_persisted_one_even_if_nobody_waits_for_it)
{
	struct witness w = {.sender = {on_answer}};
	struct event *ev = add("a", NULL);

	event_add_copy(&events, ev, &w.sender);
	finish(ev, OUTCOME_PERSISTED);
	cr_assert_eq(w.count, 1);
	cr_assert_eq(w.answers[0], OUTCOME_DUPLICATE);
}

Test(event, each_answer_has_the_number_that_the_sender_had_for_the_copy)
{
	struct witness w = {.sender = {on_answer, NULL, 3}};
	struct event *ev = add("a", &w.sender);

	for (w.sender.n = 4; w.sender.n < 7; w.sender.n++)
		event_add_copy(&events, ev, &w.sender);
	event_move(&events, ev, EV_DONE);
	event_finish(&events, ev, OUTCOME_PERSISTED);
	cr_assert_eq(w.count, 4);
	cr_assert_eq(w.numbers[0], 3);
	cr_assert_eq(w.numbers[1] + w.numbers[2] + w.numbers[3], 15);
}

Test(event, clearing_answers_nobody)
{
	struct witness w = {.sender = {on_answer}};

	event_add_copy(&events, add("a", &w.sender), &w.sender);
	event_move(&events, add("b", &w.sender), EV_HELD);
	events_clear(&events);
	cr_assert_eq(w.count, 0);
}

/* --- messages that share an id --- */

static struct event *add_behind(struct event *lead, const char *message, int64_t now_us)
{
	struct envelope_view view = view_of(&events, "a", "type", "{}");
	struct event *ev = event_new(&events, EV_BEHIND, message, strlen(message), &view, NULL, now_us);

	cr_assert_null(event_put_behind(lead, ev, true));
	return ev;
}

static struct event *add_at(const char *id, int64_t now_us)
{
	struct envelope_view view = view_of(&events, id, "type", "{}");

	return event_new(&events, EV_CLAIMING, "message", 7, &view, NULL, now_us);
}

Test(event, message_is_found_to_the_byte)
{
	const struct envelope_view plain = view_of(&events, "a", "type", "{}");
	struct event *lead = add("a", NULL), *other = add_behind(lead, "other", 6);

	cr_assert_eq(event_with_message(lead, "message", 7, &plain), lead);
	cr_assert_eq(event_with_message(lead, "other", 5, &plain), other);
	cr_assert_null(event_with_message(lead, "othe", 4, &plain));
	cr_assert_null(event_with_message(NULL, "other", 5, &plain));
}

Test(event, event_that_takes_the_place_is_found_and_has_the_others_behind_it)
{
	struct event *lead = add("a", NULL), *x = add_behind(lead, "x", 6), *y = add_behind(lead, "y", 7);

	lead->is_claimed = true;
	lead->claim_ms = 100;
	event_give_place(&events, lead, x);
	cr_assert_eq(find_event(&events, "a"), x);
	cr_assert_eq(x->behind, y);
	cr_assert_null(y->behind);
	cr_assert_null(lead->behind);
	cr_assert(x->is_claimed && !lead->is_claimed);
	cr_assert_eq(x->claim_ms, 100);
	finish(lead, OUTCOME_REJECTED);
	cr_assert_eq(find_event(&events, "a"), x);
}

Test(event, oldest_is_told_whatever_waits_behind_another)
{
	struct event *lead = add_at("a", 10), *late;

	late = add_behind(lead, "late", 20);
	add_at("b", 30);
	cr_assert_eq(events_oldest(&events), lead);
	cr_assert_eq(events_before(&events, 25), 2);
	event_give_place(&events, lead, late);
	finish(lead, OUTCOME_REJECTED);
	cr_assert_eq(events_oldest(&events), late);
	cr_assert_eq(events_before(&events, 25), 1);
	cr_assert_eq(events_before(&events, 35), 2);
}

Test(event, events_have_settled_up_to_the_first_moment_whatever_the_clock_did)
{
	cr_assert_eq(events_settled_us(&events, 900), 900);
	add_at("refused", 1);
	add_at("a", 10)->came_us = 700;
	add_at("b", 20)->came_us = 300; /* the clock was set back */
	cr_assert_eq(events_settled_us(&events, 900), 300);
	cr_assert_eq(events_settled_us(&events, 200), 200);
	struct event *exported = add_at("c", 30);
	exported->came_us = 1;
	exported->is_kept = true;
	cr_assert_eq(events_settled_us(&events, 900), 300, "a replay of old rows would hold up exports");
}

Test(event, digest_head_is_the_begin_of_sha_256)
{
	struct event *ev = event_new(&events, EV_REFUSED, "abc", 3, NULL, NULL, 0);

	cr_assert_eq(event_digest_head(ev), 0xba7816bf8f01cfea);
}

/* --- what a profile has read --- */

static struct event *add_read(const char *id, const char *type, const char *payload)
{
	struct envelope_view view = view_of(&events, id, type, payload);

	view.source = "kraken";
	struct event *lead = event_find(&events, &view);
	struct event *ev = event_new(&events, lead ? EV_BEHIND : EV_CLAIMING, payload, strlen(payload), &view, NULL, 5);
	if (lead)
		event_put_behind(lead, ev, true);
	return ev;
}

Test(event, message_of_a_profile_is_id_type_and_payload)
{
	struct event *ev = add_read("ab", "c", "{}"), *other = add_read("a", "bc", "{}"),
		     *third = add_read("x", "c", "{}");
	struct envelope_view view = view_of(&events, "ab", "c", "{}");

	cr_assert_str_eq(ev->source, "kraken");
	cr_assert(ev->payload.at == ev->message && ev->payload.len == 2 && ev->message_len == 2);
	cr_assert_neq(event_digest_head(ev), event_digest_head(other));
	cr_assert_neq(event_digest_head(ev), event_digest_head(third));
	cr_assert_null(event_with_message(ev, "{}", 2, &view), "a message of its own that says {} is another one");
	view.source = "binance";
	cr_assert_eq(event_with_message(ev, "{}", 2, &view), ev);
	view.type = (struct slice){"d", 1};
	cr_assert_null(event_with_message(ev, "{}", 2, &view));
}

/* Listeners of a fleet may run on different architectures, so lengths are in network byte order. */
Test(event, digest_of_what_a_profile_has_read_is_the_same_everywhere)
{
	static const char bytes[] = "\0\0\0\2\0\0\0\1abc{}";
	struct event *ev = add_read("ab", "c", "{}");
	uint8_t expected[32], digest[32];

	sha256(bytes, sizeof(bytes) - 1, expected);
	event_digest(ev, digest);
	cr_assert_arr_eq(digest, expected, 32);
}

/* --- states --- */

/* The steps that event.h's comments name. */
static const struct {
	enum event_state from;
	enum event_state to;
} steps[] = {
	{EV_CLAIMING, EV_BATCHED},    {EV_CLAIMING, EV_HELD},
	{EV_CLAIMING, EV_DONE},       {EV_HELD, EV_CLAIMING},
	{EV_HELD, EV_HELD},           {EV_HELD, EV_BATCHED},
	{EV_HELD, EV_DONE},           {EV_HELD, EV_BEHIND},
	{EV_BATCHED, EV_STORING},     {EV_STORING, EV_BATCHED},
	{EV_STORING, EV_DONE},        {EV_STORING, EV_REFUSED},
	{EV_STORING, EV_BACKING_OFF}, {EV_STORING, EV_BEHIND},
	{EV_BACKING_OFF, EV_HELD},    {EV_BACKING_OFF, EV_CLAIMING},
	{EV_BACKING_OFF, EV_BATCHED}, {EV_REFUSED, EV_DEAD_LETTERING},
	{EV_DEAD_LETTERING, EV_DONE}, {EV_DEAD_LETTERING, EV_REFUSED},
	{EV_BACKING_OFF, EV_BEHIND},  {EV_BEHIND, EV_CLAIMING},
	{EV_BATCHED, EV_HELD},        {EV_BEHIND, EV_BATCHED},
	{EV_BEHIND, EV_REFUSED},      {EV_BEHIND, EV_DONE},
	{EV_BATCHED, EV_REFUSED},
};

static bool is_step(enum event_state from, enum event_state to)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		if (steps[i].from == from && steps[i].to == to)
			return true;
	return false;
}

/* True if a process that makes this step ends by abort(). Its output is discarded. */
static bool does_abort(struct event *ev, enum event_state to)
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		close(STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		event_move(&events, ev, to);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

Test(event, only_the_steps_that_the_header_names_are_allowed)
{
	for (int from = 0; from < EVENT_STATES; from++) {
		struct event *ev = event_new(&events, (enum event_state)from, "x", 1, NULL, NULL, 0);

		for (int to = 0; to < EVENT_STATES; to++)
			cr_assert_eq(does_abort(ev, (enum event_state)to),
				     !is_step((enum event_state)from, (enum event_state)to), "%s -> %s",
				     event_state_name((enum event_state)from), event_state_name((enum event_state)to));
	}
}

Test(event, event_that_is_not_done_cannot_be_finished, .signal = SIGABRT)
{
	event_finish(&events, add("a", NULL), OUTCOME_DUPLICATE);
}

Test(event, every_state_has_a_name_of_its_own)
{
	for (int i = 0; i < EVENT_STATES; i++)
		for (int k = 0; k < i; k++)
			cr_assert_str_neq(event_state_name((enum event_state)i), event_state_name((enum event_state)k));
}
