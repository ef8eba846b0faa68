/* replay.c owns `wsonce replay`: it feeds the lines of a file as if they came from a feed, at a given rate. After a
 * kill, the same command continues from a checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "commands/checkpoint.h"
#include "commands/table.h"
#include "commands/guards.h"
#include "commands/exported.h"
#include "commands/feeder.h"
#include "commands/json_out.h"
#include "commands/ndjson.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "epoch.sql.h"
#include "make_epoch.sql.h"

#define CHECKPOINT_MS 500
#define LATER_MS      10
#define BEHIND_MS     100 /* --rate does not make up for a longer delay */

struct replay {
	const struct given *o;
	const struct config *config;
	struct ndjson *lines;
	struct exported exported;
	struct feeder_count count;
	uint64_t start;   /* offset where this run began */
	uint64_t end;     /* offset after the last line that was fed */
	uint64_t settled; /* all lines before this offset have settled */
	uint64_t written; /* value of settled in the checkpoint */
	int64_t start_ms;
	int64_t paced_ms; /* start time from which --rate counts */
	int64_t written_ms;
	bool has_failed; /* a checkpoint could not be written */
	enum ndjson_result last;
	bool is_forgotten;    /* the database may have lost commits of this run */
	struct session *file; /* NULL: Postgres */
	json_t *place;        /* members of the checkpoint: database, epoch and consumer */
};

/* --- the database --- */

static const char sql_place[] = "SELECT id, epoch FROM :schema.wsonce_database, (" SQL_EPOCH ") AS e (epoch)";
/* A restore of a backup changes schema_version. */
static const char lite_place[] =
	"SELECT id, ((SELECT schema_version FROM pragma_schema_version) << 48) + opened FROM wsonce_database";

/* Reads the id of the database, and its epoch: in another epoch, lines that have settled may be lost. */
static json_t *identify(const struct replay *r, struct session *s)
{
	int failed = session_is_file(s) ? 0 : session_run(s, SQL_MAKE_EPOCH, NULL, "");
	AUTO_ROWS *rows = failed ? NULL : session_query(s, sql_place, lite_place, "");
	bool is_known = rows && session_count(rows);

	if (!rows)
		return NULL;
	return json_pack("{s:s, s:s, s:s}", "database", is_known ? session_text(rows, 0, 0) : "", "epoch",
			 is_known ? session_text(rows, 0, 1) : "", "consumer", r->config->consumer);
}

/* True if the database may have lost commits in between. The lower half of the epoch of a file counts its commits. */
static bool has_forgotten(const struct replay *r, const json_t *before, const json_t *now)
{
	const char *old = member_text(before, "epoch"), *new = member_text(now, "epoch");
	int64_t was = strtoll(old, NULL, 10), is = strtoll(new, NULL, 10);

	return *old && (r->file ? was >> 32 != is >> 32 || was > is : strcmp(old, new) != 0);
}

/* True if the database has lost no commits since this run began. False also if it does not answer. */
static bool is_same_history(struct replay *r)
{
	struct session *s = r->file ? r->file : session_open(r->config, SESSION_READ);
	json_auto_t *now = s ? identify(r, s) : NULL;
	bool is_answered = now;

	r->is_forgotten = r->is_forgotten || (now && has_forgotten(r, r->place, now));
	if (s != r->file)
		session_close(s);
	else if (now && !r->is_forgotten)
		json_object_set(r->place, "epoch", json_object_get(now, "epoch"));
	return is_answered && !r->is_forgotten;
}

/* --- the checkpoint --- */

static int write_checkpoint(struct replay *r)
{
	char fingerprint[65];

	if (!r->o->checkpoint || r->settled == r->written)
		return 0;
	r->written_ms = clock_ms(CLOCK_MONOTONIC);
	if (r->file && !is_same_history(r))
		return 0;
	if (ndjson_fingerprint(r->lines, r->settled, fingerprint))
		return -1;
	json_object_set_new(r->place, "offset", json_integer((json_int_t)r->settled));
	json_object_set_new(r->place, "fingerprint", json_string(fingerprint));
	if (checkpoint_write(r->o->checkpoint, r->place))
		return -1;
	r->written = r->settled;
	return 0;
}

