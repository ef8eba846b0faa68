/* coverage.c finds what no history has reached: steps of an event's states in each kind of weather, Redis commands
 * with each answer, faults. */
#include <string.h>

#include "base/fault_point.h"
#include "event/event.h"
#include "steps.h"
#include "world.h"

#define FAMILIES 4

static const char *const families[FAMILIES] = {"in calm", "redis in trouble", "postgres in trouble",
					       "listeners in trouble"};

/* From event.c's table. A step that is missing here is reported as new. */
static const struct {
	enum event_state from, to;
	const char *why[FAMILIES]; /* why this is impossible, or NULL */
} steps[] = {
	{EV_CLAIMING, EV_BATCHED, {NULL}},
	{EV_CLAIMING, EV_HELD, {NULL}},
	{EV_CLAIMING, EV_DONE, {NULL}},
	{EV_HELD, EV_HELD, {NULL}},
	{EV_HELD, EV_CLAIMING, {NULL}},
	{EV_HELD, EV_BATCHED, {NULL}},
	{EV_HELD, EV_BEHIND, {NULL}},
	{EV_HELD, EV_DONE, {NULL}},
	{EV_BEHIND, EV_CLAIMING, {NULL}},
	{EV_BEHIND, EV_BATCHED, {NULL}},
	{EV_BEHIND, EV_REFUSED, {NULL}},
	{EV_BEHIND, EV_DONE, {NULL}},
	{EV_BATCHED, EV_STORING, {NULL}},
	{EV_BATCHED, EV_HELD, {NULL}},
	{EV_STORING, EV_DONE, {NULL}},
	{EV_STORING, EV_BEHIND, {NULL}},
	{EV_STORING, EV_BACKING_OFF, {NULL}},
	{EV_STORING, EV_REFUSED, {NULL}},
	{EV_BACKING_OFF, EV_CLAIMING, {NULL}},
	{EV_BACKING_OFF, EV_HELD, {NULL}},
	{EV_BACKING_OFF, EV_BATCHED, {NULL}},
	{EV_BACKING_OFF, EV_BEHIND, {NULL}},
	{EV_REFUSED, EV_DEAD_LETTERING, {NULL}},
	{EV_DEAD_LETTERING, EV_DONE, {NULL}},
	{EV_DEAD_LETTERING, EV_REFUSED, {NULL}},
};

#define STEPS (sizeof(steps) / sizeof(*steps))

static uint64_t counts[EVENT_STATES][EVENT_STATES][FAMILIES];

static const char *const commands[] = {"SET",    "presence.lua", "release.lua", "renew.lua", "seize.lua", "inherit.lua",
				       "CLIENT", "PUBLISH",      "SUBSCRIBE",   "PING",      NULL};
static const char *const answers[] = {"done", "OOM", "READONLY", "MISCONF", "LOADING", "ERR", "WRONGTYPE", NULL};

/* Impossible pairs. NULL stands for every command. */
static const struct {
	const char *what, *met, *why;
} impossible[] = {
	{"OOM", "a read"},
	{"READONLY", "a read"},
	{"MISCONF", "a read"},
	{"presence.lua", "OOM", "has allow-oom"},
	{"OOM", "frees memory"},
	{"OOM", "frees memory"},
	{"release.lua", "OOM", "has allow-oom"},
	{"renew.lua", "OOM", "EXPIRE needs no memory"},
	{"seize.lua", "READONLY", "the SET before it gets this, which ends the connection"},
	{"seize.lua", "MISCONF", "the SET before it gets this, and a claim is not seized then"},
	{"inherit.lua", "OOM", "has allow-oom"},
	{"inherit.lua", "READONLY", "the beats get this first, which ends the connection"},
	{"PUBLISH", "OOM", "not a write"},
	{"PUBLISH", "READONLY", "not a write"},
	{"PUBLISH", "MISCONF", "not a write"},
	{"SUBSCRIBE", "OOM", "not a write"},
	{"SUBSCRIBE", "READONLY", "not a write"},
	{"SUBSCRIBE", "MISCONF", "not a write"},
	{"PING", "OOM", "not a write"},
	{"PING", "READONLY", "not a write"},
	{"PING", "MISCONF", "not a write"},
	{"CLIENT", "OOM", "not a write"},
	{"CLIENT", "READONLY", "not a write"},
	{"CLIENT", "MISCONF", "not a write"},
};

