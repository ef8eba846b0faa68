/* line_minutes.h: what each line (a connection of this listener to one source) received, minute by minute, for
 * `wsonce lines`. No I/O; times are arguments: wall_ms since 1970, loop_ms of the loop clock. docs/lines.md says what
 * follows from the numbers.
 *
 * A copy counts in the minute of its row's received_at, which is the same for all lines, and once per line: its hash is
 * remembered for six minutes or more. So a copy that comes more than LINE_LATE_MS after its row was received does not
 * count: nobody knows whether it is the first one on this line. */
#ifndef WSONCE_LINE_MINUTES_H
#define WSONCE_LINE_MINUTES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/lags.h"
#include "base/slice.h"

#define LINE_MINUTE_MS   60000
#define LINE_LATE_MS     300000
#define LINE_SPANS       8    /* times of connection kept per minute; of more, the rest counts as not connected */
#define LINE_MINUTES_MAX 1500 /* per line: what waits to be told while Postgres is away; the oldest go first */
#define LINES_MAX        1000 /* sources; of further ones nothing is recorded */
#define LINES_SHORT      200  /* with more, a row is about LINE_LONG minutes */
#define LINE_LONG        5
#define LINE_SEEN_MAX    262144 /* hashes of each of two generations: 8 MiB for both */
#define LINE_SEEN_MS     360000 /* for which a generation takes hashes */
#define LINE_GAPS        64     /* of more, the oldest counts in the minute in which it was found */
#define LINE_RECORDS     100    /* disagreements of a minute that are described */
#define LINE_RECORDS_MAX 2000   /* and of a line, while they wait to be told */

struct line_minute {
	int64_t minute; /* since 1970; with LINES_SHORT lines or fewer, it is about this one */
	int length;     /* minutes, to a multiple of it since 1970 */
	uint64_t received, stored;
	uint64_t received_sum, stored_sum; /* of the hashes: equal if the events are, in whatever order they came */
	uint64_t unknown; /* copies that came in this minute, of events whose minute is not known, or maybe not for the
			     first time */
	uint64_t filled;  /* of the numbers that no line got, those that were asked for and came */
	uint64_t gap;     /* numbers of the feed that are missing before this minute's events */
	unsigned int reconnects, spans, silent_ms;
	uint32_t up[LINE_SPANS][2]; /* when it was connected: ms from the start of the minute, to */
	int behind[2];              /* p50 and p99 of the ms by which its copies came after the stored ones */
	bool has_behind;
	uint64_t disagree; /* events that came with other bytes than on another line */
	json_t *records;   /* of them: [event_id, first digest, this line's]; NULL: none */
	bool is_changed, is_sent;
};

/* Of a minute, how many ms copies came after the stored ones. */
struct line_lags {
	int64_t minute;
	struct lags lags;
};

struct line {
	char *source;
	const char *name;    /* what the source was called last: events have the same pointer */
	unsigned int number; /* of the source's lines, from 0 */
	struct line_minute *minutes;
	size_t count, size;
	struct line_lags *lags; /* of two minutes; earlier ones keep what was described last */
	bool is_open, was_open, is_silent, has_numbers;
	bool is_wanted;           /* a minute without a connection is recorded, too */
	int64_t closed_minute;    /* recorded last as one without a connection */
	int64_t wall_ms, loop_ms; /* up to when its connection is recorded */
	uint64_t disagree;
	size_t records;   /* of all minutes */
	uint64_t missing; /* as line_counts.c has found */
	int64_t open_ms;
};

struct line_seen {
	uint64_t *slots; /* open addressing; 0: free */
	size_t size, count;
	int64_t since_ms;
};

/* A gap in the feed's numbers, found by an event that has not settled. */
struct line_gap {
	size_t line;
	uint64_t hash, numbers;
	int64_t came_ms;
};

