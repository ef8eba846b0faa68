/* hist.c is a log-linear histogram: each doubling has the same number of cells, so the relative error
 * and the memory are constant, and no value is out of range. */
#include "hist.h"

enum { STEPS_LOG2 = 7 };

static unsigned int cell_of(uint64_t value)
{
	unsigned int shift;

	if (value < HIST_STEPS)
		return (unsigned int)value;
	shift = 63 - STEPS_LOG2 - (unsigned int)__builtin_clzll(value);
	return shift * HIST_STEPS + (unsigned int)(value >> shift);
}

/* The largest value of a cell. */
static uint64_t top_of(unsigned int cell)
{
	unsigned int shift = cell < HIST_STEPS ? 0 : cell / HIST_STEPS - 1;
	uint64_t step = cell - shift * HIST_STEPS;

	return (step << shift) + ((1ull << shift) - 1);
}

void hist_add(struct hist *h, uint64_t value)
{
	h->cells[cell_of(value)]++;
	h->count++;
	if (value > h->largest)
		h->largest = value;
}

uint64_t hist_percentile(const struct hist *h, double percent)
{
	double wanted = (double)h->count * percent / 100;
	uint64_t seen = 0;

	for (unsigned int cell = 0; cell < HIST_CELLS; cell++) {
		seen += h->cells[cell];
		if (seen && (double)seen >= wanted)
			return top_of(cell) < h->largest ? top_of(cell) : h->largest;
	}
	return h->largest;
}
