/* sequence_gaps.c counts the gaps of a source and logs them. feed/gap.c finds them. */
#include "intake/sequence_gaps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "feed/gap.h"

#define TELL_MS   60000
#define KEY_BYTES 60

struct sequence_gaps {
	struct gaps *seen;
	const char *source;
	struct sequence_gaps_count all;
	struct sequence_gaps_count told; /* the part that was logged */
	int64_t told_ms;                 /* loop clock, last logged; 0: never */
	char example[KEY_BYTES + 2 * GAP_NUMBER_BYTES + 20];
};

struct sequence_gaps *sequence_gaps_new(const struct profile *p)
{
	struct sequence_gaps *n;

	if (!p->gap.seq || !p->gap.contiguous)
		return NULL;
	n = memory_calloc(1, sizeof(*n));
	n->seen = gaps_new();
	n->source = p->name;
	return n;
}

void sequence_gaps_free(struct sequence_gaps *n)
{
	if (!n)
		return;
	gaps_free(n->seen);
	free(n);
}

static void keep_example(struct sequence_gaps *n, struct slice key, const struct gap *gap)
{
	char first[GAP_NUMBER_BYTES], last[GAP_NUMBER_BYTES];

	snprintf(n->example, sizeof(n->example), "%.*s %s to %s", (int)(key.len < KEY_BYTES ? key.len : KEY_BYTES),
		 key.at ? key.at : "", gap_write(gap->first, first), gap_write(gap->last, last));
}

uint64_t sequence_gaps_note(struct sequence_gaps *n, const struct session_event *event)
{
	unsigned __int128 missing;
	struct gap gap;

	if (!n || !gaps_note(n->seen, event->gap_key, event->gap_seq, &gap))
		return 0;
	if (n->all.gaps == n->told.gaps)
		keep_example(n, event->gap_key, &gap);
	missing = (unsigned __int128)gap.last - (unsigned __int128)gap.first + 1;
	missing = missing > INT64_MAX - n->all.missing ? INT64_MAX - n->all.missing : missing;
	n->all.gaps++;
	n->all.missing += (uint64_t)missing;
	return (uint64_t)missing;
}

void sequence_gaps_tell(struct sequence_gaps *n, struct secrets *secrets, int64_t now_ms)
{
	if (!n || n->all.gaps == n->told.gaps || (n->told_ms && now_ms - n->told_ms < TELL_MS))
		return;
	secrets_mask(secrets, n->example);
	log_warn("sequence numbers of a source are missing: events were lost or will come later",
		 "source=%s gaps=%llu missing=%llu example=%s", n->source,
		 (unsigned long long)(n->all.gaps - n->told.gaps),
		 (unsigned long long)(n->all.missing - n->told.missing), n->example);
	n->told = n->all;
	n->told_ms = now_ms;
}

struct sequence_gaps_count sequence_gaps_count(const struct sequence_gaps *n)
{
	return n ? n->all : (struct sequence_gaps_count){0, 0};
}
