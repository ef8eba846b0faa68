/* fill.c owns the holes of a source, and asks for one after the other. An answer's events go through the rules of the
 * profile in a session of their own, and to the pipeline as events of NAME#fill: the ids are the same, so events that
 * were stored already are duplicates. */
#include "intake/fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/counters.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "feed/gap.h"
#include "feed/session.h"
#include "intake/feed_call.h"
#include "intake/feed_event.h"

#define TICK_MS    100
#define SETTLE_MS  2000 /* wait before asking: events may come late, and the fleet must agree on a leader */
#define HOLES_MAX  256
#define LOOKS      5 /* how often, within a minute, it checks whether it leads */
#define WHAT_BYTES 240
#define TELL_MS    60000
#define CALLS_MAX  1000  /* calls per hole: a feed whose numbers jump must not be asked for ever */
#define PAGE_MAX   10000 /* elements of a page that are read */
#define TRIES      6     /* most calls in a row without new events */

/* Missing numbers of a series, or if there is a cursor, all events after it. */
struct hole {
	struct hole *next;
	char *key; /* name of the series, which may contain a NUL; NULL: it has no name */
	size_t key_len;
	__int128 from, to;
	char *cursor; /* JSON; NULL: the hole has numbers */
	int64_t came_ms, due_ms;
	struct backoff backoff;
	unsigned int calls;
	uint64_t events;
};

/* A log line that comes at most once a minute. */
struct told {
	unsigned int holes; /* number of holes since `ms` */
	int64_t ms;         /* loop clock; 0: never */
};

struct fill {
	struct fill_parts parts;
	char *source; /* source in the rows */
	uv_timer_t timer;
	struct hole *first; /* the one that is asked for, and the others by their due_ms */
	size_t count;
	struct session *session; /* for the first hole, once it is asked for */
	struct request *request;
	uint64_t filled;
	struct told done, missing;
	/* Of the current page: */
	size_t elements;
	size_t given;      /* events and dead letters */
	size_t room;       /* see session_read_part() */
	__int128 *numbers; /* numbers of the hole that it has */
	size_t number_count, size;
};

static int64_t now_ms(const struct fill *f)
{
	return (int64_t)uv_now(f->parts.loop);
}

/* --- the queue --- */

static void free_hole(struct hole *h)
{
	free(h->key);
	free(h->cursor);
	free(h);
}

static void drop_first(struct fill *f)
{
	struct hole *h = f->first;

	f->first = h->next;
	f->count--;
	free_hole(h);
	if (f->session)
		session_free(f->session);
	f->session = NULL;
	if (!f->first)
		uv_timer_stop(&f->timer);
}

/* Writes what is missing, for the log. */
static void describe(const struct hole *h, char what[WHAT_BYTES])
{
	char from[GAP_NUMBER_BYTES], to[GAP_NUMBER_BYTES];

	if (h->cursor)
		snprintf(what, WHAT_BYTES, "after %.100s", h->cursor);
	else
		snprintf(what, WHAT_BYTES, "%.100s%s%s to %s", h->key ? h->key : "", h->key ? " " : "",
			 gap_write(h->from, from), gap_write(h->to, to));
}

/* Returns how many holes the log line covers; 0: it is not due. */
static unsigned int count_told(const struct fill *f, struct told *t)
{
	unsigned int holes = ++t->holes;

	if (t->ms && now_ms(f) - t->ms < TELL_MS)
		return 0;
	*t = (struct told){.ms = now_ms(f)};
	return holes;
}

static void tell_missing(struct fill *f, const struct hole *h, const char *reason)
{
	bool goes_on = log_goes_on(f->missing.ms, now_ms(f));
	unsigned int holes = count_told(f, &f->missing);
	char what[WHAT_BYTES];

	counters.fills_failed++;
	if (!holes)
		return;
	describe(h, what);
	feed_client_mask(f->parts.client, what);
	log_of_many(goes_on, LOG_WARN, now_ms(f), "cannot fetch all events that a source did not send",
		    "source=%s holes=%u example=%s calls=%u reason=%s", f->parts.profile->name, holes, what, h->calls,
		    reason);
}

static void give_up(struct fill *f, const char *reason)
{
	f->filled += f->number_count;
	tell_missing(f, f->first, reason);
	drop_first(f);
}

