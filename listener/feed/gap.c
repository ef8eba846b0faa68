/* gap.c keeps the last number of each series. It watches only the first GAPS_MAX series of a source. */
#include "feed/gap.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/keyed.h"
#include "base/memory.h"

#include <uthash.h> /* after keyed.h and memory.h, which define its hash and its allocator */

#define GAPS_MAX      100000
#define GAP_KEY_BYTES 1024 /* a series with a longer name is not watched */

struct series {
	UT_hash_handle hh;
	__int128 last;
	char key[];
};

struct gaps {
	struct series *all;
	struct series *nameless;
};

struct gaps *gaps_new(void)
{
	return memory_calloc(1, sizeof(struct gaps));
}

void gaps_free(struct gaps *g)
{
	struct series *s, *after;

	if (!g)
		return;
	HASH_ITER(hh, g->all, s, after)
	{
		HASH_DEL(g->all, s); /* NOLINT(clang-analyzer-unix.Malloc): the macro reads s->hh.next first */
		free(s);
	}
	free(g->nameless);
	free(g);
}

static struct series *series_new(struct slice key, __int128 seq)
{
	struct series *s = memory_calloc(1, sizeof(*s) + key.len + 1);

	if (key.len)
		memcpy(s->key, key.at, key.len);
	s->last = seq;
	return s;
}

/* Returns the series, or a new one that starts at seq, or NULL if there are too many. */
static struct series *find_or_add(struct gaps *g, struct slice key, __int128 seq)
{
	struct series *s;

	if (!key.at)
		return g->nameless ? g->nameless : (g->nameless = series_new(key, seq));
	if (key.len > GAP_KEY_BYTES)
		return NULL;
	HASH_FIND(hh, g->all, key.at, key.len, s);
	if (s || HASH_COUNT(g->all) >= GAPS_MAX)
		return s;
	s = series_new(key, seq);
	HASH_ADD_KEYPTR(hh, g->all, s->key, key.len, s);
	return s;
}

bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap)
{
	struct series *s;
	__int128 number;
	bool is_gap;

	if (!json_to_integer(seq, &number))
		return false;
	s = find_or_add(g, key, number);
	if (!s || number <= s->last)
		return false;
	is_gap = number > s->last + 1;
	*gap = (struct gap){s->last + 1, number - 1};
	s->last = number;
	return is_gap;
}

char *gap_write(__int128 number, char text[GAP_NUMBER_BYTES])
{
	char digits[GAP_NUMBER_BYTES], *at = digits + sizeof(digits) - 1;
	bool is_negative = number < 0;

	*at = '\0';
	do
		*--at = (char)('0' + (number % 10 < 0 ? -(number % 10) : number % 10));
	while (number /= 10);
	sprintf(text, "%s%s", is_negative ? "-" : "", at);
	return text;
}
