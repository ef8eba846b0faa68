/* world.c owns the plan of a history and everything around the listeners: feeds, producers, and what starts, stops and
 * disturbs listeners. checker.c decides what is right. */
#include "world.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feeds.h"
#include "files.h"
#include "redis.h"
#include "steps.h"
#include "intake/profiled.h"
#include "outbox/relay.h"
#include "pipeline/pipeline.h"
#include "spool/spool.h"

#define SECOND      INT64_C(1000000)
#define TOUCHES_MAX 256
#define BEHIND_MAX  8
#define SPOOL_MOST  (UINT64_C(1) << 30)
#define SLOW_EVENTS 300

/* One life of a listener. */
struct life {
	int process, number;
	struct pipeline *pipeline; /* freed with the process */
	struct spool *spool;       /* the same; NULL: none */
	struct relay *relay;       /* the same; NULL without webhooks */
	struct profiles *profiles; /* the same; NULL if the feed is plain */
	bool is_draining, is_over;
	int parts;   /* number of parts that still drain */
	size_t left; /* events left in the pipeline */
};

/* A message sent by a producer. The first member must be the program's struct sender. */
struct sent {
	struct sender sender;
	struct producer *producer;
	struct life *life;
	int message;
	bool is_answered;
};

struct producer {
	int number, listener;
	unsigned int connection; /* number of the connection */
	bool is_connected;
	struct life *life;
	int unacked[MESSAGES_MAX];
	int count;
};

struct touch {
	const char *prefix;
	int64_t until;
	bool may_refuse;
};

static struct {
	struct plan *plan;
	struct life *lives[SIM_LISTENERS];
	int life_count;
	struct producer producers[PRODUCERS_MAX];
	int64_t wide_until, redis_until, postgres_until, disturbed_until[SIM_LISTENERS];
	int64_t deaf_until[SIM_LISTENERS];
	int64_t still_us[SIM_LISTENERS]; /* how long it freezes when it delivers */
	struct touch touches[TOUCHES_MAX];
	int touch_count;
	bool was_silent;    /* Postgres was silent to a listener */
	int64_t late_until; /* what was sent into such a silence may arrive until then, also after all faults ceased */
	bool may_refuse;    /* any event may be a dead letter */
	bool is_narrow;     /* the starting fault has called sim_touches() */
	bool is_calm;
} world;

static struct config configs[SIM_LISTENERS];

/* --- the plan --- */

#define FAULTS 12
static const struct sim_fault world_faults[FAULTS + 1], lease_faults[2], listener_machine, power_faults[3];

static bool pick(unsigned int mask, int bit)
{
	return mask >> bit & 1;
}

static int64_t one_of(const int64_t *values, size_t n)
{
	return values[sim_below(n)];
}

#define ONE_OF(...) one_of((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

bool plans_are_without_redis;

static void make_settings(struct settings *s)
{
	*s = (struct settings){
		.listeners = (int)ONE_OF(1, 2, 3, 3, 3, 4, 5),
		.ttl_s = ONE_OF(2, 3, 5, 10),
		.redis_timeout_ms = ONE_OF(500, 1000, 2000),
		.postgres_timeout_ms = ONE_OF(1000, 3000, 5000),
		.batch_max = ONE_OF(1, 7, 100, 4000, 4000),
		.max_attempts = ONE_OF(1, 2, 3, 5),
		.drain_ms = ONE_OF(500, 2000, 5000),
		.has_redis = sim_chance(950),
		.has_handler = sim_chance(250),
		.lasts = (sim_chance(300) ? sim_between(20, 35) : sim_between(2, 20)) * SECOND,
	};
	s->has_redis &= !plans_are_without_redis;
}

static const char *message_text(const char *id, int64_t time_us, const char *payload)
{
	return sim_print("{\"event_id\":\"%s\",\"event_type\":\"t\"%s,\"payload\":%s}", id,
			 time_us ? sim_print(",\"time\":%lld", (long long)time_us) : "", payload);
}

static void set_bytes(struct message *m, const char *bytes)
{
	m->bytes = bytes;
	m->len = strlen(bytes);
	SHA256((const unsigned char *)bytes, m->len, m->digest);
}

static void add_message(struct plan *p, int event, const char *bytes, const char *payload, bool is_poison)
{
	struct message *m = &p->messages[p->message_count++];

	*m = (struct message){.event = event,
			      .payload = payload,
			      .payload_len = payload ? strlen(payload) : 0,
			      .is_poison = is_poison};
	set_bytes(m, bytes);
}

/* Makes an event: its message, and sometimes other messages with the same id, some of which can never be stored. */
static void make_event(struct plan *p, int event)
{
	int variants = sim_chance(150) ? (int)sim_between(2, 3) : sim_chance(3) ? (int)sim_between(9, 14) : 1;

	p->ids[event] = sim_print("%c-%d", 'a' + (int)sim_below(4), event);
	for (int v = 0; v < variants; v++) {
		bool is_poison = sim_chance(variants > 1 ? 400 : 30);
		const char *payload = is_poison ? sim_print("{\"v\":%d,\"text\":\"\\u0000\"}", v)
						: sim_print("{\"v\":%d,\"n\":%d}", v, event);

		if (p->message_count < MESSAGES_MAX)
			add_message(p, event, message_text(p->ids[event], 0, payload), payload, is_poison);
	}
}

static void add_deed(struct plan *p, struct deed d)
{
	d.number = p->deed_count;
	if (p->deed_count < DEEDS_MAX)
		p->deeds[p->deed_count++] = d;
}

