/* line_digests.h: compares the payloads that the lines of a source sent for the same event. Digests are SHA-256 of the
 * payload, and are remembered for LINE_DIGESTS_MS, at most those of 16,384 events. No I/O. */
#ifndef WSONCE_LINE_DIGESTS_H
#define WSONCE_LINE_DIGESTS_H

#include <stdint.h>

#define LINE_DIGESTS_MS 10000

struct line_digest;

/* Records that a line (from 0) has received a copy of the event with this hash. Returns the digest of another line's
 * copy if it differs, valid until the next call, or NULL. Only the first copy on each line counts. *table is NULL at
 * first; the caller frees it with free(). Times are of the loop clock. */
const uint8_t *line_digests_note(struct line_digest **table, uint64_t hash, unsigned int line, const uint8_t *digest,
				 int64_t now_ms);

#endif