static int refuse(const struct replay *r, const char *what)
{
	return -dispatch_fail("--checkpoint: %s is of another %s", r->o->checkpoint, what);
}

/* Older versions kept a fingerprint of the first bytes, and one of those before the offset as "before". */
static int check_file(struct replay *r, const json_t *known, uint64_t offset)
{
	const char *before = member_text(known, "before");
	char found[65];

	if (ndjson_skip(r->lines, offset) || ndjson_fingerprint(r->lines, offset, found))
		return -1;
	if (strcmp(*before ? before : member_text(known, "fingerprint"), found) != 0)
		return refuse(r, "file, or the lines that were replayed have changed");
	return 0;
}

/* Goes to the offset of the checkpoint, unless the database may have lost events from before it. */
static int go_on(struct replay *r, const json_t *known)
{
	uint64_t offset = (uint64_t)member_number(known, "offset");

	if (!offset)
		return 0;
	if (strcmp(member_text(known, "database"), member_text(r->place, "database")) != 0)
		return refuse(r, "database: give this one a file of its own");
	if (strcmp(member_text(known, "consumer"), member_text(r->place, "consumer")) != 0)
		return refuse(r, "consumer: give this one a file of its own");
	if (has_forgotten(r, known, r->place)) {
		log_warn("the database may have lost commits since the checkpoint, starting over", "checkpoint=%s",
			 r->o->checkpoint);
		return 0;
	}
	r->start = r->settled = r->end = offset;
	return check_file(r, known, offset);
}

static int resume(struct replay *r)
{
	json_auto_t *known = r->o->checkpoint ? checkpoint_read(r->o->checkpoint) : json_object();
	int failed = known ? go_on(r, known) : -1;

	r->written = UINT64_MAX; /* nothing yet */
	return failed;
}

/* --- lines --- */

/* Returns the milliseconds until the next line is due. Time in which a pipe was idle or the database away is not made
 * up for. */
static int64_t wait_ms(struct replay *r)
{
	int64_t wait;

	if (!r->o->rate)
		return 0;
	wait = r->paced_ms + (int64_t)(r->count.fed * 1000 / (uint64_t)r->o->rate) - clock_ms(CLOCK_MONOTONIC);
	if (wait < -BEHIND_MS)
		r->paced_ms += -BEHIND_MS - wait;
	return wait;
}

/* The tag of a line is the offset from which to continue if it has not settled. A last line without a newline may still
 * be growing: the checkpoint stays before it, so that the next run feeds it again when it is whole. */
static void feed_line(struct replay *r, struct feeder *f, const struct ndjson_line *line)
{
	struct feeder_message m = {.bytes = line->bytes, .len = line->len, .tag = line->begin};

	/* A feed may have sent a message that looks like a line of an export. */
	if (!line->record || line->record->kind == RECORD_EVENT)
		exported_read(&r->exported, f, &m);
	feeder_feed(f, &m);
	r->end = line->is_ended ? line->end : line->begin;
}

static void feed_lines(void *owner, struct feeder *f)
{
	struct replay *r = owner;
	enum ndjson_result result = NDJSON_LATER;

	while (feeder_has_room(f) && !r->has_failed && (result == NDJSON_LATER || result == NDJSON_LINE)) {
		int64_t wait = wait_ms(r);
		struct ndjson_line line;

		if (wait > 0) {
			feeder_pause(f, wait);
			continue;
		}
		result = ndjson_next(r->lines, &line);
		if (result == NDJSON_LINE)
			feed_line(r, f, &line);
		else if (result == NDJSON_LATER)
			feeder_pause(f, LATER_MS);
	}
	r->last = result;
}

static void set_settled(struct replay *r)
{
	r->settled = r->count.oldest < r->end ? r->count.oldest : r->end;
}

