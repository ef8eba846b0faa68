/* dead_letters.c owns `wsonce dead-letters list`, `show` and `discard`: looking at what could not be
 * stored or delivered, and putting it away. `retry` is retry.c's, deliveries are deliveries.c's. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "commands/bulk_change.h"
#include "base/memory.h"
#include "commands/deliveries.h"
#include "commands/dispatch.h"
#include "commands/letter_groups.h"
#include "commands/letters.h"
#include "commands/json_out.h"
#include "commands/letter_record.h"
#include "base/text.h"
#include "elsewhere.sql.h"

/* --- list --- */

struct list_options {
	struct letter_filter filter;
	int64_t groups;
	int64_t examples;
	bool is_json;
};

static const struct option list_options[] = {
	LETTERS_OPTIONS(struct list_options),
	{"state", OPTION_CHOICE, offsetof(struct list_options, filter.state), "STATE", 0, 0, "open resolved all",
	 "open (the default), resolved or all"},
	{"limit", OPTION_NUMBER, offsetof(struct list_options, groups), "N", 1, 1000000, NULL,
	 "at most N reasons, the most frequent first (20)"},
	{"newest", OPTION_NUMBER, offsetof(struct list_options, filter.newest), "N", 0, 1000000000, NULL,
	 "look at the N newest only (20000); 0 is all"},
	{"examples", OPTION_NUMBER, offsetof(struct list_options, examples), "N", 0, 1000, NULL,
	 "name the N latest of each reason (3)"},
	{"json", OPTION_SWITCH, offsetof(struct list_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const struct list_options list_defaults = {.filter = {.newest = 20000}, .groups = 20, .examples = 3};

static const char sql_list[] =
	"WITH ranked AS (SELECT id, event_id, reason, first_seen, last_seen, seen, kind,"
	"  row_number() OVER (PARTITION BY kind ORDER BY last_seen DESC, id DESC) AS rank"
	"  FROM :schema.dead_letters, pg_catalog.regexp_replace(reason, " LETTERS_FOLD
	") AS kind WHERE id = ANY($1::bigint[])),"
	" grouped AS (SELECT CASE WHEN pg_catalog.min(reason) = pg_catalog.max(reason) THEN pg_catalog.min(reason) "
	"ELSE kind END AS reason,"
	"  count(*) AS n, pg_catalog.sum(seen)::bigint AS seen, "
	"pg_catalog.to_char(pg_catalog.min(first_seen)" LETTERS_UTC ") AS first,"
	"  pg_catalog.to_char(pg_catalog.max(last_seen)" LETTERS_UTC ") AS last,"
	"  pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason,"
	"   'last_seen', pg_catalog.to_char(last_seen" LETTERS_UTC
	")) ORDER BY rank) FILTER (WHERE rank <= $3::bigint) AS examples,"
	"  count(*) OVER () AS groups"
	"  FROM ranked GROUP BY kind ORDER BY 2 DESC, 1 LIMIT $2::bigint)"
	" SELECT reason, n, seen, first, last, pg_catalog.json_build_object('reason', reason, 'letters', n, 'seen', "
	"seen,"
	"  'first_seen', first, 'last_seen', last, 'examples', examples), groups"
	" FROM grouped ORDER BY n DESC, reason";

#define LITE_UTC(column) "substr(" column ", 1, 23) || 'Z'"

static const char lite_list[] =
	"WITH ranked AS (SELECT id, event_id, reason, first_seen, last_seen, seen, wsonce_fold(reason) AS kind,"
	"  row_number() OVER (PARTITION BY wsonce_fold(reason) ORDER BY last_seen DESC, id DESC) AS rank"
	"  FROM dead_letters WHERE id IN " LETTERS_LITE_IDS(
		"?1") "),"
		      " grouped AS (SELECT CASE WHEN min(reason) = max(reason) THEN min(reason) ELSE kind END AS "
		      "reason, count(*) AS n,"
		      "  sum(seen) AS seen, " LITE_UTC("min(first_seen)") " AS first, " LITE_UTC(
			      "max(last_seen)") " AS last,"
						"  (SELECT json_group_array(json_object('id', id, 'event_id', "
						"event_id, 'reason', reason, 'last_seen', " LITE_UTC(
							"last_seen") ")) FROM (SELECT * FROM ranked AS few WHERE "
								     "few.kind = r.kind AND rank <= CAST(?3 AS "
								     "INTEGER) ORDER BY rank))"
								     "  AS examples, count(*) OVER () AS groups"
								     "  FROM ranked AS r GROUP BY kind ORDER BY 2 "
								     "DESC, 1 LIMIT CAST(?2 AS INTEGER))"
								     " SELECT reason, n, seen, first, last, "
								     "json_object('reason', reason, 'letters', n, "
								     "'seen', seen, 'first_seen', first,"
								     " 'last_seen', last, 'examples', json(examples)), "
								     "groups FROM grouped ORDER BY n DESC, reason";

static const struct letter_groups letter_groups = {
	.lite_sql = lite_list,
	.title = "dead letters",
	.name = "letters",
	.times = "seen",
	.sql = sql_list,
};

/* What is open and not on this list. */
static int print_elsewhere(struct session *s, const struct config *config, struct json_out *out)
{
	const char *values[] = {config->consumer};
	struct pg_result *rows = session_ask_either(s, SQL_ELSEWHERE, "SELECT '[]', NULL, 0, '0'", 1, values);
	int64_t deliveries = rows ? session_number(rows, 0, 2) : 0;

	if (!rows)
		return -1;
	if (out) {
		json_out_member(out, "of_other_consumers", json_loads(session_text(rows, 0, 0), 0, NULL));
		json_out_member(out, "dead_deliveries", json_integer((json_int_t)deliveries));
	} else {
		if (!session_is_null(rows, 0, 1))
			printf("\nof other fleets: %s (--consumer NAME lists them)\n", session_text(rows, 0, 1));
		if (deliveries)
			printf("\ndead deliveries: %s (--deliveries lists them)\n", session_text(rows, 0, 3));
	}
	session_drop(rows);
	return 0;
}

static int list(struct session *s, const struct config *config, const struct list_options *o)
{
	bool is_deliveries = o->filter.is_deliveries;
	struct json_out json = {false, false}, *out = o->is_json ? &json : NULL;
	struct letter_ids ids;
	int failed;

	if (letters_select(s, config, &o->filter, &ids))
		return STATUS_FAILED;
	if (out)
		json_out_open(out);
	failed = letter_groups_print(is_deliveries ? &deliveries_groups : &letter_groups, s, &ids, o->groups,
				     o->examples, out) ||
		 (!is_deliveries && print_elsewhere(s, config, out));
	if (out)
		json_out_close(out);
	letters_free(&ids);
	return failed ? STATUS_FAILED : STATUS_FINE;
}

static int run_list(const struct invocation *in)
{
	struct session *s = session_open(in->config);
	int status = s ? list(s, in->config, in->options) : STATUS_FAILED;

	session_close(s);
	return status;
}

static const char *check_list(const struct invocation *in)
{
	const struct list_options *o = in->options;

	return letters_check(&o->filter, NULL, 0);
}

const struct subcommand dead_letters_list = {
	.name = "dead-letters list",
	.arguments = "",
	.summary = "list what could not be stored or delivered, grouped by reason",
	.help = "Lists the dead letters that are open, grouped by reason, with the latest of each. Reasons that\n"
		"differ only in numbers and quoted words are one. With --consumer, those of that consumer's fleet.\n"
		"With --deliveries, what could not be delivered to webhooks, by target and reason.\n",
	.options = list_options,
	.option_count = sizeof(list_options) / sizeof(list_options[0]),
	.options_size = sizeof(struct list_options),
	.defaults = &list_defaults,
	.check = check_list,
	.run = run_list,
};

/* --- show --- */

struct show_options {
	bool is_deliveries;
	bool is_raw;
	bool is_json;
};

static const struct option show_options[] = {
	{"deliveries", OPTION_SWITCH, offsetof(struct show_options, is_deliveries), NULL, 0, 0, NULL,
	 "ID is that of a webhook delivery"},
	{"raw", OPTION_SWITCH, offsetof(struct show_options, is_raw), NULL, 0, 0, NULL,
	 "print only the message, byte for byte (edit it, then retry --raw-file), or the payload"},
	{"json", OPTION_SWITCH, offsetof(struct show_options, is_json), NULL, 0, 0, NULL,
	 "one JSON object; a message that is not UTF-8 is in raw_base64"},
};

/* A consumer's digest is that of its letter; the message's own is not known if only its head is kept. */
static const char sql_show[] =
	"SELECT pg_catalog.json_build_object('id', id, 'consumer', consumer, 'sender', sender, 'source', source, "
	"'event_id', event_id, "
	"'reason', CASE WHEN NOT " LETTERS_OPEN " OR NOT CASE WHEN consumer = '' THEN"
	" EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = d.event_id OFFSET 0) ELSE EXISTS (SELECT FROM"
	" :schema.processed_events AS p WHERE p.consumer = d.consumer AND p.event_id = d.event_id OFFSET 0) END"
	" THEN reason ELSE 'a message with this event_id is stored; this one was refused: ' ||"
	" reason END,"
	" 'state', CASE WHEN " LETTERS_OPEN " THEN 'open' ELSE 'resolved' END, 'resolution', resolution,"
	" 'resolved_at', pg_catalog.to_char(resolved_at" LETTERS_UTC "), 'seen', seen,"
	" 'first_seen', pg_catalog.to_char(first_seen" LETTERS_UTC
	"), 'last_seen', pg_catalog.to_char(last_seen" LETTERS_UTC "),"
	" 'bytes', pg_catalog.length(raw), 'is_whole', " LETTERS_WHOLE ", 'instance_id', instance_id, 'sha256',"
	"  pg_catalog.encode(CASE WHEN consumer = '' AND event_type IS NULL THEN digest WHEN " LETTERS_WHOLE
	" THEN pg_catalog.sha256(raw) END, 'hex')),"
	" (SELECT pg_catalog.json_agg(pg_catalog.json_strip_nulls(pg_catalog.json_build_object('done_at', "
	"pg_catalog.to_char(done_at" LETTERS_UTC "),"
	"   'action', action, 'outcome', outcome, 'db_user', db_user, 'instance_id', instance_id, 'note', note))"
	"   ORDER BY a.id) FROM :schema.dead_letter_actions AS a WHERE letter_id = d.id), raw, event_type"
	" FROM :schema.dead_letters AS d WHERE id = $1::bigint";

static const char lite_show[] =
	"SELECT json_object('id', id, 'consumer', consumer, 'sender', sender, 'source', source, 'event_id', event_id,"
	" 'reason', CASE WHEN " LETTERS_OPEN " AND EXISTS (SELECT 1 FROM events AS e WHERE e.event_id = d.event_id)"
	" THEN 'a message with this event_id is stored; this one was refused: ' || reason ELSE reason END,"
	" 'state', iif(" LETTERS_OPEN ", 'open', 'resolved'), 'resolution', resolution, 'resolved_at', " LITE_UTC(
		"reso"
		"lved"
		"_at") ", 'seen', seen, 'first_seen', " LITE_UTC("first_seen") ", 'last_seen', " LITE_UTC("last_seen") ", 'bytes', length(raw), 'is_whole', "
														       "json(iif(" LETTERS_LITE_WHOLE
														       ", 'true', 'false')),"
														       " 'instance_id', instance_id, 'sha256', "
														       "lower(hex(iif(event_type IS NULL, digest, "
														       "wsonce_sha256(raw))))),"
														       " (SELECT json_group_array(json_patch('{}', "
														       "json_object('done_at', " LITE_UTC(
															       "done_at") ", 'action', action,"
																	  " 'outcome', outcome, "
																	  "'db_user', db_user, "
																	  "'instance_id', instance_id, "
																	  "'note', note))) FROM (SELECT "
																	  "* FROM"
																	  " dead_letter_actions WHERE "
																	  "letter_id = d.id ORDER BY "
																	  "id) HAVING count(*)), raw, "
																	  "event_type"
																	  " FROM dead_letters AS d "
																	  "WHERE id = CAST(?1 AS "
																	  "INTEGER)";

/* Bytes that JSON has no text for. */
static json_t *make_base64(const char *bytes, size_t len)
{
	char *text = memory_alloc((len + 2) / 3 * 4 + 1);
	json_t *value;

	EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes, (int)len);
	value = json_string(text);
	free(text);
	return value;
}

static void show_json(const struct letter_record *record, const char *raw, size_t len)
{
	json_t *text = is_utf8(raw, len) ? json_stringn(raw, len) : NULL;
	struct json_out out;

	json_out_open(&out);
	letter_record_json(record, &out);
	json_out_member(&out, text ? "raw" : "raw_base64", text ? text : make_base64(raw, len));
	json_out_close(&out);
}

static void show_text(const struct letter_record *record, const char *raw, size_t len)
{
	letter_record_text(record);
	if (json_is_false(json_object_get(record->fields, "is_whole")))
		puts("\nThe message was over --max-message: this is the head of it.");
	putchar('\n');
	json_out_text(raw, len, false);
	putchar('\n');
}

/* What its profile has read, or what the pointers find in it. */
static json_t *find_type(struct envelope *reader, const struct pg_result *row, const char *raw, size_t len)
{
	struct slice type;

	if (!session_is_null(row, 0, 3))
		return json_string(session_text(row, 0, 3));
	type = letters_type(reader, raw, len);
	return type.len ? json_stringn(type.at, type.len) : json_null();
}

static int show_record(const struct invocation *in, const struct pg_result *row, const char *raw, size_t len)
{
	const struct show_options *o = in->options;
	struct envelope *reader = letters_type_reader(in->config);
	struct letter_record record;
	int failed = letter_record_open(&record, row);

	if (!failed) {
		json_object_set_new(record.fields, "event_type", find_type(reader, row, raw, len));
		if (o->is_json)
			show_json(&record, raw, len);
		else
			show_text(&record, raw, len);
	}
	letter_record_close(&record);
	envelope_free(reader);
	return failed ? STATUS_FAILED : STATUS_FINE;
}

static int show(struct session *s, const struct invocation *in)
{
	const struct show_options *o = in->options;
	const char *values[] = {in->words[0]};
	struct pg_result *row = session_ask_either(s, sql_show, lite_show, 1, values);
	size_t len = 0;
	char *raw = row && session_count(row) ? session_bytes(row, 0, 2, &len) : NULL;
	int status = STATUS_FAILED;

	if (row && !session_count(row))
		dispatch_fail("no dead letter %s", in->words[0]);
	else if (raw && !o->is_raw)
		status = show_record(in, row, raw, len);
	else if (raw)
		status = fwrite(raw, 1, len, stdout) == len ? STATUS_FINE : STATUS_FAILED;
	free(raw);
	session_drop(row);
	return status;
}

static int run_show(const struct invocation *in)
{
	const struct show_options *o = in->options;
	struct session *s = session_open(in->config);
	int status = STATUS_FAILED;

	if (s && o->is_deliveries)
		status = deliveries_show(s, in->words[0], o->is_raw, o->is_json);
	else if (s)
		status = show(s, in);
	session_close(s);
	return status;
}

static const char *check_show(const struct invocation *in)
{
	const struct show_options *o = in->options;
	const struct letter_filter filter = {.is_deliveries = o->is_deliveries};

	if (o->is_raw && o->is_json)
		return "--raw and --json do not go together";
	return letters_check(&filter, in->words, in->word_count);
}

const struct subcommand dead_letters_show = {
	.name = "dead-letters show",
	.arguments = "ID",
	.summary = "show one of them, with its message",
	.help = "Shows one dead letter, of any consumer's fleet: why, when and how often it was seen, what was done\n"
		"to it, and its message. With --deliveries, one delivery, its answer and its payload.\n",
	.least_words = 1,
	.most_words = 1,
	.options = show_options,
	.option_count = sizeof(show_options) / sizeof(show_options[0]),
	.options_size = sizeof(struct show_options),
	.check = check_show,
	.run = run_show,
};

/* --- discard --- */

struct discard_options {
	struct letter_filter filter;
	const char *note;
	bool is_all;
	bool is_pending;
	bool is_json;
};

static const struct option discard_options[] = {
	LETTERS_OPTIONS(struct discard_options),
	{"limit", OPTION_NUMBER, offsetof(struct discard_options, filter.limit), "N", 1, INT64_MAX, NULL,
	 "at most N, the oldest first"},
	{"all", OPTION_SWITCH, offsetof(struct discard_options, is_all), NULL, 0, 0, NULL, "all that are open"},
	{"pending", OPTION_SWITCH, offsetof(struct discard_options, is_pending), NULL, 0, 0, NULL,
	 "with --deliveries and --target: those that wait for this webhook"},
	{"note", OPTION_TEXT, offsetof(struct discard_options, note), "TEXT", 0, 0, NULL,
	 "a note to keep with the record"},
	{"json", OPTION_SWITCH, offsetof(struct discard_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* In the order of bury.sql, so that the two do not wait for each other. */
static const char sql_discard[] =
	"WITH locked AS (SELECT id FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) AND " LETTERS_OPEN
	"  AND (retried_at IS NULL OR retried_at < now() - interval '5 minutes') ORDER BY digest FOR UPDATE),"
	" gone AS (UPDATE :schema.dead_letters d SET resolved_at = now(), resolution = 'discarded' FROM locked"
	"  WHERE d.id = locked.id RETURNING d.id, d.digest, d.event_id)"
	" INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)"
	" SELECT id, digest, event_id, 'discard', 'discarded', $2::text, $3::text FROM gone RETURNING letter_id, "
	"event_id";

/* What was done, then what is changed by it, by the same condition. */
#define LITE_CHANGE(action, outcome, condition, set) \
	"INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, " \
	"done_at)" \
	" SELECT id, digest, event_id, '" action "', '" outcome "', ?2, wsonce_user(''), ?3, " LETTERS_LITE_NOW \
	" FROM dead_letters WHERE id IN " LETTERS_LITE_IDS( \
		"?1") " AND " condition ";" \
		      "UPDATE dead_letters SET " set " WHERE id IN " LETTERS_LITE_IDS("?1") " AND " condition \
											    " RETURNING id, event_id"

static const char lite_discard[] = LITE_CHANGE(
	"discard", "discarded",
	LETTERS_OPEN " AND (retried_at IS NULL OR retried_at < strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-5 minutes'))",
	"resolved_at = " LETTERS_LITE_NOW ", resolution = 'discarded'");

static const char lite_reopen[] =
	LITE_CHANGE("reopen", "open", "resolution = 'discarded'", "resolved_at = NULL, resolution = NULL");

static int run_discard(const struct invocation *in)
{
	const struct discard_options *o = in->options;
	struct bulk_change change = {
		.filter = o->filter,
		.note = o->note,
		.is_json = o->is_json,
		.sql = o->filter.is_deliveries ? deliveries_discard_sql : sql_discard,
		.lite_sql = o->filter.is_deliveries ? NULL : lite_discard,
		.forgets = !o->filter.is_deliveries,
		.done_as = "discarded",
	};

	if (o->is_pending) {
		change.filter.state = "pending";
		change.sql = deliveries_discard_pending_sql;
	}
	return bulk_change_run(in, &change);
}

static const char *check_discard(const struct invocation *in)
{
	const struct discard_options *o = in->options;

	if (o->is_pending && !(o->filter.is_deliveries && o->filter.target))
		return "--pending goes with --deliveries and --target";
	if (!letters_is_choice(&o->filter, o->is_all, in->word_count))
		return "nothing chosen to discard: give ids, a filter, or --all";
	return letters_check(&o->filter, in->words, in->word_count);
}

const struct subcommand dead_letters_discard = {
	.name = "dead-letters discard",
	.arguments = "[ID ...]",
	.summary = "take them off the list; a letter opens again when its message comes again",
	.help = "Takes dead letters off the list. They stay in the table, with who did so and when, and are open\n"
		"again when the same message comes again. With --deliveries, dead deliveries to webhooks.\n",
	.most_words = -1,
	.options = discard_options,
	.option_count = sizeof(discard_options) / sizeof(discard_options[0]),
	.options_size = sizeof(struct discard_options),
	.check = check_discard,
	.run = run_discard,
};

/* --- reopen --- */

struct reopen_options {
	struct letter_filter filter;
	const char *note;
	bool is_all;
	bool is_json;
};

static const struct option reopen_options[] = {
	LETTERS_OPTIONS(struct reopen_options),
	{"limit", OPTION_NUMBER, offsetof(struct reopen_options, filter.limit), "N", 1, INT64_MAX, NULL,
	 "at most N, the oldest first"},
	{"all", OPTION_SWITCH, offsetof(struct reopen_options, is_all), NULL, 0, 0, NULL, "all that were discarded"},
	{"note", OPTION_TEXT, offsetof(struct reopen_options, note), "TEXT", 0, 0, NULL,
	 "a note to keep with the record"},
	{"json", OPTION_SWITCH, offsetof(struct reopen_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const char sql_reopen[] =
	"WITH locked AS (SELECT id FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) AND resolution = 'discarded'"
	"  ORDER BY digest FOR UPDATE),"
	" back AS (UPDATE :schema.dead_letters d SET resolved_at = NULL, resolution = NULL FROM locked"
	"  WHERE d.id = locked.id RETURNING d.id, d.digest, d.event_id)"
	" INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)"
	" SELECT id, digest, event_id, 'reopen', 'open', $2::text, $3::text FROM back RETURNING letter_id";

static int run_reopen(const struct invocation *in)
{
	const struct reopen_options *o = in->options;
	struct bulk_change change = {
		.filter = o->filter,
		.note = o->note,
		.is_json = o->is_json,
		.sql = o->filter.is_deliveries ? deliveries_reopen_sql : sql_reopen,
		.lite_sql = o->filter.is_deliveries ? NULL : lite_reopen,
		.done_as = "reopened",
	};

	change.filter.state = "resolved";
	return bulk_change_run(in, &change);
}

static const char *check_reopen(const struct invocation *in)
{
	const struct reopen_options *o = in->options;

	if (!letters_is_choice(&o->filter, o->is_all, in->word_count))
		return "nothing chosen to reopen: give ids, a filter, or --all";
	return letters_check(&o->filter, in->words, in->word_count);
}

const struct subcommand dead_letters_reopen = {
	.name = "dead-letters reopen",
	.arguments = "[ID ...]",
	.summary = "undo a discard",
	.help = "Puts what was discarded back on the list: dead letters, or with --deliveries dead deliveries.\n",
	.most_words = -1,
	.options = reopen_options,
	.option_count = sizeof(reopen_options) / sizeof(reopen_options[0]),
	.options_size = sizeof(struct reopen_options),
	.check = check_reopen,
	.run = run_reopen,
};
