/* cursor_order.h: cursors in their order, which the feed's arithmetic, Postgres and SQLite must agree on. */
#ifndef SUPPORT_CURSOR_ORDER_H
#define SUPPORT_CURSOR_ORDER_H

#include <string.h>

/* Each is beyond the one before, but one that begins with '=' is equal to it. A string and a number have no order. */
static const char *const cursor_order[] = {
	"-1e30",
	"-9007199254740993",
	"-9007199254740992.5",
	"-9007199254740992",
	"-10.5",
	"-10.25",
	"=-1025e-2",
	"-9.5",
	"-0.00001",
	"0",
	"=-0.0",
	"=0e5",
	"1E-9",
	"0.00001",
	"9.5",
	"10",
	"=1.0e1",
	"=1E+1",
	"10.5",
	"100",
	"9007199254740992",
	"9007199254740992.5",
	"9007199254740993",
	"18446744073709551615",
	"18446744073709551616",
	"170141183460469231731687303715884105728.5",
	"1e300",
	"9.5e300",
	"\"\"",
	"\" \"",
	"\"-1\"",
	"\"10\"",
	"\"9\"",
	"\"B\"",
	"\"\\\\\"",
	"=\"\\u005c\"",
	"\"a\"",
	"\"a!\"",
	"\"a\\\"\"",
	"\"a#\"",
	"\"aB\"",
	"\"ab\"",
	"=\"\\u0061b\"",
	"\"b\"",
	"\"\\u00e9\"",
	"=\"\303\251\"",
	"\"\\ud83d\\ude00\"",
};

#define CURSORS_IN_ORDER (sizeof(cursor_order) / sizeof(*cursor_order))

static inline const char *cursor_in_order(size_t i)
{
	return cursor_order[i] + (*cursor_order[i] == '=');
}

/* Does cursor j replace cursor i of kind max? */
static inline int cursor_is_beyond(size_t i, size_t j)
{
	if ((*cursor_in_order(i) == '"') != (*cursor_in_order(j) == '"'))
		return 1;
	for (size_t at = i + 1; at <= j; at++)
		if (*cursor_order[at] != '=')
			return 1;
	return 0;
}

#endif
