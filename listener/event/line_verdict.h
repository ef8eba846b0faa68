/* line_verdict.h: what the rows of line_minutes prove of a source and a minute. No I/O. docs/lines.md has the rules. */
#ifndef WSONCE_LINE_VERDICT_H
#define WSONCE_LINE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_UP_MAX  8   /* spans of a row */
#define LINES_A_TIME 256 /* lines of one minute; one that has so many, or more, is not verified */

/* A row, or all rows of an instance in a minute; or in five minutes, if a listener records them together. */
struct line_row {
	char instance[256];
	uint64_t process; /* of the instance */
	int length_ms;    /* of all rows that are compared */
	uint64_t received, received_sum, stored, stored_sum;
	uint64_t unknown;  /* copies of this minute or the next one that may belong here */
	uint64_t filled;   /* numbers that no line got, and that it asked for */
	uint64_t gap;      /* numbers of the feed that did not come before its events */
	uint64_t disagree; /* events that came with other bytes than on another line */
	unsigned int reconnects, spans;
	int silent_ms;          /* -1: not known */
	int up[LINE_UP_MAX][2]; /* ms from the start of the minute, or of the five */
	int behind[2];          /* p50 and p99: ms by which its copies came after the stored ones */
	bool has_behind;
	bool has_numbers; /* gap is known */
	bool is_patched;  /* of several processes, none of which was connected throughout */
	bool has_again;   /* other processes received events of this minute, maybe for the first time */
};

enum line_state {
	LINE_VERIFIED,   /* two lines or more were connected throughout, and agree with what was stored */
	LINE_COVERED,    /* at each moment a line was connected, and none shows that another one missed something */
	LINE_UNVERIFIED, /* the same, but lines that could be compared cannot be: it is not known which copies are whose
			  */
	LINE_DIFFERING,  /* a line that was connected throughout missed events */
	LINE_OPEN,       /* for a while no line was connected */
	LINE_STATES
};

struct line_report {
	const struct line_row *row;
	bool is_full;     /* one process was connected throughout */
	uint64_t missing; /* events that other lines had */
	int64_t alone;    /* events that no other line had; -1: it cannot be told */
	int connected_ms;
	/* For p50 and p99, how many ms more the best other line was behind the stored copies. If this line's copies
	 * were the stored ones, that is how long the next line's came after them. */
	int lead[2];
	bool has_lead;
};

struct line_verdict {
	enum line_state state;
	uint64_t stored; /* events known to have a row; at least so many */
	size_t count;
	struct line_report lines[LINES_A_TIME];
	size_t open_count;
	int open[LINE_UP_MAX * 2 + 2][2]; /* spans without a connection, in ms of the minute */
};

/* Adds a row to the n of its minute, all of which has room for LINES_A_TIME. Those of an instance must follow each
 * other, and so must those of one of its processes, of which each continues the one before. Returns how many there are
 * now. */
size_t line_row_add(struct line_row *all, size_t n, const struct line_row *row);
/* After the last row. Returns how many there are. */
size_t line_row_end(struct line_row *all, size_t n);
/* Sets the name and process of a row, and moves its times of connection: it begins so many minutes after what it is
 * compared with, which has so many. */
void line_row_place(struct line_row *row, const char *listener, int64_t after, int64_t minutes);
/* Adds the rows of another process of the same instance. */
void line_row_merge(struct line_row *into, const struct line_row *more);

/* Judges the rows of one minute, one per instance, of [from_ms, to_ms) in the minute, where it ends. rows must stay
 * while the verdict is used. */
void line_verdict(struct line_verdict *v, const struct line_row *rows, size_t n, int from_ms, int to_ms);

/* Returns how many numbers of the feed are missing on this line that no other line had. *rest is for the next minute of
 * the line: events that it missed, and whose gap may show only then; 0 at first. */
uint64_t line_holes(const struct line_report *line, uint64_t *rest);

const char *line_state_name(enum line_state state);

#endif
