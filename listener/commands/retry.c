/* retry.c owns `wsonce dead-letters retry`: it feeds dead letters to a pipeline and records the outcome of each. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "commands/dead_letters.h"
#include "commands/table.h"
#include "commands/guards.h"
#include "commands/feeder.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "retry_record.sql.h"
#include "retry_take.sql.h"
#include "sqlite_retry_record.sql.h"
#include "sqlite_retry_take.sql.h"

#define PAGE     16  /* letters fetched at once: each may be as long as --max-message */
#define TOLD_MAX 200 /* outcomes recorded at once */

/* Columns of retry_take.sql. */
enum column { ID, RAW, OBJECTION, EVENT_ID, EVENT_TYPE, SOURCE };

struct retry {
	const struct invocation *in;
	const struct given *o;
	struct envelope *envelope; /* reads the ids of messages */
	struct dead_letter_walk walk;
	char *edited; /* the message of --raw-file; NULL: none */
	size_t edited_len;
	int64_t id;       /* id of the letter that was fed last */
	json_t *told;     /* outcomes that are not yet recorded */
	uint64_t skipped; /* letters that cannot be fed, or are no longer open */
	bool is_lost;     /* an outcome could not be recorded */
	bool is_whole;    /* all letters were fed */
	struct feeder_count count;
	struct json_out out;
};

/* --- outcomes --- */

static void record(struct retry *r)
{
	AUTO_FREE char *text = json_dumps(r->told, JSON_COMPACT);

	r->is_lost = r->is_lost ||
		     session_run(r->in->session, SQL_RETRY_RECORD, SQL_SQLITE_RETRY_RECORD, "ssss", text,
				 r->o->raw_file ? "retry-edited" : "retry", r->o->note, r->in->config->instance_id);
	json_array_clear(r->told);
}

static void print_outcome(struct retry *r, int64_t id, const char *outcome, const char *why)
{
	if (r->o->is_json) {
		json_out_item(&r->out, json_pack("{s:I, s:s, s:o*}", "id", (json_int_t)id, "outcome", outcome, "reason",
						 json_out_string(why)));
	} else if (why) {
		progress_clear();
		json_out_line("letter %" PRId64 " was %s: %s", id, outcome, why);
	}
}

static void on_settled(void *owner, uint64_t tag, enum outcome outcome, const char *reason)
{
	static const char *const names[] = {"persisted", "duplicate", "rejected"};
	struct retry *r = owner;
	const char *why = outcome != OUTCOME_REJECTED ? NULL : reason ? reason : "another listener has rejected it";

	print_outcome(r, (int64_t)tag, names[outcome], why);
	json_array_append_new(r->told, json_pack("{s:I, s:s, s:o*}", "id", (json_int_t)tag, "outcome", names[outcome],
						 "why", json_out_string(why)));
	if (json_array_size(r->told) >= TOLD_MAX)
		record(r);
}

static void on_tick(void *owner)
{
	const struct retry *r = owner;

	progress_show("%" PRIu64 ", up to id %" PRId64, r->count.fed + r->skipped, r->id);
}

/* --- letters in --- */

static struct slice text_of(const struct pg_result *page, size_t row, int column)
{
	const char *text = session_text(page, row, column);

	return (struct slice){text, strlen(text)};
}

/* Why a letter cannot be fed, by the numbers of retry_take.sql. The pointers in the settings do not apply to frames of
 * a feed, and the head of a message would become a dead letter of its own. */
static const char *const objections[] = {
	NULL,
	"it is no longer open",
	"it is a frame of a feed that its profile could not read; store its event in another way, or discard it",
	"it was over --max-message and only its head is kept; give the whole by --raw-file",
};

/* Feeds a message, or the payload of an event that a profile has read. Waits while another event with its id has no
 * outcome. The pipeline asks the store about events with marks, so the letter's own dead mark does no harm. The event's
 * time was not kept, so --max-age refuses it again. Returns false after a signal. */
static bool feed_message(struct retry *r, struct feeder *f, const struct pg_result *page, size_t row,
			 struct slice message)
{
	struct feed_event event = {.is_shared = true, .payload = message};
	struct feeder_message m = {.bytes = message.at, .len = message.len, .tag = (uint64_t)r->id};
	struct envelope_view view;
	bool has_id = true;

	if (!session_is_null(page, row, EVENT_TYPE)) {
		event.source = feeder_keep_name(f, session_text(page, row, SOURCE));
		event.id = view.id = text_of(page, row, EVENT_ID);
		event.type = text_of(page, row, EVENT_TYPE);
		m.event = &event;
	} else {
		has_id = !envelope_read(r->envelope, message.at, message.len, &view);
	}
	while (has_id && feeder_has(f, view.id))
		if (!feeder_pause(f, 1))
			return false;
	feeder_feed(f, &m);
	return true;
}

