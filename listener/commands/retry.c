/* retry.c owns `wsonce dead-letters retry`: it feeds dead letters to a pipeline and records the outcome of each. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "commands/dead_letters.h"
#include "commands/effects_guard.h"
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
enum column { ID, RAW, IS_WHOLE, IS_OPEN, EVENT_ID, EVENT_TYPE, SOURCE };

struct retry {
	const struct invocation *in;
	const struct dead_letters_options *o;
	struct session *session;
	struct envelope *envelope; /* reads the ids of messages */
	struct dead_letter_walk walk;
	size_t next;            /* the first of the walk's ids that is not in page */
	struct pg_result *page; /* letters; NULL: none yet */
	size_t row;             /* the next one in page */
	char *bytes;            /* the current message; heap */
	size_t len;
	int64_t id;                 /* of its letter */
	struct feed_event event;    /* what a profile has read; source is NULL if none has */
	struct config_list sources; /* names, to which events in flight refer */
	bool is_waiting;            /* the current message waits for another one with the same id to settle */
	json_t *told;               /* outcomes that are not yet recorded */
	bool is_lost;               /* an outcome could not be recorded */
	bool is_whole;              /* all letters were fed */
	uint64_t skipped;           /* letters that cannot be fed, or are no longer open */
	struct json_out out;
};

/* --- outcomes --- */

static void record(struct retry *r)
{
	char *text = json_dumps(r->told, JSON_COMPACT);
	const char *values[] = {text, r->o->raw_file ? "retry-edited" : "retry", r->o->note,
				r->in->config->instance_id};
	struct pg_result *done =
		!r->is_lost ? session_ask_either(r->session, SQL_RETRY_RECORD, SQL_SQLITE_RETRY_RECORD, 4, values)
			    : NULL;

	r->is_lost = r->is_lost || !done;
	session_drop(done);
	free(text);
	json_array_clear(r->told);
}

