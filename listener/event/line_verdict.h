/* line_verdict.h: what the rows of line_minutes prove about a source and minute. No I/O. docs/lines.md has the rules.
 */
#ifndef WSONCE_LINE_VERDICT_H
#define WSONCE_LINE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_UP_MAX  8   /* spans per row */
#define LINES_A_TIME 256 /* a minute with this many lines or more is not verified */

/* A row, or all rows of an instance in a minute (in five minutes if a listener records them together). */
struct line_row {
	char instance[256];
	uint64_t process; /* process of the instance */
	int length_ms;    /* length of all rows that are compared */
	uint64_t received, received_sum, stored, stored_sum;
	uint64_t unknown;  /* copies, received in this minute or the next, that may belong here */
	uint64_t filled;   /* numbers that no line got, but `fill` did */
	uint64_t gap;      /* feed numbers missing before its events */
	uint64_t disagree; /* events whose bytes differ from another line's */
	unsigned int reconnects, spans;
	int silent_ms;
	int up[LINE_UP_MAX][2]; /* ms from the start of the minute, or of the five */
	int behind[2];          /* p50 and p99: ms by which its copies came after the stored ones */
	bool has_behind;
	bool has_numbers; /* gap is valid */
	bool is_patched;  /* merged from several processes, none of them connected throughout */
	bool has_again;   /* other processes of the instance also received events of this minute, perhaps first */
};

enum line_state {
	LINE_VERIFIED,   /* at least two lines were connected throughout, and agree with each other and with what was
			    stored */
	LINE_COVERED,    /* a line was connected at each moment, and no line shows that another missed something */
	LINE_UNVERIFIED, /* as covered, but some copies cannot be attributed, so the lines cannot be compared */
	LINE_DIFFERING,  /* a line missed events although it was connected throughout */
	LINE_OPEN,       /* no line was connected for a while */
	LINE_STATES
};

struct line_report {
	const struct line_row *row;
	bool is_full;     /* its process was connected throughout */
	uint64_t absent;  /* events of other lines that this one did not have, as far as is known */
	uint64_t missing; /* absent events beyond the number of its unknown copies */
	int64_t alone;    /* events that no other line had; -1: unknown */
	int connected_ms;
	/* For p50 and p99, how many ms this line was ahead of the best other line, both measured against the stored
	 * copies. */
	int lead[2];
	bool has_lead;
};

struct line_verdict {
	enum line_state state;
	uint64_t stored; /* at least this many events have a row */
	size_t count;
	struct line_report lines[LINES_A_TIME];
	size_t open_count;
	int open[LINE_UP_MAX * 2 + 2][2]; /* spans without a connection, ms of the minute */
};

/* Adds a row to the n rows of its minute (an array of LINES_A_TIME). Merges it into the last row if that has the same
 * instance, as after a restart. Returns the new number of rows. */
size_t line_row_add(struct line_row *all, size_t n, const struct line_row *row);
/* Call after the last line_row_add(). Returns the number of rows. */
size_t line_row_end(struct line_row *all, size_t n);
/* Sets the name and process of a row, and shifts its connected spans to fit a row that it is compared with: that one
 * covers `minutes`, and this one begins `after` minutes after it. */
void line_row_place(struct line_row *row, const char *listener, int64_t after, int64_t minutes);
/* Adds the rows of another process of the same instance. */
void line_row_merge(struct line_row *into, const struct line_row *more);

/* Judges one minute from its rows, one per instance, within [from_ms, to_ms) of the minute. The verdict points into
 * rows. */
void line_verdict(struct line_verdict *v, const struct line_row *rows, size_t n, int from_ms, int to_ms);

/* Returns how many feed numbers are missing on this line that no other line had. *rest carries its absent events over
 * to the next minute, where their gap may appear; 0 at first. */
uint64_t line_holes(const struct line_report *line, uint64_t *rest);

const char *line_state_name(enum line_state state);

#endif
