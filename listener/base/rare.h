/* rare.h: points where the simulator makes the program take a path that is legal but rare (FoundationDB's BUGGIFY).
 * They compile to nothing in other builds. */
#ifndef WSONCE_RARE_H
#define WSONCE_RARE_H

#include <stdbool.h>

#ifdef WSONCE_SIMULATED
#include <stdint.h>

struct rare_point {
	const char *name;       /* unique: "room: what happens" */
	uint64_t odds;          /* per thousand, in the current history */
	uint64_t met;           /* times reached, in all histories */
} __attribute__((aligned(32))); /* leaves no gaps in their section */

/* Defined in tests/simulation/rare.c. */
bool rare_is_now(struct rare_point *point);

#define RARE(what) \
	({ \
		static struct rare_point point_ __attribute__((section("rare_points"), used)) = {what, 0, 0}; \
		rare_is_now(&point_); \
	})
#else
#define RARE(what) false
#endif

/* n, or sometimes 1 in the simulator. */
#define RARELY_ONE(what, n) (RARE(what) ? 1 : (n))

#endif
