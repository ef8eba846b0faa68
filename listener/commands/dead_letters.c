/* dead_letters.c owns `wsonce dead-letters list`, `show` and `discard`: looking at what could not be
 * stored, and putting it away. `retry`, which stores it after all, is retry.c's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "letters.h"
#include "output.h"
#include "utf8.h"

#define EXAMPLES     "3"
#define DISCARD_PAGE 1000

/* --- list --- */

struct list_options {
	struct letter_filter filter;
	int64_t groups;
	bool is_json;
};

static const struct option list_options[] = {
	LETTERS_OPTIONS(struct list_options),
	{"state", OPTION_CHOICE, offsetof(struct list_options, filter.state), "STATE", 0, 0, "open resolved all",
	 "open (the default), resolved or all"},
	{"limit", OPTION_NUMBER, offsetof(struct list_options, groups), "N", 1, 1000000, NULL,
	 "at most so many reasons, the most frequent first (20)"},
	{"json", OPTION_SWITCH, offsetof(struct list_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const struct list_options list_defaults = {.groups = 20};

/* Reasons differ in numbers and quoted words, which would make a group of each; the SQLSTATE at the end
 * of one is kept. */
static const char sql_list[] =
	"WITH ranked AS (SELECT id, event_id, reason, first_seen, last_seen, seen, kind,"
	"  row_number() OVER (PARTITION BY kind ORDER BY last_seen DESC, id DESC) AS rank"
	"  FROM dead_letters, regexp_replace(reason, '\"[^\"]*\"|[0-9]+(?![0-9A-Z]*\\)$)', '…', 'g') AS kind"
	"  WHERE id = ANY($1::bigint[]))"
	" SELECT CASE WHEN min(reason) = max(reason) THEN min(reason) ELSE kind END, count(*), sum(seen)::bigint,"
	" " LETTERS_TIME("min(first_seen)") ", " LETTERS_TIME(
		"max(last_seen)") ","
				  " json_agg(json_build_object('id', id, 'event_id', event_id, 'reason', reason,"
				  "  'last_seen', " LETTERS_TIME(
					  "last_seen") ") ORDER BY rank) FILTER (WHERE rank <= " EXAMPLES "),"
						       " count(*) OVER ()"
						       " FROM ranked GROUP BY kind ORDER BY 2 DESC, 1 LIMIT $2::bigint";

static void print_example(const json_t *example)
{
	const char *event_id = json_string_value(json_object_get(example, "event_id"));

	printf("          %" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(example, "id")));
	if (event_id) {
		fputs("  ", stdout);
		output_text(event_id, strlen(event_id), true);
	}
	putchar('\n');
}

static void print_group(const struct pg_result *rows, size_t row, const json_t *examples)
{
	const char *reason = session_text(rows, row, 0);
	size_t i;
	json_t *example;

	printf("\n%8" PRId64 "  ", session_number(rows, row, 1));
	output_text(reason, strlen(reason), true);
	printf("\n          seen %" PRId64 " times, from %s to %s\n", session_number(rows, row, 2),
	       session_text(rows, row, 3), session_text(rows, row, 4));
	json_array_foreach(examples, i, example) print_example(example);
}

static json_t *make_group(const struct pg_result *rows, size_t row, json_t *examples)
{
	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:O}", "reason", session_text(rows, row, 0), "letters",
			 (json_int_t)session_number(rows, row, 1), "seen", (json_int_t)session_number(rows, row, 2),
			 "first_seen", session_text(rows, row, 3), "last_seen", session_text(rows, row, 4), "examples",
			 examples);
}

static void print_list(const struct pg_result *rows, size_t letters, bool is_json)
{
	int64_t groups = session_count(rows) ? session_number(rows, 0, 6) : 0;
	struct output out;

	if (is_json) {
		output_open(&out);
		output_member(&out, "letters", json_integer((json_int_t)letters));
		output_member(&out, "reasons", json_integer(groups));
		output_list(&out, "groups");
	} else {
		printf("dead letters: %zu, reasons: %" PRId64 "\n", letters, groups);
	}
	for (size_t i = 0; i < session_count(rows); i++) {
		json_t *examples = json_loads(session_text(rows, i, 5), 0, NULL);

		if (is_json)
			output_item(&out, make_group(rows, i, examples));
		else
			print_group(rows, i, examples);
		json_decref(examples);
	}
	if (is_json) {
		output_list_end(&out);
		output_close(&out);
	} else if ((int64_t)session_count(rows) < groups) {
		printf("\nand %" PRId64 " more reasons: --limit\n", groups - (int64_t)session_count(rows));
	}
}

