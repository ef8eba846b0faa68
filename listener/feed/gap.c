/* gap.c keeps the last number of each of the first GAPS_MAX series of a source, and logs gaps once a minute. */
#include "feed/gap.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/keyed.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/sha256.h"

#include <uthash.h> /* after keyed.h and memory.h, which define its hash and its allocator */

#define GAPS_MAX      100000
#define GAP_KEY_BYTES 1024 /* a series with a longer name is not watched */
#define SHOWN_BYTES   60   /* bytes of its name that are logged */
#define TELL_MS       60000

struct series {
	UT_hash_handle hh;
	__int128 last;
	char key[];
};

struct gaps {
	struct series *all;
	struct series *nameless;
	struct gaps_count count;
	struct gaps_count told; /* the part that was logged */
	int64_t told_ms;        /* loop clock, last logged; 0: never */
	char example[SHOWN_BYTES + 2 * GAP_NUMBER_BYTES + 20];
};

struct gaps *gaps_new(void)
{
	return memory_calloc(1, sizeof(struct gaps));
}

void gaps_forget(struct gaps *g)
{
	struct series *s, *after;

	if (!g)
		return;
	HASH_ITER(hh, g->all, s, after)
	{
		HASH_DEL(g->all, s);
		free(s);
	}
	free(g->nameless);
	g->nameless = NULL;
}

void gaps_free(struct gaps *g)
{
	gaps_forget(g);
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
	uint8_t digest[SHA256_BYTES];
	struct series *s;

	if (!key.at)
		return g->nameless ? g->nameless : (g->nameless = series_new(key, seq));
	if (key.len > GAP_KEY_BYTES)
		return NULL;
	if (key.len > SHA256_BYTES) { /* 100,000 long names would take 160 MB */
		sha256(key.at, key.len, digest);
		key = (struct slice){(const char *)digest, SHA256_BYTES};
	}
	HASH_FIND(hh, g->all, key.at, key.len, s);
	if (s || HASH_COUNT(g->all) >= GAPS_MAX)
		return s;
	s = series_new(key, seq);
	HASH_ADD_KEYPTR(hh, g->all, s->key, key.len, s);
	return s;
}

static void keep_example(struct gaps *g, struct slice key, const struct gap *gap)
{
	char first[GAP_NUMBER_BYTES], last[GAP_NUMBER_BYTES];

	snprintf(g->example, sizeof(g->example), "%.*s %s to %s", (int)(key.len < SHOWN_BYTES ? key.len : SHOWN_BYTES),
		 key.at ? key.at : "", gap_write(gap->first, first), gap_write(gap->last, last));
}

static void count(struct gaps *g, struct slice key, struct gap *gap)
{
	unsigned __int128 missing = (unsigned __int128)gap->last - (unsigned __int128)gap->first + 1;

	if (g->count.gaps == g->told.gaps)
		keep_example(g, key, gap);
	gap->missing = missing > INT64_MAX - g->count.missing ? INT64_MAX - g->count.missing : (uint64_t)missing;
	g->count.gaps++;
	g->count.missing += gap->missing;
}

bool gaps_note(struct gaps *g, struct slice key, struct slice seq, struct gap *gap)
{
	struct series *s;
	__int128 number;

	if (!json_to_integer(seq, &number))
		return false;
	s = find_or_add(g, key, number);
	if (!s || number <= s->last)
		return false;
	*gap = (struct gap){.first = s->last + 1, .last = number - 1};
	s->last = number;
	if (gap->last < gap->first)
		return false;
	count(g, key, gap);
	return true;
}

void gaps_tell(struct gaps *g, const char *source, const struct secrets *secrets, int64_t now_ms)
{
	if (!g || g->count.gaps == g->told.gaps || (g->told_ms && now_ms - g->told_ms < TELL_MS))
		return;
	secrets_mask(secrets, g->example);
	log_of_many(log_goes_on(g->told_ms, now_ms), LOG_WARN, now_ms,
		    "sequence numbers of a source are missing: events were lost or will come later",
		    "source=%s gaps=%llu missing=%llu example=%s", source,
		    (unsigned long long)(g->count.gaps - g->told.gaps),
		    (unsigned long long)(g->count.missing - g->told.missing), g->example);
	g->told = g->count;
	g->told_ms = now_ms;
}

struct gaps_count gaps_count(const struct gaps *g)
{
	return g ? g->count : (struct gaps_count){0, 0};
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
