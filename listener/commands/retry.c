/* retry.c owns `wsonce dead-letters retry`: dead letters through the ordinary way once more, and the
 * record of what became of each. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/bulk_change.h"
#include "base/memory.h"
#include "commands/deliveries.h"
#include "commands/dispatch.h"
#include "commands/effects_guard.h"
#include "commands/feeder.h"
#include "commands/letters.h"
#include "commands/redis_query.h"
#include "commands/json_out.h"
#include "commands/progress.h"

#define PAGE     16  /* letters fetched at once: each may be as long as --max-message */
#define TOLD_MAX 200 /* outcomes recorded at once */

struct retry_options {
	struct letter_filter filter;
	const char *raw_file;
	const char *id;
	const char *note;
	bool is_all;
	bool is_json;
};

static const struct option retry_options[] = {
	LETTERS_OPTIONS(struct retry_options),
	{"limit", OPTION_NUMBER, offsetof(struct retry_options, filter.limit), "N", 1, INT64_MAX, NULL,
	 "at most N, the oldest first"},
	{"all", OPTION_SWITCH, offsetof(struct retry_options, is_all), NULL, 0, 0, NULL, "all that are open"},
	{"raw-file", OPTION_TEXT, offsetof(struct retry_options, raw_file), "FILE", 0, 0, NULL,
	 "with --id: feed this edited message instead of the kept one"},
	{"id", OPTION_TEXT, offsetof(struct retry_options, id), "ID", 0, 0, NULL,
	 "the letter that --raw-file replaces"},
	{"note", OPTION_TEXT, offsetof(struct retry_options, note), "TEXT", 0, 0, NULL,
	 "a note to keep with the record"},
	{"json", OPTION_SWITCH, offsetof(struct retry_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* Can a letter be fed again? See skip(). */
#define RETRIABLE "(event_type IS NOT NULL OR source IS NULL)"

/* Those that are open now: since they were chosen somebody may have discarded some. From here on discard leaves those
 * alone that are fed again. The order of the locks is that of bury.sql, so that the two do not wait for each other. */
static const char sql_page[] =
	"WITH wanted AS (SELECT pg_catalog.unnest($1::bigint[]) AS id), locked AS ("
	"  SELECT id FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) AND " LETTERS_OPEN
	" ORDER BY digest FOR UPDATE),"
	" open AS (UPDATE :schema.dead_letters SET retried_at = CASE WHEN " RETRIABLE " AND " LETTERS_WHOLE
	" THEN now() ELSE retried_at END WHERE id IN (SELECT id FROM locked)"
	"  RETURNING id, raw, " LETTERS_WHOLE " AS is_whole, event_id, event_type, source)"
	" SELECT w.id, o.raw, coalesce(o.is_whole, false), o.id IS NOT NULL, o.event_id, o.event_type, o.source"
	" FROM wanted AS w LEFT JOIN open AS o USING (id) ORDER BY w.id";

static const char sql_record[] =
	"WITH told AS (SELECT * FROM pg_catalog.jsonb_to_recordset($1::jsonb) AS t(id bigint, outcome text, why text)),"
	" locked AS (SELECT d.id, d.digest, d.event_id, told.outcome, told.why"
	"  FROM :schema.dead_letters d JOIN told USING (id) ORDER BY d.digest FOR UPDATE OF d),"
	" stored AS (UPDATE :schema.dead_letters d SET retried_at = NULL,"
	"  resolved_at = CASE WHEN locked.outcome = 'rejected' THEN d.resolved_at ELSE now() END,"
	"  resolution = CASE WHEN locked.outcome = 'rejected' THEN d.resolution ELSE locked.outcome END FROM locked"
	"  WHERE d.id = locked.id)"
	" INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)"
	" SELECT id, digest, event_id, $2::text, outcome, pg_catalog.concat_ws(': ', $3::text, why), $4::text FROM "
	"locked";

static const char lite_page[] =
	"UPDATE dead_letters SET retried_at = " LETTERS_LITE_NOW
	" WHERE id IN " LETTERS_LITE_IDS("?1") " AND " LETTERS_OPEN " AND " RETRIABLE " AND " LETTERS_LITE_WHOLE ";"
					       "SELECT value, raw, CASE WHEN " LETTERS_LITE_WHOLE
					       " THEN 't' ELSE 'f' END, iif(d.id IS NULL, 'f', 't'), event_id,"
					       " event_type, source FROM json_each('[' || trim(?1, '{}') || ']') AS w "
					       "LEFT JOIN dead_letters AS d ON d.id = w.value"
					       " AND " LETTERS_OPEN " ORDER BY 1";

static const char lite_record[] =
	"INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, "
	"done_at)"
	" SELECT d.id, d.digest, d.event_id, ?2, t.value ->> 'outcome', nullif(coalesce(?3, '') || iif(?3 IS NULL OR"
	" t.value ->> 'why' IS NULL, '', ': ') || coalesce(t.value ->> 'why', ''), ''), wsonce_user(''), "
	"?4, " LETTERS_LITE_NOW " FROM json_each(?1) AS t JOIN dead_letters AS d ON d.id = t.value ->> 'id';"
	"UPDATE dead_letters AS d SET retried_at = NULL,"
	" resolved_at = iif(t.outcome = 'rejected', d.resolved_at, " LETTERS_LITE_NOW "),"
	" resolution = iif(t.outcome = 'rejected', d.resolution, t.outcome)"
	" FROM (SELECT value ->> 'id' AS id, value ->> 'outcome' AS outcome FROM json_each(?1)) AS t WHERE t.id = d.id";

struct retry {
	const struct invocation *in;
	const struct retry_options *o;
	struct session *session;
	struct redis_query *marks; /* NULL: no Redis */
	struct envelope *envelope; /* tells whose mark is in the way */
	struct letter_walk walk;
	size_t next;            /* of its page of ids, not yet fetched */
	struct pg_result *page; /* NULL: the next is to be fetched */
	size_t row;             /* of page */
	char *bytes;            /* of the message handed over last, or that waits */
	size_t len;
	int64_t id;                 /* its letter */
	struct feed_event event;    /* what its profile has read; source is NULL if there is none */
	struct config_list sources; /* their names, which events in flight refer to */
	bool is_waiting;            /* for another of its id to settle */
	json_t *told;               /* outcomes that are not yet recorded */
	bool is_marking;            /* dead marks of this run are perhaps on their way to Redis */
	bool is_lost;               /* an outcome could not be recorded */
	bool is_whole;              /* all were handed over */
	uint64_t cut;               /* letters with the head of a message only, or that were not open any more */
	struct json_out out;
};

/* --- outcomes --- */

static void record(struct retry *r)
{
	char *text = json_dumps(r->told, JSON_COMPACT);
	const char *values[] = {text, r->o->raw_file ? "retry-edited" : "retry", r->o->note,
				r->in->config->instance_id};
	struct pg_result *done =
		!r->is_lost ? session_ask_either(r->session, sql_record, lite_record, 4, values) : NULL;

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

	r->is_marking = r->is_marking || outcome == OUTCOME_REJECTED;
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
	const struct letter_ids *ids = &r->walk.ids;
	size_t left = ids->count - r->next, n = left < PAGE ? left : PAGE;
	char *array = letters_array(ids, r->next, n);
	const char *values[] = {array};

	session_drop(r->page);
	r->page = session_ask_either(r->session, sql_page, lite_page, 1, values);
	free(array);
	r->row = 0;
	r->next += n;
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

/* Its time is not kept: with --max-age it stays refused. */
static void fetch_event(struct retry *r, const struct pg_result *page, size_t row)
{
	r->event = (struct feed_event){.is_shared = true};
	if (session_is_null(page, row, 5))
		return;
	r->event.source = keep_source(r, session_text(page, row, 6));
	r->event.id = text_of(page, row, 4);
	r->event.type = text_of(page, row, 5);
}

/* Of the letter that an edited message replaces. */
static int fetch_edited(struct retry *r)
{
	static const char sql[] =
		"SELECT NULL, NULL, NULL, NULL, event_id, event_type, source FROM :schema.dead_letters"
		" WHERE id = $1::bigint";
	const char *values[] = {r->o->id};

	r->page = session_ask_either(r->session, sql,
				     "SELECT NULL, NULL, NULL, NULL, event_id, event_type, source FROM dead_letters"
				     " WHERE id = CAST(?1 AS INTEGER)",
				     1, values);
	if (!r->page)
		return -1;
	if (session_count(r->page))
		fetch_event(r, r->page, 0);
	return 0;
}

/* A frame that its profile could not read: the pointers, which are other sources', say nothing of it. */
static bool is_frame(const struct pg_result *page, size_t row)
{
	return session_is_null(page, row, 5) && !session_is_null(page, row, 6);
}

/* Fed as it is, a part would become a dead letter of its own. */
static void skip(struct retry *r)
{
	const char *why = "it was over --max-message and only its head is kept; give the whole by --raw-file";

	if (!session_flag(r->page, r->row, 3))
		why = "it is no longer open";
	else if (is_frame(r->page, r->row))
		why = "it is a frame of a feed that its profile could not read; store its event by another way, or "
		      "discard it";
	print_outcome(r, r->id, "skipped", why);
	r->cut++;
}

/* Gets the next letter's message into r->bytes. Returns 1, 0 at the end, -1 if it cannot. */
static int fetch(struct retry *r)
{
	for (;; r->row++) {
		while (!r->page || r->row == session_count(r->page)) {
			if (r->next == r->walk.ids.count)
				return 0;
			if (fetch_page(r))
				return -1;
		}
		r->id = session_number(r->page, r->row, 0);
		if (session_flag(r->page, r->row, 2) && !is_frame(r->page, r->row))
			break;
		skip(r);
	}
	free(r->bytes);
	r->bytes = session_bytes(r->page, r->row, 1, &r->len);
	fetch_event(r, r->page, r->row++);
	return 1;
}

/* The letter's own dead mark would settle it at once, as rejected. It is deleted over a connection of
 * our own, so a mark that the pipeline has just sent must have arrived. */
static void forget_mark(struct retry *r, struct slice id)
{
	if (redis_query_forget(r->marks, &id, 1, false) == 0)
		return;
	dispatch_fail("redis does not answer; its dead marks are not deleted");
	redis_query_close(r->marks);
	r->marks = NULL;
}

static enum feeder_pull hand_over(struct retry *r, struct feeder *f, struct feeder_message *m)
{
	struct envelope_view view = {.id = r->event.id};
	bool is_event = r->event.source, has_id = is_event || !envelope_read(r->envelope, r->bytes, r->len, &view);

	r->is_marking = r->is_marking && !feeder_is_quiet(f);
	r->is_waiting = has_id && (r->is_marking || feeder_has(f, view.id));
	m->wait_ms = 1;
	if (r->is_waiting)
		return FEEDER_LATER;
	if (has_id)
		forget_mark(r, view.id);
	m->bytes = r->bytes;
	m->len = r->len;
	r->event.payload = (struct slice){r->bytes, r->len};
	m->event = is_event ? &r->event : NULL;
	m->tag = (uint64_t)r->id;
	return FEEDER_MESSAGE;
}

/* The page of ids is over: of the next one letters are fetched at the next call, so that signals are seen between. */
static enum feeder_pull turn_page(struct retry *r, struct feeder_message *m)
{
	r->is_whole = r->o->raw_file || r->walk.is_over;
	if (r->is_whole)
		return FEEDER_END;
	m->wait_ms = 0;
	r->next = 0;
	return letters_walk_on(&r->walk) ? FEEDER_FAILED : FEEDER_LATER;
}

static enum feeder_pull pull(void *owner, struct feeder *f, struct feeder_message *m)
{
	struct retry *r = owner;
	int found = 1;

	if (!r->is_waiting)
		found = r->o->raw_file ? r->next++ == 0 : fetch(r);
	if (found <= 0)
		return found ? FEEDER_FAILED : turn_page(r, m);
	return hand_over(r, f, m);
}

/* --- the command --- */

/* The edited message, whole. A newline that an editor left at its end is not a part of JSON anyway. */
static int read_stream(struct retry *r, FILE *in)
{
	size_t limit = (size_t)r->in->config->message_bytes;

	while (!feof(in) && !ferror(in) && r->len <= limit) {
		r->bytes = memory_realloc(r->bytes, r->len + 65536);
		r->len += fread(r->bytes + r->len, 1, 65536, in);
	}
	if (ferror(in))
		return dispatch_fail("--raw-file: cannot read %s", r->o->raw_file);
	if (r->len > limit)
		return dispatch_fail("--raw-file: %s is longer than --max-message allows", r->o->raw_file);
	return 0;
}

static int read_file(struct retry *r)
{
	bool is_stdin = strcmp(r->o->raw_file, "-") == 0;
	FILE *in = is_stdin ? stdin : fopen(r->o->raw_file, "re");
	int result;

	if (!in)
		return dispatch_fail("--raw-file: %s: %s", r->o->raw_file, strerror(errno));
	result = read_stream(r, in);
	if (!is_stdin)
		fclose(in);
	return result;
}

static int print_summary(struct retry *r, const struct feeder_count *count, int missed)
{
	uint64_t left = count->fed - count->persisted - count->duplicates - count->rejected;

	progress_clear();
	if (r->o->is_json) {
		json_out_list_end(&r->out);
		json_out_member(&r->out, "persisted", json_integer((json_int_t)count->persisted));
		json_out_member(&r->out, "duplicates", json_integer((json_int_t)count->duplicates));
		json_out_member(&r->out, "rejected", json_integer((json_int_t)count->rejected));
		json_out_member(&r->out, "skipped", json_integer((json_int_t)r->cut));
		json_out_member(&r->out, "left", json_integer((json_int_t)left));
		json_out_member(&r->out, "interrupted", json_boolean(count->is_interrupted));
		json_out_close(&r->out);
	} else {
		printf("retried %" PRIu64 ": persisted %" PRIu64 ", duplicates %" PRIu64 ", rejected again %" PRIu64
		       ", skipped %" PRIu64 "\n",
		       count->fed + r->cut, count->persisted, count->duplicates, count->rejected, r->cut);
	}
	if (left)
		dispatch_fail("%" PRIu64 " have no outcome yet; run again", left);
	if (!r->is_whole)
		dispatch_fail("stopped before the end; run again for the rest");
	return left || !r->is_whole || missed || count->rejected || r->cut || r->is_lost ? STATUS_FAILED : STATUS_FINE;
}

/* Nothing was fed: the list is empty, but it is JSON. */
static void close_json(struct retry *r)
{
	if (!r->o->is_json)
		return;
	json_out_list_end(&r->out);
	json_out_close(&r->out);
}

static int feed(struct retry *r, int missed)
{
	const struct feeder_owner owner = {pull, on_settled, on_tick, r, "retry"};
	struct feeder_count count;

	if (r->o->is_json) {
		json_out_open(&r->out);
		json_out_list(&r->out, "letters");
	}
	if (feeder_run(r->in->config, &owner, &count)) {
		close_json(r);
		return STATUS_FAILED;
	}
	if (json_array_size(r->told))
		record(r);
	if (r->is_lost)
		dispatch_fail("cannot record the outcome of some letters; run again");
	return print_summary(r, &count, missed);
}

static int retry(struct retry *r)
{
	const struct config *c = r->in->config;
	struct letter_filter filter = r->o->filter;
	char *id = (char *)r->o->id;
	int missed;

	filter.words = id ? &id : r->in->words;
	filter.word_count = id ? 1 : r->in->word_count;
	if (id)
		filter.state = "all";
	r->envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	r->told = json_array();
	if ((r->o->raw_file && read_file(r)) || letters_walk_begin(&r->walk, r->session, c, &filter))
		return STATUS_FAILED;
	missed = letters_miss(&filter, &r->walk.ids);
	if (id && missed)
		return STATUS_FAILED;
	if (id)
		r->id = r->walk.ids.at[0];
	if (id && fetch_edited(r))
		return STATUS_FAILED;
	r->marks = redis_query_open(c);
	return feed(r, missed);
}

static int retry_letters(const struct invocation *in)
{
	struct retry r = {.in = in, .o = in->options, .session = session_open(in->config)};
	int status = r.session ? effects_guard_check(r.session, in->config) : STATUS_FAILED;

	if (status == STATUS_FINE)
		status = retry(&r);
	letters_walk_end(&r.walk);
	session_drop(r.page);
	redis_query_close(r.marks);
	envelope_free(r.envelope);
	json_decref(r.told);
	free(r.bytes);
	for (size_t i = 0; i < r.sources.count; i++)
		free(r.sources.items[i]);
	free(r.sources.items);
	session_close(r.session);
	return status;
}

/* A delivery is made pending, and the relays of the fleet do the rest. */
static int run_retry(const struct invocation *in)
{
	const struct retry_options *o = in->options;
	const struct bulk_change change = {
		.filter = o->filter,
		.note = o->note,
		.is_json = o->is_json,
		.sql = deliveries_retry_sql,
		.done_as = "retried",
		.is_delivered = true,
	};

	return o->filter.is_deliveries ? bulk_change_run(in, &change) : retry_letters(in);
}

static const char *check_retry(const struct invocation *in)
{
	const struct retry_options *o = in->options;
	char *id = (char *)o->id;

	if (!o->raw_file != !o->id)
		return "--raw-file FILE and --id ID go together: one of them is missing";
	if (id && o->filter.is_deliveries)
		return "--raw-file and --id do not go with --deliveries, which sends the stored payload";
	if (id && letters_is_choice(&o->filter, o->is_all, in->word_count))
		return "--id chooses one letter; drop the other ids and filters";
	if (!id && !letters_is_choice(&o->filter, o->is_all, in->word_count))
		return "nothing chosen to retry: give ids, a filter, or --all";
	return id ? letters_check(&o->filter, &id, 1) : letters_check(&o->filter, in->words, in->word_count);
}

const struct subcommand dead_letters_retry = {
	.name = "dead-letters retry",
	.arguments = "[ID ...]",
	.summary = "store or deliver them after all, also after editing",
	.help = "Feeds dead letters through the ordinary way once more: claims, batches, the unique key; so none\n"
		"can be stored twice. Those that are stored, or were already, are off the list. The others stay, with\n"
		"their new reason. An edited message (show --raw ID >FILE) is fed by --id ID --raw-file FILE. With\n"
		"--deliveries, dead deliveries are pending again: the fleet sends them with the same "
		"Idempotency-Key.\n",
	.most_words = -1,
	.options = retry_options,
	.option_count = sizeof(retry_options) / sizeof(retry_options[0]),
	.options_size = sizeof(struct retry_options),
	.check = check_retry,
	.run = run_retry,
};