/* A feed sends to all listeners, some copies get lost and some are repeated; or a producer sends to one listener. */
static void make_deliveries(struct plan *p, int message, int producers, int64_t at, int repeats)
{
	unsigned int all = (1u << p->settings.listeners) - 1, to = all;

	if (producers && sim_chance(300)) {
		add_deed(p, (struct deed){.kind = DEED_PRODUCE,
					  .at = at,
					  .message = message,
					  .to = (unsigned int)sim_below((uint64_t)producers)});
		if (sim_chance(700))
			return;
	}
	for (int i = 0; i < p->settings.listeners; i++)
		if (sim_chance(80))
			to &= ~(1u << i);
	add_deed(p, (struct deed){.kind = DEED_FEED, .at = at, .message = message, .to = to ? to : all});
	if (sim_chance(repeats))
		add_deed(p, (struct deed){.kind = DEED_FEED,
					  .at = at + sim_between(0, repeats > 100 ? p->settings.lasts / 2 : 3 * SECOND),
					  .message = message,
					  .to = all});
}

/* Swarm testing (Groce and others, 2012): each history has only some kinds of faults, so that the others do not hide
 * their effects. */
static void choose_faults(struct plan *p, const struct sim_fault *faults, int count, bool is_narrow)
{
	const struct sim_fault *chosen[64];
	int n = 0, weights = 0;

	for (const struct sim_fault *f = faults; f->name; f++)
		if (n < 64 && (f->is_narrow || !is_narrow) && sim_chance(350)) {
			chosen[n++] = f;
			weights += f->weight;
		}
	for (int i = 0; n && i < count; i++) {
		int at = (int)sim_below((uint64_t)weights), k = 0;
		struct deed d = {
			.kind = DEED_FAULT, .at = (int64_t)sim_below((uint64_t)p->settings.lasts), .draw = sim_draw()};

		while (at >= chosen[k]->weight)
			at -= chosen[k++]->weight;
		d.fault = chosen[k];
		d.lasts = sim_chance(500)   ? sim_between(1000, SECOND)
			  : sim_chance(600) ? sim_between(SECOND, p->settings.lasts)
					    : p->settings.lasts;
		add_deed(p, d);
	}
}

static int compare_deeds(const void *a, const void *b)
{
	const struct deed *x = a, *y = b;

	return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->number - y->number;
}

/* Drawn last, so that histories without webhooks did not change when webhooks were added. */
static void add_hooks(struct plan *p, int faults)
{
	if (!sim_chance(200))
		return;
	p->settings.hooks = (int)sim_between(1, HOOKS_MAX);
	p->settings.hook_attempts = ONE_OF(1, 3, 8, 50);
	if (sim_chance(700))
		choose_faults(p, sim_receiver_faults, faults / 2, false);
	if (sim_chance(300))
		choose_faults(p, sim_operator_faults, faults / 4, false);
	if (sim_chance(300))
		choose_faults(p, lease_faults, faults / 8, false);
}

/* Also drawn last. The list is made here, because each server has its own fault. */
static void add_machines(struct plan *p, int faults, bool is_narrow)
{
	const struct sim_fault machines[] = {listener_machine,
					     sim_postgres_machine,
					     p->settings.has_redis ? sim_redis_machine : listener_machine,
					     {NULL}};

	if (sim_chance(150))
		choose_faults(p, memcpy(sim_alloc(sizeof(machines)), machines, sizeof(machines)), faults / 3,
			      is_narrow);
}

static const struct sim_fault *find_fault(const struct sim_fault *faults, const char *name)
{
	while (strcmp(faults->name, name) != 0)
		faults++;
	return faults;
}

/* Commits are no longer durable while listeners leave and others still work on events from before. */
static void add_forgetting(struct plan *p, int faults)
{
	const struct sim_fault some[] = {*find_fault(sim_postgres_faults, "postgres: crashes and forgets"),
					 *find_fault(sim_postgres_faults, "postgres: statements hang"),
					 *find_fault(world_faults, "listener: drained and started again"),
					 {NULL}};

	choose_faults(p, memcpy(sim_alloc(sizeof(some)), some, sizeof(some)), faults, false);
}

/* Also drawn last. */
static void choose_feed(struct plan *p, int faults, bool is_narrow)
{
	struct feed_settings *f = &p->settings.feed;

	if (!sim_chance(250))
		return;
	*f = (struct feed_settings){.kind = (enum feed_kind)sim_between(FEED_CURSOR, FEED_CUMULATIVE),
				    .is_last = sim_chance(300),
				    .rewind = (int)ONE_OF(0, 0, 1, 3),
				    .max_unacked = (int)ONE_OF(0, 1, 4, 50),
				    .overlap_s = (int)ONE_OF(0, 0, 10)};
	f->is_last &= f->kind != FEED_HELD;
	if (!is_narrow && sim_chance(300))
		add_forgetting(p, faults / 2);
	for (int i = 0; i < p->message_count; i++)
		if (p->messages[i].event >= 0)
			feeds_digest(p->ids[p->messages[i].event], p->messages[i].payload, p->messages[i].feed_digest);
	for (int i = 0; i < p->deed_count; i++)
		if (p->deeds[i].kind == DEED_FEED)
			p->deeds[i].draw = sim_draw();
}

/* Also drawn last. What feeds with a profile send comes again, so it is not spooled. */
static void choose_spool(struct plan *p, int faults, bool is_narrow)
{
	struct settings *s = &p->settings;

	s->inflight_bytes = 256 << 20;
	if (s->feed.kind != FEED_PLAIN || !sim_chance(250))
		return;
	s->has_spool = true;
	s->spool_after_ms = ONE_OF(0, 0, 20, 100);
	s->spool_sync_ms = ONE_OF(50, 1000);
	s->inflight_bytes = ONE_OF(8 << 10, 32 << 10, 256 << 20);
	if (sim_chance(500))
		choose_faults(p, sim_disk_faults, faults / 3, is_narrow);
	if (sim_chance(700))
		choose_faults(p, power_faults, 1 + faults / 4, is_narrow);
}

