/* fault_point.h: points where the simulator makes the program take a path that is legal but rare (FoundationDB's
 * BUGGIFY). They compile to nothing in other builds. */
#ifndef WSONCE_FAULT_POINT_H
#define WSONCE_FAULT_POINT_H

#include <stdbool.h>

#ifdef WSONCE_SIMULATED
#include <stdint.h>

struct fault_point {
	const char *name;       /* unique: "room: what happens" */
	uint64_t odds;          /* per thousand, in the current history */
	uint64_t met;           /* times reached, in all histories */
} __attribute__((aligned(32))); /* without gaps between them in their section */

/* Defined in tests/simulation/fault_point.c. */
bool fault_point_is_now(struct fault_point *point);

#define FAULT_POINT(what) \
	({ \
		static struct fault_point point_ __attribute__((section("fault_points"), used)) = {what, 0, 0}; \
		fault_point_is_now(&point_); \
	})
#else
#define FAULT_POINT(what) false
#endif

/* n, or sometimes 1 in the simulator. */
#define FAULT_POINT_ONE(what, n) (FAULT_POINT(what) ? 1 : (n))

#endif
