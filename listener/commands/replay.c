/* replay.c owns `wsonce replay`: it feeds the lines of a file as if they came from a feed, at a given rate. After a
 * kill the same command goes on from a checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "commands/checkpoint.h"
#include "commands/dispatch.h"
#include "commands/effects_guard.h"
#include "commands/feeder.h"
#include "commands/json_out.h"
#include "commands/ndjson.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "make_epoch.sql.h"

#define CHECKPOINT_MS 500
#define BEHIND_MS     100 /* lines later than this are not made up for by --rate */
#define LINE_SHARE    64  /* bytes of --max-inflight-bytes for each line whose end is remembered */
#define SETTLED       (UINT64_C(1) << 63)

struct replay_options {
	const char *checkpoint;
	int64_t rate; /* per second; 0: no limit */
	bool is_json;
};

static const struct option replay_options[] = {
	{"rate", OPTION_RATE, offsetof(struct replay_options, rate), "N/s", 1, 100000000, NULL,
	 "at most N lines a second; by default, as fast as Postgres stores"},
	{"checkpoint", OPTION_TEXT, offsetof(struct replay_options, checkpoint), "FILE", 0, 0, NULL,
	 "keep the position in FILE, and go on from it if FILE exists"},
	{"json", OPTION_SWITCH, offsetof(struct replay_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* Lines settle in any order. The ring has the end of each line from the oldest one that has not settled. */
struct ring {
	uint64_t *ends; /* with SETTLED if the line has settled */
	size_t mask;    /* the size, a power of two, minus 1 */
	uint64_t first; /* number of the oldest line */
	uint64_t next;  /* number of the next line to feed, from 0 */
};

struct replay {
	const struct replay_options *o;
	const struct config *config;
	struct ndjson *lines;
	struct ring unsettled;
	uint64_t start;   /* offset in the file where this run began */
	uint64_t settled; /* everything before this offset has settled */
	uint64_t written; /* settled, as in the checkpoint */
	int64_t start_ms;
	int64_t paced_ms; /* when the first line was due, by the rate */
	int64_t written_ms;
	bool has_failed;
	bool is_forgotten;            /* some of what has settled */
	struct session *file;         /* NULL: Postgres */
	struct checkpoint checkpoint; /* what is the same in all checkpoints of this run */
};

/* --- what has settled --- */

static void ring_grow(struct ring *ring)
{
	size_t size = ring->ends ? (ring->mask + 1) * 2 : 4096;
	uint64_t *ends = memory_alloc(size * sizeof(*ends));

	for (uint64_t n = ring->first; ring->ends && n < ring->next; n++)
		ends[n & (size - 1)] = ring->ends[n & ring->mask];
	free(ring->ends);
	ring->ends = ends;
	ring->mask = size - 1;
}

/* Returns the number of the new line, which ends at this offset. */
static uint64_t ring_add(struct ring *ring, uint64_t end)
{
	if (!ring->ends || ring->next - ring->first > ring->mask)
		ring_grow(ring);
	ring->ends[ring->next & ring->mask] = end;
	return ring->next++;
}

/* A line has settled. *offset moves to the end of the last line before which all have. */
static void ring_remove(struct ring *ring, uint64_t number, uint64_t *offset)
{
	if (number != ring->first) {
		ring->ends[number & ring->mask] |= SETTLED;
		return;
	}
	*offset = ring->ends[number & ring->mask];
	for (ring->first++; ring->first < ring->next && ring->ends[ring->first & ring->mask] & SETTLED; ring->first++)
		*offset = ring->ends[ring->first & ring->mask] & ~SETTLED;
}

/* A file that has lost commits has fewer of them. */
static bool has_forgotten(const struct replay *r, const char *known, const char *now)
{
	return *known && (r->file ? strtoll(known, NULL, 10) > strtoll(now, NULL, 10) : strcmp(known, now) != 0);
}

/* Reads how many commits the file has. Returns false if no checkpoint can be written now. */
static bool count_commits(struct replay *r)
{
	char why[200], *known = r->checkpoint.epoch;
	struct pg_result *rows = session_try(r->file, "SELECT opened FROM wsonce_database", 0, NULL, why, sizeof(why));
	bool is_read = rows;

	if (is_read && has_forgotten(r, known, session_text(rows, 0, 0)))
		r->is_forgotten = true;
	else if (is_read)
		snprintf(known, sizeof(r->checkpoint.epoch), "%s", session_text(rows, 0, 0));
	session_drop(rows);
	return is_read && !r->is_forgotten;
}

static int write_checkpoint(struct replay *r)
{
	struct checkpoint c;

	if (!r->o->checkpoint || r->settled == r->written)
		return 0;
	r->written_ms = clock_ms(CLOCK_MONOTONIC);
	if (r->file && !count_commits(r))
		return 0;
	c = r->checkpoint;
	c.offset = r->settled;
	if (ndjson_fingerprint(r->lines, c.offset, c.fingerprint) || ndjson_before(r->lines, c.offset, c.before) ||
	    checkpoint_write(r->o->checkpoint, &c))
		return -1;
	r->written = r->settled;
	return 0;
}

static int refuse(const struct replay *r, const char *what)
{
	return -dispatch_fail("--checkpoint: %s is of another %s", r->o->checkpoint, what);
}

/* Is the checkpoint of this database, consumer and file? One of version 0.1 knows only the beginning of the file. */
static int check_place(const struct replay *r, const struct checkpoint *known)
{
	if (*known->database && strcmp(known->database, r->checkpoint.database) != 0)
		return refuse(r, "database: give this one a file of its own");
	if (*known->database && strcmp(known->consumer, r->checkpoint.consumer) != 0)
		return refuse(r, "consumer: give this one a file of its own");
	return 0;
}

static int check_file(struct replay *r, const struct checkpoint *known)
{
	char found[65], before[65];

	if (ndjson_skip(r->lines, known->offset) || ndjson_fingerprint(r->lines, known->offset, found) ||
	    ndjson_before(r->lines, known->offset, before))
		return -1;
	if (strcmp(known->fingerprint, found) != 0)
		return refuse(r, "file");
	if (*known->before && *before && strcmp(known->before, before) != 0)
		return refuse(r, "file, or what was replayed has changed in it");
	return 0;
}

/* Goes to the offset of the checkpoint, if there is one. */
static int resume(struct replay *r)
{
	struct checkpoint known = {.offset = 0};

	if (r->o->checkpoint && checkpoint_read(r->o->checkpoint, &known))
		return -1;
	if (known.offset && check_place(r, &known))
		return -1;
	if (known.offset && has_forgotten(r, known.epoch, r->checkpoint.epoch)) {
		log_warn("the database may have lost commits since the checkpoint, starting over", "checkpoint=%s",
			 r->o->checkpoint);
		known.offset = 0;
	}
	if (known.offset && check_file(r, &known))
		return -1;
	r->start = r->settled = known.offset;
	r->written = UINT64_MAX; /* nothing yet */
	return 0;
}

/* While another process holds the event of one line, any number of later lines may settle. The memory for their ends, 8
 * bytes each and twice that while the ring grows, is at most a quarter of the budget. */
static bool ring_is_full(const struct ring *ring, const struct config *config)
{
	return ring->next - ring->first >= (uint64_t)config->inflight_bytes / LINE_SHARE;
}

/* --- lines in, outcomes out --- */

/* Milliseconds until the next line is due. After a pipe was idle or the database was away, lines do not come all at
 * once to make up for it. */
static int64_t wait_ms(struct replay *r)
{
	int64_t wait;

	if (!r->o->rate)
		return 0;
	wait = r->paced_ms + (int64_t)(r->unsettled.next * 1000 / (uint64_t)r->o->rate) - clock_ms(CLOCK_MONOTONIC);
	if (wait < -BEHIND_MS)
		r->paced_ms += -BEHIND_MS - wait;
	return wait;
}

static enum feeder_pull pull(void *owner, struct feeder *f, struct feeder_message *m)
{
	struct replay *r = owner;
	int64_t wait = wait_ms(r);
	struct ndjson_line line;

	(void)f;
	if (r->has_failed)
		return FEEDER_FAILED;
	if (ring_is_full(&r->unsettled, r->config))
		return FEEDER_LATER;
	if (wait > 0) {
		m->wait_ms = (int)(wait < 1000 ? wait : 1000);
		return FEEDER_LATER;
	}
	switch (ndjson_next(r->lines, &line)) {
	case NDJSON_LATER:
		return FEEDER_LATER;
	case NDJSON_END:
		return FEEDER_END;
	case NDJSON_FAILED:
		return FEEDER_FAILED;
	case NDJSON_LINE:
		break;
	}
	/* A last line without a newline may still be written. It is fed, but the checkpoint stays before it, so that
	 * it is fed again when it is whole. */
	*m = (struct feeder_message){line.bytes, line.len,
				     NULL,       line.digest,
				     line.total, ring_add(&r->unsettled, line.is_ended ? line.end : line.begin),
				     0};
	return FEEDER_MESSAGE;
}

static void on_settled(void *owner, uint64_t tag, enum outcome outcome, const char *reason)
{
	struct replay *r = owner;

	(void)outcome, (void)reason;
	ring_remove(&r->unsettled, tag, &r->settled);
}

static void on_tick(void *owner)
{
	struct replay *r = owner;
	uint64_t size = ndjson_size(r->lines);
	double seconds = (double)(clock_ms(CLOCK_MONOTONIC) - r->start_ms) / 1000;
	uint64_t done = r->unsettled.first;

	if (!r->has_failed && clock_ms(CLOCK_MONOTONIC) - r->written_ms >= CHECKPOINT_MS && write_checkpoint(r))
		r->has_failed = true;
	if (size)
		progress_show("%3.0f %%, %" PRIu64 " lines, %.0f/s", 100 * (double)r->settled / (double)size, done,
			      (double)done / seconds);
	else
		progress_show("%" PRIu64 " lines, %.0f/s", done, (double)done / seconds);
}

/* --- the command --- */

static int print_summary(const struct replay *r, const struct feeder_count *count)
{
	bool is_whole = !count->is_interrupted && !count->has_failed;
	struct json_out out;

	progress_clear();
	if (r->o->is_json) {
		json_out_open(&out);
		json_out_member(&out, "lines", json_integer((json_int_t)count->fed));
		json_out_member(&out, "persisted", json_integer((json_int_t)count->persisted));
		json_out_member(&out, "duplicates", json_integer((json_int_t)count->duplicates));
		json_out_member(&out, "rejected", json_integer((json_int_t)count->rejected));
		json_out_member(&out, "from_offset", json_integer((json_int_t)r->start));
		json_out_member(&out, "settled_offset", json_integer((json_int_t)r->settled));
		json_out_member(&out, "interrupted", json_boolean(count->is_interrupted));
		json_out_close(&out);
	} else {
		if (r->start)
			printf("went on from byte %" PRIu64 "\n", r->start);
		printf("replayed %" PRIu64 ": persisted %" PRIu64 ", duplicates %" PRIu64 ", rejected %" PRIu64 "\n",
		       count->fed, count->persisted, count->duplicates, count->rejected);
	}
	if (!is_whole)
		dispatch_fail("stopped before the end; run the same command again for the rest");
	else if (count->rejected)
		dispatch_fail("rejected lines: %" PRIu64 "; see wsonce dead-letters list", count->rejected);
	return is_whole && !count->rejected ? STATUS_FINE : STATUS_FAILED;
}

/* Reads which database the checkpoint is about, and its epoch, since another history may lack what has settled here. */
static int identify(const struct replay *r, struct session *s, struct checkpoint *c)
{
	bool has_epoch = !session_is_file(s);
	struct pg_result *made = has_epoch ? session_ask(s, SQL_MAKE_EPOCH, 0, NULL) : NULL;
	struct pg_result *rows = has_epoch && !made
					 ? NULL
					 : session_ask_either(s,
							      "SELECT id, epoch FROM :schema.wsonce_database"
							      " LEFT JOIN :schema.wsonce_epoch AS e ON e.xmin = home",
							      "SELECT id, opened FROM wsonce_database", 0, NULL);

	snprintf(c->consumer, sizeof(c->consumer), "%s", r->config->consumer);
	if (rows && session_count(rows)) {
		snprintf(c->database, sizeof(c->database), "%s", session_text(rows, 0, 0));
		snprintf(c->epoch, sizeof(c->epoch), "%s", session_text(rows, 0, 1));
	}
	session_drop(made);
	session_drop(rows);
	return rows ? 0 : -1;
}

/* Says so if the database has lost commits meanwhile. */
static int check_history(struct replay *r)
{
	struct session *s = r->file ? NULL : session_open_to_read(r->config);
	struct checkpoint now = {.offset = 0};
	int failed = !r->file && (!s || identify(r, s, &now));

	session_close(s);
	r->is_forgotten |= s && !failed && has_forgotten(r, r->checkpoint.epoch, now.epoch);
	if (r->is_forgotten)
		dispatch_fail("the database may have lost commits meanwhile; run the same command again");
	return failed || r->is_forgotten ? -1 : 0;
}

static int replay(struct replay *r)
{
	const struct feeder_owner owner = {pull, on_settled, on_tick, r, "replay"};
	struct feeder_count count;
	int failed;

	if (resume(r) || write_checkpoint(r)) /* what cannot be written is found before a line is fed */
		return STATUS_FAILED;
	r->start_ms = r->paced_ms = r->written_ms = clock_ms(CLOCK_MONOTONIC);
	if (feeder_run(r->config, &owner, &count))
		return STATUS_FAILED;
	failed = write_checkpoint(r);
	failed |= print_summary(r, &count) != STATUS_FINE;
	return (!count.is_interrupted && check_history(r)) || failed ? STATUS_FAILED : STATUS_FINE;
}

/* Would writing the checkpoint destroy what is replayed? */
static bool is_own_checkpoint(const struct replay *r)
{
	char part[4100];

	if (!r->o->checkpoint)
		return false;
	snprintf(part, sizeof(part), "%s.part", r->o->checkpoint);
	if (!ndjson_is_file(r->lines, r->o->checkpoint) && !ndjson_is_file(r->lines, part))
		return false;
	dispatch_fail("--checkpoint: %s (or its temporary file) is the file to replay", r->o->checkpoint);
	return true;
}

/* The session says at once what a listener would wait for: that the database cannot be reached, or that the fleet has
 * other effects. */
static int run_replay(const struct invocation *in)
{
	struct session *s = session_open_or_create(in->config);
	struct replay r = {.o = in->options, .config = in->config};
	int status = s ? effects_guard_check(s, in->config) : STATUS_FAILED;

	if (status == STATUS_FINE && identify(&r, s, &r.checkpoint))
		status = STATUS_FAILED;
	if (status == STATUS_FINE)
		r.lines = ndjson_open(in->words[0], (size_t)in->config->message_bytes);
	if (s && session_is_file(s))
		r.file = s;
	else
		session_close(s);
	if (r.lines && is_own_checkpoint(&r))
		status = STATUS_USAGE;
	else if (r.lines)
		status = replay(&r);
	else if (status == STATUS_FINE)
		status = STATUS_FAILED;
	ndjson_close(r.lines);
	session_close(r.file);
	free(r.unsettled.ends);
	return status;
}

const struct subcommand replay_command = {
	.name = "replay",
	.arguments = "FILE|-",
	.summary = "feed the lines of a file as if they came from a feed",
	.help = "Feeds the messages in FILE, one a line, through the ordinary way: claims, batches, the unique key; so "
		"it can be repeated, and run beside a fleet. A line that is no event becomes a dead letter. Ctrl-C "
		"stops it; the same command with the same --checkpoint goes on. Empty lines are skipped.",
	.least_words = 1,
	.most_words = 1,
	COMMAND_OPTIONS(replay_options, struct replay_options),
	.run = run_replay,
};