static int64_t first_sent(const struct plan *p, int message)
{
	int64_t at = INT64_MAX;

	for (int i = 0; i < p->deed_count; i++)
		if (p->deeds[i].kind != DEED_FAULT && p->deeds[i].message == message && p->deeds[i].at < at)
			at = p->deeds[i].at;
	return at == INT64_MAX ? 0 : at;
}

/* Also drawn last. Some messages are too old when they are sent, others become it before they can be stored. */
static void choose_max_age(struct plan *p)
{
	int64_t limit_us;

	if (p->settings.feed.kind != FEED_PLAIN || !sim_chance(150))
		return;
	p->settings.max_age_s = ONE_OF(1, 3, 8);
	limit_us = p->settings.max_age_s * SECOND;
	for (int i = 0; i < p->message_count; i++) {
		struct message *m = &p->messages[i];
		int64_t age_us = sim_chance(100) ? sim_between(limit_us, 2 * limit_us) : sim_between(0, limit_us / 2);

		if (m->event < 0)
			continue;
		m->time_us = sim_wall() + first_sent(p, i) - age_us;
		set_bytes(m, message_text(p->ids[m->event], m->time_us, m->payload));
	}
}

/* Also drawn last. A feed at a high rate, and a leader that stores some of its events five seconds late. With larger
 * batches, whose answers are later, the leader may stall: then it gives its claims back, and claims more often. */
static void choose_slow_leader(struct plan *p)
{
	if (fault_point_is_on() || !p->settings.has_redis || !sim_chance(20))
		return;
	p->settings = (struct settings){.listeners = (int)sim_between(2, 5),
					.ttl_s = p->settings.ttl_s,
					.redis_timeout_ms = p->settings.redis_timeout_ms,
					.postgres_timeout_ms = 5000,
					.batch_max = ONE_OF(2, 3, 4),
					.max_attempts = p->settings.max_attempts,
					.drain_ms = p->settings.drain_ms,
					.has_redis = true,
					.inflight_bytes = 256 << 20,
					.lasts = 12 * SECOND};
	p->settings.slow_us = 2 * 5 * SECOND * p->settings.batch_max / SLOW_EVENTS;
	p->events = p->message_count = p->deed_count = 0;
	for (int e = 0; e < SLOW_EVENTS; e++) {
		const char *payload = sim_print("{\"v\":%d,\"n\":%d}", e % 3, e);

		p->ids[p->events++] = sim_print("%c-%d", 'a' + e % 4, e);
		add_message(p, e, message_text(p->ids[e], 0, payload), payload, false);
		add_deed(p, (struct deed){.kind = DEED_FEED,
					  .at = 4 * SECOND + (int64_t)sim_below(SECOND / 2),
					  .message = e,
					  .to = (1u << p->settings.listeners) - 1});
	}
}

void plan_make(struct plan *p)
{
	int producers = (int)sim_below(PRODUCERS_MAX), faults = (int)sim_below(24);
	bool is_crowd = sim_chance(100);  /* enough events at once that listeners look before COPY */
	bool is_narrow = sim_chance(400); /* faults of some events must not affect the others */
	bool has_bursts = sim_chance(400);
	int repeats = sim_chance(200) ? 700 : 100; /* repeated copies per thousand; some feeds repeat many */
	unsigned int kinds = (unsigned int)sim_below(8);

	*p = (struct plan){.events = is_crowd ? (int)sim_between(150, 300) : (int)sim_between(5, 70)};
	make_settings(&p->settings);
	for (int e = 0; e < p->events; e++)
		make_event(p, e);
	if (sim_chance(300))
		add_message(p, -1, sim_chance(500) ? "{\"event_type\":\"t\"}" : "not JSON", NULL, true);
	for (int m = 0; m < p->message_count; m++) {
		int64_t at = (int64_t)sim_below((uint64_t)p->settings.lasts);

		if (has_bursts)
			at = p->settings.lasts / 3 * (at % 3) + at % 5000;
		if (is_crowd && m % 300 < 200)
			at = p->settings.lasts / 4 * (m / 300 + 1) + (int64_t)sim_below(3000);
		make_deliveries(p, m, producers, at, repeats);
	}
	if (pick(kinds, 0))
		choose_faults(p, world_faults, faults / 2, is_narrow);
	if (pick(kinds, 1) && p->settings.has_redis)
		choose_faults(p, sim_redis_faults, faults / 2, is_narrow);
	if (pick(kinds, 2))
		choose_faults(p, sim_postgres_faults, faults / 2, is_narrow);
	add_hooks(p, faults);
	add_machines(p, faults, is_narrow);
	if (p->settings.has_handler && sim_chance(200))
		choose_faults(p, sim_handler_faults, 1 + faults / 8, is_narrow);
	choose_feed(p, faults, is_narrow);
	choose_spool(p, faults, is_narrow);
	p->settings.has_order = p->settings.feed.kind == FEED_PLAIN && sim_chance(100);
	choose_max_age(p);
	choose_slow_leader(p);
	qsort(p->deeds, (size_t)p->deed_count, sizeof(*p->deeds), compare_deeds);
}

