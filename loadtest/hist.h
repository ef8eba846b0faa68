/* hist.h: a histogram of durations, accurate to about one percent. */
#ifndef WSONCE_HIST_H
#define WSONCE_HIST_H

#include <stdint.h>

enum {
	HIST_STEPS = 128,                       /* cells per doubling: the precision is 1/128 */
	HIST_CELLS = (64 - 7 + 1) * HIST_STEPS, /* one for each value below 128, then 57 doublings */
};

struct hist {
	uint64_t cells[HIST_CELLS];
	uint64_t count;   /* number of values */
	uint64_t largest; /* exact */
};

/* Initialize with zeros. Values may have any unit. */
void hist_add(struct hist *h, uint64_t value);

/* The smallest value (within the precision) that percent of the values do not exceed; 0 if empty. */
uint64_t hist_percentile(const struct hist *h, double percent);

#endif