static int list(struct session *s, const struct config *config, const struct list_options *o)
{
	struct letter_ids ids;
	struct pg_result *rows = NULL;
	char limit[24], *array;
	const char *values[2];

	if (letters_select(s, config, &o->filter, &ids))
		return STATUS_FAILED;
	snprintf(limit, sizeof(limit), "%" PRId64, o->groups);
	array = letters_array(&ids, 0, ids.count);
	values[0] = array;
	values[1] = limit;
	if (array)
		rows = session_ask(s, sql_list, 2, values);
	if (rows)
		print_list(rows, ids.count, o->is_json);
	session_drop(rows);
	free(array);
	letters_free(&ids);
	return rows ? STATUS_FINE : STATUS_FAILED;
}

static int run_list(const struct invocation *in)
{
	struct session *s = session_open(in->config);
	int status = s ? list(s, in->config, in->options) : STATUS_FAILED;

	session_close(s);
	return status;
}

const struct subcommand dead_letters_list = {
	.name = "dead-letters list",
	.arguments = "",
	.summary = "what could not be stored, grouped by reason",
	.help = "Lists the dead letters that are open, grouped by reason, with the latest of each. Reasons that\n"
		"differ only in numbers and quoted words are one.\n",
	.options = list_options,
	.option_count = sizeof(list_options) / sizeof(list_options[0]),
	.options_size = sizeof(struct list_options),
	.defaults = &list_defaults,
	.run = run_list,
};

/* --- show --- */

struct show_options {
	bool is_raw;
	bool is_json;
};

static const struct option show_options[] = {
	{"raw", OPTION_SWITCH, offsetof(struct show_options, is_raw), NULL, 0, 0, NULL,
	 "nothing but the message, byte for byte, to be edited and fed back by retry --raw-file"},
	{"json", OPTION_SWITCH, offsetof(struct show_options, is_json), NULL, 0, 0, NULL,
	 "one JSON object; a message that is not UTF-8 is in raw_base64"},
};

/* The columns that both forms print, in this order, and what they are called. */
static const char *const show_names[] = {"id",          "event_id",    "reason",     "state",     "resolution",
					 "resolved_at", "seen",        "first_seen", "last_seen", "bytes",
					 "is_whole",    "instance_id", "sha256",     "raw"};
enum { SHOW_ID, SHOW_IS_WHOLE = 10, SHOW_RAW = 13, SHOW_BASE64 };

static const char sql_show[] =
	"SELECT id, event_id, reason, CASE WHEN " LETTERS_OPEN " THEN 'open' ELSE 'resolved' END, resolution,"
	" " LETTERS_TIME("resolved_at") ", seen, " LETTERS_TIME("first_seen") ", " LETTERS_TIME(
		"last_seen") ","
			     " length(raw), sha256(raw) = digest, instance_id, encode(digest, 'hex'), raw,"
			     " translate(encode(raw, 'base64'), E'\\n', '')"
			     " FROM dead_letters WHERE id = $1::bigint";

static const char sql_actions[] =
	"SELECT " LETTERS_TIME("done_at") ", action, outcome, db_user, instance_id, note"
					  " FROM dead_letter_actions WHERE letter_id = $1::bigint ORDER BY id";

static json_t *make_column(const struct pg_result *row, int column)
{
	if (session_is_null(row, 0, column))
		return json_null();
	if (column == SHOW_IS_WHOLE)
		return json_boolean(session_flag(row, 0, column));
	if (column == SHOW_ID || strcmp(show_names[column], "seen") == 0 || strcmp(show_names[column], "bytes") == 0)
		return json_integer((json_int_t)session_number(row, 0, column));
	return output_string(session_text(row, 0, column));
}