void plan_tell(const struct plan *p)
{
	const struct settings *s = &p->settings;
	int left = 0;

	for (int i = 0; i < p->deed_count; i++)
		left += !p->deeds[i].is_left_out;
	sim_log(SIM_NOBODY,
		"%d listeners, %d events, %d messages, %d of %d deeds; --claim-ttl %d --redis-timeout %.1f "
		"--postgres-timeout "
		"%.1f --batch-max %d --max-attempts %d --drain-timeout %.1f%s%s, %d webhooks%s%s%s%s",
		s->listeners, p->events, p->message_count, left, p->deed_count, (int)s->ttl_s,
		(double)s->redis_timeout_ms / 1000, (double)s->postgres_timeout_ms / 1000, (int)s->batch_max,
		(int)s->max_attempts, (double)s->drain_ms / 1000, s->has_redis ? "" : " --redis none",
		s->has_handler ? " --handler" : "", s->hooks, s->has_order ? ", --order-pointer /payload/v" : "",
		s->max_age_s ? sim_print(", --max-age %d", (int)s->max_age_s) : "", feeds_describe(&s->feed),
		s->has_spool ? sim_print(", --spool-after %dms --spool-sync %dms --max-inflight-bytes %d",
					 (int)s->spool_after_ms, (int)s->spool_sync_ms, (int)s->inflight_bytes)
			     : "");
	if (s->slow_us)
		sim_log(SIM_NOBODY, "each answer of Postgres comes %.1f s late", (double)s->slow_us / 1e6);
}

/* --- listeners --- */

static void start_listener(int process);

static void on_pressure(void *arg, enum pressure pressure)
{
	(void)arg, (void)pressure;
}

static void on_posted(void *arg)
{
	const struct life *l = arg;

	if (l->relay)
		relay_wake(l->relay);
}

static void restart(void *arg)
{
	const struct life *const *l = arg;
	int process = (*l)->process;

	if (world.lives[process]->is_over)
		start_listener(process);
}

static void end_life(struct life *l, bool is_in_order, int64_t back_after)
{
	struct life **at = sim_alloc(sizeof(*at));

	*at = l;
	l->is_over = true;
	feeds_died(l->process);
	checker_ended(l->process, l->number, is_in_order);
	sim_at(back_after, restart, at);
}

static void on_closed(void *arg)
{
	struct life *l = arg;

	end_life(l, l->left == 0, sim_between(1000, 2 * SECOND));
	process_exit();
}

/* Of what pipeline_close() does, only closing the spool matters to others: it syncs. */
static void on_part_drained(void *arg)
{
	struct life *l = arg;

	if (--l->parts)
		return;
	if (l->spool && !l->left)
		spool_close(l->spool, on_closed, l);
	else
		on_closed(l);
}

static void on_drained(void *arg, size_t left)
{
	struct life *l = arg;

	sim_log(l->process, "drained, %zu left", left);
	l->left = left;
	on_part_drained(l);
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	struct life *l = arg;

	sim_log(l->process, "cannot start, exit status %d: %s", status, sentence);
	end_life(l, false, sim_between(SECOND / 2, SECOND));
	process_exit();
}

static struct spool *open_spool(uv_loop_t *loop, struct life *l)
{
	char error[200];
	struct spool *spool;

	files_start_process(true);
	spool = spool_open(loop, files_directory(l->process), SPOOL_MOST, world.plan->settings.spool_sync_ms, error,
			   sizeof(error));
	files_start_process(false);
	if (!spool)
		on_unusable(l, error, 1);
	return spool;
}

static void run_listener(uv_loop_t *loop)
{
	struct life *l = world.lives[sim_self()];
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, l};

	l->spool = world.plan->settings.has_spool ? open_spool(loop, l) : NULL;
	l->pipeline = pipeline_open(loop, &configs[l->process], &on);
	pipeline_use_spool(l->pipeline, l->spool);
	if (feeds_profile())
		l->profiles = profiles_open(
			&(struct profiled_parts){.loop = loop, .config = &configs[l->process], .pipeline = l->pipeline},
			configs[l->process].feeds, configs[l->process].feed_count);
	if (configs[l->process].webhooks.count)
		l->relay = relay_open(loop, &configs[l->process]);
}

static void start_listener(int process)
{
	struct life *l = sim_alloc(sizeof(*l));

	*l = (struct life){.process = process, .number = world.life_count++};
	world.lives[process] = l;
	sim_log(process, "starts");
	checker_started(process);
	process_start(process, run_listener);
}

static bool is_up(int process)
{
	return world.lives[process] && !world.lives[process]->is_over && process_is_alive(process);
}

/* --- feeds --- */

struct handed {
	struct life *life;
	int message;
	struct sent *sent;
};

/* In the listener's loop. */
static void receive(void *arg)
{
	const struct handed *h = arg;
	const struct message *m = &world.plan->messages[h->message];

	if (h->life->is_over || h->life != world.lives[h->life->process])
		return;
	if (h->life->is_draining && !h->sent) /* it has closed its feeds */
		return;
	sim_log(sim_self(), "receives %.*s%s", (int)m->len, m->bytes, h->sent ? " from a producer" : "");
	checker_received(sim_self(), h->life->number, h->message);
	steps_receiving();
	pipeline_receive(h->life->pipeline, m->bytes, m->len, "feed", h->sent ? &h->sent->sender : NULL);
	steps_received();
}

static void hand_over(struct life *l, int message, struct sent *sent)
{
	struct handed *h = sim_alloc(sizeof(*h));

	*h = (struct handed){l, message, sent};
	process_call(l->process, receive, h);
}

struct copy_of {
	int listener, message;
};

static void deliver(void *arg)
{
	const struct copy_of *c = arg;

	if (!is_up(c->listener) || world.lives[c->listener]->is_draining || sim_now() < world.deaf_until[c->listener])
		return;
	hand_over(world.lives[c->listener], c->message, NULL);
}

