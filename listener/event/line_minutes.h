/* line_minutes.h: what each line (this listener's connection to one source) received, minute by minute, for `wsonce
 * lines`. No I/O; times are arguments: wall_ms is Unix time, loop_ms the loop clock. docs/lines.md says what the
 * numbers prove.
 *
 * A copy counts in the minute of its row's received_at, which is the same on all lines, and once per line: its hash is
 * remembered for at least six minutes. A copy that arrives more than LINE_LATE_MS after its row was received is not
 * counted, because it may be the second one on this line. */
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
#define LINE_SPANS       8    /* connected spans kept per minute; further ones count as not connected */
#define LINE_MINUTES_MAX 1500 /* per line, kept while Postgres is away; then the oldest are dropped */
#define LINE_ROWS        4000 /* a check-in reports minutes older than ten minutes only up to this many rows, of all lines */
#define LINES_MAX        1000 /* sources; nothing is recorded for further ones */
#define LINES_SHORT      200  /* with more lines, a row covers LINE_LONG minutes */
#define LINE_LONG        5
#define LINE_SEEN_MAX    262144 /* hashes of each of two generations: 8 MiB for both */
#define LINE_SEEN_MS     360000 /* ms for which a generation takes hashes */
#define LINE_GAPS        64     /* if there are more, the oldest counts in the minute in which it was found */
#define LINE_RECORDS     100    /* disagreements of a minute that are described */
#define LINE_RECORDS_MAX 2000   /* the same per line, until they are reported */

struct line_minute {
	int64_t minute; /* since 1970; the first of those that it covers */
	int length;     /* number of minutes that it covers; minute is a multiple of it */
	uint64_t received, stored;
	uint64_t received_sum, stored_sum; /* sums of the hashes: equal if the events are the same, in any order */
	uint64_t unknown; /* copies received in this minute whose event's minute is unknown, or that may not be the
			     first on this line */
	uint64_t filled;  /* numbers that no line got, but `fill` did */
	uint64_t gap;     /* feed numbers missing before this minute's events */
	unsigned int reconnects, spans, silent_ms;
	uint32_t up[LINE_SPANS][2]; /* connected spans: from and to, in ms of the minute */
	int behind[2];              /* p50 and p99: ms by which its copies came after the stored ones */
	bool has_behind;
	uint64_t waiting,
		away; /* copies received in it that have not settled: in memory (for the next description); on disk */
	uint64_t told_unknown; /* unknown and these, as described last */
	uint64_t disagree;     /* events whose bytes differ from another line's */
	json_t *records;       /* describes such events: [event_id, first digest, this line's]; NULL: none */
	bool is_changed, is_sent;
};

/* How many ms the copies of a minute came after the stored ones. */
struct line_lags {
	int64_t minute;
	struct lags lags;
};

struct line {
	char *source;
	const char *name;    /* compared as a pointer with event.source */
	unsigned int number; /* number among the source's lines, from 0 */
	struct line_minute *minutes;
	size_t count, size;
	struct line_lags *lags; /* lags of two minutes; earlier ones keep their last percentiles */
	bool is_open, was_open, is_silent, has_numbers;
	bool is_wanted;           /* also record minutes without a connection */
	int64_t closed_minute;    /* the last minute recorded without a connection */
	int64_t wall_ms, loop_ms; /* its connection is recorded up to here */
	int64_t again_ms;         /* Unix time from which the clock was last set back; 0: never */
	uint64_t disagree;
	size_t records;   /* number of records of all minutes */
	uint64_t missing; /* computed by line_counts.c */
	int64_t open_ms;
};

struct line_seen {
	uint64_t *slots; /* open addressing; 0: free */
	size_t size, count;
	int64_t since_ms;
};

/* A gap in the feed's numbers before an event that has not settled. */
struct line_gap {
	size_t line;
	uint64_t hash, numbers;
	int64_t came_ms;
};

struct line_minutes {
	struct line *lines;
	size_t count, last;
	struct line_seen young, old;
	int64_t sure_from_ms; /* all hashes of events received since then are known */
	struct line_gap gaps[LINE_GAPS];
	size_t gap_count;
};

/* The lines of this process. */
extern struct line_minutes line_minutes;

/* The copies of an event that has settled. */
struct line_copy {
	const char *source;
	unsigned int lines;       /* lines of the source that had a copy: bit 0 is the first one */
	uint64_t hash;            /* hash of the id, the same in the whole fleet */
	int64_t won_ms;           /* when the listener that stored the event received it; 0: unknown */
	int64_t came_ms;          /* when this listener received the copy */
	bool is_stored;           /* this listener stored the event */
	const uint16_t *after_ms; /* per line, how long after came_ms its copy came; NULL: all came then */
};

