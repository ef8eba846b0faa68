/* dead_letter_walk.c owns the filter of the dead-letters commands: it turns options into pages of ids. */
#include "commands/dead_letters.h"
#include "commands/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "dead_letters_find.sql.h"
#include "deliveries_acted.sql.h"
#include "deliveries_find.sql.h"
#include "sqlite_dead_letters_find.sql.h"

#define PAGE          100000 /* ids in a page */
#define MESSAGES      1000   /* ids in a page with messages */
#define MESSAGE_BYTES "8388608"

/* The ids that a command finds, the lowest first. The planner assumes that an unknown LIMIT is small (see lease.sql),
 * so it reads no more than it must. */
#define IDS(find) "SELECT id, NULL, NULL FROM (" find ") AS found ORDER BY id LIMIT $8::bigint"
/* The same with messages of about MESSAGE_BYTES in all. */
#define WITH_MESSAGES(find, most) \
	"SELECT id, event_type, raw FROM (SELECT *, sum(length(raw)) OVER (ORDER BY id) - length(raw) AS before FROM " \
	"(" find " ORDER BY id LIMIT " most ") AS found) AS page WHERE before < " MESSAGE_BYTES " ORDER BY id"
/* How many of the newest ids there are, at most as many as wanted, and the lowest of them. With a bound of time, the
 * sum keeps the planner from reading all ids, the newest first, for the few of that time. */
#define NEWEST(with, find) \
	"WITH " with \
	"wanted AS MATERIALIZED (SELECT 1 WHERE pg_catalog.set_config('wsonce.wanted', $8::text, true) <> '')" \
	" SELECT count(*), min(id) FROM wanted, LATERAL (SELECT id FROM (" find ") AS found" \
	" ORDER BY CASE WHEN $1::bigint = 0 AND $2::bigint = 0 THEN id ELSE id + 0 END DESC LIMIT" \
	" coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint) AS newest"
/* For deliveries: in the order in which the ids are read. */
#define ACTED(order)   "acted AS (" SQL_DELIVERIES_ACTED " ORDER BY delivery_id" order ")"
#define LITE_IDS(find) "SELECT id, NULL, NULL FROM (" find ") ORDER BY id LIMIT CAST(?8 AS INTEGER)"
#define LITE_NEWEST(find) \
	"SELECT count(*), min(id) FROM (SELECT id FROM (" find ") ORDER BY id DESC LIMIT CAST(?8 AS INTEGER))"

/* For Postgres and SQLite. */
static const struct statements {
	const char *ids[2];
	const char *with_messages[2];
	const char *newest[2];
	const char *last[2]; /* the highest id */
} of_dead_letters = {{IDS(SQL_DEAD_LETTERS_FIND), LITE_IDS(SQL_SQLITE_DEAD_LETTERS_FIND)},
		     {WITH_MESSAGES(SQL_DEAD_LETTERS_FIND, "$8::bigint"),
		      WITH_MESSAGES(SQL_SQLITE_DEAD_LETTERS_FIND, "CAST(?8 AS INTEGER)")},
		     {NEWEST("", SQL_DEAD_LETTERS_FIND), LITE_NEWEST(SQL_SQLITE_DEAD_LETTERS_FIND)},
		     {"SELECT pg_catalog.max(id) FROM :schema.dead_letters", "SELECT max(id) FROM dead_letters"}},
  of_deliveries = {{"WITH " ACTED("") IDS(SQL_DELIVERIES_FIND), NULL},
		   {NULL, NULL},
		   {NEWEST(ACTED(" DESC") ", ", SQL_DELIVERIES_FIND), NULL},
		   {"SELECT pg_catalog.max(id) FROM :schema.outbox", NULL}};

/* --- options --- */

const char *dead_letters_action(const struct invocation *in)
{
	const char *verb = strchr(in->name, ' ') + 1;

	return strcmp(verb, "list") != 0 && strcmp(verb, "show") != 0 ? verb : NULL;
}

static bool is_filtered(const struct given *o)
{
	return o->since_us || o->until_us || o->type || o->reason || o->target;
}

static bool is_id(const char *word)
{
	size_t n = strspn(word, "0123456789");

	return n && !word[n] && n < 19;
}