static void feed(const struct deed *d)
{
	if (feeds_profile()) {
		feeds_publish(d->message, d->to, d->draw);
		return;
	}
	for (int i = 0; i < world.plan->settings.listeners; i++) {
		struct copy_of *c = sim_alloc(sizeof(*c));

		if (!(d->to >> i & 1))
			continue;
		*c = (struct copy_of){i, d->message};
		sim_at(sim_chance(30) ? sim_between(0, 500000) : sim_between(10, 3000), deliver, c);
	}
}

/* --- producers, which resend unacked messages --- */

static void connect_producer(void *arg);

struct answered {
	struct sent *sent;
	unsigned int connection;
};

static void on_ack(void *arg)
{
	const struct answered *a = arg;
	struct producer *p = a->sent->producer;

	if (a->connection != p->connection || !p->is_connected)
		return;
	for (int i = 0; i < p->count; i++)
		if (p->unacked[i] == a->sent->message) {
			p->unacked[i] = p->unacked[--p->count];
			return;
		}
}

static void answer(struct sender *s, const struct event *ev, enum outcome outcome)
{
	static const char *const names[] = {"persisted", "duplicate", "rejected"};
	struct sent *sent = (struct sent *)s;
	struct answered *a = sim_alloc(sizeof(*a));

	(void)ev;
	if (sent->is_answered)
		process_fail("a message was answered twice");
	sent->is_answered = true;
	sim_log(sim_self(), "acks message %d: %s", sent->message, names[outcome]);
	sim_reached("ack", names[outcome]);
	checker_acked(sim_self(), sent->message, (enum word)outcome);
	*a = (struct answered){sent, sent->producer->connection};
	sim_at(sim_between(20, 300), on_ack, a);
}

static void send_message(struct producer *p, int message)
{
	struct sent *s = sim_alloc(sizeof(*s));

	*s = (struct sent){{.answer = answer, .resends = true}, p, p->life, message, false};
	hand_over(p->life, message, s);
}

/* The producer notices that its listener is gone, and tries the next one. */
static void watch_producer(void *arg)
{
	struct producer *p = arg;

	if (p->is_connected && (p->life->is_over || p->life != world.lives[p->listener])) {
		p->is_connected = false;
		p->listener = (p->listener + 1) % world.plan->settings.listeners;
	}
	if (!p->is_connected)
		connect_producer(p);
	sim_at(200000, watch_producer, p);
}

static void connect_producer(void *arg)
{
	struct producer *p = arg;

	if (!is_up(p->listener) || world.lives[p->listener]->is_draining) {
		p->listener = (p->listener + 1) % world.plan->settings.listeners;
		return;
	}
	p->life = world.lives[p->listener];
	p->is_connected = true;
	p->connection++;
	for (int i = 0; i < p->count; i++)
		send_message(p, p->unacked[i]);
}

static void produce(const struct deed *d)
{
	struct producer *p = &world.producers[d->to];

	for (int i = 0; i < p->count; i++)
		if (p->unacked[i] == d->message)
			return;
	p->unacked[p->count++] = d->message;
	if (p->is_connected)
		send_message(p, d->message);
}

/* --- faults --- */

static int listener_of(uint64_t *draw)
{
	return (int)sim_dice(draw, (uint64_t)world.plan->settings.listeners);
}

static void disturb(int process, int64_t lasts_us)
{
	if (world.disturbed_until[process] < sim_now() + lasts_us)
		world.disturbed_until[process] = sim_now() + lasts_us;
}

static void kill_life(int process, int64_t back_after)
{
	checker_died(process, world.lives[process]->number, false);
	end_life(world.lives[process], false, back_after);
	process_kill(process);
}

/* Servers are told, unlike in begin_machine(). */
static void lose_power(int process, int64_t back_after)
{
	checker_died(process, world.lives[process]->number, true);
	end_life(world.lives[process], false, back_after);
	process_kill(process);
	checker_loses_power(process);
	files_lose_power(process);
}

static void begin_kill(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	if (is_up(process)) {
		sim_log(process, "is killed, and starts again after %.1f s", (double)lasts_us / 1e6);
		kill_life(process, lasts_us);
		disturb(process, lasts_us);
	}
	disturb(process, 0);
}

/* It does not come back with another disk. */
static void begin_power_loss(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	if (is_up(process)) {
		sim_log(process, "loses its power, and starts again after %.1f s", (double)lasts_us / 1e6);
		lose_power(process, lasts_us);
		disturb(process, lasts_us);
	}
	disturb(process, 0);
}

static void drain(void *arg)
{
	struct life *l = arg;

	if (l->is_draining) /* listen.c drains only once */
		return;
	sim_log(l->process, "SIGTERM");
	l->is_draining = true;
	l->parts = l->relay ? 2 : 1;
	if (l->relay)
		relay_drain(l->relay, on_part_drained, l);
	if (l->profiles)
		profiles_close(l->profiles);
	pipeline_drain(l->pipeline);
}

static void begin_drain(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	(void)lasts_us;
	disturb(process, 0);
	if (!is_up(process) || world.lives[process]->is_draining)
		return;
	disturb(process, world.plan->settings.drain_ms * 1000 + 3 * SECOND);
	process_call(process, drain, world.lives[process]);
}

static void begin_freeze(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	sim_log(process, "stands still for %.3f s", (double)lasts_us / 1e6);
	disturb(process, lasts_us);
	process_freeze(process, lasts_us);
}

