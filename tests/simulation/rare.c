/* rare.c decides when the points of listener/base/rare.h are true: in one of three histories some of them are, each
 * with its own odds. They use separate random numbers, so that the other histories do not change. */
#include "base/rare.h"

#include <stdio.h>
#include <string.h>

#include "process.h"

#define POINTS ((size_t)(__stop_rare_points - __start_rare_points))

extern struct rare_point __start_rare_points[],
	__stop_rare_points[]; /* defined by the linker: the bounds of the section */

#define DEAR_ODDS 10

/* Points that cost up to two seconds each time, or are checked at each turn. */
static const char *const dear[] = {"postgres: the connection ends behind an answer", "redis: an answer is late",
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

void rare_start(uint64_t seed, uint64_t left_out)
{
	static const uint64_t odds[] = {0, 0, 3, 30, 300};
	bool has_any = false;

	stream = seed ^ UINT64_C(0x72617265);
	is_on = sim_dice(&stream, 3) == 0;
	for (size_t i = 0; i < POINTS; i++) {
		struct rare_point *p = &__start_rare_points[i];

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

bool rare_is_now(struct rare_point *point)
{
	if (!is_on || !point->odds || sim_dice(&stream, 1000) >= point->odds)
		return false;
	point->met++;
	return true;
}

bool rare_is_on(void)
{
	return is_on;
}

void rare_cease(void)
{
	for (size_t i = 0; i < POINTS; i++)
		__start_rare_points[i].odds = 0;
}

size_t rare_count(void)
{
	return POINTS;
}

void rare_tell(void)
{
	for (size_t i = 0; is_on && i < POINTS; i++)
		if (__start_rare_points[i].odds)
			sim_log(SIM_NOBODY, "%d of 1000 times, %s", (int)__start_rare_points[i].odds,
				__start_rare_points[i].name);
}

const struct rare_point *rare_at(size_t i)
{
	return &__start_rare_points[i];
}