static void finish(struct fill *f)
{
	unsigned int holes = count_told(f, &f->done);

	if (holes)
		log_one_of_many(LOG_INFO, now_ms(f), "fetched events that a source did not send",
				"source=%s holes=%u events=%llu calls=%u", f->parts.profile->name, holes,
				(unsigned long long)f->first->events, f->first->calls);
	drop_first(f);
}

static void retry(struct fill *f, const char *reason, int64_t wait_ms)
{
	struct hole *h = f->first;
	int64_t backoff_ms = backoff_next(&h->backoff, backoff_draw());

	if (h->backoff.tries == TRIES || h->calls == CALLS_MAX) {
		give_up(f, reason);
		return;
	}
	h->due_ms = now_ms(f) + (wait_ms > backoff_ms ? wait_ms : backoff_ms);
	if (wait_ms > TELL_MS)
		log_one_of_many(LOG_INFO, now_ms(f), "a source asks us to wait before fetching missing events",
				"source=%s wait_s=%lld reason=%s", f->parts.profile->name, (long long)wait_ms / 1000,
				reason);
}

/* --- an answer --- */

static bool is_of(const struct hole *h, const struct session_event *event)
{
	return h->key && event->gap_key.at
		       ? h->key_len == event->gap_key.len && memcmp(h->key, event->gap_key.at, h->key_len) == 0
		       : !h->key && !event->gap_key.at;
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct fill *f = ctx;
	struct hole *h = f->first;
	struct feed_event read = feed_event_from(event, f->parts.profile, true);
	__int128 number;

	read.source = f->source;
	f->given++;
	h->events++;
	counters.fill_events++;
	if (event->cursor.at)
		session_advance_at_once(f->session, event->cursor, time(NULL));
	if (!h->cursor && is_of(h, event) && json_to_integer(event->gap_seq, &number) && number >= h->from &&
	    number <= h->to) {
		if (f->number_count == f->size) {
			f->size = f->size ? 2 * f->size : 64;
			f->numbers = memory_realloc(f->numbers, f->size * sizeof(*f->numbers));
		}
		f->numbers[f->number_count++] = number;
		read.is_filling = true;
	}
	pipeline_receive_event(f->parts.pipeline, &read, NULL);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	struct fill *f = ctx;

	f->given++;
	pipeline_refuse(f->parts.pipeline, f->source, bytes.at, bytes.len, why, NULL);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct fill *f = ctx;

	session_advance_at_once(f->session, cursor, time(NULL));
}

/* Has no callbacks for replies and acks: an answer is not a connection. */
static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_cursor = on_cursor,
};

static void read_element(struct fill *f, struct slice element)
{
	const json_t *template = f->parts.profile->fill.frame;
	bool is_odd = json_has_half_pair(element.at, element.len); /* a template would treat it as text */
	struct slice frame = template && !is_odd ? session_render_frame(f->session, template, false, element) : element;
	bool has_room = frame.len <= f->room;
	AUTO_FREE char *copy = frame.at ? memory_strndup(frame.at, frame.len) : NULL; /* session_read() reuses it */

	f->elements = has_room ? f->elements + 1 : PAGE_MAX;
	f->room -= has_room ? frame.len : 0; /* the template may repeat a variable */
	if (copy && has_room)
		session_read_part(f->session, copy, frame.len, &f->room, &handler, f);
}

static int compare(const void *a, const void *b)
{
	__int128 left = *(const __int128 *)a, right = *(const __int128 *)b;

	return (left > right) - (left < right);
}

/* Takes the page's numbers off both ends of the hole. Returns how many. */
static uint64_t shrink(struct fill *f)
{
	struct hole *h = f->first;
	__int128 before = h->to - h->from;
	size_t i = 0, n;

	if (f->number_count)
		qsort(f->numbers, f->number_count, sizeof(*f->numbers), compare);
	for (; i < f->number_count && f->numbers[i] <= h->from; i++)
		h->from += f->numbers[i] == h->from;
	for (n = f->number_count; n > i && f->numbers[n - 1] >= h->to; n--)
		h->to -= f->numbers[n - 1] == h->to;
	/* The numbers in the middle, once each. */
	f->number_count = 0;
	for (; i < n; i++)
		if (!f->number_count || f->numbers[f->number_count - 1] != f->numbers[i])
			f->numbers[f->number_count++] = f->numbers[i];
	return (uint64_t)(before - (h->to - h->from));
}