void world_sends(int process)
{
	int64_t lasts_us = world.still_us[process];

	world.still_us[process] = 0;
	if (!lasts_us || !is_up(process))
		return;
	sim_log(process, "stands still for %.3f s with a lease", (double)lasts_us / 1e6);
	disturb(process, lasts_us);
	process_freeze(process, lasts_us);
}

/* A listener leases more deliveries than it can send at once, and continues shortly before the lease ends. */
static void begin_late_lease(uint64_t draw, int64_t lasts_us)
{
	(void)lasts_us;
	world.still_us[listener_of(&draw)] = 8 * SECOND + (int64_t)sim_dice(&draw, 6 * SECOND);
}

static void begin_clock(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);
	int64_t by = (int64_t)sim_dice(&draw, 7200) - 3600;

	(void)lasts_us;
	disturb(process, 0);
	sim_log(process, "wall clock stepped by %lld s", (long long)by);
	process_step_clock(process, by * SECOND);
}

/* The listener's machine is replaced. Servers believe that its connections are still alive. */
static void begin_machine(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	if (is_up(process)) {
		sim_log(process, "its machine is gone, another one comes after %.1f s", (double)lasts_us / 1e6);
		world.was_silent = true;
		sim_vanish_fds_of(process);
		lose_power(process, lasts_us);
		disturb(process, lasts_us);
	}
	disturb(process, 0);
}

static void begin_deaf(uint64_t draw, int64_t lasts_us)
{
	int process = listener_of(&draw);

	disturb(process, 0);
	sim_log(process, "has lost its feed for %.1f s", (double)lasts_us / 1e6);
	world.deaf_until[process] = sim_now() + lasts_us;
	feeds_cut(process, lasts_us);
}

static void break_link(uint64_t draw, int64_t lasts_us, enum sim_server server, enum sim_link state)
{
	int process = listener_of(&draw);

	/* on a silent link, clients notice by their timeouts */
	if (state == SIM_LINK_SILENT)
		disturb(process, lasts_us + SECOND +
					 1000 * (server == SIM_REDIS ? world.plan->settings.redis_timeout_ms
								     : world.plan->settings.postgres_timeout_ms));
	else
		disturb(process, lasts_us);
	sim_break_link(process, server, state, lasts_us);
}

static void begin_redis_cut(uint64_t draw, int64_t lasts_us)
{
	break_link(draw, lasts_us, SIM_REDIS, SIM_LINK_CUT);
}

static void begin_redis_silent(uint64_t draw, int64_t lasts_us)
{
	break_link(draw, lasts_us, SIM_REDIS, SIM_LINK_SILENT);
}

static void begin_postgres_cut(uint64_t draw, int64_t lasts_us)
{
	break_link(draw, lasts_us, SIM_POSTGRES, SIM_LINK_CUT);
}

static void begin_postgres_silent(uint64_t draw, int64_t lasts_us)
{
	world.was_silent = true;
	if (world.late_until < sim_now() + lasts_us)
		world.late_until = sim_now() + lasts_us;
	break_link(draw, lasts_us, SIM_POSTGRES, SIM_LINK_SILENT);
}

/* Only the connection ends; it can be made again at once. */
static void begin_reset(uint64_t draw, int64_t lasts_us)
{
	enum sim_server server = (enum sim_server)sim_dice(&draw, SIM_SERVERS);

	(void)lasts_us;
	break_link(draw, 1, server, SIM_LINK_CUT);
}

static void begin_slow(uint64_t draw, int64_t lasts_us)
{
	enum sim_server server = (enum sim_server)sim_dice(&draw, SIM_SERVERS);
	int process = listener_of(&draw);

	disturb(process, lasts_us);
	sim_slow_link(process, server, (int64_t)sim_dice(&draw, 2 * SECOND), lasts_us);
}

/* All listeners are killed at once, as in a power cut. */
static void begin_kill_all(uint64_t draw, int64_t lasts_us)
{
	for (int i = 0; i < world.plan->settings.listeners; i++)
		if (is_up(i)) {
			sim_log(i, "is killed with all others");
			kill_life(i, 1000 + (int64_t)sim_dice(&draw, (uint64_t)lasts_us));
		}
}

static void begin_dark(uint64_t draw, int64_t lasts_us)
{
	for (int i = 0; i < world.plan->settings.listeners; i++)
		if (is_up(i)) {
			sim_log(i, "loses its power with all others");
			lose_power(i, 1000 + (int64_t)sim_dice(&draw, (uint64_t)lasts_us));
		}
}

static const struct sim_fault listener_machine = {"listener: its machine is gone", 20, begin_machine, true};

/* For fleets with spools. */
static const struct sim_fault power_faults[3] = {
	{"listener: loses its power", 10, begin_power_loss, true},
	{"all listeners: lose their power", 10, begin_dark, false},
	{NULL, 0, NULL, false},
};

/* For fleets with webhooks. */
static const struct sim_fault lease_faults[2] = {
	{"listener: stands still with a lease", 10, begin_late_lease, true},
	{NULL, 0, NULL, false},
};

static const struct sim_fault world_faults[FAULTS + 1] = {
	{"listener: killed", 20, begin_kill, true},
	{"listener: drained and started again", 20, begin_drain, true},
	{"listener: stands still", 15, begin_freeze, true},
	{"listener: wall clock stepped", 5, begin_clock, true},
	{"listener: its feed is gone", 5, begin_deaf, true},
	{"listener: cut off from redis", 10, begin_redis_cut, true},
	{"listener: redis is silent to it", 10, begin_redis_silent, true},
	{"listener: cut off from postgres", 10, begin_postgres_cut, true},
	{"listener: postgres is silent to it", 15, begin_postgres_silent, true},
	{"listener: a connection is reset", 20, begin_reset, true},
	{"listener: slow network", 10, begin_slow, false},
	{"all listeners: killed", 2, begin_kill_all, false},
	{NULL, 0, NULL, false},
};

