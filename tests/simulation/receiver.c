/* receiver.c replaces listener/outbox/delivery.c: it plays requests to webhooks and their receivers. The result of a
 * request is decided when it begins: the receiver accepts it or not, and the answer arrives in time, too late, or
 * never. */
#include <stdio.h>
#include <string.h>

#include "outbox/delivery.h"
#include "world.h"

struct deliveries {
	int process;
	bool is_closed;
};

enum fate { FATE_ANSWERED, FATE_CUT, FATE_CUT_TAKEN, FATE_LOST, FATE_LATE, FATES };

struct delivery {
	struct deliveries *all;
	const char *target, *event;
	delivery_cb *cb;
	void *arg;
	enum fate fate;
	struct target_answer answer;
	bool is_over;
};

/* A fault of the receiver. */
static struct {
	int64_t until;
	uint64_t draw;
	const char *id; /* NULL for all */
	int odds;       /* per thousand requests */
	enum fate fate;
	int status;
	int64_t retry_after_ms;
} moods[HOOKS_MAX];

static struct deliveries *current[SIM_LISTENERS];

static const char *event_of(const struct delivery_request *request)
{
	static const char before[] = "\"id\":\"";
	const char *at = memmem(request->body, request->len, before, strlen(before));

	if (!at)
		process_fail("a delivery without an event: %.*s", (int)request->len, request->body);
	at += strlen(before);
	return sim_copy(at, strcspn(at, "\""));
}

/* In the listener's loop. */
static void tell(void *arg)
{
	struct delivery *d = arg;

	if (d->is_over || current[d->all->process] != d->all)
		return;
	d->is_over = true;
	sim_log(sim_self(), "webhook %s answers %d for %s: %s", d->target, d->answer.status, d->event,
		d->answer.reason);
	d->cb(d->arg, &d->answer);
}

static void come_back(void *arg)
{
	struct delivery *d = arg;

	process_call(d->all->process, tell, d);
}

static void arrive(void *arg)
{
	struct delivery *d = arg;
	int status = d->fate == FATE_ANSWERED ? d->answer.status : 204;

	checker_taken(d->target, d->event, status);
}

static void decide(struct delivery *d, int hook)
{
	bool is_moody = sim_now() < moods[hook].until && (!moods[hook].id || strcmp(moods[hook].id, d->event) == 0) &&
			sim_dice(&moods[hook].draw, 1000) < (uint64_t)moods[hook].odds;

	d->answer = (struct target_answer){.status = 204, .reason = ""};
	if (!is_moody)
		return;
	d->fate = moods[hook].fate;
	if (d->fate == FATE_ANSWERED)
		d->answer = (struct target_answer){.status = moods[hook].status,
						   .retry_after_ms = moods[hook].retry_after_ms,
						   .reason = "not now"};
	else
		d->answer = (struct target_answer){.reason = "no answer"};
}

static const char *const fate_names[FATES] = {"answered", "cut", "taken, then cut", "lost", "answered too late"};

struct delivery *delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
			       void *arg)
{
	struct delivery *d = sim_alloc(sizeof(*d));
	int64_t timeout_us = request->webhook->timeout_ms * 1000, travel_us = sim_between(100, 5000);
	int hook = world_hook(request->webhook->name);

	*d = (struct delivery){.all = all, .cb = cb, .arg = arg};
	d->target = world_hook_name(hook);
	d->event = event_of(request);
	decide(d, hook);
	sim_reached("receiver", d->fate == FATE_ANSWERED ? sim_known(sim_print("answers %d", d->answer.status))
							 : fate_names[d->fate]);
	checker_requested(sim_self(), d->target, d->event, request->id, sim_now() + timeout_us);
	if (d->fate != FATE_CUT && d->fate != FATE_LOST)
		sim_at(d->fate == FATE_LATE ? timeout_us + travel_us : travel_us, arrive, d);
	if (d->fate == FATE_LOST || d->fate == FATE_LATE)
		sim_at(timeout_us, come_back, d);
	else
		sim_at(2 * travel_us, come_back, d);
	return d;
}

void delivery_cancel(struct delivery *d)
{
	d->is_over = true;
}

struct deliveries *deliveries_open(uv_loop_t *loop, size_t connections)
{
	struct deliveries *all = sim_alloc(sizeof(*all));

	(void)loop, (void)connections;
	all->process = sim_self();
	current[all->process] = all;
	return all;
}

void deliveries_change(struct deliveries *all, size_t connections)
{
	(void)all, (void)connections;
}

void deliveries_close(struct deliveries *all, void (*done)(void *arg), void *arg)
{
	(void)all;
	process_call(sim_self(), done, arg);
}

/* --- faults --- */

static void be(uint64_t *draw, int64_t lasts_us, enum fate fate, int status)
{
	int hook = (int)sim_dice(draw, HOOKS_MAX);

	moods[hook].until = sim_now() + lasts_us;
	moods[hook].fate = fate;
	moods[hook].status = status;
	moods[hook].retry_after_ms = status == 429 || status == 503 ? (int64_t)sim_dice(draw, 3000) : 0;
	moods[hook].id = sim_dice(draw, 3) || !sim_id_count() ? NULL : sim_id(sim_dice(draw, sim_id_count()));
	moods[hook].odds = sim_dice(draw, 2) ? 1000 : 100 + (int)sim_dice(draw, 900);
	moods[hook].draw = *draw;
	sim_log(SIM_NOBODY, "webhook %s for %.1f s, %d of 1000 requests%s%s: %s %d", world_hook_name(hook),
		(double)lasts_us / 1e6, moods[hook].odds, moods[hook].id ? " of " : "",
		moods[hook].id ? moods[hook].id : "", fate_names[fate], status);
}

static void begin_failing(uint64_t draw, int64_t lasts_us)
{
	static const int statuses[] = {500, 503, 404, 401, 403, 408, 429, 302};
	int status = statuses[sim_dice(&draw, sizeof(statuses) / sizeof(*statuses))];

	be(&draw, lasts_us, FATE_ANSWERED, status);
}

static void begin_refusing(uint64_t draw, int64_t lasts_us)
{
	static const int statuses[] = {400, 422};
	int status = statuses[sim_dice(&draw, 2)];

	be(&draw, lasts_us, FATE_ANSWERED, status);
}

static void begin_no_answer(uint64_t draw, int64_t lasts_us)
{
	enum fate fate = FATE_CUT + (enum fate)sim_dice(&draw, FATES - FATE_CUT);

	be(&draw, lasts_us, fate, 0);
}

const struct sim_fault sim_receiver_faults[] = {
	{"receiver: fails", 15, begin_failing, true},
	{"receiver: refuses", 10, begin_refusing, true},
	{"receiver: no answer in time", 20, begin_no_answer, true},
	{NULL, 0, NULL, false},
};

void sim_receiver_calm(void)
{
	for (int i = 0; i < HOOKS_MAX; i++)
		moods[i].until = 0;
}

void sim_receiver_start(void)
{
	memset(moods, 0, sizeof(moods));
	memset(current, 0, sizeof(current));
}