/* Moves the cursor to the page's end. Returns false if it is there already. */
static bool turn_page(struct fill *f)
{
	struct hole *h = f->first;
	struct slice mark = session_mark(f->session);

	if (!mark.at || (strlen(h->cursor) == mark.len && memcmp(h->cursor, mark.at, mark.len) == 0))
		return false;
	free(h->cursor);
	h->cursor = memory_strndup(mark.at, mark.len);
	return true;
}

static void end_page(struct fill *f)
{
	struct hole *h = f->first;
	uint64_t numbers = h->cursor ? 0 : shrink(f);
	bool is_over = h->cursor ? f->elements < (size_t)f->parts.profile->fill.max : h->from > h->to;

	f->filled += numbers;
	if (is_over) {
		finish(f);
	} else if ((h->cursor ? turn_page(f) : numbers > 0) && h->calls < CALLS_MAX) {
		backoff_reset(&h->backoff);
		h->due_ms = now_ms(f) + f->parts.profile->fill.every_ms;
	} else {
		retry(f, "the answers do not contain all of them", 0);
	}
}

static void read_page(struct fill *f, const struct request_answer *answer)
{
	const struct profile *p = f->parts.profile;
	struct slice body, array;
	struct json_walk w;

	if (json_check(answer->body, answer->len, &body)) {
		retry(f, "the answer is not JSON", 0);
		return;
	}
	array = json_find(body, p->fill.events);
	if (json_kind(array) != KIND_ARRAY) {
		retry(f, "the answer has no array where the profile's `fill` expects it", 0);
		return;
	}
	f->elements = f->number_count = f->given = 0;
	f->room = SESSION_ROOM(answer->len);
	w = json_walk(array);
	while (f->elements < PAGE_MAX && json_walk_next(&w)) {
		read_element(f, w.value);
		if (f->given > SESSION_USUAL(answer->len))
			f->elements = PAGE_MAX;
	}
	end_page(f);
}

/* False for other 4xx answers, which will not change. */
static bool may_be_repeated(int status)
{
	return status / 100 != 4 || status == 408 || status == 425 || status == 429;
}

static void on_answer(void *arg, const struct request_answer *answer)
{
	struct fill *f = arg;
	char why[FEED_CALL_REASON];

	f->request = NULL;
	if (feed_call_succeeded(answer, why)) {
		read_page(f, answer);
		return;
	}
	feed_client_mask(f->parts.client, why);
	/* Another listener may have a better way to the source, or other secrets. */
	if (f->parts.presence && (!answer->status || feed_call_is_about_access(answer->status)))
		presence_leave_lead(f->parts.presence, profile_row_source(f->parts.profile));
	if (may_be_repeated(answer->status))
		retry(f, why, answer->wait_ms);
	else
		give_up(f, why);
}

/* --- a call --- */

static void set_text(struct fill *f, const char *name, const char *json)
{
	session_set(f->session, name, (struct slice){json, strlen(json)});
}

static void set_key(struct fill *f, const struct hole *h)
{
	AUTO_BYTES json = {0};

	if (h->key)
		json_write_string(&json, h->key, h->key_len);
	set_text(f, "gap_key", h->key ? bytes_text(&json) : "null");
}

static void set_number(struct fill *f, const char *name, __int128 number)
{
	char text[GAP_NUMBER_BYTES];

	set_text(f, name, gap_write(number, text));
}

static void begin(struct fill *f)
{
	const struct hole *h = f->first;

	f->session = session_new(f->parts.profile, false);
	feed_client_hide(f->parts.client, f->session);
	f->number_count = 0;
	backoff_reset(&f->first->backoff);
	session_load(f->session, session_save(*f->parts.session));
	if (h->cursor)
		session_restore(f->session, (struct slice){h->cursor, strlen(h->cursor)}, time(NULL));
}