static const char *check_ids(const struct invocation *in)
{
	static _Thread_local char sentence[160];
	const struct given *o = in->options;
	const char *wrong = o->id && !is_id(o->id) ? o->id : NULL;

	for (int i = 0; i < in->word_count && !wrong; i++)
		wrong = is_id(in->words[i]) ? NULL : in->words[i];
	if (!wrong)
		return NULL;
	snprintf(sentence, sizeof(sentence), "\"%.80s\" is not the id of a dead %s, which is a number", wrong,
		 o->is_deliveries ? "delivery" : "letter");
	return sentence;
}

/* Returns NULL if the options say what to change, else what is wrong. */
static const char *check_choice(const struct invocation *in)
{
	static _Thread_local char sentence[80];
	const struct given *o = in->options;
	bool is_chosen = o->is_all || in->word_count || is_filtered(o);

	if (!o->raw_file != !o->id)
		return "--raw-file FILE and --id ID go together: one of them is missing";
	if (o->id && o->is_deliveries)
		return "--raw-file and --id do not go with --deliveries, which sends the stored payload";
	if (o->id && is_chosen)
		return "--id chooses one letter; drop the other ids and filters";
	if (o->is_all && in->word_count)
		return "--all and ids exclude each other: give either";
	snprintf(sentence, sizeof(sentence), "nothing chosen to %s: give ids, a filter, or --all",
		 dead_letters_action(in));
	return o->id || is_chosen ? NULL : sentence;
}

const char *dead_letters_check(const struct invocation *in)
{
	const struct given *o = in->options;
	const char *wrong = NULL;

	if (o->is_pending && !(o->is_deliveries && o->target))
		wrong = "--pending goes with --deliveries and --target";
	else if (dead_letters_action(in))
		wrong = check_choice(in);
	if (wrong)
		return wrong;
	if (o->is_raw && o->is_json)
		return "--raw and --json do not go together";
	if (o->target && !o->is_deliveries)
		return "--target goes with --deliveries";
	if (o->since_us && o->until_us && o->since_us >= o->until_us)
		return "--since must be before --until; an age such as 7d is a time before now";
	return check_ids(in);
}

/* --- ids --- */

static void add_id(struct dead_letter_ids *ids, int64_t id)
{
	if (ids->count == ids->size) {
		ids->size = ids->size ? ids->size * 2 : 256;
		ids->at = memory_realloc(ids->at, ids->size * sizeof(*ids->at));
	}
	ids->at[ids->count++] = id;
}

char *dead_letter_ids_array(const struct dead_letter_ids *ids, size_t first, size_t most)
{
	size_t end = ids->count - first < most ? ids->count : first + most;
	char *text = memory_alloc((end - first) * 21 + 3), *at = text;

	*at++ = '{';
	for (size_t i = first; i < end; i++)
		at += sprintf(at, "%s%" PRId64, i == first ? "" : ",", ids->at[i]);
	memcpy(at, "}", 2);
	return text;
}

static char *words_array(char **words, int count)
{
	struct dead_letter_ids given = {NULL, 0, 0};
	char *text;

	for (int i = 0; i < count; i++)
		add_id(&given, strtoll(words[i], NULL, 10));
	text = dead_letter_ids_array(&given, 0, given.count);
	free(given.at);
	return text;
}

/* --- the type of a letter, which is in its message --- */

struct envelope *dead_letters_type_reader(const struct config *config)
{
	char *pointer = config->type_pointer;
	const struct config_list list = {&pointer, 1};

	/* The type is read as if it were the id, the only member that must be there. */
	return envelope_new(&list, pointer, "");
}

struct slice dead_letters_type(struct envelope *reader, const char *message, size_t len)
{
	struct envelope_view view;

	return envelope_read(reader, message, len, &view) ? (struct slice){"", 0} : view.id;
}

/* True if the letter in a row has the type that the filter names. */
static bool has_type(const struct dead_letter_walk *w, const struct pg_result *rows, size_t row)
{
	const char *type = w->o->type;
	AUTO_FREE char *raw = NULL;
	struct slice found;
	size_t len;

	if (!session_is_null(rows, row, 1)) /* the statement has compared it */
		return true;
	raw = session_bytes(rows, row, 2, &len);
	found = dead_letters_type(w->reader, raw, len);
	return found.len == strlen(type) && memcmp(found.at, type, found.len) == 0;
}

/* --- pages --- */

/* With these, a page is read in the order of an index, whatever the statistics say. */
static const char settings[] = SESSION_SETTINGS ", pg_catalog.set_config('enable_seqscan', 'off', true)";

