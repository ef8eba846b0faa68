/* cost.c limits how often the listeners may ask Redis and Postgres in a history without faults, and how often they
 * claim what a slow leader stores. Claims, marks, batches and the list of members only save work: without them
 * everything would still be right, so the checker would not notice. The limits are what ten thousand histories needed,
 * plus a margin. */
#include <string.h>

#include "feeds.h"
#include "world.h"

struct limit_of {
	double once, listener, listener_s; /* once, per listener, and per second of its life */
	double connection;                 /* per connection to Postgres */
	double outbox;                     /* per delivery that is due */
	double event, delivery;            /* per message sent by the feed or a producer */
	double copy;                       /* per message and listener that may receive it */
	double late;                       /* per copy of an event that was stored some time ago */
	double letter;                     /* per dead letter written, again or not */
};

static const struct {
	const char *name;
	struct limit_of most;
} limits[] = {
	{"rows offered", {.once = 3, .event = 1.7}},
	{"rows offered that were there", {.once = 8, .event = 0.1}},
	{"statements with rows", {.once = 10, .delivery = 1.5}},
	{"find", {.once = 8}},
	{"dead_letter", {.once = 16, .delivery = 1}},
	{"epoch", {.listener = 3, .listener_s = 1}},
	{"inspect", {.listener_s = 0.1, .connection = 1}},
	{"ask version", {.listener_s = 0.1, .connection = 1}},
	{"identify", {.listener_s = 0.1, .connection = 1}},
	{"make epoch", {.listener_s = 0.1, .connection = 1}},
	{"lease", {.once = 10, .listener_s = 3, .outbox = 3}},
	{"peek", {.once = 0}},
	{"record", {.once = 10, .outbox = 1.1}},
	{"backlog", {.listener = 1, .listener_s = 1.0 / 15}},
	{"check effects", {.listener = 2, .listener_s = 0.1}},
	{"check-in", {.listener = 1, .listener_s = 1.0 / 60}},
	{"INFO", {.listener = 4}},
	{"CLIENT", {.once = 60, .listener = 3, .listener_s = 10}},
	{"SET", {.once = 20, .listener = 2, .delivery = 2, .copy = 0.6, .late = 0.4}},
	{"seize.lua", {.once = 20, .letter = 1}},
	{"inherit.lua", {.once = 0}},
	{"PUBLISH", {.once = 10, .delivery = 1}},
	{"SUBSCRIBE", {.listener = 1}},
	{"PING", {.listener = 2, .listener_s = 1.1}},
	{"release.lua", {.once = 0}},
	{"renew.lua", {.once = 0}},
	{"presence.lua", {.once = 60, .listener = 6, .listener_s = 10}},
};

/* At most, of a copy that waits for a slow leader: usually two, and more where another listener comes to lead, which
 * asks for what the first one has claimed after 0.4, 0.8, 1.6 and 3.2 s. */
#define CLAIMS_OF_COPY 4

#define LIMITS (sizeof(limits) / sizeof(*limits))

static struct {
	const struct plan *plan;
	bool is_calm;
	size_t counts[LIMITS], claims[SIM_LISTENERS], late, letters;
} cost;

void cost_start(const struct plan *plan)
{
	memset(&cost, 0, sizeof(cost));
	cost.plan = plan;
	/* What leaves memory for the spool gives its claim back. Each copy of an old event is a dead letter. */
	cost.is_calm = plan->settings.has_redis && !plan->settings.slow_us && !fault_point_is_on() &&
		       !plan->settings.has_spool && !plan->settings.max_age_s;
	for (int i = 0; i < plan->deed_count; i++)
		cost.is_calm &= plan->deeds[i].kind != DEED_FAULT;
}

void sim_cost(const char *name, size_t n)
{
	for (size_t i = 0; cost.is_calm && i < LIMITS; i++)
		if (strcmp(limits[i].name, name) == 0)
			cost.counts[i] += n;
}

void sim_claims(int process)
{
	cost.claims[process]++;
}

void cost_late_copy(void)
{
	cost.late++;
}

void cost_letter(void)
{
	cost.letters++;
}

/* How many messages were sent. A frame requested by several connections counts once for each. */
static double count_deliveries(void)
{
	double deeds = cost.plan->deed_count, items = feeds_items_read() / (double)cost.plan->settings.listeners;

	return items > deeds ? items : deeds;
}

void cost_finish(void)
{
	double listeners = cost.plan->settings.listeners, hooks = cost.plan->settings.hooks,
	       s = (double)sim_now() / 1e6, deliveries = count_deliveries();

	for (int i = 0; cost.plan->settings.slow_us && i < cost.plan->settings.listeners; i++)
		if ((double)cost.claims[i] > CLAIMS_OF_COPY * deliveries)
			process_fail("listener %d has claimed %zu times, for %.0f copies that a slow leader stores", i,
				     cost.claims[i], deliveries);
	for (size_t i = 0; cost.is_calm && i < LIMITS; i++) {
		const struct limit_of *l = &limits[i].most;
		double most = l->once + (l->listener + l->listener_s * s) * listeners + l->event * cost.plan->events +
			      l->connection * listeners * (hooks > 0 ? 3 : 2) + l->outbox * hooks * cost.plan->events +
			      (l->delivery + l->copy * listeners) * deliveries + l->late * (double)cost.late +
			      l->letter * (double)cost.letters;

		if ((double)cost.counts[i] > most)
			process_fail("%s: %zu in a history without faults, where %.0f are enough", limits[i].name,
				     cost.counts[i], most);
	}
}
