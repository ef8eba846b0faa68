/* line_digests.c owns the table of digests: each hash has a set of a few slots, and replaces the oldest entry in it. */
#include "event/line_digests.h"

#include <string.h>

#include "base/memory.h"

#define SETS 4096
#define WAYS 4

struct line_digest {
	uint64_t hash;
	int64_t came_ms; /* 0: free */
	unsigned int lines;
	uint8_t bytes[32];
};

const uint8_t *line_digests_note(struct line_digest **table, uint64_t hash, unsigned int line, const uint8_t *digest,
				 int64_t now_ms)
{
	struct line_digest *set, *oldest;

	if (!*table)
		*table = memory_calloc((size_t)SETS * WAYS, sizeof(**table));
	set = oldest = *table + (hash & (SETS - 1)) * WAYS;
	for (struct line_digest *d = set; d < set + WAYS; d++) {
		oldest = d->came_ms < oldest->came_ms ? d : oldest;
		if (!d->came_ms || d->hash != hash || now_ms - d->came_ms > LINE_DIGESTS_MS)
			continue;
		if (d->lines & 1u << line)
			return NULL;
		d->lines |= 1u << line;
		return memcmp(d->bytes, digest, sizeof(d->bytes)) == 0 ? NULL : d->bytes;
	}
	*oldest = (struct line_digest){.hash = hash, .came_ms = now_ms, .lines = 1u << line};
	memcpy(oldest->bytes, digest, sizeof(oldest->bytes));
	return NULL;
}
