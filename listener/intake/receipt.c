/* receipt.c keeps the frames of a producer until all their events have settled, and picks the ack for each.
 * producer_profile.c renders the acks and ingest.c sends them. */
#include "intake/receipt.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"

/* A frame. */
struct receipt {
	struct sender sender; /* must be first: cast from sender */
	struct list link;
	struct receipts *receipts;
	uint64_t n;       /* number of its message */
	int64_t came_ms;  /* loop clock */
	size_t unsettled; /* unsettled events */
	bool is_open;     /* still being read */
	bool has_new;     /* it has an event that was not stored before */
	bool has_error;
	char *reason; /* reason of the first error; heap */
	char *text;   /* all acks, one after the other; heap */
	struct receipt_words words;
	size_t bytes; /* memory charged */
};

static void receipt_free(struct receipt *f)
{
	struct receipts *r = f->receipts;

	list_remove(&f->link);
	r->count--;
	if (f->bytes)
		r->owner->charge(r->arg, -(long)f->bytes);
	free(f->reason);
	free(f->text);
	free(f);
}

/* --- acks --- */

/* Replaces RECEIPT_REASON by the reason, escaped for a JSON string. */
static void say_error(const struct receipts *r, const struct receipt *f)
{
	const char *why = f->reason ? f->reason : "rejected by another listener: see dead_letters";
	const char *at = f->words.error.at, *end = at + f->words.error.len, *found;
	AUTO_FREE char *quoted = quote_json(why, strlen(why));
	AUTO_BYTES text = {NULL, 0, 0};

	while ((found = memmem(at, (size_t)(end - at), RECEIPT_REASON, strlen(RECEIPT_REASON)))) {
		bytes_add(&text, at, (size_t)(found - at));
		bytes_add(&text, quoted + 1, strlen(quoted) - 2);
		at = found + strlen(RECEIPT_REASON);
	}
	bytes_add(&text, at, (size_t)(end - at));
	r->owner->say(r->arg, bytes_slice(&text), f->came_ms);
}

static void say(const struct receipts *r, const struct receipt *f)
{
	struct slice words = f->has_new || !f->words.duplicate.at ? f->words.stored : f->words.duplicate;

	if (r->is_left || !r->owner->say)
		return;
	if (!f->has_error && words.at)
		r->owner->say(r->arg, words, f->came_ms);
	else if (f->has_error && f->words.error.at)
		say_error(r, f);
}

static bool is_settled(const struct receipt *f)
{
	return !f->is_open && !f->unsettled;
}

/* Sends the acks of the settled frames at the front: each error, and one ack for each run of frames without error. */
static void say_prefix(struct receipts *r)
{
	list_each(node, after, &r->frames) {
		struct receipt *f = list_entry(node, struct receipt, link);
		const struct receipt *next = after == &r->frames ? NULL : list_entry(after, struct receipt, link);

		if (!is_settled(f))
			return;
		if (f->has_error || !next || !is_settled(next) || next->has_error)
			say(r, f);
		receipt_free(f);
	}
}

static void check_settled(struct receipt *f)
{
	struct receipts *r = f->receipts;

	if (!is_settled(f))
		return;
	if (r->is_cumulative) {
		say_prefix(r);
		return;
	}
	say(r, f);
	receipt_free(f);
}

static void on_answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	struct receipt *f = (struct receipt *)sender;
	struct receipts *r = f->receipts;
	uint64_t n = f->n;

	f->unsettled--;
	f->has_new |= outcome == OUTCOME_PERSISTED;
	if (outcome == OUTCOME_REJECTED && !f->has_error && ev->reason)
		f->reason = memory_strdup(ev->reason);
	f->has_error |= outcome == OUTCOME_REJECTED;
	check_settled(f);
	r->owner->on_answer(r->arg, ev, outcome, n);
}

/* --- a frame --- */

void receipts_init(struct receipts *r)
{
	list_init(&r->frames);
}

static struct receipt *open_receipt(struct receipts *r)
{
	if (r->open)
		return r->open;
	r->open = memory_calloc(1, sizeof(*r->open));
	r->open->sender = (struct sender){.answer = on_answer, .name = r->name, .n = r->n, .resends = r->resends};
	r->open->receipts = r;
	r->open->n = r->n;
	r->open->came_ms = r->owner->say ? r->owner->now_ms(r->arg) : 0;
	r->open->is_open = true;
	list_append(&r->frames, &r->open->link);
	r->count++;
	return r->open;
}

void receipts_begin(struct receipts *r, uint64_t n)
{
	r->n = n;
}

struct sender *receipts_expect(struct receipts *r)
{
	struct receipt *f = open_receipt(r);

	f->unsettled++;
	return &f->sender;
}

static struct slice keep(char **at, struct slice words)
{
	struct slice kept = {words.at ? *at : NULL, words.len};

	if (words.at)
		*at = mempcpy(*at, words.at, words.len);
	return kept;
}

static void keep_words(struct receipt *f, const struct receipt_words *words)
{
	size_t len = words->stored.len + words->duplicate.len + words->error.len;
	char *at = f->text = memory_alloc(len + 1);

	f->words.stored = keep(&at, words->stored);
	f->words.duplicate = keep(&at, words->duplicate);
	f->words.error = keep(&at, words->error);
	f->bytes = sizeof(*f) + len;
	f->receipts->owner->charge(f->receipts->arg, (long)f->bytes);
}

void receipts_end(struct receipts *r, const struct receipt_words *words)
{
	struct receipt *f = r->open || words->stored.at ? open_receipt(r) : NULL;

	if (!f)
		return;
	r->open = NULL;
	f->is_open = false;
	keep_words(f, words);
	f->has_new |= !f->unsettled; /* a frame without events always counts as new */
	check_settled(f);
}

void receipts_leave(struct receipts *r)
{
	r->is_left = true;
}
