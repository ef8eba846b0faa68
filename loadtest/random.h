/* random.h: random numbers that depend only on the seed (splitmix64), so that a run can be repeated. */
#ifndef WSONCE_RANDOM_H
#define WSONCE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state; /* initially the seed; any value works */
};

static inline uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* At least 0 and less than 1. */
static inline double random_share(struct random *r)
{
	return (double)(random_next(r) >> 11) * 0x1p-53;
}

static inline bool random_is_hit(struct random *r, double percent)
{
	return percent > 0 && random_share(r) * 100 < percent;
}

#endif