static bool feed_dead_letter(struct retry *r, struct feeder *f, const struct pg_result *page, size_t row)
{
	const char *why = r->edited ? NULL : objections[session_number(page, row, OBJECTION)];
	size_t len = r->edited_len;
	AUTO_FREE char *raw = r->edited ? NULL : session_bytes(page, row, RAW, &len);

	r->id = session_number(page, row, ID);
	if (why) {
		print_outcome(r, r->id, "skipped", why);
		r->skipped++;
		return true;
	}
	return feed_message(r, f, page, row, (struct slice){r->edited ? r->edited : raw, len});
}

/* Feeds PAGE of the walk's ids, beginning with number first. */
static bool feed_some(struct retry *r, struct feeder *f, size_t first)
{
	AUTO_FREE char *ids = dead_letter_ids_array(&r->walk.ids, first, PAGE);
	AUTO_ROWS *page =
		session_query(r->in->session, SQL_RETRY_TAKE, SQL_SQLITE_RETRY_TAKE, "ss", ids, r->edited ? "t" : "f");
	bool is_fed = page;

	for (size_t row = 0; is_fed && row < session_count(page); row++)
		is_fed = feeder_has_room(f) && feed_dead_letter(r, f, page, row);
	return is_fed;
}

static void feed_all(void *owner, struct feeder *f)
{
	struct retry *r = owner;
	bool is_fed = true;

	do {
		for (size_t i = 0; is_fed && i < r->walk.ids.count; i += PAGE)
			is_fed = feed_some(r, f, i);
		r->is_whole = is_fed && r->walk.is_over;
	} while (is_fed && !r->is_whole && feeder_pause(f, 0) && !dead_letter_walk_next(&r->walk));
}

/* --- the command --- */

/* Reads the edited message. A final newline, which editors add, does not matter to JSON. */
static int read_edited(struct retry *r)
{
	const char *path = r->o->raw_file;

	r->edited = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, (size_t)r->in->config->message_bytes,
			      &r->edited_len);
	if (!r->edited)
		return dispatch_fail("--raw-file: %s: %s", path,
				     errno == EFBIG ? "it is longer than --max-message" : strerror(errno));
	return 0;
}

static int print_summary(struct retry *r)
{
	const struct feeder_count *count = &r->count;
	uint64_t left = count->fed - count->persisted - count->duplicates - count->rejected;

	progress_clear();
	if (r->o->is_json) {
		json_out_list_end(&r->out);
		json_out_members(&r->out,
				 json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "persisted", (json_int_t)count->persisted,
					   "duplicates", (json_int_t)count->duplicates, "rejected",
					   (json_int_t)count->rejected, "skipped", (json_int_t)r->skipped, "left",
					   (json_int_t)left, "interrupted", count->is_interrupted));
		json_out_close(&r->out);
	} else {
		printf("retried %" PRIu64 ": persisted %" PRIu64 ", duplicates %" PRIu64 ", rejected again %" PRIu64
		       ", skipped %" PRIu64 "\n",
		       count->fed + r->skipped, count->persisted, count->duplicates, count->rejected, r->skipped);
	}
	if (left)
		dispatch_fail("%" PRIu64 " have no outcome yet; run again", left);
	if (!r->is_whole)
		dispatch_fail("stopped before the end; run again for the rest");
	return left || !r->is_whole || r->walk.missed || count->rejected || r->skipped || r->is_lost ? STATUS_FAILED
												     : STATUS_FINE;
}

static int feed(struct retry *r)
{
	const struct feeder_owner owner = {feed_all, on_settled, on_tick, r, "retry"};
	int failed;

	if (r->o->is_json) {
		json_out_open(&r->out);
		json_out_list(&r->out, "letters");
	}
	failed = feeder_run(r->in->config, &owner, &r->count);
	if (failed && r->o->is_json) {
		json_out_list_end(&r->out);
		json_out_close(&r->out);
	}
	if (failed)
		return STATUS_FAILED;
	if (json_array_size(r->told))
		record(r);
	if (r->is_lost)
		dispatch_fail("cannot record the outcome of some letters; run again");
	return print_summary(r);
}

static int retry(struct retry *r)
{
	const struct config *c = r->in->config;

	r->envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	r->told = json_array();
	if ((r->o->raw_file && read_edited(r)) || dead_letter_walk_begin(&r->walk, r->in))
		return STATUS_FAILED;
	return r->o->id && r->walk.missed ? STATUS_FAILED : feed(r);
}

static int retry_letters(const struct invocation *in)
{
	struct retry r = {.in = in, .o = in->options};
	int status = effects_guard_check(in->session, in->config);

	if (status == STATUS_FINE)
		status = retry(&r);
	dead_letter_walk_end(&r.walk);
	envelope_free(r.envelope);
	json_decref(r.told);
	free(r.edited);
	return status;
}

/* Deliveries become pending, and the listeners send them. */
int dead_letters_retry(const struct invocation *in)
{
	const struct given *o = in->options;

	return o->is_deliveries ? dead_letters_change(in) : retry_letters(in);
}