static void print_outcome(struct retry *r, int64_t id, const char *outcome, const char *why)
{
	if (r->o->is_json) {
		json_out_item(&r->out, json_pack("{s:I, s:s, s:o*}", "id", (json_int_t)id, "outcome", outcome, "reason",
						 json_out_string(why)));
	} else if (why) {
		progress_clear();
		printf("%" PRId64 " %s: ", id, outcome);
		json_out_text(why, strlen(why), true);
		putchar('\n');
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

	progress_show("%" PRId64 ", up to id %" PRId64, r->walk.found - (int64_t)(r->walk.ids.count - r->next), r->id);
}

/* --- letters in --- */

static int fetch_page(struct retry *r)
{
	char *ids = dead_letter_ids_array(&r->walk.ids, r->next, PAGE);
	const char *values[] = {ids, r->o->raw_file ? "t" : "f"};

	session_drop(r->page);
	r->page = session_ask_either(r->session, SQL_RETRY_TAKE, SQL_SQLITE_RETRY_TAKE, 2, values);
	free(ids);
	r->row = 0;
	r->next += r->walk.ids.count - r->next < PAGE ? r->walk.ids.count - r->next : PAGE;
	return r->page ? 0 : -1;
}

static const char *keep_source(struct retry *r, const char *name)
{
	for (size_t i = 0; i < r->sources.count; i++)
		if (strcmp(r->sources.items[i], name) == 0)
			return r->sources.items[i];
	r->sources.items = memory_realloc(r->sources.items, (r->sources.count + 1) * sizeof(char *));
	return r->sources.items[r->sources.count++] = memory_strdup(name);
}

static struct slice text_of(const struct pg_result *page, size_t row, int column)
{
	const char *text = session_text(page, row, column);

	return (struct slice){text, strlen(text)};
}

/* Gets what a profile has read. The event's time was not kept, so --max-age refuses it again. */
static void fetch_event(struct retry *r, size_t row)
{
	r->event = (struct feed_event){.is_shared = true};
	if (session_is_null(r->page, row, EVENT_TYPE))
		return;
	r->event.source = keep_source(r, session_text(r->page, row, SOURCE));
	r->event.id = text_of(r->page, row, EVENT_ID);
	r->event.type = text_of(r->page, row, EVENT_TYPE);
}

/* Is it a frame that its profile could not read? The pointers are for other sources and say nothing about it. */
static bool is_frame(const struct pg_result *page, size_t row)
{
	return session_is_null(page, row, EVENT_TYPE) && !session_is_null(page, row, SOURCE);
}

/* Returns why the letter cannot be fed, or NULL. The head of a message would become a letter of its own. */
static const char *find_objection(const struct retry *r)
{
	if (r->o->raw_file)
		return NULL;
	if (!session_flag(r->page, r->row, IS_OPEN))
		return "it is no longer open";
	if (is_frame(r->page, r->row))
		return "it is a frame of a feed that its profile could not read; store its event in another way, or "
		       "discard it";
	if (!session_flag(r->page, r->row, IS_WHOLE))
		return "it was over --max-message and only its head is kept; give the whole by --raw-file";
	return NULL;
}

/* Gets the next letter and, unless it was edited, its message. Returns 1; 0 at the end of the page of ids; or -1. */
static int fetch(struct retry *r)
{
	const char *why;

	for (;; r->row++) {
		while (!r->page || r->row == session_count(r->page)) {
			if (r->next == r->walk.ids.count)
				return 0;
			if (fetch_page(r))
				return -1;
		}
		r->id = session_number(r->page, r->row, ID);
		why = find_objection(r);
		if (!why)
			break;
		print_outcome(r, r->id, "skipped", why);
		r->skipped++;
	}
	if (!r->o->raw_file) {
		free(r->bytes);
		r->bytes = session_bytes(r->page, r->row, RAW, &r->len);
	}
	fetch_event(r, r->row++);
	return 1;
}

/* The pipeline asks the store about events with marks, so the letter's own dead mark is not in the way. */
static enum feeder_pull hand_over(struct retry *r, struct feeder *f, struct feeder_message *m)
{
	struct envelope_view view = {.id = r->event.id};
	bool is_event = r->event.source, has_id = is_event || !envelope_read(r->envelope, r->bytes, r->len, &view);

	r->is_waiting = has_id && feeder_has(f, view.id);
	if (r->is_waiting) {
		m->wait_ms = 1;
		return FEEDER_LATER;
	}
	r->event.payload = (struct slice){r->bytes, r->len};
	*m = (struct feeder_message){
		.bytes = r->bytes, .len = r->len, .event = is_event ? &r->event : NULL, .tag = (uint64_t)r->id};
	return FEEDER_MESSAGE;
}

/* Turns to the next page of ids. Its letters are fetched by the next call, after signals. */
static enum feeder_pull turn_page(struct retry *r, struct feeder_message *m)
{
	r->is_whole = r->walk.is_over;
	if (r->is_whole)
		return FEEDER_END;
	m->wait_ms = 0;
	r->next = 0;
	return dead_letter_walk_next(&r->walk) ? FEEDER_FAILED : FEEDER_LATER;
}

static enum feeder_pull pull(void *owner, struct feeder *f, struct feeder_message *m)
{
	struct retry *r = owner;
	int found = r->is_waiting ? 1 : fetch(r);

	if (found <= 0)
		return found ? FEEDER_FAILED : turn_page(r, m);
	return hand_over(r, f, m);
}

/* --- the command --- */

/* Reads the edited message. A newline that an editor has left at its end does not matter to JSON. */
static int read_edited(struct retry *r)
{
	const char *path = r->o->raw_file;

	r->bytes =
		file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, (size_t)r->in->config->message_bytes, &r->len);
	if (!r->bytes)
		return dispatch_fail("--raw-file: %s: %s", path,
				     errno == EFBIG ? "it is longer than --max-message" : strerror(errno));
	return 0;
}

