/* limit.c adapts the number of rows per statement to what Postgres can store before the statement times out.
 * store_postgres.c applies it. */
#include "road/limit.h"

#include <stdint.h>

#define FIT_STATEMENTS 32 /* statements in time before a larger one is tried: timeouts cost a few percent */

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

void limit_init(struct limit *l, size_t most)
{
	*l = (struct limit){.rows = most, .most = most, .too_many = SIZE_MAX};
}

void limit_lower(struct limit *l, size_t rows)
{
	l->rows = rows > 1 ? smaller(l->rows, rows / 2) : 1;
	l->too_many = rows > 1 ? rows : SIZE_MAX;
	l->fit = FIT_STATEMENTS;
}

/* Doubles up to a size that took too long. After FIT_STATEMENTS more it tries that size again. */
void limit_raise(struct limit *l, size_t rows)
{
	if (rows < l->rows || l->rows == l->most)
		return;
	if (l->rows * 2 >= l->too_many) {
		if (--l->fit)
			return;
		l->too_many = SIZE_MAX;
	}
	l->rows = smaller(l->rows * 2, l->most);
}
