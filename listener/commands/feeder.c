/* feeder.c owns the feeding of a pipeline by a command: when to pull the next message, which outcome belongs to which
 * message, and the end. */
#include "commands/feeder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/memory.h"
#include "commands/dispatch.h"
#include "commands/session.h"
#include "base/list.h"

#define PULLS_PER_TURN 256
#define TICK_MS        200

/* A message without an outcome. */
struct ticket {
	struct sender sender; /* must be first: cast from sender to ticket */
	struct list link;     /* of feeder.tickets */
	struct feeder *feeder;
	uint64_t tag;
};

struct feeder {
	uv_loop_t loop;
	const struct config *config;
	struct feeder_owner owner;
	struct feeder_count *count;
	struct pipeline *pipeline;
	struct list tickets; /* in the order in which they were fed */
	uv_idle_t pulling;   /* runs while messages are pulled */
	uv_prepare_t turn;
	uv_timer_t later; /* until the next pull */
	uv_timer_t tick;
	uv_signal_t sigint;
	uv_signal_t sigterm;
	uint64_t claims_until; /* how long to wait for Redis (loop clock) */
	bool is_held;          /* the pipeline has no room */
	bool is_later;         /* the timer runs */
	bool is_over;          /* no more messages are pulled */
	bool is_draining;
	bool is_unusable;
};

/* A process has one pipeline at a time, since base/slab.h and others keep memory for one thread. */
static pthread_mutex_t pipeline_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_pulling(uv_idle_t *idle);

static void set_pulling(struct feeder *f)
{
	if (f->is_held || f->is_later || f->is_over)
		uv_idle_stop(&f->pulling);
	else
		uv_idle_start(&f->pulling, on_pulling);
}

/* --- messages in, outcomes out --- */

static void ticket_free(struct ticket *ticket)
{
	list_remove(&ticket->link);
	free(ticket);
}

static void on_answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	struct ticket *ticket = (struct ticket *)sender;
	struct feeder *f = ticket->feeder;

	switch (outcome) {
	case OUTCOME_PERSISTED:
		f->count->persisted++;
		break;
	case OUTCOME_DUPLICATE:
		f->count->duplicates++;
		break;
	case OUTCOME_REJECTED:
		f->count->rejected++;
		break;
	}
	if (f->owner.on_settled)
		f->owner.on_settled(f->owner.owner, ticket->tag, outcome,
				    outcome == OUTCOME_REJECTED ? ev->reason : NULL);
	ticket_free(ticket);
}

static struct ticket *ticket_new(struct feeder *f, uint64_t tag)
{
	struct ticket *ticket = memory_alloc(sizeof(*ticket));

	ticket->sender = (struct sender){.answer = on_answer};
	ticket->feeder = f;
	ticket->tag = tag;
	list_append(&f->tickets, &ticket->link);
	return ticket;
}

static void feed(struct feeder *f, const struct feeder_message *m)
{
	struct ticket *ticket = ticket_new(f, m->tag);

	if (m->digest)
		pipeline_refuse_long(f->pipeline, NULL, m->bytes, m->len, m->digest, m->total, &ticket->sender);
	else if (m->event)
		pipeline_receive_event(f->pipeline, m->event, &ticket->sender);
	else
		pipeline_receive(f->pipeline, m->bytes, m->len, f->owner.from, &ticket->sender);
	f->count->fed++;
}

static void stop(struct feeder *f)
{
	f->is_over = true;
	set_pulling(f);
}

static void on_later(uv_timer_t *timer)
{
	struct feeder *f = timer->data;

	f->is_later = false;
	set_pulling(f);
}

static void wait_ms(struct feeder *f, uint64_t ms)
{
	f->is_later = true;
	set_pulling(f);
	uv_timer_start(&f->later, on_later, ms, 0);
}

/* Messages that are fed before Redis answers go to the unique key alone, so it gets a moment. */
static bool is_waiting_for_claims(const struct feeder *f)
{
	const struct claim *claim = pipeline_claim(f->pipeline);

	return claim_is_used(claim) && !claim_is_ready(claim) && uv_now(&f->loop) < f->claims_until;
}

/* Pulls one message. Returns whether to pull the next one at once. */
static bool pull(struct feeder *f)
{
	struct feeder_message m = {.wait_ms = 10};

	if (is_waiting_for_claims(f)) {
		wait_ms(f, 2);
		return false;
	}
	switch (f->owner.pull(f->owner.owner, f, &m)) {
	case FEEDER_MESSAGE:
		feed(f, &m);
		return !f->is_held;
	case FEEDER_LATER:
		wait_ms(f, (uint64_t)m.wait_ms);
		return false;
	case FEEDER_END:
		stop(f);
		return false;
	case FEEDER_FAILED:
		break;
	}
	f->count->has_failed = true;
	stop(f);
	return false;
}

static void on_pulling(uv_idle_t *idle)
{
	struct feeder *f = idle->data;

	for (int i = 0; i < PULLS_PER_TURN && pull(f); i++)
		;
}