struct line_minutes {
	struct line *lines;
	size_t count, last;
	struct line_seen young, old;
	int64_t sure_from_ms; /* hashes of events received since then are all known */
	struct line_gap gaps[LINE_GAPS];
	size_t gap_count;
};

/* Of this process. */
extern struct line_minutes line_minutes;

/* The copies of an event that has settled. */
struct line_copy {
	const char *source;
	unsigned int lines;       /* of the source, that had a copy: bit 0 is the first one */
	uint64_t hash;            /* of the id, equal in the fleet */
	int64_t won_ms;           /* when the listener that stored it received it; 0: unknown */
	int64_t came_ms;          /* when this listener did */
	bool is_stored;           /* by this listener */
	const uint16_t *after_ms; /* by line, how long after came_ms its copy came; NULL: all came then */
};

/* A line of the source with this name, number from 0; or NULL. */
struct line *line_minutes_find(struct line_minutes *all, const char *source, unsigned int number);

/* The connection to a source has opened or ended. Makes the line. The pointer source stays valid until another is
 * given. */
void line_minutes_connect(struct line_minutes *all, const char *source, unsigned int number, bool is_open,
			  int64_t wall_ms, int64_t loop_ms);

/* The source is to be connected, or is no more: it is left to other listeners, say. Makes the line. The pointer is as
 * above. */
void line_minutes_want(struct line_minutes *all, const char *source, unsigned int number, bool is_wanted);

/* The connection brings nothing since since_ms (since 1970), though others hear the source; or, with 0, it does again.
 * The line must have been connected once. */
void line_minutes_silence(struct line_minutes *all, const char *source, unsigned int number, int64_t since_ms,
			  int64_t wall_ms, int64_t loop_ms);

/* The source has numbers, and gaps in them will be told. Makes the line, as above. */
void line_minutes_number(struct line_minutes *all, const char *source, unsigned int number);

/* So many numbers of the feed are missing before the event with this hash, which has come at came_ms and is not
 * settled yet. They count in the minute of its row, which is the same for all lines. */
void line_minutes_gap(struct line_minutes *all, const char *source, unsigned int number, uint64_t hash,
		      uint64_t numbers, int64_t came_ms);

/* So many numbers that no line got came from the feed's HTTP interface. */
void line_minutes_fill(struct line_minutes *all, const char *source, uint64_t numbers, int64_t wall_ms);

/* At wall_ms this line's copy of an event came, with other bytes than another line's. The digests are SHA-256. */
void line_minutes_disagree(struct line_minutes *all, const char *source, unsigned int number, struct slice id,
			   const uint8_t *first, const uint8_t *other, int64_t wall_ms);

/* Events settle with other hashes from now on, or no more: their gaps count in the minutes in which they came. */
void line_minutes_end_gaps(struct line_minutes *all);

/* Ignores sources that have no line, such as producers. */
void line_minutes_settle(struct line_minutes *all, const struct line_copy *copy);

/* Prefetches what line_minutes_settle() needs for a copy with this hash. */
void line_minutes_fetch(const struct line_minutes *all, uint64_t hash);

/* Returns what has changed, for sql/queries/checkin.sql: [minute, source, received, received_sum, stored, stored_sum,
 * unknown, reconnects, up, gap (null without line_minutes_number()), silent_ms, filled, p50 and p99 of the ms by which
 * its copies came after the stored ones (null if not known), what is between the instance and its nonce, its length in
 * minutes, disagree, records (both null: none)] each, with totals, so one that is told again does no harm. needed_ms:
 * minutes since then may still change (since 1970, when the oldest unsettled event came); older ones are forgotten once
 * they are told. */
json_t *line_minutes_describe(struct line_minutes *all, int64_t needed_ms, int64_t wall_ms, int64_t loop_ms);
/* What was described last is committed, or may not be. */
void line_minutes_told(struct line_minutes *all, bool is_told);

void line_minutes_free(struct line_minutes *all);

#endif