static int print_summary(struct retry *r, const struct feeder_count *count)
{
	uint64_t left = count->fed - count->persisted - count->duplicates - count->rejected;

	progress_clear();
	if (r->o->is_json) {
		json_out_list_end(&r->out);
		json_out_member(&r->out, "persisted", json_integer((json_int_t)count->persisted));
		json_out_member(&r->out, "duplicates", json_integer((json_int_t)count->duplicates));
		json_out_member(&r->out, "rejected", json_integer((json_int_t)count->rejected));
		json_out_member(&r->out, "skipped", json_integer((json_int_t)r->skipped));
		json_out_member(&r->out, "left", json_integer((json_int_t)left));
		json_out_member(&r->out, "interrupted", json_boolean(count->is_interrupted));
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
	const struct feeder_owner owner = {pull, on_settled, on_tick, r, "retry"};
	struct feeder_count count;

	if (r->o->is_json) {
		json_out_open(&r->out);
		json_out_list(&r->out, "letters");
	}
	if (feeder_run(r->in->config, &owner, &count)) {
		if (r->o->is_json)
			json_out_list_end(&r->out), json_out_close(&r->out);
		return STATUS_FAILED;
	}
	if (json_array_size(r->told))
		record(r);
	if (r->is_lost)
		dispatch_fail("cannot record the outcome of some letters; run again");
	return print_summary(r, &count);
}

static int retry(struct retry *r)
{
	const struct config *c = r->in->config;

	r->envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	r->told = json_array();
	if ((r->o->raw_file && read_edited(r)) || dead_letter_walk_begin(&r->walk, r->session, r->in))
		return STATUS_FAILED;
	return r->o->id && r->walk.missed ? STATUS_FAILED : feed(r);
}

static int retry_dead_letters(const struct invocation *in)
{
	struct retry r = {.in = in, .o = in->options, .session = session_open(in->config)};
	int status = r.session ? effects_guard_check(r.session, in->config) : STATUS_FAILED;

	if (status == STATUS_FINE)
		status = retry(&r);
	dead_letter_walk_end(&r.walk);
	session_drop(r.page);
	envelope_free(r.envelope);
	json_decref(r.told);
	free(r.bytes);
	for (size_t i = 0; i < r.sources.count; i++)
		free(r.sources.items[i]);
	free(r.sources.items);
	session_close(r.session);
	return status;
}

/* Deliveries become pending, and the listeners send them. */
static int run_retry(const struct invocation *in)
{
	const struct dead_letters_options *o = in->options;

	return o->filter.is_deliveries ? dead_letters_change(in) : retry_dead_letters(in);
}

static const struct option retry_options[] = {
	DEAD_LETTERS_CHANGE("all that are open"),
	{"raw-file", DEAD_LETTERS_OPTION(TEXT, raw_file), "FILE", 0, 0, NULL,
	 "with --id: feed this edited message instead of the kept one"},
	{"id", DEAD_LETTERS_OPTION(TEXT, id), "ID", 0, 0, NULL, "the letter that --raw-file replaces"},
};

static const struct dead_letters_options retry_defaults = {
	.filter = {.state = "open"}, .action = "retry", .done_as = "retried"};

const struct subcommand dead_letters_retry = {
	.name = "dead-letters retry",
	.arguments = "[ID ...]",
	.summary = "store or deliver them after all, also after editing",
	.help = "Feeds dead letters through the ordinary way once more: claims, batches, the unique key; so none is "
		"stored twice. Those that are stored now, or were already, leave the list. The others stay, with their "
		"new reason. --id ID --raw-file FILE feeds an edited message (show --raw ID >FILE). With --deliveries, "
		"dead deliveries become pending, and the fleet sends them again with the same Idempotency-Key.",
	.most_words = -1,
	COMMAND_OPTIONS(retry_options, struct dead_letters_options),
	.defaults = &retry_defaults,
	.check = dead_letters_check,
	.run = run_retry,
};
