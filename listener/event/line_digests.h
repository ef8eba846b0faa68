/* line_digests.h: what the lines of a source sent as one event, so that it shows where they differ. Digests are SHA-256
 * of the payload, and remembered for LINE_DIGESTS_MS, as far as there is room: of 16,384 events. No I/O. */
#ifndef WSONCE_LINE_DIGESTS_H
#define WSONCE_LINE_DIGESTS_H

#include <stdint.h>

#define LINE_DIGESTS_MS 10000

struct line_digest;

/* Notes the copy that a line (from 0) has received of the event with this hash. Returns the digest that another line's
 * copy had, if it differs, until the next call. Only the first copy on each line counts. *table is NULL at first; the
 * caller frees it with free(). Time is of the loop clock. */
const uint8_t *line_digests_note(struct line_digest **table, uint64_t hash, unsigned int line, const uint8_t *digest,
				 int64_t now_ms);

#endif