static json_t *make_actions(const struct pg_result *rows)
{
	json_t *actions = json_array();

	for (size_t i = 0; i < session_count(rows); i++)
		json_array_append_new(
			actions, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*}", "done_at", session_text(rows, i, 0),
					   "action", session_text(rows, i, 1), "outcome", session_text(rows, i, 2),
					   "db_user", session_text(rows, i, 3), "instance_id", session_text(rows, i, 4),
					   "note", session_is_null(rows, i, 5) ? NULL : session_text(rows, i, 5)));
	return actions;
}

static void show_json(const struct pg_result *row, const struct pg_result *actions, const char *raw, size_t len,
		      struct slice type)
{
	struct output out;
	json_t *text = is_utf8(raw, len) ? json_stringn(raw, len) : NULL;

	output_open(&out);
	for (int i = 0; i < SHOW_RAW; i++)
		output_member(&out, show_names[i], make_column(row, i));
	output_member(&out, "event_type", type.len ? json_stringn(type.at, type.len) : json_null());
	output_member(&out, "actions", make_actions(actions));
	if (text)
		output_member(&out, "raw", text);
	else
		output_member(&out, "raw_base64", output_string(session_text(row, 0, SHOW_BASE64)));
	output_close(&out);
}

static void show_text(const struct pg_result *row, const struct pg_result *actions, const char *raw, size_t len,
		      struct slice type)
{
	for (int i = 0; i < SHOW_RAW; i++) {
		const char *text = session_text(row, 0, i);

		if (session_is_null(row, 0, i) || i == SHOW_IS_WHOLE)
			continue;
		printf("%-12s ", show_names[i]);
		output_text(text, strlen(text), true);
		putchar('\n');
	}
	if (type.len) {
		printf("%-12s ", "event_type");
		output_text(type.at, type.len, true);
		putchar('\n');
	}
	for (size_t i = 0; i < session_count(actions); i++) {
		printf("%-12s %s %s: %s, by %s as %s", "action", session_text(actions, i, 0),
		       session_text(actions, i, 1), session_text(actions, i, 2), session_text(actions, i, 3),
		       session_text(actions, i, 4));
		if (!session_is_null(actions, i, 5))
			fputs(": ", stdout);
		output_text(session_text(actions, i, 5), strlen(session_text(actions, i, 5)), true);
		putchar('\n');
	}
	if (!session_flag(row, 0, SHOW_IS_WHOLE))
		puts("\nThe message was over --max-message: this is the head of it.");
	putchar('\n');
	output_text(raw, len, false);
	putchar('\n');
}

static int show_row(struct session *s, const struct invocation *in, const struct pg_result *row)
{
	const struct show_options *o = in->options;
	struct envelope *reader = letters_type_reader(in->config);
	const char *values[] = {in->words[0]};
	struct pg_result *actions = session_ask(s, sql_actions, 1, values);
	size_t len = 0;
	char *raw = session_bytes(row, 0, SHOW_RAW, &len);
	int status = reader && actions && raw ? STATUS_FINE : STATUS_FAILED;

	if (status == STATUS_FINE && o->is_raw)
		fwrite(raw, 1, len, stdout);
	else if (status == STATUS_FINE && o->is_json)
		show_json(row, actions, raw, len, letters_type(reader, raw, len));
	else if (status == STATUS_FINE)
		show_text(row, actions, raw, len, letters_type(reader, raw, len));
	free(raw);
	session_drop(actions);
	envelope_free(reader);
	return status;
}

static int run_show(const struct invocation *in)
{
	struct session *s = session_open(in->config);
	const char *values[] = {in->words[0]};
	struct pg_result *row = s ? session_ask(s, sql_show, 1, values) : NULL;
	int status = STATUS_FAILED;

	if (row && !session_count(row))
		dispatch_fail("%s: there is no such dead letter", in->words[0]);
	else if (row)
		status = show_row(s, in, row);
	session_drop(row);
	session_close(s);
	return status;
}

static const char *check_show(const struct invocation *in)
{
	const struct show_options *o = in->options;

	if (o->is_raw && o->is_json)
		return "--raw and --json do not go together";
	return letters_check_words(in->words, in->word_count);
}