/* A line of the source with this name, number from 0; or NULL. */
struct line *line_minutes_find(struct line_minutes *all, const char *source, unsigned int number);

/* Call when the connection to a source has opened or ended. Adds the line. The pointer source must stay valid until
 * another one is passed. */
void line_minutes_connect(struct line_minutes *all, const char *source, unsigned int number, bool is_open,
			  int64_t wall_ms, int64_t loop_ms);

/* Call before the end of a connection that was given up: it counts as not connected since its last sign of life, which
 * was unheard_ms ago. */
void line_minutes_lose(struct line_minutes *all, const char *source, unsigned int number, int64_t unheard_ms,
		       int64_t wall_ms, int64_t loop_ms);

/* Call if in this minute the line may receive other events than the other lines of its source, so that comparing them
 * proves nothing. */
void line_minutes_doubt(struct line_minutes *all, const char *source, unsigned int number, int64_t wall_ms);

/* Sets whether this listener should be connected to the source; not if other listeners read it. Adds the line. The
 * pointer is as above. */
void line_minutes_want(struct line_minutes *all, const char *source, unsigned int number, bool is_wanted);

/* The connection has been silent since since_ms (Unix time) although other listeners get messages from the source; 0:
 * it is no longer silent. The line must have been connected before. */
void line_minutes_silence(struct line_minutes *all, const char *source, unsigned int number, int64_t since_ms,
			  int64_t wall_ms, int64_t loop_ms);

/* The source has numbers, so gaps will be reported. Adds the line, as above. */
void line_minutes_number(struct line_minutes *all, const char *source, unsigned int number);

/* This many numbers are missing before the event with this hash, which arrived at came_ms and has not settled. They
 * count in the minute of its row, which is the same for all lines. */
void line_minutes_gap(struct line_minutes *all, const char *source, unsigned int number, uint64_t hash,
		      uint64_t numbers, int64_t came_ms);

/* `fill` has fetched an event that no line got. source: NAME#fill. */
void line_minutes_fill(struct line_minutes *all, const char *source, int64_t wall_ms);

/* At wall_ms this line received a copy of an event whose bytes differ from another line's. The digests are SHA-256. */
void line_minutes_disagree(struct line_minutes *all, const char *source, unsigned int number, struct slice id,
			   const uint8_t *first, const uint8_t *other, int64_t wall_ms);

/* Call when the key of the hashes changes or is lost: pending gaps then count in the minutes in which their events
 * arrived. */
void line_minutes_end_gaps(struct line_minutes *all);

/* These lines' copies of an event came at this time and have not settled. Call before each line_minutes_describe(). */
void line_minutes_await(struct line_minutes *all, const char *source, unsigned int lines, int64_t came_ms);

/* A copy of the first line has been put on disk until it settles, or has come back. */
void line_minutes_put_away(struct line_minutes *all, const char *source, int64_t came_ms, bool is_away);

/* Call when the database's epoch has changed, so that rows may be lost: adds an unknown copy on each line to all
 * minutes that are still kept, which reach back to five minutes before the oldest unsettled event. */
void line_minutes_doubt_all(struct line_minutes *all);

/* Counts a settled copy. Ignores sources that have no line, such as producers. */
void line_minutes_settle(struct line_minutes *all, const struct line_copy *copy);

/* Prefetches what line_minutes_settle() needs for a copy with this hash. */
void line_minutes_fetch(const struct line_minutes *all, uint64_t hash);

/* Returns changed minutes that are over (old ones only up to LINE_ROWS rows) for sql/queries/checkin.sql: an array of
 * [minute, source, received, received_sum, stored, stored_sum, unknown, reconnects, up, gap (null without
 * line_minutes_number()), silent_ms, filled]. The numbers are totals, so reporting a minute twice does no harm. unknown
 * includes copies that have not settled.
 * is_last: also those that are not over. needed_ms: Unix time when the oldest unsettled event arrived; earlier minutes
 * no longer change and are forgotten once reported. */
json_t *line_minutes_describe(struct line_minutes *all, bool is_last, int64_t needed_ms, int64_t wall_ms,
			      int64_t loop_ms);
/* is_told: the minutes that line_minutes_describe returned last are committed. Otherwise it returns them again. */
void line_minutes_told(struct line_minutes *all, bool is_told);

void line_minutes_free(struct line_minutes *all);

#endif