bool feeder_has(struct feeder *f, struct slice id)
{
	struct envelope_view view = {.id = id};

	events_hash(pipeline_events(f->pipeline), &view);
	return event_find(pipeline_events(f->pipeline), &view) != NULL;
}

/* --- the pipeline's callbacks --- */

static void on_pressure(void *arg, enum pressure pressure)
{
	struct feeder *f = arg;

	f->is_held = pressure != PRESSURE_NONE;
	set_pulling(f);
}

static void on_posted(void *arg)
{
	(void)arg;
}

static void on_close(uv_timer_t *timer);

/* Nothing can be stored, now or later. */
static void on_unusable(void *arg, const char *sentence, int status)
{
	struct feeder *f = arg;

	(void)status;
	dispatch_fail("%s", sentence);
	f->is_unusable = true;
	stop(f);
	uv_timer_start(&f->later, on_close, 0, 0);
}

static void on_pipeline_closed(void *arg)
{
	(void)arg;
}

static void on_close(uv_timer_t *timer)
{
	struct feeder *f = timer->data;
	uv_handle_t *handles[] = {(uv_handle_t *)&f->pulling, (uv_handle_t *)&f->turn,   (uv_handle_t *)&f->later,
				  (uv_handle_t *)&f->tick,    (uv_handle_t *)&f->sigint, (uv_handle_t *)&f->sigterm};

	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
		uv_close(handles[i], NULL);
	pipeline_close(f->pipeline, on_pipeline_closed, NULL);
}

static void on_drained(void *arg, size_t left)
{
	struct feeder *f = arg;

	(void)left;
	uv_timer_start(&f->later, on_close, 0, 0);
}

/* --- life --- */

static void drain(struct feeder *f)
{
	if (f->is_draining)
		return;
	f->is_draining = true;
	pipeline_drain(f->pipeline);
}

/* When all messages have settled, draining still waits until Redis has the marks of the last events. */
static void on_turn(uv_prepare_t *turn)
{
	struct feeder *f = turn->data;

	if (f->is_over && list_is_empty(&f->tickets))
		drain(f);
}

static void interrupt(struct feeder *f)
{
	f->count->is_interrupted = true;
	stop(f);
	drain(f);
}

/* Returns the tag of the oldest message without an outcome, or UINT64_MAX. */
static uint64_t oldest(const struct feeder *f)
{
	return list_is_empty(&f->tickets) ? UINT64_MAX : list_entry(f->tickets.next, struct ticket, link)->tag;
}

static void on_tick(uv_timer_t *timer)
{
	struct feeder *f = timer->data;

	f->count->oldest = oldest(f);
	f->owner.on_tick(f->owner.owner);
	if (session_is_late())
		interrupt(f);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct feeder *f = handle->data;

	(void)number;
	if (f->count->is_interrupted) {
		fflush(stdout);
		_exit(STATUS_FAILED);
	}
	interrupt(f);
}

static void start_handles(struct feeder *f)
{
	uv_idle_init(&f->loop, &f->pulling);
	uv_prepare_init(&f->loop, &f->turn);
	uv_timer_init(&f->loop, &f->later);
	uv_timer_init(&f->loop, &f->tick);
	uv_signal_init(&f->loop, &f->sigint);
	uv_signal_init(&f->loop, &f->sigterm);
	f->pulling.data = f->turn.data = f->later.data = f->tick.data = f->sigint.data = f->sigterm.data = f;
	uv_prepare_start(&f->turn, on_turn);
	uv_timer_start(&f->tick, on_tick, TICK_MS, TICK_MS);
	uv_signal_start(&f->sigint, on_signal, SIGINT);
	uv_signal_start(&f->sigterm, on_signal, SIGTERM);
}

int feeder_run(const struct config *config, const struct feeder_owner *owner, struct feeder_count *count)
{
	struct feeder f = {.config = config, .owner = *owner, .count = count};
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, &f};

	*count = (struct feeder_count){.oldest = UINT64_MAX};
	if (uv_loop_init(&f.loop)) {
		dispatch_fail("the event loop cannot start");
		return -1;
	}
	list_init(&f.tickets);
	start_handles(&f);
	pthread_mutex_lock(&pipeline_lock);
	f.pipeline = pipeline_open(&f.loop, config, &on);
	pipeline_doubt_marks(f.pipeline);
	f.claims_until = uv_now(&f.loop) + (uint64_t)config->redis_timeout_ms;
	set_pulling(&f);
	uv_run(&f.loop, UV_RUN_DEFAULT);
	uv_loop_close(&f.loop);
	count->oldest = oldest(&f);
	list_each(node, after, &f.tickets) /* those without an outcome when --drain-timeout was over */
		ticket_free(list_entry(node, struct ticket, link));
	pthread_mutex_unlock(&pipeline_lock);
	return f.is_unusable ? -1 : 0;
}
