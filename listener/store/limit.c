/* limit.c adapts the number of rows per statement to what Postgres can store before the statement times out: if the
 * rows themselves are slow, a quarter of that time, and no more than stall.c waits for. store_postgres.c applies it. */
#include "store/limit.h"

#include <stdbool.h>
#include <stdint.h>

#define FIT_STATEMENTS   32   /* timely statements before a larger one is tried: a timeout costs a few percent */
#define ALIKE_STATEMENTS 8    /* slow ones of about the same size before one of another size is tried */
#define SLOW_ROW_MS      2    /* ms: a row that takes this long has a slow handler or trigger */
#define TARGET_MS        2000 /* less than half of STALL_MOST_MS */

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

/* Returns how many rows take about target_ms. If the statement itself is slow, as with a slow disk or a distant
 * standby, sets no limit, because fewer rows per statement would only mean more statements. To tell the two apart, it
 * compares statements of different sizes. */
static size_t measure(struct limit *l, struct timed now)
{
	struct timed was = l->slow, large = was.rows > now.rows ? was : now, small = was.rows > now.rows ? now : was;
	bool is_other = small.rows * 4 <= large.rows * 3;
	size_t most;

	if (now.ms <= l->target_ms / 16 || now.ms < (int64_t)now.rows * SLOW_ROW_MS) {
		l->slow.rows = 0;
		return SIZE_MAX;
	}
	most = now.ms <= l->target_ms / 8 ? SIZE_MAX : (size_t)((int64_t)now.rows * l->target_ms / now.ms) + 1;
	if (!is_other && --l->alike)
		return most;
	l->slow = now;
	l->alike = ALIKE_STATEMENTS;
	if (most == SIZE_MAX)
		return most;
	if (!is_other || !small.rows || 2 * small.ms > 3 * large.ms) /* nothing to compare with */
		return now.rows > 1 ? smaller(most, now.rows / 2) : 2;
	/* Are the additional rows less than half of the time that they would take if all of it were that of rows? */
	return 2 * (large.ms - small.ms) * (int64_t)large.rows < large.ms * (int64_t)(large.rows - small.rows)
		       ? SIZE_MAX
		       : most;
}

/* Doubles up to what was measured, or to a size that took too long, which it tries again after FIT_STATEMENTS. */
void limit_raise(struct limit *l, size_t rows, size_t stored, int64_t took_ms)
{
	size_t most = 2 * stored > rows ? measure(l, (struct timed){stored, took_ms}) : SIZE_MAX;

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