static void on_tick(void *owner)
{
	struct replay *r = owner;
	uint64_t size = ndjson_size(r->lines), done = r->count.persisted + r->count.duplicates + r->count.rejected;
	int64_t now = clock_ms(CLOCK_MONOTONIC);
	double per_second = (double)done * 1000 / (double)(now - r->start_ms);

	set_settled(r);
	if (!r->has_failed && now - r->written_ms >= CHECKPOINT_MS && write_checkpoint(r))
		r->has_failed = true;
	if (size)
		progress_show("%3.0f %%, %" PRIu64 " lines, %.0f/s", 100 * (double)r->settled / (double)size, done,
			      per_second);
	else
		progress_show("%" PRIu64 " lines, %.0f/s", done, per_second);
}

/* --- the command --- */

static int print_summary(const struct replay *r)
{
	const struct feeder_count *count = &r->count;
	bool is_at_end = r->last == NDJSON_END || r->last == NDJSON_DAMAGED;

	progress_clear();
	if (r->o->is_json) {
		json_out_object(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "lines", (json_int_t)count->fed,
					  "persisted", (json_int_t)count->persisted, "duplicates",
					  (json_int_t)count->duplicates, "rejected", (json_int_t)count->rejected,
					  "from_offset", (json_int_t)r->start, "settled_offset", (json_int_t)r->settled,
					  "interrupted", count->is_interrupted));
	} else {
		if (r->start)
			printf("went on from byte %" PRIu64 "\n", r->start);
		printf("replayed %" PRIu64 ": persisted %" PRIu64 ", duplicates %" PRIu64 ", rejected %" PRIu64 "\n",
		       count->fed, count->persisted, count->duplicates, count->rejected);
	}
	if (count->is_interrupted || (!is_at_end && r->last != NDJSON_FAILED))
		dispatch_fail("stopped before the end; run the same command again for the rest");
	else if (count->rejected)
		dispatch_fail("rejected lines: %" PRIu64 "; see wsonce dead-letters list", count->rejected);
	return r->last == NDJSON_END && !count->is_interrupted && !count->rejected ? STATUS_FINE : STATUS_FAILED;
}

static int replay(struct replay *r)
{
	const struct feeder_owner owner = {feed_lines, NULL, on_tick, r, "replay"};
	int status;

	if (ndjson_would_lose(r->lines, r->o->checkpoint ? r->o->checkpoint : ""))
		return dispatch_refuse("--checkpoint: %s (or its temporary file) is the file to replay",
				       r->o->checkpoint);
	if (resume(r) || write_checkpoint(r)) /* if it cannot be written, fail before a line is fed */
		return STATUS_FAILED;
	r->start_ms = r->paced_ms = r->written_ms = clock_ms(CLOCK_MONOTONIC);
	if (feeder_run(r->config, &owner, &r->count))
		return STATUS_FAILED;
	set_settled(r);
	status = write_checkpoint(r) ? STATUS_FAILED : STATUS_FINE;
	if (print_summary(r) != STATUS_FINE || (!r->count.is_interrupted && !is_same_history(r)))
		status = STATUS_FAILED;
	if (!r->count.is_interrupted && r->is_forgotten)
		dispatch_fail("the database may have lost commits meanwhile; run the same command again");
	return status;
}

/* The session finds at once what the pipeline would wait for: no database, or a fleet with other effects. */
int replay_command(const struct invocation *in)
{
	struct session *s = in->session;
	struct replay r = {.o = in->options, .config = in->config, .file = session_is_file(s) ? s : NULL};
	int status = effects_guard_check(s, in->config);

	if (status == STATUS_FINE)
		r.place = identify(&r, s);
	if (r.place)
		r.lines = ndjson_open(in->words[0], (size_t)in->config->message_bytes);
	if (status == STATUS_FINE)
		status = r.lines ? replay(&r) : STATUS_FAILED;
	exported_free(&r.exported);
	ndjson_close(r.lines);
	json_decref(r.place);
	return status;
}
