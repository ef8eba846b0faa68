/* script.c owns the order of messages and their timetable: random choices, and copies that are due
 * later. It knows no texts, no sockets and no clock: time is an argument. */
#include "script.h"

#include <stddef.h>
#include <stdlib.h>

struct copy {
	uint64_t n; /* number of the event */
	int64_t due_ns;
};

/* Copies that are due later. All have the same delay, so first in is first out. */
struct waiting {
	struct copy *ring;
	size_t size;       /* size of the ring: a power of two, or 0 */
	size_t head, tail; /* copies removed and added so far */
};

struct script {
	struct script_form form;
	struct random random;
	struct waiting waiting;
	int64_t start_ns;    /* start of the timetable, moved by the pause */
	uint64_t events;     /* given out so far */
	uint64_t late;       /* copies of warm-up events given out so far */
	uint64_t malformed;  /* given out so far */
	bool copy_next;      /* the next message is a copy of the last event */
	bool malformed_next; /* the next message is malformed */
	bool is_resumed;     /* warm-up and pause are over */
	bool is_stopped;     /* no more events */
};

static bool waiting_grow(struct waiting *w)
{
	size_t size = w->size ? w->size * 2 : 1024;
	struct copy *ring = calloc(size, sizeof(*ring));

	if (!ring)
		return false;
	for (size_t i = w->head; i != w->tail; i++)
		ring[i & (size - 1)] = w->ring[i & (w->size - 1)];
	free(w->ring);
	w->ring = ring;
	w->size = size;
	return true;
}

static bool waiting_put(struct waiting *w, uint64_t n, int64_t due_ns)
{
	if (w->tail - w->head == w->size && !waiting_grow(w))
		return false;
	w->ring[w->tail++ & (w->size - 1)] = (struct copy){n, due_ns};
	return true;
}

/* The event whose copy is due, or 0. */
static uint64_t waiting_take(struct waiting *w, int64_t now_ns)
{
	const struct copy *first;

	if (w->head == w->tail)
		return 0;
	first = &w->ring[w->head & (w->size - 1)];
	if (first->due_ns > now_ns)
		return 0;
	w->head++;
	return first->n;
}

struct script *script_new(const struct script_form *form)
{
	struct script *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->form = *form;
	s->random.state = form->seed;
	s->is_resumed = !form->warm_up;
	return s;
}

void script_start(struct script *s, int64_t now_ns)
{
	s->start_ns = now_ns;
}

bool script_is_paused(const struct script *s)
{
	return !s->is_resumed && s->events >= s->form.warm_up;
}

void script_resume(struct script *s, int64_t now_ns)
{
	s->is_resumed = true;
	s->start_ns = now_ns;
	if (s->form.rate > 0)
		s->start_ns -= (int64_t)((double)s->events * 1e9 / s->form.rate);
}

int64_t script_planned_ns(const struct script *s, uint64_t n)
{
	if (s->form.rate <= 0)
		return 0;
	return s->start_ns + (int64_t)((double)(n - 1) * 1e9 / s->form.rate);
}

static bool has_more_events(const struct script *s)
{
	return !s->is_stopped && (!s->form.count || s->events < s->form.warm_up + s->form.count);
}

static bool has_late_copy(const struct script *s)
{
	if (!s->is_resumed || s->late >= s->form.warm_up)
		return false;
	return (double)(s->late + 1) <= (double)(s->events - s->form.warm_up) * s->form.late / 100;
}

/* Draws what follows the new event. If there is no memory for a delayed copy, it is sent at once. */
static void draw(struct script *s, int64_t now_ns)
{
	if (random_is_hit(&s->random, s->form.duplicates) &&
	    (!s->form.delay_ns || !waiting_put(&s->waiting, s->events, now_ns + s->form.delay_ns)))
		s->copy_next = true;
	s->malformed_next = random_is_hit(&s->random, s->form.malformed);
}

bool script_next(struct script *s, int64_t now_ns, struct script_step *step)
{
	uint64_t n;

	if (s->copy_next) {
		s->copy_next = false;
		*step = (struct script_step){SCRIPT_DUPLICATE, s->events};
		return true;
	}
	if (s->malformed_next) {
		s->malformed_next = false;
		*step = (struct script_step){SCRIPT_MALFORMED, ++s->malformed};
		return true;
	}
	if (has_late_copy(s)) {
		*step = (struct script_step){SCRIPT_DUPLICATE, ++s->late};
		return true;
	}
	n = waiting_take(&s->waiting, now_ns);
	if (n) {
		*step = (struct script_step){SCRIPT_DUPLICATE, n};
		return true;
	}
	if (!has_more_events(s) || script_is_paused(s) || script_planned_ns(s, s->events + 1) > now_ns)
		return false;
	*step = (struct script_step){SCRIPT_EVENT, ++s->events};
	draw(s, now_ns);
	return true;
}

void script_stop(struct script *s)
{
	s->is_stopped = true;
	s->copy_next = s->malformed_next = false;
	s->waiting.head = s->waiting.tail;
	s->late = s->form.warm_up;
}

bool script_is_over(const struct script *s)
{
	return !has_more_events(s) && !s->copy_next && !s->malformed_next && !has_late_copy(s) &&
	       s->waiting.head == s->waiting.tail;
}

void script_free(struct script *s)
{
	if (!s)
		return;
	free(s->waiting.ring);
	free(s);
}