void sim_touches(const char *id_prefix, int64_t lasts_us, bool may_refuse)
{
	if (world.touch_count == TOUCHES_MAX)
		process_fail("too many touches");
	world.is_narrow |= *id_prefix != '\0';
	world.touches[world.touch_count++] =
		(struct touch){sim_copy(id_prefix, strlen(id_prefix)), sim_now() + lasts_us, may_refuse};
}

int64_t world_touched_until(const char *id)
{
	int64_t until = -1;

	for (int i = 0; i < world.touch_count; i++)
		if (strncmp(id, world.touches[i].prefix, strlen(world.touches[i].prefix)) == 0 &&
		    world.touches[i].until > until)
			until = world.touches[i].until;
	return until;
}

bool world_may_refuse(const char *id)
{
	int variants = 0;

	for (int i = 0; i < world.plan->message_count; i++)
		variants += world.plan->messages[i].event >= 0 && world.plan->ids[world.plan->messages[i].event] == id;
	if (variants * (feeds_profile() ? 2 : 1) > BEHIND_MAX) /* the oldest waiting message becomes a dead letter */
		return true;
	if (world.may_refuse)
		return true;
	for (int i = 0; i < world.touch_count; i++)
		if (world.touches[i].may_refuse &&
		    strncmp(id, world.touches[i].prefix, strlen(world.touches[i].prefix)) == 0)
			return true;
	return false;
}

int64_t world_wide_until(void)
{
	return world.wide_until;
}

int64_t world_disturbed_until(int listener)
{
	return world.disturbed_until[listener];
}

bool world_was_silent(void)
{
	return world.was_silent;
}

int world_life(int process)
{
	return world.lives[process]->number;
}

int64_t world_late_until(void)
{
	return world.late_until;
}

int64_t world_redis_until(void)
{
	return world.redis_until;
}

int64_t world_postgres_until(void)
{
	return world.postgres_until;
}

const struct plan *world_plan(void)
{
	return world.plan;
}

size_t sim_id_count(void)
{
	return (size_t)world.plan->events;
}

const char *sim_id(size_t i)
{
	return world.plan->ids[i];
}

static void begin_fault(const struct deed *d)
{
	sim_reached("fault", d->fault->name);
	world.is_narrow = d->fault->is_narrow;
	d->fault->begin(d->draw, d->lasts);
	/* A row that fails while others are stored counts as refused. */
	world.may_refuse |= !world.is_narrow && strncmp(d->fault->name, "postgres", 8) == 0;
	if (strncmp(d->fault->name, "redis", 5) == 0 && world.redis_until < sim_now() + d->lasts)
		world.redis_until = sim_now() + d->lasts;
	if (strncmp(d->fault->name, "postgres", 8) == 0 && world.postgres_until < sim_now() + d->lasts)
		world.postgres_until = sim_now() + d->lasts;
	if (!world.is_narrow && world.wide_until < sim_now() + d->lasts)
		world.wide_until = sim_now() + d->lasts;
}

/* --- the course --- */

static void do_deed(void *arg)
{
	const struct deed *d = arg;

	switch (d->kind) {
	case DEED_FEED:
		feed(d);
		return;
	case DEED_PRODUCE:
		produce(d);
		return;
	case DEED_FAULT:
		begin_fault(d);
		return;
	}
}

/* Of all listeners, since any may lead. */
static void slow_down(void *arg)
{
	(void)arg;
	for (int i = 0; i < world.plan->settings.listeners; i++) {
		disturb(i, world.plan->settings.lasts);
		sim_slow_link(i, SIM_POSTGRES, world.plan->settings.slow_us, world.plan->settings.lasts);
	}
}

/* Ends all faults and starts all listeners. */
static void calm_down(void *arg)
{
	(void)arg;
	sim_log(SIM_NOBODY, "all faults cease");
	world.is_calm = true;
	sim_heal_links();
	fault_point_cease();
	sim_redis_calm();
	sim_postgres_calm();
	sim_receiver_calm();
	files_calm();
	feeds_calm();
	world.wide_until = sim_now();
	if (world.postgres_until > sim_now())
		world.postgres_until = sim_now();
	if (world.redis_until > sim_now())
		world.redis_until = sim_now();
	for (int i = 0; i < SIM_LISTENERS; i++) {
		world.deaf_until[i] = 0;
		process_freeze(i, 0);
		if (world.disturbed_until[i] > sim_now())
			world.disturbed_until[i] = sim_now();
		if (world.disturbed_until[i] < sim_late_until(i))
			world.disturbed_until[i] = sim_late_until(i);
	}
}

/* Without a connection, a listener does not know yet that Postgres has lost commits. */
static bool has_postgres(const struct life *l)
{
	return store_view(storing_store(pipeline_storing(l->pipeline))).is_ready;
}

static bool has_settled(void)
{
	if (checker_forgets())
		return false;
	for (int i = 0; i < world.plan->settings.listeners; i++)
		if (!is_up(i) || world.lives[i]->is_draining || process_has_calls(i) ||
		    pipeline_events(world.lives[i]->pipeline)->messages || !has_postgres(world.lives[i]))
			return false;
	for (int i = 0; i < PRODUCERS_MAX; i++)
		if (world.producers[i].count)
			return false;
	return feeds_have_settled() && (!world.plan->settings.hooks || !sim_outbox_open());
}

