/* feeder.c feeds a pipeline for a command: when there is room, which outcome belongs to which message, and the end. */
#include "commands/feeder.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

#include "base/memory.h"
#include "commands/dispatch.h"
#include "commands/interrupt.h"
#include "commands/session.h"
#include "base/list.h"

#define FED_PER_TURN 256
#define TICK_MS      200

/* A message without an outcome. */
struct ticket {
	struct sender sender; /* must be first: cast from sender to ticket */
	struct list link;     /* in feeder.tickets */
	struct feeder *feeder;
	uint64_t tag;
};

struct feeder {
	uv_loop_t loop;
	const struct config *config;
	const struct feeder_owner *owner;
	struct feeder_count *count;
	struct pipeline *pipeline;
	struct list tickets; /* in the order in which they were fed */
	uv_timer_t pause;
	uv_timer_t tick;
	json_t *names; /* names of sources; events in flight point to them, and an object's keys do not move */
	bool is_held;  /* the pipeline has no room */
	bool is_drained;
	bool is_unusable; /* nothing can be stored, now or later */
};

/* A process has one pipeline at a time, since base/slab.h and others keep memory for one thread. */
static pthread_mutex_t pipeline_lock = PTHREAD_MUTEX_INITIALIZER;

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
	if (f->owner->on_settled)
		f->owner->on_settled(f->owner->owner, ticket->tag, outcome,
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

const char *feeder_keep_name(struct feeder *f, const char *name)
{
	json_object_set_new_nocheck(f->names, name, json_true());
	return json_object_iter_key(json_object_iter_at(f->names, name));
}

void feeder_feed(struct feeder *f, const struct feeder_message *m)
{
	struct ticket *ticket = ticket_new(f, m->tag);

	if (m->reason)
		pipeline_refuse(f->pipeline, m->event->source, m->bytes, m->len, m->reason, &ticket->sender);
	else if (m->event)
		pipeline_receive_event(f->pipeline, m->event, &ticket->sender);
	else
		pipeline_receive(f->pipeline, m->bytes, m->len, f->owner->from, &ticket->sender);
	f->count->fed++;
}

bool feeder_has(struct feeder *f, struct slice id)
{
	struct envelope_view view = {.id = id};

	events_hash(pipeline_events(f->pipeline), &view);
	return event_find(pipeline_events(f->pipeline), &view) != NULL;
}

static bool may_feed(const struct feeder *f)
{
	return !f->count->is_interrupted && !f->is_unusable;
}

bool feeder_has_room(struct feeder *f)
{
	if (f->count->fed % FED_PER_TURN == 0)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	while (f->is_held && may_feed(f))
		uv_run(&f->loop, UV_RUN_ONCE);
	return may_feed(f);
}

static void on_paused(uv_timer_t *timer)
{
	(void)timer;
}

bool feeder_pause(struct feeder *f, int64_t ms)
{
	uv_timer_start(&f->pause, on_paused, (uint64_t)ms, 0);
	while (uv_is_active((uv_handle_t *)&f->pause) && may_feed(f))
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_timer_stop(&f->pause);
	return may_feed(f);
}

/* --- callbacks --- */

static void on_pressure(void *arg, enum pressure pressure)
{
	struct feeder *f = arg;

	f->is_held = pressure != PRESSURE_NONE;
	if (!f->is_held)
		uv_stop(&f->loop); /* feed at once: perhaps nothing else ends this turn of the loop */
}

static void on_posted(void *arg)
{
	(void)arg;
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	struct feeder *f = arg;

	(void)status;
	dispatch_fail("%s", sentence);
	f->is_unusable = true;
}

static void on_drained(void *arg, size_t left)
{
	(void)left;
	((struct feeder *)arg)->is_drained = true;
}

static void on_pipeline_closed(void *arg)
{
	(void)arg;
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
	f->owner->on_tick(f->owner->owner);
	f->count->is_interrupted = interrupt_has_come() || session_is_late();
}

/* --- life --- */

static void start_handles(struct feeder *f)
{
	uv_timer_init(&f->loop, &f->pause);
	uv_timer_init(&f->loop, &f->tick);
	f->tick.data = f;
	uv_timer_start(&f->tick, on_tick, TICK_MS, TICK_MS);
	interrupt_watch();
}

static json_t *describe(void *arg)
{
	return json_pack("{s:I}", "settled_us", (json_int_t)pipeline_settled_us(((struct feeder *)arg)->pipeline));
}

/* Messages that are fed before Redis answers go to the unique key alone, so it gets a moment. wsonce export knows of
 * a command from its check-in, and prints rows received before. */
static void wait_for_servers(struct feeder *f)
{
	const struct claim *claim = pipeline_claim(f->pipeline);
	uint64_t until = uv_now(&f->loop) + (uint64_t)f->config->redis_timeout_ms;

	while (claim_is_used(claim) && !claim_is_ready(claim) && uv_now(&f->loop) < until && feeder_pause(f, 2))
		;
	while (!storing_has_checked_in(pipeline_storing(f->pipeline)) && feeder_pause(f, 2))
		;
}

static void open_pipeline(struct feeder *f)
{
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, f};

	list_init(&f->tickets);
	start_handles(f);
	pthread_mutex_lock(&pipeline_lock);
	f->pipeline = pipeline_open(&f->loop, f->config, &on);
	pipeline_doubt_marks(f->pipeline);
	storing_on_checkin(pipeline_storing(f->pipeline), describe, f);
	wait_for_servers(f);
}

/* When all messages have settled, draining still waits until Redis has the marks of the last events. */
static void settle(struct feeder *f)
{
	while (may_feed(f) && !list_is_empty(&f->tickets))
		uv_run(&f->loop, UV_RUN_ONCE);
	if (!f->is_unusable)
		pipeline_drain(f->pipeline);
	while (!f->is_unusable && !f->is_drained)
		uv_run(&f->loop, UV_RUN_ONCE);
}

static void close_pipeline(struct feeder *f)
{
	uv_close((uv_handle_t *)&f->pause, NULL);
	uv_close((uv_handle_t *)&f->tick, NULL);
	pipeline_close(f->pipeline, on_pipeline_closed, NULL);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	uv_loop_close(&f->loop);
	f->count->oldest = oldest(f);
	list_each(node, after, &f->tickets) /* these had no outcome when --drain-timeout was over */
		ticket_free(list_entry(node, struct ticket, link));
	pthread_mutex_unlock(&pipeline_lock);
}

int feeder_run(const struct config *config, const struct feeder_owner *owner, struct feeder_count *count)
{
	struct feeder f = {.config = config, .owner = owner, .count = count, .names = json_object()};

	*count = (struct feeder_count){.oldest = UINT64_MAX};
	if (uv_loop_init(&f.loop)) {
		json_decref(f.names);
		dispatch_fail("the event loop cannot start");
		return -1;
	}
	open_pipeline(&f);
	owner->feed(owner->owner, &f);
	settle(&f);
	close_pipeline(&f);
	json_decref(f.names);
	return f.is_unusable ? -1 : 0;
}