/* Runs a statement with the filter's parameters. */
static struct pg_result *ask(const struct dead_letter_walk *w, const char *const sql[2], const char *type,
			     int64_t limit)
{
	const struct given *f = w->o;

	return session_query(w->session, sql[0], sql[1], "nnsssssnnn", f->since_us, f->until_us,
			     f->reason ? f->reason : "", w->state, w->words,
			     f->is_deliveries ? f->target : w->config->consumer, type, limit, w->after, w->end);
}

/* Adds what the next statement finds. */
static int read_page(struct dead_letter_walk *w)
{
	const struct statements *s = w->o->is_deliveries ? &of_deliveries : &of_dead_letters;
	int64_t left = w->o->limit ? w->o->limit - w->found : INT64_MAX, most = left < PAGE ? left : PAGE;
	AUTO_ROWS *rows = ask(w, w->reader ? s->with_messages : s->ids, w->o->type, w->reader ? MESSAGES : most);
	size_t count = rows ? session_count(rows) : 0;

	w->is_over = !count || (!w->reader && (int64_t)count < most);
	for (size_t i = 0; i < count && left; i++) {
		w->after = session_number(rows, i, 0);
		if (w->reader && !has_type(w, rows, i))
			continue;
		add_id(&w->ids, w->after);
		w->found++;
		left--;
	}
	w->is_over = w->is_over || !left;
	return rows ? 0 : -1;
}

int dead_letter_walk_next(struct dead_letter_walk *w)
{
	w->ids.count = 0;
	while (!w->is_over) {
		if (read_page(w))
			return -1;
		if (!w->is_one_page)
			break;
	}
	return 0;
}

/* Skips all that are not among the newest, of any type in the case of dead letters. */
static int begin_at_newest(struct dead_letter_walk *w, const struct statements *s)
{
	const struct given *f = w->o;
	AUTO_ROWS *rows = ask(w, s->newest, f->is_deliveries ? f->type : NULL, f->newest + 1);

	if (rows && session_number(rows, 0, 0) > f->newest) {
		w->looked_at = (size_t)f->newest;
		w->after = session_number(rows, 0, 1);
	}
	return rows ? 0 : -1;
}

void dead_letter_walk_end(struct dead_letter_walk *w)
{
	envelope_free(w->reader);
	free(w->words);
	free(w->ids.at);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Prints which of the given ids are not among those that were found. */
static void tell_missed(struct dead_letter_walk *w, char **words, int count)
{
	const char *state = w->state;
	bool is_deliveries = w->o->is_deliveries;

	for (int i = 0; i < count; i++) {
		int64_t id = strtoll(words[i], NULL, 10);

		if (w->ids.count && bsearch(&id, w->ids.at, w->ids.count, sizeof(id), compare_ids))
			continue;
		dispatch_fail(is_deliveries ? "%s: there is no such %s delivery"
					    : "%s: this fleet (see --consumer) has no such %s dead letter",
			      words[i], is_deliveries && strcmp(state, "open") == 0 ? "dead" : state);
		w->missed++;
	}
}

int dead_letter_walk_begin(struct dead_letter_walk *w, const struct invocation *in)
{
	const struct given *o = in->options;
	const struct statements *sql = o->is_deliveries ? &of_deliveries : &of_dead_letters;
	AUTO_ROWS *rows = session_query(in->session, sql->last[0], sql->last[1], "");
	const char *action = dead_letters_action(in);
	char *id = (char *)o->id, **words = id ? &id : in->words;
	int count = id ? 1 : in->word_count;

	*w = (struct dead_letter_walk){
		.session = in->session, .config = in->config, .o = o, .state = o->state, .after = -1};
	if (!rows)
		return -1;
	session_configure(in->session, settings, 0);
	w->end = session_number(rows, 0, 0);
	if (o->is_pending || id)
		w->state = id ? "all" : "pending";
	else if (action && strcmp(action, "reopen") == 0)
		w->state = "resolved";
	if (count)
		w->words = words_array(words, count);
	w->is_one_page = count || !action;
	if (o->type && !o->is_deliveries)
		w->reader = dead_letters_type_reader(in->config);
	if ((o->newest && begin_at_newest(w, sql)) || dead_letter_walk_next(w))
		return -1;
	tell_missed(w, words, count);
	return 0;
}
