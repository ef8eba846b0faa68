/* fault_point.c decides when the points of listener/base/fault_point.h are true: in one of three histories some of them
 * are, each with its own odds. They use separate random numbers, so that the other histories do not change. */
#include "base/fault_point.h"

#include <stdio.h>
#include <string.h>

#include "process.h"

#define POINTS ((size_t)(__stop_fault_points - __start_fault_points))

extern struct fault_point __start_fault_points[],
	__stop_fault_points[]; /* defined by the linker: the bounds of the section */

#define DEAR_ODDS 10

/* Points that cost up to two seconds each time, or are checked at each turn. */
static const char *const dear[] = {"postgres: the connection ends after an answer", "redis: an answer is late",
				   "pipeline: a check-in is due", NULL};

static uint64_t stream;
static bool is_on;

static bool is_dear(const char *name)
{
	for (int i = 0; dear[i]; i++)
		if (strcmp(dear[i], name) == 0)
			return true;
	return false;
}

void fault_point_start(uint64_t seed, uint64_t left_out)
{
	static const uint64_t odds[] = {0, 0, 3, 30, 300};
	bool has_any = false;

	stream = seed ^ UINT64_C(0x72617265);
	is_on = sim_dice(&stream, 3) == 0;
	for (size_t i = 0; i < POINTS; i++) {
		struct fault_point *p = &__start_fault_points[i];

		/* seed by name: the compiler chooses the order in the section */
		stream = seed ^ sim_hash(p->name);
		p->odds = is_on && !(left_out >> i & 1) ? odds[sim_dice(&stream, sizeof(odds) / sizeof(*odds))] : 0;
		if (is_dear(p->name) && p->odds > DEAR_ODDS)
			p->odds = DEAR_ODDS;
		has_any |= p->odds;
	}
	is_on = has_any;
	stream = seed ^ UINT64_C(0x6e6f77);
}

bool fault_point_is_now(struct fault_point *point)
{
	if (!is_on || !point->odds || sim_dice(&stream, 1000) >= point->odds)
		return false;
	point->met++;
	return true;
}

bool fault_point_is_on(void)
{
	return is_on;
}

void fault_point_cease(void)
{
	for (size_t i = 0; i < POINTS; i++)
		__start_fault_points[i].odds = 0;
}

size_t fault_point_count(void)
{
	return POINTS;
}

void fault_point_tell(void)
{
	for (size_t i = 0; is_on && i < POINTS; i++)
		if (__start_fault_points[i].odds)
			sim_log(SIM_NOBODY, "%d of 1000 times, %s", (int)__start_fault_points[i].odds,
				__start_fault_points[i].name);
}

const struct fault_point *fault_point_at(size_t i)
{
	return &__start_fault_points[i];
}
