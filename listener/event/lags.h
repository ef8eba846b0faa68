/* lags.h: a histogram of signed milliseconds. Exact below 8 ms, within an eighth beyond. */
#ifndef WSONCE_LAGS_H
#define WSONCE_LAGS_H

#include <stdbool.h>
#include <stdint.h>

#define LAGS_MOST_MS 600000 /* longer lags count as this */
#define LAGS_BUCKETS 73     /* four per power of two */

struct lags {
	uint64_t counts[2 * LAGS_BUCKETS - 1];
};

void lags_add(struct lags *l, int64_t ms, uint64_t count);

/* Sets *ms to the given percentile of the lags, 0 to 100. Returns false if there are no lags. */
bool lags_percentile(const struct lags *l, unsigned int percent, int *ms);

#endif