void __real_event_move(struct events *es, struct event *ev, enum event_state to);
void __wrap_event_move(struct events *es, struct event *ev, enum event_state to);
void __wrap_event_move(struct events *es, struct event *ev, enum event_state to)
{
	uint64_t *count = counts[ev->state][to];
	bool is_redis = world_redis_until() > sim_now(), is_postgres = world_postgres_until() > sim_now();
	bool is_listener = false;

	for (int i = 0; i < world_plan()->settings.listeners; i++)
		is_listener |= world_disturbed_until(i) > sim_now();
	count[0] += !is_redis && !is_postgres && !is_listener;
	count[1] += is_redis;
	count[2] += is_postgres;
	count[3] += is_listener;
	steps_move(ev, to);
	__real_event_move(es, ev, to);
}

static const char *reason_for(const char *what, const char *met)
{
	for (size_t i = 0; i < sizeof(impossible) / sizeof(*impossible); i++)
		if (strcmp(impossible[i].what, what) == 0 && strcmp(impossible[i].met, met) == 0)
			return impossible[i].why;
	return NULL;
}

/* Returns true if it should have been reached, but was not. */
static bool tell(FILE *out, const char *what, const char *met, const char *why)
{
	fprintf(out, "%-16s %-52s never%s%s\n", what, met, why ? ": " : "", why ? why : "");
	return !why;
}

static bool is_listed(int from, int to)
{
	for (size_t i = 0; i < STEPS; i++)
		if ((int)steps[i].from == from && (int)steps[i].to == to)
			return true;
	return false;
}

static void tell_steps(FILE *out)
{
	for (int from = 0; from < EVENT_STATES; from++)
		for (int to = 0; to < EVENT_STATES; to++) {
			const uint64_t *n = counts[from][to];

			if (n[0] + n[1] + n[2] + n[3])
				fprintf(out, "%-16s %-52s %llu %llu %llu %llu%s\n",
					event_state_name((enum event_state)from),
					event_state_name((enum event_state)to), (unsigned long long)n[0],
					(unsigned long long)n[1], (unsigned long long)n[2], (unsigned long long)n[3],
					is_listed(from, to) ? "" : " (a new step)");
		}
}

int coverage_print(FILE *out)
{
	int missed = 0;

	fputs("state            to: in calm, with redis, postgres, listeners in trouble\n", out);
	tell_steps(out);
	for (size_t i = 0; i < STEPS; i++)
		for (int f = 0; f < FAMILIES; f++)
			if (!counts[steps[i].from][steps[i].to][f])
				missed += tell(out, event_state_name(steps[i].from),
					       sim_print("%s, %s", event_state_name(steps[i].to), families[f]),
					       steps[i].why[f]);
	sim_print_reached(out);
	for (int c = 0; commands[c]; c++)
		for (int a = 0; answers[a]; a++)
			if (!sim_count_reached(commands[c], answers[a]))
				missed += tell(out, commands[c], answers[a], reason_for(commands[c], answers[a]));
	for (const struct sim_fault *f = sim_redis_faults; f->name; f++)
		if (!sim_count_reached("fault", f->name))
			missed += tell(out, "fault", f->name, NULL);
	for (const struct sim_fault *f = sim_disk_faults; f->name; f++)
		if (!sim_count_reached("fault", f->name))
			missed += tell(out, "fault", f->name, NULL);
	for (const struct sim_fault *f = sim_postgres_faults; f->name; f++)
		if (!sim_count_reached("fault", f->name))
			missed += tell(out, "fault", f->name, NULL);
	for (size_t i = 0; i < fault_point_count(); i++) {
		const struct fault_point *p = fault_point_at(i);

		if (p->met)
			fprintf(out, "%-16s %-52s %llu\n", "rare", p->name, (unsigned long long)p->met);
		else
			missed += tell(out, "rare", p->name, NULL);
	}
	fprintf(out, "%d pairs were never reached, and nothing says why\n", missed);
	return missed;
}