const struct subcommand dead_letters_show = {
	.name = "dead-letters show",
	.arguments = "ID",
	.summary = "everything about one of them, its message too",
	.help = "Shows one dead letter: why, when and how often it was seen, what was done to it, and its message.\n",
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
	bool is_json;
};

static const struct option discard_options[] = {
	LETTERS_OPTIONS(struct discard_options),
	{"limit", OPTION_NUMBER, offsetof(struct discard_options, filter.limit), "N", 1, INT64_MAX, NULL,
	 "at most so many, the oldest first"},
	{"all", OPTION_SWITCH, offsetof(struct discard_options, is_all), NULL, 0, 0, NULL, "all that are open"},
	{"note", OPTION_TEXT, offsetof(struct discard_options, note), "TEXT", 0, 0, NULL, "is recorded with it"},
	{"json", OPTION_SWITCH, offsetof(struct discard_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* In the order of bury.sql, so that the two do not wait for each other. */
static const char sql_discard[] =
	"WITH locked AS (SELECT id FROM dead_letters WHERE id = ANY($1::bigint[]) AND " LETTERS_OPEN
	"  ORDER BY digest FOR UPDATE),"
	" gone AS (UPDATE dead_letters d SET resolved_at = now(), resolution = 'discarded' FROM locked"
	"  WHERE d.id = locked.id RETURNING d.id, d.digest, d.event_id)"
	" INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)"
	" SELECT id, digest, event_id, 'discard', 'discarded', $2::text, $3::text FROM gone RETURNING letter_id";

/* Returns how many were discarded, or -1. */
static int64_t discard_ids(struct session *s, const struct invocation *in, const struct letter_ids *ids)
{
	const struct discard_options *o = in->options;
	int64_t done = 0;

	for (size_t i = 0; i < ids->count; i += DISCARD_PAGE) {
		size_t n = ids->count - i < DISCARD_PAGE ? ids->count - i : DISCARD_PAGE;
		char *array = letters_array(ids, i, n);
		const char *values[] = {array, o->note, in->config->instance_id};
		struct pg_result *rows = array ? session_ask(s, sql_discard, 3, values) : NULL;

		free(array);
		if (!rows)
			return -1;
		done += (int64_t)session_count(rows);
		session_drop(rows);
	}
	return done;
}

static int discard(struct session *s, const struct invocation *in)
{
	const struct discard_options *o = in->options;
	struct letter_filter filter = o->filter;
	struct letter_ids ids;
	struct output out;
	int missed;
	int64_t done;

	filter.words = in->words;
	filter.word_count = in->word_count;
	if (letters_select(s, in->config, &filter, &ids))
		return STATUS_FAILED;
	missed = letters_miss(&filter, &ids);
	done = discard_ids(s, in, &ids);
	letters_free(&ids);
	if (done < 0)
		return STATUS_FAILED;
	if (o->is_json) {
		output_open(&out);
		output_member(&out, "discarded", json_integer(done));
		output_close(&out);
	} else {
		printf("discarded %" PRId64 "\n", done);
	}
	return missed ? STATUS_FAILED : STATUS_FINE;
}

static int run_discard(const struct invocation *in)
{
	struct session *s = session_open(in->config);
	int status = s ? discard(s, in) : STATUS_FAILED;

	session_close(s);
	return status;
}

static const char *check_discard(const struct invocation *in)
{
	const struct discard_options *o = in->options;

	if (!letters_is_choice(&o->filter, o->is_all, in->word_count))
		return "discard what? give ids, a filter, or --all";
	return letters_check_words(in->words, in->word_count);
}

const struct subcommand dead_letters_discard = {
	.name = "dead-letters discard",
	.arguments = "[ID ...]",
	.summary = "puts them away; each is open again when it comes again",
	.help = "Takes dead letters off the list. They stay in the table, with who did so and when, and are open\n"
		"again when the same message comes again.\n",
	.most_words = -1,
	.options = discard_options,
	.option_count = sizeof(discard_options) / sizeof(discard_options[0]),
	.options_size = sizeof(struct discard_options),
	.check = check_discard,
	.run = run_discard,
};
