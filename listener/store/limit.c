/* limit.c adapts the number of rows per statement to what Postgres can store before the statement times out: if the
 * rows themselves are slow, a quarter of that time, and no more than stall.c waits for. store_postgres.c applies it. */
#include "store/limit.h"

#include <stdint.h>

#define FIT_STATEMENTS 32   /* timely statements before a larger one is tried: a timeout costs a few percent */
#define SLOW_ROW_MS    2    /* ms: a row that takes this long has a slow handler or trigger */
#define TARGET_MS      2000 /* less than half of STALL_MOST_MS */

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

void limit_init(struct limit *l, size_t first, size_t most, int64_t timeout_ms)
{
	*l = (struct limit){.rows = smaller(first, most),
			    .most = most,
			    .target_ms = (int64_t)smaller((size_t)timeout_ms / 4, TARGET_MS),
			    .too_many = SIZE_MAX};
}

void limit_lower(struct limit *l, size_t rows)
{
	l->rows = rows > 1 ? smaller(l->rows, rows / 2) : 1;
	l->too_many = rows > 1 ? rows : SIZE_MAX;
	l->fit = FIT_STATEMENTS;
}

/* Returns how many rows take target_ms, judging by these. If it is the statement that takes long, as with a slow disk,
 * there is no limit: fewer rows would only mean more statements. */
static size_t measure(const struct limit *l, size_t rows, int64_t took_ms)
{
	if (took_ms <= l->target_ms / 8 || took_ms < (int64_t)rows * SLOW_ROW_MS)
		return SIZE_MAX;
	return (size_t)((int64_t)rows * l->target_ms / took_ms) + 1;
}

/* Doubles up to what was measured, or to a size that took too long, which it tries again after FIT_STATEMENTS. */
void limit_raise(struct limit *l, size_t rows, size_t stored, int64_t took_ms)
{
	size_t most = 2 * stored > rows ? measure(l, stored, took_ms) : SIZE_MAX;

	l->rows = smaller(l->rows, most);
	if (rows < l->rows || l->rows == l->most || l->rows * 2 > most)
		return;
	if (l->rows * 2 >= l->too_many) {
		if (--l->fit)
			return;
		l->too_many = SIZE_MAX;
	}
	l->rows = smaller(l->rows * 2, l->most);
}
