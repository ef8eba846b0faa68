/* rare.h: points at which the simulator has the program take a path that it may take at any time and seldom does
 * (BUGGIFY of FoundationDB). Compiled for anything else, nothing is left of them. */
#ifndef WSONCE_RARE_H
#define WSONCE_RARE_H

#include <stdbool.h>

#ifdef WSONCE_SIMULATED
#include <stdint.h>

struct rare_point {
	const char *name;       /* unique: "room: what happens" */
	uint64_t odds;          /* of a thousand, in the history at hand */
	uint64_t met;           /* in all histories */
} __attribute__((aligned(32))); /* so that they stand in their section without gaps */

/* tests/simulation/rare.c */
bool rare_is_now(struct rare_point *point);

#define RARE(what) \
	({ \
		static struct rare_point point_ __attribute__((section("rare_points"), used)) = {what, 0, 0}; \
		rare_is_now(&point_); \
	})
#else
#define RARE(what) false
#endif

/* n, and now and then 1. */
#define RARELY_ONE(what, n) (RARE(what) ? 1 : (n))

#endif