static void call(struct fill *f)
{
	const struct profile *p = f->parts.profile;
	struct hole *h = f->first;
	char why[FEED_CALL_REASON];

	if (!f->session)
		begin(f);
	if (h->cursor) {
		set_text(f, "cursor", h->cursor);
	} else {
		set_key(f, h);
		set_number(f, "gap_from", h->from);
		set_number(f, "gap_to", h->to);
		set_number(f, "gap_after", h->to + 1);
	}
	h->calls++;
	counters.fill_calls++;
	f->request = feed_call_send(f->parts.requests, p, f->session, p->fill.http, on_answer, f, why);
	if (!f->request)
		give_up(f, why);
}

/* A hole that was left to the leader for long must not hold up younger ones if this listener leads now. */
static void insert(struct fill *f, struct hole *h)
{
	struct hole **at = f->session ? &f->first->next : &f->first;

	while (*at && (*at)->due_ms <= h->due_ms)
		at = &(*at)->next;
	h->next = *at;
	*at = h;
}

/* The leader asks, unless it started after the hole. The others check LOOKS times whether they lead, waiting twice as
 * long each time: the leader may change every second, and each listener might leave the request to a former one. */
static void leave_first(struct fill *f)
{
	struct hole *h = f->first;

	if (++h->backoff.tries == LOOKS) {
		drop_first(f);
		return;
	}
	h->due_ms = now_ms(f) + (SETTLE_MS << h->backoff.tries);
	f->first = h->next;
	insert(f, h);
}

static void on_tick(uv_timer_t *timer)
{
	struct fill *f = timer->data;

	if (f->request || !f->first || now_ms(f) < f->first->due_ms || pipeline_is_full(f->parts.pipeline))
		return;
	if (!f->session && pipeline_is_led_elsewhere(f->parts.pipeline, f->parts.profile->name, f->first->came_ms))
		leave_first(f);
	else
		call(f);
}

/* --- what is missing --- */

static bool is_able(const struct fill *f)
{
	const char *needs = f->parts.profile->fill.needs;

	return !needs || session_var(*f->parts.session, needs).len > 2; /* "" */
}

static void add(struct fill *f, struct hole *h)
{
	if (f->count == HOLES_MAX) {
		tell_missing(f, h, "too many holes wait");
		free_hole(h);
		return;
	}
	h->came_ms = now_ms(f);
	h->due_ms = h->came_ms + SETTLE_MS;
	h->backoff = (struct backoff){.base_ms = 1000, .cap_ms = 60000};
	insert(f, h);
	if (!f->count++)
		uv_timer_start(&f->timer, on_tick, TICK_MS, TICK_MS);
}

void fill_hole(struct fill *f, const struct session_event *event)
{
	struct hole *h;
	__int128 number;

	if (!f || !f->parts.profile->fill.on_hole || !is_able(f) || !json_to_integer(event->gap_seq, &number))
		return;
	h = memory_calloc(1, sizeof(*h));
	h->from = number - (__int128)event->missing;
	h->to = number - 1;
	h->key = event->gap_key.at ? memory_strndup(event->gap_key.at, event->gap_key.len) : NULL;
	h->key_len = event->gap_key.len;
	add(f, h);
}

void fill_reconnected(struct fill *f)
{
	struct slice mark;
	struct hole *h;

	if (!f || !f->parts.profile->fill.on_reconnect || !is_able(f))
		return;
	mark = session_mark(*f->parts.session);
	if (!mark.at)
		return;
	h = memory_calloc(1, sizeof(*h));
	h->cursor = memory_strndup(mark.at, mark.len);
	add(f, h);
}

/* --- life --- */

struct fill *fill_new(const struct fill_parts *parts)
{
	struct fill *f;

	if (!parts->profile->fill.http)
		return NULL;
	f = memory_calloc(1, sizeof(*f));
	f->parts = *parts;
	f->source = memory_printf("%s#fill", profile_row_source(parts->profile));
	f->timer.data = f;
	uv_timer_init(parts->loop, &f->timer);
	return f;
}

uint64_t fill_filled(const struct fill *f)
{
	return f ? f->filled : 0;
}

void fill_close(struct fill *f)
{
	if (!f)
		return;
	if (f->request)
		request_cancel(f->request);
	f->request = NULL;
	uv_close((uv_handle_t *)&f->timer, NULL);
}

void fill_free(struct fill *f)
{
	if (!f)
		return;
	while (f->first)
		drop_first(f);
	free(f->numbers);
	free(f->source);
	free(f);
}