static void tell_unsettled(void)
{
	for (int i = 0; i < world.plan->settings.listeners; i++) {
		const struct events *es;

		if (!is_up(i)) {
			sim_log(i, "is not there");
			continue;
		}
		es = pipeline_events(world.lives[i]->pipeline);
		for (int s = 0; s < EVENT_STATES; s++)
			if (es->counts[s])
				sim_log(i, "still has %zu events in %s", es->counts[s],
					event_state_name((enum event_state)s));
	}
	for (int i = 0; i < PRODUCERS_MAX; i++)
		for (int k = 0; k < world.producers[i].count; k++)
			sim_log(SIM_NOBODY, "producer %d waits for the ack of message %d", i,
				world.producers[i].unacked[k]);
}

static struct webhook hooks[HOOKS_MAX];

int world_hook(const char *name)
{
	for (int i = 0; i < HOOKS_MAX; i++)
		if (strcmp(hooks[i].name, name) == 0)
			return i;
	process_fail("there is no webhook %s", name);
}

const char *world_hook_name(int hook)
{
	return hook ? "beta" : "alpha";
}

/* One webhook subscribes to the only event type, the other to all. */
static void configure_hooks(const struct settings *s)
{
	static char *type[] = {(char *)"t"};

	for (int i = 0; i < HOOKS_MAX; i++)
		hooks[i] = (struct webhook){.name = (char *)world_hook_name(i),
					    .url = (char *)"http://receiver/",
					    .types = type,
					    .type_count = i == 0,
					    .timeout_ms = 1500,
					    .concurrency = 1 + i,
					    .attempts = s->hook_attempts,
					    .backoff_ms = 200,
					    .backoff_cap_ms = 3000};
}

static void configure(const struct settings *s)
{
	static char *id_pointer[] = {(char *)"/event_id"};
	static char *source[] = {(char *)"ws://feed/"};
	static char names[SIM_LISTENERS][16];
	static struct profile *feeds[1];

	feeds[0] = feeds_profile();
	configure_hooks(s);
	for (int i = 0; i < SIM_LISTENERS; i++) {
		snprintf(names[i], sizeof(names[i]), "l%d", i);
		configs[i] = (struct config){
			.sources = {source, !feeds[0]},
			.feeds = feeds,
			.feed_count = feeds[0] != NULL,
			.redis = (char *)(s->has_redis ? "unix:///redis" : "none"),
			.redis_timeout_ms = s->redis_timeout_ms,
			.postgres = (char *)"host=/postgres",
			.postgres_timeout_ms = s->postgres_timeout_ms,
			.instance_id = names[i],
			.claim_prefix = (char *)"dedup:",
			.claim_ttl_s = s->ttl_s,
			.dedup_window_s = 300,
			.batch_max = s->batch_max,
			.postgres_connections = 2,
			.inflight_bytes = s->inflight_bytes,
			.spool_after_ms = s->spool_after_ms,
			.message_bytes = 1 << 20,
			.max_attempts = s->max_attempts,
			.drain_timeout_ms = s->drain_ms,
			.id_pointers = {id_pointer, 1},
			.type_pointer = (char *)"/event_type",
			.payload_pointer = (char *)"/payload",
			.order_pointer = s->has_order ? (char *)"/payload/v" : NULL,
			.time_pointer = s->max_age_s ? (char *)"/time" : NULL,
			.time_unit = (char *)"us",
			.max_age_s = s->max_age_s,
			.consumer = (char *)"",
			.handler = s->has_handler ? (char *)"app.handle" : NULL,
			.webhooks = {hooks, (size_t)s->hooks},
		};
	}
}

#define EACH_US      250000
#define HOOK_REST_US (150 * SECOND) /* a target may pause for a minute, and a failed delivery waits as long */

void world_run(struct plan *plan)
{
	const struct settings *s = &plan->settings;
	int64_t calm_at = s->lasts + SECOND, limit, looked = 0, settled_at = 0;

	memset(&world, 0, sizeof(world));
	world.plan = plan;
	world.wide_until = SECOND; /* all start at once and connect */
	feeds_start(plan);
	configure(s);
	checker_start(plan);
	steps_start();
	cost_start(plan);
	sim_redis_start();
	sim_postgres_start();
	sim_receiver_start();
	files_start();
	for (int i = 0; i < s->listeners; i++)
		start_listener(i);
	if (s->slow_us)
		sim_at(3 * SECOND, slow_down, NULL);
	for (int i = 0; i < PRODUCERS_MAX; i++) {
		world.producers[i].number = i;
		world.producers[i].listener = i % s->listeners;
		sim_at(sim_between(1000, 300000), watch_producer, &world.producers[i]);
	}
	for (int i = 0; i < plan->deed_count; i++)
		if (!plan->deeds[i].is_left_out)
			sim_at(plan->deeds[i].at + 100000, do_deed, &plan->deeds[i]);
	sim_at(calm_at, calm_down, NULL);
	limit = calm_at + (2 * s->ttl_s + 30) * SECOND + s->postgres_timeout_ms * 1000 + (s->hooks ? HOOK_REST_US : 0);
	/* stay settled for a while, so that messages in transit arrive */
	while (sim_now() - settled_at < SECOND / 2) {
		if (!sim_step())
			process_fail("nothing happens any more");
		if (!world.is_calm || !has_settled())
			settled_at = sim_now();
		if (sim_now() - looked >= EACH_US) {
			looked = sim_now();
			checker_look();
		}
		if (sim_now() > limit) {
			tell_unsettled();
			process_fail("not all has settled %lld s after all faults ceased",
				     (long long)(limit - calm_at) / SECOND);
		}
		if (process_turns() > 3000000)
			process_fail("the loops turn without end");
	}
	checker_finish();
	cost_finish();
}
